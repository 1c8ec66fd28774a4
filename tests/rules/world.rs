//! One tab in a world of its own: the real [`Session`], an in-memory store, documents that are strings, a handler and
//! a reconcile hook that do as they are told, and sockets that the script opens and cuts.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use patchkeep_core::edit;
use patchkeep_core::error::refusal_reason;
use patchkeep_core::frame::{DEFAULT_MAX_FRAME_BYTES, Homed, TabFrame};
use patchkeep_core::ids::{ContextId, DocId, Incarnation, JournalId, PatchId, TabId, Uuid};
use patchkeep_core::json;
use patchkeep_core::session::{
    Config, Event, HandlerCall, HandlerOutcome, HandlerResult, Input, Mark, OpenDocument, Output, ReconcileOutcome,
    RecordView, Session, SocketEvent, Start, Status,
};
use patchkeep_core::storage::{Durability, Transaction};
use patchkeep_core::tab::Identity;
use patchkeep_core::time::Now;

use crate::store::Store;

/// How the handler behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandlerMode {
    /// Applies at once.
    Ok,
    /// Throws `refuse(reason)`.
    Refuse(String),
    /// Throws something else, having changed nothing.
    Throw,
    /// Returns a promise.
    Later,
}

/// How the reconcile hook behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconcileMode {
    /// There is no hook.
    None,
    /// It answers this.
    Answers(ReconcileOutcome),
    /// It returns a promise that never settles.
    Never,
    /// It answers truthfully, for patches whose effect is their own id in the text.
    Truth,
}

/// Where the context dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPoint {
    /// The intent is durable, the handler is not called.
    Intent,
    /// The effect is made, nothing is sent or recorded.
    Effect,
    /// The acknowledgement is sent, the record is not durable.
    Ack,
}

/// A document in memory.
#[derive(Clone, Debug)]
pub struct OpenText {
    /// Its content.
    pub text: String,
    /// Its lineage.
    pub incarnation: Incarnation,
}

/// What the server stores of a document.
#[derive(Clone, Debug, Default)]
pub struct StoredText {
    /// The text.
    pub text: String,
    /// Its version.
    pub seq: u64,
    /// What a local store would bring back instead, saved after the last flush.
    pub kept: Option<String>,
}

/// The world.
#[derive(Debug)]
pub struct World {
    /// The tab's wall clock, in ms.
    pub now_ms: u64,
    /// How far the server's clock is ahead, in ms.
    pub skew_ms: i64,
    /// How far the tab's wall clock was set forward, in ms.
    pub wall_set_ms: i64,
    /// Whether pings are answered.
    pub pongs: bool,
    /// The limits of sessions that begin.
    pub config: Config,
    /// The journal's store.
    pub store: Store,
    /// The session; `None` while the context is dead.
    pub session: Option<Session>,
    /// Open documents.
    pub open: BTreeMap<DocId, OpenText>,
    /// How many contents of each document this context has begun.
    pub generations: BTreeMap<DocId, u64>,
    /// Stored documents.
    pub stored: BTreeMap<DocId, StoredText>,
    /// The handler.
    pub handler: HandlerMode,
    /// The hook.
    pub reconcile: ReconcileMode,
    /// Whether the host has edits that the server has not confirmed.
    pub unsaved_typing: bool,
    /// The next patch's crash.
    pub crash_at: Option<CrashPoint>,
    /// Frames sent.
    pub sent: Vec<TabFrame>,
    /// Patches whose handler was called.
    pub handled: Vec<PatchId>,
    /// Everything the tab told the host.
    pub notices: Vec<patchkeep_core::session::Notice>,
    /// The socket that the session asked for and that nobody has opened yet.
    pub wanted: Option<u64>,
    /// The open socket.
    pub connected: Option<u64>,
    /// Handler calls that have not settled.
    pub pending: Vec<HandlerCall>,
    /// What `welcome` says of the largest frame.
    pub max_frame_bytes: u64,
    /// While set, transactions wait in [`World::held`] instead of running.
    pub hold_store: bool,
    /// How many transactions the session asked for.
    pub transactions: u64,
    /// Transactions that wait.
    pub held: VecDeque<Transaction>,
    /// How often each patch took effect in the tab's memory, over all of its contexts.
    pub effects: BTreeMap<PatchId, u64>,
    context_began_ms: u64,
    random: u128,
    tab_id: TabId,
    welcome_silently: bool,
    inputs: VecDeque<Event>,
    ended: BTreeSet<u64>,
}

