//! Capabilities, tickets, fault switches and the demo's own door.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, header};
use serde::Deserialize;
use serde_json::json;

use super::caller::{Caller, From};
use super::reply::internal;
use crate::app::App;
use crate::decide::{Answer, too_many};
use crate::faults::{Point, Switches};
use crate::store::Store;

/// How long a tab is asked to wait where its user has too many sockets, in ms.
pub(super) const RETRY_MS: u64 = 5000;
pub(super) const MANY_SOCKETS: &str = "too many sockets of this user are open";

/// `GET /healthz`.
pub(super) async fn health() -> &'static str {
    "ok\n"
}

/// Any path that is not there.
pub(super) async fn not_found() -> Answer {
    Answer::error(404, "not_found", "there is nothing here")
}

/// `GET /api/server/capabilities`: what a caller may rely on (K4), and whom its token is of, where it came with one: a
/// caller that was only given a token names that principal with every attempt (T6).
pub(super) async fn capabilities<S: Store>(
    State(app): State<Arc<App<S>>>,
    caller: Result<Caller, Answer>,
) -> Json<serde_json::Value> {
    let mut body = json!({
        "protocol": patchkeep_core::frame::PROTOCOL,
        "idempotency_keys": true,
        "idempotency_key_ttl_ms": app.config.key_ttl_ms,
        "max_frame_bytes": app.config.max_frame_bytes,
        "key_format": "raw",
        "features": ["attempts"],
    });
    if let Ok(Caller(principal)) = caller {
        body["principal"] = principal.to_string().into();
    }
    Json(body)
}

/// `POST /api/tickets`: a single-use ticket for a browser's socket.
pub(super) async fn ticket<S: Store>(
    State(app): State<Arc<App<S>>>,
    Caller(principal): Caller,
) -> Result<Json<serde_json::Value>, Answer> {
    // Told here, where a page can read it: a refused handshake shows it nothing (B16).
    if app.boot().sockets.count(&principal) >= app.config.max_sockets {
        return Err(too_many("too_many_sockets", MANY_SOCKETS, RETRY_MS));
    }
    let ticket = app.boot().tickets.issue(principal);
    let ticket = ticket.ok_or_else(|| Answer::error(429, "rate_limited", "too many tickets are out"))?;
    Ok(Json(json!({"ticket": ticket})))
}

/// `GET /demo.json`: what the demo page needs to begin, for pages on this machine alone.
pub(super) async fn demo<S: Store>(
    State(app): State<Arc<App<S>>>,
    From(peer): From,
    headers: HeaderMap,
) -> Result<Json<serde_json::Value>, Answer> {
    let local = peer.is_some_and(|p| p.addr.ip().is_loopback()) && names_this_machine(&headers);
    let first = app.config.tokens.first().filter(|_| local);
    let (token, principal) = first.ok_or_else(|| Answer::error(404, "not_found", "there is nothing here"))?;
    let docs: Vec<_> = app.config.seed.iter().map(|(doc, _)| doc).collect();
    Ok(Json(json!({"token": token.reveal(), "principal": principal.to_string(), "docs": docs})))
}

/// Whether the page that asks is this machine's own. A stranger's name that was made to point here (DNS rebinding) makes
/// its pages ours for the browser; the name it sends gives it away.
fn names_this_machine(headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).and_then(|h| h.parse::<Authority>().ok());
    host.is_some_and(|host| {
        let name = host.host();
        let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|ip| ip.is_loopback())
    })
}

/// Fault switches are for callers with a token, and for pages under this machine's own name.
fn for_this_machine(headers: &HeaderMap) -> Result<(), Answer> {
    let own = names_this_machine(headers);
    own.then_some(()).ok_or_else(|| Answer::error(404, "not_found", "there is nothing here"))
}

/// `GET /faults`.
pub(super) async fn show_faults<S: Store>(
    State(app): State<Arc<App<S>>>,
    _: Caller,
    headers: HeaderMap,
) -> Result<Json<Switches>, Answer> {
    for_this_machine(&headers)?;
    Ok(Json(app.faults.show()))
}

/// What `POST /faults` may carry.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FaultRequest {
    lose_next_ack: Option<u64>,
    lose_next_answer: Option<u64>,
    lose_next_save_answer: Option<u64>,
    delay_ms: Option<u64>,
    next_patch_expires_in_ms: Option<u64>,
    hold_at: Option<Point>,
    #[serde(default)]
    release: bool,
    #[serde(default)]
    cut: bool,
    #[serde(default)]
    restart: bool,
}

/// `POST /faults`. A page of another origin cannot send JSON here without being asked first (CORS).
pub(super) async fn set_faults<S: Store>(
    State(app): State<Arc<App<S>>>,
    _: Caller,
    headers: HeaderMap,
    Json(request): Json<FaultRequest>,
) -> Result<Json<Switches>, Answer> {
    for_this_machine(&headers)?;
    let faults = &app.faults;
    request.lose_next_ack.inspect(|n| faults.lose_next_ack(*n));
    request.lose_next_answer.inspect(|n| faults.lose_next_answer(*n));
    request.lose_next_save_answer.inspect(|n| faults.lose_next_save_answer(*n));
    request.delay_ms.inspect(|ms| faults.delay_ms(*ms));
    request.next_patch_expires_in_ms.inspect(|ms| faults.next_patch_expires_in_ms(*ms));
    request.hold_at.inspect(|point| faults.hold_at(*point));
    if request.release {
        faults.release();
    }
    if request.cut {
        app.boot().hub.cut();
    }
    if request.restart {
        app.restart().await.map_err(|e| internal(&e))?;
    }
    Ok(Json(faults.show()))
}
