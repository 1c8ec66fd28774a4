//! What the host's code answers: handlers (J8, J13) and reconcile hooks (J7).

use super::document::{Call, CallKind, Delivery, Owed, Question, Running, Work};
use super::{HandlerOutcome, HandlerResult, Notice, ReconcileOutcome, Session};
use crate::error::ProblemCode;
use crate::frame::{AckFrame, MAX_RESULT_BYTES, Reason, ReportedState, TabFrame};
use crate::ids::{DocId, Incarnation, PatchId};
use crate::journal::RecordState;
use crate::json;
use crate::time::Now;

impl Session {
    pub(super) fn on_handler(&mut self, now: Now, call: u64, outcome: HandlerOutcome) {
        if outcome == HandlerOutcome::Pending {
            return;
        }
        let Some((call, CallKind::Handler { delivery })) = self.end_call(call) else { return };
        let patch_id = call.patch_id;
        match outcome {
            HandlerOutcome::Pending => {}
            HandlerOutcome::Applied(result) => {
                let result = self.accepted_result(patch_id, result);
                self.effect_made(now, &call, delivery, result);
            }
            HandlerOutcome::Refused { reason, detail } => self.refuse(now, patch_id, delivery, reason, detail),
            HandlerOutcome::Threw { detail } => {
                self.problem(ProblemCode::HandlerThrew, Some(patch_id), detail);
                self.effect_open(&call, delivery, Owed::Throw);
            }
        }
        self.settled(&call.doc);
    }

    /// The effect is in the document: it is acknowledged at once (J8). Where the instance died while its handler ran,
    /// the effect went into a dead text or into the new one, and only the host can tell which.
    fn effect_made(&mut self, now: Now, call: &Call, delivery: u64, result: Option<String>) {
        let patch_id = call.patch_id;
        let settled_at = self.clock.estimate(now);
        self.change_record(patch_id, |record| {
            record.state = RecordState::Applied;
            record.delivery = record.delivery.max(delivery);
            record.settled_at = Some(settled_at);
            record.result.clone_from(&result);
        });
        if self.is_current(&call.doc, call.incarnation) {
            let ack = AckFrame { patch_id, delivery, replayed: false, applied_at: settled_at, result };
            self.send(TabFrame::PatchAck(ack));
        } else {
            self.effect_open(call, delivery, Owed::FollowUp);
        }
    }

    /// Nobody here knows whether the effect is in the document: the hook is asked, or it is `unknown` (J13).
    fn effect_open(&mut self, call: &Call, delivery: u64, owed: Owed) {
        let patch_id = call.patch_id;
        let question = Question { patch_id, delivery, owed };
        match self.documents.get_mut(&call.doc) {
            Some(document) if document.reconciles => document.lane.queue.push_front(Work::Reconcile(question)),
            Some(document) => {
                let incarnation = document.incarnation;
                self.now_unknown(patch_id, incarnation);
                self.leave_open(&question);
            }
            // The record stays as it is: the next instance of the document may know.
            None => self.leave_open(&question),
        }
    }

    /// A result as it may be recorded and sent; one that may not is dropped with an event, as the effect is there (J8).
    fn accepted_result(&mut self, patch_id: PatchId, result: HandlerResult) -> Option<String> {
        let why = match result {
            HandlerResult::None => return None,
            HandlerResult::Unsendable => "the handler's result is not JSON",
            HandlerResult::Json(text) if text.len() > MAX_RESULT_BYTES => "the handler's result is over 4 KiB",
            HandlerResult::Json(text) if json::parse(&text).is_err() => "the handler's result has no canonical form",
            HandlerResult::Json(text) => return Some(text),
        };
        self.problem(ProblemCode::ResultDropped, Some(patch_id), why);
        None
    }

    pub(super) fn on_reconcile(&mut self, now: Now, call: u64, outcome: ReconcileOutcome) {
        if outcome == ReconcileOutcome::Pending {
            self.reconcile_pending(call);
            return;
        }
        let Some((call, CallKind::Reconcile(question))) = self.end_call(call) else { return };
        if !self.is_current(&call.doc, call.incarnation) {
            // The instance that answered is gone; what it says is about nothing that lives.
            self.leave_open(&question);
            return;
        }
        if outcome == ReconcileOutcome::Present {
            self.found_present(now, &call, question);
        } else {
            self.found_missing(now, &call.doc, outcome, question);
        }
        self.settled(&call.doc);
    }

    /// Absent, where that may be believed; else nobody can tell.
    pub(super) fn found_missing(&mut self, now: Now, doc: &DocId, outcome: ReconcileOutcome, question: Question) {
        let Some(document) = self.documents.get(doc) else { return };
        let record = self.journal.record(question.patch_id);
        if outcome == ReconcileOutcome::Absent && record.is_some_and(|r| document.may_hear_absent(r)) {
            self.found_absent(now, doc, question);
        } else {
            let incarnation = document.incarnation;
            self.now_unknown(question.patch_id, incarnation);
            self.leave_open(&question);
        }
    }

