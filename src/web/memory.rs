//! A store that lives as long as this context: where there is no other, or the host wants none.

use std::cell::RefCell;

use patchkeep_core::ids::{JournalId, TabId};
use patchkeep_core::storage::{RecordKey, StorageFault, Transaction, TransactionOutcome, Write};

use crate::store::{Claim, Claimed, Done, Store};

/// The store. It never fails and is never lost.
#[derive(Debug, Default)]
pub struct MemoryStore(RefCell<Contents>);

#[derive(Debug, Default)]
struct Contents {
    journal_id: Option<JournalId>,
    tabs: Vec<Tab>,
}

/// One tab's journal. Lists are searched: one tab, and the records of one page load, is all there is in a page.
#[derive(Debug)]
struct Tab {
    id: TabId,
    epoch: u64,
    records: Vec<(RecordKey, String)>,
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
        let epoch = self.0.borrow_mut().tab(tab_id).epoch;
        done(Ok(epoch));
    }

    fn on_lost(&self, _lost: Done<StorageFault>) {}

    fn close(&self) {}
}

impl Contents {
    fn claim(&mut self, claim: Claim) -> Claimed {
        let journal_id = *self.journal_id.get_or_insert(claim.fresh_journal_id);
        let tab = self.tab(claim.tab_id);
        tab.epoch = tab.epoch.max(claim.above) + 1;
        let records = tab.records.iter().map(|(_, text)| text.clone()).collect();
        Claimed { epoch: tab.epoch, journal_id, records, strict: false }
    }

    fn transact(&mut self, transaction: Transaction) -> TransactionOutcome {
        let tab = self.tab(transaction.tab_id);
        if tab.epoch > transaction.epoch {
            return TransactionOutcome::Fenced;
        }
        if tab.epoch < transaction.epoch {
            return TransactionOutcome::Failed(StorageFault::Evicted);
        }
        let mut renamed = None;
        for write in transaction.writes {
            match write {
                Write::Put { key, record } => {
                    tab.remove(&key);
                    tab.records.push((key, record));
                }
                Write::Remove(key) => tab.remove(&key),
                Write::JournalId(id) => renamed = Some(id),
            }
        }
        self.journal_id = renamed.or(self.journal_id);
        TransactionOutcome::Durable { strict: false }
    }

    fn tab(&mut self, id: TabId) -> &mut Tab {
        let at = self.tabs.iter().position(|tab| tab.id == id).unwrap_or_else(|| {
            self.tabs.push(Tab { id, epoch: 0, records: Vec::new() });
            self.tabs.len() - 1
        });
        &mut self.tabs[at]
    }
}

impl Tab {
    fn remove(&mut self, key: &RecordKey) {
        self.records.retain(|(own, _)| own != key);
    }
}
