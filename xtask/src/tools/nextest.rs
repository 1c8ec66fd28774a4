//! The runner of native tests: cargo-nextest where it is installed, else cargo's own. Both run the same tests, and
//! compiling nextest would take longer than running them; so it is the one tool that is used and never installed.

use super::{Finding, Found};
use crate::util::sh::{Cmd, cargo, say};

/// The start of a call that runs all tests, also after one failed; package options may follow.
pub fn run() -> Cmd {
    if is_here() {
        return cargo(&["nextest", "run", "--no-fail-fast"]);
    }
    say("cargo-nextest is not installed: using cargo test");
    cargo(&["test", "--no-fail-fast", "--all-targets"])
}

fn is_here() -> bool {
    cargo(&["nextest", "--version"]).quiet().is_ok()
}

/// For `doctor`.
pub fn finding() -> Finding {
    let version = cargo(&["nextest", "--version"]).output().ok().as_deref().and_then(super::version_in);
    let found = version.map(|version| Found { version, place: "cargo nextest".into() });
    Finding { tool: "cargo-nextest", found, remedy: "not needed: cargo test is used in its place".into() }
}
