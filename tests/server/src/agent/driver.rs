//! The core's outbox (K1–K12) on this machine: its store is a file, its network reqwest, its clocks the system's.
//!
//! It decides nothing. Whatever the machine asks for is done at once (a write) or in a task of its own (a request),
//! and what comes of it is handed back.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use patchkeep_core::ids::TabId;
use patchkeep_core::outbox::{
    EnqueueError, NewOp, Op, OpKey, Outbox, OutboxConfig, OutboxEvent, OutboxInput, OutboxOutput, OutboxStart,
};
use patchkeep_core::storage::StorageFault;
use patchkeep_core::time::Now;
use tokio::sync::watch;

use super::state::{Found, OpStore, OpenError};
use super::web::{ATTEMPT_TIMEOUT_MS, Asked, Said, Web};
use crate::store::system_clock;

/// A handle on the outbox of this process, for one server and principal.
#[derive(Clone, Debug)]
pub struct Driver(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    machine: Mutex<Machine>,
    web: Web,
    principal: Option<String>,
    begun: Instant,
    changed: watch::Sender<()>,
}

#[derive(Debug)]
struct Machine {
    outbox: Outbox,
    store: OpStore,
    /// What the server said of itself before there was an outbox: the first question is answered by it.
    said: Option<Said>,
    /// The server's clock when it was last read, and when that was.
    server_clock: Option<(u64, Instant)>,
    /// Ops of which there is no trace, and why they could not be stored.
    gone: BTreeMap<OpKey, Option<StorageFault>>,
    fenced: bool,
}

/// Epochs tell contexts of one tab apart; here each process is a tab of its own.
const EPOCH: u64 = 1;

impl Driver {
    /// Begins, with nothing in it. Must be called inside a tokio runtime.
    pub fn start(web: Web, principal: Option<String>, store: OpStore, said: Said) -> Self {
        let begun = Instant::now();
        let now = clocks(begun);
        let config = OutboxConfig { attempt_timeout_ms: ATTEMPT_TIMEOUT_MS, ..OutboxConfig::default() };
        let tab_id = store.tab_id();
        let outbox = Outbox::new(OutboxStart { now, tab_id, epoch: EPOCH, durable: true, ops: Vec::new(), config });
        let server_clock = said.now_ms.map(|ms| (ms, begun));
        let gone = BTreeMap::new();
        let machine = Machine { outbox, store, said: Some(said), server_clock, gone, fenced: false };
        let shared = Shared { machine: Mutex::new(machine), web, principal, begun, changed: watch::Sender::new(()) };
        let shared = Arc::new(shared);
        tokio::spawn(wake(Arc::downgrade(&shared)));
        Self(shared)
    }

    /// The server behind it.
    pub fn web(&self) -> &Web {
        &self.0.web
    }

    /// Queues a write; stored when this returns.
    ///
    /// # Errors
    /// As [`Outbox::enqueue`]. Nothing was sent.
    pub fn enqueue(&self, new: NewOp) -> Result<OpKey, EnqueueError> {
        let key = self.0.step(|machine, now, random| machine.outbox.enqueue(now, random, new))?;
        let machine = self.0.lock();
        match (machine.gone.get(&key), machine.fenced) {
            (Some(fault), _) => Err(EnqueueError::Storage(fault.unwrap_or(StorageFault::Failed))),
            (None, true) => Err(EnqueueError::Fenced),
            (None, false) => Ok(key),
        }
    }

    /// Keeps a key for this process, or says what is known of it.
    ///
    /// # Errors
    /// The database.
    pub fn claim(&self, key: &OpKey) -> Result<Found, OpenError> {
        let mut machine = self.0.lock();
        if machine.outbox.op(key).is_some() { Ok(Found::Free) } else { machine.store.claim(key) }
    }

    /// The ops whose processes are gone.
    ///
    /// # Errors
    /// The database.
    pub fn idle(&self) -> Result<Vec<(TabId, Op)>, OpenError> {
        self.0.lock().store.idle()
    }

    /// Takes over an op of a process that is gone, and goes on with it (T5, K11). False where another was faster.
    pub fn adopt(&self, from: TabId, op: Op) -> bool {
        let left = self.0.step(|machine, now, _| machine.outbox.adopt(now, from, EPOCH, vec![op]));
        left.is_empty() && !self.is_fenced()
    }

    /// An op as it is now.
    pub fn op(&self, key: &OpKey) -> Option<Op> {
        self.0.lock().outbox.op(key).cloned()
    }

    /// Does something to the outbox.
    pub fn act<T>(&self, act: impl FnOnce(&mut Outbox, Now) -> T) -> T {
        self.0.step(|machine, now, _| act(&mut machine.outbox, now))
    }

    /// Tells the outbox what happened.
    pub fn tell(&self, event: OutboxEvent) {
        self.0.step(|machine, now, random| machine.tell(now, random, event));
    }

