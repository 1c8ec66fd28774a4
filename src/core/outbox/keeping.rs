//! Ops on their way to the store, under the epoch fence, and what comes back from it (K1, J4, J11).

use super::OpKey;
use super::engine::{Entry, Flight, Outbox};
use super::io::{OutboxOutput, OutboxTransaction};
use super::op::Op;
use crate::storage::{StorageFault, TransactionOutcome};
use crate::time::Now;

impl Outbox {
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
    pub(super) const fn next_transaction(&self) -> u64 {
        self.last_transaction + 1
    }

    pub(super) fn run_store(&mut self) {
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

    pub(super) fn on_transaction(&mut self, now: Now, id: u64, outcome: TransactionOutcome) {
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
    pub(super) fn storage_failed(&mut self, now: Now, fault: StorageFault) {
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
}
