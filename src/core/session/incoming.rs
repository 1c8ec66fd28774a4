//! What the server says: patches (J5), questions (J12), confirmations (R4), and the frames around them.

use super::document::{CallKind, Delivery, MAX_QUEUE, Owed, Question, Work};
use super::{Notice, Session};
use crate::digest;
use crate::error::ProblemCode;
use crate::frame::{
    AckFrame, ConfirmedAs, FrameError, PROTOCOL, PatchAddress, PatchFrame, QueryEntry, Reason, RejectCode,
    ReportedState, ServerFrame, TabFrame, Welcome,
};
use crate::ids::{DocId, Incarnation, PatchId};
use crate::journal::{Record, RecordState};
use crate::json;
use crate::time::Now;

impl Session {
    pub(super) fn on_frame(&mut self, now: Now, random: [u128; 2], conn: u64, text: &str) {
        let decoded = ServerFrame::decode(text);
        if text.len() > self.connection.max_frame_bytes {
            self.on_oversized(now, &decoded);
            return;
        }
        match decoded {
            Ok(ServerFrame::Welcome(welcome)) => self.on_welcome(now, random, welcome),
            Ok(ServerFrame::Opened { doc, incarnation, seq }) => self.on_opened(&doc, incarnation, seq),
            Ok(ServerFrame::Reject(code)) => self.rejected(now, code, random),
            Ok(ServerFrame::Patch(frame)) => self.on_patch(now, Delivery { conn, frame }),
            Ok(ServerFrame::PatchQuery(entries)) => entries.into_iter().for_each(|e| self.on_query(e)),
            Ok(ServerFrame::PatchConfirmed(entries)) => {
                entries.into_iter().for_each(|(id, as_)| self.on_confirmed(id, as_))
            }
            Ok(ServerFrame::DocChanged { doc, seq }) => self.notify(Notice::DocChanged { doc, seq }),
            Ok(ServerFrame::Pong { t, now: server_now }) => {
                if let Some(sent) = self.connection.ponged(t) {
                    self.clock.sample(sent, now, server_now);
                    self.time_told(now);
                }
            }
            Ok(ServerFrame::Unknown) => {}
            Err(error) => self.on_malformed(now, &error),
        }
    }

    fn on_oversized(&mut self, now: Now, decoded: &Result<ServerFrame, FrameError>) {
        let (address, doc) = match decoded {
            Ok(ServerFrame::Patch(f)) => {
                let address =
                    PatchAddress { patch_id: f.patch_id, delivery: f.delivery, journal_id: Some(f.journal_id) };
                (Some(address), Some(f.doc.clone()))
            }
            Ok(_) => (None, None),
            Err(error) => (error.patch, None),
        };
        self.problem(ProblemCode::FrameTooLarge, address.map(|a| a.patch_id), "a frame over the limit was not handled");
        if let Some(address) = address {
            self.refuse_unrecorded(now, address, doc.as_ref(), Reason::TooLarge);
        }
    }

    fn on_malformed(&mut self, now: Now, error: &FrameError) {
        self.problem(ProblemCode::MalformedFrame, error.patch.map(|p| p.patch_id), error.to_string());
        if let Some(address) = error.patch {
            self.refuse_unrecorded(now, address, None, Reason::Malformed);
        }
    }

    fn on_welcome(&mut self, now: Now, random: [u128; 2], welcome: Welcome) {
        if welcome.protocol != PROTOCOL {
            self.problem(ProblemCode::ProtocolError, None, "the server speaks another version");
            self.rejected(now, RejectCode::UnsupportedProtocol, random);
            return;
        }
        let Some(hello) = self.connection.welcomed(now, welcome.heartbeat_ms, welcome.max_frame_bytes) else {
            self.problem(ProblemCode::ProtocolError, None, "welcome without hello");
            return;
        };
        self.clock.sample(hello, now, welcome.now);
        self.notify(Notice::Connection(self.connection()));
        for (doc, incarnation, seq) in welcome.docs {
            self.on_opened(&doc, incarnation, seq);
        }
        self.announce_rest();
    }

    /// The predecessors are fenced: now the host may be asked about what they left open (J7).
    fn on_opened(&mut self, doc: &DocId, incarnation: Incarnation, seq: u64) {
        let is_current = |d: &&mut super::Document| d.incarnation == incarnation;
        let Some(document) = self.documents.get_mut(doc).filter(is_current) else { return };
        document.fenced_at = Some(seq);
        let can_tell = document.can_tell();
        self.notify(Notice::Opened { doc: doc.clone(), incarnation, seq });
        self.notify(Notice::Settled { doc: doc.clone() });
        if can_tell {
            self.ask_about_the_dead(doc, incarnation);
        }
    }

