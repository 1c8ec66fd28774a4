//! Writes on their way to the store: gathered into one transaction at a time, so that what comes in while one is
//! under way shares the next (group commit). Engines run such transactions one after the other anyway.

use crate::ids::TabId;
use crate::storage::{Transaction, Write};

/// The queue before the store.
#[derive(Debug, Default)]
pub(super) struct StoreQueue {
    last_id: u64,
    pending: Vec<Write>,
    strict: bool,
    in_flight: Option<u64>,
    in_flight_strict: bool,
}

impl StoreQueue {
    /// Adds a write; returns the id of the transaction that will hold it.
    pub(super) fn add(&mut self, write: Write, strict: bool) -> u64 {
        self.pending.push(write);
        self.strict |= strict;
        self.last_id + 1
    }

    /// The next transaction, where none is under way and there is something to write.
    pub(super) fn next(&mut self, tab_id: TabId, epoch: u64) -> Option<Transaction> {
        if self.in_flight.is_some() || self.pending.is_empty() {
            return None;
        }
        self.last_id += 1;
        self.in_flight = Some(self.last_id);
        self.in_flight_strict = std::mem::take(&mut self.strict);
        Some(Transaction {
            id: self.last_id,
            tab_id,
            epoch,
            strict: self.in_flight_strict,
            writes: std::mem::take(&mut self.pending),
        })
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
        self.strict = false;
        self.in_flight = None;
    }
}
