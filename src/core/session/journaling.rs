//! Records on their way to the store, and what comes back from it: durable, fenced (J4), or failed (J11).

use super::store::Urgency;
use super::{Notice, Output, Session, Status};
use crate::ids::PatchId;
use crate::journal::{Record, RecordState};
use crate::storage::{Durability, StorageFault, TransactionOutcome, Write};
use crate::time::Now;

impl Session {
    /// Sends the next transaction off, where there is one.
    pub(super) fn run_store(&mut self, now: Now) {
        if let Some(transaction) = self.store.next(now.mono_ms, self.identity.tab_id, self.identity.epoch) {
            self.outputs.push_back(Output::Transact(transaction));
        }
    }

    /// Stores a record and tells the host; returns the transaction that holds it. Hardly anything waits for it to be
    /// durable, and for that an effect was made least of all (J8): whether it is `applied` or `applying`, a later
    /// instance must ask (J7).
    pub(super) fn put_record(&mut self, record: Record) -> Option<u64> {
        let marked = |r: &Record| r.kept || r.flushed;
        let was_marked = self.journal.record(record.patch_id).is_some_and(marked);
        let only_applied = record.state == RecordState::Applied && !marked(&record) && !was_marked;
        self.write_record(record, if only_applied { Urgency::Lazy } else { Urgency::Now })
    }

    /// Stores an intent; returns the transaction to wait for, or `None` where the journal lives in memory (J1).
    pub(super) fn put_intent(&mut self, record: Record) -> Option<u64> {
        let is_strict = self.journal.durability == Durability::Strict;
        self.write_record(record, if is_strict { Urgency::Strict } else { Urgency::Now })
    }

    fn write_record(&mut self, mut record: Record, urgency: Urgency) -> Option<u64> {
        record.epoch = self.identity.epoch;
        self.notify(Notice::Record(self.view(&record)));
        let write = Write::Put { key: record.key(), record: record.encode() };
        self.journal.put(record);
        self.write(write, urgency)
    }

    /// Forgets a record: its patch is known to have had no effect, or is over for long (J10).
    pub(super) fn forget_record(&mut self, patch_id: PatchId) {
        if let Some(record) = self.journal.remove(patch_id) {
            self.write(Write::Remove(record.key()), Urgency::Now);
            self.notify(Notice::RecordGone { doc: record.doc, patch_id });
        }
    }

    /// Changes a record in place, if there is one; returns the transaction that holds the change.
    pub(super) fn change_record(&mut self, patch_id: PatchId, change: impl FnOnce(&mut Record)) -> Option<u64> {
        let record = self.journal.record(patch_id)?;
        let mut changed = record.clone();
        change(&mut changed);
        if &changed == record { None } else { self.put_record(changed) }
    }

    pub(super) fn write(&mut self, write: Write, urgency: Urgency) -> Option<u64> {
        (self.journal.durability != Durability::Memory).then(|| self.store.add(write, urgency))
    }

    pub(super) fn on_transaction(&mut self, now: Now, random: [u128; 2], id: u64, outcome: TransactionOutcome) {
        if !self.store.ended(id) {
            return;
        }
        match outcome {
            TransactionOutcome::Durable { strict } => {
                if !strict && self.journal.durability == Durability::Strict && self.store.was_strict() {
                    self.journal.durability = Durability::Relaxed;
                    self.notify_durability(None);
                }
                self.taken_back(id);
                self.intents_durable(now, id);
            }
            TransactionOutcome::Fenced => self.fence(),
            TransactionOutcome::Failed(fault) => self.storage_failed(now, random, fault),
        }
    }

    /// What new content does not bring along is `kept` no longer, durably: marks may be taken (J6).
    fn taken_back(&mut self, id: u64) {
        let done = self.documents.values_mut().filter(|d| d.taking_back == Some(id));
        let done: Vec<_> = done.map(|d| (d.taking_back.take(), d.id.clone()).1).collect();
        for doc in done {
            self.notify(Notice::Settled { doc });
        }
    }

    pub(super) fn notify_durability(&mut self, fault: Option<StorageFault>) {
        let (durability, journal_id) = (self.journal.durability, self.journal.id);
        self.notify(Notice::Durability { durability, fault, journal_id });
    }

    /// Whether the session is over.
    pub(super) fn has_ended(&self) -> bool {
        self.status != Status::Live
    }
}
