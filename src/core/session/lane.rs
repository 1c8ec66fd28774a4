//! One document's work, one at a time, in arrival order (J9): intents before handlers (J1), deadlines and guards in
//! the task that calls (J2), and what happens when the host's code takes too long.

use super::document::{Call, CallKind, Delivery, Owed, Question, Running, Work};
use super::wire::bounded;
use super::{HandlerCall, Output, ReconcileCall, Session};
use crate::error::ProblemCode;
use crate::frame::{PatchFrame, Reason, ReportedState, TabFrame};
use crate::ids::{DocId, PatchId};
use crate::journal::{Record, RecordState};
use crate::tab::Deadline;
use crate::time::Now;

impl Session {
    pub(super) fn run_lanes(&mut self, now: Now) {
        if self.has_ended() {
            return;
        }
        // Lanes with nothing to do are passed over without a copy: there may be thousands, and this runs every time.
        let next = |s: &Self| s.documents.values().find(|d| d.can_begin()).map(|d| d.id.clone());
        while let Some(doc) = next(self) {
            self.step_lane(now, &doc);
        }
    }

    /// Begins the next work of a lane that can.
    fn step_lane(&mut self, now: Now, doc: &DocId) {
        match self.documents.get_mut(doc).and_then(|d| d.lane.queue.pop_front()) {
            Some(Work::Apply(delivery)) => self.begin_patch(now, doc, delivery),
            Some(Work::Reconcile(question)) => self.begin_question(now, doc, question),
            None => {}
        }
    }

    /// Writes the intent, unless the deadline has passed already (J2).
    fn begin_patch(&mut self, now: Now, doc: &DocId, delivery: Delivery) {
        match self.clock.judge(now, delivery.frame.expires_at) {
            Deadline::Ahead => self.write_intent(now, doc, delivery),
            Deadline::Disputed if self.ask_the_time(now, doc, &delivery, false) => {}
            Deadline::Disputed | Deadline::Past => self.refuse_expired(now, doc, &delivery),
        }
    }

    /// The intent is durable before the handler is called (J1).
    pub(super) fn write_intent(&mut self, now: Now, doc: &DocId, delivery: Delivery) {
        let record = self.new_record(now, doc, &delivery.frame);
        match self.put_intent(record) {
            Some(transaction) => self.set_running(doc, Some(Running::Intent { transaction, delivery })),
            None => self.ready(now, doc, delivery),
        }
    }

    /// Its deadline had passed before anything was written.
    pub(super) fn refuse_expired(&mut self, now: Now, doc: &DocId, delivery: &Delivery) {
        let mut record = self.new_record(now, doc, &delivery.frame);
        record.state = RecordState::Refused;
        record.reason = Some(Reason::Expired);
        record.settled_at = Some(record.received_at);
        self.put_record(record);
        self.send_refusal(delivery.frame.patch_id, delivery.frame.delivery, Reason::Expired, None);
    }

    fn new_record(&mut self, now: Now, doc: &DocId, frame: &PatchFrame) -> Record {
        Record {
            doc: doc.clone(),
            patch_id: frame.patch_id,
            digest: frame.digest,
            incarnation: frame.incarnation,
            epoch: self.identity.epoch,
            state: RecordState::Applying,
            reason: None,
            other_reason: None,
            delivery: frame.delivery,
            local_seq: self.journal.next_local_seq(),
            received_at: self.clock.estimate(now),
            settled_at: None,
            kept: false,
            flushed: false,
            doubted: false,
            confirmed: None,
            result: None,
        }
    }

    /// A transaction is durable: the intents in it may become calls.
    pub(super) fn intents_durable(&mut self, now: Now, id: u64) {
        let is_ours = |r: &mut Running| matches!(r, Running::Intent { transaction, .. } if *transaction == id);
        let durable =
            self.documents.values_mut().filter_map(|d| Some((d.id.clone(), d.lane.running.take_if(is_ours)?)));
        for (doc, running) in durable.collect::<Vec<_>>() {
            if let Running::Intent { delivery, .. } = running {
                self.ready(now, &doc, delivery);
            }
        }
    }

    /// The last checks, in the task that calls (J2, J3).
    fn ready(&mut self, now: Now, doc: &DocId, delivery: Delivery) {
        if !self.still_stands(now, &delivery) {
            return;
        }
        let PatchFrame { patch_id, delivery: number, expires_at, .. } = delivery.frame;
        match self.clock.judge(now, expires_at) {
            Deadline::Ahead => self.in_time(now, doc, delivery),
            Deadline::Disputed if self.ask_the_time(now, doc, &delivery, true) => {}
            Deadline::Disputed | Deadline::Past => self.refuse(now, patch_id, number, Reason::Expired, None),
        }
    }

