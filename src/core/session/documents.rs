//! Opening, replacing and closing documents.

use super::document::{CallKind, Carried, Document, Lane, Running};
use super::{Session, Status};
use crate::error::CallError;
use crate::frame::{Homed, PatchFrame, Reason, TabFrame};
use crate::ids::{DocId, Incarnation, PatchId, Uuid};
use crate::journal::RecordState;
use crate::json::MAX_SAFE_INTEGER;
use crate::tab::Phase;
use crate::time::Now;

/// How the host opens a document, or replaces its content.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenDocument {
    /// The document.
    pub doc: DocId,
    /// Whether its content leaves the tab only in saves by W1 (R7).
    pub homed: Homed,
    /// The stored version that the content was loaded from.
    pub base_seq: u64,
    /// Whether there is a reconcile hook.
    pub reconciles: bool,
    /// Patch ids live inside the document itself (J6, third way), so that `absent` needs no other proof.
    pub marks_in_document: bool,
    /// The content came back from the local store that `kept` speaks of.
    pub restored: bool,
    /// Patches that the content holds though the stored version does not: what a merge carried over (W3). An empty
    /// list is an answer, `None` is not: content that replaces other content in a living context is then announced as
    /// `elsewhere` (R7).
    pub carried: Option<Vec<PatchId>>,
}

/// The generation of a document's first content in a context (§1).
const FIRST_GENERATION: u64 = 1;

impl Session {
    /// Opens a document: a new incarnation begins. `generation` counts this context's incarnations of the document,
    /// from 1 on, where the identity is held (T2).
    ///
    /// # Errors
    /// [`CallError::AlreadyOpen`], [`CallError::InvalidArgument`], or the session has ended.
    pub fn open_document(
        &mut self,
        now: Now,
        random: [u128; 2],
        generation: u64,
        open: OpenDocument,
    ) -> Result<Incarnation, CallError> {
        self.check_call(&open)?;
        if self.documents.contains_key(&open.doc) {
            return Err(CallError::AlreadyOpen);
        }
        Ok(self.begin_incarnation(now, random, generation, open))
    }

    /// The content of an open document now comes from elsewhere (a refresh, a restore, a merge after a save conflict):
    /// a new incarnation begins, and what waited for the old one is refused.
    ///
    /// # Errors
    /// [`CallError::NotOpen`], [`CallError::InvalidArgument`], or the session has ended.
    pub fn replace_document(
        &mut self,
        now: Now,
        random: [u128; 2],
        generation: u64,
        open: OpenDocument,
    ) -> Result<Incarnation, CallError> {
        self.check_call(&open)?;
        if !self.documents.contains_key(&open.doc) {
            return Err(CallError::NotOpen);
        }
        self.retire(&open.doc, Reason::WrongIncarnation);
        Ok(self.begin_incarnation(now, random, generation, open))
    }

    /// Closes a document. A handler that runs may still settle; its record waits for the next instance.
    ///
    /// # Errors
    /// [`CallError::NotOpen`] where this incarnation is not the open one, or the session has ended.
    pub fn close_document(&mut self, now: Now, doc: &DocId, incarnation: Incarnation) -> Result<(), CallError> {
        self.check_live()?;
        if !self.is_current(doc, incarnation) {
            return Err(CallError::NotOpen);
        }
        self.retire(doc, Reason::NotOpen);
        self.documents.remove(doc);
        if self.is_welcomed() {
            self.send(TabFrame::Close { doc: doc.clone(), incarnation });
        }
        self.advance(now, [0; 2]);
        Ok(())
    }

    fn check_call(&self, open: &OpenDocument) -> Result<(), CallError> {
        self.check_live()?;
        if open.base_seq > MAX_SAFE_INTEGER { Err(CallError::InvalidArgument("baseSeq")) } else { Ok(()) }
    }

    pub(super) const fn check_live(&self) -> Result<(), CallError> {
        match self.status {
            Status::Live => Ok(()),
            Status::Fenced => Err(CallError::Fenced),
            Status::Closed => Err(CallError::Closed),
        }
    }

