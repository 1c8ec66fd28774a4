//! The demo as a person would play it: server and agent as processes of their own, the demo page in a browser.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;
use thirtyfour::WebDriver;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::demo_page::DemoPage;
use crate::site::repository;
use crate::wait::within;

/// The demo, running.
#[derive(Debug)]
pub struct Demo {
    server: Child,
    url: String,
    token: String,
    folder: PathBuf,
    page: DemoPage,
    database: TempDir,
}

/// What an agent's invocation came to.
#[derive(Debug)]
pub struct Told {
    /// Its exit code.
    pub code: i32,
    /// What it printed.
    pub lines: Vec<String>,
}

impl Demo {
    /// Starts the server from the folder of this program, and opens the page.
    ///
    /// # Panics
    /// Where a program or the page was not built.
    pub async fn start(driver: WebDriver) -> Self {
        let folder = std::env::current_exe().expect("this program has a path");
        let folder = folder.parent().expect("a program is in a folder").to_owned();
        let www = repository().join("www/dist");
        assert!(www.join("index.html").is_file(), "www/ is not built: cargo xtask build");
        let database = tempfile::Builder::new().prefix("patchkeep-demo-").tempdir().expect("a folder for the database");
        // Of this run alone, and known to nobody else.
        let token = format!("{:016x}", RandomState::new().build_hasher().finish());
        let mut server = Command::new(program(&folder, "patchkeep-server"))
            .args(["serve", "--demo", "--faults", "--db"])
            .arg(database.path().join("demo.db"))
            .arg("--www")
            .arg(www)
            .env("RUST_LOG", "warn")
            .env("PATCHKEEP_SERVER_TOKENS", format!("{token}=demo/ada"))
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .expect("the server starts");
        let url = within("the server's address", address_of(&mut server)).await;
        let demo = Self { server, url, token, folder, page: DemoPage::new(driver), database };
        demo.open().await;
        demo
    }

    /// The page.
    pub const fn page(&self) -> &DemoPage {
        &self.page
    }

    /// Opens the page and waits until it is connected and its documents are loaded.
    pub async fn open(&self) {
        self.page.load(&self.url).await;
    }

    /// Closes the page, but not the window.
    pub async fn close_page(&self) {
        self.page.goto("about:blank").await;
    }

    /// Sets fault switches that have no button.
    pub async fn set_faults(&self, change: Value) {
        let set = "const headers = { 'content-type': 'application/json', authorization: `Bearer ${args.token}` };
            return (await fetch('/faults', { method: 'POST', headers, body: JSON.stringify(args.change) })).status";
        let status = self.page.run(set, json!({ "token": self.token, "change": change })).await;
        assert_eq!(status, 200, "the server takes fault switches from whoever has the token");
    }

    /// Starts an agent.
    pub fn agent(&self, arguments: &[&str]) -> impl Future<Output = Told> + use<> {
        let child = Command::new(program(&self.folder, "patchkeep-agent"))
            .args(arguments)
            .args(["--server", &self.url])
            .env("PATCHKEEP_TOKEN", &self.token)
            // What it keeps of its ops is of this run too.
            .env("XDG_STATE_HOME", self.database.path())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        async move {
            let output = within("the agent's end", child).await.expect("the agent runs");
            let text = String::from_utf8(output.stdout).expect("the agent prints text");
            Told { code: output.status.code().unwrap_or(-1), lines: text.lines().map(Into::into).collect() }
        }
    }

    /// The text as it is stored.
    pub async fn stored(&self, doc: &str) -> String {
        let told = self.agent(&["read", doc]).await;
        assert_eq!(told.code, 0, "the document can be read");
        told.lines.join("\n")
    }

    /// Ends the server.
    pub async fn stop(mut self) {
        let _ended = self.server.kill().await;
    }
}

impl Told {
    /// Whether a line was printed.
    pub fn says(&self, wanted: &str) -> bool {
        self.lines.iter().any(|line| line.contains(wanted))
    }
}

fn program(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name).with_extension(std::env::consts::EXE_EXTENSION);
    assert!(path.is_file(), "{name} is not built: cargo build -p patchkeep-server");
    path
}

async fn address_of(server: &mut Child) -> String {
    let output = server.stdout.take().expect("the server's output is a pipe");
    let mut lines = BufReader::new(output).lines();
    loop {
        let line = lines.next_line().await.expect("the server prints text").expect("the server says where it listens");
        if let Some(url) = line.strip_prefix("listening on ") {
            let url = url.trim().to_owned();
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return url;
        }
    }
}
