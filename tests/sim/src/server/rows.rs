//! The rows in memory, written under the same guards as in the store of the reference server.

use std::collections::BTreeMap;

use patchkeep_core::ids::{DocId, Incarnation, PatchId, TabId};
use patchkeep_server::decide::{Announced, Document, KeyRow, KeyState, TabOwner};
use patchkeep_server::store::Guard;

/// Documents, keys, tabs and announcements.
#[derive(Debug)]
pub struct Rows {
    pub(crate) docs: BTreeMap<DocId, Document>,
    pub(crate) keys: BTreeMap<String, KeyRow>,
    pub(crate) tabs: BTreeMap<TabId, TabOwner>,
    announced: BTreeMap<(TabId, DocId), Vec<Announced>>,
}

/// The names of the documents.
pub(crate) const DOCS: [&str; 2] = ["a", "b"];

/// The document of a place in [`DOCS`].
pub(crate) fn doc(at: usize) -> DocId {
    let name = DOCS.get(at).copied().unwrap_or("a");
    DocId::new(name).unwrap_or_else(|| unreachable!("the names are neither empty nor long"))
}

impl Rows {
    /// The documents, and nothing else.
    pub(crate) fn new() -> Self {
        let docs = (0..DOCS.len()).map(|at| (doc(at), Document { text: "@".into(), seq: 1 }));
        Self { docs: docs.collect(), keys: BTreeMap::new(), tabs: BTreeMap::new(), announced: BTreeMap::new() }
    }

    /// Writes a document whose stored version is one lower.
    pub(crate) fn put_document(&mut self, id: &DocId, document: Document) -> bool {
        let current = self.docs.get(id).map_or(0, |d| d.seq);
        if document.seq != current + 1 {
            return false;
        }
        self.docs.insert(id.clone(), document);
        true
    }

    /// Adds a row where there is none.
    pub(crate) fn insert_key(&mut self, row: KeyRow) -> bool {
        let key = row.id.key.as_str().to_owned();
        if self.keys.contains_key(&key) {
            return false;
        }
        self.keys.insert(key, row);
        true
    }

    /// Whether a guard holds for a row as it is stored now.
    pub(crate) fn holds(&self, row: &KeyRow, guard: Guard) -> bool {
        self.keys.get(row.id.key.as_str()).is_some_and(|stored| match guard {
            Guard::Claim(token) => stored.claim_token == token && stored.state == KeyState::Claimed,
            Guard::Token(token) => stored.claim_token == token,
            Guard::Patch(patch_id, state) => {
                stored.state == state && stored.plan.as_ref().is_some_and(|p| p.patch_id == patch_id)
            }
        })
    }

    /// Replaces a row while the guard holds.
    pub(crate) fn update_key(&mut self, row: KeyRow, guard: Guard) -> bool {
        let holds = self.holds(&row, guard);
        if holds {
            self.keys.insert(row.id.key.as_str().to_owned(), row);
        }
        holds
    }

    /// The patches that a save committed past this version may hold unnamed (W3).
    pub(crate) fn doubted_since(&self, doc: &DocId, seq: u64) -> impl Iterator<Item = PatchId> {
        let plans = self.keys.values().filter(|r| r.state != KeyState::Done).filter_map(|r| r.plan.as_ref());
        plans.filter(move |p| p.recipient.doc == *doc && p.doubted_seq > Some(seq)).map(|p| p.patch_id)
    }

    /// The row whose plan has this id.
    pub(crate) fn key_of_patch(&self, patch_id: PatchId) -> Option<&KeyRow> {
        self.keys.values().find(|r| r.plan.as_ref().is_some_and(|p| p.patch_id == patch_id))
    }

    /// The open rows of a recipient, oldest first.
    pub(crate) fn open_keys(&self, tab_id: TabId, doc: &DocId) -> Vec<KeyRow> {
        let of = |r: &&KeyRow| {
            r.state.is_open()
                && r.plan.as_ref().is_some_and(|p| p.recipient.tab_id == tab_id && p.recipient.doc == *doc)
        };
        let mut rows: Vec<_> = self.keys.values().filter(of).cloned().collect();
        rows.sort_by_key(|r| r.created_at);
        rows
    }

    /// The newest announcement of a document by a tab.
    pub(crate) fn newest(&self, tab_id: TabId, doc: &DocId) -> Option<Announced> {
        self.announced.get(&(tab_id, doc.clone()))?.last().copied()
    }

    /// Whether this incarnation was announced and a later one after it.
    pub(crate) fn superseded(&self, tab_id: TabId, doc: &DocId, incarnation: Incarnation) -> bool {
        let list = self.announced.get(&(tab_id, doc.clone())).map_or(&[][..], Vec::as_slice);
        list.iter().position(|a| a.incarnation == incarnation).is_some_and(|at| at + 1 < list.len())
    }

    /// Makes an announcement the newest.
    pub(crate) fn announce(&mut self, tab_id: TabId, doc: &DocId, announced: Announced) {
        let list = self.announced.entry((tab_id, doc.clone())).or_default();
        list.retain(|a| a.epoch >= announced.epoch);
        list.push(announced);
    }
}
