//! A save, from its checks to its commit (W1–W4).

use std::collections::HashSet;
use std::sync::Arc;

use patchkeep_core::frame::ConfirmedAs;
use patchkeep_core::ids::PatchId;

use super::say::Say;
use super::stored;
use crate::app::{App, Boot};
use crate::decide::{Held, KeyRow, Save, SaveFacts, SaveRefusal, check_save, doubt_saved, held, settle_saved};
use crate::principal::Principal;
use crate::store::{Guard, Store, StoreError, Stored, Tx};

/// What became of a save.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Saved {
    /// It is stored as this version.
    Stored {
        /// The version.
        seq: u64,
    },
    /// Another text was stored meanwhile.
    Conflict {
        /// Its version.
        seq: u64,
        /// Those of the save's patches that it holds already, or may hold (W3).
        held: Held,
    },
    /// The saver was replaced by a later epoch or incarnation.
    Fenced,
    /// Another incarnation was announced, and this one not yet, or never.
    NotAnnounced,
    /// The tab id is another user's.
    NotYours,
}

/// Saves, or says why not. Either everything is committed or nothing.
pub(crate) async fn save<S: Store>(
    app: &Arc<App<S>>,
    boot: &Arc<Boot>,
    principal: Principal,
    save: Save,
) -> Result<Saved, StoreError> {
    let (app2, boot) = (app.clone(), boot.clone());
    app.store.transact(move |tx| commit(tx, &app2, &boot, &principal, &save)).await
}

fn commit<S: Store>(
    tx: &dyn Tx,
    app: &Arc<App<S>>,
    boot: &Arc<Boot>,
    principal: &Principal,
    save: &Save,
) -> Result<Saved, StoreError> {
    let before = tx.document(&principal.workspace, &save.doc)?;
    let owner = tx.tab(save.tab_id)?;
    let facts = SaveFacts {
        owner: owner.as_ref(),
        newest: tx.newest(save.tab_id, &save.doc)?,
        superseded: tx.superseded(save.tab_id, &save.doc, save.incarnation)?,
        document: before.as_ref(),
    };
    // Rows are looked at only where nothing cheaper says no: there may be ten thousand, and everybody waits.
    let (sure, in_doubt) = named(save);
    let conflict = |seq| {
        let mut all = Held::default();
        for part in sure.iter().chain(&in_doubt).copied().collect::<Vec<_>>().chunks(AT_ONCE) {
            let Held { patch_ids, in_doubt } = held(&named_rows(tx, principal, save, part)?);
            all.patch_ids.extend(patch_ids);
            all.in_doubt.extend(in_doubt);
        }
        // What this tab's earlier saves carried in doubt, this one need not name any more: it may be `present` here by now.
        let known: HashSet<_> = all.patch_ids.iter().chain(&all.in_doubt).copied().collect();
        let earlier = tx.doubted_since(principal, &save.doc, save.base_seq)?;
        all.in_doubt.extend(earlier.into_iter().filter(|patch_id| !known.contains(patch_id)));
        Ok(Saved::Conflict { seq, held: all })
    };
    let document = match check_save(save, principal, &facts) {
        Ok(document) => document,
        Err(SaveRefusal::NotYours) => return Ok(Saved::NotYours),
        Err(SaveRefusal::Fenced) => return Ok(Saved::Fenced),
        Err(SaveRefusal::NotAnnounced) => return Ok(Saved::NotAnnounced),
        Err(SaveRefusal::Conflict { seq }) => return conflict(seq),
    };
    if !tx.put_document(&principal.workspace, &save.doc, &document)? {
        return conflict(document.seq);
    }
    // A save of a generation that never was announced counts as its announcement (W1).
    if save.generation > 0 && facts.newest != Some(save.announced()) {
        let keeps_out = !tx.open_keys(save.tab_id, &save.doc)?.is_empty();
        tx.announce(save.tab_id, &save.doc, save.announced(), keeps_out.then_some(document.seq))?;
    }
    let mut say = Say::default();
    for part in sure.chunks(AT_ONCE) {
        for row in &named_rows(tx, principal, save, part)? {
            let Some(plan) = &row.plan else { continue };
            say.confirm(plan.patch_id, ConfirmedAs::Done);
            if let Some(done) = settle_saved(row, document.seq, tx.now())
                && tx.update_key(&done, Guard::Patch(plan.patch_id, row.state))?
            {
                tracing::info!(patch_id = %plan.patch_id, seq = document.seq, contradicted = done.contradicted, "saved");
                say.changed(plan.patch_id);
            }
        }
    }
    for part in in_doubt.chunks(AT_ONCE) {
        for row in &named_rows(tx, principal, save, part)? {
            if let (Some(plan), Some(doubted)) = (&row.plan, doubt_saved(row, document.seq)) {
                tx.update_key(&doubted, Guard::Patch(plan.patch_id, row.state))?;
            }
        }
    }
    say.after_commit(tx, app, boot, save.tab_id, None)?;
    let (workspace, doc, seq) = (principal.workspace.clone(), save.doc.clone(), document.seq);
    stored(tx, boot, Stored { workspace, doc, seq, but: Some(save.tab_id) })?;
    Ok(Saved::Stored { seq })
}

/// How many rows are held in memory at once: each has its edit's body with it.
const AT_ONCE: usize = 128;

/// The save's patches, each once: named surely, or else in doubt. What it names surely is `done`, and no doubt changes
/// that.
fn named(save: &Save) -> (Vec<PatchId>, Vec<PatchId>) {
    let mut seen = HashSet::new();
    let mut once = |ids: &[PatchId]| ids.iter().copied().filter(|id| seen.insert(*id)).collect::<Vec<_>>();
    (once(&save.patch_ids), once(&save.in_doubt))
}

/// The rows of the save's patches: this principal's (T6), and of this document. Others are none of its business.
fn named_rows(tx: &dyn Tx, principal: &Principal, save: &Save, named: &[PatchId]) -> Result<Vec<KeyRow>, StoreError> {
    let mut rows = tx.keys_of_patches(named)?;
    rows.retain(|row| row.id.principal == *principal && row.plan.as_ref().is_some_and(|p| p.recipient.doc == save.doc));
    if rows.len() < named.len() {
        tracing::warn!(patches = named.len() - rows.len(), "a save names patches that are not known here");
    }
    Ok(rows)
}
