//! The journal in memory: every record of this tab, and which of them are still open.

use std::collections::BTreeMap;

use super::record::{Record, RecordState};
use crate::ids::{DocId, Incarnation, JournalId, PatchId};
use crate::json::MAX_SAFE_INTEGER;
use crate::storage::Durability;

/// All that this tab knows of the patches it was handed.
#[derive(Debug)]
pub struct Journal {
    /// Which journal this is; proofs of absence are valid within it alone (J12a).
    pub id: JournalId,
    /// How firmly it is held.
    pub durability: Durability,
    entries: BTreeMap<PatchId, Entry>,
    /// The records that are not both final and confirmed, in the order in which they were applied. The others may be
    /// many, and nobody asks for them but by name.
    open: Vec<PatchId>,
    last_local_seq: u64,
    first_seen: FirstSeen,
}

#[derive(Debug)]
struct Entry {
    record: Record,
    replays: u64,
}

impl Journal {
    /// The journal as it was loaded.
    pub fn new(id: JournalId, durability: Durability, records: Vec<Record>) -> Self {
        let mut journal = Self {
            id,
            durability,
            entries: BTreeMap::new(),
            open: Vec::new(),
            last_local_seq: 0,
            first_seen: FirstSeen::default(),
        };
        for record in records {
            journal.load(record);
        }
        journal
    }

    /// Stored records come in the order of their keys; open ones are put in their place in the order of application.
    fn load(&mut self, record: Record) {
        let (patch_id, local_seq) = (record.patch_id, record.local_seq);
        self.last_local_seq = self.last_local_seq.max(local_seq);
        if is_open(&record) {
            let place = |id: &PatchId| self.record(*id).is_some_and(|r| r.local_seq < local_seq);
            self.open.insert(self.open.partition_point(place), patch_id);
        }
        self.entries.insert(patch_id, Entry { record, replays: 0 });
    }

    /// The record of a patch.
    pub fn record(&self, patch_id: PatchId) -> Option<&Record> {
        self.entries.get(&patch_id).map(|e| &e.record)
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Every record.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.entries.values().map(|e| &e.record)
    }

    /// Stores a record in the place of an earlier one of the same patch.
    pub fn put(&mut self, record: Record) {
        let patch_id = record.patch_id;
        let is_open = is_open(&record);
        let before = self.entries.get_mut(&patch_id);
        let was_open = before.as_ref().is_some_and(|e| self::is_open(&e.record));
        match before {
            Some(entry) => entry.record = record,
            None => {
                self.entries.insert(patch_id, Entry { record, replays: 0 });
            }
        }
        match (was_open, is_open) {
            (false, true) => self.open.push(patch_id),
            (true, false) => self.close(patch_id),
            _ => {}
        }
    }

    /// Forgets a record: its patch is proven to have had no effect.
    pub fn remove(&mut self, patch_id: PatchId) -> Option<Record> {
        let record = self.entries.remove(&patch_id)?.record;
        if is_open(&record) {
            self.close(patch_id);
        }
        Some(record)
    }

    fn close(&mut self, patch_id: PatchId) {
        if let Some(at) = self.open.iter().position(|id| *id == patch_id) {
            self.open.remove(at);
        }
    }

    /// The document's records that are not both final and confirmed, in the order in which they were applied.
    pub fn open_of(&self, doc: &DocId) -> Vec<&Record> {
        self.open.iter().filter_map(|id| self.record(*id)).filter(|r| r.doc == *doc).collect()
    }

    /// Every patch whose effect is in this incarnation and not known to be flushed (W1).
    pub fn unflushed_in(&self, doc: &DocId, incarnation: Incarnation) -> Vec<PatchId> {
        let applied = |r: &&Record| r.state == RecordState::Applied && r.incarnation == incarnation && !r.flushed;
        self.open_of(doc).into_iter().filter(applied).map(|r| r.patch_id).collect()
    }

    /// The next place in this tab's order of application.
    pub const fn next_local_seq(&mut self) -> u64 {
        // A number that could not be read back would be a corrupt record; the order of marks does not depend on it.
        self.last_local_seq =
            if self.last_local_seq < MAX_SAFE_INTEGER { self.last_local_seq + 1 } else { MAX_SAFE_INTEGER };
        self.last_local_seq
    }

    /// How often this context has acknowledged a patch again.
    pub fn replays(&self, patch_id: PatchId) -> u64 {
        self.entries.get(&patch_id).map_or(0, |e| e.replays)
    }

    /// Counts one more such acknowledgement.
    pub fn count_replay(&mut self, patch_id: PatchId) {
        if let Some(entry) = self.entries.get_mut(&patch_id) {
            entry.replays += 1;
        }
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
            && !self.entries.contains_key(&patch_id)
            && (self.durability == Durability::Strict
                || fenced_home
                || delivery == FIRST_DELIVERY
                || self.first_seen.contains(patch_id))
    }
}

fn is_open(record: &Record) -> bool {
    !record.is_final() || record.confirmed.is_none()
}

/// `delivery` counts every hand-out and question: at its first number nobody was handed the patch before.
const FIRST_DELIVERY: u64 = 1;

/// The newest patches whose first hand-out came to this context; bounded, and forgetting one only makes an answer
/// `unknown` that could have been `not_seen`. A ring: it is written with every patch and searched hardly ever.
#[derive(Debug, Default)]
struct FirstSeen {
    ring: Vec<PatchId>,
    next: usize,
}

impl FirstSeen {
    const MOST: usize = 4096;

    fn insert(&mut self, patch_id: PatchId) {
        match self.ring.get_mut(self.next) {
            Some(oldest) => *oldest = patch_id,
            None => self.ring.push(patch_id),
        }
        self.next = (self.next + 1) % Self::MOST;
    }

    fn contains(&self, patch_id: PatchId) -> bool {
        self.ring.contains(&patch_id)
    }
}
