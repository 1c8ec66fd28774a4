//! Whether a save is committed, and what it does to the keys whose effects it holds (W1–W3).

use patchkeep_core::frame::Homed;
use patchkeep_core::ids::{DocId, Incarnation, PatchId, TabId};
use serde_json::json;

use super::answer::Answer;
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
    /// The stored version it was made from.
    pub base_seq: u64,
    /// Every patch whose effect is in the text and not known to be flushed.
    pub patch_ids: Vec<PatchId>,
    /// Patches of which the tab cannot tell whether the text holds them.
    pub in_doubt: Vec<PatchId>,
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
    // An incarnation that was never announced may be one whose `open` is still on its way: `base_seq` decides.
    if facts.superseded || facts.newest.is_some_and(|n| n.epoch > save.epoch) {
        return Err(SaveRefusal::Fenced);
    }
    // A document that is not stored is at version 0: the first save makes it.
    let seq = facts.document.map_or(0, |d| d.seq);
    if seq != save.base_seq {
        return Err(SaveRefusal::Conflict { seq });
    }
    Ok(Document { text: save.text.clone(), seq: seq + 1 })
}

/// The row of a patch that a committed save may hold unnamed. Its content has left the tab by a way that proves
/// nothing, so that silence about it is no proof of absence any more (R7). `None` where nothing changes.
pub fn doubt_saved(row: &KeyRow) -> Option<KeyRow> {
    let mut doubted = row.clone();
    let plan = doubted.plan.as_mut().filter(|p| row.state.is_open() && p.recipient.homed == Homed::Server)?;
    plan.recipient.homed = Homed::Elsewhere;
    Some(doubted)
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
