//! `test`: everything that tests the project, in four parts that also run one at a time.
//!
//! A part that fails does not stop the next: one run shows all there is to mend. The run fails if anything failed, if
//! a runner ended badly, or if nothing ran.

mod matrix;
mod summary;
mod vectors;

use anyhow::{Result, bail};
use clap::ValueEnum;

use crate::build;
use crate::tools::{bindgen, browser, engines, nextest, node, postgres, wasm_target};
use crate::util::paths::at;
use crate::util::sh::{Cmd, cargo, say};
use matrix::Cells;
use summary::Summary;

/// What can be tested by itself.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum Part {
    /// The core and its vectors, the reference server on both databases, xtask: no browser
    Native,
    /// src/web and src/wasm in headless Chromium
    Browser,
    /// The TypeScript of the npm package
    Pkg,
    /// Page, package, server and agent together, in headless Chromium and, where engines differ, two more
    E2e,
}

/// Members that are not native: `--workspace` without them is what runs here.
const NOT_NATIVE: [&str; 4] = ["patchkeep-web", "patchkeep-wasm", "patchkeep-e2e", "xtask-bindgen"];

/// Runs these parts, or all if none is named.
pub fn run(parts: &[Part]) -> Result<()> {
    let parts = if parts.is_empty() { Part::value_variants() } else { parts };
    let mut summary = Summary::default();
    for part in parts {
        let name = format!("{part:?}").to_lowercase();
        say(format!("test {name}"));
        let (failed, ran) = (summary.failed(), summary.ran());
        let result = match part {
            Part::Native => native(&mut summary),
            Part::Browser => browser(&mut summary),
            Part::Pkg => package(&mut summary),
            Part::E2e => end_to_end(&mut summary),
        };
        match result {
            Err(error) => {
                eprintln!("xtask: {error:#}");
                // A runner that counted its failures has said it all; anything else is counted here.
                if summary.failed() == failed {
                    let text = format!("{error:#}");
                    summary.fail(format!("{name}: {}", text.lines().next().unwrap_or("failed")));
                }
            }
            Ok(()) if summary.ran() == ran => summary.fail(format!("{name}: no test ran")),
            Ok(()) => {}
        }
    }
    println!("\n{summary}");
    if summary.failed() > 0 {
        bail!("some tests failed");
    }
    Ok(())
}

fn native(summary: &mut Summary) -> Result<()> {
    postgres::ensure()?;
    let mut suite = nextest::run().arg("--workspace");
    for package in NOT_NATIVE {
        suite = suite.args(["--exclude", package]);
    }
    let ended = watch("native tests", suite, summary);
    let documented = watch("doc tests", cargo(&["test", "--quiet", "--doc", "--package", "patchkeep-core"]), summary);
    let vectors = vectors::run(summary);
    ended.and(documented).and(vectors)
}

fn browser(summary: &mut Summary) -> Result<()> {
    let toolchain = wasm_target::ensure()?;
    let browser = browser::ensure()?;
    let runner = bindgen::test_runner()?;
    let suite = toolchain
        .cargo("test")
        .args(["--package", "patchkeep-web", "--package", "patchkeep-wasm", "--tests"])
        .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUNNER", runner)
        .env("WASM_BINDGEN_TEST_ONLY_WEB", "1")
        .env("WASM_BINDGEN_TEST_WEBDRIVER_JSON", browser.capabilities()?);
    watch("browser tests", browser.tell(suite), summary)
}

fn package(summary: &mut Summary) -> Result<()> {
    build::package()?;
    let package = at("pkg");
    if !node::has_script(&package, "test")? {
        bail!("pkg/package.json has no script `test`");
    }
    watch("npm test", node::run_script(&package, "test"), summary)
}

fn end_to_end(summary: &mut Summary) -> Result<()> {
    let (browser, engines) = (browser::ensure()?, engines::ensure()?);
    build::all()?;
    let cells = Cells::fresh()?;
    let suite = cells.tell(engines.tell(browser.tell(nextest::run().args(["--package", "patchkeep-e2e"]))));
    let ended = watch("end-to-end tests", suite, summary);
    println!("\n{}", cells.table()?);
    ended
}

/// Runs a suite in full view and counts what it says.
fn watch(name: &str, suite: Cmd, summary: &mut Summary) -> Result<()> {
    let status = suite.tee(|line| summary.see(line))?;
    if !status.success() {
        bail!("{name} failed ({status})");
    }
    Ok(())
}
