//! The host's documents: opening, saving, keeping drafts, merging after a conflict (J6, W1–W3).

use patchkeep_core::frame::Homed;
use patchkeep_core::ids::{DocId, PatchId};
use patchkeep_core::journal::RecordState;
use patchkeep_core::session::{Mark, OpenDocument, RecordView, SaveAnswer, SaveOutcome, Status};
use patchkeep_server::decide::{Held, Save};

use super::{Draft, OpenText, Why};
use crate::mutants::Mutant;
use crate::world::{Event, Sim};

impl Sim {
    /// The host looks after its documents: the user types, drafts are kept, what is not stored is saved.
    pub(crate) fn tick(&mut self, id: u64) {
        if !self.contexts.contains_key(&id) {
            return;
        }
        let wait = self.rng.range(200, 2_500);
        self.at(self.now + wait, Event::Tick { context: id });
        let Some(context) = self.contexts.get(&id) else { return };
        if context.frozen.is_some() || context.session.status() != Status::Live {
            return;
        }
        for doc in context.docs.keys().cloned().collect::<Vec<_>>() {
            if self.fails(self.setup.profile.typing) {
                self.open_text(id, &doc, |open| open.text.push('.'));
            }
            if self.setup.homed == Homed::Elsewhere && self.rng.chance(400) {
                self.keep(id, &doc);
            }
            self.save(id, &doc);
        }
        self.pump(id);
    }

    fn open_text(&mut self, id: u64, doc: &DocId, change: impl FnOnce(&mut OpenText)) {
        if let Some(open) = self.contexts.get_mut(&id).and_then(|c| c.docs.get_mut(doc)) {
            change(open);
        }
        self.oracle.dirty = true;
    }

    fn mark(&mut self, id: u64, doc: &DocId) -> Option<(Mark, OpenText)> {
        let now = self.now;
        let context = self.contexts.get_mut(&id)?;
        let (now, open) = (context.clocks(now), context.docs.get(doc)?.clone());
        let mark = context.session.mark(now, doc, open.incarnation).ok()?;
        self.pump(id);
        Some((mark, open))
    }

    fn keep(&mut self, id: u64, doc: &DocId) {
        let Some((mark, open)) = self.mark(id, doc) else { return };
        let now = self.now;
        let Some(context) = self.contexts.get_mut(&id) else { return };
        // The draft's store is fenced like the journal.
        if self.mutant != Some(Mutant::NoStoreFence) && self.disk.epoch(context.tab) > context.session.identity().epoch
        {
            return;
        }
        let carried = self.setup.co_commits.then(|| mark.patch_ids.clone());
        let draft = Draft { text: open.text, base_seq: mark.base_seq, carried };
        self.disk.drafts.insert((context.tab, doc.clone()), draft);
        self.oracle.dirty = true;
        let now = context.clocks(now);
        if context.session.kept(now, &mark).is_err() {
            self.violated("a live session does not take a mark");
        }
        self.pump(id);
    }

    /// An editor that keeps a draft with every change, before anybody could take a mark.
    pub(crate) fn draft_at_once(&mut self, id: u64, doc: &DocId) {
        if self.setup.homed == Homed::Server || self.setup.co_commits || !self.rng.chance(400) {
            return;
        }
        let Some(context) = self.contexts.get(&id) else { return };
        let base_seq = context.session.base_seq(doc).unwrap_or(0);
        let is_fenced = self.disk.epoch(context.tab) > context.session.identity().epoch;
        let is_fenced = is_fenced && !self.is(Mutant::NoStoreFence);
        if let Some(open) = context.docs.get(doc).filter(|_| !is_fenced) {
            self.disk
                .drafts
                .insert((context.tab, doc.clone()), Draft { text: open.text.clone(), base_seq, carried: None });
        }
    }

