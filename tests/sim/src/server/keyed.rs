//! A keyed write, from its claim to its answer (S1–S7).

use patchkeep_core::digest::Digest;
use patchkeep_core::frame::Homed;
use patchkeep_core::ids::{DocId, PatchId, Uuid};
use patchkeep_core::json;
use patchkeep_core::outbox;
use patchkeep_server::decide::{
    Answer, Attempt, Claim, ClaimFacts, Elected, ExecuteFacts, Execution, KeyId, KeyRow, KeyState, Rejoin, Since, View,
    Write, applied, claim, execute, expired, in_flight, outcome_unknown, rejoin, view,
};
use patchkeep_server::store::Guard;

use super::say::Say;
use super::{LEASE_MS, Stage, Task};
use crate::mutants::Mutant;
use crate::world::{Event, Sim};

/// One request of a caller.
#[derive(Clone, Debug)]
pub struct Request {
    /// Whose.
    pub op: usize,
    /// Its number among all requests.
    pub id: u64,
    /// Which attempt.
    pub number: u64,
    /// Only a question (K8).
    pub ask: bool,
    /// When the op's first attempt was made, on the server's clock, in ms.
    pub first_at: u64,
    /// What the key is bound to.
    pub fingerprint: Digest,
}

/// How long a caller waits before it asks about an attempt that is still under way, in ms.
const ASK_AGAIN_MS: u64 = 1000;

impl Sim {
    /// S1, S3, S7: the claim, in its own transaction.
    pub(crate) fn request_arrives(&mut self, request: Request) {
        let Some(id) = self.key_id(&request) else { return };
        let attempt = Attempt {
            id,
            route: "PATCH".into(),
            fingerprint: request.fingerprint,
            number: if self.is(Mutant::AnyAttempt) { u64::MAX } else { request.number },
            first_at: Some(request.first_at),
            ask: request.ask && !self.is(Mutant::AskClaims),
        };
        let facts = ClaimFacts {
            now: self.server_now(),
            token: Uuid::v4(self.rng.wide()),
            lease_ms: LEASE_MS,
            watermark: None,
        };
        let mut found = self.server.rows.keys.get(attempt.id.key.as_str()).cloned();
        if self.is(Mutant::ReplanUnknown)
            && let Some(row) = found.as_mut().filter(|r| r.state == KeyState::Unknown)
        {
            (row.state, row.lease_until) = (KeyState::Claimed, 0);
        }
        let claimed = claim(found.as_ref(), &attempt, &facts);
        if request.ask && matches!(claimed, Claim::Take(_) | Claim::TakeOver { .. }) {
            self.violated("K8: a question claims");
        }
        match claimed {
            Claim::Take(row) => {
                if self.server.rows.insert_key(row.clone()) {
                    self.row_written(&row);
                    self.begin_task(request, Stage::Claimed(row.into()));
                }
            }
            Claim::TakeOver { row, from } => {
                if self.write_row(&row, Guard::Token(from)) {
                    self.begin_task(request, Stage::Claimed(row.into()));
                }
            }
            Claim::Tell(answer) => self.answer(&request, &answer),
            Claim::Look => match found {
                Some(row) if request.ask => {
                    let answer = self.look(&row, true);
                    self.answer(&request, &answer);
                }
                Some(row) => self.join(request, row),
                None => self.answer(&request, &in_flight(ASK_AGAIN_MS)),
            },
        }
    }

    fn key_id(&self, request: &Request) -> Option<KeyId> {
        let key = self.ops.get(request.op)?.key.clone();
        let key = if self.is(Mutant::KeyPerAttempt) { format!("{key}-{}", request.number) } else { key };
        let key = key.parse().ok()?;
        Some(KeyId { principal: self.server.principal.clone(), key })
    }

    fn begin_task(&mut self, request: Request, stage: Stage) {
        self.server.last_task += 1;
        let task = self.server.last_task;
        match &stage {
            Stage::Claimed(_) => self.later(Event::Execute { task }),
            Stage::Waiting { until, .. } => {
                let at = until.saturating_sub(super::CLOCK_OFFSET);
                self.at(at, Event::Look { task });
                self.at(self.now, Event::Look { task });
            }
        }
        self.server.tasks.insert(task, Task { request, stage });
    }

