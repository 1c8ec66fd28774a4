//! One op: a write of this tab, with all that a later context needs to go on with it (K1).
//!
//! ```text
//!            enqueue durable        `sending` durable            answer
//!  (none) ──► queued ──────────────► sending ───────────► settled: done · refused · conflict · unknown · lost
//!                ▲ cancel: no trace      │ ▲                          ▲
//!                                        ▼ │ due                      │ done, lost, or nobody can tell
//!                       waiting (pending, ambiguous) ── applied ──────┘
//! ```

use super::OpKey;
use crate::digest::Digest;
use crate::json::{self, ObjectWriter, Value};

/// Where an op is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpState {
    /// Never sent.
    Queued,
    /// An attempt is under way, or was when its context died (K11).
    Sending,
    /// Between attempts.
    Waiting,
    /// The effect is in a tab's memory; asked about until it is done or lost (K5).
    Applied,
    /// It waits for the host's credentials.
    Held,
    /// In the stored document.
    Done,
    /// No effect.
    Refused,
    /// The key is bound to another request.
    Conflict,
    /// Nobody can tell (K8).
    Unknown,
    /// It was applied in a tab and died unsaved.
    Lost,
}

impl OpState {
    /// Every state.
    pub const ALL: [Self; 10] = [
        Self::Queued,
        Self::Sending,
        Self::Waiting,
        Self::Applied,
        Self::Held,
        Self::Done,
        Self::Refused,
        Self::Conflict,
        Self::Unknown,
        Self::Lost,
    ];

    /// The word of the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Sending => "sending",
            Self::Waiting => "waiting",
            Self::Applied => "applied",
            Self::Held => "held",
            Self::Done => "done",
            Self::Refused => "refused",
            Self::Conflict => "conflict",
            Self::Unknown => "unknown",
            Self::Lost => "lost",
        }
    }

    /// Whether nothing is done about it any more, unless the host says so.
    pub const fn is_settled(self) -> bool {
        matches!(self, Self::Done | Self::Refused | Self::Conflict | Self::Unknown | Self::Lost)
    }

    /// Whether an op in this state lets its lane go on (K9).
    pub const fn lets_lane_go_on(self) -> bool {
        matches!(self, Self::Done | Self::Applied)
    }
}

/// What a lane does behind an op that is unknown, lost, refused or in conflict (K9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum OnFailure {
    /// It waits until the host decides.
    #[default]
    Hold,
    /// It goes on.
    Pass,
}

/// The most that is kept of an answer, in bytes (K12).
pub const MAX_RESPONSE_BYTES: usize = 64 << 10;
/// How much of a `Content-Type` is kept, in bytes.
pub(super) const MAX_TYPE_BYTES: usize = 255;

/// One op.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// Its key.
    pub key: OpKey,
    /// Its place among all ops of this tab.
    pub order: u64,
    /// Ops of one lane go out in order, one at a time (K9).
    pub lane: String,
    /// The method, in upper case.
    pub method: String,
    /// The origin it goes to.
    pub origin: String,
    /// The path and query, as the fingerprint names it.
    pub path: String,
    /// The exact body, where there is one.
    pub body: Option<String>,
    /// The key is in the body as well (K2).
    pub key_in_body: bool,
    /// The body's media type.
    pub content_type: String,
    /// What the key is bound to.
    pub fingerprint: Digest,
    /// What its lane does if it fails.
    pub on_failure: OnFailure,
    /// Whether any 2xx is its answer, of whatever type (K5).
    pub expects_other_type: bool,
    /// When the host wants no further attempt, in ms since the epoch on the tab's wall clock.
    pub deadline_ms: Option<u64>,
    /// When it was queued, on the tab's wall clock.
    pub created_at_ms: u64,
    /// Where it is.
    pub state: OpState,
    /// How many attempts were begun: each `sending` that was written (K1).
    pub attempts: u64,
    /// When the first one was, on the tab's wall clock (K7).
    pub first_attempt_ms: Option<u64>,
    /// The same on the server's clock, as far as it was known (K2).
    pub first_attempt_server_ms: Option<u64>,
    /// `idempotency_keys` was listed before the first attempt (K4).
    pub keys_listed_at_first: bool,
    /// An attempt ended ambiguous, or its context died.
    pub ambiguous: bool,
    /// The effect, if any, was made by an earlier attempt than the one that was answered.
    pub replayed: bool,
    /// The key is bound to another request though an earlier attempt may have had its effect.
    pub conflict: bool,
    /// A 401 was answered by fresh credentials once already.
    pub refreshed: bool,
    /// The last answer's status, or 0.
    pub status: u16,
    /// The last answer's code, or why there was none.
    pub code: Option<String>,
    /// The last answer's body, up to [`MAX_RESPONSE_BYTES`] (K12).
    pub response: Option<String>,
    /// That body's `Content-Type`: what is no JSON by its type says nothing, later either (K5).
    pub response_type: Option<String>,
    /// There was more of it.
    pub response_cut: bool,
}

