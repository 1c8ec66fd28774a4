//! The reference server in this process, with a caller that writes to it by keyed requests.

use patchkeep_server::{Config, Server, Token};
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::demo_page::DemoPage;
use crate::page::{TestPage, with_browser};
use crate::site::{Site, repository};
use crate::wait::within;

/// The token that opens this server for [`PRINCIPAL`].
pub const TOKEN: &str = "for-tests-only";
/// Whose documents these are.
pub const PRINCIPAL: &str = "ws/tester";

/// A running server with a database of its own.
#[derive(Debug)]
pub struct Reference {
    /// The server.
    pub server: Server,
    client: Client,
    _folder: TempDir,
}

/// What a request came to: a status and a body, or nothing where the connection was lost.
pub type Answer = Option<(u16, Value)>;

/// Runs a test with a reference server that holds these documents, and the test page.
///
/// # Panics
/// As [`with_browser`].
pub async fn with_reference(docs: &[(&str, &str)], test: impl AsyncFnOnce(&TestPage, &Reference)) {
    with_browser(async |driver| {
        let site = Site::start().await;
        let reference = Reference::start(docs, |config| config.origins = vec![site.origin()]).await;
        let page = TestPage::load(driver, &site).await;
        page.telling_frames(test(&page, &reference)).await;
        page.check().await;
        reference.server.stop().await;
    })
    .await;
}

/// Runs a test with a reference server that serves the demo page, which is open in the browser and connected.
///
/// # Panics
/// As [`with_browser`], or where the page was not built.
pub async fn with_demo_page(docs: &[(&str, &str)], test: impl AsyncFnOnce(&DemoPage, &Reference)) {
    let www = repository().join("www/dist");
    assert!(www.join("index.html").is_file(), "www/ is not built: cargo xtask build");
    with_browser(async |driver| {
        let reference = Reference::start(docs, |config| (config.www, config.demo) = (Some(www), true)).await;
        let page = DemoPage::open(driver, &reference.server.url()).await;
        test(&page, &reference).await;
        reference.server.stop().await;
    })
    .await;
}

impl Reference {
    /// Starts one that holds these documents.
    pub async fn start(docs: &[(&str, &str)], tune: impl FnOnce(&mut Config)) -> Self {
        let folder = tempfile::Builder::new().prefix("patchkeep-e2e-").tempdir().expect("a folder for the database");
        let mut config = Config::new(folder.path().join("patchkeep.db"));
        config.tokens = vec![(Token::new(TOKEN), PRINCIPAL.parse().expect("a principal"))];
        config.seed = docs.iter().map(|&(doc, text)| (doc.into(), text.into())).collect();
        config.faults = true;
        tune(&mut config);
        let server = Server::start(config).await.expect("the server starts");
        // A connection per request: one that a fault closed is never taken up again.
        let client = Client::builder().pool_max_idle_per_host(0).build().expect("a client without TLS");
        Self { server, client, _folder: folder }
    }

    /// The base of the HTTP API, as the page wants it.
    pub fn api(&self) -> String {
        format!("{}/api", self.server.url())
    }

    /// Options for [`TestPage::start`].
    pub fn options(&self) -> Value {
        json!({ "principal": PRINCIPAL, "http": self.api(), "token": TOKEN })
    }

    /// Opens a session on the page, and a document with its stored text; waits until the server knows both.
    pub async fn open(&self, page: &TestPage, doc: &str, homed: &str) {
        page.start(self.options()).await;
        self.open_document(page, doc, homed).await;
    }

    /// Opens one more document.
    pub async fn open_document(&self, page: &TestPage, doc: &str, homed: &str) {
        let (text, seq) = self.read(doc).await;
        page.open(doc, json!({ "text": text, "baseSeq": seq, "homed": homed })).await;
        page.until(&format!("pk.eventsOf('opened').some(({{ doc }}) => doc === '{doc}')")).await;
    }

    /// The stored text and its version.
    pub async fn read(&self, doc: &str) -> (String, u64) {
        let answer = self.send(self.request(Method::GET, doc)).await;
        let (status, body) = answer.expect("a read is answered");
        assert_eq!(status, 200, "{body}");
        (body["text"].as_str().expect("a text").into(), body["seq"].as_u64().expect("a version"))
    }

    /// One attempt of a keyed edit.
    pub async fn patch(&self, doc: &str, key: &str, attempt: u32, edit: &Value) -> Answer {
        let body = json!({ "edit": edit, "guarded": false }).to_string();
        let request = self.request(Method::PATCH, doc);
        let request = request.header("idempotency-key", key).header("idempotency-attempt", attempt);
        self.send(request.header("content-type", "application/json").body(body)).await
    }

    /// Somebody else's save of this text, on the stored version.
    ///
    /// # Panics
    /// Where it is not stored.
    pub async fn save_elsewhere(&self, doc: &str, text: &str) {
        let (_, seq) = self.read(doc).await;
        let body = json!({
            "text": text, "base_seq": seq, "patch_ids": [], "epoch": 1,
            "tab_id": "0195b2a0-0000-7000-8000-000000000001", "incarnation": "0195b2a0-0000-7000-8000-000000000002",
        });
        let (status, body) = self.put(doc, &body).await.expect("an answer");
        assert_eq!(status, 200, "{body}");
    }

    /// A save, as any client may send one.
    pub async fn put(&self, doc: &str, body: &Value) -> Answer {
        let request = self.request(Method::PUT, doc).header("content-type", "application/json");
        self.send(request.body(body.to_string())).await
    }

    fn request(&self, method: Method, doc: &str) -> RequestBuilder {
        self.client.request(method, format!("{}/docs/{doc}", self.api())).bearer_auth(TOKEN)
    }

    async fn send(&self, request: RequestBuilder) -> Answer {
        let response = within("an answer", request.send()).await.ok()?;
        let status = response.status().as_u16();
        let text = response.text().await.ok()?;
        Some((status, serde_json::from_str(&text).expect("the server answers with JSON")))
    }
}

/// The edit of the demo.
pub fn colour_to_color() -> Value {
    json!({ "kind": "text.replace", "find": "colour", "replace": "color" })
}
