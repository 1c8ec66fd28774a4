//! Deadlines where the tab's clocks disagree (J2): the server is asked for the time, and its answer judges.

use super::Session;
use super::document::{Delivery, Running};
use crate::error::ProblemCode;
use crate::frame::Reason;
use crate::ids::DocId;
use crate::time::Now;

impl Session {
    /// The local clocks disagree, and it depends on them whether the deadline has passed: the server is asked for the
    /// time, and the lane waits for its answer (J2). Returns whether there is somebody to ask.
    pub(super) fn ask_the_time(&mut self, now: Now, doc: &DocId, delivery: &Delivery, has_intent: bool) -> bool {
        let Some(t) = self.connection.ping_now(now) else { return false };
        let patch_id = Some(delivery.frame.patch_id);
        self.problem(
            ProblemCode::ClocksDisagree,
            patch_id,
            "this machine's clocks disagree: the server is asked for the time",
        );
        self.ping(t);
        let until_ms = now.mono_ms + self.connection.heartbeat_ms();
        self.set_running(doc, Some(Running::Asks { until_ms, delivery: delivery.clone(), has_intent }));
        true
    }

    /// The server has told its time: lanes that asked for it go on, by that answer alone.
    pub(super) fn time_told(&mut self, now: Now) {
        for (doc, delivery, has_intent) in self.take_questions(|_| true) {
            let is_past = self.clock.is_past_by_newest(now, delivery.frame.expires_at);
            self.deadline_judged(now, &doc, delivery, has_intent, is_past);
        }
    }

    /// Nobody answered within a heartbeat: the deadline counts as past.
    pub(super) fn run_due_questions(&mut self, now: Now) {
        for (doc, delivery, has_intent) in self.take_questions(|until_ms| now.mono_ms >= until_ms) {
            self.deadline_judged(now, &doc, delivery, has_intent, true);
        }
    }

    fn take_questions(&mut self, is_over: impl Fn(u64) -> bool) -> Vec<(DocId, Delivery, bool)> {
        let asked = self.documents.values_mut().filter(|d| d.asks_until().is_some_and(&is_over));
        let taken = asked.filter_map(|d| match d.lane.running.take() {
            Some(Running::Asks { delivery, has_intent, .. }) => Some((d.id.clone(), delivery, has_intent)),
            _ => None,
        });
        taken.collect()
    }

    fn deadline_judged(&mut self, now: Now, doc: &DocId, delivery: Delivery, has_intent: bool, is_past: bool) {
        let (patch_id, number) = (delivery.frame.patch_id, delivery.frame.delivery);
        match (has_intent, is_past) {
            (true, _) if !self.still_stands(now, &delivery) => {}
            (true, true) => self.refuse(now, patch_id, number, Reason::Expired, None),
            (true, false) => self.in_time(now, doc, delivery),
            (false, true) => self.refuse_expired(now, doc, &delivery),
            (false, false) => self.write_intent(now, doc, delivery),
        }
    }
}
