//! A server on a database of its own, and the callers that write to it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use patchkeep_core::ids::Uuid;
use patchkeep_server::{Config, Server, Token};
use serde_json::{Value, json};

use crate::place::Place;

/// How long anything may take that is waited for.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Far longer than [`PATIENCE`]: whoever waits is woken, or the test fails.
pub const PATCH_TIMEOUT_MS: u64 = 600_000;
/// Two clocks are read, the database's and the machine's, each in whole milliseconds: exactly at a deadline they may disagree
/// about whether it has passed.
pub const SLACK_MS: u64 = 1_000;

pub const TOKEN: &str = "token-of-user";
pub const OTHER_TOKEN: &str = "token-of-other";
pub const STRANGER_TOKEN: &str = "token-of-stranger";

pub struct World {
    pub place: Place,
    pub server: Server,
    pub http: reqwest::Client,
    configured: Config,
}

/// One HTTP answer.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub body: Value,
}

impl Reply {
    pub fn code(&self) -> &str {
        self.body["error"]["code"].as_str().unwrap_or_default()
    }

    pub fn replayed(&self) -> bool {
        let header = self.headers.get("idempotent-replayed").is_some_and(|v| v == "true");
        assert_eq!(header, self.body["replayed"] == json!(true), "the header is mirrored: {self:?}");
        header
    }

    pub fn released(&self) -> bool {
        self.body["key"] == json!("released")
    }

    pub fn patch_id(&self) -> &str {
        self.body["patch_id"].as_str().unwrap_or_default()
    }
}

/// A keyed edit to be sent.
#[derive(Clone, Debug)]
pub struct Edit {
    pub token: &'static str,
    pub doc: &'static str,
    pub key: String,
    pub attempt: u64,
    pub first_at: Option<u64>,
    pub ask: bool,
    pub body: String,
}

impl Edit {
    pub fn append(key: &str, text: &str) -> Self {
        Self::body(key, &json!({"edit": {"kind": "text.append", "text": text}}).to_string())
    }

    pub fn body(key: &str, body: &str) -> Self {
        Self { token: TOKEN, doc: "d1", key: key.into(), attempt: 1, first_at: None, ask: false, body: body.into() }
    }

    pub fn attempt(mut self, attempt: u64) -> Self {
        self.attempt = attempt;
        self
    }

    pub fn ask(mut self) -> Self {
        self.ask = true;
        self
    }

    pub fn first_at(mut self, ms: u64) -> Self {
        self.first_at = Some(ms);
        self
    }

    pub fn token(mut self, token: &'static str) -> Self {
        self.token = token;
        self
    }

    pub fn doc(mut self, doc: &'static str) -> Self {
        self.doc = doc;
        self
    }
}

