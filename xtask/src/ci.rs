//! `ci`: what has to hold before anything is merged. `.ci/run` calls it, and so can anybody. `bench`: the measured part,
//! which is run and read, and asserts nothing.

use std::ffi::OsString;

use anyhow::{Result, bail};

use crate::tools::browser;
use crate::util::sh::{cargo, say};
use crate::{build, demo, lint, size, test};

/// A command without arguments.
type Step = fn() -> Result<()>;

/// Lint, size, the demo by script, and the tests. These come last, so that their closing lines end the log.
pub fn run() -> Result<()> {
    let steps: [(&str, Step); 4] = [
        ("lint", lint::run),
        ("size", size::run),
        ("demo --check", demo::check_by_script),
        ("test", || test::run(&[])),
    ];
    let mut failed = Vec::new();
    for (name, step) in steps {
        say(format!("ci: {name}"));
        if let Err(error) = step() {
            say(format!("{name}: {error:#}"));
            failed.push(name);
        }
    }
    if !failed.is_empty() {
        bail!("ci failed: {}", failed.join(", "));
    }
    Ok(())
}

/// Crash points: as many as are asked for.
pub fn crashes(args: &[OsString]) -> Result<()> {
    let browser = browser::ensure()?;
    build::all()?;
    let program = ["run", "--quiet", "--package", "patchkeep-e2e", "--bin", "crashes", "--"];
    browser.tell(cargo(&program).args(args)).run()
}

/// The table of latencies, rates and sizes.
pub fn bench() -> Result<()> {
    let browser = browser::ensure()?;
    build::all()?;
    browser.tell(cargo(&["run", "--quiet", "--package", "patchkeep-e2e", "--bin", "bench"])).run()
}
