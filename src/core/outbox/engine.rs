//! The outbox: which op goes out when (K1, K4, K6, K7, K9–K11).
//!
//! Each lane sends one op at a time, in order. Where there is work there is a time to wake up or an answer to wait
//! for; health is the age of the oldest unsettled op.

use std::collections::VecDeque;

use super::entries::{Entries, Entry, Flight};
use super::io::{EnqueueError, NewOp, OutboxEvent, OutboxInput, OutboxOutput};
use super::op::{Op, OpState};
use super::servers::Origin;
use super::{KeyMint, OpKey};
use crate::digest;
use crate::ids::TabId;
use crate::json::{self, ObjectWriter, Value};
use crate::map::SmallMap;
use crate::storage::StorageFault;
use crate::time::Now;

/// Limits of an outbox.
#[derive(Clone, Debug)]
pub struct OutboxConfig {
    /// Attempts an op may have.
    pub most_attempts: u64,
    /// Questions in a row about an op that was applied and is not saved, before it is left unknown (K6): with the pauses
    /// between them, more than a day of asking.
    pub most_questions: u32,
    /// How long one attempt may take, in ms.
    pub attempt_timeout_ms: u64,
    /// How long the host may take to find fresh credentials after a 401, in ms; then the op is held (K5).
    pub credentials_timeout_ms: u64,
    /// Ops with something under way at once; lanes beyond wait their turn.
    pub most_under_way: usize,
    /// The largest body, in bytes.
    pub max_body_bytes: usize,
    /// How long a server remembers a key that does not say, in ms (K7).
    pub default_key_ttl_ms: u64,
}

