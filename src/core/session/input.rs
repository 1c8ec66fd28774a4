//! What the session is told.

use crate::frame::Reason;
use crate::storage::{StorageFault, TransactionOutcome};
use crate::time::Now;

/// One thing that happened, with the time it happened at and randomness to act on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// The tab's clocks, read in the task that hands this in.
    pub now: Now,
    /// Fresh random bits: for ids and jitter. Never reused.
    pub random: [u128; 2],
    /// What happened.
    pub event: Event,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Something on the socket that [`super::Output::Connect`] asked for under this number.
    Socket {
        /// The number.
        conn: u64,
        /// What.
        event: SocketEvent,
    },
    /// A transaction ended.
    Transaction {
        /// Its id.
        id: u64,
        /// How.
        outcome: TransactionOutcome,
    },
    /// The answer to [`super::Output::ReadEpoch`]: the stored epoch of this tab, 0 where there is none.
    EpochRead(Result<u64, StorageFault>),
    /// The answer to [`super::Output::CheckGuard`], in the same task: whether the host has edits that the server has
    /// not confirmed. A host that has no way to tell says `true`.
    Guard {
        /// The call's number.
        call: u64,
        /// Whether there are such edits.
        unconfirmed: bool,
    },
    /// News of a handler.
    Handler {
        /// The call's number.
        call: u64,
        /// What it did.
        outcome: HandlerOutcome,
    },
    /// News of a reconcile hook.
    Reconcile {
        /// The call's number.
        call: u64,
        /// What it said.
        outcome: ReconcileOutcome,
    },
    /// `pagehide` or `freeze`: nothing runs from here on until `Resume` (T4).
    Suspend,
    /// `pageshow` from the back/forward cache, or `resume`.
    Resume,
    /// The page can be seen now, or not any more.
    Visible(bool),
    /// `online`: an attempt that waits may go out now.
    Encouraged,
    /// The host has supplied credentials, or asks for a new attempt.
    Reconnect,
    /// The Web Lock on the tab id was lost: the same as being fenced (T1).
    LockLost,
    /// The store reported by itself that it is gone (`versionchange`, `close`).
    StorageLost(StorageFault),
    /// The time asked for by [`super::Session::next_wake`] has come.
    Timer,
    /// The host closes the session.
    Close,
}

/// Something on a socket.
#[derive(Clone, Debug, PartialEq)]
pub enum SocketEvent {
    /// It is open.
    Opened,
    /// A text frame.
    Text(String),
    /// A text frame so much over the limit that it was not even copied in; its length in UTF-16 units.
    TooLong(u64),
    /// It is closed, or could not be opened.
    Closed {
        /// The close code; 1006 where there is none.
        code: u16,
    },
}

/// What a handler did.
#[derive(Clone, Debug, PartialEq)]
pub enum HandlerOutcome {
    /// It returned a promise; another outcome follows.
    Pending,
    /// The effect is in the document.
    Applied(HandlerResult),
    /// It threw `refuse(reason)`: nothing was changed.
    Refused {
        /// Why.
        reason: Reason,
        /// More for a person.
        detail: Option<String>,
    },
    /// It threw something else: the effect is open (J13).
    Threw {
        /// What it threw, for a person.
        detail: String,
    },
}

/// What a handler returned.
#[derive(Clone, Debug, PartialEq)]
pub enum HandlerResult {
    /// Nothing.
    None,
    /// JSON text.
    Json(String),
    /// Something that is no JSON (a cycle, a BigInt, a lone surrogate).
    Unsendable,
}

/// What a reconcile hook said (J7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconcileOutcome {
    /// It returned a promise; another outcome follows.
    Pending,
    /// The effect is in this incarnation.
    Present,
    /// It never took effect in anything this incarnation descends from.
    Absent,
    /// It cannot tell, or it threw.
    Unknown,
}