    fn save(&mut self, id: u64, doc: &DocId) {
        let Some((mark, open)) = self.mark(id, doc) else { return };
        let Some(context) = self.contexts.get_mut(&id) else { return };
        let is_busy = context.saving.contains(doc) || context.fetching.contains(doc);
        let is_clean = open.text == open.saved && mark.patch_ids.is_empty();
        if is_busy || is_clean || context.session.save_request(&mark, &open.text).is_err() {
            return;
        }
        context.saving.insert(doc.clone());
        let save = Save {
            doc: doc.clone(),
            text: open.text.clone(),
            tab_id: context.tab,
            epoch: context.session.identity().epoch,
            incarnation: mark.incarnation,
            generation: mark.generation,
            base_seq: mark.base_seq,
            patch_ids: mark.patch_ids.clone(),
            in_doubt: mark.in_doubt.clone(),
        };
        let mut save = save;
        match self.mutant {
            Some(Mutant::NamelessSave) => save.patch_ids.clear(),
            Some(Mutant::NoDoubt) => save.in_doubt.clear(),
            Some(Mutant::CarriedUnnamed) => {
                let records = self.contexts.get(&id).map(|c| c.session.records()).unwrap_or_default();
                save.patch_ids.retain(|id| records.iter().any(|r| r.patch_id == *id));
            }
            _ => {}
        }
        self.names_all(&open, &save);
        self.note(|_| format!("  {id} saves {save:?}"));
        let is_given_up = self.fails(self.setup.profile.lose);
        if is_given_up {
            // Lost on its way, or so slow that the host gives it up; it arrives all the same, and nobody hears the answer.
            self.later(Event::SaveAnswered { context: id, mark: mark.clone(), text: open.text, answer: None });
            if self.rng.chance(500) {
                return;
            }
        }
        let mark = (!is_given_up).then_some(mark);
        self.server.saves_under_way.push_back((id, save.clone()));
        let slowly = if self.fails(100) { self.rng.range(1_000, 8_000) } else { self.delay() };
        self.at(self.now + slowly, Event::SaveArrives { context: id, save: save.into(), mark });
    }

    /// The answer to a save, or the news that there is none.
    pub(crate) fn save_answered(&mut self, id: u64, mark: &Mark, text: &str, answer: Option<(u16, String)>) {
        let now = self.now;
        let Some(context) = self.contexts.get_mut(&id) else { return };
        if context.frozen.is_some() {
            let again = Event::SaveAnswered { context: id, mark: mark.clone(), text: text.into(), answer };
            return self.at(now + 500, again);
        }
        context.saving.remove(&mark.doc);
        let said = answer.as_ref().map(|(_, body)| body.clone()).unwrap_or_default();
        let answer = match answer {
            Some((status, body)) => {
                SaveAnswer::Answered { status, content_type: Some("application/json".into()), body }
            }
            None => SaveAnswer::Failed { detail: "lost".into() },
        };
        let now = context.clocks(now);
        let outcome = context.session.save_answered(now, mark, &answer);
        let tab = context.tab;
        let is_open = context.docs.get(&mark.doc).is_some_and(|d| d.incarnation == mark.incarnation);
        match outcome {
            SaveOutcome::Saved { .. } => {
                if is_open {
                    self.open_text(id, &mark.doc, |open| open.saved = text.into());
                }
                let draft = (tab, mark.doc.clone());
                if self.disk.drafts.get(&draft).is_some_and(|d| d.text == text) {
                    self.disk.drafts.remove(&draft);
                }
            }
            SaveOutcome::Conflict { mut patch_ids, in_doubt, .. } if is_open => {
                if self.is(Mutant::OwnSavesUntold) {
                    patch_ids.retain(|id| said.contains(&id.to_string()));
                }
                self.fetch(id, &mark.doc, Why::Merge(Held { patch_ids, in_doubt }));
            }
            SaveOutcome::Fenced => {
                // The incarnation was replaced or the tab taken over: the host loads the page again.
                if let Some(slot) = self.contexts.get(&id).map(|c| c.slot).filter(|_| is_open) {
                    self.later(Event::Load { slot });
                }
            }
            SaveOutcome::Conflict { .. } | SaveOutcome::Refused { .. } | SaveOutcome::Unknown { .. } => {}
        }
        self.pump(id);
    }

    fn fetch(&mut self, id: u64, doc: &DocId, why: Why) {
        if let Some(context) = self.contexts.get_mut(&id)
            && context.fetching.insert(doc.clone())
        {
            self.later(Event::Fetch { context: id, doc: doc.clone(), why });
        }
    }

    /// The host loads a document anew: and throws away what it has, or only where that is nothing.
    pub(crate) fn refresh(&mut self, id: u64, doc: &DocId, why: Why) {
        self.fetch(id, doc, why);
    }

    /// Whether the stored document lacks nothing that is here.
    pub(crate) fn is_clean(&self, id: u64, doc: &DocId) -> bool {
        let Some(context) = self.contexts.get(&id) else { return false };
        let unflushed = |r: &RecordView| r.doc == *doc && r.state == RecordState::Applied && r.current && !r.flushed;
        context.docs.get(doc).is_some_and(|d| d.text == d.saved) && !context.session.records().iter().any(unflushed)
    }

    /// The request for a stored text reaches the server.
    pub(crate) fn fetch_arrives(&mut self, context: u64, doc: DocId, why: Why) {
        let stored = self.server.rows.docs.get(&doc);
        let (text, seq) = stored.map_or_else(Default::default, |d| (d.text.clone(), d.seq));
        self.later(Event::Fetched { context, doc, text, seq, why });
    }

