//! One tab's session: the machine that joins journal, documents and connection.
//!
//! [`Session::handle`] takes what happened, then [`Session::poll`] is drained: it says what to do, in order, until it
//! says nothing; [`Session::next_wake`] says until when. Host calls ([`Session::open_document`] and its like) queue
//! outputs in the same way. Where there is work there is a time to wake up or an answer to wait for; breaking that is
//! an error here. The same inputs give the same outputs, byte for byte.
//!
//! | file | what it decides |
//! | --- | --- |
//! | `wire` | the socket: when to connect, what to say first, how frames go out |
//! | `announce` | `hello`, `open` and their lists (R1) |
//! | `incoming` | patches, questions and confirmations from the server (J5, J12, R4) |
//! | `lane` | one document's work, one at a time (J1–J3, J9) |
//! | `deadline` | what it does where its clocks disagree (J2) |
//! | `settle` | what handlers and hooks answer (J7, J8, J13) |
//! | `documents` | open, replace, close |
//! | `saves` | marks and saves (J6, W1–W3) |
//! | `journaling` | records on their way to the store, fences and faults (J4, J11) |
//! | `retention` | what is over shrinks, and goes (J10) |

mod announce;
mod deadline;
mod document;
mod documents;
mod incoming;
mod input;
mod journaling;
mod lane;
mod output;
mod retention;
mod saves;
mod settle;
mod store;
mod wire;

use std::collections::VecDeque;

pub use documents::OpenDocument;
pub use input::{Event, HandlerOutcome, HandlerResult, Input, ReconcileOutcome, SocketEvent};
pub use output::{ConnectionState, HandlerCall, Notice, Output, ReconcileCall, RecordView, Status};
pub use saves::{Mark, SaveAnswer, SaveOutcome, SaveRequest};

use self::document::{Call, Document};
use self::store::StoreQueue;
use crate::error::ProblemCode;
use crate::ids::{DocId, Incarnation, JournalId, PatchId, Uuid};
use crate::journal::{CorruptRecord, ExportHeader, Journal, Record, Retention, RetentionLimits, export};
use crate::map::SmallMap;
use crate::storage::{Durability, StorageFault};
use crate::tab::{Connection, Identity, Phase, ServerClock};
use crate::time::Now;

/// What a session begins with: who it is, and what its journal held.
#[derive(Clone, Debug)]
pub struct Start {
    /// The tab's clocks.
    pub now: Now,
    /// Fresh random bits.
    pub random: [u128; 2],
    /// Whose records these are (T6).
    pub principal: String,
    /// The tab id and epoch that were taken.
    pub identity: Identity,
    /// What the journal promises.
    pub durability: Durability,
    /// Why it promises less than was asked for.
    pub fault: Option<StorageFault>,
    /// The records' text forms.
    pub records: Vec<String>,
    /// Whether the page can be seen; what has no page is taken to be.
    pub visible: bool,
    /// Limits.
    pub config: Config,
}

/// Limits of a session.
#[derive(Clone, Debug)]
pub struct Config {
    /// How long a handler or reconcile hook may take before its patch is `unknown` and later ones are `busy` (J9), in ms.
    pub handler_timeout_ms: u64,
    /// How much is kept of what is over (J10).
    pub retention: RetentionLimits,
}

impl Default for Config {
    fn default() -> Self {
        Self { handler_timeout_ms: 30_000, retention: RetentionLimits::default() }
    }
}

/// The machine.
#[derive(Debug)]
pub struct Session {
    principal: String,
    identity: Identity,
    config: Config,
    status: Status,
    journal: Journal,
    clock: ServerClock,
    connection: Connection,
    visible: bool,
    sleep: wire::Sleep,
    documents: SmallMap<DocId, Document>,
    calls: SmallMap<u64, Call>,
    last_call: u64,
    store: StoreQueue,
    retention: Retention,
    outputs: VecDeque<Output>,
}

impl Session {
    /// Begins a session; its first outputs connect it.
    ///
    /// Records that cannot be read are reported, and the journal goes on in memory under a new id: what they said is
    /// not known, so silence proves nothing any more (J11, J12).
    pub fn new(start: Start) -> Self {
        let Start { now, random, principal, mut identity, mut durability, mut fault, records, visible, config } = start;
        let decoded: Vec<Result<Record, CorruptRecord>> = records.iter().map(|text| Record::decode(text)).collect();
        let corrupt = decoded.iter().filter(|r| r.is_err()).count();
        if corrupt > 0 {
            durability = Durability::Memory;
            fault = Some(StorageFault::Corrupt);
            identity.journal_id = JournalId(Uuid::v4(random[0]));
        }
        let mut session = Self {
            principal,
            journal: Journal::new(identity.journal_id, durability, decoded.into_iter().flatten().collect()),
            identity,
            retention: Retention::new(config.retention, now.mono_ms),
            config,
            status: Status::Live,
            clock: ServerClock::default(),
            connection: Connection::new(now),
            visible,
            sleep: wire::Sleep::default(),
            documents: SmallMap::default(),
            calls: SmallMap::default(),
            last_call: 0,
            store: StoreQueue::default(),
            outputs: VecDeque::new(),
        };
        if fault.is_some() {
            session.notify_durability(fault);
        }
        for _ in 0..corrupt {
            session.problem(
                ProblemCode::CorruptRecord,
                None,
                "a stored record could not be read and was left in place",
            );
        }
        session.advance(now, random);
        session
    }

