//! `lint`: format, clippy for both kinds of target, documentation, TypeScript. Warnings are errors here and only here.
//!
//! Left out on purpose: cargo-deny and typos. Both are compiled from source where no binary can be fetched, which takes
//! longer than all the rest of this together.

use anyhow::{Result, bail};

use crate::build;
use crate::tools::{node, rust, wasm_target};
use crate::util::paths::at;
use crate::util::sh::{Cmd, cargo, say};

/// Runs every check and fails if any did; the first failure does not hide the next.
pub fn run() -> Result<()> {
    rust::ensure_lint_components()?;
    let toolchain = wasm_target::ensure()?;
    build::package()?;
    node::install_dependencies(&at("www"))?;
    let browser_crates = ["--package", "patchkeep-web", "--package", "patchkeep-wasm"];
    let not_native = ["--exclude", "patchkeep-web", "--exclude", "patchkeep-wasm"];
    let strict = ["--all-targets", "--quiet", "--", "--deny", "warnings"];
    let documented = ["doc", "--quiet", "--no-deps", "--package", "patchkeep-core", "--document-private-items"];
    let checks: Vec<(&str, Cmd)> = vec![
        ("format", cargo(&["fmt", "--all", "--check"])),
        ("clippy", cargo(&["clippy", "--workspace"]).args(not_native).args(strict)),
        ("clippy for wasm32", toolchain.clippy().args(browser_crates).args(strict)),
        ("documentation", cargo(&documented).env("RUSTDOCFLAGS", "--deny warnings")),
        ("types of pkg", node::run_script(&at("pkg"), "lint")),
        ("types of www", node::run_script(&at("www"), "check")),
    ];
    let mut failed = Vec::new();
    for (name, check) in checks {
        say(format!("lint: {name}"));
        if !check.status()?.success() {
            failed.push(name);
        }
    }
    if !failed.is_empty() {
        bail!("lint failed: {}", failed.join(", "));
    }
    Ok(())
}