    fn ask_about_the_dead(&mut self, doc: &DocId, incarnation: Incarnation) {
        let open = self.journal.open_of(doc).into_iter();
        let dead = open.filter(|r| r.is_open_question(incarnation) && r.incarnation != incarnation);
        let questions: Vec<_> = dead
            .filter(|r| !self.is_under_way(r.patch_id))
            .map(|r| Question { patch_id: r.patch_id, delivery: r.delivery, owed: Owed::FollowUp })
            .collect();
        if let Some(document) = self.documents.get_mut(doc) {
            for question in questions {
                if document.lane.question_mut(question.patch_id).is_none() {
                    document.lane.queue.push_back(Work::Reconcile(question));
                }
            }
        }
    }

    /// J5, in the order of its bullets; what has no record must first be proven new (J12).
    pub(super) fn on_patch(&mut self, now: Now, delivery: Delivery) {
        let frame = &delivery.frame;
        let (patch_id, number, doc) = (frame.patch_id, frame.delivery, frame.doc.clone());
        let address = PatchAddress { patch_id, delivery: number, journal_id: Some(frame.journal_id) };
        if let Err(reason) = check_digest(frame) {
            self.problem(ProblemCode::MalformedFrame, Some(patch_id), reason.as_str());
            self.refuse_unrecorded(now, address, Some(&doc), reason);
            return;
        }
        let new = self.is_unheard_of(patch_id) && self.proves_absent(address, Some(&doc));
        if number == 1 {
            self.journal.saw_first_delivery(patch_id);
        }
        if self.known_digest(patch_id).is_some_and(|known| known != frame.digest) {
            self.send_refusal(patch_id, number, Reason::PatchIdReused, None);
            return;
        }
        if self.join_what_is_under_way(&doc, &delivery) {
            return;
        }
        self.record_carried(now, &delivery);
        if self.journal.record(patch_id).is_some() {
            self.answer_from_record(now, patch_id, number, Some(delivery));
            return;
        }
        if !new {
            self.send_unknown(patch_id, number, Some("this journal cannot tell whether the patch was applied before"));
            return;
        }
        let incarnation = frame.incarnation;
        let is_stuck = self.is_stuck(&doc);
        let refusal = match self.documents.get_mut(&doc) {
            None => Some(Reason::NotOpen),
            Some(document) if document.incarnation != incarnation => Some(Reason::WrongIncarnation),
            Some(document) if is_stuck || document.lane.queue.len() >= MAX_QUEUE => Some(Reason::Busy),
            Some(document) => {
                document.lane.queue.push_back(Work::Apply(delivery));
                None
            }
        };
        if let Some(reason) = refusal {
            self.send_refusal(patch_id, number, reason, None);
        }
    }

    /// A patch that the content carries by the host's word is applied already; now that its digest is known it has a
    /// record (J5).
    fn record_carried(&mut self, now: Now, delivery: &Delivery) {
        let frame = &delivery.frame;
        if self.journal.record(frame.patch_id).is_some() {
            return;
        }
        let Some(document) = self.documents.get_mut(&frame.doc) else { return };
        let incarnation = document.incarnation;
        let Some(at) = document.carried.iter().position(|c| c.patch_id == frame.patch_id) else { return };
        let flushed = document.carried.remove(at).flushed;
        let received_at = self.clock.estimate(now);
        let local_seq = self.journal.next_local_seq();
        self.put_record(Record {
            doc: frame.doc.clone(),
            patch_id: frame.patch_id,
            digest: frame.digest,
            incarnation,
            epoch: self.identity.epoch,
            state: RecordState::Applied,
            reason: None,
            other_reason: None,
            delivery: frame.delivery,
            local_seq,
            received_at,
            settled_at: Some(received_at),
            kept: false,
            flushed,
            doubted: false,
            confirmed: None,
            result: None,
        });
    }

    /// A patch that waits or runs: the newer frame replaces the older (J5). Returns whether there was one.
    fn join_what_is_under_way(&mut self, doc: &DocId, delivery: &Delivery) -> bool {
        let (patch_id, number) = (delivery.frame.patch_id, delivery.frame.delivery);
        let waiting = self.documents.get_mut(doc).is_some_and(|document| {
            if let Some(uncalled) = document.lane.uncalled_mut(patch_id) {
                if delivery.frame.incarnation == uncalled.frame.incarnation {
                    *uncalled = delivery.clone();
                }
                uncalled.frame.delivery = uncalled.frame.delivery.max(number);
                return true;
            }
            if let Some(question) = document.lane.question_mut(patch_id) {
                question.delivery = number;
                question.owed = Owed::Patch(Box::new(delivery.clone()));
                return true;
            }
            false
        });
        waiting || self.join_call(patch_id, number, Some(delivery))
    }

