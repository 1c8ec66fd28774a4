//! The world: a queue of events, and one step after the other.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use patchkeep_core::ids::{DocId, PatchId};
use patchkeep_core::outbox::Answer;
use patchkeep_core::session::{HandlerCall, HandlerOutcome, Mark, ReconcileOutcome};
use patchkeep_core::storage::{Transaction, TransactionOutcome};
use patchkeep_server::decide::Save;

use crate::caller::Op;
use crate::mutants::Mutant;
use crate::network::{Message, Socket};
use crate::oracle::Oracle;
use crate::profile::Setup;
use crate::rng::Rng;
use crate::server::{Request, Server};
use crate::tab::{Context, Disk, Slot, Why};

/// One thing that happens at a time.
#[derive(Debug)]
pub(crate) enum Event {
    /// A message reaches the server.
    ToServer { socket: u64, message: Message },
    /// A message reaches the tab.
    ToTab { socket: u64, message: Message },
    /// The server notices that a socket is dead.
    ServerClosed { socket: u64 },
    /// The tab notices it.
    TabClosed { socket: u64 },
    /// The tab's timer.
    Timer { context: u64 },
    /// A transaction takes effect on the disk.
    TxApply { context: u64, transaction: Transaction },
    /// Its end reaches the tab.
    TxDone { context: u64, id: u64, outcome: TransactionOutcome },
    /// The stored epoch is read for the tab.
    ReadEpoch { context: u64 },
    /// A slow handler makes its effect.
    Effect { context: u64, call: HandlerCall },
    /// A handler settles.
    Settled { context: u64, call: u64, outcome: HandlerOutcome },
    /// A reconcile hook answers.
    Reconciled { context: u64, call: u64, outcome: ReconcileOutcome },
    /// The host looks after its documents.
    Tick { context: u64 },
    /// A save reaches the server.
    SaveArrives { context: u64, save: Box<Save>, mark: Option<Mark> },
    /// Its answer, or the news that there is none, reaches the tab.
    SaveAnswered { context: u64, mark: Mark, text: String, answer: Option<(u16, String)> },
    /// A request for the stored text reaches the server.
    Fetch { context: u64, doc: DocId, why: Why },
    /// The stored text reaches the host.
    Fetched { context: u64, doc: DocId, text: String, seq: u64, why: Why },
    /// A caller acts.
    Caller { op: usize },
    /// A request of a caller reaches the server.
    Arrives { request: Request },
    /// A claimed write is executed.
    Execute { task: u64 },
    /// A waiting request looks at its row.
    Look { task: u64 },
    /// An answer, or the news that there is none, reaches the caller.
    Answered { op: usize, request: u64, answer: Answer },
    /// A patch's deadline at the server.
    Deadline { boot: u64, patch_id: PatchId },
    /// Something goes wrong.
    Fault,
    /// A window loads the page.
    Load { slot: usize },
    /// The lock on the tab id is lost.
    LockLost { context: u64 },
    /// A frozen page goes on.
    Thaw { context: u64 },
}

struct Scheduled {
    at: u64,
    order: u64,
    event: Event,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}
impl Eq for Scheduled {}
impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// The profile that was drawn.
    pub profile: &'static str,
    /// How many events happened.
    pub steps: u64,
    /// A digest of everything that happened, in order.
    pub hash: u64,
    /// What was violated, if anything.
    pub violation: Option<String>,
    /// How the ops ended: done, refused, lost, unknown, applied.
    pub ended: [u64; 5],
    /// The last steps, where a trace was asked for.
    pub trace: Vec<String>,
}

