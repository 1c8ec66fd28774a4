//! K5: how one HTTP answer to a keyed write is read. A pure function; the table in `tests/vectors/answers.json` is
//! this rule in full.

use super::retry_after::retry_after_ms;
use crate::json::{self, Value};

/// What came back for one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A whole answer.
    Answered {
        /// The status; 0 for a redirect that was not followed.
        status: u16,
        /// The headers a browser shows, names in any case.
        headers: Vec<(String, String)>,
        /// The whole body.
        body: String,
    },
    /// No answer, or not all of one: connection lost, timed out, body cut off.
    Failed,
    /// The request never went out: the host's headers could not be had, or are none.
    NotSent,
}

impl Answer {
    /// A header of a whole answer, by its name in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let Self::Answered { headers, .. } = self else { return None };
        headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// What is known of the op when the answer arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Standing {
    /// `idempotency_keys` was listed before the op's first attempt and is listed now, or is being asked about anew: what
    /// is ambiguous is judged when that is answered, before another attempt (K4).
    pub keys_listed: bool,
    /// An earlier attempt of the op ended ambiguous.
    pub earlier_ambiguous: bool,
    /// The op said that it expects another type than JSON, so that any 2xx is its answer.
    pub expects_other_type: bool,
    /// The server's clock, in ms since the epoch, where it is known.
    pub server_now_ms: Option<u64>,
}

/// What an answer comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The effect is in the stored document.
    Done,
    /// The effect is in a tab's memory (P2).
    Applied,
    /// Nothing is decided: another attempt is under way, or this one was not processed.
    Pending,
    /// It may or may not have been processed.
    Ambiguous,
    /// No effect.
    Refused,
    /// The key is bound to another request.
    Conflict,
    /// It was applied in a tab and died unsaved.
    Lost,
    /// Nobody can tell (P3).
    Unknown,
}

/// Whether and how to go on by oneself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Retry {
    /// Not.
    Never,
    /// The same request with the same key, after a wait.
    SameKey,
    /// Ask what became of it; never re-plan.
    AskAgain,
    /// Once, after the host has refreshed its credentials.
    AfterCredentials,
}

/// An answer, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// What it comes to.
    pub outcome: Outcome,
    /// How to go on.
    pub retry: Retry,
    /// The effect, if any, was made by an earlier attempt.
    pub replayed: bool,
    /// The least wait before another attempt, in ms.
    pub min_wait_ms: u64,
    /// The error's code: the body's, or `redirected`.
    pub code: Option<String>,
    /// The key is bound to another request, though an earlier attempt may have had its effect.
    pub conflict: bool,
}

