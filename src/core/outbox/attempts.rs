//! Attempts and questions: what goes on as soon as it is due, and the checks in the task that sends (K6, K7, K9).

use super::OpKey;
use super::engine::{GRACE_MS, Outbox, PROBE_MS};
use super::entries::{Entry, Flight};
use super::io::{OutboxOutput, Request};
use super::op::{Op, OpState};
use crate::time::Now;

impl Outbox {
    /// The ops that go on as soon as they are due, where any may.
    pub(super) fn candidates(&self) -> impl Iterator<Item = &Entry> {
        let may = !self.suspended && self.has_room();
        self.entries.candidates().filter(move |_| may)
    }

    fn has_room(&self) -> bool {
        self.entries.flying().count() < self.config.most_under_way
    }

    pub(super) fn run_lanes(&mut self, now: Now, server_now_ms: Option<u64>) {
        let due = |e: &&Entry| now.mono_ms >= e.due_ms;
        let ready: Vec<OpKey> = self.candidates().filter(due).map(|e| e.op.key.clone()).collect();
        for key in ready {
            if self.has_room() {
                self.begin(now, server_now_ms, &key);
            }
        }
    }

    /// Begins what is due for an op: an attempt, or a question about one that was applied.
    pub(super) fn begin(&mut self, now: Now, server_now_ms: Option<u64>, key: &OpKey) {
        let Some(entry) = self.entries.get(key) else { return };
        let (origin, is_question) = (entry.op.origin.clone(), entry.op.state == OpState::Applied || entry.wants_asking);
        let over = match entry.op.state {
            _ if entry.wants_asking => None,
            // Asking is not sending: it ends neither with the key's life nor with the op's deadline (K7).
            OpState::Applied => (entry.failures >= self.config.most_questions).then_some("questions_exhausted"),
            _ => self.is_over(now, &entry.op),
        };
        if let Some(code) = over {
            self.end_unsent(key, code);
            return;
        }
        let Some(listed) = self.capabilities(now, &origin) else {
            self.await_capabilities(now, key, &origin);
            return;
        };
        if self.offline {
            self.probe(now, key, &origin);
            return;
        }
        let Some(entry) = self.entry_mut(key) else { return };
        if is_question {
            entry.wants_asking = false;
            if listed.idempotency_keys {
                self.request(now, key, true);
            } else {
                // A server that keeps no keys would take the question for the write itself (K8).
                entry.due_ms = now.mono_ms + PROBE_MS;
                entry.failures = entry.failures.saturating_add(1);
                self.forget_capabilities(now, &origin);
                self.save(key);
            }
            return;
        }
        if entry.op.ambiguous && !(entry.op.keys_listed_at_first && listed.idempotency_keys) {
            self.end_unsent(key, "keys_not_listed");
            return;
        }
        entry.op.attempts += 1;
        entry.op.state = OpState::Sending;
        if entry.op.attempts == 1 {
            entry.op.first_attempt_ms = Some(now.wall_ms);
            entry.op.first_attempt_server_ms = server_now_ms;
            entry.first_attempt_mono_ms = Some(now.mono_ms);
            entry.op.keys_listed_at_first = listed.idempotency_keys;
        }
        self.save(key);
        let transaction = self.next_transaction();
        self.entries.take_off(key, Flight::Writing { transaction });
        if self.entries.get(key).is_some_and(|e| e.is_volatile) {
            self.sending_is_written(now, key, transaction);
        }
    }

