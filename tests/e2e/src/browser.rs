//! chromedriver, and one headless Chromium with a profile of its own that is gone afterwards.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tempfile::TempDir;
use thirtyfour::{Capabilities, WebDriver};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::wait::{PATIENCE, within};

/// A running browser. [`Browser::quit`] ends it; dropping it ends at least the driver.
#[derive(Debug)]
pub struct Browser {
    driver: WebDriver,
    process: Child,
    _profile: TempDir,
}

impl Browser {
    /// Starts a driver on a port of its choice, and a browser.
    ///
    /// # Panics
    /// Where either is missing or does not start.
    pub async fn start() -> Self {
        let profile =
            tempfile::Builder::new().prefix("patchkeep-profile-").tempdir().expect("a folder for the profile");
        let mut process = Command::new(chromedriver())
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("chromedriver starts");
        let port = within("chromedriver's port", port_of(&mut process)).await;
        let capabilities = capabilities(profile.path());
        let driver = within("a browser", WebDriver::new(format!("http://127.0.0.1:{port}"), capabilities))
            .await
            .expect("chromedriver starts Chromium");
        driver.set_script_timeout(PATIENCE).await.expect("chromedriver takes a timeout");
        Self { driver, process, _profile: profile }
    }

    /// The session with the browser.
    pub fn driver(&self) -> WebDriver {
        self.driver.clone()
    }

    /// Ends browser and driver.
    pub async fn quit(mut self) {
        // A browser that crashed cannot be asked; the driver goes in any case, and takes it along.
        let _gone = self.driver.quit().await;
        let _ended = self.process.kill().await;
    }
}

/// Lines of chromedriver until the one that says where it listens. What it says later is read and dropped, so that
/// it never waits for a full pipe.
async fn port_of(process: &mut Child) -> u16 {
    let output = process.stdout.take().expect("chromedriver's output is a pipe");
    let mut lines = BufReader::new(output).lines();
    loop {
        let line = lines.next_line().await.expect("chromedriver's output is text").expect("chromedriver says its port");
        if let Some((_, port)) = line.rsplit_once("started successfully on port ") {
            let port = port.trim_end_matches('.').parse().expect("a port is a number");
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return port;
        }
    }
}

fn capabilities(profile: &Path) -> Capabilities {
    let mut args: Vec<String> = ARGS.iter().map(|&arg| arg.into()).collect();
    args.push(format!("--user-data-dir={}", profile.display()));
    let mut options = serde_json::json!({ "args": args });
    if let Some(browser) = chromium() {
        options["binary"] = browser.display().to_string().into();
    }
    let mut capabilities = Capabilities::new();
    for (name, value) in [
        ("browserName", "chrome".into()),
        ("goog:chromeOptions", options),
        ("goog:loggingPrefs", serde_json::json!({ "browser": "ALL" })),
    ] {
        capabilities.set(name, value).expect("JSON is JSON");
    }
    capabilities
}

/// The environment variable first, as everywhere in this project, then `PATH`.
fn chromedriver() -> PathBuf {
    named("CHROMEDRIVER", &["chromedriver"])
        .expect("chromedriver is in CHROMEDRIVER or in PATH (Debian: chromium-driver)")
}

/// The same; where there is none, chromedriver may still find one.
fn chromium() -> Option<PathBuf> {
    named("PATCHKEEP_CHROMIUM", &["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"])
}

fn named(variable: &str, names: &[&str]) -> Option<PathBuf> {
    if let Some(path) = env::var_os(variable).filter(|path| !path.is_empty()) {
        return Some(path.into());
    }
    let path = env::var_os("PATH")?;
    names
        .iter()
        .flat_map(|name| env::split_paths(&path).map(move |dir| dir.join(name)))
        .find(|candidate| candidate.is_file())
}

/// Headless, also as root in a container, and without a word to the outside.
const ARGS: &[&str] = &[
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--window-size=1280,960",
];