/// Reads an answer.
pub fn read(answer: &Answer, standing: Standing) -> Reading {
    let (status, body) = match answer {
        Answer::Answered { status, body, .. } => (status, body),
        Answer::Failed => {
            return finish(Parts { outcome: Outcome::Ambiguous, retry: Retry::SameKey, ..Parts::default() }, standing);
        }
        Answer::NotSent => {
            let code = Some("not_sent".into());
            return finish(
                Parts { outcome: Outcome::Pending, retry: Retry::SameKey, code, ..Parts::default() },
                standing,
            );
        }
    };
    let header = |name: &str| answer.header(name);
    // What is no JSON by its type says nothing, even where it happens to parse: a gateway's page is not the server's.
    let parsed = json_of(header("content-type"), body);
    let field = |name: &str| parsed.as_ref().and_then(|v| v.field(name));
    let code = field("error").and_then(|e| e.field("code")).and_then(Value::as_str);
    // Every answer mirrors its headers in the body, and the body wins: browsers hide headers from other origins.
    let replayed = field("replayed")
        .and_then(Value::as_bool)
        .unwrap_or_else(|| header("idempotent-replayed").is_some_and(|v| v.trim().eq_ignore_ascii_case("true")));
    let wait = field("retry_after_ms").and_then(Value::as_integer);
    let wait = wait.or_else(|| retry_after_ms(header("retry-after")?, header("date"), standing.server_now_ms));
    let mut parts = Parts {
        replayed,
        min_wait_ms: wait.unwrap_or(0),
        code: code.map(Into::into),
        released: field("key").and_then(Value::as_str) == Some("released"),
        ..Parts::default()
    };
    (parts.outcome, parts.retry) = match (*status, code) {
        (204 | 205, _) => (Outcome::Done, Retry::Never),
        (200..=299, _) if parsed.is_some() || standing.expects_other_type => {
            match field("applied_pending_flush").and_then(Value::as_bool) {
                Some(true) => (Outcome::Applied, Retry::AskAgain),
                _ => (Outcome::Done, Retry::Never),
            }
        }
        (200..=299, _) => (Outcome::Ambiguous, Retry::SameKey),
        (409, Some("idempotency_in_flight")) => (Outcome::Pending, Retry::SameKey),
        (409, Some("patch_outcome_unknown")) => (Outcome::Unknown, Retry::AskAgain),
        (409, Some("patch_lost")) => (Outcome::Lost, Retry::Never),
        (409, Some("idempotency_key_expired")) => (Outcome::Unknown, Retry::Never),
        (409, Some("principal_mismatch")) => (Outcome::Pending, Retry::AfterCredentials),
        (422, Some("idempotency_key_reused")) => (Outcome::Conflict, Retry::Never),
        // The server recorded its own failure as the answer: asking again brings the same.
        (500..=599, _) if replayed => (Outcome::Unknown, Retry::Never),
        (425 | 429 | 503, Some("not_processed")) => (Outcome::Pending, Retry::SameKey),
        (408 | 425 | 429 | 500..=599, _) => (Outcome::Ambiguous, Retry::SameKey),
        (401, _) => (Outcome::Refused, Retry::AfterCredentials),
        _ => (Outcome::Refused, Retry::Never),
    };
    if matches!(*status, 0 | 300..=399) {
        parts.code = Some("redirected".into());
    }
    finish(parts, standing)
}

struct Parts {
    outcome: Outcome,
    retry: Retry,
    replayed: bool,
    min_wait_ms: u64,
    code: Option<String>,
    released: bool,
}

impl Default for Parts {
    fn default() -> Self {
        let (outcome, retry) = (Outcome::Unknown, Retry::Never);
        Self { outcome, retry, replayed: false, min_wait_ms: 0, code: None, released: false }
    }
}

/// What an answer comes to in the light of the attempts before it.
fn finish(parts: Parts, standing: Standing) -> Reading {
    let Parts { mut outcome, mut retry, replayed, min_wait_ms, code, released } = parts;
    let mut conflict = false;
    // A gateway may have answered for a write that landed: only the server's own word that the key is free again, or
    // no ambiguous attempt before, makes a refusal proof of anything (P4).
    if standing.earlier_ambiguous && !released {
        match (outcome, retry) {
            (Outcome::Refused, Retry::AfterCredentials) => outcome = Outcome::Ambiguous,
            (Outcome::Refused, _) => outcome = Outcome::Unknown,
            (Outcome::Conflict, _) => {
                outcome = Outcome::Unknown;
                conflict = true;
            }
            _ => {}
        }
    }
    if outcome == Outcome::Ambiguous && retry == Retry::SameKey && !standing.keys_listed {
        (outcome, retry) = (Outcome::Unknown, Retry::Never);
    }
    Reading { outcome, retry, replayed, min_wait_ms, code, conflict }
}

/// The body's JSON, where its type says that it is JSON (K5).
pub fn json_of<'b>(content_type: Option<&str>, body: &'b str) -> Option<Value<'b>> {
    content_type.is_some_and(is_json_type).then(|| json::parse(body).ok())?
}

/// `application/json` and every `+json` type, with or without parameters (RFC 6839).
fn is_json_type(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || essence.ends_with("+json")
}

impl Outcome {
    /// The word of the table.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Applied => "applied",
            Self::Pending => "pending",
            Self::Ambiguous => "ambiguous",
            Self::Refused => "refused",
            Self::Conflict => "conflict",
            Self::Lost => "lost",
            Self::Unknown => "unknown",
        }
    }
}

impl Retry {
    /// The word of the table.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::SameKey => "same_key",
            Self::AskAgain => "ask_again",
            Self::AfterCredentials => "after_credentials",
        }
    }
}
