//! What another process on this database says, and what it means for the sockets of this one (S7, S8, S10).

use std::sync::Arc;

use patchkeep_core::ids::{PatchId, TabId};

use super::here;
use super::say::Say;
use super::settle::fenced;
use crate::app::{App, Boot};
use crate::decide::{KeyState, Rejoin, expired, rejoin};
use crate::store::{Guard, Store, StoreError, Tx, Word};

/// Heeds a word of another process: who waits looks again, a retry that came there goes to the recipient here (S7), and
/// what was fenced there is handed nothing here (S10).
pub(crate) fn heard<S: Store>(app: &Arc<App<S>>, boot: &Arc<Boot>, word: Word) {
    let (app, boot2) = (app.clone(), boot.clone());
    boot.spawn(async move {
        let app2 = app.clone();
        let heeded = match word.clone() {
            Word::Changed(patch_ids) => return patch_ids.into_iter().for_each(|patch_id| boot2.changed(patch_id)),
            Word::Forward(patch_id) => app.store.transact(move |tx| forwarded(tx, &app2, &boot2, patch_id)).await,
            Word::Came(tab_id) => app.store.transact(move |tx| came(tx, &boot2, tab_id)).await,
            Word::Stored(stored) => return boot2.hub.doc_changed(&stored),
            Word::Missed => app.store.transact(move |tx| missed(tx, &app2, &boot2)).await,
            Word::Fenced(tab_id, doc) => app.store.transact(move |tx| fenced(tx, &boot2, tab_id, &doc)).await,
        };
        if let Err(error) = heeded {
            tracing::warn!(%error, ?word, "a word of another process could not be heeded");
        }
    });
}

/// R5: the tab's socket is another process's now; an older one here is closed.
fn came(tx: &dyn Tx, boot: &Arc<Boot>, tab_id: TabId) -> Result<(), StoreError> {
    let Some(owner) = tx.tab(tab_id)? else { return Ok(()) };
    let boot = boot.clone();
    tx.after_commit(Box::new(move || boot.hub.replaced_by(tab_id, &owner.conn)));
    Ok(())
}

/// What was planned for tabs here while this process could not listen goes out now, and who waits looks again. A tab that
/// has it answers again.
fn missed<S: Store>(tx: &dyn Tx, app: &Arc<App<S>>, boot: &Arc<Boot>) -> Result<(), StoreError> {
    let waiting = boot.clone();
    tx.after_commit(Box::new(move || waiting.waiters.look_again()));
    for plan in tx.delivered_keys()?.into_iter().filter_map(|row| row.plan) {
        forwarded(tx, app, boot, plan.patch_id)?;
    }
    Ok(())
}

fn forwarded<S: Store>(tx: &dyn Tx, app: &Arc<App<S>>, boot: &Arc<Boot>, patch_id: PatchId) -> Result<(), StoreError> {
    let Some(row) = tx.key_of_patch(patch_id)? else { return Ok(()) };
    let Some(plan) = row.plan.clone() else { return Ok(()) };
    if !matches!(row.state, KeyState::Delivered | KeyState::Unknown) {
        return Ok(());
    }
    let guard = Guard::Patch(patch_id, row.state);
    let Some(here) = here(tx, boot, plan.recipient.tab_id, &plan.recipient.doc)? else { return Ok(()) };
    let row = expired(&row, tx.now()).unwrap_or(row);
    let rejoined = rejoin(&row, row.attempt, Some(&here));
    let mut say = Say::default();
    match (&rejoined, rejoined.row().plan.as_ref()) {
        (Rejoin::Again(_), Some(plan)) => say.hand_out(plan),
        (Rejoin::Ask(_), Some(plan)) => say.ask(plan),
        _ => return Ok(()),
    }
    if tx.update_key(rejoined.row(), guard)? {
        say.after_commit(tx, app, boot, plan.recipient.tab_id, Some(&here.conn))?;
    }
    Ok(())
}
