//! A store that lives as long as this context: where there is no other, or the host wants none.

use std::cell::RefCell;
use std::collections::BTreeMap;

use patchkeep_core::ids::{JournalId, TabId};
use patchkeep_core::storage::{RecordKey, StorageFault, Transaction, TransactionOutcome, Write};

use crate::store::{Claim, Claimed, Done, Store};

/// The store. It never fails and is never lost.
#[derive(Debug, Default)]
pub struct MemoryStore(RefCell<Contents>);

#[derive(Debug, Default)]
struct Contents {
    journal_id: Option<JournalId>,
    epochs: BTreeMap<TabId, u64>,
    records: BTreeMap<(TabId, RecordKey), String>,
}

impl Store for MemoryStore {
    fn claim(&self, claim: Claim, done: Done<Result<Claimed, StorageFault>>) {
        let claimed = self.0.borrow_mut().claim(claim);
        done(Ok(claimed));
    }

    fn transact(&self, transaction: Transaction, done: Done<TransactionOutcome>) {
        let outcome = self.0.borrow_mut().transact(transaction);
        done(outcome);
    }

    fn read_epoch(&self, tab_id: TabId, done: Done<Result<u64, StorageFault>>) {
        let epoch = self.0.borrow().epoch(tab_id);
        done(Ok(epoch));
    }

    fn on_lost(&self, _lost: Done<StorageFault>) {}

    fn close(&self) {}
}

impl Contents {
    fn claim(&mut self, claim: Claim) -> Claimed {
        let epoch = self.epoch(claim.tab_id).max(claim.above) + 1;
        self.epochs.insert(claim.tab_id, epoch);
        let journal_id = *self.journal_id.get_or_insert(claim.fresh_journal_id);
        let own = self.records.iter().filter(|((tab_id, _), _)| *tab_id == claim.tab_id);
        Claimed { epoch, journal_id, records: own.map(|(_, text)| text.clone()).collect(), strict: false }
    }

    fn transact(&mut self, transaction: Transaction) -> TransactionOutcome {
        let Transaction { tab_id, epoch, writes, .. } = transaction;
        if self.epoch(tab_id) > epoch {
            return TransactionOutcome::Fenced;
        }
        for write in writes {
            match write {
                Write::Put { key, record } => {
                    self.records.insert((tab_id, key), record);
                }
                Write::Remove(key) => {
                    self.records.remove(&(tab_id, key));
                }
                Write::JournalId(id) => self.journal_id = Some(id),
            }
        }
        TransactionOutcome::Durable { strict: false }
    }

    fn epoch(&self, tab_id: TabId) -> u64 {
        self.epochs.get(&tab_id).copied().unwrap_or(0)
    }
}
