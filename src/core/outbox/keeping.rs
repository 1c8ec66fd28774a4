//! Ops on their way to the store, under the epoch fence, and what comes back from it (K1, J4, J11).

use super::OpKey;
use super::engine::{FULL_MS, Outbox};
use super::entries::{Entry, Flight};
use super::io::{OutboxOutput, OutboxTransaction};
use super::op::OpState;
use crate::storage::{StorageFault, TransactionOutcome};
use crate::time::Now;

impl Outbox {
    /// Notes that an op changed: it is written with the next transaction, and the host is told.
    pub(super) fn save(&mut self, key: &OpKey) {
        if let Some(place) = self.entries.place(key) {
            self.entries.index(place);
            self.outputs.push_back(OutboxOutput::Changed { key: key.clone() });
        }
        self.write(key);
    }

    pub(super) fn write(&mut self, key: &OpKey) {
        let is_pending =
            self.entries.get_mut(key).is_some_and(|e| e.is_volatile || std::mem::replace(&mut e.is_unwritten, true));
        if !is_pending && self.storage_fault.is_none() {
            self.unwritten.push(key.clone());
        }
    }

    /// The id of the transaction that will hold what is pending now.
    pub(super) const fn next_transaction(&self) -> u64 {
        self.last_transaction + 1
    }

    pub(super) fn run_store(&mut self, now: Now) {
        self.forget_the_oldest();
        let is_early = self.store_due_ms.is_some_and(|due| now.mono_ms < due);
        if self.in_flight.is_some() || self.unwritten.is_empty() || self.storage_fault.is_some() || is_early {
            return;
        }
        self.store_due_ms = None;
        self.last_transaction += 1;
        let keys = std::mem::take(&mut self.unwritten);
        let (id, tab_id, epoch) = (self.last_transaction, self.tab_id, self.epoch);
        let mut transaction =
            OutboxTransaction { id, tab_id, epoch, writes: Vec::new(), taken: Vec::new(), strict: false };
        for key in &keys {
            let record = self.entries.get_mut(key).map(|entry| {
                entry.is_unwritten = false;
                transaction.strict |= !entry.is_stored || entry.op.state == OpState::Sending;
                transaction.taken.extend(entry.taken_from.map(|(tab_id, epoch)| (tab_id, epoch, key.clone())));
                entry.op.encode()
            });
            transaction.writes.push((key.clone(), record));
        }
        self.in_flight = Some((id, keys));
        self.outputs.push_back(OutboxOutput::Transact(transaction));
    }

    pub(super) fn on_transaction(&mut self, now: Now, id: u64, outcome: TransactionOutcome) {
        let Some((_, keys)) = self.in_flight.take_if(|(in_flight, _)| *in_flight == id) else { return };
        match outcome {
            TransactionOutcome::Durable { .. } => {
                for key in keys {
                    if let Some(entry) = self.entry_mut(&key) {
                        entry.taken_from = None;
                        if !std::mem::replace(&mut entry.is_stored, true) {
                            self.outputs.push_back(OutboxOutput::Stored { key: key.clone() });
                        }
                    }
                    self.sending_is_written(now, &key, id);
                }
            }
            TransactionOutcome::Fenced => self.fence(),
            TransactionOutcome::Failed(StorageFault::Full) => self.store_is_full(now, keys),
            TransactionOutcome::Failed(fault) => self.storage_failed(now, fault),
        }
    }

    /// The stored ops are another context's now (J4). What was not stored yet never was.
    pub(super) fn fence(&mut self) {
        self.fenced = true;
        self.outputs.push_back(OutboxOutput::Fenced);
        let unstored = self.entries.iter().filter(|e| !e.is_stored && !e.is_volatile && e.taken_from.is_none());
        let unstored: Vec<OpKey> = unstored.map(|e| e.op.key.clone()).collect();
        for key in unstored {
            self.entries.remove(&key);
        }
    }

