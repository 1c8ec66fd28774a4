//! `size`: what a page has to load, file by file: the module, its bindings, the package's own JavaScript. The budget is
//! in git (`pkg/size-budget.json`, bytes after brotli, beside what it is to become); past it the command fails.
//!
//! Measured as published, each file for itself. A bundler minifies and joins them, so an app loads less than this.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::build;
use crate::tools::node;
use crate::util::files;
use crate::util::paths::{self, at};

const BUDGET: &str = "pkg/size-budget.json";

/// Bytes of one file, or of all together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sizes {
    raw: u64,
    gzip: u64,
    brotli: u64,
}

/// Builds the package, prints the table and compares it with the budget.
pub fn run() -> Result<()> {
    build::package()?;
    let measured = node::node().arg(at("xtask/npm/size.mjs")).args(shipped()?).output()?;
    let rows = parse(&measured)?;
    let total = rows.iter().fold(Sizes::default(), |sum, (_, size)| Sizes {
        raw: sum.raw + size.raw,
        gzip: sum.gzip + size.gzip,
        brotli: sum.brotli + size.brotli,
    });
    let text = files::read(&at(BUDGET))?;
    let budget = number(&text, "brotli")?;
    println!("{:>9} {:>9} {:>9}  file", "raw", "gzip", "brotli");
    for (path, size) in rows.iter().chain([&(PathBuf::from("all"), total)]) {
        println!("{:>9} {:>9} {:>9}  {}", size.raw, size.gzip, size.brotli, paths::short(path));
    }
    let aim = number(&text, "aim").map_or(String::new(), |aim| format!("; the aim is {aim}"));
    println!("budget: {} of {budget} bytes after brotli{aim}", total.brotli);
    if total.brotli > budget {
        bail!("{} bytes over the budget in {BUDGET}", total.brotli - budget);
    }
    Ok(())
}

/// The files a page loads.
fn shipped() -> Result<Vec<PathBuf>> {
    let mut found = files::below(&at("pkg/wasm"))?;
    found.extend(files::below(&at("pkg/dist"))?);
    found.retain(|path| path.extension().is_some_and(|kind| kind == "wasm" || kind == "js"));
    Ok(found)
}

fn parse(measured: &str) -> Result<Vec<(PathBuf, Sizes)>> {
    measured.lines().map(|line| row(line).with_context(|| format!("not a row of sizes: {line}"))).collect()
}

fn row(line: &str) -> Option<(PathBuf, Sizes)> {
    let mut parts = line.splitn(4, '\t');
    let mut number = || parts.next()?.parse().ok();
    let size = Sizes { raw: number()?, gzip: number()?, brotli: number()? };
    Some((parts.next()?.into(), size))
}

/// A number of bytes in the budget file.
fn number(text: &str, name: &str) -> Result<u64> {
    let parsed: serde_json::Value = serde_json::from_str(text).with_context(|| format!("{BUDGET} is not JSON"))?;
    let bytes = parsed.get(name).and_then(serde_json::Value::as_u64);
    bytes.with_context(|| format!("{BUDGET} needs a number of bytes at \"{name}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_budget_are_read_and_anything_else_is_refused() {
        let size = Sizes { raw: 10, gzip: 8, brotli: 7 };
        assert_eq!(parse("10\t8\t7\ta b.js\n").unwrap(), [(PathBuf::from("a b.js"), size)]);
        assert!(parse("10\t8\ta.js\n").is_err());
        assert_eq!(number("{\"brotli\": 76800}", "brotli").unwrap(), 76_800);
        assert!(number("{\"brotli\": \"75 KB\"}", "brotli").is_err());
    }

    #[test]
    fn the_budget_in_git_can_be_read() {
        number(&files::read(&at(BUDGET)).unwrap(), "brotli").unwrap();
    }
}
