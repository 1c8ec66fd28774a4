//! One browser profile's disk: the journal's database with its fenced transactions, and the host's local drafts.

use std::collections::BTreeMap;

use patchkeep_core::ids::{DocId, JournalId, PatchId, TabId, Uuid};
use patchkeep_core::storage::{Durability, RecordKey, StorageFault, Transaction, TransactionOutcome, Write};

use crate::rng::Rng;

/// A document as the host keeps it locally.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The text.
    pub text: String,
    /// The stored version it is based on.
    pub base_seq: u64,
    /// The patches it holds, where the host writes them beside it (J6).
    pub carried: Option<Vec<PatchId>>,
}

/// The disk.
#[derive(Clone, Debug)]
pub struct Disk {
    pub(crate) durability: Durability,
    pub(crate) journal_id: JournalId,
    pub(crate) drafts: BTreeMap<(TabId, DocId), Draft>,
    epochs: BTreeMap<TabId, u64>,
    records: BTreeMap<(TabId, RecordKey), String>,
    /// What has certainly reached the platter.
    synced: Option<Box<(JournalId, Epochs, Records)>>,
    gone: bool,
}

type Epochs = BTreeMap<TabId, u64>;
type Records = BTreeMap<(TabId, RecordKey), String>;

impl Disk {
    /// An empty one.
    pub fn new(rng: &mut Rng, durability: Durability) -> Self {
        Self {
            durability,
            journal_id: JournalId(Uuid::v4(rng.wide())),
            drafts: BTreeMap::new(),
            epochs: BTreeMap::new(),
            records: BTreeMap::new(),
            synced: None,
            gone: false,
        }
    }

    /// Takes a tab id: its epoch grows by one in the transaction that reads it (T3). Storage that had disappeared is
    /// found empty, under another journal id; in memory there never is any.
    pub(crate) fn take(&mut self, rng: &mut Rng, tab: TabId) -> (u64, Vec<String>) {
        if self.gone {
            self.gone = false;
            self.epochs.clear();
            self.records.clear();
            self.journal_id = JournalId(Uuid::v4(rng.wide()));
        }
        let epoch = self.epochs.entry(tab).or_default();
        *epoch += 1;
        let epoch = *epoch;
        (epoch, self.records.iter().filter(|((t, _), _)| *t == tab).map(|(_, text)| text.clone()).collect())
    }

    /// Runs a transaction: the stored epoch is read and everything written, or nothing (J4).
    pub(crate) fn run(&mut self, transaction: &Transaction) -> TransactionOutcome {
        if self.gone {
            return TransactionOutcome::Failed(StorageFault::Evicted);
        }
        if self.epoch(transaction.tab_id) > transaction.epoch {
            return TransactionOutcome::Fenced;
        }
        for write in &transaction.writes {
            match write {
                Write::Put { key, record } => {
                    self.records.insert((transaction.tab_id, key.clone()), record.clone());
                }
                Write::Remove(key) => {
                    self.records.remove(&(transaction.tab_id, key.clone()));
                }
                Write::JournalId(id) => self.journal_id = *id,
            }
        }
        TransactionOutcome::Durable { strict: transaction.strict && self.durability == Durability::Strict }
    }

    /// A record that was kept stays so, whatever is written of it.
    pub(crate) fn keep_for_good(&self, transaction: &mut Transaction) {
        for write in &mut transaction.writes {
            if let Write::Put { key, record } = write
                && self.records.get(&(transaction.tab_id, key.clone())).is_some_and(|r| r.contains("\"kept\":true"))
            {
                *record = record.replace("\"kept\":false", "\"kept\":true");
            }
        }
    }

    /// The stored epoch of a tab; 0 where there is none.
    pub(crate) fn epoch(&self, tab: TabId) -> u64 {
        if self.gone { 0 } else { self.epochs.get(&tab).copied().unwrap_or(0) }
    }

    /// The journal disappears, noticed at the next use; with everything else of the profile, or alone.
    pub(crate) fn evict(&mut self, drafts_too: bool) {
        self.gone = true;
        if drafts_too {
            self.drafts.clear();
        }
    }

    /// Of a journal that had disappeared the records alone are gone: its id and the epochs look as before. (With the
    /// epochs gone, too, the server rejects the tab, which gives the id up by itself: T3.)
    pub(crate) fn lose_records(&mut self) {
        if std::mem::take(&mut self.gone) {
            self.records.clear();
        }
    }

    /// What was written so far has reached the platter.
    pub(crate) fn sync(&mut self) {
        if self.durability == Durability::Relaxed && !self.gone {
            self.synced = Some(Box::new((self.journal_id, self.epochs.clone(), self.records.clone())));
        }
    }

    /// The power fails: a journal that is not strict loses what has not reached the platter.
    pub(crate) fn power_loss(&mut self) {
        if self.durability == Durability::Relaxed && !self.gone {
            match self.synced.clone() {
                Some(synced) => (self.journal_id, self.epochs, self.records) = *synced,
                None => self.gone = true,
            }
        }
    }
}