    /// Nothing of a transaction was written. What is stored already is tried again later, and not sent before; what is
    /// new is given back to the host, unsent (K1), or lives in memory where it may.
    fn store_is_full(&mut self, now: Now, keys: Vec<OpKey>) {
        let before = self.outputs.len();
        for key in keys {
            match self.entry_mut(&key) {
                Some(entry) if entry.is_stored => {
                    if entry.take_back() {
                        entry.due_ms = now.mono_ms + FULL_MS;
                    }
                    self.save(&key);
                    self.cancel_if_wanted(&key);
                }
                Some(_) => self.keep_in_memory(now, &key, StorageFault::Full),
                None => self.write(&key),
            }
        }
        // With what was given back gone, the rest may fit.
        let is_lighter = self.outputs.range(before..).any(|o| matches!(o, OutboxOutput::Gone { .. }));
        self.store_due_ms = (!is_lighter).then_some(now.mono_ms + FULL_MS);
    }

    /// Nothing can be stored any more. Ops that were never stored are given back to the host, unsent (K1), or live in
    /// memory where they may. The records of the others are still there for a later context, which would send them once
    /// more as if they had never been sent: here they stop. Only where the records are certainly gone do they go on.
    pub(super) fn storage_failed(&mut self, now: Now, fault: StorageFault) {
        if self.storage_fault.is_some() {
            return;
        }
        self.storage_fault = Some(fault);
        self.unwritten.clear();
        self.in_flight = None;
        self.outputs.push_back(OutboxOutput::Volatile(fault));
        let keys: Vec<OpKey> = self.entries.iter().filter(|e| !e.is_volatile).map(|e| e.op.key.clone()).collect();
        for key in keys {
            match self.entry_mut(&key) {
                Some(entry) if entry.taken_from.is_some() || entry.is_stored && fault != StorageFault::Evicted => {
                    entry.take_back();
                    entry.is_parked = true;
                    self.save(&key);
                }
                _ => self.keep_in_memory(now, &key, fault),
            }
        }
    }

    /// An op without a record goes on in memory, if it may; otherwise it is given back.
    fn keep_in_memory(&mut self, now: Now, key: &OpKey, fault: StorageFault) {
        let Some(entry) = self.entry_mut(key) else { return };
        if !entry.is_stored && !entry.may_be_volatile {
            self.entries.remove(key);
            self.outputs.push_back(OutboxOutput::Gone { key: key.clone(), fault: Some(fault) });
            return;
        }
        entry.is_volatile = true;
        let flight = entry.flight;
        if !entry.is_stored {
            self.outputs.push_back(OutboxOutput::Stored { key: key.clone() });
        }
        if let Some(Flight::Writing { transaction }) = flight {
            self.sending_is_written(now, key, transaction);
        }
    }

    /// Of what is over for long nothing is kept.
    pub(super) fn forget_the_oldest(&mut self) {
        while let Some(key) = self.entries.too_many() {
            self.forget(&key);
        }
    }

    /// Removes an op and its record.
    pub(super) fn forget(&mut self, key: &OpKey) {
        if let Some(entry) = self.entries.remove(key) {
            if !entry.is_volatile {
                self.write(key);
            }
            self.outputs.push_back(OutboxOutput::Gone { key: key.clone(), fault: None });
        }
    }
}

impl Entry {
    /// The attempt that was about to begin does not: nothing was sent. Returns whether there was one.
    pub(super) fn take_back(&mut self) -> bool {
        if !matches!(self.flight, Some(Flight::Writing { .. })) {
            return false;
        }
        self.flight = None;
        self.op.attempts -= 1;
        self.op.state = OpState::Waiting;
        if self.op.attempts == 0 {
            self.op.state = OpState::Queued;
            self.op.first_attempt_ms = None;
            self.op.first_attempt_server_ms = None;
            self.first_attempt_mono_ms = None;
        }
        true
    }
}