    /// A question that could not be answered in its task is answered `applying` for now (J7).
    fn reconcile_pending(&mut self, call: u64) {
        let Some(Call { kind: CallKind::Reconcile(question), .. }) = self.calls.get_mut(&call) else { return };
        if matches!(question.owed, Owed::State) {
            question.owed = Owed::FollowUp;
            let (patch_id, delivery) = (question.patch_id, question.delivery);
            self.send_state(patch_id, delivery, ReportedState::Applying, None);
        }
    }

    /// The effect is in this incarnation: the patch is applied by it, and not yet known to be saved.
    fn found_present(&mut self, now: Now, call: &Call, question: Question) {
        let Question { patch_id, delivery, owed } = question;
        let estimate = self.clock.estimate(now);
        let replayed = !matches!(owed, Owed::Throw);
        if replayed && !matches!(owed, Owed::State | Owed::Nothing) {
            self.journal.count_replay(patch_id);
        }
        self.change_record(patch_id, |record| {
            record.state = RecordState::Applied;
            record.move_to(call.incarnation);
            record.delivery = record.delivery.max(delivery);
            record.settled_at.get_or_insert(estimate);
        });
        match owed {
            Owed::State => self.send_state(patch_id, delivery, ReportedState::Applied, None),
            // A late acknowledgement is the truth, even where `unknown` was said before (R6).
            Owed::Nothing if !call.overdue => {}
            _ => {
                let record = self.journal.record(patch_id);
                let applied_at = record.and_then(|r| r.settled_at).unwrap_or(estimate);
                let result = record.and_then(|r| r.result.clone());
                self.send(TabFrame::PatchAck(AckFrame { patch_id, delivery, replayed, applied_at, result }));
            }
        }
    }

    /// It never took effect in anything this instance descends from: there is no record any more, and a redelivered
    /// patch is applied afresh.
    fn found_absent(&mut self, now: Now, doc: &DocId, question: Question) {
        let Question { patch_id, delivery, owed } = question;
        if matches!(owed, Owed::Throw) {
            self.refuse(now, patch_id, delivery, Reason::HandlerError, None);
            return;
        }
        self.forget_record(patch_id);
        match owed {
            Owed::Patch(redelivered) => self.apply_afresh(doc, *redelivered),
            Owed::State | Owed::FollowUp => self.send_state(patch_id, delivery, ReportedState::NotSeen, None),
            Owed::Nothing | Owed::Throw => {}
        }
    }

    /// Applying a patch that was handed out before says "no effect so far": the frame must name this journal (J12a)
    /// and this incarnation.
    fn apply_afresh(&mut self, doc: &DocId, delivery: Delivery) {
        let (patch_id, number) = (delivery.frame.patch_id, delivery.frame.delivery);
        if delivery.frame.journal_id != self.journal.id {
            self.send_unknown(patch_id, number, None);
        } else if self.incarnation(doc) != Some(delivery.frame.incarnation) {
            self.send_refusal(patch_id, number, Reason::WrongIncarnation, None);
        } else if let Some(document) = self.documents.get_mut(doc) {
            document.lane.queue.push_front(Work::Apply(delivery));
        }
    }

    /// A question whose record was settled while it waited. One that is gone was proven absent (J7).
    pub(super) fn answer_question(&mut self, now: Now, question: Question) {
        let Question { patch_id, delivery, owed } = question;
        match owed {
            Owed::Patch(redelivered) => self.on_patch(now, *redelivered),
            Owed::FollowUp if self.journal.record(patch_id).is_some() => {
                self.answer_from_record(now, patch_id, delivery, None);
            }
            Owed::State | Owed::FollowUp => {
                let record = self.journal.record(patch_id);
                let state = record.map_or(ReportedState::NotSeen, crate::journal::Record::reported);
                let reason = record.and_then(|r| r.reason);
                self.send_state(patch_id, delivery, state, reason);
            }
            Owed::Nothing | Owed::Throw => {}
        }
    }

    /// Nobody can tell, as far as this incarnation goes: it is not asked again until somebody asks.
    pub(super) fn now_unknown(&mut self, patch_id: PatchId, incarnation: Incarnation) {
        self.change_record(patch_id, |record| {
            record.state = RecordState::Unknown;
            record.move_to(incarnation);
        });
    }

    /// Takes a call that settles off the books, and frees its lane.
    fn end_call(&mut self, id: u64) -> Option<(Call, CallKind)> {
        let mut call = self.calls.remove(&id)?;
        let kind = std::mem::replace(&mut call.kind, CallKind::Handler { delivery: 0 });
        if self.is_current(&call.doc, call.incarnation) {
            let is_it =
                |r: &mut Running| matches!(r, Running::Handler { call } | Running::Reconcile { call } if *call == id);
            if let Some(document) = self.documents.get_mut(&call.doc) {
                document.lane.running.take_if(is_it);
            }
        }
        Some((call, kind))
    }

    /// A mark can be taken again, unless the lane goes on at once.
    pub(super) fn settled(&mut self, doc: &DocId) {
        if self.documents.contains_key(doc) {
            self.notify(Notice::Settled { doc: doc.clone() });
        }
    }

    pub(super) fn is_current(&self, doc: &DocId, incarnation: Incarnation) -> bool {
        self.incarnation(doc) == Some(incarnation)
    }
}
