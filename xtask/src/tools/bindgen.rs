//! wasm-bindgen: the bindings by the library (`xtask/bindgen`), and the runner of browser tests by its CLI, which is
//! wanted for `test` alone. Both are of the version in Cargo.lock, or the module would not fit its bindings.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{Finding, Found};
use crate::util::machine::on_path;
use crate::util::paths;
use crate::util::sh::{Cmd, cargo, say};

const RUNNER: &str = "wasm-bindgen-test-runner";
const LOCK: &str = include_str!("../../../Cargo.lock");

/// The version of wasm-bindgen that everything has to be of.
pub fn version() -> &'static str {
    locked("wasm-bindgen-cli-support", LOCK).unwrap_or("unknown")
}

/// Makes the bindings of a compiled module in `out`.
pub fn generate(module: &Path, out: &Path) -> Result<()> {
    let generator = paths::native_binary("xtask-bindgen");
    if !generator.exists() {
        say("compiling wasm-bindgen's library once");
    }
    cargo(&["build", "--quiet", "--package", "xtask-bindgen"]).run()?;
    Cmd::new(generator).arg(module).arg(out).run()
}

/// The runner of browser tests; installed into the cache where PATH has none of the right version.
pub fn test_runner() -> Result<PathBuf> {
    if let Some(runner) = present_runner() {
        return Ok(runner);
    }
    let (version, folder) = (version(), folder());
    say(format!("installing wasm-bindgen-cli {version} with cargo into {} (about two minutes)", folder.display()));
    cargo(&["install", "--quiet", "wasm-bindgen-cli", "--version"])
        .arg(format!("={version}"))
        .args(["--bin", RUNNER, "--root"])
        .arg(&folder)
        .quiet()?;
    present_runner().with_context(|| format!("cargo installed no {RUNNER} {version}"))
}

fn present_runner() -> Option<PathBuf> {
    let cached = folder().join("bin").join(format!("{RUNNER}{}", std::env::consts::EXE_SUFFIX));
    let fits = |runner: &PathBuf| Found::asked(runner).is_some_and(|found| found.version == version());
    [Some(cached), on_path(&[RUNNER])].into_iter().flatten().find(fits)
}

fn folder() -> PathBuf {
    paths::cache().join(format!("wasm-bindgen-cli-{}", version()))
}

/// The version of a package in a lock file.
fn locked<'a>(package: &str, lock: &'a str) -> Option<&'a str> {
    let (_, entry) = lock.split_once(&format!("name = \"{package}\"\n"))?;
    entry.strip_prefix("version = \"")?.split('"').next()
}

/// For `doctor`: the generator and the runner.
pub fn findings() -> [Finding; 2] {
    let generator = paths::native_binary("xtask-bindgen");
    let built = generator.exists().then(|| Found { version: version().into(), place: generator.display().to_string() });
    [
        Finding { tool: "wasm-bindgen", found: built, remedy: format!("compile its library {}", version()) },
        Finding {
            tool: "browser test runner",
            found: present_runner().as_deref().and_then(Found::asked),
            remedy: format!("cargo install wasm-bindgen-cli {} into the cache", version()),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_of_the_version_the_module_is_built_with() {
        let generator = locked("wasm-bindgen-cli-support", LOCK);
        assert!(generator.is_some());
        if let Some(module) = locked("wasm-bindgen", LOCK) {
            assert_eq!(Some(module), generator);
        }
    }

    #[test]
    fn a_package_is_found_by_its_whole_name() {
        let lock =
            "[[package]]\nname = \"a-b\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"a\"\nversion = \"2.0.0\"\n";
        assert_eq!(locked("a", lock), Some("2.0.0"));
        assert_eq!(locked("b", lock), None);
    }
}