    /// Whether another process took this one's place: nothing more is sent.
    pub fn is_fenced(&self) -> bool {
        self.0.lock().fenced
    }

    /// Whether a request is under way.
    pub fn is_busy(&self) -> bool {
        self.0.lock().outbox.is_busy()
    }

    /// Whether a question about this op waits for its answer.
    pub fn is_asking(&self, key: &OpKey) -> bool {
        self.0.lock().outbox.is_asking(key)
    }

    /// Waits until the condition gives something. It is looked at after every change.
    pub async fn until<T>(&self, mut condition: impl FnMut(&Self) -> Option<T>) -> T {
        let mut changed = self.0.changed.subscribe();
        loop {
            if let Some(met) = condition(self) {
                return met;
            }
            // The sender is a field of `self`: this fails never.
            let _change = changed.changed().await;
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One step of the machine, and all that it asks for.
    fn step<T>(self: &Arc<Self>, act: impl FnOnce(&mut Machine, Now, u128) -> T) -> T {
        let mut machine = self.lock();
        let done = act(&mut machine, clocks(self.begun), random());
        while let Some(output) = machine.outbox.poll() {
            self.perform(&mut machine, output);
        }
        drop(machine);
        self.changed.send_replace(());
        done
    }

    fn perform(self: &Arc<Self>, machine: &mut Machine, output: OutboxOutput) {
        match output {
            OutboxOutput::Transact(transaction) => {
                let outcome = machine.store.transact(&transaction);
                machine.tell(clocks(self.begun), random(), OutboxEvent::Transaction { id: transaction.id, outcome });
            }
            OutboxOutput::Fetch(request) => self.background(async move |shared: Arc<Self>| {
                let reply = shared.web.send(&request, shared.principal.as_deref()).await;
                let answered = OutboxEvent::Answered { request: request.request, answer: reply.answer() };
                shared.step(|machine, now, random| {
                    machine.server_clock = reply.date_ms().map(|ms| (ms, Instant::now())).or(machine.server_clock);
                    machine.tell(now, random, answered);
                });
            }),
            OutboxOutput::AskCapabilities { question, .. } => {
                let said = machine.said.take();
                self.background(async move |shared: Arc<Self>| {
                    let asked = match said {
                        Some(said) => Asked::Answered(said),
                        None => shared.web.capabilities().await,
                    };
                    let event = match asked {
                        Asked::Answered(said) => OutboxEvent::Capabilities { question, listed: said.listed },
                        Asked::Unreachable => OutboxEvent::Unreachable { question },
                    };
                    shared.step(|machine, now, random| machine.tell(now, random, event));
                });
            }
            // There is one token, and it was used.
            OutboxOutput::RefreshCredentials { key } => {
                machine.tell(clocks(self.begun), random(), OutboxEvent::Refreshed { key, fresh: false });
            }
            OutboxOutput::Gone { key, fault } => {
                machine.gone.insert(key, fault);
            }
            OutboxOutput::Fenced => machine.fenced = true,
            // Whoever waits looks for itself.
            OutboxOutput::Changed { .. } | OutboxOutput::Stored { .. } | OutboxOutput::Volatile(_) => {}
        }
    }

    fn background<F: Future<Output = ()> + Send + 'static>(self: &Arc<Self>, task: impl FnOnce(Arc<Self>) -> F) {
        tokio::spawn(task(self.clone()));
    }
}

impl Machine {
    fn tell(&mut self, now: Now, random: u128, event: OutboxEvent) {
        let since = |at: Instant| u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX);
        let server_now_ms = self.server_clock.map(|(ms, at)| ms.saturating_add(since(at)));
        self.outbox.handle(OutboxInput { now, server_now_ms, random, event });
    }
}

/// Hands in the timer whenever the machine asked for it.
async fn wake(shared: Weak<Shared>) {
    let Some(mut changed) = shared.upgrade().map(|s| s.changed.subscribe()) else { return };
    loop {
        let Some(due) =
            shared.upgrade().map(|s| s.lock().outbox.next_wake().map(|ms| s.begun + Duration::from_millis(ms)))
        else {
            return;
        };
        let timer = async {
            match due {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = timer => {
                let Some(shared) = shared.upgrade() else { return };
                shared.step(|machine, now, random| machine.tell(now, random, OutboxEvent::Timer));
            }
            change = changed.changed() => if change.is_err() { return },
        }
    }
}

fn clocks(begun: Instant) -> Now {
    let mono_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    Now { mono_ms, wall_ms: (system_clock())() }
}

/// 128 bits without the fixed ones of a UUID.
fn random() -> u128 {
    uuid::Uuid::new_v4().as_u128() ^ uuid::Uuid::new_v4().as_u128().rotate_left(32)
}
