//! An in-memory journal store with the semantics the core relies on: fenced transactions that hold or do not hold,
//! writes that a power cut may take back, storage that disappears.

use std::collections::BTreeMap;

use patchkeep_core::ids::{JournalId, TabId, Uuid};
use patchkeep_core::storage::{Durability, RecordKey, StorageFault, Transaction, TransactionOutcome, Write};

/// The stored state.
#[derive(Clone, Debug)]
pub struct Store {
    /// What the journal in it promises.
    pub durability: Durability,
    /// Its id.
    pub journal_id: JournalId,
    epochs: BTreeMap<TabId, u64>,
    records: BTreeMap<(TabId, RecordKey), String>,
    synced: Option<Box<Self>>,
    gone: bool,
    ids_minted: u128,
}

impl Store {
    /// An empty store.
    pub fn new(durability: Durability) -> Self {
        let mut store = Self {
            durability,
            journal_id: JournalId(Uuid::v4(0)),
            epochs: BTreeMap::new(),
            records: BTreeMap::new(),
            synced: None,
            gone: false,
            ids_minted: 0,
        };
        store.begin_anew();
        store
    }

    fn begin_anew(&mut self) {
        self.ids_minted += 1;
        self.journal_id = JournalId(Uuid::v4(0x1000_0000 + self.ids_minted));
        self.epochs.clear();
        self.records.clear();
        self.gone = false;
    }

    /// Runs a transaction: the stored epoch is read and everything written, or nothing (J4).
    pub fn run(&mut self, transaction: &Transaction) -> TransactionOutcome {
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

    /// Takes a tab id: its epoch grows by one in the transaction that reads it (T3). Storage that had disappeared is
    /// found empty, under another journal id. Returns the epoch and the tab's records.
    pub fn take(&mut self, tab_id: TabId) -> (u64, Vec<String>) {
        if self.gone || self.durability == Durability::Memory {
            let epoch = self.epoch(tab_id);
            self.begin_anew();
            if self.durability == Durability::Memory {
                self.epochs.insert(tab_id, epoch);
            }
        }
        let epoch = self.epoch(tab_id) + 1;
        self.epochs.insert(tab_id, epoch);
        let of_tab = self.records.iter().filter(|((tab, _), _)| *tab == tab_id);
        (epoch, of_tab.map(|(_, record)| record.clone()).collect())
    }

    /// The stored records of a tab, as they are stored.
    pub fn texts(&self, tab_id: TabId) -> Vec<&str> {
        self.records.iter().filter(|((tab, _), _)| *tab == tab_id).map(|(_, record)| record.as_str()).collect()
    }

    /// The stored epoch of a tab; 0 where there is none.
    pub fn epoch(&self, tab_id: TabId) -> u64 {
        self.epochs.get(&tab_id).copied().unwrap_or(0)
    }

    /// Another context takes the tab id.
    pub fn steal(&mut self, tab_id: TabId) {
        *self.epochs.entry(tab_id).or_default() += 1;
    }

    /// The storage disappears; noticed at the next use or load.
    pub const fn evict(&mut self) {
        self.gone = true;
    }

    /// Everything written so far has reached the disk.
    pub fn sync(&mut self) {
        self.synced = None;
        self.synced = Some(Box::new(self.clone()));
    }

    /// The power fails: a journal that is not strict loses what has not reached the disk.
    pub fn power_cut(&mut self) {
        if self.durability == Durability::Relaxed {
            match self.synced.take() {
                Some(synced) => {
                    *self = *synced;
                    self.sync();
                }
                None => {
                    self.epochs.clear();
                    self.records.clear();
                }
            }
        }
    }
}