/// One run.
pub struct Sim {
    pub(crate) now: u64,
    pub(crate) rng: Rng,
    pub(crate) setup: Setup,
    /// Nothing goes wrong any more.
    pub(crate) is_calm: bool,
    pub(crate) sockets: BTreeMap<u64, Socket>,
    pub(crate) lost: BTreeSet<(u64, bool)>,
    pub(crate) last_socket: u64,
    pub(crate) contexts: BTreeMap<u64, Context>,
    pub(crate) last_context: u64,
    pub(crate) slots: Vec<Slot>,
    pub(crate) disk: Disk,
    pub(crate) server: Server,
    pub(crate) ops: Vec<Op>,
    pub(crate) oracle: Oracle,
    pub(crate) mutant: Option<Mutant>,
    queue: BinaryHeap<Scheduled>,
    order: u64,
    steps: u64,
    hasher: DefaultHasher,
    trace: Option<VecDeque<String>>,
    seed: u64,
}

/// How many lines of a trace are kept.
const TRACE_LINES: usize = 4000;
/// A run that does not come to an end is a violation of its own.
const MOST_STEPS: u64 = 200_000;

impl Sim {
    /// Runs a seed to its end.
    pub fn run(seed: u64, profile: Option<&str>, with_trace: bool) -> Report {
        Self::run_mutant(seed, profile, with_trace, None)
    }

    /// Runs a seed to its end, with a deliberate bug.
    pub fn run_mutant(seed: u64, profile: Option<&str>, with_trace: bool, mutant: Option<Mutant>) -> Report {
        let mut rng = Rng::new(seed);
        let setup = Setup::draw(&mut rng, profile);
        let mut sim = Self {
            now: 1_000,
            is_calm: false,
            sockets: BTreeMap::new(),
            lost: BTreeSet::new(),
            last_socket: 0,
            contexts: BTreeMap::new(),
            last_context: 0,
            slots: Vec::new(),
            disk: Disk::new(&mut rng, setup.durability),
            server: Server::new(&mut rng),
            ops: Vec::new(),
            oracle: Oracle::default(),
            mutant,
            queue: BinaryHeap::new(),
            order: 0,
            steps: 0,
            hasher: DefaultHasher::new(),
            trace: with_trace.then(VecDeque::new),
            seed,
            setup,
            rng,
        };
        sim.begin();
        sim.go();
        sim.report()
    }

    fn begin(&mut self) {
        self.note(|s| format!("{:?}", s.setup));
        for slot in 0..self.setup.windows {
            self.slots.push(Slot::default());
            let at = self.now + self.rng.range(0, 3_000);
            self.at(at, Event::Load { slot });
        }
        self.make_ops();
        if self.setup.profile.fault_every_ms > 0 {
            self.at(self.now + 500, Event::Fault);
        }
    }

    fn go(&mut self) {
        let calm_from = self.now + self.setup.faulty_ms;
        while self.oracle.violation.is_none() {
            let next = self.queue.peek().map_or(u64::MAX, |s| s.at);
            if !self.is_calm && next >= calm_from {
                self.now = calm_from;
                self.calm_down();
                continue;
            }
            if self.is_calm && (next >= self.ends_at(calm_from) || self.all_settled()) {
                break;
            }
            let Some(Scheduled { at, event, order }) = self.queue.pop() else { break };
            self.now = at;
            self.steps += 1;
            if self.steps > MOST_STEPS {
                self.violated("the run does not come to an end");
                break;
            }
            (at, order, std::mem::discriminant(&event)).hash(&mut self.hasher);
            if let Event::ToServer { message: Message::Text(t), .. } | Event::ToTab { message: Message::Text(t), .. } =
                &event
            {
                t.hash(&mut self.hasher);
            }
            if self.trace.is_some() {
                let line = format!("{event:?}");
                self.note(|_| line);
            }
            self.happen(event);
            self.check();
        }
        if self.oracle.violation.is_none() {
            self.check_end();
        }
    }