    /// S3, S7: an attempt on a key that is out with a tab, or settled.
    fn join(&mut self, request: Request, row: KeyRow) {
        let Some(plan) = row.plan.clone() else {
            let answer = self.look(&row, true);
            return self.answer(&request, &answer);
        };
        let guard = Guard::Patch(plan.patch_id, row.state);
        if row.state == KeyState::Acked && request.number > row.attempt {
            self.write_row(&KeyRow { attempt: request.number, ..row.clone() }, guard);
        }
        if !matches!(row.state, KeyState::Delivered | KeyState::Unknown) {
            let answer = self.look(&row, true);
            return self.answer(&request, &answer);
        }
        let row = expired(&row, self.server_now()).unwrap_or(row);
        let owner = self.server.rows.tabs.get(&plan.recipient.tab_id);
        let here = self.server.here(plan.recipient.tab_id, &plan.recipient.doc);
        let here = here.filter(|h| owner.is_some_and(|o| o.conn == h.conn));
        let mut rejoined = rejoin(&row, request.number, here.as_ref());
        if self.is(Mutant::NotAsked)
            && let Rejoin::Ask(row) = &rejoined
        {
            let mut row = row.clone();
            if let (Some(plan), Some((incarnation, _))) = (&mut row.plan, here.as_ref().and_then(|h| h.open)) {
                plan.recipient.incarnation = incarnation;
                // A tab knows a patch that was handed out before by its number, and guards itself (J12).
                plan.delivery = 1;
            }
            rejoined = Rejoin::Again(row);
        }
        if !self.write_row(rejoined.row(), guard) {
            return self.answer(&request, &in_flight(ASK_AGAIN_MS));
        }
        let mut until = plan.expires_at;
        let mut say = Say::default();
        match (&rejoined, rejoined.row().plan.as_ref()) {
            (Rejoin::Again(_), Some(plan)) => say.hand_out(plan),
            (Rejoin::Ask(_), Some(plan)) => say.ask(plan),
            _ if row.state == KeyState::Unknown => {
                let answer = self.look(&row, true);
                return self.answer(&request, &answer);
            }
            _ => {}
        }
        if !matches!(rejoined, Rejoin::Gone(_)) {
            until = until.max(self.server_now() + self.setup.patch_timeout_ms);
        }
        self.begin_task(request, Stage::Waiting { patch_id: plan.patch_id, until, replayed: true });
        self.say(say, plan.recipient.tab_id, here.as_ref().map(|h| h.conn.as_str()));
    }

    /// S2, S4, S5: the claimed write. Its row is written under the claim token, or nothing is.
    pub(crate) fn execute_write(&mut self, task: u64) {
        let Some(Task { request, stage: Stage::Claimed(row) }) = self.server.tasks.remove(&task) else { return };
        let Some(op) = self.ops.get(request.op) else { return };
        let (doc, edit_text) = (op.doc.clone(), op.edit.clone());
        let edit = json::parse(&edit_text).unwrap_or(json::Value::Null);
        let document = self.server.rows.docs.get(&doc).cloned();
        let elected = self.elect(&doc);
        let wanted = Write { doc: &doc, edit_text: &edit_text, edit: &edit, guarded: op.guarded };
        let facts = ExecuteFacts {
            now: self.server_now(),
            patch_id: PatchId(Uuid::v4(self.rng.wide())),
            patch_timeout_ms: self.setup.patch_timeout_ms,
            max_edit_bytes: 1 << 18,
            max_doc_bytes: 1 << 20,
        };
        let execution = execute(&row, document.as_ref(), &wanted, elected.as_ref(), &facts);
        let current = self.server.rows.keys.get(row.id.key.as_str()).map_or(row.claim_token, |r| r.claim_token);
        let claimed = if self.is(Mutant::NoToken) { Guard::Token(current) } else { Guard::Claim(row.claim_token) };
        if !self.server.rows.holds(&row, claimed) && !self.is(Mutant::NoToken) {
            return self.answer(&request, &in_flight(ASK_AGAIN_MS));
        }
        match execution {
            Execution::Refuse(row) => {
                self.write_row(&row, claimed);
                let answer = self.look(&row, false);
                self.answer(&request, &answer);
            }
            Execution::Store { row, document } => {
                self.must_be_absent(row.id.key.as_str(), "written directly");
                let seq = document.seq;
                self.oracle.made_by.insert(request.op, None);
                if self.is(Mutant::DoneApart) && self.rng.chance(100) {
                    // The process dies between the two.
                    self.write_row(&row, claimed);
                    return self.restart_server();
                }
                if self.server.rows.put_document(&doc, document) {
                    self.write_row(&row, claimed);
                    self.doc_changed(&doc, seq, None);
                    let answer = self.look(&row, false);
                    self.answer(&request, &answer);
                }
            }
            Execution::HandOut(row) => {
                self.must_be_absent(row.id.key.as_str(), "planned");
                self.write_row(&row, claimed);
                let Some(plan) = &row.plan else { return };
                self.oracle.planned.insert(plan.patch_id, request.op);
                let mut say = Say::default();
                say.hand_out(plan);
                let (patch_id, until) = (plan.patch_id, plan.expires_at);
                self.begin_task(request, Stage::Waiting { patch_id, until, replayed: false });
                self.say(say, plan.recipient.tab_id, Some(&plan.conn));
            }
        }
    }

