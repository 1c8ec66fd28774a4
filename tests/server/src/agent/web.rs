//! HTTP, each request on a connection of its own: nothing of ours sends anything twice by itself.

use std::time::Duration;

use patchkeep_core::frame::PROTOCOL;
use patchkeep_core::json::Value;
use patchkeep_core::outbox::{self, Capabilities, retry_after_ms};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, DATE, HeaderName, HeaderValue};

use crate::principal::in_header;
use crate::store::fresh_id;

/// Longer than a server holds a request for a tab's word, in ms.
pub const ATTEMPT_TIMEOUT_MS: u64 = 60_000;
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(ATTEMPT_TIMEOUT_MS);
/// More than any answer of the protocol: the longest is a conflict that lists all the ids that a save may name (W3).
const MAX_BODY_BYTES: usize = 1 << 20;
/// More than the longest document, with every character escaped.
const MAX_TEXT_BYTES: usize = 64 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// One server, and the credentials for it.
#[derive(Debug)]
pub struct Web {
    http: reqwest::Client,
    server: String,
    origin: String,
    prefix: String,
    bearer: HeaderValue,
}

/// What came of asking a server what it can do (K4).
#[derive(Clone, Debug)]
pub enum Asked {
    /// Nobody answered.
    Unreachable,
    /// Somebody did.
    Answered(Said),
}

/// What a server said of itself.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// What it can do; `None` where the answer is none of this protocol.
    pub listed: Option<Capabilities>,
    /// Its clock when it said so, in ms since the epoch.
    pub now_ms: Option<u64>,
    /// Whose token it was asked with, where it says that (T6).
    pub principal: Option<String>,
    /// Whether it is a server of this protocol: any other has no place to ask for a key.
    pub speaks: bool,
}

/// What came back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// The status; 0 where there was no answer.
    pub status: u16,
    /// The headers.
    pub headers: Vec<(String, String)>,
    /// The body, as far as it was read (K12).
    pub body: String,
    /// No connection was made: the request was not sent at all.
    pub never_sent: bool,
}

