//! The oracle sees every text and every row, and checks the promises after each step that changed one.
//!
//! Every write leaves a token that nothing else leaves and that nothing takes away again, so that an effect is where
//! its token is. A text "may become the document" if a save of it could still be committed: the text of a context
//! whose session lives and whose epoch and incarnation the server has not fenced, a save on its way, a local draft
//! that a load of its tab would bring back.

use std::collections::BTreeMap;

use patchkeep_core::ids::{DocId, PatchId, TabId};
use patchkeep_core::session::Status;
use patchkeep_server::decide::{Announced, KeyState, Place, Save, place};

use crate::caller::{Op, OpState};
use crate::tab::OpenText;
use crate::world::Sim;

/// What the oracle remembers.
#[derive(Debug, Default)]
pub struct Oracle {
    /// What was violated first.
    pub violation: Option<String>,
    /// Something was changed that has not been checked.
    pub(crate) dirty: bool,
    /// Which op each patch is a plan of.
    pub(crate) planned: BTreeMap<PatchId, usize>,
    /// Which patch made an op's effect last; `None`: a direct write. A key that is planned anew has more than one.
    pub(crate) made_by: BTreeMap<usize, Option<PatchId>>,
}

impl Sim {
    /// Checks what must hold after every step.
    pub(crate) fn check(&mut self) {
        if !std::mem::take(&mut self.oracle.dirty) {
            return;
        }
        let mut wrong = None;
        for op in &self.ops {
            let token = op.token.as_str();
            if let Some(text) = self.every_text(&op.doc).find(|t| t.matches(token).count() > 1) {
                wrong = Some(format!("P1: {} took effect twice in {text:?}", op.key));
                break;
            }
            let row = self.server.rows.keys.get(&op.key);
            let stored = self.stored(&op.doc).contains(token);
            let is_done = row.is_some_and(|r| r.state == KeyState::Done);
            if (is_done || op.state == OpState::Done) && !stored {
                wrong = Some(format!("P2: {} is done and not stored", op.key));
                break;
            }
            let state = row.map(|r| r.state);
            let called_absent = matches!(state, Some(KeyState::Refused | KeyState::Lost));
            if called_absent && let Some(place) = self.presence(op) {
                wrong = Some(format!("P4: the row of {} is {state:?} and it is in {place}", op.key));
                break;
            }
            if matches!(op.state, OpState::Refused | OpState::Lost)
                && let Some(place) = self.presence(op)
            {
                wrong = Some(format!("P4: the caller was told {:?} of {} and it is in {place}", op.state, op.key));
                break;
            }
        }
        if let Some(wrong) = wrong {
            self.violated(wrong);
        }
    }

    /// W1: a save names every effect that this instance made or carried over, surely or in doubt, until it is stored.
    pub(crate) fn names_all(&mut self, open: &OpenText, save: &Save) {
        let is_done = |id: &PatchId| self.server.rows.key_of_patch(*id).is_some_and(|r| r.state == KeyState::Done);
        let is_named = |id: &PatchId| save.patch_ids.contains(id) || save.in_doubt.contains(id) || is_done(id);
        if let Some(id) = open.holds.iter().find(|id| !is_named(id)) {
            let wrong = format!("W1: a save of {} holds {id} and does not name it", save.incarnation);
            self.violated(wrong);
        }
    }

    /// Something is about to be done that asks for proof of absence.
    pub(crate) fn must_be_absent(&mut self, key: &str, what: &str) {
        let place = self.ops.iter().find(|op| op.key == key).and_then(|op| self.presence(op));
        if let Some(place) = place {
            self.violated(format!("P3: {key} is {what} while it is in {place}"));
        }
    }

    /// A caller was told something; what is told as applied must have been in a memory once.
    pub(crate) fn told(&mut self, at: usize) {
        let Some(op) = self.ops.get(at).filter(|op| op.state == OpState::Applied) else { return };
        let row = self.server.rows.keys.get(&op.key);
        if row.is_none_or(|r| r.plan.is_none()) {
            let wrong = format!("P2: {} was told as applied and never handed out", op.key);
            self.violated(wrong);
        }
    }

