//! The outbox: which op goes out when (K1, K4, K6, K7, K9–K11).
//!
//! Each lane sends one op at a time, in order. Where there is work there is a time to wake up or an answer to wait
//! for; health is the age of the oldest unsettled op.

use std::collections::VecDeque;

use super::io::{
    Capabilities, EnqueueError, NewOp, OutboxEvent, OutboxInput, OutboxOutput, OutboxTransaction, Request,
};
use super::op::{OnFailure, Op, OpState};
use super::{KeyMint, OpKey};
use crate::digest;
use crate::ids::TabId;
use crate::map::SmallMap;
use crate::storage::{StorageFault, TransactionOutcome};
use crate::time::Now;

/// Limits of an outbox.
#[derive(Clone, Debug)]
pub struct OutboxConfig {
    /// Attempts an op may have.
    pub most_attempts: u64,
    /// How long one attempt may take, in ms.
    pub attempt_timeout_ms: u64,
    /// The largest body, in bytes.
    pub max_body_bytes: usize,
    /// How long a server remembers a key that does not say, in ms (K7).
    pub default_key_ttl_ms: u64,
}

impl Default for OutboxConfig {
    fn default() -> Self {
        Self {
            most_attempts: 12,
            attempt_timeout_ms: 30_000,
            max_body_bytes: 8 << 20,
            default_key_ttl_ms: 24 * 3_600_000,
        }
    }
}

/// What an outbox begins with.
#[derive(Clone, Debug)]
pub struct OutboxStart {
    /// The tab's clocks.
    pub now: Now,
    /// Whose ops these are.
    pub tab_id: TabId,
    /// The epoch under which they are written.
    pub epoch: u64,
    /// Whether they can be stored.
    pub durable: bool,
    /// Stored ops, in any order. What cannot be read is the caller's to report; it is left where it is.
    pub ops: Vec<Op>,
    /// Limits.
    pub config: OutboxConfig,
}

/// The machine.
#[derive(Debug)]
pub struct Outbox {
    pub(super) config: OutboxConfig,
    tab_id: TabId,
    epoch: u64,
    pub(super) durable: bool,
    pub(super) fenced: bool,
    suspended: bool,
    offline: bool,
    mint: KeyMint,
    pub(super) entries: Vec<Entry>,
    origins: SmallMap<String, Origin>,
    last_request: u64,
    last_transaction: u64,
    pending_writes: Vec<OpKey>,
    in_flight: Option<(u64, Vec<OpKey>)>,
    pub(super) outputs: VecDeque<OutboxOutput>,
}

/// An op and what this context does about it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) op: Op,
    /// It was stored at least once, or needs no storing.
    pub(super) is_stored: bool,
    pub(super) may_be_volatile: bool,
    /// Not before, by the monotonic clock; encouragement brings it forward.
    pub(super) due_ms: u64,
    /// Not before, whatever encourages: the server has asked for it.
    pub(super) floor_ms: u64,
    /// It waits to hear what the origin can do.
    awaits_capabilities: bool,
    /// Failures in a row, for the back-off.
    pub(super) failures: u32,
    pub(super) flight: Option<Flight>,
    /// The host gave it up while an attempt was under way (K10).
    pub(super) cancelled: bool,
}

impl Entry {
    const fn new(op: Op, due_ms: u64, is_stored: bool, may_be_volatile: bool) -> Self {
        Self {
            op,
            is_stored,
            may_be_volatile,
            due_ms,
            floor_ms: 0,
            awaits_capabilities: false,
            failures: 0,
            flight: None,
            cancelled: false,
        }
    }
}

/// What is under way for an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flight {
    /// `sending` is being written, in this transaction.
    Writing { transaction: u64 },
    /// A request, until it must have ended.
    Request { request: u64, ask: bool, until_ms: u64 },
    /// The host is asked for credentials.
    Refreshing,
}

#[derive(Debug, Default)]
struct Origin {
    known: Option<Capabilities>,
    asking: bool,
}

