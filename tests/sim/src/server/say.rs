//! What a unit of work has to say at its end: to the tab, and to the requests that wait.

use patchkeep_core::frame::{ConfirmedAs, PatchFrame, QueryEntry, ServerFrame};
use patchkeep_core::ids::{PatchId, TabId};
use patchkeep_server::decide::{Follow, KeyRow, KeyState, Plan, Settled};
use patchkeep_server::store::Guard;

use super::{CLOCK_OFFSET, Stage};
use crate::mutants::Mutant;
use crate::network::Message;
use crate::world::{Event, Sim};

/// Collected while rows are written.
#[derive(Debug, Default)]
pub(crate) struct Say {
    pub(crate) confirmed: Vec<(PatchId, ConfirmedAs)>,
    patches: Vec<PatchFrame>,
    queries: Vec<QueryEntry>,
    pub(crate) changed: Vec<PatchId>,
}

impl Say {
    /// The patch goes out, as the plan says.
    pub(crate) fn hand_out(&mut self, plan: &Plan) {
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

    /// A question about it goes out.
    pub(crate) fn ask(&mut self, plan: &Plan) {
        let Plan { patch_id, delivery, .. } = *plan;
        self.queries.push(QueryEntry { patch_id, delivery, journal_id: plan.recipient.journal_id });
    }
}

impl Sim {
    /// The server's clock, in ms.
    pub(crate) const fn server_now(&self) -> u64 {
        self.now + CLOCK_OFFSET
    }

    /// Writes what evidence did to a row, and notes what follows from it.
    pub(crate) fn settle(&mut self, say: &mut Say, before: &KeyRow, settled: Settled) {
        let Some(patch_id) = before.plan.as_ref().map(|p| p.patch_id) else { return };
        match settled {
            Settled::Write { row, confirm, follow } => {
                if !self.write_row(&row, Guard::Patch(patch_id, before.state)) {
                    return;
                }
                say.changed.push(patch_id);
                say.confirmed.extend(confirm.map(|as_| (patch_id, as_)));
                match (&row.plan, follow) {
                    (Some(plan), Follow::Patch) => {
                        self.must_be_absent(row.id.key.as_str(), "handed out again");
                        say.hand_out(plan);
                    }
                    (Some(plan), Follow::Query) => say.ask(plan),
                    _ => {}
                }
            }
            Settled::Confirm(as_) => say.confirmed.push((patch_id, as_)),
            Settled::Ignore(why) => self.note(|_| format!("  ignored: {why} {patch_id}")),
        }
    }

    /// Writes a row while the guard holds.
    pub(crate) fn write_row(&mut self, row: &KeyRow, guard: Guard) -> bool {
        let written = self.server.rows.update_key(row.clone(), guard);
        if written {
            self.row_written(row);
            if self.is(Mutant::RefusedDeleted) && row.state == KeyState::Refused {
                self.server.rows.keys.remove(row.id.key.as_str());
            }
        }
        written
    }

    /// A row was written: the oracle looks, and the trace says so.
    pub(crate) fn row_written(&mut self, row: &KeyRow) {
        self.oracle.dirty = true;
        self.note(|_| {
            let plan = row.plan.as_ref().map(|p| (p.patch_id, p.delivery, p.recipient.homed));
            format!("  row {} {} attempt {} {plan:?}", row.id.key.as_str(), row.state.as_str(), row.attempt)
        });
        if row.contradicted {
            self.violated(format!("P4: {} was called absent and turned out to be there", row.id.key.as_str()));
        }
    }

    /// Says it all. `conn`: the connection it is for; `None`: whatever the tab has.
    pub(crate) fn say(&mut self, say: Say, tab_id: TabId, conn: Option<&str>) {
        if !say.confirmed.is_empty() {
            self.send_frame(tab_id, conn, &ServerFrame::PatchConfirmed(say.confirmed));
        }
        if !say.queries.is_empty() {
            self.send_frame(tab_id, conn, &ServerFrame::PatchQuery(say.queries));
        }
        for patch in say.patches {
            let at = patch.expires_at.saturating_sub(CLOCK_OFFSET);
            self.at(at, Event::Deadline { boot: self.server.life, patch_id: patch.patch_id });
            self.send_frame(tab_id, conn, &ServerFrame::Patch(patch));
        }
        for patch_id in say.changed {
            self.patch_changed(patch_id);
        }
    }

    /// Sends a frame to a tab, where this is still its current connection.
    pub(crate) fn send_frame(&mut self, tab_id: TabId, conn: Option<&str>, frame: &ServerFrame) {
        let tab = self.server.hub.get(&tab_id).filter(|t| conn.is_none_or(|c| c == t.conn));
        if let Some(socket) = tab.map(|t| t.socket) {
            self.down(socket, Message::Text(frame.encode()));
        }
    }

    /// Whoever waits for a patch looks again.
    pub(crate) fn patch_changed(&mut self, changed: PatchId) {
        let waits = |stage: &Stage| matches!(stage, Stage::Waiting { patch_id, .. } if *patch_id == changed);
        let tasks: Vec<u64> = self.server.tasks.iter().filter(|(_, t)| waits(&t.stage)).map(|(id, _)| *id).collect();
        for task in tasks {
            self.at(self.now, Event::Look { task });
        }
    }
}
