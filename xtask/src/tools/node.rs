//! Node.js and npm: the TypeScript package, the page, and tools that come from npm.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::{Finding, Found, apt};
use crate::util::machine::{self, on_path};
use crate::util::sh::{Cmd, say};
use crate::util::stamp::Step;
use crate::util::{files, paths};

/// The oldest Node.js that Vite runs on.
const OLDEST: (u32, u32) = (20, 19);

/// Makes sure of a Node.js that is new enough and of npm.
pub fn ensure() -> Result<()> {
    if on_path(&["node"]).is_none() || on_path(&["npm"]).is_none() {
        apt::install(&["nodejs", "npm"], "Node.js")?;
    }
    let version = version().context("Node.js is installed and does not say its version")?;
    if !is_new_enough(&version) {
        bail!("Node.js {version} is too old; please install {}.{} or newer", OLDEST.0, OLDEST.1);
    }
    Ok(())
}

/// A call of node.
pub fn node() -> Cmd {
    Cmd::new("node")
}

/// Installs what a package's lock file names, unless that was done.
pub fn install_dependencies(package: &Path) -> Result<()> {
    ensure()?;
    let name = paths::short(package).replace(['/', '\\'], "-");
    Step::new(&format!("npm-ci-{name}"))
        .text(&version().unwrap_or_default())
        .input(&package.join("package.json"))?
        .input(&package.join("package-lock.json"))?
        .output(&package.join("node_modules/.package-lock.json"))
        .run(|| {
            say(format!("installing the npm packages of {}", paths::short(package)));
            clean_install(package)
        })
}

/// `npm ci`. Install scripts of packages do not run: nothing here needs one, and they may do anything.
pub fn clean_install(package: &Path) -> Result<()> {
    npm(package).args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).quiet()
}

/// `npm run SCRIPT` in a package.
pub fn run_script(package: &Path, script: &str) -> Cmd {
    npm(package).args(["run", "--silent", script])
}

/// Whether a package has a script of this name.
pub fn has_script(package: &Path, script: &str) -> Result<bool> {
    let manifest = package.join("package.json");
    let text = files::read(&manifest)?;
    let parsed: serde_json::Value =
        serde_json::from_str(&text).with_context(|| format!("{} is not JSON", manifest.display()))?;
    Ok(parsed.pointer(&format!("/scripts/{script}")).is_some())
}

fn npm(package: &Path) -> Cmd {
    // On Windows npm is a script, which only a search of PATH finds.
    Cmd::new(on_path(&["npm"]).unwrap_or_else(|| "npm".into())).dir(package)
}

fn version() -> Option<String> {
    on_path(&["node"]).and_then(|node: PathBuf| Found::asked(&node)).map(|found| found.version)
}

fn is_new_enough(version: &str) -> bool {
    let mut numbers = version.split('.').map_while(|part| part.parse::<u32>().ok());
    numbers.next().zip(numbers.next()).is_some_and(|version| version >= OLDEST)
}

/// For `doctor`: node and npm.
pub fn findings() -> [Finding; 2] {
    let remedy = if machine::can_apt() { "apt-get install nodejs npm" } else { "install Node.js 20.19 or newer" };
    [
        Finding {
            tool: "node",
            found: on_path(&["node"]).as_deref().and_then(Found::asked).filter(|found| is_new_enough(&found.version)),
            remedy: remedy.into(),
        },
        Finding { tool: "npm", found: on_path(&["npm"]).as_deref().and_then(Found::asked), remedy: remedy.into() },
    ]
}

#[cfg(test)]
mod tests {
    use super::is_new_enough;

    #[test]
    fn node_versions_are_compared_as_numbers() {
        assert!(is_new_enough("20.19.0") && is_new_enough("20.20.2") && is_new_enough("100.0.0"));
        assert!(!is_new_enough("20.9.0") && !is_new_enough("18.20.4") && !is_new_enough("strange"));
    }
}
