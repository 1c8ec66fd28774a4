//! Writes on their way to the store: gathered into one transaction at a time, so that what comes in while one is
//! under way shares the next (group commit). Engines run such transactions one after the other anyway.
//!
//! What nothing waits for (J8) waits a moment itself, to share a transaction with what comes next: a patch then costs
//! one transaction instead of two. A crash in that moment leaves `applying` where `applied` would have been, which a
//! later instance treats alike (J7).

use crate::ids::TabId;
use crate::storage::{RecordKey, Transaction, Write};

/// How soon a write must be on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    /// Within [`LAZY_MS`].
    Lazy,
    /// At once.
    Now,
    /// At once, and with `durability: "strict"` (J1).
    Strict,
}

/// How long a write may wait for company, in ms.
const LAZY_MS: u64 = 100;
/// How many of the newest waiting writes are searched for an earlier one of the same record.
const NEWEST: usize = 8;

/// The record that a write is about.
const fn record_key(write: &Write) -> Option<&RecordKey> {
    match write {
        Write::Put { key, .. } | Write::Remove(key) => Some(key),
        Write::JournalId(_) => None,
    }
}

/// The queue before the store.
#[derive(Debug, Default)]
pub(super) struct StoreQueue {
    last_id: u64,
    pending: Vec<Write>,
    urgency: Option<Urgency>,
    /// By when what waits must be on its way, by the monotonic clock; set when it is first looked at.
    due_ms: Option<u64>,
    in_flight: Option<u64>,
    in_flight_strict: bool,
}

impl StoreQueue {
    /// Adds a write; returns the id of the transaction that will hold it. A record that waits already is replaced,
    /// unless it is to be removed after that: writes of one record keep their order (J1).
    pub(super) fn add(&mut self, write: Write, urgency: Urgency) -> u64 {
        let same = |w: &&mut Write| record_key(w).is_some() && record_key(w) == record_key(&write);
        match (self.pending.iter_mut().rev().take(NEWEST).find(same), &write) {
            (Some(earlier @ Write::Put { .. }), Write::Put { .. }) => *earlier = write,
            _ => self.pending.push(write),
        }
        self.urgency = self.urgency.max(Some(urgency));
        self.last_id + 1
    }

    /// What waits must wait no longer.
    pub(super) fn hurry(&mut self) {
        self.urgency = self.urgency.max(Some(Urgency::Now));
    }

    /// The next transaction, where none is under way and there is something that must be written now.
    pub(super) fn next(&mut self, now_ms: u64, tab_id: TabId, epoch: u64) -> Option<Transaction> {
        if self.in_flight.is_some() || self.pending.is_empty() {
            return None;
        }
        let due_ms = *self.due_ms.get_or_insert(now_ms + LAZY_MS);
        if self.urgency <= Some(Urgency::Lazy) && now_ms < due_ms {
            return None;
        }
        self.due_ms = None;
        self.last_id += 1;
        self.in_flight = Some(self.last_id);
        self.in_flight_strict = self.urgency.take() == Some(Urgency::Strict);
        Some(Transaction {
            id: self.last_id,
            tab_id,
            epoch,
            strict: self.in_flight_strict,
            writes: std::mem::take(&mut self.pending),
        })
    }

    /// When [`StoreQueue::next`] may have something that only time makes due.
    pub(super) fn next_wake(&self) -> Option<u64> {
        if self.in_flight.is_some() { None } else { self.due_ms }
    }

    /// A transaction ended. Returns whether it was the one under way: late news of another is nothing.
    pub(super) fn ended(&mut self, id: u64) -> bool {
        self.in_flight.take_if(|in_flight| *in_flight == id).is_some()
    }

    /// Whether the transaction that ended last had been asked to be strict.
    pub(super) const fn was_strict(&self) -> bool {
        self.in_flight_strict
    }

    /// Whether something is being written or waits to be.
    pub(super) const fn is_busy(&self) -> bool {
        self.in_flight.is_some() || !self.pending.is_empty()
    }

    /// The store is gone; nothing waits for it any more.
    pub(super) fn abandon(&mut self) {
        self.pending.clear();
        self.due_ms = None;
        self.urgency = None;
        self.in_flight = None;
    }
}