    /// When a run without faults is over at the latest: every deadline has passed and every question was asked.
    const fn ends_at(&self, calm_from: u64) -> u64 {
        calm_from + 2 * self.setup.patch_timeout_ms + 180_000
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::ToServer { socket, message } => self.at_server(socket, message),
            Event::ToTab { socket, message } => self.at_tab(socket, message),
            Event::ServerClosed { socket } => self.server_closed(socket),
            Event::TabClosed { socket } => self.heard(socket, Message::Closed(1006)),
            Event::Timer { context } => self.timer(context),
            Event::TxApply { context, transaction } => self.tx_apply(context, &transaction),
            Event::TxDone { context, id, outcome } => self.tx_done(context, id, outcome),
            Event::ReadEpoch { context } => self.read_epoch(context),
            Event::Effect { context, call } => self.slow_effect(context, &call),
            Event::Settled { context, call, outcome } => self.handler_settled(context, call, outcome),
            Event::Reconciled { context, call, outcome } => self.reconciled(context, call, outcome),
            Event::Tick { context } => self.tick(context),
            Event::SaveArrives { context, save, mark } => self.save_arrives(context, &save, mark),
            Event::SaveAnswered { context, mark, text, answer } => self.save_answered(context, &mark, &text, answer),
            Event::Fetch { context, doc, why } => self.fetch_arrives(context, doc, why),
            Event::Fetched { context, doc, text, seq, why } => self.fetched(context, &doc, &text, seq, &why),
            Event::Caller { op } => self.caller_acts(op),
            Event::Arrives { request } => self.request_arrives(request),
            Event::Execute { task } => self.execute_write(task),
            Event::Look { task } => self.look_again(task),
            Event::Answered { op, request, answer } => self.caller_hears(op, request, &answer),
            Event::Deadline { boot, patch_id } => self.deadline(boot, patch_id),
            Event::Fault => self.fault(),
            Event::Load { slot } => self.load(slot, false),
            Event::LockLost { context } => self.deliver(context, patchkeep_core::session::Event::LockLost),
            Event::Thaw { context } => self.thaw(context),
        }
    }

    /// Whether this run has that deliberate bug.
    pub(crate) fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// Puts an event into the queue.
    pub(crate) fn at(&mut self, at: u64, event: Event) {
        self.order += 1;
        self.queue.push(Scheduled { at: at.max(self.now), order: self.order, event });
    }

    /// Puts an event into the queue after a random delay.
    pub(crate) fn later(&mut self, event: Event) {
        let delay = self.delay();
        self.at(self.now + delay, event);
    }

    /// A random delay, in ms: ordinary, or of seconds.
    pub(crate) const fn delay(&mut self) -> u64 {
        if self.is_calm {
            return self.rng.range(1, 20);
        }
        if self.rng.chance(self.setup.profile.late) {
            return self.rng.range(1_000, 12_000);
        }
        self.rng.range(0, self.setup.profile.delay_ms)
    }

    /// Whether something goes wrong that goes wrong that often.
    pub(crate) const fn fails(&mut self, permille: u64) -> bool {
        !self.is_calm && self.rng.chance(permille)
    }

    /// Adds a line to the trace.
    pub(crate) fn note(&mut self, line: impl FnOnce(&Self) -> String) {
        if self.trace.is_some() {
            let line = format!("{:>7} {}", self.now, line(self));
            if let Some(trace) = &mut self.trace {
                if trace.len() == TRACE_LINES {
                    trace.pop_front();
                }
                trace.push_back(line);
            }
        }
    }

    /// Something that must not be.
    pub(crate) fn violated(&mut self, what: impl Into<String>) {
        let what = what.into();
        self.note(|_| format!("VIOLATION {what}"));
        self.oracle.violation.get_or_insert(what);
    }

    fn report(self) -> Report {
        Report {
            seed: self.seed,
            profile: self.setup.profile.name,
            steps: self.steps,
            hash: self.hasher.finish(),
            ended: crate::oracle::endings(&self.ops),
            violation: self.oracle.violation,
            trace: self.trace.unwrap_or_default().into(),
        }
    }
}