/// A stored text that is no op of this version; it is left where it is and reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a stored op could not be read")]
pub struct CorruptOp;

impl Op {
    /// The text form. No header of the host's is in it (K1).
    pub fn encode(&self) -> String {
        let mut out = String::with_capacity(512);
        let mut w = ObjectWriter::new(&mut out);
        w.string("key", self.key.as_str())
            .integer("order", self.order)
            .string("lane", &self.lane)
            .string("method", &self.method)
            .string("origin", &self.origin)
            .string("path", &self.path)
            .string("content_type", &self.content_type)
            .display("fingerprint", self.fingerprint)
            .bool("key_in_body", self.key_in_body)
            .bool("pass", self.on_failure == OnFailure::Pass)
            .bool("expects_other_type", self.expects_other_type)
            .integer("created_at_ms", self.created_at_ms)
            .string("state", self.state.as_str())
            .integer("attempts", self.attempts)
            .bool("keys_listed_at_first", self.keys_listed_at_first)
            .bool("ambiguous", self.ambiguous)
            .bool("replayed", self.replayed)
            .bool("conflict", self.conflict)
            .bool("refreshed", self.refreshed)
            .bool("response_cut", self.response_cut)
            .integer("status", u64::from(self.status));
        let texts = [
            ("body", &self.body),
            ("code", &self.code),
            ("response", &self.response),
            ("response_type", &self.response_type),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                w.string(name, text);
            }
        }
        let times = [
            ("deadline_ms", self.deadline_ms),
            ("first_attempt_ms", self.first_attempt_ms),
            ("first_attempt_server_ms", self.first_attempt_server_ms),
        ];
        for (name, ms) in times {
            if let Some(ms) = ms {
                w.integer(name, ms);
            }
        }
        w.end();
        out
    }

    /// Reads the text form.
    ///
    /// # Errors
    /// [`CorruptOp`] for anything that [`Op::encode`] does not write.
    pub fn decode(text: &str) -> Result<Self, CorruptOp> {
        let value = json::parse(text).map_err(|_| CorruptOp)?;
        read(&value).ok_or(CorruptOp)
    }
}

fn read(value: &Value<'_>) -> Option<Op> {
    let text = |name: &str| value.field(name).and_then(Value::as_str).map(String::from);
    let integer = |name: &str| value.field(name).and_then(Value::as_integer);
    let flag = |name: &str| value.field(name).and_then(Value::as_bool);
    let state = text("state")?;
    Some(Op {
        key: OpKey::new(&text("key")?)?,
        order: integer("order")?,
        lane: text("lane")?,
        method: text("method")?,
        origin: text("origin")?,
        path: text("path")?,
        body: text("body"),
        key_in_body: flag("key_in_body")?,
        content_type: text("content_type")?,
        fingerprint: text("fingerprint")?.parse().ok()?,
        on_failure: if flag("pass")? { OnFailure::Pass } else { OnFailure::Hold },
        expects_other_type: flag("expects_other_type")?,
        deadline_ms: integer("deadline_ms"),
        created_at_ms: integer("created_at_ms")?,
        state: OpState::ALL.into_iter().find(|s| s.as_str() == state)?,
        attempts: integer("attempts")?,
        first_attempt_ms: integer("first_attempt_ms"),
        first_attempt_server_ms: integer("first_attempt_server_ms"),
        keys_listed_at_first: flag("keys_listed_at_first")?,
        ambiguous: flag("ambiguous")?,
        replayed: flag("replayed")?,
        conflict: flag("conflict")?,
        refreshed: flag("refreshed")?,
        status: u16::try_from(integer("status")?).ok()?,
        code: text("code"),
        response: text("response"),
        response_type: text("response_type"),
        response_cut: flag("response_cut")?,
    })
}
