//! Documents: read, keyed edit, save.

use std::str::FromStr;
use std::sync::Arc;

use axum::extract::{OriginalUri, Path, State};
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::response::{IntoResponse, Response};
use patchkeep_core::digest::{self, Digest};
use patchkeep_core::ids::{DocId, PatchId};
use patchkeep_core::json::{self, Value};
use serde_json::json;

use super::body::Text;
use super::caller::{Caller, From};
use super::reply::{bad_request, internal, lose};
use crate::app::App;
use crate::decide::{Answer, Attempt, KeyId, Save};
use crate::principal::{OpKey, Principal};
use crate::service::{self, KeyedWrite, Outcome, Saved};
use crate::store::Store;

/// `GET /api/docs/{doc}`.
pub(super) async fn read<S: Store>(
    State(app): State<Arc<App<S>>>,
    Caller(principal): Caller,
    Path(doc): Path<String>,
) -> Result<Answer, Answer> {
    let doc = doc_id(&doc)?;
    let name = doc.clone();
    let found = app.store.transact(move |tx| tx.document(&principal.workspace, &doc)).await;
    match found.map_err(|e| internal(&e))? {
        Some(document) => {
            Ok(Answer::new(200, json!({"doc": name.as_str(), "text": document.text, "seq": document.seq})))
        }
        None => Err(Answer::error(404, "not_found", "there is no such document")),
    }
}

/// `PATCH /api/docs/{doc}`: a keyed edit (S1–S7).
pub(super) async fn patch<S: Store>(
    State(app): State<Arc<App<S>>>,
    Caller(principal): Caller,
    From(peer): From,
    Path(doc): Path<String>,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
    Text(body): Text,
) -> Response {
    let write = body.and_then(|body| keyed_write(principal, &doc, uri.path(), &headers, &body));
    let write = match write {
        Ok(write) => write,
        Err(answer) => return answer.into_response(),
    };
    let (boot, ask) = (app.boot(), write.attempt.ask);
    let (app2, boot2) = (app.clone(), boot.clone());
    // A caller that goes away takes its answer with it, not the write: the state settles all the same (S6).
    let task = tokio::spawn(async move {
        tokio::select! {
            outcome = service::keyed(&app2, &boot2, write) => outcome,
            () = boot2.over() => Ok(Outcome::Lose),
        }
    });
    match task.await {
        Ok(Ok(Outcome::Answer(answer))) => {
            let written = answer.status == 200 && !ask;
            if written && app.faults.take_answer() { lose(peer.as_ref()) } else { answer.into_response() }
        }
        Ok(Ok(Outcome::Lose)) => lose(peer.as_ref()),
        Ok(Err(error)) => internal(&error).into_response(),
        Err(error) => {
            tracing::error!(%error, "a write's task ended");
            Answer::error(500, "internal", "the server failed").into_response()
        }
    }
}

/// `PUT /api/docs/{doc}`: a save (W1).
pub(super) async fn save<S: Store>(
    State(app): State<Arc<App<S>>>,
    Caller(principal): Caller,
    From(peer): From,
    Path(doc): Path<String>,
    Text(body): Text,
) -> Response {
    let save = match body.and_then(|body| read_save(&doc, &body, app.config.max_doc_bytes)) {
        Ok(save) => save,
        Err(answer) => return answer.into_response(),
    };
    let boot = app.boot();
    match service::save(&app, &boot, principal, save).await {
        Ok(Saved::Stored { .. }) if app.faults.take_save_answer() => lose(peer.as_ref()),
        Ok(saved) => saved_answer(saved).into_response(),
        Err(error) => internal(&error).into_response(),
    }
}

fn saved_answer(saved: Saved) -> Answer {
    match saved {
        Saved::Stored { seq } => Answer::new(200, json!({"seq": seq})),
        Saved::Conflict { seq, held } => Answer::error(409, "save_conflict", "another text was stored meanwhile")
            .with_details(json!({"seq": seq, "patch_ids": texts(&held.patch_ids), "in_doubt": texts(&held.in_doubt)})),
        Saved::Fenced => Answer::error(409, "save_fenced", "a later load of this tab has the document open"),
        Saved::NotAnnounced => {
            let message = "another instance of this document is announced, and this one is not";
            Answer::error(409, "save_not_announced", message)
        }
        Saved::NotYours => Answer::error(403, "tab_not_yours", "the tab is another user's"),
    }
}

