//! Keys by their name: what is known of one, and a person's word about it (K8, S10).

use std::sync::Arc;

use axum::extract::{Path, State};
use patchkeep_core::json::{self, Value};

use super::body::Text;
use super::caller::Caller;
use super::reply::{bad_request, internal};
use crate::app::App;
use crate::decide::{Answer, KeyId, Verdict};
use crate::principal::Principal;
use crate::service;
use crate::store::Store;

/// `GET /api/keys/{key}`: as an attempt with `Idempotency-Ask` is answered, without the request at hand.
pub(super) async fn ask<S: Store>(
    State(app): State<Arc<App<S>>>,
    Caller(principal): Caller,
    Path(key): Path<String>,
) -> Result<Answer, Answer> {
    let id = key_id(principal, &key)?;
    service::ask(&app, &app.boot(), id).await.map_err(|e| internal(&e))
}

/// `POST /api/keys/{key}/settle` with `{"as": "applied" | "not_applied"}`.
pub(super) async fn settle<S: Store>(
    State(app): State<Arc<App<S>>>,
    Caller(principal): Caller,
    Path(key): Path<String>,
    Text(body): Text,
) -> Result<Answer, Answer> {
    let body = body?;
    let value = json::parse(&body).map_err(|e| bad_request("malformed", &e.to_string()))?;
    let verdict = value.field("as").and_then(Value::as_str).and_then(Verdict::from_word);
    let verdict = verdict.ok_or_else(|| bad_request("malformed", "`as` must be `applied` or `not_applied`"))?;
    let id = key_id(principal, &key)?;
    service::settle(&app, &app.boot(), id, verdict).await.map_err(|e| internal(&e))
}

/// Keys belong to a principal: nobody settles another's (T6).
fn key_id(principal: Principal, key: &str) -> Result<KeyId, Answer> {
    let key = key.parse().map_err(|_| bad_request("idempotency_key_invalid", "1 to 255 visible ASCII characters"))?;
    Ok(KeyId { principal, key })
}