/// The first ceiling of the back-off, and its last.
pub(super) const BASE_MS: u64 = 1_000;
pub(super) const CAP_MS: u64 = 60_000;
/// A server's wish to wait is followed up to here.
pub(super) const MOST_WAIT_MS: u64 = 3_600_000;
/// While the browser says that it is offline, the server is asked so often what it can do: an answer overrules it.
const PROBE_MS: u64 = 60_000;
/// How much longer than its timeout a request may stay silent before it is given up here.
const GRACE_MS: u64 = 5_000;

impl Outbox {
    /// Begins. Ops found `sending` are ambiguous: their context died (K11).
    pub fn new(start: OutboxStart) -> Self {
        let mut ops = start.ops;
        ops.sort_unstable_by_key(|op| op.order);
        let entry = |mut op: Op| {
            if op.state == OpState::Sending {
                op.state = OpState::Waiting;
                op.ambiguous = true;
            }
            let due_ms = start.now.mono_ms;
            Entry::new(op, due_ms, true, false)
        };
        Self {
            config: start.config,
            tab_id: start.tab_id,
            epoch: start.epoch,
            durable: start.durable,
            fenced: false,
            suspended: false,
            offline: false,
            mint: KeyMint::default(),
            entries: ops.into_iter().map(entry).collect(),
            origins: SmallMap::default(),
            last_request: 0,
            last_transaction: 0,
            pending_writes: Vec::new(),
            in_flight: None,
            outputs: VecDeque::new(),
        }
    }

    /// Queues an op. It is sent once it is stored; [`OutboxOutput::Changed`] says so. The same key with the same
    /// request is the same op.
    ///
    /// # Errors
    /// [`EnqueueError`]; nothing was sent or stored.
    pub fn enqueue(&mut self, now: Now, random: u128, new: NewOp) -> Result<OpKey, EnqueueError> {
        self.check(&new)?;
        let body = new.body.as_deref().unwrap_or("null");
        let method = new.method.to_ascii_uppercase();
        let fingerprint = digest::fingerprint(&method, &new.path, body).map_err(|_| EnqueueError::Malformed)?;
        if let Some(known) = new.key.as_ref().and_then(|key| self.op(key)) {
            return if known.fingerprint == fingerprint { Ok(known.key.clone()) } else { Err(EnqueueError::KeyReused) };
        }
        let key = new.key.clone().unwrap_or_else(|| self.mint.mint(now.wall_ms, random));
        let op = Op {
            key: key.clone(),
            order: self.entries.last().map_or(1, |e| e.op.order + 1),
            lane: new.lane,
            method,
            origin: new.origin,
            path: new.path,
            body: new.body,
            content_type: new.content_type,
            fingerprint,
            on_failure: new.on_failure,
            expects_other_type: new.expects_other_type,
            deadline_ms: new.deadline_ms,
            created_at_ms: now.wall_ms,
            state: OpState::Queued,
            attempts: 0,
            first_attempt_ms: None,
            first_attempt_server_ms: None,
            keys_listed_at_first: false,
            ambiguous: false,
            replayed: false,
            conflict: false,
            refreshed: false,
            status: 0,
            code: None,
            response: None,
        };
        let is_stored = !self.durable;
        let (due_ms, may_be_volatile) = (now.mono_ms, new.may_be_volatile);
        self.entries.push(Entry::new(op, due_ms, is_stored, may_be_volatile));
        self.save(&key);
        self.advance(now, None, random);
        Ok(key)
    }

