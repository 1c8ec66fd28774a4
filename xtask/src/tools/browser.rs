//! Chromium and its driver, for browser tests, end-to-end tests and `demo --check`.
//!
//! Looked for in this order: environment variable, PATH and the usual places, apt (root on Debian). Nothing is ever
//! downloaded from a vendor.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::{Finding, Found, apt};
use crate::util::files;
use crate::util::machine::{can_apt, on_path, var};
use crate::util::paths;
use crate::util::sh::Cmd;

/// Names the browser; also what the end-to-end tests read.
const BROWSER_VAR: &str = "PATCHKEEP_CHROMIUM";
/// Names the driver; the name that wasm-bindgen's test runner reads too.
const DRIVER_VAR: &str = "CHROMEDRIVER";
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const MAC_BROWSER: &str = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome";
const PACKAGES: [&str; 2] = ["chromium", "chromium-driver"];

/// How Chromium starts without a screen, also as root, and without talking to anybody: what it does on its own account
/// (updates, sync, first-run pages) is no part of a test.
const ARGUMENTS: [&str; 8] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];

/// A browser and the driver that steers it.
pub struct Browser {
    chromium: PathBuf,
    driver: PathBuf,
}

impl Browser {
    /// Tells a command which browser and driver to use.
    pub fn tell(&self, cmd: Cmd) -> Cmd {
        cmd.env(BROWSER_VAR, &self.chromium).env(DRIVER_VAR, &self.driver)
    }

    /// Writes the capabilities that wasm-bindgen's test runner asks the driver for, and gives back the file.
    ///
    /// The runner reads `webdriver.json` from the folder it runs in unless this file is named to it.
    pub fn capabilities(&self) -> Result<PathBuf> {
        let file = paths::at("target/webdriver.json");
        let options = serde_json::json!({ "binary": self.chromium.display().to_string(), "args": ARGUMENTS });
        files::write(&file, &serde_json::json!({ "goog:chromeOptions": options }).to_string())?;
        Ok(file)
    }
}

/// Finds Chromium and its driver, or installs both.
pub fn ensure() -> Result<Browser> {
    if chromium()?.is_none() || driver()?.is_none() {
        apt::install(&PACKAGES, "a browser and its driver")?;
    }
    match (chromium()?, driver()?) {
        (Some(chromium), Some(driver)) => Ok(Browser { chromium, driver }),
        _ => bail!("apt installed {}, and yet chromium or chromedriver is not on PATH", PACKAGES.join(" ")),
    }
}

fn chromium() -> Result<Option<PathBuf>> {
    let usual = || on_path(&BROWSERS).or_else(|| Some(PathBuf::from(MAC_BROWSER)).filter(|path| path.exists()));
    Ok(named(BROWSER_VAR)?.or_else(usual))
}

fn driver() -> Result<Option<PathBuf>> {
    Ok(named(DRIVER_VAR)?.or_else(|| on_path(&["chromedriver"])))
}

/// What a variable names. A name that leads nowhere is an error: something else than what was asked for would be worse.
fn named(variable: &str) -> Result<Option<PathBuf>> {
    match var(variable) {
        Some(path) if !Path::new(&path).exists() => bail!("{variable} names {path}, which does not exist"),
        path => Ok(path.map(PathBuf::from)),
    }
}

/// For `doctor`: browser and driver.
pub fn findings() -> [Finding; 2] {
    let remedy = |package: &str, variable: &str| {
        let how = if can_apt() { "apt-get install" } else { "install" };
        format!("{how} {package}, or set {variable}")
    };
    let finding = |tool, place: Result<Option<PathBuf>>, remedy| Finding {
        tool,
        found: place.ok().flatten().as_deref().and_then(Found::asked),
        remedy,
    };
    [
        finding("chromium", chromium(), remedy(PACKAGES[0], BROWSER_VAR)),
        finding("chromedriver", driver(), remedy(PACKAGES[1], DRIVER_VAR)),
    ]
}