    /// The stored text reaches the host.
    pub(crate) fn fetched(&mut self, id: u64, doc: &DocId, text: &str, seq: u64, why: &Why) {
        let Some(context) = self.contexts.get(&id).filter(|c| c.session.status() == Status::Live) else { return };
        let again = Event::Fetched { context: id, doc: doc.clone(), text: text.into(), seq, why: why.clone() };
        if context.frozen.is_some() {
            return self.at(self.now + 500, again);
        }
        let draft = self.disk.drafts.get(&(context.tab, doc.clone())).cloned();
        let (mine, restored, base_seq, carried) = match why {
            Why::Open => match draft.filter(|_| self.setup.homed == Homed::Elsewhere) {
                // What is written beside the text says what it holds; where nothing is, the journal's own marks do.
                Some(Draft { text, base_seq, carried: Some(carried) }) => (text, false, base_seq, carried),
                Some(draft) => (draft.text, true, draft.base_seq, Vec::new()),
                None => (text.to_owned(), false, seq, Vec::new()),
            },
            Why::MovedOn if !self.is_clean(id, doc) => {
                // A patch has come, or the person has typed, while the text was under way.
                if let Some(context) = self.contexts.get_mut(&id) {
                    context.fetching.remove(doc);
                }
                return;
            }
            Why::Refresh | Why::MovedOn => {
                // The draft is of the content that is thrown away.
                self.disk.drafts.remove(&(context.tab, doc.clone()));
                (text.to_owned(), false, seq, Vec::new())
            }
            Why::Merge(held) => match self.mark(id, doc) {
                Some((mark, open)) => {
                    let carried: Vec<PatchId> =
                        mark.patch_ids.into_iter().filter(|p| !held.patch_ids.contains(p)).collect();
                    (self.merged(&open, text, &carried, held), false, seq, carried)
                }
                // A handler runs: whether its effect is in the text cannot be said yet.
                None => return self.at(self.now + 200, again),
            },
        };
        self.replace(id, doc, text, mine, restored, base_seq, carried);
    }

    #[allow(clippy::too_many_arguments, reason = "one call of the host, spelled out")]
    fn replace(
        &mut self,
        id: u64,
        doc: &DocId,
        stored: &str,
        text: String,
        restored: bool,
        base_seq: u64,
        carried: Vec<PatchId>,
    ) {
        let (now, random) = (self.now, self.rng.pair());
        let (lies, untold) = (self.is(Mutant::HomedLie), self.is(Mutant::CarriedUntold));
        let holds = carried.iter().copied().collect();
        let Some(context) = self.contexts.get_mut(&id) else { return };
        context.fetching.remove(doc);
        let open = OpenDocument {
            doc: doc.clone(),
            homed: if lies { Homed::Server } else { self.setup.homed },
            base_seq,
            reconciles: self.setup.reconciles,
            marks_in_document: self.setup.marks_in_document,
            restored: restored && !lies,
            carried: Some(if untold { Vec::new() } else { carried }),
        };
        let now = context.clocks(now);
        let is_open = context.docs.contains_key(doc);
        let session = &mut context.session;
        let generations = context.generations.entry(doc.clone()).or_default();
        *generations += 1;
        let opened = if is_open {
            session.replace_document(now, random, *generations, open)
        } else {
            session.open_document(now, random, *generations, open)
        };
        match opened {
            Ok(incarnation) => {
                context.docs.insert(doc.clone(), OpenText { text, incarnation, saved: stored.into(), holds });
                self.oracle.dirty = true;
                self.note(|_| format!("  {id} has {doc} anew as {incarnation}"));
                self.pump(id);
            }
            Err(error) => self.violated(format!("a document cannot be opened: {error}")),
        }
    }

    /// What a merge makes of two texts: the stored one, and of mine what is carried over. Effects of which the host
    /// was not told whose they are, or whether the stored text holds them, come along where that does not show them. A
    /// blind host looks at nothing but its own changes: what came into its text since the base.
    fn merged(&self, mine: &OpenText, stored: &str, carried: &[PatchId], held: &Held) -> String {
        let mut text = stored.to_owned();
        for (at, op) in self.ops.iter().enumerate().filter(|(_, op)| mine.text.contains(op.token.as_str())) {
            let token = op.token.as_str();
            let is_of = |ids: &[PatchId]| ids.iter().any(|id| self.oracle.planned.get(id) == Some(&at));
            let is_shown = stored.contains(token);
            let may_be_there = is_of(&held.in_doubt) || !self.setup.merges_blindly || mine.saved.contains(token);
            let surely = is_of(carried) && !is_of(&held.in_doubt);
            let is_there = is_of(&held.patch_ids) || (may_be_there && is_shown);
            if surely || !is_there {
                text.push_str(token);
            }
        }
        text
    }
}
