//! The other two engines of the end-to-end tests: Firefox under geckodriver, and WebKitGTK under its own driver and a
//! screen in memory.
//!
//! Looked for as Chromium is (`browser`): environment variable, PATH and the usual places, apt; geckodriver, which
//! Debian does not have, is compiled by cargo into the cache. On a machine where an engine can be neither found nor
//! installed the tests run without it, and the matrix says so.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::{Finding, Found, apt};
use crate::util::machine::{can_apt, on_path, var};
use crate::util::paths;
use crate::util::sh::{Cmd, cargo, say};

/// geckodriver's version: whatever Firefox is here, a newer driver speaks to it.
const GECKODRIVER: &str = "0.37.1";

/// A program that the end-to-end tests are told of.
struct Program {
    /// The variable that names it.
    variable: &'static str,
    names: &'static [&'static str],
    /// Places that are not on PATH.
    places: &'static [&'static str],
    package: &'static str,
}

const FIREFOX: Program = Program {
    variable: "PATCHKEEP_FIREFOX",
    names: &["firefox-esr", "firefox"],
    places: &["/Applications/Firefox.app/Contents/MacOS/firefox"],
    package: "firefox-esr",
};

const WEBKIT: [Program; 3] = [
    Program {
        variable: "PATCHKEEP_WEBKIT_DRIVER",
        names: &["WebKitWebDriver"],
        places: &[],
        package: "webkit2gtk-driver",
    },
    Program {
        variable: "PATCHKEEP_MINIBROWSER",
        names: &["MiniBrowser"],
        places: &[
            "/usr/lib/x86_64-linux-gnu/webkit2gtk-4.1/MiniBrowser",
            "/usr/lib/aarch64-linux-gnu/webkit2gtk-4.1/MiniBrowser",
        ],
        package: "webkit2gtk-driver",
    },
    Program { variable: "PATCHKEEP_XVFB", names: &["Xvfb"], places: &[], package: "xvfb" },
];

/// What the tests are told: variables and what they name.
pub struct Engines(Vec<(&'static str, PathBuf)>);

impl Engines {
    /// Tells a command which browsers and drivers to use.
    pub fn tell(&self, cmd: Cmd) -> Cmd {
        cmd.envs(self.0.iter().map(|(variable, place)| (variable, place)))
    }
}

/// Finds both engines, or installs what is missing where that can be done without asking anybody.
pub fn ensure() -> Result<Engines> {
    let mut found = Vec::new();
    let firefox = programs(&[FIREFOX], "Firefox for the end-to-end tests")?;
    if let Some(firefox) = firefox {
        found.extend(firefox);
        found.push(("GECKODRIVER", ensure_geckodriver()?));
    }
    found.extend(programs(&WEBKIT, "WebKitGTK for the end-to-end tests")?.into_iter().flatten());
    Ok(Engines(found))
}

/// All of these, or nothing where one is missing and cannot be installed here.
fn programs(wanted: &[Program], what_for: &str) -> Result<Option<Vec<(&'static str, PathBuf)>>> {
    let mut missing: Vec<_> = wanted.iter().filter(|program| program.place().is_none()).map(|p| p.package).collect();
    missing.dedup();
    if !missing.is_empty() {
        if !can_apt() {
            say(format!("{what_for}: {} not found; the tests run without it", missing.join(", ")));
            return Ok(None);
        }
        apt::install(&missing, what_for)?;
    }
    let found = wanted.iter().map(|program| Some((program.variable, program.place()?))).collect::<Option<Vec<_>>>();
    if found.is_none() {
        bail!("{what_for}: apt installed {}, and yet something is missing", missing.join(" "));
    }
    Ok(found)
}

impl Program {
    fn place(&self) -> Option<PathBuf> {
        let named = var(self.variable).map(PathBuf::from);
        let usual = || self.places.iter().map(PathBuf::from).find(|place| place.exists());
        named.or_else(|| on_path(self.names)).or_else(usual)
    }
}

fn ensure_geckodriver() -> Result<PathBuf> {
    if let Some(driver) = geckodriver() {
        return Ok(driver);
    }
    let folder = folder();
    say(format!("installing geckodriver {GECKODRIVER} with cargo into {} (about two minutes)", folder.display()));
    cargo(&["install", "--quiet", "geckodriver", "--version"])
        .arg(format!("={GECKODRIVER}"))
        .arg("--root")
        .arg(&folder)
        .quiet()?;
    geckodriver().context("cargo installed no geckodriver")
}

fn geckodriver() -> Option<PathBuf> {
    let cached = folder().join("bin").join(format!("geckodriver{}", std::env::consts::EXE_SUFFIX));
    let is_here = |driver: &PathBuf| Found::asked(driver).is_some();
    [var("GECKODRIVER").map(PathBuf::from), on_path(&["geckodriver"]), Some(cached)].into_iter().flatten().find(is_here)
}

fn folder() -> PathBuf {
    paths::cache().join(format!("geckodriver-{GECKODRIVER}"))
}

/// For `doctor`.
pub fn findings() -> Vec<Finding> {
    let remedy = |program: &Program| {
        let how = if can_apt() { "apt-get install" } else { "install" };
        format!("{how} {}, or set {} (for `test` only)", program.package, program.variable)
    };
    // These have no version to tell without a screen.
    let here = |place: PathBuf| Found { version: "here".into(), place: place.display().to_string() };
    let finding = |tool, program: &Program| Finding { tool, found: program.place().map(here), remedy: remedy(program) };
    let firefox = FIREFOX.place();
    vec![
        Finding { tool: "firefox", found: firefox.as_deref().and_then(Found::asked), remedy: remedy(&FIREFOX) },
        Finding {
            tool: "geckodriver",
            found: geckodriver().as_deref().and_then(Found::asked),
            remedy: format!("cargo install geckodriver {GECKODRIVER} into the cache (for `test` only)"),
        },
        finding("webkit driver", &WEBKIT[0]),
        finding("webkit browser", &WEBKIT[1]),
        finding("xvfb", &WEBKIT[2]),
    ]
}
