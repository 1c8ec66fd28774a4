//! One browser of the running test's engine under its driver, with a profile of its own that is gone afterwards.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use serde_json::{Value, json};
use tempfile::TempDir;
use thirtyfour::{Capabilities, WebDriver};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::engine::Engine;
use crate::processes;
use crate::wait::{PATIENCE, until, within};

/// How a browser is started.
#[derive(Clone, Debug)]
pub struct Setup {
    engine: Engine,
    profile: Arc<TempDir>,
    restores: bool,
    is_private: bool,
}

impl Setup {
    /// The engine of the running test, with a new profile.
    ///
    /// # Panics
    /// Where no folder for the profile can be made.
    pub fn new() -> Self {
        let profile = tempfile::Builder::new().prefix("patchkeep-profile-").tempdir();
        let profile = Arc::new(profile.expect("a folder for the profile"));
        Self { engine: Engine::current(), profile, restores: false, is_private: false }
    }

    /// With the tabs of the profile's last life, as after a crash.
    #[must_use]
    pub fn restoring(&self) -> Self {
        Self { restores: true, ..self.clone() }
    }

    /// In private mode.
    #[must_use]
    pub fn private(&self) -> Self {
        Self { is_private: true, ..self.clone() }
    }
}

impl Default for Setup {
    fn default() -> Self {
        Self::new()
    }
}

/// A running browser. [`Browser::quit`] ends it; dropping it ends at least its driver and screen.
#[derive(Debug)]
pub struct Browser {
    driver: WebDriver,
    process: Child,
    /// A browser with nowhere to draw ends too.
    _screen: Option<Child>,
    _setup: Setup,
}

impl Browser {
    /// Starts a driver on a port of its choice, and a browser.
    ///
    /// # Panics
    /// Where either is missing or does not start.
    pub async fn start(setup: &Setup) -> Self {
        let programs = setup.engine.programs();
        let programs = programs.unwrap_or_else(|| panic!("{} and its driver are here", setup.engine.name()));
        let (screen, (process, url)) = match setup.engine {
            Engine::Chromium => (None, announced(&programs[0], &["--port=0"], "started successfully on port ").await),
            Engine::Firefox => {
                let ports = ["--port", "0", "--websocket-port", "0"];
                (None, announced(&programs[0], &ports, "Listening on 127.0.0.1:").await)
            }
            Engine::WebKit => {
                let (screen, display) = screen(&programs[2]).await;
                (Some(screen), webkit_driver(&programs[0], &display).await)
            }
        };
        let capabilities = capabilities(setup, &programs[1]);
        let driver = within("a browser", WebDriver::new(url, capabilities)).await.expect("the driver starts a browser");
        driver.set_script_timeout(PATIENCE).await.expect("the driver takes a timeout");
        Self { driver, process, _screen: screen, _setup: setup.clone() }
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

    /// Kills the browser, all its processes at once, as a power cut would; then its driver.
    pub async fn kill(mut self) {
        let driver = self.process.id().expect("the driver runs");
        processes::kill_below(driver);
        let _ended = self.process.kill().await;
        // Its session is gone: nothing is asked of the driver when this is dropped.
        let _ended = self.driver.leak();
    }
}

/// Starts a driver that says where it listens. Chromium's asks for any port of one address family, and ends where
/// somebody else has the same port of the other; the next one asks for another port.
async fn announced(program: &Path, args: &[&str], before_port: &str) -> (Child, String) {
    for _ in 0..MOST_PORTS {
        let mut process = command(program).args(args).stdout(Stdio::piped()).spawn().expect("the driver starts");
        let output = process.stdout.take().expect("the driver's output is a pipe");
        if let Some(port) = within("the driver's port", said(output, before_port)).await {
            return (process, format!("http://127.0.0.1:{port}"));
        }
    }
    panic!("{} ended {MOST_PORTS} times before it listened", program.display());
}

const MOST_PORTS: u32 = 5;

/// A screen in memory, and its name.
async fn screen(program: &Path) -> (Child, String) {
    let args = ["-displayfd", "1", "-screen", "0", "1280x960x24", "-nolisten", "tcp"];
    let mut process = command(program).args(args).stdout(Stdio::piped()).spawn().expect("a screen starts");
    let output = process.stdout.take().expect("its output is a pipe");
    let number = within("a screen", said(output, "")).await.expect("the screen says its number");
    (process, format!(":{number}"))
}

/// Starts WebKit's driver, which does not say where it listens: on an address that is this process's own, so that no
/// other test can have its port.
async fn webkit_driver(program: &Path, display: &str) -> (Child, String) {
    static STARTED: AtomicU8 = AtomicU8::new(0);
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let address = Ipv4Addr::new(127, high.max(1), middle, low);
    let port = 4444 + u16::from(STARTED.fetch_add(1, Ordering::Relaxed));
    let process = command(program)
        .arg(format!("--host={address}"))
        .arg(format!("--port={port}"))
        .env("DISPLAY", display)
        .env("WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS", "1")
        .env("LIBGL_ALWAYS_SOFTWARE", "1")
        .stdout(Stdio::null())
        .spawn()
        .expect("the driver starts");
    until("the driver to listen", async || TcpStream::connect((address, port)).await.ok()).await;
    (process, format!("http://{address}:{port}"))
}

fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    command
}