impl Default for OutboxConfig {
    fn default() -> Self {
        Self {
            most_attempts: 12,
            most_questions: 10_000,
            attempt_timeout_ms: 30_000,
            credentials_timeout_ms: 60_000,
            most_under_way: 64,
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
    /// Why nothing can be stored, where that is so.
    pub(super) storage_fault: Option<StorageFault>,
    pub(super) fenced: bool,
    pub(super) suspended: bool,
    pub(super) offline: bool,
    mint: KeyMint,
    pub(super) entries: Entries,
    pub(super) origins: SmallMap<String, Origin>,
    /// What the server's clock said last, and the monotonic clock with it, in ms: one of the three that a key's life is
    /// measured by (K7).
    pub(super) server_clock: Option<(u64, u64)>,
    pub(super) last_request: u64,
    pub(super) last_question: u64,
    pub(super) last_transaction: u64,
    pub(super) unwritten: Vec<OpKey>,
    pub(super) in_flight: Option<(u64, Vec<OpKey>)>,
    /// A full store is not tried again before this, by the monotonic clock.
    pub(super) store_due_ms: Option<u64>,
    pub(super) outputs: VecDeque<OutboxOutput>,
}

/// The first ceiling of the back-off, and its last.
pub(super) const BASE_MS: u64 = 1_000;
pub(super) const CAP_MS: u64 = 60_000;
/// A wait is never shorter, whatever chance says.
pub(super) const LEAST_WAIT_MS: u64 = 100;
/// A server's wish to wait is followed up to here.
pub(super) const MOST_WAIT_MS: u64 = 3_600_000;
/// While the browser says that it is offline, the server is asked so often what it can do: an answer overrules it.
pub(super) const PROBE_MS: u64 = 60_000;
/// A full store is tried again after this.
pub(super) const FULL_MS: u64 = 5_000;
/// How much longer than its timeout a request may stay silent before it is given up here.
pub(super) const GRACE_MS: u64 = 5_000;

impl Outbox {
    /// Begins. Ops found `sending` are ambiguous: their context died (K11).
    pub fn new(start: OutboxStart) -> Self {
        let mut outbox = Self {
            config: start.config,
            tab_id: start.tab_id,
            epoch: start.epoch,
            storage_fault: (!start.durable).then_some(StorageFault::Unavailable),
            fenced: false,
            suspended: false,
            offline: false,
            mint: KeyMint::default(),
            entries: Entries::default(),
            origins: SmallMap::default(),
            server_clock: None,
            last_request: 0,
            last_question: 0,
            last_transaction: 0,
            unwritten: Vec::new(),
            in_flight: None,
            store_due_ms: None,
            outputs: VecDeque::new(),
        };
        let mut ops = start.ops;
        ops.sort_by_key(|op| op.order);
        for op in ops {
            let key = op.key.clone();
            let mut entry = Entry::new(found(op), start.now.mono_ms);
            entry.is_stored = true;
            if !outbox.entries.push(entry) {
                outbox.write(&key);
            }
        }
        outbox.forget_the_oldest();
        outbox
    }

    /// Takes over the ops of another tab of the same principal, whose lock is held and whose epoch was raised to
    /// `epoch` (T5): they keep their order, behind this tab's own. Their records come over in the transaction that
    /// removes them there. Returns those that were left where they are, since this tab has ops of the same keys.
    pub fn adopt(&mut self, now: Now, from: TabId, epoch: u64, mut ops: Vec<Op>) -> Vec<OpKey> {
        ops.sort_by_key(|op| op.order);
        let mut left = Vec::new();
        for mut op in ops {
            if self.op(&op.key).is_some() || self.fenced {
                left.push(op.key);
                continue;
            }
            let key = op.key.clone();
            op.order = 0;
            let mut entry = Entry::new(found(op), now.mono_ms);
            entry.taken_from = Some((from, epoch));
            self.entries.push(entry);
            self.save(&key);
        }
        self.advance(now, None, 0);
        left
    }

    /// Queues an op. It is sent once it is stored; [`OutboxOutput::Stored`] says so. The same key with the same
    /// request is the same op.
    ///
    /// # Errors
    /// [`EnqueueError`]; nothing was sent or stored.
    pub fn enqueue(&mut self, now: Now, random: u128, new: NewOp) -> Result<OpKey, EnqueueError> {
        self.enqueue_in_place_of(now, random, new, None)
    }

    /// The same, where the body may still hold the key of the op that it stands in for.
    pub(super) fn enqueue_in_place_of(
        &mut self,
        now: Now,
        random: u128,
        new: NewOp,
        earlier: Option<&OpKey>,
    ) -> Result<OpKey, EnqueueError> {
        self.check(&new)?;
        let minted = new.key.clone().unwrap_or_else(|| self.mint.mint(now.wall_ms, random));
        let mut body = new.body;
        if new.key_in_body {
            body = Some(
                body.and_then(|body| with_key(&body, &minted, earlier))
                    .ok_or(EnqueueError::InvalidArgument("keyIn"))?,
            );
        }
        let method = new.method.to_ascii_uppercase();
        let canonical = body.as_deref().unwrap_or("null");
        let fingerprint = digest::fingerprint(&method, &new.path, canonical).map_err(|_| EnqueueError::Malformed)?;
        if let Some(known) = self.op(&minted) {
            let is_same = known.fingerprint == fingerprint && known.origin == new.origin;
            return if is_same { Ok(minted) } else { Err(EnqueueError::KeyReused) };
        }
        let mut entry = Entry::new(
            Op {
                key: minted.clone(),
                order: 0,
                lane: new.lane,
                method,
                origin: new.origin,
                path: new.path,
                body,
                key_in_body: new.key_in_body,
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
                response_type: None,
                response_cut: false,
            },
            now.mono_ms,
        );
        entry.is_volatile = self.storage_fault.is_some();
        entry.may_be_volatile = new.may_be_volatile;
        self.entries.push(entry);
        // What is asked for now is tried now, also where the store was full.
        self.store_due_ms = None;
        self.save(&minted);
        self.advance(now, None, random);
        Ok(minted)
    }

    fn check(&self, new: &NewOp) -> Result<(), EnqueueError> {
        let token = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphabetic());
        let refused = match (self.storage_fault, self.fenced) {
            (_, true) => EnqueueError::Fenced,
            _ if !token(&new.method) => EnqueueError::InvalidArgument("method"),
            _ if !new.path.starts_with('/') => EnqueueError::InvalidArgument("path"),
            // Credentials in an address would be stored with it (K1).
            _ if !new.origin.contains("://") || new.origin.contains('@') => EnqueueError::InvalidArgument("origin"),
            _ if new.lane.is_empty() => EnqueueError::InvalidArgument("lane"),
            _ if new.body.as_ref().is_some_and(|b| b.len() > self.config.max_body_bytes) => EnqueueError::TooLarge,
            (Some(fault), _) if !new.may_be_volatile => EnqueueError::Storage(fault),
            _ => return Ok(()),
        };
        Err(refused)
    }

    /// Takes in what happened.
    pub fn handle(&mut self, input: OutboxInput) {
        if self.fenced {
            return;
        }
        let OutboxInput { now, server_now_ms, random, event } = input;
        self.server_clock = server_now_ms.map(|ms| (ms, now.mono_ms)).or(self.server_clock);
        match event {
            OutboxEvent::Transaction { id, outcome } => self.on_transaction(now, id, outcome),
            OutboxEvent::Answered { request, answer } => {
                self.is_online(now);
                self.on_answer(now, server_now_ms, random, request, &answer);
            }
            OutboxEvent::Capabilities { question, listed } => self.on_capabilities(now, question, listed),
            OutboxEvent::Unreachable { question } => self.on_unreachable(now, random, question),
            OutboxEvent::Refreshed { key, fresh } => self.on_refreshed(now, &key, fresh),
            OutboxEvent::CredentialsChanged => self.release_held(now),
            OutboxEvent::Online | OutboxEvent::Drain => {
                self.offline = false;
                self.hurry(now);
            }
            OutboxEvent::Offline => self.offline = true,
            OutboxEvent::Reconnected { origin } => {
                self.offline = false;
                self.forget_capabilities(now, &origin);
                self.hurry(now);
            }
            OutboxEvent::Suspend => {
                self.suspended = true;
                self.drop_questions(now);
            }
            OutboxEvent::Resume => self.suspended = false,
            OutboxEvent::StorageLost(fault) => self.storage_failed(now, fault),
            OutboxEvent::LockLost => self.fence(),
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
        if self.fenced {
            return None;
        }
        let silent = self.entries.flying().filter_map(|e| e.flight?.until_ms());
        let due = self.candidates().map(|e| e.due_ms);
        let store = self.store_due_ms.filter(|_| self.in_flight.is_none() && !self.unwritten.is_empty());
        due.chain(silent).chain(store).min()
    }

    /// An op by its key.
    pub fn op(&self, key: &OpKey) -> Option<&Op> {
        self.entries.get(key).map(|e| &e.op)
    }

    /// Every op, in order.
    pub fn ops(&self) -> impl Iterator<Item = &Op> {
        self.entries.iter().map(|e| &e.op)
    }

    /// Whether something is being written, or was handed out and not answered yet.
    pub fn is_busy(&self) -> bool {
        !self.fenced && (self.in_flight.is_some() || self.entries.flying().next().is_some())
    }

    /// Whether a question about this op waits to be asked, or to be answered.
    pub fn is_asking(&self, key: &OpKey) -> bool {
        self.entries
            .get(key)
            .is_some_and(|e| e.wants_asking || matches!(e.flight, Some(Flight::Request { ask: true, .. })))
    }

    /// When the oldest op that is not settled was queued, on the tab's wall clock: the outbox's health (K6).
    pub fn oldest_unsettled_ms(&self) -> Option<u64> {
        self.ops().filter(|op| !op.state.is_settled()).map(|op| op.created_at_ms).min()
    }

    pub(super) fn entry_mut(&mut self, key: &OpKey) -> Option<&mut Entry> {
        self.entries.get_mut(key)
    }

    pub(super) fn advance(&mut self, now: Now, server_now_ms: Option<u64>, random: u128) {
        if self.fenced {
            return;
        }
        self.give_up_the_silent(now, server_now_ms, random);
        self.give_up_silent_questions(now);
        self.run_lanes(now, server_now_ms);
        self.run_store(now);
    }
}

/// An op as the context that finds it goes on with it.
fn found(mut op: Op) -> Op {
    match op.state {
        OpState::Sending => {
            op.state = OpState::Waiting;
            op.ambiguous = true;
        }
        // A new context has asked the host for credentials anew.
        OpState::Held => {
            op.state = OpState::Waiting;
            op.refreshed = false;
        }
        _ => {}
    }
    op
}

/// The body, an object, with the key in it (K2), in the place of an earlier one's; `None` where it is no object, or has
/// another such member.
fn with_key(body: &str, key: &OpKey, earlier: Option<&OpKey>) -> Option<String> {
    let parsed = json::parse(body).ok()?;
    let Value::Object(members) = &parsed else { return None };
    let mut out = String::with_capacity(body.len() + 64);
    let Some(member) = parsed.member(KEY_MEMBER) else {
        ObjectWriter::new(&mut out).string(KEY_MEMBER, key.as_str());
        if !members.is_empty() {
            out.push(',');
        }
        out.push_str(body.trim_start().strip_prefix('{')?);
        return Some(out);
    };
    let named = member.value.as_str();
    if named != Some(key.as_str()) && (named.is_none() || named != earlier.map(OpKey::as_str)) {
        return None;
    }
    // The member's own text is a part of the body.
    let at = member.raw.as_ptr() as usize - body.as_ptr() as usize;
    out.push_str(body.get(..at)?);
    json::write_string(&mut out, key.as_str());
    out.push_str(body.get(at + member.raw.len()..)?);
    Some(out)
}

/// What the key is called in a body (K2).
const KEY_MEMBER: &str = "op_key";
