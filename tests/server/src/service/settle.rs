//! A person's word about an unknown outcome (S10).

use std::sync::Arc;

use patchkeep_core::frame::RejectCode;
use patchkeep_core::ids::{DocId, Incarnation, TabId};

use crate::app::{App, Boot};
use crate::decide::{
    Answer, KeyId, KeyRow, Recipient, Verdict, Word, after_all, in_flight, settle as decide, settlement_answer,
};
use crate::store::{Guard, Store, StoreError, Tx, Word as StoreWord, fresh_id};

/// How long a caller waits before it tries again, where the row moved under its hands, in ms.
const TRY_AGAIN_MS: u64 = 200;

/// Settles a key on the word of its principal, once: the first word stands.
pub(crate) async fn settle<S: Store>(
    app: &Arc<App<S>>,
    boot: &Arc<Boot>,
    id: KeyId,
    verdict: Verdict,
) -> Result<Answer, StoreError> {
    let boot = boot.clone();
    app.store.transact(move |tx| record(tx, &boot, &id, verdict)).await
}

fn record(tx: &dyn Tx, boot: &Arc<Boot>, id: &KeyId, verdict: Verdict) -> Result<Answer, StoreError> {
    let Some(before) = tx.key(id)? else { return Ok(told(decide(None, verdict, "", tx.now()))) };
    match decide(Some(&before), verdict, &id.principal.to_string(), tx.now()) {
        Word::Write { row, fence } => write(tx, boot, &before, &row, fence),
        word => Ok(told(word)),
    }
}

fn told(word: Word) -> Answer {
    match word {
        Word::Tell(answer) => answer,
        Word::Write { .. } => in_flight(TRY_AGAIN_MS),
    }
}

fn write(tx: &dyn Tx, boot: &Arc<Boot>, before: &KeyRow, row: &KeyRow, fenced: bool) -> Result<Answer, StoreError> {
    let Some(plan) = &row.plan else { return Ok(in_flight(TRY_AGAIN_MS)) };
    if !tx.update_key(row, Guard::Patch(plan.patch_id, before.state))? {
        return Ok(in_flight(TRY_AGAIN_MS));
    }
    if fenced {
        fence(tx, boot, &plan.recipient)?;
    }
    tracing::info!(patch_id = %plan.patch_id, verdict = ?row.settlement, "settled by a person");
    tx.tell_others(&StoreWord::Changed(vec![plan.patch_id]))?;
    let (boot, patch_id) = (boot.clone(), plan.patch_id);
    tx.after_commit(Box::new(move || boot.changed(patch_id)));
    Ok(settlement_answer(row, false))
}

/// What that tab holds of the document can no longer be saved, whichever incarnation it is or makes of it (W1): one that
/// nobody holds is announced after all of its epoch. A later load of the page is its successor as always.
fn fence(tx: &dyn Tx, boot: &Arc<Boot>, recipient: &Recipient) -> Result<(), StoreError> {
    let Recipient { tab_id, doc, .. } = recipient;
    let Some(owner) = tx.tab(*tab_id)? else { return Ok(()) };
    let seq = tx.document(&owner.principal.workspace, doc)?.map_or(0, |document| document.seq);
    tx.announce(*tab_id, doc, after_all(owner.epoch, Incarnation(fresh_id())), Some(seq))?;
    tx.closed(*tab_id, doc, None)?;
    tx.tell_others(&StoreWord::Fenced(*tab_id, doc.clone()))?;
    fenced(tx, boot, *tab_id, doc)
}

/// A tab's content was fenced, here or at another process. What it opened since is its own.
pub(super) fn fenced(tx: &dyn Tx, boot: &Arc<Boot>, tab_id: TabId, doc: &DocId) -> Result<(), StoreError> {
    let newest = tx.newest(tab_id, doc)?.map(|newest| newest.incarnation);
    let (boot, doc) = (boot.clone(), doc.clone());
    tx.after_commit(Box::new(move || {
        let Some(here) = boot.hub.here(tab_id, &doc) else { return };
        if here.open.is_some_and(|(incarnation, _)| Some(incarnation) != newest) {
            settled_elsewhere(&boot, tab_id, &here.conn, &doc);
        }
    }));
    Ok(())
}

/// Nothing is handed to this content from here on. The one place where its tab, connected here, is told.
fn settled_elsewhere(boot: &Boot, tab_id: TabId, conn: &str, doc: &DocId) {
    tracing::info!(%conn, %doc, "what this tab holds was settled as not applied, and is fenced");
    boot.hub.set_open(tab_id, conn, doc, None);
    boot.hub.reject(tab_id, conn, RejectCode::SettledElsewhere);
}
