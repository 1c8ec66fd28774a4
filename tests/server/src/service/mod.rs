//! The units of work: rows read, decided on and written in one transaction, frames sent after its commit.

mod diff;
mod heard;
mod keyed;
mod save;
mod say;
mod session;
mod settle;

use std::sync::Arc;
use std::time::Duration;

use patchkeep_core::ids::{DocId, PatchId, TabId};

pub(crate) use heard::heard;
pub(crate) use keyed::{ASK_AGAIN_MS, KeyedWrite, Outcome, Undo, ask, claim_only, complete, keyed};
pub(crate) use save::{Saved, save};
pub(crate) use session::{Session, check_current, close, gone, hello, open, report};
pub(crate) use settle::settle;

use crate::app::{App, Boot};
use crate::decide::{Document, Here, KeyState, expired};
use crate::store::{Guard, Store, StoreError, Stored, Tx, Word};

/// Whether a text that is short enough is a document's id: no control characters, which not every database can hold, and
/// nothing that an address resolves (§1).
pub(crate) fn is_document_id(doc: &DocId) -> bool {
    !doc.as_str().chars().any(char::is_control) && !matches!(doc.as_str(), "." | "..")
}

/// Makes the documents that do not exist yet.
pub(crate) fn seed(tx: &dyn Tx, workspace: &str, seed: &[(String, String)]) -> Result<(), StoreError> {
    for (doc, text) in seed {
        let Some(doc) = DocId::new(doc) else { continue };
        if tx.document(workspace, &doc)?.is_none() {
            tx.put_document(workspace, &doc, &Document { text: text.clone(), seq: 1 })?;
        }
    }
    Ok(())
}

/// A tab's connection at this process, where the database agrees that it is the current one (R5). What was fenced or
/// replaced at another process does not count as open: nothing is handed to it any more (S10).
fn here(tx: &dyn Tx, boot: &Boot, tab_id: TabId, doc: &DocId) -> Result<Option<Here>, StoreError> {
    let Some(mut here) = boot.hub.here(tab_id, doc) else { return Ok(None) };
    if tx.tab(tab_id)?.is_none_or(|owner| owner.conn != here.conn) {
        return Ok(None);
    }
    if let Some((incarnation, _)) = here.open
        && tx.newest(tab_id, doc)?.is_none_or(|newest| newest.incarnation != incarnation)
    {
        here.open = None;
    }
    Ok(Some(here))
}

/// Somebody committed: tabs that have the document open are told, whichever process holds their sockets (W4).
fn stored(tx: &dyn Tx, boot: &Arc<Boot>, stored: Stored) -> Result<(), StoreError> {
    tx.tell_others(&Word::Stored(stored.clone()))?;
    let boot = boot.clone();
    tx.after_commit(Box::new(move || boot.hub.doc_changed(&stored)));
    Ok(())
}

/// Sees to it that a patch nobody waits for any more still becomes `unknown` at its deadline (S6).
pub(crate) fn watch_deadline<S: Store>(app: &Arc<App<S>>, boot: &Arc<Boot>, patch_id: PatchId, expires_at: u64) {
    let (app, here) = (app.clone(), boot.clone());
    boot.spawn(async move {
        loop {
            let left = expires_at.saturating_sub(app.now());
            if left > 0 {
                tokio::time::sleep(Duration::from_millis(left)).await;
                continue;
            }
            let boot = here.clone();
            let due = app.store.transact(move |tx| {
                expire(tx, &boot, patch_id)?;
                Ok::<_, StoreError>(tx.now() >= expires_at)
            });
            match due.await {
                Ok(true) => return,
                // The database's clock is a little behind what was thought.
                Ok(false) => tokio::time::sleep(Duration::from_millis(1)).await,
                Err(error) => return tracing::error!(%error, %patch_id, "a deadline could not be recorded"),
            }
        }
    });
}

fn expire(tx: &dyn Tx, boot: &Arc<Boot>, patch_id: PatchId) -> Result<(), StoreError> {
    let Some(row) = tx.key_of_patch(patch_id)?.and_then(|row| expired(&row, tx.now())) else { return Ok(()) };
    if tx.update_key(&row, Guard::Patch(patch_id, KeyState::Delivered))? {
        tracing::info!(%patch_id, "deadline passed without a word: unknown");
        let boot = boot.clone();
        tx.after_commit(Box::new(move || boot.changed(patch_id)));
    }
    Ok(())
}
