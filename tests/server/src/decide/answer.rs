//! What a caller is told: the bodies of K5, with their headers mirrored.

use serde_json::{Map, Value, json};

use super::row::{KeyRow, Recorded};

/// One HTTP answer, before it is put on the wire.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body, without the mirrored headers.
    pub body: Map<String, Value>,
    /// `Idempotent-Replayed`: this request did not cause the effect, another attempt did.
    pub replayed: bool,
    /// `Retry-After`, in ms.
    pub retry_after_ms: Option<u64>,
}

impl Answer {
    /// An answer with this body.
    pub fn new(status: u16, body: Value) -> Self {
        let body = match body {
            Value::Object(body) => body,
            other => Map::from_iter([("value".to_owned(), other)]),
        };
        Self { status, body, replayed: false, retry_after_ms: None }
    }

    /// An answer with the common `error` object.
    pub fn error(status: u16, code: &str, message: &str) -> Self {
        Self::new(status, json!({"error": {"code": code, "message": message}}))
    }

    /// Adds `error.details`.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        if let Some(Value::Object(error)) = self.body.get_mut("error") {
            error.insert("details".into(), details);
        }
        self
    }

    /// Says that the key may be claimed again (S4).
    #[must_use]
    pub fn released(mut self) -> Self {
        self.body.insert("key".into(), "released".into());
        self
    }

    /// Says that nothing was done with the request, and that it may come again as it is (K5).
    #[must_use]
    pub fn not_processed(mut self) -> Self {
        self.body.insert("not_processed".into(), true.into());
        self
    }

    /// Marks it as the outcome of another attempt (S3).
    #[must_use]
    pub fn replayed(mut self, replayed: bool) -> Self {
        self.replayed = replayed;
        self
    }

    /// The code of the `error` object, if it is one.
    pub fn code(&self) -> Option<&str> {
        self.body.get("error")?.get("code")?.as_str()
    }

    /// What is recorded in the row: the body without what differs between the first answer and a replay.
    pub fn record(&self) -> Recorded {
        Recorded { status: self.status, body: Value::Object(self.body.clone()).to_string() }
    }

    /// The recorded answer of a row, told again (S3).
    pub fn from_record(recorded: &Recorded, replayed: bool) -> Self {
        let body = serde_json::from_str(&recorded.body).unwrap_or(Value::Null);
        Self::new(recorded.status, body).replayed(replayed)
    }

    /// The body's text, with the headers mirrored into it: CORS hides them from a browser (K5).
    pub fn text(&self) -> String {
        let mut body = self.body.clone();
        body.insert("replayed".into(), self.replayed.into());
        if let Some(ms) = self.retry_after_ms {
            body.insert("retry_after_ms".into(), ms.into());
        }
        Value::Object(body).to_string()
    }
}

/// 409: another attempt holds the key, or waits for its outcome.
pub fn in_flight(retry_after_ms: u64) -> Answer {
    let mut answer = Answer::error(409, "idempotency_in_flight", "another attempt with this key is under way");
    answer.retry_after_ms = Some(retry_after_ms);
    answer
}

/// 429: the user has as many open as may be. Nothing was done with the request, and callers read that off the code
/// (K5); of what there are too many is a detail.
pub fn too_many(of_what: &str, message: &str, retry_after_ms: u64) -> Answer {
    let answer = Answer::error(429, "not_processed", message).not_processed();
    let mut answer = answer.with_details(json!({"reason": of_what}));
    answer.retry_after_ms = Some(retry_after_ms);
    answer
}

/// 422: the key is bound to another request (S3).
pub fn key_reused() -> Answer {
    Answer::error(422, "idempotency_key_reused", "this key was used for another request")
}

/// 409: the key may have been known once, and was removed since (S9).
pub fn key_expired() -> Answer {
    Answer::error(409, "idempotency_key_expired", "keys of that age are no longer known here")
}

/// 404: nothing is known of the key. Deliberately not `released`: an attempt may still be on its way.
pub fn key_unknown() -> Answer {
    Answer::error(404, "idempotency_key_unknown", "nothing is known of this key")
}

/// 409: it was applied in a tab and died there unsaved (S6).
pub fn lost(row: &KeyRow) -> Answer {
    let answer = Answer::error(409, "patch_lost", "the edit was applied in a tab that died before it was saved");
    answer.with_details(json!({"patch_id": patch_id(row), "attempt": row.attempt}))
}

/// 200: the effect is in the recipient's memory, and not in the stored document yet (P2).
pub fn applied(row: &KeyRow, recipient_here: bool, replayed: bool) -> Answer {
    let body = json!({
        "applied_pending_flush": true,
        "patch_id": patch_id(row),
        "recipient": recipient(row, recipient_here),
    });
    Answer::new(200, body).replayed(replayed)
}

/// 409: what a person needs to decide (P3, S6).
pub fn outcome_unknown(row: &KeyRow, recipient_here: bool, since: &Since) -> Answer {
    let Some(plan) = &row.plan else { return key_unknown() };
    let answer = Answer::error(409, "patch_outcome_unknown", "nobody can tell whether the edit took effect");
    answer.with_details(json!({
        "patch_id": plan.patch_id.to_string(),
        "base_seq": plan.base_seq,
        "current_seq": since.current_seq,
        "diff": since.diff,
        "unflushed_possible": true,
        "recipient": recipient(row, recipient_here),
    }))
}

impl Answer {
    /// Says of an unknown outcome whether content that was never saved may still hold the effect (S6).
    #[must_use]
    pub fn unflushed_possible(mut self, possible: bool) -> Self {
        if let Some(details) = self.body.get_mut("error").and_then(|error| error.get_mut("details")) {
            details["unflushed_possible"] = possible.into();
        }
        self
    }
}

/// How the stored text changed since a patch was planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Since {
    /// The stored version now.
    pub current_seq: u64,
    /// The unified diff from the base to now.
    pub diff: String,
}

fn patch_id(row: &KeyRow) -> Value {
    row.plan.as_ref().map_or(Value::Null, |p| p.patch_id.to_string().into())
}

fn recipient(row: &KeyRow, here: bool) -> Value {
    match &row.plan {
        Some(plan) if here => json!({
            "tab_id": plan.recipient.tab_id.to_string(),
            "journal_id": plan.recipient.journal_id.to_string(),
            "doc": plan.recipient.doc.as_str(),
            "incarnation": plan.recipient.incarnation.to_string(),
        }),
        _ => "gone".into(),
    }
}

#[cfg(test)]
mod tests {
    use patchkeep_core::outbox::{self, Outcome, Reading, Retry, Standing};

    use super::*;

    #[test]
    fn k05_what_was_not_processed_is_read_so_by_a_caller() {
        let answer = too_many("too_many_open_keys", "too many writes of this user are open", 1_000);
        let headers = vec![("content-type".to_owned(), "application/problem+json".to_owned())];
        let answer = outbox::Answer::Answered { status: answer.status, headers, body: answer.text() };
        // Neither listed keys nor an unblemished past are needed: nothing was done.
        let standing = Standing { keys_listed: false, earlier_ambiguous: true, ..Standing::default() };
        let Reading { outcome, retry, min_wait_ms, .. } = outbox::read(&answer, standing);
        assert_eq!((outcome, retry, min_wait_ms), (Outcome::Pending, Retry::SameKey, 1_000));
    }
}
