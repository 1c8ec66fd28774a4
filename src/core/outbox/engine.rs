//! The outbox: which op goes out when (K1, K4, K6, K7, K9–K11).
//!
//! Each lane sends one op at a time, in order. Where there is work there is a time to wake up or an answer to wait
//! for; health is the age of the oldest unsettled op.

use std::collections::VecDeque;

use super::io::{Capabilities, EnqueueError, NewOp, OutboxEvent, OutboxInput, OutboxOutput};
use super::op::{Op, OpState};
use super::{KeyMint, OpKey};
use crate::digest;
use crate::ids::TabId;
use crate::map::SmallMap;
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
    pub(super) tab_id: TabId,
    pub(super) epoch: u64,
    pub(super) durable: bool,
    pub(super) fenced: bool,
    pub(super) suspended: bool,
    pub(super) offline: bool,
    mint: KeyMint,
    pub(super) entries: Vec<Entry>,
    pub(super) origins: SmallMap<String, Origin>,
    pub(super) last_request: u64,
    pub(super) last_transaction: u64,
    pub(super) pending_writes: Vec<OpKey>,
    pub(super) in_flight: Option<(u64, Vec<OpKey>)>,
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
    pub(super) awaits_capabilities: bool,
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
pub(super) struct Origin {
    pub(super) known: Option<Capabilities>,
    pub(super) asking: bool,
}

/// The first ceiling of the back-off, and its last.
pub(super) const BASE_MS: u64 = 1_000;
pub(super) const CAP_MS: u64 = 60_000;
/// A server's wish to wait is followed up to here.
pub(super) const MOST_WAIT_MS: u64 = 3_600_000;
/// While the browser says that it is offline, the server is asked so often what it can do: an answer overrules it.
pub(super) const PROBE_MS: u64 = 60_000;
/// How much longer than its timeout a request may stay silent before it is given up here.
pub(super) const GRACE_MS: u64 = 5_000;

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
}