impl Web {
    /// A client for this server and token.
    ///
    /// # Errors
    /// A token that cannot be a header, or a server that is no URL.
    pub fn new(server: &str, token: &str) -> Result<Self, String> {
        let mut bearer = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| "the token cannot be sent")?;
        bearer.set_sensitive(true);
        let url = reqwest::Url::parse(server).map_err(|e| format!("{server}: {e}"))?;
        if !matches!(url.scheme(), "http" | "https") || !url.username().is_empty() || url.password().is_some() {
            return Err(format!("{}: http(s) and no user is needed", url.host_str().unwrap_or("the server")));
        }
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .pool_max_idle_per_host(0)
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(ATTEMPT_TIMEOUT)
            .build()
            .map_err(|e| e.to_string())?;
        let (origin, prefix) = (url.origin().ascii_serialization(), url.path().trim_end_matches('/').to_owned());
        Ok(Self { http, server: format!("{origin}{prefix}"), origin, prefix, bearer })
    }

    /// `http(s)://host[:port]`.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// A document's path on the server, as the fingerprint names it.
    pub fn doc_path(&self, doc: &str) -> String {
        let parts: Vec<_> = doc.split('/').map(escaped).collect();
        format!("{}/api/docs/{}", self.prefix, parts.join("/"))
    }

    /// Asks what the server can do, and whom it takes us for.
    pub async fn capabilities(&self) -> Asked {
        let asking = self.http.get(format!("{}/api/server/capabilities", self.server));
        let reply = self.reply(asking.header(AUTHORIZATION, self.bearer.clone())).await;
        if reply.status == 0 {
            return Asked::Unreachable;
        }
        let listed = reply.status == 200 && reply.find(&[], |_| Some(())).is_some();
        let text = |name: &str| reply.find(&[name], |v| v.as_str().map(str::to_owned));
        let attempts = |v: &Value<'_>| Some(v.as_array()?.iter().any(|f| f.as_str() == Some("attempts")));
        Asked::Answered(Said {
            listed: listed.then(|| Capabilities {
                idempotency_keys: reply.find(&["idempotency_keys"], |v| v.as_bool()) == Some(true),
                key_ttl_ms: reply.find(&["idempotency_key_ttl_ms"], |v| v.as_integer()),
                structured_keys: text("key_format").as_deref() == Some("sf"),
                attempts: reply.find(&["features"], attempts) == Some(true),
            }),
            now_ms: reply.date_ms(),
            principal: text("principal").filter(|_| listed),
            speaks: listed && reply.find(&["protocol"], |v| v.as_integer()) == Some(PROTOCOL),
        })
    }

    /// Makes one attempt of an op, or asks about it, for this principal (T6).
    pub async fn send(&self, request: &outbox::Request, principal: Option<&str>) -> Reply {
        let Ok(method) = request.method.parse::<reqwest::Method>() else {
            return Reply { never_sent: true, ..Reply::default() };
        };
        let mut sending = self.http.request(method, &request.url).timeout(Duration::from_millis(request.timeout_ms));
        for (name, value) in &request.headers {
            sending = sending.header(*name, value);
        }
        sending = sending.header(AUTHORIZATION, self.bearer.clone());
        if let Some(principal) = principal {
            sending = sending.header(PRINCIPAL, in_header(principal));
        }
        self.reply(sending.body(request.body.clone().unwrap_or_default())).await
    }

    /// Reads a document.
    pub async fn read(&self, doc: &str) -> Reply {
        let url = format!("{}{}", self.origin, self.doc_path(doc));
        self.reply_within(self.http.get(url).header(AUTHORIZATION, self.bearer.clone()), MAX_TEXT_BYTES).await
    }

    /// The server's word that it does not take this token, if that is its word.
    pub async fn refusal(&self) -> Option<Reply> {
        let reply = self.ask(&fresh_id().to_string()).await;
        matches!(reply.status, 401 | 403).then_some(reply)
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
        self.reply_within(request, MAX_BODY_BYTES).await
    }

    async fn reply_within(&self, request: reqwest::RequestBuilder, most_bytes: usize) -> Reply {
        let mut response = match request.send().await {
            Ok(response) => response,
            Err(error) => return Reply { never_sent: error.is_connect() || error.is_builder(), ..Reply::default() },
        };
        let status = response.status().as_u16();
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = response.headers().iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect();
        // K12: the whole answer is part of the attempt; whoever sends without end is not heard out.
        let mut body = Vec::new();
        while body.len() < most_bytes {
            match response.chunk().await {
                Ok(Some(piece)) => body.extend_from_slice(&piece),
                Ok(None) => break,
                Err(_) => return Reply::default(),
            }
        }
        body.truncate(most_bytes);
        Reply { status, headers, body: String::from_utf8_lossy(&body).into_owned(), never_sent: false }
    }

    fn key_url(&self, key: &str, rest: &str) -> String {
        format!("{}/api/keys/{}{rest}", self.server, escaped(key))
    }
}

const PRINCIPAL: HeaderName = HeaderName::from_static("patchkeep-principal");

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
    /// The last answer to an op, as far as it was kept.
    pub fn kept(op: &outbox::Op) -> Self {
        let headers = op.response_type.iter().map(|kind| (CONTENT_TYPE.as_str().to_owned(), kind.clone())).collect();
        Self { status: op.status, headers, body: op.response.clone().unwrap_or_default(), never_sent: false }
    }

    /// As the core reads it.
    pub fn answer(&self) -> outbox::Answer {
        if self.never_sent {
            return outbox::Answer::NotSent;
        }
        if self.status == 0 {
            return outbox::Answer::Failed;
        }
        outbox::Answer::Answered { status: self.status, headers: self.headers.clone(), body: self.body.clone() }
    }

    /// What `read` finds in the body, by a path of keys; nothing where its type is not JSON (K5).
    pub fn find<T>(&self, path: &[&str], read: impl FnOnce(&Value<'_>) -> Option<T>) -> Option<T> {
        let content_type = self.headers.iter().find(|(name, _)| name == CONTENT_TYPE.as_str());
        let value = outbox::json_of(content_type.map(|(_, v)| v.as_str()), &self.body)?;
        path.iter().try_fold(&value, |v, key| v.field(key)).and_then(read)
    }

    /// The server's clock when it answered, in ms since the epoch.
    pub fn date_ms(&self) -> Option<u64> {
        let date = self.headers.iter().find(|(name, _)| name == DATE.as_str()).map(|(_, value)| value.as_str());
        // Read against a clock that stands at the epoch, a date is its own distance from there.
        date.and_then(|date| retry_after_ms(date, None, Some(0)))
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