impl World {
    /// A world with one tab that has just loaded.
    pub fn new(durability: Durability, skew_ms: i64) -> Self {
        let mut world = Self {
            now_ms: 0,
            skew_ms,
            wall_set_ms: 0,
            pongs: true,
            config: Config::default(),
            store: Store::new(durability),
            session: None,
            open: BTreeMap::new(),
            generations: BTreeMap::new(),
            stored: BTreeMap::new(),
            handler: HandlerMode::Ok,
            reconcile: ReconcileMode::None,
            unsaved_typing: false,
            crash_at: None,
            sent: Vec::new(),
            handled: Vec::new(),
            notices: Vec::new(),
            wanted: None,
            connected: None,
            pending: Vec::new(),
            max_frame_bytes: DEFAULT_MAX_FRAME_BYTES as u64,
            hold_store: false,
            transactions: 0,
            held: VecDeque::new(),
            effects: BTreeMap::new(),
            context_began_ms: 0,
            random: 1,
            tab_id: TabId(Uuid::v4(0x7ab)),
            welcome_silently: false,
            inputs: VecDeque::new(),
            ended: BTreeSet::new(),
        };
        world.load();
        world
    }

    /// The context begins: the tab id is taken anew and the journal loaded.
    pub fn load(&mut self) {
        self.context_began_ms = self.now_ms;
        self.generations.clear();
        let (epoch, records) = self.store.take(self.tab_id);
        let context_id = ContextId(Uuid::v4(self.fresh()[0]));
        let start = Start {
            now: self.now(),
            random: self.fresh(),
            principal: "ws/user".into(),
            identity: Identity {
                tab_id: self.tab_id,
                epoch,
                context_id,
                journal_id: self.store.journal_id,
                weak: false,
            },
            durability: self.store.durability,
            fault: None,
            records,
            visible: true,
            config: self.config.clone(),
        };
        self.session = Some(Session::new(start));
        self.drain();
    }

    /// The context dies: what was in memory is gone.
    pub fn die(&mut self) {
        self.session = None;
        self.open.clear();
        self.pending.clear();
        self.held.clear();
        self.hold_store = false;
        self.inputs.clear();
        self.wanted = None;
        self.connected = None;
        self.crash_at = None;
    }

    /// The server's clock, in ms.
    pub const fn server_now(&self) -> u64 {
        self.now_ms.saturating_add_signed(self.skew_ms)
    }

    /// The tab's clocks.
    pub const fn now(&self) -> Now {
        Now {
            mono_ms: self.now_ms - self.context_began_ms,
            wall_ms: self.now_ms.saturating_add_signed(self.wall_set_ms),
        }
    }

    /// Randomness that never repeats and is the same in every run.
    pub const fn fresh(&mut self) -> [u128; 2] {
        let mut out = [0; 2];
        let mut i = 0;
        while i < 2 {
            // SplitMix64 over a counter, twice for 128 bits.
            self.random += 1;
            let high = split_mix(self.random as u64) as u128;
            self.random += 1;
            out[i] = high << 64 | split_mix(self.random as u64) as u128;
            i += 1;
        }
        out
    }

    /// Tells the session that something happened, and does what it says.
    pub fn happen(&mut self, event: Event) {
        self.inputs.push_back(event);
        while let Some(event) = self.inputs.pop_front() {
            let (now, random) = (self.now(), self.fresh());
            let Some(session) = &mut self.session else { return };
            session.handle(Input { now, random, event });
            self.drain();
        }
    }