    /// Takes in what happened.
    pub fn handle(&mut self, input: Input) {
        let Input { now, random, event } = input;
        if self.status != Status::Live {
            self.handle_after_the_end(now, event);
            return;
        }
        match event {
            Event::Socket { conn, event } => self.on_socket(now, random, conn, event),
            Event::Transaction { id, outcome } => self.on_transaction(now, random, id, outcome),
            Event::EpochRead(stored) => self.on_epoch_read(now, random, stored),
            Event::Guard { call, unconfirmed } => self.on_guard(now, call, unconfirmed),
            Event::Handler { call, outcome } => self.on_handler(now, call, outcome),
            Event::Reconcile { call, outcome } => self.on_reconcile(now, call, outcome),
            Event::Suspend => self.suspend(),
            Event::Resume => self.resume(now),
            Event::Visible(visible) => self.on_visible(now, visible),
            Event::Encouraged => self.connection.encouraged(now),
            Event::Reconnect => self.on_reconnect(now),
            Event::LockLost => self.fence(),
            Event::StorageLost(fault) => self.storage_failed(now, random, fault),
            Event::Timer => {}
            Event::Close => self.close(now),
        }
        self.advance(now, random);
    }

    /// The next thing to do, if any. Drain it after every [`Session::handle`] and every call of the host.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to hand in [`Event::Timer`], by the monotonic clock in ms; `None`: never, unless something happens.
    pub fn next_wake(&self) -> Option<u64> {
        if self.status != Status::Live {
            return None;
        }
        let calls = self.calls.values().filter(|c| !c.overdue);
        let calls = calls.map(|c| c.since.mono_ms + self.config.handler_timeout_ms).min();
        let asks = self.documents.values().filter_map(Document::asks_until).min();
        [self.connection.next_wake(), calls, asks, self.store.next_wake()].into_iter().flatten().min()
    }

    /// Whether an asynchronous handler's effect is still wanted: its document instance lives, and so does the session.
    pub fn still_wanted(&self, call: u64) -> bool {
        let is_current = |c: &Call| self.documents.get(&c.doc).is_some_and(|d| d.incarnation == c.incarnation);
        self.status == Status::Live && self.calls.get(&call).is_some_and(is_current)
    }

    /// Every record, in no particular order.
    pub fn records(&self) -> Vec<RecordView> {
        self.journal.records().map(|r| self.view(r)).collect()
    }

    /// The whole journal as text that can leave the browser; [`crate::journal::verify`] checks it.
    pub fn export_journal(&self) -> String {
        let Identity { tab_id, epoch, .. } = self.identity;
        let header = ExportHeader { journal_id: self.journal.id, tab_id, epoch, durability: self.journal.durability };
        export(header, self.journal.records())
    }

    /// Whether a closed session still has something to write: its identity is handed over afterwards.
    pub const fn is_writing(&self) -> bool {
        self.store.is_busy()
    }

    /// Who this is.
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Whether the session may act.
    pub const fn status(&self) -> Status {
        self.status
    }

    /// What the journal promises (J11).
    pub const fn durability(&self) -> Durability {
        self.journal.durability
    }

    /// The largest frame the server takes on this connection, in bytes.
    pub const fn max_frame_bytes(&self) -> usize {
        self.connection.max_frame_bytes
    }

    /// Where the connection is.
    pub const fn connection(&self) -> ConnectionState {
        match self.connection.phase {
            Phase::Waiting { until_ms } => ConnectionState::Waiting { until_ms },
            Phase::Connecting { .. } | Phase::Greeting { .. } => ConnectionState::Connecting,
            Phase::Live { .. } => ConnectionState::Live,
            Phase::Held(code) => ConnectionState::Held(code),
            Phase::Suspended => ConnectionState::Suspended,
            Phase::Ended => ConnectionState::Ended,
        }
    }

    /// The stored version an open document's content is based on.
    pub fn base_seq(&self, doc: &DocId) -> Option<u64> {
        self.documents.get(doc).map(|d| d.base_seq)
    }

    /// The incarnation of an open document.
    pub fn incarnation(&self, doc: &DocId) -> Option<Incarnation> {
        self.documents.get(doc).map(|d| d.incarnation)
    }

    /// Does what has become possible or due, then sends off what there is to write.
    fn advance(&mut self, now: Now, random: [u128; 2]) {
        self.run_due_calls(now);
        self.run_due_questions(now);
        self.run_lanes(now);
        self.run_connection(now, random);
        self.run_retention(now);
        self.run_store(now);
    }

    /// A fenced or closed session does nothing any more, but a socket that opens late is closed, and a closed one
    /// still writes what it had to write.
    fn handle_after_the_end(&mut self, now: Now, event: Event) {
        match event {
            Event::Socket { conn, event: SocketEvent::Opened } => {
                self.outputs.push_back(Output::CloseSocket { conn, code: wire::CLOSE_NORMAL });
            }
            Event::Transaction { id, .. } if self.store.ended(id) && self.status == Status::Closed => {
                self.store.hurry();
                self.run_store(now);
            }
            _ => {}
        }
    }

    fn notify(&mut self, notice: Notice) {
        self.outputs.push_back(Output::Notify(notice));
    }

    fn problem(&mut self, code: ProblemCode, patch_id: Option<PatchId>, detail: impl Into<String>) {
        self.notify(Notice::Problem { code, patch_id, detail: detail.into() });
    }

    fn view(&self, record: &Record) -> RecordView {
        RecordView {
            doc: record.doc.clone(),
            patch_id: record.patch_id,
            state: record.state,
            reason: record.reason,
            incarnation: record.incarnation,
            current: self.incarnation(&record.doc) == Some(record.incarnation),
            delivery: record.delivery,
            replays: self.journal.replays(record.patch_id),
            kept: record.kept,
            flushed: record.flushed,
            confirmed: record.confirmed,
            received_at: record.received_at,
            settled_at: record.settled_at,
            result: record.result.clone(),
        }
    }
}