    /// S5: the longest connected tab that has the document open.
    fn elect(&self, doc: &DocId) -> Option<Elected> {
        let open = self.server.hub.iter().filter_map(|(id, t)| Some((id, t, *t.open.get(doc)?)));
        let (tab_id, tab, (incarnation, homed)): (_, _, (_, Homed)) = open.min_by_key(|(_, t, _)| t.since)?;
        Some(Elected { conn: tab.conn.clone(), tab_id: *tab_id, journal_id: tab.journal_id, incarnation, homed })
    }

    /// What a row says now. The diff is no decision, and left out.
    fn look(&self, row: &KeyRow, replayed: bool) -> Answer {
        let row = expired(row, self.server_now()).unwrap_or_else(|| row.clone());
        let here = row.plan.as_ref().is_some_and(|plan| {
            let here = self.server.here(plan.recipient.tab_id, &plan.recipient.doc);
            here.is_some_and(|h| h.journal_id == plan.recipient.journal_id)
        });
        match view(&row, replayed, false) {
            View::Answer(answer) => answer,
            View::Applied => applied(&row, here, replayed),
            View::Waiting => in_flight(ASK_AGAIN_MS),
            View::Unknown => outcome_unknown(&row, here, &Since { current_seq: 0, diff: String::new() }),
        }
    }

    /// S6: a request that waits looks at its row.
    pub(crate) fn look_again(&mut self, task: u64) {
        let Some(Task { request, stage: Stage::Waiting { patch_id, until, replayed } }) = self.server.tasks.get(&task)
        else {
            return;
        };
        let (request, patch_id, until, replayed) = (request.clone(), *patch_id, *until, *replayed);
        let Some(key) = self.ops.get(request.op).map(|op| op.key.clone()) else { return };
        let row = self.server.rows.keys.get(&key).filter(|r| r.plan.as_ref().is_some_and(|p| p.patch_id == patch_id));
        let Some(row) = row.cloned() else {
            self.server.tasks.remove(&task);
            return self.answer(&request, &in_flight(ASK_AGAIN_MS));
        };
        let over = self.server_now() >= until;
        let row = match expired(&row, self.server_now()) {
            Some(late) => {
                self.write_row(&late, Guard::Patch(patch_id, row.state));
                late
            }
            None => row,
        };
        if view(&row, replayed, !over) != View::Waiting {
            self.server.tasks.remove(&task);
            let answer = self.look(&row, replayed);
            self.answer(&request, &answer);
        }
    }

    fn answer(&mut self, request: &Request, answer: &Answer) {
        if self.fails(self.setup.profile.lose) {
            return self.lose_answer(request);
        }
        let headers = vec![("content-type".into(), "application/json".into())];
        let answer = outbox::Answer::Answered { status: answer.status, headers, body: answer.text() };
        self.later(Event::Answered { op: request.op, request: request.id, answer });
    }

    /// The caller's connection ends without an answer.
    pub(crate) fn lose_answer(&mut self, request: &Request) {
        self.later(Event::Answered { op: request.op, request: request.id, answer: outbox::Answer::Failed });
    }
}
