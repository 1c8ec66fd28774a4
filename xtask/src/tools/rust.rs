//! The native Rust toolchain: cargo, and the two components `lint` calls.

use anyhow::{Context, Result, bail};

use super::{Finding, Found};
use crate::util::machine::on_path;
use crate::util::sh::{Cmd, cargo, say};

/// Makes sure that `cargo clippy` and `cargo fmt` can be called.
pub fn ensure_lint_components() -> Result<()> {
    for (subcommand, component) in [("clippy", "clippy"), ("fmt", "rustfmt")] {
        if cargo(&[subcommand, "--version"]).quiet().is_ok() {
            continue;
        }
        if on_path(&["rustup"]).is_none() {
            bail!("`cargo {subcommand}` is missing; please install {component} for your Rust toolchain");
        }
        say(format!("adding {component} with rustup"));
        Cmd::new("rustup")
            .args(["component", "add", component])
            .quiet()
            .with_context(|| format!("`cargo {subcommand}` is missing and rustup could not add {component}"))?;
    }
    Ok(())
}

/// For `doctor`: rustc, clippy and rustfmt.
pub fn findings() -> Vec<Finding> {
    let component = |tool: &'static str, args: &[&str], component: &str| {
        let version = cargo(args).output().ok().as_deref().and_then(super::version_in);
        let found = version.map(|version| Found { version, place: format!("cargo {}", args[0]) });
        Finding { tool, found, remedy: format!("rustup component add {component} (for `lint` only)") }
    };
    vec![
        Finding {
            tool: "rustc",
            found: on_path(&["rustc"]).as_deref().and_then(Found::asked),
            remedy: "install Rust, https://rustup.rs".into(),
        },
        component("clippy", &["clippy", "--version"], "clippy"),
        component("rustfmt", &["fmt", "--version"], "rustfmt"),
    ]
}