    /// A patch whose handler or hook runs. After its time-out the answer is `patch_unknown` at once (J9).
    fn join_call(&mut self, patch_id: PatchId, number: u64, delivery: Option<&Delivery>) -> bool {
        let Some(call) = self.calls.values_mut().find(|c| c.patch_id == patch_id) else { return false };
        let overdue = call.overdue;
        match &mut call.kind {
            CallKind::Handler { delivery } => *delivery = number.max(*delivery),
            CallKind::Reconcile(question) => {
                question.delivery = number;
                if !matches!(question.owed, Owed::Throw) {
                    question.owed = match delivery {
                        Some(delivery) if !overdue => Owed::Patch(Box::new(delivery.clone())),
                        None if !overdue => Owed::FollowUp,
                        _ => Owed::Nothing,
                    };
                }
            }
        }
        if overdue && delivery.is_some() {
            self.send_unknown(patch_id, number, Some("the handler has not settled"));
        }
        true
    }

    /// A patch that was delivered, asked about or garbled, and has a record.
    pub(super) fn answer_from_record(&mut self, now: Now, patch_id: PatchId, number: u64, delivery: Option<Delivery>) {
        let Some(record) = self.journal.record(patch_id) else { return };
        let current = self.incarnation(&record.doc);
        if record.state == RecordState::Refused {
            let reason = record.reason.unwrap_or(Reason::HandlerRefused);
            let word = record.other_reason.clone().map(String::from);
            self.send_refusal(patch_id, number, reason, word);
        } else if record.is_present_in(current) {
            let ack = AckFrame {
                patch_id,
                delivery: number,
                replayed: true,
                applied_at: record.settled_at.unwrap_or_else(|| self.clock.estimate(now)),
                result: record.result.clone(),
            };
            self.journal.count_replay(patch_id);
            self.send(TabFrame::PatchAck(ack));
        } else if self.can_be_asked(patch_id) {
            let owed = delivery.map_or(Owed::FollowUp, |d| Owed::Patch(Box::new(d)));
            self.ask(patch_id, number, owed);
        } else {
            self.send_unknown(patch_id, number, None);
        }
        self.change_record(patch_id, |r| r.delivery = r.delivery.max(number));
    }

    fn on_query(&mut self, entry: QueryEntry) {
        let QueryEntry { patch_id, delivery: number, journal_id } = entry;
        let address = PatchAddress { patch_id, delivery: number, journal_id: Some(journal_id) };
        if let Some(uncalled) = self.documents.values_mut().find_map(|d| d.lane.uncalled_mut(patch_id)) {
            uncalled.frame.delivery = uncalled.frame.delivery.max(number);
            self.send_state(patch_id, number, ReportedState::Applying, None);
            return;
        }
        if let Some(question) = self.documents.values_mut().find_map(|d| d.lane.question_mut(patch_id)) {
            question.delivery = number;
            self.send_state(patch_id, number, ReportedState::Applying, None);
            return;
        }
        if self.is_under_way(patch_id) {
            self.join_call(patch_id, number, None);
            let overdue = self.calls.values().any(|c| c.patch_id == patch_id && c.overdue);
            let state = if overdue { ReportedState::Unknown } else { ReportedState::Applying };
            self.send_state(patch_id, number, state, None);
            return;
        }
        if self.journal.record(patch_id).is_none() && self.is_carried(patch_id) {
            self.send_state(patch_id, number, ReportedState::Applied, None);
            return;
        }
        let Some(record) = self.journal.record(patch_id) else {
            let absent = self.proves_absent(address, None);
            let state = if absent { ReportedState::NotSeen } else { ReportedState::Unknown };
            self.send_state(patch_id, number, state, None);
            return;
        };
        if record.is_present_in(self.incarnation(&record.doc)) {
            self.send_state(patch_id, number, ReportedState::Applied, None);
        } else if record.state == RecordState::Refused {
            self.send_state(patch_id, number, ReportedState::Refused, record.reason);
        } else if self.can_be_asked(patch_id) {
            self.ask(patch_id, number, Owed::State);
        } else {
            self.send_state(patch_id, number, ReportedState::Unknown, None);
        }
        self.change_record(patch_id, |r| r.delivery = r.delivery.max(number));
    }

    /// Queues a question to the hook. Whoever cannot have the answer in this task hears `applying` first.
    fn ask(&mut self, patch_id: PatchId, number: u64, owed: Owed) {
        let Some(doc) = self.journal.record(patch_id).map(|r| r.doc.clone()) else { return };
        let Some(document) = self.documents.get_mut(&doc) else { return };
        let at_once = document.fenced_at.is_some() && document.lane.running.is_none() && document.lane.queue.is_empty();
        let (owed, tell) = match owed {
            Owed::State if !at_once => (Owed::FollowUp, true),
            owed => (owed, false),
        };
        let question = Question { patch_id, delivery: number, owed };
        match document.lane.question_mut(patch_id) {
            Some(waiting) => *waiting = question,
            None => document.lane.queue.push_back(Work::Reconcile(question)),
        }
        if tell {
            self.send_state(patch_id, number, ReportedState::Applying, None);
        }
    }

