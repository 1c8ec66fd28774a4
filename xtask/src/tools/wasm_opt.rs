//! `wasm-opt` from the npm package `binaryen`: one pinned version, so that sizes compare from machine to machine.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{Finding, Found, node};
use crate::util::sh::say;
use crate::util::{files, paths};

const MANIFEST: &str = include_str!("../../npm/package.json");
const LOCK: &str = include_str!("../../npm/package-lock.json");

/// What rustc's wasm32 target makes use of by default, as wasm-opt calls it. wasm-bindgen takes away the section in
/// which the module says so itself.
const FEATURES: [&str; 6] = [
    "--enable-bulk-memory",
    "--enable-multivalue",
    "--enable-mutable-globals",
    "--enable-nontrapping-float-to-int",
    "--enable-reference-types",
    "--enable-sign-ext",
];

/// All that decides what comes out, for stamps.
pub fn recipe() -> String {
    format!("binaryen {} -Oz {}", version(), FEATURES.join(" "))
}

/// Makes a module small.
pub fn shrink(module: &Path, out: &Path) -> Result<()> {
    let wasm_opt = ensure()?;
    node::node().arg(wasm_opt).arg(module).arg("-Oz").args(FEATURES).arg("-o").arg(out).quiet()
}

fn ensure() -> Result<PathBuf> {
    let wasm_opt = place();
    if !wasm_opt.exists() {
        node::ensure()?;
        say(format!("installing wasm-opt (binaryen {}) with npm into {}", version(), folder().display()));
        files::write(&folder().join("package.json"), MANIFEST)?;
        files::write(&folder().join("package-lock.json"), LOCK)?;
        node::clean_install(&folder())?;
    }
    Ok(wasm_opt)
}

fn place() -> PathBuf {
    folder().join("node_modules/binaryen/bin/wasm-opt")
}

fn folder() -> PathBuf {
    paths::cache().join(format!("binaryen-{}", version()))
}

fn version() -> String {
    pinned(MANIFEST).unwrap_or_else(|_| "unknown".into())
}

fn pinned(manifest: &str) -> Result<String> {
    let parsed: serde_json::Value = serde_json::from_str(manifest)?;
    let version = parsed.pointer("/dependencies/binaryen").and_then(|version| version.as_str());
    version.map(str::to_owned).context("xtask/npm/package.json pins no binaryen")
}

/// For `doctor`.
pub fn finding() -> Finding {
    let found = place().exists().then(|| Found { version: version(), place: place().display().to_string() });
    Finding { tool: "wasm-opt", found, remedy: format!("npm package binaryen {} into the cache", version()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binaryen_is_pinned_and_locked_to_the_same_version() {
        let version = pinned(MANIFEST).unwrap();
        assert!(version.split('.').all(|part| part.parse::<u32>().is_ok()), "{version} is a range");
        assert!(LOCK.contains(&format!("\"binaryen\": \"{version}\"")));
    }
}
