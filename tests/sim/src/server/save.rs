//! A save, from its checks to its commit (W1–W4).

use std::collections::BTreeSet;

use patchkeep_core::frame::ConfirmedAs;
use patchkeep_core::ids::PatchId;
use patchkeep_core::session::Mark;
use patchkeep_server::decide::{
    Held, KeyRow, Save, SaveFacts, SaveRefusal, check_save, doubt_saved, held, settle_saved,
};
use patchkeep_server::store::Guard;

use super::say::Say;
use crate::mutants::Mutant;
use crate::world::{Event, Sim};

impl Sim {
    /// A save reaches the server; its answer may be lost on the way back. Without a mark nobody waits for one.
    pub(crate) fn save_arrives(&mut self, context: u64, save: &Save, mark: Option<Mark>) {
        if let Some(at) = self.server.saves_under_way.iter().position(|(c, s)| *c == context && s == save) {
            self.server.saves_under_way.remove(at);
        }
        let answer = self.commit(save);
        let Some(mark) = mark else { return };
        let answer = (!self.fails(self.setup.profile.lose)).then_some(answer);
        self.later(Event::SaveAnswered { context, mark, text: save.text.clone(), answer });
    }

    fn commit(&mut self, save: &Save) -> (u16, String) {
        let rows = &self.server.rows;
        let facts = SaveFacts {
            owner: rows.tabs.get(&save.tab_id),
            newest: rows.newest(save.tab_id, &save.doc),
            superseded: rows.superseded(save.tab_id, &save.doc, save.incarnation),
            document: rows.docs.get(&save.doc),
        };
        let named = self.named(save, &save.patch_ids);
        let doubted = self.named(save, &save.in_doubt);
        let earlier: Vec<_> = rows.doubted_since(&save.doc, save.base_seq).collect();
        let untold = self.is(Mutant::HeldUntold);
        let conflict = |seq: u64| {
            let Held { patch_ids, mut in_doubt } =
                if untold { Held::default() } else { held(named.iter().chain(&doubted)) };
            in_doubt.extend(earlier.iter().filter(|_| !untold));
            let list = |ids: Vec<PatchId>| {
                let ids: BTreeSet<_> = ids.iter().map(|id| format!("\"{id}\"")).collect();
                ids.into_iter().collect::<Vec<_>>().join(",")
            };
            let (held, doubt) = (list(patch_ids), list(in_doubt));
            let details = format!("{{\"seq\":{seq},\"patch_ids\":[{held}],\"in_doubt\":[{doubt}]}}");
            (409, format!("{{\"error\":{{\"code\":\"save_conflict\",\"details\":{details}}}}}"))
        };
        let facts = match self.mutant {
            Some(Mutant::OldSave) => SaveFacts { owner: None, newest: None, superseded: false, ..facts },
            _ => facts,
        };
        let base_seq =
            if self.is(Mutant::AnyBase) { rows.docs.get(&save.doc).map_or(0, |d| d.seq) } else { save.base_seq };
        let save = &Save { base_seq, ..save.clone() };
        let document = match check_save(save, &self.server.principal, &facts) {
            Ok(document) => document,
            Err(SaveRefusal::Conflict { seq }) => return conflict(seq),
            Err(SaveRefusal::Fenced) => return (409, "{\"error\":{\"code\":\"save_fenced\"}}".into()),
            Err(SaveRefusal::NotAnnounced) => return (409, "{\"error\":{\"code\":\"save_not_announced\"}}".into()),
            Err(SaveRefusal::NotYours) => return (403, "{\"error\":{\"code\":\"tab_not_yours\"}}".into()),
        };
        let seq = document.seq;
        if !self.server.rows.put_document(&save.doc, document) {
            return conflict(seq);
        }
        self.oracle.dirty = true;
        if self.server.rows.newest(save.tab_id, &save.doc) != Some(save.announced()) {
            self.server.rows.announce(save.tab_id, &save.doc, save.announced());
        }
        let mut say = Say::default();
        for row in &named {
            let Some(patch_id) = row.plan.as_ref().map(|p| p.patch_id) else { continue };
            say.confirmed.push((patch_id, ConfirmedAs::Done));
            if let Some(done) = settle_saved(row, seq, self.server_now())
                && self.write_row(&done, Guard::Patch(patch_id, row.state))
            {
                say.changed.push(patch_id);
            }
        }
        for row in &doubted {
            if let (Some(plan), Some(doubted)) = (&row.plan, doubt_saved(row, seq)) {
                self.write_row(&doubted, Guard::Patch(plan.patch_id, row.state));
            }
        }
        self.say(say, save.tab_id, None);
        self.doc_changed(&save.doc, seq, Some(save.tab_id));
        (200, format!("{{\"seq\":{seq}}}"))
    }

    fn named(&self, save: &Save, named: &[PatchId]) -> Vec<KeyRow> {
        let rows = named.iter().filter_map(|id| self.server.rows.key_of_patch(*id));
        rows.filter(|r| r.plan.as_ref().is_some_and(|p| p.recipient.doc == save.doc)).cloned().collect()
    }
}
