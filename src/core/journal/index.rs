//! The journal in memory: every record of this tab, and per document those that are still open.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::record::{Record, RecordState};
use crate::ids::{DocId, Incarnation, JournalId, PatchId};
use crate::storage::Durability;

/// All that this tab knows of the patches it was handed.
#[derive(Debug)]
pub struct Journal {
    /// Which journal this is; proofs of absence are valid within it alone (J12a).
    pub id: JournalId,
    /// How firmly it is held.
    pub durability: Durability,
    records: BTreeMap<PatchId, Record>,
    /// Per document the records that are not both final and confirmed.
    open: BTreeMap<DocId, BTreeSet<PatchId>>,
    last_local_seq: u64,
    first_seen: FirstSeen,
}

impl Journal {
    /// The journal as it was loaded.
    pub fn new(id: JournalId, durability: Durability, records: impl IntoIterator<Item = Record>) -> Self {
        let mut journal = Self {
            id,
            durability,
            records: BTreeMap::new(),
            open: BTreeMap::new(),
            last_local_seq: 0,
            first_seen: FirstSeen::default(),
        };
        for record in records {
            journal.last_local_seq = journal.last_local_seq.max(record.local_seq);
            journal.put(record);
        }
        journal
    }

    /// The record of a patch.
    pub fn record(&self, patch_id: PatchId) -> Option<&Record> {
        self.records.get(&patch_id)
    }

    /// Every record.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.values()
    }

    /// Stores a record in the place of an earlier one of the same patch.
    pub fn put(&mut self, record: Record) {
        let is_closed = record.is_final() && record.confirmed.is_some();
        if is_closed {
            if let Some(open) = self.open.get_mut(&record.doc) {
                open.remove(&record.patch_id);
            }
        } else {
            self.open.entry(record.doc.clone()).or_default().insert(record.patch_id);
        }
        self.records.insert(record.patch_id, record);
    }

    /// Forgets a record: its patch is proven to have had no effect.
    pub fn remove(&mut self, patch_id: PatchId) -> Option<Record> {
        let record = self.records.remove(&patch_id)?;
        if let Some(open) = self.open.get_mut(&record.doc) {
            open.remove(&patch_id);
        }
        Some(record)
    }

    /// The document's records that are not both final and confirmed, in the order in which they were applied.
    pub fn open_of(&self, doc: &DocId) -> Vec<&Record> {
        let ids = self.open.get(doc).into_iter().flatten();
        let mut records: Vec<_> = ids.filter_map(|id| self.records.get(id)).collect();
        records.sort_by_key(|r| r.local_seq);
        records
    }

    /// Every patch whose effect is in this incarnation and not known to be flushed (W1).
    pub fn unflushed_in(&self, doc: &DocId, incarnation: Incarnation) -> Vec<PatchId> {
        let applied = |r: &&Record| r.state == RecordState::Applied && r.incarnation == incarnation && !r.flushed;
        self.open_of(doc).into_iter().filter(applied).map(|r| r.patch_id).collect()
    }

    /// The next place in this tab's order of application.
    pub fn next_local_seq(&mut self) -> u64 {
        self.last_local_seq += 1;
        self.last_local_seq
    }

    /// Notes that a patch's first hand-out came to this very context, whose memory is complete (J12c).
    pub fn saw_first_delivery(&mut self, patch_id: PatchId) {
        self.first_seen.insert(patch_id);
    }

    /// Whether silence about a patch is proof (J12): the question names this journal, there is no record, and the
    /// journal cannot have lost one. That the patch is not waiting in a queue is the caller's to know.
    ///
    /// `fenced_home` says that R7 holds for the patch's document.
    pub fn proves_absent(
        &self,
        patch_id: PatchId,
        delivery: u64,
        asked_of: Option<JournalId>,
        fenced_home: bool,
    ) -> bool {
        asked_of == Some(self.id)
            && !self.records.contains_key(&patch_id)
            && (self.durability == Durability::Strict
                || fenced_home
                || delivery == FIRST_DELIVERY
                || self.first_seen.contains(patch_id))
    }
}

/// `delivery` counts every hand-out and question: at its first number nobody was handed the patch before.
const FIRST_DELIVERY: u64 = 1;

/// The newest patches whose first hand-out came to this context; bounded, and forgetting one only makes an answer
/// `unknown` that could have been `not_seen`.
#[derive(Debug, Default)]
struct FirstSeen {
    order: VecDeque<PatchId>,
    ids: BTreeSet<PatchId>,
}

impl FirstSeen {
    const MOST: usize = 4096;

    fn insert(&mut self, patch_id: PatchId) {
        if !self.ids.insert(patch_id) {
            return;
        }
        self.order.push_back(patch_id);
        if self.order.len() > Self::MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
    }

    fn contains(&self, patch_id: PatchId) -> bool {
        self.ids.contains(&patch_id)
    }
}
