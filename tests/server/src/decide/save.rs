//! Whether a save is committed, and what it does to the keys whose effects it holds (W1–W3).

use std::collections::HashSet;

use patchkeep_core::frame::Homed;
use patchkeep_core::ids::{DocId, Incarnation, PatchId, TabId};
use serde_json::json;

use super::answer::Answer;
use super::order::{Place, place};
use super::row::{Announced, Document, KeyRow, KeyState, SettledBy, TabOwner, Verdict};
use crate::principal::Principal;

/// A save, as it arrived (W1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Save {
    /// The document.
    pub doc: DocId,
    /// The whole text.
    pub text: String,
    /// Who saves.
    pub tab_id: TabId,
    /// Under which epoch.
    pub epoch: u64,
    /// Which lineage of content.
    pub incarnation: Incarnation,
    /// Its place among this epoch's; 0 where the tab does not say.
    pub generation: u64,
    /// The stored version it was made from.
    pub base_seq: u64,
    /// Every patch whose effect is in the text and not known to be flushed.
    pub patch_ids: Vec<PatchId>,
    /// Patches of which the tab cannot tell whether the text holds them.
    pub in_doubt: Vec<PatchId>,
}

impl Save {
    /// The saver, as an announcement: a save of a generation that never was announced counts as one (W1).
    pub const fn announced(&self) -> Announced {
        Announced { epoch: self.epoch, generation: self.generation, incarnation: self.incarnation }
    }
}

/// What the rows say about the saver.
#[derive(Clone, Copy, Debug)]
pub struct SaveFacts<'a> {
    /// Who holds the tab id.
    pub owner: Option<&'a TabOwner>,
    /// The newest announcement of the document by that tab.
    pub newest: Option<Announced>,
    /// Whether the save's incarnation was announced and replaced by a later one.
    pub superseded: bool,
    /// The stored document.
    pub document: Option<&'a Document>,
}

/// Why a save is not committed. Nothing is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaveRefusal {
    /// The tab id is another user's.
    NotYours,
    /// A higher epoch or later incarnation of the tab was announced.
    Fenced,
    /// Another incarnation of this epoch was announced, this one never, and one has no generation: nobody can tell which
    /// came first.
    NotAnnounced,
    /// `base_seq` is not current; what is.
    Conflict {
        /// The stored version.
        seq: u64,
    },
}

/// Checks a save (W1). A fenced one is told so even where its base is stale: a merge could not help it.
///
/// # Errors
/// Why it is refused.
pub fn check_save(save: &Save, principal: &Principal, facts: &SaveFacts<'_>) -> Result<Document, SaveRefusal> {
    if let Some(owner) = facts.owner {
        if owner.principal != *principal {
            return Err(SaveRefusal::NotYours);
        }
        if owner.epoch > save.epoch {
            return Err(SaveRefusal::Fenced);
        }
    }
    // What an older one holds was proven absent when a later one was announced without it (R7), whatever its base. Where
    // the two have no order this one may be older; or its `open` is still on its way, and a save after it is taken.
    match place(facts.newest, save.announced(), facts.superseded) {
        Place::Newest | Place::Later => {}
        Place::Earlier | Place::Settled => return Err(SaveRefusal::Fenced),
        Place::Unordered => return Err(SaveRefusal::NotAnnounced),
    }
    // A document that is not stored is at version 0: the first save makes it.
    let seq = facts.document.map_or(0, |d| d.seq);
    if seq != save.base_seq {
        return Err(SaveRefusal::Conflict { seq });
    }
    Ok(Document { text: save.text.clone(), seq: seq + 1 })
}

/// The row of a patch that the save committed as `seq` may hold unnamed. Its content has left the tab by a way that
/// proves nothing, so that silence about it is no proof of absence any more (R7), and a merge is told of it (W3).
/// `None` where there is nothing to note.
pub fn doubt_saved(row: &KeyRow, seq: u64) -> Option<KeyRow> {
    let mut doubted = row.clone();
    let plan = doubted.plan.as_mut().filter(|_| row.state != KeyState::Done)?;
    plan.doubted_seq = Some(seq);
    if row.state.is_open() {
        plan.recipient.homed = Homed::Elsewhere;
    }
    Some(doubted)
}

/// What the stored text holds of a save that conflicts with it (W3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// It holds these.
    pub patch_ids: Vec<PatchId>,
    /// It may hold these: an earlier save was committed with them in doubt. A merge must look.
    pub in_doubt: Vec<PatchId>,
}

/// Sorts the rows that a save names, surely or in doubt.
pub fn held<'r>(rows: impl IntoIterator<Item = &'r KeyRow>) -> Held {
    let mut held = Held::default();
    let mut seen = HashSet::new();
    for row in rows {
        let Some(plan) = &row.plan else { continue };
        let list = match row.state {
            KeyState::Done => &mut held.patch_ids,
            _ if plan.doubted_seq.is_some() => &mut held.in_doubt,
            _ => continue,
        };
        if seen.insert(plan.patch_id) {
            list.push(plan.patch_id);
        }
    }
    held
}

/// The row of a patch whose effect a committed save holds: `done`, whatever it was (W2). `None` where it is already.
pub fn settle_saved(row: &KeyRow, seq: u64, now: u64) -> Option<KeyRow> {
    let plan = row.plan.as_ref().filter(|_| row.state != KeyState::Done)?;
    let answer = Answer::new(
        200,
        json!({"seq": seq, "doc": plan.recipient.doc.as_str(), "patch_id": plan.patch_id.to_string()}),
    );
    Some(KeyRow {
        state: KeyState::Done,
        recorded: Some(answer.record()),
        settled_by: Some(SettledBy::Save),
        settled_at: Some(now),
        // It had been called absent: somebody's proof or word was wrong, and operators should see it.
        contradicted: row.contradicted
            || matches!(row.state, KeyState::Refused | KeyState::Lost)
            || row.settlement.as_ref().is_some_and(|s| s.verdict == Verdict::NotApplied),
        ..row.clone()
    })
}