impl World {
    pub async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// d1 is "a\n", d2 is "b\n".
    pub async fn with(change: impl FnOnce(&mut Config)) -> Self {
        let place = Place::new();
        let mut config = place.config();
        config.tokens = vec![
            (Token::new(TOKEN), "ws/user".parse().unwrap()),
            (Token::new(OTHER_TOKEN), "ws/other".parse().unwrap()),
            (Token::new(STRANGER_TOKEN), "elsewhere/user".parse().unwrap()),
        ];
        config.seed = vec![("d1".into(), "a\n".into()), ("d2".into(), "b\n".into())];
        config.faults = true;
        config.patch_timeout_ms = PATCH_TIMEOUT_MS;
        change(&mut config);
        let server = Server::start(config.clone()).await.unwrap();
        config.listen = server.addr();
        let http = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).timeout(PATIENCE).build().unwrap();
        Self { place, server, http, configured: config }
    }

    /// Another server on the same database, as another process is.
    pub async fn beside(&self) -> Server {
        let listen = ([127, 0, 0, 1], 0).into();
        Server::start(Config { listen, ..self.configured.clone() }).await.unwrap()
    }

    /// Its server is gone, and another that was beside it goes on.
    pub async fn left_to(self, heir: Server) -> Self {
        let Self { place, server, http, configured } = self;
        server.stop().await;
        Self { place, server: heir, http, configured }
    }

    /// Time passes. A transaction that began before may still be open, and what joins its group has its time: one that
    /// was answered afterwards has closed it.
    pub async fn advance(&self, ms: u64) {
        self.place.ahead.fetch_add(ms, Ordering::SeqCst);
        self.stored("d1").await;
    }

    /// Every deadline of a patch passes.
    pub async fn pass_deadline(&self) {
        self.advance(PATCH_TIMEOUT_MS + SLACK_MS).await;
    }

    pub fn now(&self) -> u64 {
        (self.configured.clock)()
    }

    /// Stops the process's server and starts another on the same database and address.
    pub async fn reopen(self) -> Self {
        let Self { place, server, http, configured } = self;
        server.stop().await;
        let server = Server::start(configured.clone()).await.unwrap();
        Self { place, server, http, configured }
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.server.url())
    }

    /// Sends a keyed edit; `None` where the connection was lost.
    pub async fn try_send(&self, edit: &Edit) -> Option<Reply> {
        send(&self.http, &self.server.url(), edit).await
    }

    pub async fn send(&self, edit: &Edit) -> Reply {
        self.try_send(edit).await.expect("an answer")
    }

    /// Sends a keyed edit in the background.
    pub fn sending(&self, edit: &Edit) -> tokio::task::JoinHandle<Option<Reply>> {
        self.sending_to(&self.server, edit)
    }

    pub fn sending_to(&self, server: &Server, edit: &Edit) -> tokio::task::JoinHandle<Option<Reply>> {
        let (http, server, edit) = (self.http.clone(), server.url(), edit.clone());
        tokio::spawn(async move { send(&http, &server, &edit).await })
    }

    pub async fn put(&self, doc: &str, token: &str, body: &Value) -> Option<Reply> {
        let request = self.http.put(self.url(&format!("/api/docs/{doc}"))).bearer_auth(token).body(body.to_string());
        read(request.send().await.ok()?).await
    }

    pub async fn text(&self, doc: &str) -> String {
        self.stored(doc).await.0
    }

    pub async fn stored(&self, doc: &str) -> (String, u64) {
        let reply = self.get(&format!("/api/docs/{doc}")).await;
        (reply.body["text"].as_str().unwrap().to_owned(), reply.body["seq"].as_u64().unwrap())
    }

    pub async fn get(&self, path: &str) -> Reply {
        read(self.http.get(self.url(path)).bearer_auth(TOKEN).send().await.unwrap()).await.unwrap()
    }

    pub async fn post(&self, path: &str, token: &str, body: &Value) -> Reply {
        self.post_to(&self.server, path, token, body).await
    }

    pub async fn post_to(&self, server: &Server, path: &str, token: &str, body: &Value) -> Reply {
        let url = format!("{}{path}", server.url());
        let request = self.http.post(url).bearer_auth(token).header("content-type", "application/json");
        read(request.body(body.to_string()).send().await.unwrap()).await.unwrap()
    }

    /// A column of a key's row, read past the server.
    pub fn row(&self, key: &str, column: &str) -> Option<String> {
        self.place.row(key, column)
    }

    pub fn state(&self, key: &str) -> String {
        self.row(key, "state").unwrap_or_default()
    }

    /// Waits until a key is in a state.
    pub async fn until_state(&self, key: &str, state: &str) {
        self.until(&format!("{key} is {state}"), || self.state(key) == state).await;
    }

    /// Waits for a condition, by asking again.
    pub async fn until(&self, what: &str, condition: impl Fn() -> bool) {
        let waiting = async {
            let mut again = tokio::time::interval(Duration::from_millis(5));
            while !condition() {
                again.tick().await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("it never came to this: {what}"));
    }
}

async fn send(http: &reqwest::Client, server: &str, edit: &Edit) -> Option<Reply> {
    let mut request = http
        .patch(format!("{server}/api/docs/{}", edit.doc))
        .bearer_auth(edit.token)
        .header("idempotency-key", &edit.key)
        .header("idempotency-attempt", edit.attempt)
        .body(edit.body.clone());
    if let Some(first_at) = edit.first_at {
        request = request.header("idempotency-first-attempt", first_at);
    }
    if edit.ask {
        request = request.header("idempotency-ask", "true");
    }
    read(request.send().await.ok()?).await
}

pub async fn read(response: reqwest::Response) -> Option<Reply> {
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let text = response.text().await.ok()?;
    let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
    Some(Reply { status, headers, body })
}

pub fn fresh() -> Uuid {
    Uuid::from_u128(uuid::Uuid::new_v4().as_u128())
}
