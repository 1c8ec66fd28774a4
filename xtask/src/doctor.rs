//! `doctor`: everything that is needed, what was found, and what would be installed. It changes nothing.

use crate::tools::{Finding, bindgen, browser, engines, nextest, node, postgres, rust, wasm_opt, wasm_target};
use crate::util::paths;

/// Prints the table.
pub fn run() {
    println!("{}", table(&findings()));
    println!("\ntools are kept in {}", paths::cache().display());
}

fn findings() -> Vec<Finding> {
    let mut all = rust::findings();
    all.push(wasm_target::finding());
    all.extend(bindgen::findings());
    all.extend(node::findings());
    all.push(wasm_opt::finding());
    all.extend(browser::findings());
    all.extend(engines::findings());
    all.push(postgres::finding());
    all.push(nextest::finding());
    all
}

fn table(findings: &[Finding]) -> String {
    let wide = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
    let tools = wide(&mut findings.iter().map(|finding| finding.tool.len()));
    let versions = wide(&mut findings.iter().filter_map(|finding| finding.found.as_ref()).map(|f| f.version.len()));
    let versions = versions.max("missing".len());
    let line = |finding: &Finding| match &finding.found {
        Some(found) => format!("{:tools$}  {:versions$}  {}", finding.tool, found.version, found.place),
        None => format!("{:tools$}  {:versions$}  → {}", finding.tool, "missing", finding.remedy),
    };
    findings.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::table;
    use crate::tools::{Finding, Found};

    #[test]
    fn the_table_says_what_was_found_and_what_would_be_done() {
        let found = Some(Found { version: "20.20.2".into(), place: "/usr/bin/node".into() });
        let findings = [
            Finding { tool: "node", found, remedy: "install it".into() },
            Finding { tool: "wasm-opt", found: None, remedy: "fetch it".into() },
        ];
        assert_eq!(table(&findings), "node      20.20.2  /usr/bin/node\nwasm-opt  missing  → fetch it");
    }
}
