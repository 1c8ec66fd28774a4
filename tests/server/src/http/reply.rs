//! Answers on the wire.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::decide::Answer;
use crate::net::Peer;
use crate::store::StoreError;

/// Tells that another attempt caused the effect (S3).
pub(super) const REPLAYED: &str = "idempotent-replayed";

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let (text, content_type) = match problem(&self, status) {
            Some(problem) => (problem.text(), "application/problem+json"),
            None => (self.text(), "application/json"),
        };
        let mut response = (status, text).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.replayed {
            headers.insert(REPLAYED, HeaderValue::from_static("true"));
        }
        if let Some(ms) = self.retry_after_ms {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(ms.div_ceil(1000)));
        }
        response
    }
}

/// The members of RFC 9457 beside the `error` object. `about:blank`: which problem it is, the error's `code` says.
fn problem(answer: &Answer, status: StatusCode) -> Option<Answer> {
    let detail = answer.body.get("error")?.get("message").cloned();
    let mut problem = answer.clone();
    let members = [
        ("type", Some("about:blank".into())),
        ("title", status.canonical_reason().map(Into::into)),
        ("status", Some(answer.status.into())),
        ("detail", detail),
    ];
    problem.body.extend(members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    Some(problem)
}

/// 500: nothing is said about what was done.
pub(super) fn internal(error: &StoreError) -> Answer {
    tracing::error!(%error, "a request failed");
    Answer::error(500, "internal", "the server failed")
}

/// 400: the request itself is wrong.
pub(super) fn bad_request(code: &str, message: &str) -> Answer {
    Answer::error(400, code, message)
}

/// The connection closes without an answer.
pub(super) fn lose(peer: Option<&Peer>) -> Response {
    match peer {
        Some(peer) => peer.lose(),
        None => tracing::warn!("this connection cannot be lost on purpose"),
    }
    (StatusCode::INTERNAL_SERVER_ERROR, Body::empty()).into_response()
}
