//! A Chromium without a driver, spoken to in its debugging protocol: a driver gives a page up when its renderer dies,
//! a person presses "reload".

use std::path::Path;
use std::process::Stdio;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use crate::browser::CHROMIUM_ARGS;
use crate::processes;
use crate::wait::within;

/// A browser with one page.
#[derive(Debug)]
pub struct Chromium {
    process: Child,
    socket: WebSocketStream<TcpStream>,
    page: String,
    last_id: u64,
    _profile: TempDir,
}

impl Chromium {
    /// Starts it.
    ///
    /// # Panics
    /// Where it does not start.
    pub async fn start(program: &Path) -> Self {
        let profile = tempfile::Builder::new().prefix("patchkeep-profile-").tempdir().expect("a folder");
        let mut process = Command::new(program)
            .args(CHROMIUM_ARGS)
            .arg("--remote-debugging-port=0")
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the browser starts");
        let output = process.stderr.take().expect("its output is a pipe");
        let url = within("the browser's address", address(output)).await;
        let host = url.strip_prefix("ws://").and_then(|rest| rest.split('/').next()).expect("an address");
        let stream = TcpStream::connect(host).await.expect("the browser listens");
        let (socket, _) = tokio_tungstenite::client_async(&url, stream).await.expect("it speaks WebSocket");
        let mut browser = Self { process, socket, page: String::new(), last_id: 0, _profile: profile };
        let targets = browser.ask("Target.getTargets", json!({})).await;
        let pages = targets["targetInfos"].as_array().into_iter().flatten();
        let page = pages.into_iter().find(|target| target["type"] == "page").expect("a browser has a page");
        let attach = json!({ "targetId": page["targetId"], "flatten": true });
        let attached = browser.ask("Target.attachToTarget", attach).await;
        browser.page = attached["sessionId"].as_str().expect("an id").to_owned();
        browser.ask("Inspector.enable", json!({})).await;
        browser
    }

    /// Goes to a URL.
    pub async fn goto(&mut self, url: &str) {
        self.ask("Page.navigate", json!({ "url": url })).await;
    }

    /// What an expression gives, once it resolves; `null` where the page throws or is just being replaced.
    pub async fn eval(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.ask("Runtime.evaluate", parameters).await;
        match answer.get("exceptionDetails") {
            Some(_) => Value::Null,
            None => answer["result"]["value"].clone(),
        }
    }

    /// Waits until an expression is truthy.
    pub async fn until(&mut self, expression: &str) -> Value {
        let looking = async {
            let mut ticks = tokio::time::interval(std::time::Duration::from_millis(5));
            loop {
                ticks.tick().await;
                let value = self.eval(expression).await;
                if !matches!(value, Value::Null | Value::Bool(false)) && value != json!(0) {
                    return value;
                }
            }
        };
        within(expression, looking).await
    }

    /// Kills the page's process, and loads the page once more: the same tab, with the same sessionStorage.
    pub async fn crash_and_reload(&mut self) {
        let browser = self.process.id().expect("the browser runs");
        for process in processes::below(browser) {
            if process.line.contains("--type=renderer") {
                processes::kill(process.id);
            }
        }
        within("the crash", self.event("Inspector.targetCrashed")).await;
        self.ask("Page.reload", json!({})).await;
    }

    /// Ends it.
    pub async fn quit(mut self) {
        let _ended = self.process.kill().await;
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let mut command = json!({ "id": self.last_id, "method": method, "params": params });
        if !self.page.is_empty() {
            command["sessionId"] = self.page.clone().into();
        }
        self.socket.send(Message::text(command.to_string())).await.expect("the browser listens");
        loop {
            let told = within(method, self.read()).await;
            if told["id"] == self.last_id {
                return told["result"].clone();
            }
        }
    }

    async fn event(&mut self, name: &str) {
        while self.read().await["method"] != name {}
    }

    async fn read(&mut self) -> Value {
        loop {
            let message = self.socket.next().await.expect("the browser runs").expect("it speaks WebSocket");
            if let Message::Text(text) = message {
                return serde_json::from_str(&text).expect("it speaks JSON");
            }
        }
    }
}

async fn address(output: impl tokio::io::AsyncRead + Unpin + Send + 'static) -> String {
    let mut lines = BufReader::new(output).lines();
    loop {
        let line = lines.next_line().await.expect("it prints text").expect("it says where it listens");
        if let Some((_, url)) = line.split_once("DevTools listening on ") {
            let url = url.trim().to_owned();
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return url;
        }
    }
}
