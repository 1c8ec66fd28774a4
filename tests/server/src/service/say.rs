//! What a unit of work has to say once it is committed: to the tab, and to the requests that wait.

use std::sync::Arc;

use patchkeep_core::frame::{ConfirmedAs, PatchFrame, QueryEntry, ServerFrame};
use patchkeep_core::ids::{PatchId, TabId};

use crate::app::{App, Boot};
use crate::decide::{Follow, KeyRow, Plan, Settled};
use crate::store::{Guard, Store, StoreError, Tx, Word};

/// Collected while rows are written; nothing leaves before the commit (S5, R4).
#[derive(Debug, Default)]
pub(super) struct Say {
    confirmed: Vec<(PatchId, ConfirmedAs)>,
    patches: Vec<PatchFrame>,
    queries: Vec<QueryEntry>,
    changed: Vec<PatchId>,
}

/// The size of an entry of `patch_query` or `patch_confirmed` on the wire, with room to spare.
const ENTRY_BYTES: usize = 160;

impl Say {
    /// Writes what evidence did to a row, and notes what follows from it.
    pub(super) fn settle(&mut self, tx: &dyn Tx, before: &KeyRow, settled: Settled) -> Result<(), StoreError> {
        let Some(plan) = &before.plan else { return Ok(()) };
        let patch_id = plan.patch_id;
        match settled {
            Settled::Write { row, confirm, follow } => {
                if !tx.update_key(&row, Guard::Patch(patch_id, before.state))? {
                    return Ok(());
                }
                tracing::info!(
                    %patch_id, from = before.state.as_str(), to = row.state.as_str(), ?follow,
                    contradicted = row.contradicted, "patch"
                );
                self.changed.push(patch_id);
                self.confirmed.extend(confirm.map(|as_| (patch_id, as_)));
                match (&row.plan, follow) {
                    (Some(plan), Follow::Patch) => self.hand_out(plan),
                    (Some(plan), Follow::Query) => self.ask(plan),
                    _ => {}
                }
            }
            Settled::Confirm(as_) => self.confirmed.push((patch_id, as_)),
            Settled::Ignore(why) => tracing::debug!(%patch_id, state = before.state.as_str(), why, "ignored"),
        }
        Ok(())
    }

    /// The patch goes out, as the plan says.
    pub(super) fn hand_out(&mut self, plan: &Plan) {
        self.patches.push(PatchFrame {
            patch_id: plan.patch_id,
            delivery: plan.delivery,
            journal_id: plan.recipient.journal_id,
            doc: plan.recipient.doc.clone(),
            incarnation: plan.recipient.incarnation,
            digest: plan.digest,
            body: plan.body.as_str().into(),
            expires_at: plan.expires_at,
            guarded: plan.guarded,
            base_seq: Some(plan.base_seq),
        });
    }

    /// A question about it goes out; it names the journal the patch was handed to (J12a).
    pub(super) fn ask(&mut self, plan: &Plan) {
        let Plan { patch_id, delivery, .. } = *plan;
        self.queries.push(QueryEntry { patch_id, delivery, journal_id: plan.recipient.journal_id });
    }

    /// The tab is told how a patch of its stands.
    pub(super) fn confirm(&mut self, patch_id: PatchId, as_: ConfirmedAs) {
        self.confirmed.push((patch_id, as_));
    }

    /// Whoever waits for this patch looks again.
    pub(super) fn changed(&mut self, patch_id: PatchId) {
        self.changed.push(patch_id);
    }

    /// Leaves it all to the commit. `conn`: the connection it is for; `None`: whatever the tab has.
    pub(super) fn after_commit<S: Store>(
        self,
        tx: &dyn Tx,
        app: &Arc<App<S>>,
        boot: &Arc<Boot>,
        tab_id: TabId,
        conn: Option<&str>,
    ) -> Result<(), StoreError> {
        for part in self.changed.chunks(Word::PATCHES) {
            tx.tell_others(&Word::Changed(part.to_vec()))?;
        }
        let (app, boot, conn) = (app.clone(), boot.clone(), conn.map(str::to_owned));
        tx.after_commit(Box::new(move || {
            let per_frame = (app.config.max_frame_bytes / ENTRY_BYTES).saturating_sub(1).max(1);
            let send = |frame: ServerFrame| match &conn {
                Some(conn) => boot.hub.send(tab_id, conn, &frame),
                None => boot.hub.send_to_tab(tab_id, &frame),
            };
            for part in self.confirmed.chunks(per_frame) {
                send(ServerFrame::PatchConfirmed(part.to_vec()));
            }
            for part in self.queries.chunks(per_frame) {
                send(ServerFrame::PatchQuery(part.to_vec()));
            }
            for patch in self.patches {
                super::watch_deadline(&app, &boot, patch.patch_id, patch.expires_at);
                send(ServerFrame::Patch(patch));
            }
            self.changed.into_iter().for_each(|patch_id| boot.changed(patch_id));
        }));
        Ok(())
    }
}