fn texts(ids: &[PatchId]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

fn keyed_write(
    principal: Principal,
    doc: &str,
    path: &str,
    headers: &HeaderMap,
    body: &str,
) -> Result<KeyedWrite, Answer> {
    let fingerprint = digest::fingerprint(Method::PATCH.as_str(), path, body)
        .map_err(|e| bad_request("malformed", &format!("the body has no canonical form: {e}")))?;
    let value = json::parse(body).map_err(|e| bad_request("malformed", &e.to_string()))?;
    let edit = value.member("edit").filter(|m| matches!(m.value, Value::Object(_)));
    let edit = edit.ok_or_else(|| bad_request("malformed", "`edit` must be an object"))?;
    let guarded = match value.field("guarded") {
        None => false,
        Some(guarded) => guarded.as_bool().ok_or_else(|| bad_request("malformed", "`guarded` must be a boolean"))?,
    };
    let attempt = read_attempt(principal, format!("PATCH {path}"), fingerprint, headers)?;
    Ok(KeyedWrite { attempt, doc: doc_id(doc)?, edit: edit.raw.to_owned(), guarded })
}

/// What the headers say of an attempt (K2).
pub(crate) fn read_attempt(
    principal: Principal,
    route: String,
    fingerprint: Digest,
    headers: &HeaderMap,
) -> Result<Attempt, Answer> {
    let id = KeyId { principal, key: op_key(headers)? };
    let number = number_header(headers, "idempotency-attempt")?.unwrap_or(1);
    if number == 0 {
        return Err(bad_request("malformed", "`Idempotency-Attempt` counts from 1"));
    }
    let first_at = number_header(headers, "idempotency-first-attempt")?.or_else(|| minted_at(&id.key));
    let ask = asked(headers)?;
    Ok(Attempt { id, route, fingerprint, number, first_at, ask })
}

/// A UUIDv7 says when it was minted, which is before its first attempt.
fn minted_at(key: &OpKey) -> Option<u64> {
    let uuid = uuid::Uuid::parse_str(key.as_str()).ok()?;
    let (seconds, nanos) = uuid.get_timestamp().filter(|_| uuid.get_version_num() == 7)?.to_unix();
    seconds.checked_mul(1000)?.checked_add(u64::from(nanos / 1_000_000))
}

fn op_key(headers: &HeaderMap) -> Result<OpKey, Answer> {
    let mut keys = headers.get_all("idempotency-key").iter();
    let key = keys.next().ok_or_else(|| bad_request("idempotency_key_missing", "a write needs `Idempotency-Key`"))?;
    let key = key.to_str().ok().and_then(|text| text.parse().ok()).filter(|_| keys.next().is_none());
    key.ok_or_else(|| bad_request("idempotency_key_invalid", "one key of 1 to 255 visible ASCII characters"))
}

/// A question that is misspelled must not become a write.
fn asked(headers: &HeaderMap) -> Result<bool, Answer> {
    let mut values = headers.get_all("idempotency-ask").iter();
    match (values.next().map(HeaderValue::as_bytes), values.next()) {
        (None | Some(b"false"), None) => Ok(false),
        (Some(b"true"), None) => Ok(true),
        _ => Err(bad_request("malformed", "`Idempotency-Ask` must be true or false")),
    }
}

fn number_header(headers: &HeaderMap, name: &'static str) -> Result<Option<u64>, Answer> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let number = value.to_str().ok().and_then(|text| text.parse().ok());
    number.map(Some).ok_or_else(|| bad_request("malformed", &format!("`{name}` must be a number")))
}

fn read_save(doc: &str, body: &str, max_doc_bytes: usize) -> Result<Save, Answer> {
    let value = json::parse(body).map_err(|e| bad_request("malformed", &e.to_string()))?;
    let text = value.field("text").and_then(Value::as_str);
    let text = text.ok_or_else(|| bad_request("malformed", "`text` must be a string"))?;
    if text.len() > max_doc_bytes {
        return Err(Answer::error(413, "too_large", "the document is too large"));
    }
    Ok(Save {
        doc: doc_id(doc)?,
        text: text.to_owned(),
        tab_id: id_field(&value, "tab_id")?,
        epoch: integer_field(&value, "epoch")?,
        incarnation: id_field(&value, "incarnation")?,
        generation: if value.field("generation").is_some() { integer_field(&value, "generation")? } else { 0 },
        base_seq: integer_field(&value, "base_seq")?,
        patch_ids: ids_field(&value, "patch_ids")?,
        in_doubt: ids_field(&value, "in_doubt")?,
    })
}

fn id_field<T: FromStr>(value: &Value<'_>, name: &str) -> Result<T, Answer> {
    let id = value.field(name).and_then(Value::as_str).and_then(|text| text.parse().ok());
    id.ok_or_else(|| bad_request("malformed", &format!("`{name}` must be a UUID")))
}

/// The most patches a save may name: each is looked up.
const MAX_NAMED: usize = 10_000;

/// An absent list is an empty one.
fn ids_field(value: &Value<'_>, name: &str) -> Result<Vec<PatchId>, Answer> {
    let ids = value.field(name).map_or(Some(&[][..]), Value::as_array);
    if ids.is_some_and(|ids| ids.len() > MAX_NAMED) {
        return Err(bad_request("too_many", &format!("`{name}` names more than {MAX_NAMED} patches")));
    }
    let ids = ids.and_then(|ids| ids.iter().map(|id| id.as_str()?.parse().ok()).collect());
    ids.ok_or_else(|| bad_request("malformed", &format!("`{name}` must be a list of UUIDs")))
}

fn integer_field(value: &Value<'_>, name: &str) -> Result<u64, Answer> {
    let number = value.field(name).and_then(Value::as_integer);
    number.ok_or_else(|| bad_request("malformed", &format!("`{name}` must be a whole number")))
}

fn doc_id(doc: &str) -> Result<DocId, Answer> {
    let id = DocId::new(doc).filter(service::is_document_id);
    id.ok_or_else(|| bad_request("malformed", "a document id has 1 to 512 bytes, and no control characters"))
}
