//! HTTP, one request at a time, each on its own connection.

use std::time::Duration;

use patchkeep_core::json::{self, Value};
use patchkeep_core::outbox::{Answer, retry_after_ms};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, DATE};

use super::args::Common;

/// Longer than a server holds a request for a tab's word.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(60);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection to one server.
#[derive(Debug)]
pub struct Client {
    http: reqwest::Client,
    server: String,
    bearer: reqwest::header::HeaderValue,
}

/// What a server said it can do (K4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// It keeps op keys.
    pub idempotency_keys: bool,
    /// Its clock when it said so, in ms since the epoch.
    pub now_ms: Option<u64>,
}

/// One attempt of a keyed write, or a question about it.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The document.
    pub doc: &'a str,
    /// The body, the same bytes each time.
    pub body: &'a str,
    /// The op key.
    pub key: &'a str,
    /// The attempt's number.
    pub number: u64,
    /// When the first attempt was made, in ms of server time.
    pub first_at: u64,
    /// Only a question (K8).
    pub ask: bool,
}

/// What came back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// The status; 0 where there was no answer.
    pub status: u16,
    /// The headers.
    pub headers: Vec<(String, String)>,
    /// The whole body.
    pub body: String,
    /// No connection was made: the request was not sent at all.
    pub never_sent: bool,
}

impl Client {
    /// A client for the server and token of the command line.
    ///
    /// # Errors
    /// A token that cannot be a header, or a server that is no URL.
    pub fn new(common: &Common) -> Result<Self, String> {
        let mut bearer = reqwest::header::HeaderValue::from_str(&format!("Bearer {}", common.token))
            .map_err(|_| "the token cannot be sent")?;
        bearer.set_sensitive(true);
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .pool_max_idle_per_host(0)
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(ATTEMPT_TIMEOUT)
            .build()
            .map_err(|e| e.to_string())?;
        Ok(Self { http, server: common.server.trim_end_matches('/').to_owned(), bearer })
    }

    /// Asks what the server can do. Nothing where that fails.
    pub async fn capabilities(&self) -> Option<Capabilities> {
        let reply = self.reply(self.http.get(format!("{}/api/server/capabilities", self.server))).await;
        let date = reply.headers.iter().find(|(name, _)| name == DATE.as_str()).map(|(_, value)| value.as_str());
        // Read against a clock that stands at the epoch, a date is its own distance from there.
        let now_ms = date.and_then(|date| retry_after_ms(date, None, Some(0)));
        let value = json::parse(&reply.body).ok().filter(|_| reply.status == 200)?;
        let idempotency_keys = value.field("idempotency_keys").and_then(Value::as_bool) == Some(true);
        Some(Capabilities { idempotency_keys, now_ms })
    }

    /// Reads a document.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub async fn read(&self, doc: &str) -> Result<Reply, String> {
        let reply = self.reply(self.http.get(self.doc_url(doc)).header(AUTHORIZATION, self.bearer.clone())).await;
        if reply.status == 0 { Err(format!("no answer from {}", self.server)) } else { Ok(reply) }
    }

    /// Makes one attempt, or asks.
    pub async fn patch(&self, request: &Request<'_>) -> Reply {
        let mut sending = self
            .http
            .patch(self.doc_url(request.doc))
            .header(AUTHORIZATION, self.bearer.clone())
            .header(CONTENT_TYPE, "application/json")
            .header("idempotency-key", request.key)
            .header("idempotency-attempt", request.number)
            .header("idempotency-first-attempt", request.first_at)
            .body(request.body.to_owned());
        if request.ask {
            sending = sending.header("idempotency-ask", "true");
        }
        self.reply(sending).await
    }

    /// Asks what is known of a key.
    pub async fn ask(&self, key: &str) -> Reply {
        self.reply(self.http.get(self.key_url(key, "")).header(AUTHORIZATION, self.bearer.clone())).await
    }

    /// Tells a person's word about a key. The same word again changes nothing.
    pub async fn settle(&self, key: &str, verdict: crate::decide::Verdict) -> Reply {
        let request = self
            .http
            .post(self.key_url(key, "/settle"))
            .header(AUTHORIZATION, self.bearer.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(format!(r#"{{"as":"{}"}}"#, verdict.as_str()));
        self.reply(request).await
    }

    async fn reply(&self, request: reqwest::RequestBuilder) -> Reply {
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) => return Reply { never_sent: error.is_connect() || error.is_builder(), ..Reply::default() },
        };
        let status = response.status().as_u16();
        let text = |value: &reqwest::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = response.headers().iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect();
        // K12: the whole answer is part of the attempt.
        match response.text().await {
            Ok(body) => Reply { status, headers, body, never_sent: false },
            Err(_) => Reply::default(),
        }
    }

    fn doc_url(&self, doc: &str) -> String {
        let parts: Vec<_> = doc.split('/').map(escaped).collect();
        format!("{}/api/docs/{}", self.server, parts.join("/"))
    }

    fn key_url(&self, key: &str, rest: &str) -> String {
        format!("{}/api/keys/{}{rest}", self.server, escaped(key))
    }
}

/// One segment of a path.
fn escaped(segment: &str) -> String {
    segment.bytes().fold(String::new(), |mut out, byte| {
        match byte {
            b'-' | b'.' | b'_' | b'~' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
        out
    })
}

impl Reply {
    /// As the core reads it.
    pub fn answer(&self) -> Answer {
        if self.status == 0 {
            return Answer::Failed;
        }
        Answer::Answered { status: self.status, headers: self.headers.clone(), body: self.body.clone() }
    }

    /// What `read` finds in the body, by a path of keys.
    pub fn find<T>(&self, path: &[&str], read: impl FnOnce(&Value<'_>) -> Option<T>) -> Option<T> {
        let value = json::parse(&self.body).ok()?;
        path.iter().try_fold(&value, |v, key| v.field(key)).and_then(read)
    }

    /// A document's text.
    pub fn text(&self) -> Option<String> {
        self.find(&["text"], |v| v.as_str().map(Into::into))
    }

    /// The error's code.
    pub fn code(&self) -> Option<String> {
        self.find(&["error", "code"], |v| v.as_str().map(str::to_owned))
    }

    /// The error for a person.
    pub fn failure(&self) -> String {
        let part = |name| self.find(&["error", name], |v| v.as_str().map(str::to_owned));
        match (part("code"), part("message")) {
            (Some(code), Some(message)) => format!("{code} · {message}"),
            (Some(code), None) => code,
            _ => format!("status {}", self.status),
        }
    }
}