    /// A frame from the server.
    pub fn receive(&mut self, text: String) {
        if let Some(conn) = self.connected {
            self.happen(Event::Socket { conn, event: SocketEvent::Text(text) });
        }
    }

    /// The socket opens; `silent`: nobody answers `hello`.
    pub fn connect(&mut self, silent: bool) {
        self.cut();
        self.welcome_silently = silent;
        if self.wanted.is_none() {
            self.happen(Event::Reconnect);
        }
        if let Some(conn) = self.wanted.take() {
            self.connected = Some(conn);
            self.happen(Event::Socket { conn, event: SocketEvent::Opened });
        }
    }

    /// The socket closes.
    pub fn cut(&mut self) {
        if let Some(conn) = self.connected.take() {
            self.happen(Event::Socket { conn, event: SocketEvent::Closed { code: 1006 } });
        }
    }

    /// Time passes, and the tab's timer fires when it is due.
    pub fn advance(&mut self, ms: u64) {
        let until = self.now_ms + ms;
        self.store.sync();
        while let Some(wake) = self.session.as_ref().and_then(Session::next_wake) {
            let at = wake + self.context_began_ms;
            if at > until {
                break;
            }
            self.now_ms = self.now_ms.max(at);
            self.happen(Event::Timer);
        }
        self.now_ms = until;
        self.store.sync();
    }

    /// The host opens a document, or replaces its content by what is stored now.
    pub fn open_document(&mut self, doc: &DocId, homed: Homed, base_seq: Option<u64>, reconciles: bool) {
        let stored = self.stored.entry(doc.clone()).or_default().clone();
        let kept = stored.kept.filter(|_| homed == Homed::Elsewhere);
        let open = OpenDocument {
            doc: doc.clone(),
            homed,
            base_seq: base_seq.unwrap_or(stored.seq),
            reconciles,
            marks_in_document: false,
            restored: kept.is_some(),
            carried: Some(Vec::new()),
        };
        self.open_as(open, kept.unwrap_or(stored.text));
    }

    /// The host opens a document, or replaces its content, with these words about it.
    pub fn open_as(&mut self, open: OpenDocument, text: String) {
        let (now, random, doc) = (self.now(), self.fresh(), open.doc.clone());
        let Some(session) = &mut self.session else { return };
        let generations = self.generations.entry(doc.clone()).or_default();
        *generations += 1;
        let opened = if session.incarnation(&doc).is_some() {
            session.replace_document(now, random, *generations, open)
        } else {
            session.open_document(now, random, *generations, open)
        };
        if let Ok(incarnation) = opened {
            self.open.insert(doc, OpenText { text, incarnation });
        }
        self.drain();
        self.run_inputs();
    }

    /// A snapshot's mark: the handler of this world changes the text only when it settles, so one that runs has no
    /// effect in it yet.
    pub fn mark(&mut self, doc: &DocId) -> Option<Mark> {
        let (now, incarnation) = (self.now(), self.open.get(doc)?.incarnation);
        let mark = self.session.as_mut()?.mark_before_effect(now, doc, incarnation).ok();
        self.drain();
        mark
    }

    /// The host saves the document locally and tells the journal.
    pub fn keep(&mut self, doc: &DocId) {
        let Some(mark) = self.mark(doc) else { return };
        let Some(text) = self.open.get(doc).map(|o| o.text.clone()) else { return };
        self.stored.entry(doc.clone()).or_default().kept = Some(text);
        let now = self.now();
        if let Some(session) = &mut self.session {
            let told = session.kept(now, &mark);
            debug_assert!(told.is_ok(), "a live session takes marks");
        }
        self.drain();
        self.run_inputs();
    }