    /// The server's own commit followed what this tab had said (R4). `done` is the word of a save (P2), so the effect
    /// is in the stored document, whatever this tab knew of it (P5).
    fn on_confirmed(&mut self, patch_id: PatchId, confirmed: ConfirmedAs) {
        let under_way = self.is_under_way(patch_id);
        let record = self.journal.record(patch_id);
        let document = match record {
            Some(record) => {
                self.documents.get_mut(&record.doc).filter(|d| !record.flushed && d.incarnation == record.incarnation)
            }
            None => self.documents.values_mut().find(|d| d.carries(patch_id)),
        };
        if let Some(document) = document {
            if confirmed == ConfirmedAs::Done {
                document.note_stored(&[patch_id]);
            } else if document.fenced_at.is_none() {
                // Said before the server has heard of this content, it is about what it replaced (R1).
                return;
            }
        }
        self.change_record(patch_id, |record| {
            record.confirmed = Some(confirmed);
            if confirmed == ConfirmedAs::Done && record.state != RecordState::Refused && !under_way {
                record.state = RecordState::Applied;
                record.flushed = true;
            }
        });
    }

    /// A refusal about the frame or the moment, not recorded (J5). It too says "no effect so far", so a patch that is
    /// known is answered by what is known, and one that cannot be proven absent is `unknown` (J12).
    fn refuse_unrecorded(&mut self, now: Now, address: PatchAddress, doc: Option<&DocId>, reason: Reason) {
        let PatchAddress { patch_id, delivery, .. } = address;
        if self.is_uncalled(patch_id) {
            // Its own answer is on the way, and one is enough (J5).
        } else if self.journal.record(patch_id).is_some() && !self.is_under_way(patch_id) {
            self.answer_from_record(now, patch_id, delivery, None);
        } else if self.is_unheard_of(patch_id) && self.proves_absent(address, doc) {
            self.send_refusal(patch_id, delivery, reason, None);
        } else if self.is_unheard_of(patch_id) {
            self.send_unknown(patch_id, delivery, None);
        }
        // Otherwise the patch waits or runs, and its own answer is on the way.
    }

    fn proves_absent(&self, address: PatchAddress, doc: Option<&DocId>) -> bool {
        let fenced_home = doc.and_then(|d| self.documents.get(d)).is_some_and(super::Document::has_fenced_home);
        !self.is_carried(address.patch_id)
            && self.journal.proves_absent(address.patch_id, address.delivery, address.journal_id, fenced_home)
    }

    fn is_carried(&self, patch_id: PatchId) -> bool {
        self.documents.values().any(|d| d.carries(patch_id))
    }

    fn is_unheard_of(&mut self, patch_id: PatchId) -> bool {
        let asks = |d: &mut super::Document| d.lane.question_mut(patch_id).is_some();
        !self.is_under_way(patch_id)
            && self.journal.record(patch_id).is_none()
            && !self.is_uncalled(patch_id)
            && !self.documents.values_mut().any(asks)
    }

    /// Whether its frame waits its turn, or its intent is being written.
    fn is_uncalled(&mut self, patch_id: PatchId) -> bool {
        self.documents.values_mut().any(|d| d.lane.uncalled_mut(patch_id).is_some())
    }

    fn known_digest(&mut self, patch_id: PatchId) -> Option<digest::Digest> {
        if let Some(record) = self.journal.record(patch_id) {
            return Some(record.digest);
        }
        self.documents.values_mut().find_map(|d| d.lane.uncalled_mut(patch_id).map(|u| u.frame.digest))
    }

    fn can_be_asked(&self, patch_id: PatchId) -> bool {
        let Some(record) = self.journal.record(patch_id) else { return false };
        let knows = |d: &super::Document| d.reconciles || (d.is_fresh && record.incarnation != d.incarnation);
        self.documents.get(&record.doc).is_some_and(|d| knows(d) && record.is_open_question(d.incarnation))
    }
}

fn check_digest(frame: &PatchFrame) -> Result<(), Reason> {
    let body = json::parse(&frame.body).map_err(|_| Reason::Malformed)?;
    let digest = digest::patch_value(&frame.doc, &body).map_err(|_| Reason::Malformed)?;
    if digest == frame.digest { Ok(()) } else { Err(Reason::DigestMismatch) }
}