    /// Whether the intent is still to become a call: nobody has settled the record meanwhile, and the socket that
    /// carried the patch is there (J3).
    pub(super) fn still_stands(&mut self, now: Now, delivery: &Delivery) -> bool {
        let PatchFrame { patch_id, delivery: number, .. } = delivery.frame;
        if !self.is_intended(delivery) {
            self.answer_from_record(now, patch_id, number, None);
            return false;
        }
        let is_carried = self.connection.talking() == Some(delivery.conn);
        if !is_carried {
            self.forget_record(patch_id);
        }
        is_carried
    }

    pub(super) fn in_time(&mut self, now: Now, doc: &DocId, delivery: Delivery) {
        if delivery.frame.guarded {
            let call = self.next_call();
            self.set_running(doc, Some(Running::Guard { call, delivery }));
            self.outputs.push_back(Output::CheckGuard { call, doc: doc.clone() });
        } else {
            self.call_handler(now, doc, delivery);
        }
    }

    pub(super) fn on_guard(&mut self, now: Now, call: u64, unconfirmed: bool) {
        let is_it = |r: &mut Running| matches!(r, Running::Guard { call: c, .. } if *c == call);
        let found = self.documents.values_mut().find_map(|d| Some((d.id.clone(), d.lane.running.take_if(is_it)?)));
        let Some((doc, Running::Guard { delivery, .. })) = found else { return };
        if !self.is_intended(&delivery) {
            self.answer_from_record(now, delivery.frame.patch_id, delivery.frame.delivery, None);
        } else if unconfirmed {
            self.refuse(now, delivery.frame.patch_id, delivery.frame.delivery, Reason::UnconfirmedEdits, None);
        } else {
            self.call_handler(now, &doc, delivery);
        }
    }

    /// Whether the intent still stands: what the server said meanwhile may have settled the record without a call.
    fn is_intended(&self, delivery: &Delivery) -> bool {
        let record = self.journal.record(delivery.frame.patch_id);
        record.is_some_and(|r| r.state == RecordState::Applying && r.incarnation == delivery.frame.incarnation)
    }

    /// Takes a call back that the host has not been given yet: what it was told before may have made it close the
    /// document, replace its content or lose the socket (J3). Returns the patch and the hand-out that is answered.
    pub(super) fn take_back(&mut self, call: u64) -> Option<(PatchId, u64)> {
        let before = self.outputs.len();
        self.outputs.retain(|o| !matches!(o, Output::CallHandler(queued) if queued.call == call));
        if self.outputs.len() == before {
            return None;
        }
        let Call { patch_id, kind, .. } = self.calls.remove(&call)?;
        if let CallKind::Handler { delivery } = kind { Some((patch_id, delivery)) } else { None }
    }

    fn call_handler(&mut self, now: Now, doc: &DocId, delivery: Delivery) {
        let frame = delivery.frame;
        let call = self.next_call();
        let kind = CallKind::Handler { delivery: frame.delivery };
        self.begin_call(now, call, doc, frame.patch_id, kind);
        self.set_running(doc, Some(Running::Handler { call }));
        self.change_record(frame.patch_id, |r| r.delivery = r.delivery.max(frame.delivery));
        self.send(TabFrame::PatchStart { patch_id: frame.patch_id, delivery: frame.delivery });
        self.outputs.push_back(Output::CallHandler(HandlerCall {
            call,
            doc: doc.clone(),
            incarnation: frame.incarnation,
            patch_id: frame.patch_id,
            delivery: frame.delivery,
            body: frame.body,
            expires_at: frame.expires_at,
            guarded: frame.guarded,
            base_seq: frame.base_seq,
        }));
    }

    fn begin_question(&mut self, now: Now, doc: &DocId, question: Question) {
        let patch_id = question.patch_id;
        let Some(incarnation) = self.incarnation(doc) else { return };
        let is_open = |r: &&Record| r.is_open_question(incarnation) || matches!(question.owed, Owed::Throw);
        let Some(record) = self.journal.record(patch_id).filter(is_open) else {
            self.answer_question(now, question);
            return;
        };
        if let Some(document) = self.documents.get(doc).filter(|d| !d.reconciles) {
            let told = document.tells(record);
            self.found_missing(now, doc, told, question);
            self.settled(doc);
            return;
        }
        let record = self.view(record);
        let call = self.next_call();
        self.begin_call(now, call, doc, patch_id, CallKind::Reconcile(question));
        self.set_running(doc, Some(Running::Reconcile { call }));
        self.outputs.push_back(Output::CallReconcile(ReconcileCall { call, incarnation, record }));
    }