    /// The server commits a save of the document, and the journal is told.
    pub fn flush(&mut self, doc: &DocId) {
        let Some(mark) = self.mark(doc) else { return };
        let Some(text) = self.open.get(doc).map(|o| o.text.clone()) else { return };
        let stored = self.stored.entry(doc.clone()).or_default();
        stored.seq += 1;
        stored.text = text;
        stored.kept = None;
        let (seq, now) = (stored.seq, self.now());
        if let Some(session) = &mut self.session {
            let told = session.flushed(now, &mark, seq.max(mark.base_seq + 1));
            debug_assert!(told.is_ok(), "a live session takes marks");
        }
        self.drain();
        self.run_inputs();
    }

    /// A handler that returned a promise settles.
    pub fn settle(&mut self, patch_id: PatchId, with: &HandlerMode) {
        let Some(at) = self.pending.iter().position(|c| c.patch_id == patch_id) else { return };
        let call = self.pending.remove(at);
        let outcome = self.run_handler(&call, with);
        self.happen(Event::Handler { call: call.call, outcome });
    }

    /// The store does what waits for it, and goes on by itself.
    pub fn release_store(&mut self) {
        self.hold_store = false;
        while let Some(transaction) = self.held.pop_front() {
            let outcome = self.store.run(&transaction);
            self.happen(Event::Transaction { id: transaction.id, outcome });
        }
    }

    /// The record of a patch, as the host sees it.
    pub fn record(&self, patch_id: PatchId) -> Option<RecordView> {
        self.session.as_ref()?.records().into_iter().find(|r| r.patch_id == patch_id)
    }

    /// The journal's id now.
    pub fn journal_id(&self) -> Option<JournalId> {
        self.session.as_ref().map(|s| s.identity().journal_id)
    }

    /// Whether the session may act.
    pub fn status(&self) -> Option<Status> {
        self.session.as_ref().map(Session::status)
    }

    /// The tab's id.
    pub const fn tab_id(&self) -> TabId {
        self.tab_id
    }

