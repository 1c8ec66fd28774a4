//! What the outbox is told, and what it asks for.

use super::OpKey;
use super::answer::Answer;
use super::op::OnFailure;
use crate::ids::TabId;
use crate::storage::{StorageFault, TransactionOutcome};
use crate::time::Now;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct OutboxInput {
    /// The tab's clocks.
    pub now: Now,
    /// The server's clock, as far as it is known, in ms since the epoch.
    pub server_now_ms: Option<u64>,
    /// Fresh random bits.
    pub random: u128,
    /// What happened.
    pub event: OutboxEvent,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum OutboxEvent {
    /// A transaction ended.
    Transaction {
        /// Its id.
        id: u64,
        /// How.
        outcome: TransactionOutcome,
    },
    /// A request ended: the whole answer was read, or it failed (K12).
    Answered {
        /// Its number.
        request: u64,
        /// What came back.
        answer: Answer,
    },
    /// The answer to [`OutboxOutput::AskCapabilities`]; `None`: absent, failed, or not of this protocol (K4).
    Capabilities {
        /// The question's number.
        question: u64,
        /// What it can do.
        listed: Option<Capabilities>,
    },
    /// The other answer to it: nobody answered at all, so that nothing sent there now would arrive either. It is asked
    /// again later, and no attempt is spent meanwhile (K6).
    Unreachable {
        /// The question's number.
        question: u64,
    },
    /// The host was asked for fresh credentials and has them, or has not.
    Refreshed {
        /// The op they were for.
        key: OpKey,
        /// Whether it has.
        fresh: bool,
    },
    /// The host has other credentials: what was held for want of them goes on.
    CredentialsChanged,
    /// `online`.
    Online,
    /// `offline`: a hint, overruled by any answered request or an explicit drain (K6).
    Offline,
    /// The page became visible, a socket opened, or the host asks for a drain: waiting ends early.
    Drain,
    /// A connection to an origin was made anew: what that server can do is asked again (K4).
    Reconnected {
        /// The origin, as ops name it.
        origin: String,
    },
    /// `pagehide` or `freeze`: nothing is sent from here on until `Resume`.
    Suspend,
    /// The page is back.
    Resume,
    /// The store is found to be gone (J11).
    StorageLost(StorageFault),
    /// The lock on the tab id was taken away (T1).
    LockLost,
    /// The time asked for has come.
    Timer,
}

/// What a server can do (K4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// `idempotency_keys`.
    pub idempotency_keys: bool,
    /// How long it remembers a key, in ms (K7).
    pub key_ttl_ms: Option<u64>,
    /// `key_format: "sf"` (K2).
    pub structured_keys: bool,
    /// It takes attempt numbers (K2).
    pub attempts: bool,
}

/// A write the host wants made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOp {
    /// The host's own key, or `None` for a fresh one.
    pub key: Option<OpKey>,
    /// The method, in any case.
    pub method: String,
    /// `https://host[:port]`, without a path.
    pub origin: String,
    /// The path, beginning with `/`, and the query.
    pub path: String,
    /// The exact body.
    pub body: Option<String>,
    /// The key goes into the body as well, as `op_key` (K2); the body must be an object then.
    pub key_in_body: bool,
    /// Its media type.
    pub content_type: String,
    /// Its lane.
    pub lane: String,
    /// What the lane does if it fails.
    pub on_failure: OnFailure,
    /// Whether any 2xx is its answer.
    pub expects_other_type: bool,
    /// On the tab's wall clock, in ms since the epoch.
    pub deadline_ms: Option<u64>,
    /// Whether it may be kept in memory only, where nothing can be stored.
    pub may_be_volatile: bool,
}

/// Why an op was not queued. Nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnqueueError {
    /// A member is not what it must be; its name.
    #[error("invalid argument: {0}")]
    InvalidArgument(&'static str),
    /// The body has no canonical form, or is nested too deep.
    #[error("the body has no canonical form")]
    Malformed,
    /// The key is bound to another request (K3).
    #[error("the op key is bound to another request")]
    KeyReused,
    /// The body is over the limit.
    #[error("the body is too large")]
    TooLarge,
    /// Nothing can be stored here, and the op may not live in memory alone.
    #[error("the op cannot be stored: {}", .0.code())]
    Storage(StorageFault),
    /// Another context took the tab id (J4).
    #[error("another context took over this tab")]
    Fenced,
}

impl EnqueueError {
    /// The stable code.
    pub const fn code(self) -> &'static str {
        match self {
            Self::InvalidArgument(_) => "invalid_argument",
            Self::Malformed => "malformed",
            Self::KeyReused => "idempotency_key_reused",
            Self::TooLarge => "too_large",
            Self::Storage(fault) => fault.code(),
            Self::Fenced => "fenced",
        }
    }
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum OutboxOutput {
    /// Write, under the epoch fence (J4); answered by [`OutboxEvent::Transaction`].
    Transact(OutboxTransaction),
    /// Make a request; answered by [`OutboxEvent::Answered`]. The host's headers are asked for now, and cannot set or
    /// double any of these (K2).
    Fetch(Request),
    /// `GET …/server/capabilities` (K4).
    AskCapabilities {
        /// Its number: an answer that was asked for before the origin failed or was reconnected must not be taken for a
        /// later one.
        question: u64,
        /// Of whom.
        origin: String,
    },
    /// Ask the host for fresh credentials (K5, 401).
    RefreshCredentials {
        /// For whom.
        key: OpKey,
    },
    /// Tell the host that an op stands otherwise than before.
    Changed {
        /// Its key.
        key: OpKey,
    },
    /// An op is stored for the first time, or lives in memory because it may: whoever queued it need not wait any more.
    Stored {
        /// Its key.
        key: OpKey,
    },
    /// An op was cancelled before its first attempt, or could not be stored: there is no trace of it (K10). Or it has
    /// been over for long.
    Gone {
        /// Its key.
        key: OpKey,
        /// Why it could not be stored, if that was it.
        fault: Option<StorageFault>,
    },
    /// Another context took the tab id: nothing more is sent, and what was not stored yet is given back (J4).
    Fenced,
    /// Nothing can be stored any more. New ops live in memory, if they may; stored ones stay where they are, unsent, for a
    /// later context, unless the store and all copies are gone for certain.
    Volatile(StorageFault),
}

/// Writes that become durable together, or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxTransaction {
    /// Names it in the answer.
    pub id: u64,
    /// Whose outbox.
    pub tab_id: TabId,
    /// The highest epoch the store may hold for that tab.
    pub epoch: u64,
    /// Ops as they are now, by key; `None`: there is no such op any more.
    pub writes: Vec<(OpKey, Option<String>)>,
    /// Records that go out of other tabs' outboxes, because they come into this one (T5): the tab, the highest epoch
    /// the store may hold for it, and the key.
    pub taken: Vec<(TabId, u64, OpKey)>,
    /// Whether `durability: "strict"` is asked for: an op is new, or about to be sent (K1).
    pub strict: bool,
}

/// One HTTP request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its number.
    pub request: u64,
    /// The op.
    pub key: OpKey,
    /// The method.
    pub method: String,
    /// The whole address.
    pub url: String,
    /// The body.
    pub body: Option<String>,
    /// Headers that are the outbox's own.
    pub headers: Vec<(&'static str, String)>,
    /// How long it may take, the reading of the body included, in ms (K12).
    pub timeout_ms: u64,
}