    fn stored(&self, doc: &DocId) -> &str {
        self.server.rows.docs.get(doc).map_or("", |d| d.text.as_str())
    }

    /// Every text there is of a document, dead or alive.
    fn every_text<'s>(&'s self, doc: &'s DocId) -> impl Iterator<Item = &'s str> {
        let open = self.contexts.values().filter_map(|c| c.docs.get(doc)).map(|d| d.text.as_str());
        let drafts = self.disk.drafts.iter().filter(move |((_, d), _)| d == doc).map(|(_, d)| d.text.as_str());
        open.chain(drafts).chain(self.server.rows.docs.get(doc).map(|d| d.text.as_str()))
    }

    /// Where an op's effect is in a text that is, or may become, the document.
    pub(crate) fn presence(&self, op: &Op) -> Option<&'static str> {
        let token = op.token.as_str();
        if self.stored(&op.doc).contains(token) {
            return Some("the stored text");
        }
        let in_memory = self.contexts.values().any(|c| {
            c.session.status() == Status::Live
                && c.docs.get(&op.doc).is_some_and(|d| {
                    d.text.contains(token) && self.may_save(c.tab, &op.doc, c.content(&op.doc, d.incarnation))
                })
        });
        if in_memory {
            return Some("the memory of a tab");
        }
        let seq = self.server.rows.docs.get(&op.doc).map_or(0, |d| d.seq);
        let on_its_way = self.server.saves_under_way.iter().any(|(_, s)| {
            s.doc == op.doc
                && s.base_seq == seq
                && s.text.contains(token)
                && self.may_save(s.tab_id, &s.doc, s.announced())
        });
        if on_its_way {
            return Some("a save on its way");
        }
        let comes_back = |tab: &TabId| self.slots.iter().any(|s| s.tab == Some(*tab));
        let kept =
            self.disk.drafts.iter().any(|((tab, doc), d)| *doc == op.doc && comes_back(tab) && d.text.contains(token));
        kept.then_some("a local draft")
    }

    /// Whether the server would take a save of this incarnation, were its base current.
    fn may_save(&self, tab: TabId, doc: &DocId, content: Announced) -> bool {
        let rows = &self.server.rows;
        let replaced = rows.superseded(tab, doc, content.incarnation);
        rows.tabs.get(&tab).is_none_or(|o| o.epoch <= content.epoch)
            && matches!(place(rows.newest(tab, doc), content, replaced), Place::Newest | Place::Later)
    }

    /// Whether every caller knows for good how its write ended.
    pub(crate) fn all_settled(&self) -> bool {
        self.ops.iter().all(Op::is_settled)
    }

    /// Checks what must hold once nothing goes wrong any more: every key has settled, or is honestly unknown.
    pub(crate) fn check_end(&mut self) {
        let mut wrong = None;
        for op in &self.ops {
            let row = self.server.rows.keys.get(&op.key);
            let state = row.map(|r| r.state);
            let is_calm = self.setup.profile.fault_every_ms == 0;
            let fine = match op.state {
                OpState::Done => state == Some(KeyState::Done),
                OpState::Refused | OpState::Lost => true,
                OpState::Unknown => !is_calm && matches!(state, None | Some(KeyState::Unknown | KeyState::Claimed)),
                // Its recipient is away, and may come back.
                OpState::Applied => state == Some(KeyState::Acked) && self.presence(op) != Some("the memory of a tab"),
                OpState::Waiting => false,
            };
            if !fine {
                wrong = Some(format!("settling: {} ends as {:?}, its row as {state:?}", op.key, op.state));
                break;
            }
        }
        if let Some(wrong) = wrong {
            self.violated(wrong);
        }
    }
}

/// How the ops ended: done, refused, lost, unknown, applied.
pub(crate) fn endings(ops: &[Op]) -> [u64; 5] {
    let count = |state: OpState| ops.iter().filter(|op| op.state == state).count() as u64;
    [OpState::Done, OpState::Refused, OpState::Lost, OpState::Unknown, OpState::Applied].map(count)
}