/// Lines until the one that holds `before`; what follows there is a number, `None` where there is no such line. What is said later is read and dropped, so
/// that a program never waits for a full pipe.
async fn said(output: impl AsyncRead + Unpin + Send + 'static, before: &str) -> Option<u16> {
    let mut lines = BufReader::new(output).lines();
    loop {
        let line = lines.next_line().await.expect("programs print text")?;
        if let Some(at) = line.find(before) {
            let digits: String = line[at + before.len()..].chars().take_while(char::is_ascii_digit).collect();
            let number = digits.parse().expect("it is a number");
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return Some(number);
        }
    }
}

fn capabilities(setup: &Setup, browser: &Path) -> Capabilities {
    let all = match setup.engine {
        Engine::Chromium => chromium(setup, browser),
        Engine::Firefox => firefox(setup, browser),
        Engine::WebKit => webkit(setup, browser),
    };
    let mut capabilities = Capabilities::new();
    for (name, value) in all.as_object().into_iter().flatten() {
        capabilities.set(name.clone(), value.clone()).expect("JSON is JSON");
    }
    capabilities
}

fn chromium(setup: &Setup, browser: &Path) -> Value {
    let mut args: Vec<String> = CHROMIUM_ARGS.iter().map(|&arg| arg.into()).collect();
    args.push(format!("--user-data-dir={}", setup.profile.path().display()));
    args.extend(setup.restores.then(|| "--restore-last-session".into()));
    args.extend(setup.is_private.then(|| "--incognito".into()));
    json!({
        "browserName": "chrome",
        "goog:chromeOptions": {
            "args": args,
            "binary": browser.display().to_string(),
            // chromedriver turns the cache of pages off, and a crashed tab's restoring; people have both.
            "excludeSwitches": ["disable-back-forward-cache"],
        },
        "goog:loggingPrefs": { "browser": "ALL" },
    })
}

fn firefox(setup: &Setup, browser: &Path) -> Value {
    let mut args = vec!["-headless".into(), "-profile".into(), setup.profile.path().display().to_string()];
    args.extend(setup.is_private.then(|| "-private".into()));
    let mut prefs = json!({
        "app.normandy.enabled": false,
        "browser.sessionstore.interval": 100,
        "network.captive-portal-service.enabled": false,
        "network.connectivity-service.enabled": false,
    });
    if setup.is_private {
        prefs["browser.privatebrowsing.autostart"] = true.into();
    }
    if setup.restores {
        for (name, value) in [
            ("browser.sessionstore.resume_from_crash", json!(true)),
            ("browser.sessionstore.max_resumed_crashes", json!(9)),
            ("browser.startup.page", json!(3)),
        ] {
            prefs[name] = value;
        }
    }
    let options = json!({ "args": args, "binary": browser.display().to_string(), "prefs": prefs });
    json!({ "browserName": "firefox", "moz:firefoxOptions": options })
}

fn webkit(setup: &Setup, browser: &Path) -> Value {
    let mut args = ["--automation", "--javascript-can-open-windows-automatically=true"].map(String::from).to_vec();
    args.extend(setup.is_private.then(|| "--private".into()));
    json!({ "webkitgtk:browserOptions": { "binary": browser.display().to_string(), "args": args } })
}

/// Headless, also as root in a container, and without a word to the outside.
pub(crate) const CHROMIUM_ARGS: &[&str] = &[
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