    fn check(&self, new: &NewOp) -> Result<(), EnqueueError> {
        let token = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphabetic());
        let refused = match () {
            () if self.fenced => EnqueueError::Fenced,
            () if !token(&new.method) => EnqueueError::InvalidArgument("method"),
            () if !new.path.starts_with('/') => EnqueueError::InvalidArgument("path"),
            // Credentials in an address would be stored with it (K1).
            () if !new.origin.contains("://") || new.origin.contains('@') => EnqueueError::InvalidArgument("origin"),
            () if new.lane.is_empty() => EnqueueError::InvalidArgument("lane"),
            () if new.body.as_ref().is_some_and(|b| b.len() > self.config.max_body_bytes) => EnqueueError::TooLarge,
            () if !self.durable && !new.may_be_volatile => EnqueueError::StorageUnavailable,
            () => return Ok(()),
        };
        Err(refused)
    }

    /// Takes in what happened.
    pub fn handle(&mut self, input: OutboxInput) {
        if self.fenced {
            return;
        }
        let OutboxInput { now, server_now_ms, random, event } = input;
        match event {
            OutboxEvent::Transaction { id, outcome } => self.on_transaction(now, id, outcome),
            OutboxEvent::Answered { request, answer } => {
                self.offline = false;
                self.on_answer(now, server_now_ms, random, request, &answer);
            }
            OutboxEvent::Capabilities { origin, listed } => {
                self.offline &= listed.is_none();
                for entry in self.entries.iter_mut().filter(|e| e.awaits_capabilities && e.op.origin == origin) {
                    entry.awaits_capabilities = false;
                    entry.due_ms = now.mono_ms;
                }
                self.origins.insert(origin, Origin { known: Some(listed.unwrap_or_default()), asking: false });
            }
            OutboxEvent::Refreshed { key, fresh } => self.on_refreshed(now, &key, fresh),
            OutboxEvent::CredentialsChanged => self.release_held(now),
            OutboxEvent::Online | OutboxEvent::Drain => {
                self.offline = false;
                self.hurry(now);
            }
            OutboxEvent::Offline => self.offline = true,
            OutboxEvent::Reconnected => {
                self.offline = false;
                self.forget_capabilities();
                self.hurry(now);
            }
            OutboxEvent::Suspend => self.suspended = true,
            OutboxEvent::Resume => self.suspended = false,
            OutboxEvent::Timer => {}
        }
        self.advance(now, server_now_ms, random);
    }

    /// The next thing to do, if any.
    pub fn poll(&mut self) -> Option<OutboxOutput> {
        self.outputs.pop_front()
    }

    /// When to hand in [`OutboxEvent::Timer`], by the monotonic clock in ms.
    pub fn next_wake(&self) -> Option<u64> {
        if self.fenced || self.suspended {
            return None;
        }
        let flights = self.entries.iter().filter_map(|e| match e.flight {
            Some(Flight::Request { until_ms, .. }) => Some(until_ms),
            _ => None,
        });
        self.candidates().map(|e| e.due_ms).chain(flights).min()
    }

    /// The ops that go on as soon as they are due: one a lane, in order, and those that were applied, which let their
    /// lane go on and are asked about meanwhile (K9).
    fn candidates(&self) -> impl Iterator<Item = &Entry> {
        let mut blocked: Vec<&str> = Vec::new();
        self.entries.iter().filter(move |entry| {
            let op = &entry.op;
            let is_passed = op.state.is_settled() && op.on_failure == OnFailure::Pass;
            if op.state != OpState::Applied {
                if op.state.lets_lane_go_on() || is_passed || blocked.contains(&op.lane.as_str()) {
                    return false;
                }
                blocked.push(&op.lane);
            }
            let goes_on = matches!(op.state, OpState::Queued | OpState::Waiting | OpState::Applied);
            goes_on && entry.is_stored && entry.flight.is_none()
        })
    }

    /// An op by its key.
    pub fn op(&self, key: &OpKey) -> Option<&Op> {
        self.entry(key).map(|e| &e.op)
    }

    /// Every op, in order.
    pub fn ops(&self) -> impl Iterator<Item = &Op> {
        self.entries.iter().map(|e| &e.op)
    }

    /// When the oldest op that is not settled was queued, on the tab's wall clock: the outbox's health (K6).
    pub fn oldest_unsettled_ms(&self) -> Option<u64> {
        self.ops().filter(|op| !op.state.is_settled()).map(|op| op.created_at_ms).min()
    }

    pub(super) fn entry(&self, key: &OpKey) -> Option<&Entry> {
        self.entries.iter().find(|e| e.op.key == *key)
    }

    pub(super) fn entry_mut(&mut self, key: &OpKey) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|e| e.op.key == *key)
    }

    /// Notes that an op changed: it is written with the next transaction, and the host is told.
    pub(super) fn save(&mut self, key: &OpKey) {
        if let Some(op) = self.op(key).cloned() {
            self.outputs.push_back(OutboxOutput::Changed(op));
        }
        self.write(key);
    }

    pub(super) fn write(&mut self, key: &OpKey) {
        if self.durable && !self.pending_writes.contains(key) {
            self.pending_writes.push(key.clone());
        }
    }

    /// The id of the transaction that will hold what is pending now.
    const fn next_transaction(&self) -> u64 {
        self.last_transaction + 1
    }

    pub(super) fn advance(&mut self, now: Now, server_now_ms: Option<u64>, random: u128) {
        if self.fenced {
            return;
        }
        self.give_up_silent_requests(now, server_now_ms, random);
        if !self.suspended {
            self.run_lanes(now, server_now_ms);
        }
        self.run_store();
    }

    fn run_store(&mut self) {
        if self.in_flight.is_some() || self.pending_writes.is_empty() {
            return;
        }
        self.last_transaction += 1;
        let id = self.last_transaction;
        let keys = std::mem::take(&mut self.pending_writes);
        let writes = keys.iter().map(|key| (key.clone(), self.op(key).map(Op::encode))).collect();
        self.in_flight = Some((id, keys));
        let (tab_id, epoch) = (self.tab_id, self.epoch);
        self.outputs.push_back(OutboxOutput::Transact(OutboxTransaction { id, tab_id, epoch, writes }));
    }

    fn on_transaction(&mut self, now: Now, id: u64, outcome: TransactionOutcome) {
        let Some((_, keys)) = self.in_flight.take_if(|(in_flight, _)| *in_flight == id) else { return };
        match outcome {
            TransactionOutcome::Durable { .. } => {
                for key in keys {
                    if let Some(entry) = self.entry_mut(&key) {
                        entry.is_stored = true;
                    }
                    self.sending_is_written(now, &key, id);
                }
            }
            TransactionOutcome::Fenced => {
                self.fenced = true;
                self.outputs.push_back(OutboxOutput::Fenced);
            }
            TransactionOutcome::Failed(fault) => self.storage_failed(now, fault),
        }
    }

    /// Nothing can be stored any more. Ops that were never stored and may not live in memory are given back to the
    /// host, unsent (K1); the others go on here, where no other context can find them.
    fn storage_failed(&mut self, now: Now, fault: StorageFault) {
        self.durable = false;
        self.pending_writes.clear();
        self.outputs.push_back(OutboxOutput::Volatile(fault));
        let lost = |e: &Entry| !e.is_stored && !e.may_be_volatile;
        let gone: Vec<OpKey> = self.entries.iter().filter(|e| lost(e)).map(|e| e.op.key.clone()).collect();
        self.entries.retain(|e| !lost(e));
        self.outputs.extend(gone.into_iter().map(|key| OutboxOutput::Gone { key, fault: Some(fault) }));
        let mut written = Vec::new();
        for entry in &mut self.entries {
            entry.is_stored = true;
            if let Some(Flight::Writing { transaction }) = entry.flight {
                written.push((entry.op.key.clone(), transaction));
            }
        }
        for (key, transaction) in written {
            self.sending_is_written(now, &key, transaction);
        }
    }

    fn run_lanes(&mut self, now: Now, server_now_ms: Option<u64>) {
        let due = |e: &&Entry| now.mono_ms >= e.due_ms;
        let ready: Vec<OpKey> = self.candidates().filter(due).map(|e| e.op.key.clone()).collect();
        for key in ready {
            self.begin(now, server_now_ms, &key);
        }
    }

    /// Begins what is due for an op: an attempt, or a question about one that was applied.
    fn begin(&mut self, now: Now, server_now_ms: Option<u64>, key: &OpKey) {
        let Some(op) = self.op(key) else { return };
        let (origin, state) = (op.origin.clone(), op.state);
        if let Some(code) = self.is_over(now, op) {
            self.end_unsent(key, code);
            return;
        }
        let Some(listed) = self.capabilities(&origin) else {
            self.await_capabilities(now, key, &origin);
            return;
        };
        if self.offline {
            self.probe(now, key, &origin);
            return;
        }
        if state == OpState::Applied {
            self.request(now, key, true);
            return;
        }
        let Some(entry) = self.entry_mut(key) else { return };
        if entry.op.ambiguous && !(entry.op.keys_listed_at_first && listed.idempotency_keys) {
            self.end_unsent(key, "keys_not_listed");
            return;
        }
        entry.op.attempts += 1;
        entry.op.state = OpState::Sending;
        if entry.op.attempts == 1 {
            entry.op.first_attempt_ms = Some(now.wall_ms);
            entry.op.first_attempt_server_ms = server_now_ms;
            entry.op.keys_listed_at_first = listed.idempotency_keys;
        }
        self.save(key);
        let transaction = self.next_transaction();
        if let Some(entry) = self.entry_mut(key) {
            entry.flight = Some(Flight::Writing { transaction });
        }
        if !self.durable {
            self.sending_is_written(now, key, transaction);
        }
    }

    /// Why an op may not be sent (again): its deadline, its key's life (K7) or its attempts are over.
    fn is_over(&self, now: Now, op: &Op) -> Option<&'static str> {
        let exhausted = op.state != OpState::Applied && op.attempts >= self.config.most_attempts;
        self.is_over_in_time(now, op).or_else(|| exhausted.then_some("attempts_exhausted"))
    }

    fn is_over_in_time(&self, now: Now, op: &Op) -> Option<&'static str> {
        let ttl = self.origins.get(&op.origin).and_then(|o| o.known).and_then(|c| c.key_ttl_ms);
        let ttl = ttl.unwrap_or(self.config.default_key_ttl_ms);
        if op.first_attempt_ms.is_some_and(|first| now.wall_ms.saturating_sub(first) >= ttl) {
            return Some("key_ttl_passed");
        }
        let is_late = op.deadline_ms.is_some_and(|deadline| now.wall_ms >= deadline);
        (is_late && op.state != OpState::Applied).then_some("deadline_passed")
    }

    /// Ends an op without another attempt: one that was never sent had no effect, of any other nobody can tell.
    pub(super) fn end_unsent(&mut self, key: &OpKey, code: &'static str) {
        let Some(entry) = self.entry_mut(key) else { return };
        entry.op.state = if entry.op.attempts == 0 { OpState::Refused } else { OpState::Unknown };
        entry.op.code = Some(code.into());
        entry.flight = None;
        self.save(key);
    }

    /// What the origin can do, or `None` while it is being asked (K4).
    fn capabilities(&mut self, origin: &str) -> Option<Capabilities> {
        let origin_text = origin.to_owned();
        if !self.origins.contains_key(&origin_text) {
            self.origins.insert(origin_text.clone(), Origin::default());
        }
        let origin = self.origins.get_mut(&origin_text)?;
        if origin.known.is_none() && !origin.asking {
            origin.asking = true;
            self.outputs.push_back(OutboxOutput::AskCapabilities { origin: origin_text });
            return None;
        }
        origin.known
    }

    /// The op goes on when the origin's answer is in; one that never comes counts as "not listed" (K4).
    fn await_capabilities(&mut self, now: Now, key: &OpKey, origin: &str) {
        let until = now.mono_ms + self.config.attempt_timeout_ms + GRACE_MS;
        let Some(entry) = self.entry_mut(key) else { return };
        if !entry.awaits_capabilities {
            entry.awaits_capabilities = true;
            entry.due_ms = until;
            return;
        }
        entry.awaits_capabilities = false;
        self.origins.insert(origin.to_owned(), Origin { known: Some(Capabilities::default()), asking: false });
    }

    fn probe(&mut self, now: Now, key: &OpKey, origin: &str) {
        let origin = origin.to_owned();
        if let Some(known) = self.origins.get_mut(&origin).filter(|o| !o.asking) {
            known.asking = true;
            self.outputs.push_back(OutboxOutput::AskCapabilities { origin });
        }
        if let Some(entry) = self.entry_mut(key) {
            entry.due_ms = now.mono_ms + PROBE_MS;
        }
    }

    pub(super) fn forget_capabilities(&mut self) {
        for origin in self.origins.values_mut() {
            origin.known = None;
            origin.asking = false;
        }
    }

    pub(super) fn listed_now(&self, origin: &str) -> bool {
        self.origins.get(&origin.to_owned()).and_then(|o| o.known).is_some_and(|c| c.idempotency_keys)
    }

    /// Waiting ends early, for ops that wait on nothing but time.
    pub(super) fn hurry(&mut self, now: Now) {
        for entry in &mut self.entries {
            if !entry.awaits_capabilities {
                entry.due_ms = entry.due_ms.min(now.mono_ms.max(entry.floor_ms));
            }
        }
    }

    /// `sending` is durable: the request goes out in this task, unless something has come between (K7, K10).
    fn sending_is_written(&mut self, now: Now, key: &OpKey, id: u64) {
        let suspended = self.suspended;
        let Some(entry) = self.entry_mut(key) else { return };
        if entry.flight != Some(Flight::Writing { transaction: id }) {
            return;
        }
        entry.flight = None;
        if entry.cancelled {
            self.cancel_unsent(key);
            return;
        }
        if suspended {
            // Nothing was sent; the attempt's number is spent, which is all a server can see of it.
            entry.op.state = OpState::Waiting;
            entry.due_ms = now.mono_ms;
            self.save(key);
            return;
        }
        if let Some(code) = self.op(key).and_then(|op| self.is_over_in_time(now, op)) {
            self.end_unsent(key, code);
            return;
        }
        self.request(now, key, false);
    }

    pub(super) fn ask(&mut self, now: Now, key: &OpKey) {
        self.request(now, key, true);
    }

    fn request(&mut self, now: Now, key: &OpKey, ask: bool) {
        self.last_request += 1;
        let request = self.last_request;
        let timeout_ms = self.config.attempt_timeout_ms;
        let Some(op) = self.op(key) else { return };
        let listed = self.origins.get(&op.origin).and_then(|o| o.known).unwrap_or_default();
        let mut headers = vec![("Idempotency-Key", op.key.header_value(listed.structured_keys))];
        if ask {
            headers.push(("Idempotency-Ask", "true".into()));
        } else if listed.attempts {
            headers.push(("Idempotency-Attempt", op.attempts.to_string()));
            if let Some(ms) = op.first_attempt_server_ms {
                headers.push(("Idempotency-First-Attempt", ms.to_string()));
            }
        }
        if op.body.is_some() {
            headers.push(("Content-Type", op.content_type.clone()));
        }
        let (method, body) = (op.method.clone(), op.body.clone());
        let url = op.origin.clone() + &op.path;
        let fetch = Request { request, key: key.clone(), method, url, body, headers, timeout_ms };
        self.outputs.push_back(OutboxOutput::Fetch(fetch));
        if let Some(entry) = self.entry_mut(key) {
            let until_ms = now.mono_ms + timeout_ms + GRACE_MS;
            entry.flight = Some(Flight::Request { request, ask, until_ms });
        }
    }
}