    fn run_inputs(&mut self) {
        if let Some(event) = self.inputs.pop_front() {
            self.happen(event);
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.session.as_mut().and_then(Session::poll) {
            self.execute(output);
        }
    }

    fn execute(&mut self, output: Output) {
        match output {
            Output::Connect { conn } => self.wanted = Some(conn),
            Output::CloseSocket { conn, .. } => {
                self.ended.insert(conn);
                self.connected.take_if(|c| *c == conn);
                self.wanted.take_if(|c| *c == conn);
            }
            Output::Send { conn, text } => self.send(conn, &text),
            Output::Transact(transaction) if self.hold_store => self.held.push_back(transaction),
            Output::Transact(transaction) => {
                self.transactions += 1;
                let outcome = self.store.run(&transaction);
                self.inputs.push_back(Event::Transaction { id: transaction.id, outcome });
            }
            Output::ReadEpoch => {
                let epoch = self.store.epoch(self.tab_id);
                self.inputs.push_back(Event::EpochRead(Ok(epoch)));
            }
            Output::CheckGuard { call, .. } => {
                self.inputs.push_back(Event::Guard { call, unconfirmed: self.unsaved_typing });
            }
            Output::CallHandler(call) => self.call_handler(call),
            Output::CallReconcile(call) => {
                let outcome = match self.reconcile {
                    ReconcileMode::None => ReconcileOutcome::Unknown,
                    ReconcileMode::Answers(answer) => answer,
                    ReconcileMode::Never => ReconcileOutcome::Pending,
                    ReconcileMode::Truth => self.truth(&call.record.doc, call.record.patch_id),
                };
                self.inputs.push_back(Event::Reconcile { call: call.call, outcome });
            }
            Output::ForgetIdentity { .. } => {}
            Output::Notify(notice) => self.notices.push(notice),
        }
    }

    /// What an honest hook can say: what it sees is there; what neither this text nor any stored one holds never was.
    fn truth(&self, doc: &DocId, patch_id: PatchId) -> ReconcileOutcome {
        let id = patch_id.to_string();
        if self.open.get(doc).is_some_and(|o| o.text.contains(&id)) {
            ReconcileOutcome::Present
        } else if self.holds_anywhere(doc, patch_id) {
            ReconcileOutcome::Unknown
        } else {
            ReconcileOutcome::Absent
        }
    }

    /// Whether any text that is, or may yet become, the document holds a patch's id.
    pub fn holds_anywhere(&self, doc: &DocId, patch_id: PatchId) -> bool {
        let id = patch_id.to_string();
        let stored = self.stored.get(doc);
        self.open.get(doc).is_some_and(|o| o.text.contains(&id))
            || stored.is_some_and(|s| s.text.contains(&id) || s.kept.as_ref().is_some_and(|k| k.contains(&id)))
    }

    fn call_handler(&mut self, call: HandlerCall) {
        if self.crash_at == Some(CrashPoint::Intent) {
            self.die();
            return;
        }
        self.handled.push(call.patch_id);
        if self.handler == HandlerMode::Later {
            self.inputs.push_back(Event::Handler { call: call.call, outcome: HandlerOutcome::Pending });
            self.pending.push(call);
            return;
        }
        let outcome = self.run_handler(&call, &self.handler.clone());
        if self.crash_at == Some(CrashPoint::Effect) {
            self.die();
            return;
        }
        self.inputs.push_back(Event::Handler { call: call.call, outcome });
    }

    fn run_handler(&mut self, call: &HandlerCall, mode: &HandlerMode) -> HandlerOutcome {
        match mode {
            HandlerMode::Ok | HandlerMode::Later => self.make_effect(call),
            HandlerMode::Refuse(word) => {
                let (reason, detail) = refusal_reason(word);
                HandlerOutcome::Refused { reason, detail: detail.map(Into::into) }
            }
            HandlerMode::Throw => HandlerOutcome::Threw { detail: "thrown by the script".into() },
        }
    }

    fn make_effect(&mut self, call: &HandlerCall) -> HandlerOutcome {
        let alive = |o: &&mut OpenText| o.incarnation == call.incarnation;
        if let Some(open) = self.open.get_mut(&call.doc).filter(alive) {
            let body = json::parse(&call.body).expect("the core hands out bodies that it could parse");
            match edit::apply(&open.text, &body) {
                Ok(text) => open.text = text,
                Err(reason) => return HandlerOutcome::Refused { reason, detail: None },
            }
            *self.effects.entry(call.patch_id).or_default() += 1;
        }
        HandlerOutcome::Applied(HandlerResult::None)
    }

    fn send(&mut self, conn: u64, text: &str) {
        if self.connected != Some(conn) {
            return;
        }
        let frame = TabFrame::decode(text).expect("the tab sends frames of the protocol");
        let answer = match &frame {
            TabFrame::Hello(hello) if !self.welcome_silently => {
                let docs = hello.docs.iter().map(|d| (d.doc.clone(), d.incarnation, self.seq_of(&d.doc)));
                Some(crate::steps::welcome(self.server_now(), self.max_frame_bytes, docs.collect()))
            }
            TabFrame::Open(open) if !self.welcome_silently => {
                Some(crate::steps::opened(&open.doc, open.incarnation, self.seq_of(&open.doc)))
            }
            TabFrame::Ping { t, .. } if self.pongs => Some(crate::steps::pong(*t, self.server_now())),
            _ => None,
        };
        let is_ack = matches!(frame, TabFrame::PatchAck(_));
        self.sent.push(frame);
        if is_ack && self.crash_at == Some(CrashPoint::Ack) {
            self.die();
            return;
        }
        if let Some(text) = answer {
            self.inputs.push_back(Event::Socket { conn, event: SocketEvent::Text(text) });
        }
    }

    fn seq_of(&self, doc: &DocId) -> u64 {
        self.stored.get(doc).map_or(0, |s| s.seq)
    }
}

const fn split_mix(counter: u64) -> u64 {
    let mut z = counter.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