    fn begin_incarnation(&mut self, now: Now, random: [u128; 2], generation: u64, open: OpenDocument) -> Incarnation {
        let incarnation = Incarnation(Uuid::v4(random[0]));
        let doc = open.doc.clone();
        let is_first = generation == FIRST_GENERATION;
        let carries_nothing = open.carried.as_ref().is_none_or(Vec::is_empty);
        let document = Document {
            id: doc.clone(),
            incarnation,
            generation,
            homed: open.homed,
            base_seq: open.base_seq,
            reconciles: open.reconciles,
            marks_in_document: open.marks_in_document,
            is_fresh: is_first && open.homed == Homed::Server && !open.restored && carries_nothing,
            says_what_it_carries: open.carried.is_some() || (is_first && !open.restored),
            fenced_at: None,
            announced_on: None,
            list_was_cut: false,
            carried: Vec::new(),
            stored_ahead: Vec::new(),
            taking_back: None,
            lane: Lane::default(),
        };
        self.documents.insert(doc.clone(), document);
        self.inherit(&open, incarnation);
        if self.is_welcomed() {
            self.announce(&doc);
        }
        self.advance(now, random);
        incarnation
    }

    /// What the new content brings along of its predecessors' patches: what a merge carried over (W3) and what the
    /// local store kept (J5). Of the rest the hook will be asked, or R7; without either nobody can tell (J7).
    ///
    /// What it does not bring along is `kept` no longer: the next draft is written of this content, and a crash before
    /// that draft's own mark must not leave the older word standing (J6). No mark is taken until that is durable.
    fn inherit(&mut self, open: &OpenDocument, incarnation: Incarnation) {
        let records = self.journal.open_of(&open.doc).into_iter();
        let records: Vec<_> = records.map(|r| (r.patch_id, r.state, r.kept, r.is_open_question(incarnation))).collect();
        for (patch_id, state, kept, is_open) in records {
            if self.is_under_way(patch_id) || !is_open {
                continue;
            }
            let carried = open.carried.iter().flatten().any(|id| *id == patch_id);
            let restored = open.restored && kept && state == RecordState::Applied;
            if carried || restored {
                self.change_record(patch_id, |record| {
                    record.state = RecordState::Applied;
                    record.move_to(incarnation);
                });
                continue;
            }
            if kept {
                let transaction = self.change_record(patch_id, |record| record.kept = false);
                if let Some(document) = self.documents.get_mut(&open.doc) {
                    document.taking_back = transaction.or(document.taking_back);
                }
            }
            if !self.documents.get(&open.doc).is_some_and(Document::can_tell) {
                self.now_unknown(patch_id, incarnation);
            }
        }
        self.carry_unrecorded(open, incarnation);
    }

    /// What the host says the content carries is named by saves whether this journal has a record of it or not: the
    /// draft may be another tab's, or the journal that applied it may be gone (W1).
    fn carry_unrecorded(&mut self, open: &OpenDocument, incarnation: Incarnation) {
        let mut carried: Vec<Carried> = Vec::new();
        for patch_id in open.carried.iter().flatten() {
            let record = self.journal.record(*patch_id);
            let is_recorded = record.is_some_and(|r| r.is_present_in(Some(incarnation)));
            if !is_recorded && !carried.iter().any(|c| c.patch_id == *patch_id) {
                carried.push(Carried { patch_id: *patch_id, flushed: false });
            }
        }
        if let Some(document) = self.documents.get_mut(&open.doc) {
            document.carried = carried;
        }
    }

    /// The incarnation is over: what waits for it was never started (proven), what was asked of it stays open.
    fn retire(&mut self, doc: &DocId, reason: Reason) {
        self.refuse_queue(doc, reason);
        let running = self.documents.get_mut(doc).and_then(|d| d.lane.running.take());
        match running {
            Some(running @ (Running::Asks { .. } | Running::Intent { .. } | Running::Guard { .. })) => {
                if let Some(PatchFrame { patch_id, delivery, .. }) = running.uncalled().map(|d| &d.frame) {
                    self.forget_record(*patch_id);
                    self.send_refusal(*patch_id, *delivery, reason, None);
                }
            }
            Some(Running::Handler { call }) => {
                if let Some((patch_id, delivery)) = self.take_back(call) {
                    self.forget_record(patch_id);
                    self.send_refusal(patch_id, delivery, reason, None);
                }
            }
            Some(Running::Reconcile { call }) => {
                if let Some(CallKind::Reconcile(question)) = self.calls.remove(&call).map(|c| c.kind) {
                    self.leave_open(&question);
                }
            }
            None => {}
        }
    }

    fn is_welcomed(&self) -> bool {
        matches!(self.connection.phase, Phase::Live { .. })
    }
}