    /// Why an op may not be sent (again): its deadline, its key's life (K7) or its attempts are over.
    pub(super) fn is_over(&self, now: Now, op: &Op) -> Option<&'static str> {
        let is_exhausted = op.attempts >= self.config.most_attempts;
        self.is_over_in_time(now, op).or_else(|| is_exhausted.then_some("attempts_exhausted"))
    }

    pub(super) fn is_over_in_time(&self, now: Now, op: &Op) -> Option<&'static str> {
        let ttl = self.origins.get(&op.origin).and_then(|o| o.known).and_then(|c| c.key_ttl_ms);
        let ttl = ttl.unwrap_or(self.config.default_key_ttl_ms);
        if self.age_of_key(now, op).is_some_and(|age| age >= ttl) {
            return Some("key_ttl_passed");
        }
        let is_late = op.deadline_ms.is_some_and(|deadline| now.wall_ms >= deadline);
        is_late.then_some("deadline_passed")
    }

    /// How long ago an op's first attempt was, in ms, by the clock that says most (K7): a wall clock that was set back
    /// must not lengthen a key's life, nor a monotonic one that began anew with the page.
    fn age_of_key(&self, now: Now, op: &Op) -> Option<u64> {
        let wall = op.first_attempt_ms.map(|first| now.wall_ms.saturating_sub(first));
        let server = self.server_clock.zip(op.first_attempt_server_ms).map(|((server_ms, mono_ms), first)| {
            (server_ms + now.mono_ms.saturating_sub(mono_ms)).saturating_sub(first)
        });
        let here = self.entries.get(&op.key).and_then(|e| e.first_attempt_mono_ms);
        wall.max(server).max(here.map(|first| now.mono_ms.saturating_sub(first)))
    }

    /// Ends an op without another attempt: one that was never sent had no effect, of any other nobody can tell.
    pub(super) fn end_unsent(&mut self, key: &OpKey, code: &'static str) {
        let Some(entry) = self.entry_mut(key) else { return };
        entry.give_up(code);
        entry.flight = None;
        self.save(key);
    }

    /// Waiting ends early, for ops that wait on nothing but time.
    pub(super) fn hurry(&mut self, now: Now) {
        for entry in self.entries.iter_mut() {
            if !entry.awaits_capabilities {
                entry.due_ms = entry.due_ms.min(now.mono_ms.max(entry.floor_ms));
            }
        }
    }

    /// `sending` is durable: the request goes out in this task, unless something has come between (K7, K10).
    pub(super) fn sending_is_written(&mut self, now: Now, key: &OpKey, id: u64) {
        let Some(entry) = self.entries.get(key).filter(|e| e.flight == Some(Flight::Writing { transaction: id }))
        else {
            return;
        };
        // What the origin can do may have become an old word while this was written (K4).
        let may_be_sent = !self.suspended && self.knows_capabilities(&entry.op.origin);
        let Some(entry) = self.entry_mut(key) else { return };
        if entry.is_cancelled {
            entry.flight = None;
            self.cancel_unsent(key);
            return;
        }
        if !may_be_sent {
            entry.take_back();
            entry.due_ms = now.mono_ms;
            self.save(key);
            return;
        }
        entry.flight = None;
        if let Some(code) = self.op(key).and_then(|op| self.is_over_in_time(now, op)) {
            self.end_unsent(key, code);
            return;
        }
        self.request(now, key, false);
    }

    pub(super) fn request(&mut self, now: Now, key: &OpKey, ask: bool) {
        self.last_request += 1;
        let request = self.last_request;
        let timeout_ms = self.config.attempt_timeout_ms;
        let Some(op) = self.op(key) else { return };
        let listed = self.origins.get(&op.origin).and_then(|o| o.known).unwrap_or_default();
        let mut headers = vec![("Idempotency-Key", op.key.header_value(listed.structured_keys))];
        if ask {
            headers.push(("Idempotency-Ask", "true".into()));
        } else if listed.attempts {
            headers.push(("Idempotency-Attempt", op.attempts.to_string()));
            if let Some(ms) = op.first_attempt_server_ms {
                headers.push(("Idempotency-First-Attempt", ms.to_string()));
            }
        }
        if op.body.is_some() {
            headers.push(("Content-Type", op.content_type.clone()));
        }
        let (method, body) = (op.method.clone(), op.body.clone());
        let url = op.origin.clone() + &op.path;
        let fetch = Request { request, key: key.clone(), method, url, body, headers, timeout_ms };
        self.outputs.push_back(OutboxOutput::Fetch(fetch));
        let until_ms = now.mono_ms + timeout_ms + GRACE_MS;
        self.entries.take_off(key, Flight::Request { request, ask, until_ms });
    }
}
