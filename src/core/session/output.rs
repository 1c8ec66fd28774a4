//! What the session asks for.

use crate::error::ProblemCode;
use crate::frame::{ConfirmedAs, Reason};
use crate::ids::{DocId, Incarnation, JournalId, PatchId};
use crate::journal::RecordState;
use crate::storage::{Durability, StorageFault, Transaction};

/// One thing to do, in order, in the task that polls it.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Open a socket and report on it under this number. No other is open.
    Connect {
        /// The number.
        conn: u64,
    },
    /// Stop reading that socket at once, then close it.
    CloseSocket {
        /// Its number.
        conn: u64,
        /// The close code.
        code: u16,
    },
    /// Send a text frame.
    Send {
        /// The socket's number.
        conn: u64,
        /// The frame.
        text: String,
    },
    /// Run a transaction; answered by [`super::Event::Transaction`].
    Transact(Transaction),
    /// Read the stored epoch of this tab; answered by [`super::Event::EpochRead`] (T4).
    ReadEpoch,
    /// Ask the host for unconfirmed edits; answered by [`super::Event::Guard`] in this same task.
    CheckGuard {
        /// The call's number.
        call: u64,
        /// The document.
        doc: DocId,
    },
    /// Call the handler, now; answered by [`super::Event::Handler`].
    CallHandler(HandlerCall),
    /// Call the reconcile hook; answered by [`super::Event::Reconcile`].
    CallReconcile(ReconcileCall),
    /// The tab id is burnt (T3): the stored identity must not be resumed by the next load.
    ForgetIdentity {
        /// The id under which the journal goes on.
        journal_id: JournalId,
    },
    /// Tell the host.
    Notify(Notice),
}

/// A call of the handler.
#[derive(Clone, Debug, PartialEq)]
pub struct HandlerCall {
    /// Its number.
    pub call: u64,
    /// The document.
    pub doc: DocId,
    /// The content it is to be applied to.
    pub incarnation: Incarnation,
    /// The patch.
    pub patch_id: PatchId,
    /// The hand-out.
    pub delivery: u64,
    /// The edit, as JSON text.
    pub body: Box<str>,
    /// Server time after which it must not be applied.
    pub expires_at: u64,
    /// Whether it was guarded.
    pub guarded: bool,
    /// The stored version it was planned against.
    pub base_seq: Option<u64>,
}

/// A call of the reconcile hook.
#[derive(Clone, Debug, PartialEq)]
pub struct ReconcileCall {
    /// Its number.
    pub call: u64,
    /// The content that is asked about.
    pub incarnation: Incarnation,
    /// The record in question.
    pub record: RecordView,
}

/// A record as the host sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordView {
    /// The document.
    pub doc: DocId,
    /// The patch.
    pub patch_id: PatchId,
    /// Where it is in the diagram of §4.
    pub state: RecordState,
    /// Why, where refused.
    pub reason: Option<Reason>,
    /// The content it was applied to.
    pub incarnation: Incarnation,
    /// Whether that content is the open one.
    pub current: bool,
    /// The newest hand-out or question about it.
    pub delivery: u64,
    /// How often this context has acknowledged it again.
    pub replays: u64,
    /// A local store will bring the effect back.
    pub kept: bool,
    /// A confirmed save holds it.
    pub flushed: bool,
    /// What the server's commit made of it.
    pub confirmed: Option<ConfirmedAs>,
    /// When it was received, by the estimate of server time, in ms since the epoch.
    pub received_at: u64,
    /// When its state was reached, by the same clock.
    pub settled_at: Option<u64>,
    /// What the handler returned, as JSON text.
    pub result: Option<String>,
}

/// Something to tell the host.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// The connection's state changed.
    Connection(ConnectionState),
    /// The session was fenced or closed.
    Status(Status),
    /// What the journal promises changed; why, where something failed.
    Durability {
        /// What it promises now.
        durability: Durability,
        /// What failed.
        fault: Option<StorageFault>,
        /// The journal's id now.
        journal_id: JournalId,
    },
    /// A record is new or changed.
    Record(RecordView),
    /// A record is gone: its intent was dropped, it was proven absent, or it was over for long (J10).
    RecordGone {
        /// The document.
        doc: DocId,
        /// The patch.
        patch_id: PatchId,
    },
    /// The server fenced this tab's earlier instances of the document.
    Opened {
        /// The document.
        doc: DocId,
        /// The incarnation that is current now.
        incarnation: Incarnation,
        /// The stored document's version.
        seq: u64,
    },
    /// Somebody else committed.
    DocChanged {
        /// The document.
        doc: DocId,
        /// Its new version.
        seq: u64,
    },
    /// No handler of this document is waited for any more, since it has settled or is overdue: a mark can be taken.
    Settled {
        /// The document.
        doc: DocId,
    },
    /// Something went wrong without stopping anything.
    Problem {
        /// What.
        code: ProblemCode,
        /// Which patch it was about, where known.
        patch_id: Option<PatchId>,
        /// More for a person.
        detail: String,
    },
}

/// Where the connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    /// No attempt is under way; the next one is due then, by the monotonic clock.
    Waiting {
        /// When.
        until_ms: u64,
    },
    /// A socket is being opened, or has not been welcomed yet.
    Connecting,
    /// Welcomed.
    Live,
    /// Refused by the server with this word; no attempt is made until the host asks for one.
    Held(crate::frame::RejectCode),
    /// The page is suspended.
    Suspended,
    /// No more attempts are made.
    Ended,
}

/// Whether the session may act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It may.
    Live,
    /// Another context took the tab id; documents must be reloaded (J4).
    Fenced,
    /// The host closed it, or the server does not speak its version.
    Closed,
}