    fn begin_call(&mut self, now: Now, call: u64, doc: &DocId, patch_id: PatchId, kind: CallKind) {
        let Some(document) = self.documents.get(doc) else { return };
        let incarnation = document.incarnation;
        let doc = doc.clone();
        self.calls.insert(call, Call { doc, incarnation, patch_id, since: now, overdue: false, kind });
    }

    fn next_call(&mut self) -> u64 {
        self.last_call += 1;
        self.last_call
    }

    pub(super) fn set_running(&mut self, doc: &DocId, running: Option<Running>) {
        if let Some(document) = self.documents.get_mut(doc) {
            document.lane.running = running;
        }
    }

    /// Calls that have taken too long: their patch is `unknown`, and what waits behind them is `busy`, proven not to
    /// have been started (J9). They may still settle, however late.
    pub(super) fn run_due_calls(&mut self, now: Now) {
        let timeout = self.config.handler_timeout_ms;
        let due = |c: &Call| !c.overdue && now.mono_ms >= c.since.mono_ms + timeout;
        let due: Vec<u64> = self.calls.iter().filter(|(_, c)| due(c)).map(|(id, _)| *id).collect();
        for id in due {
            let Some(call) = self.calls.get_mut(&id) else { continue };
            call.overdue = true;
            let (doc, patch_id, incarnation) = (call.doc.clone(), call.patch_id, call.incarnation);
            let number = match &mut call.kind {
                CallKind::Handler { delivery } => Some(*delivery),
                CallKind::Reconcile(question) => match question.owed {
                    Owed::Throw => Some(question.delivery),
                    Owed::Nothing => None,
                    _ => {
                        question.owed = Owed::Nothing;
                        Some(question.delivery)
                    }
                },
            };
            self.problem(
                ProblemCode::HandlerTimeout,
                Some(patch_id),
                "a handler or reconcile hook has not settled in time",
            );
            if let Some(number) = number {
                self.send_unknown(patch_id, number, Some("the handler has not settled"));
            }
            if self.incarnation(&doc) == Some(incarnation) {
                self.refuse_queue(&doc, Reason::Busy);
            }
            // A save that waited for it goes on, with the patch in doubt.
            self.settled(&doc);
        }
    }

    /// Whether the lane's work has not settled in time.
    pub(super) fn is_stuck(&self, doc: &DocId) -> bool {
        let running = self.documents.get(doc).and_then(|d| d.lane.running.as_ref());
        let Some(Running::Handler { call } | Running::Reconcile { call }) = running else { return false };
        self.calls.get(call).is_some_and(|c| c.overdue)
    }

    /// Empties a lane's queue: patches are refused for this reason, proven never to have been started; questions stay
    /// open, and whoever is owed an answer hears that it is not known.
    pub(super) fn refuse_queue(&mut self, doc: &DocId, reason: Reason) {
        let Some(document) = self.documents.get_mut(doc) else { return };
        for work in std::mem::take(&mut document.lane.queue) {
            match work {
                Work::Apply(d) => self.send_refusal(d.frame.patch_id, d.frame.delivery, reason, None),
                Work::Reconcile(question) => self.leave_open(&question),
            }
        }
    }

    /// Tells whoever is owed the answer to a question that it is not known.
    pub(super) fn leave_open(&mut self, question: &Question) {
        match question.owed {
            Owed::Nothing => {}
            Owed::State => self.send_state(question.patch_id, question.delivery, ReportedState::Unknown, None),
            Owed::FollowUp | Owed::Patch(_) | Owed::Throw => {
                self.send_unknown(question.patch_id, question.delivery, None)
            }
        }
    }

    /// Records a refusal about the patch itself, which is final, and says so (J5).
    pub(super) fn refuse(&mut self, now: Now, patch_id: PatchId, number: u64, reason: Reason, detail: Option<String>) {
        let settled_at = self.clock.estimate(now);
        self.change_record(patch_id, |record| {
            record.state = RecordState::Refused;
            record.reason = Some(reason);
            record.delivery = record.delivery.max(number);
            record.settled_at = Some(settled_at);
        });
        self.send_refusal(patch_id, number, reason, detail);
    }

    pub(super) fn send_refusal(&mut self, patch_id: PatchId, delivery: u64, reason: Reason, detail: Option<String>) {
        self.send(TabFrame::PatchRefuse { patch_id, delivery, reason, detail: bounded(detail) });
    }

    pub(super) fn send_unknown(&mut self, patch_id: PatchId, delivery: u64, detail: Option<&str>) {
        self.send(TabFrame::PatchUnknown { patch_id, delivery, detail: bounded(detail.map(Into::into)) });
    }

    pub(super) fn send_state(
        &mut self,
        patch_id: PatchId,
        delivery: u64,
        state: ReportedState,
        reason: Option<Reason>,
    ) {
        self.send(TabFrame::PatchState { patch_id, delivery, state, reason });
    }
}
