//! What becomes of an op: answers (K5, K6), credentials, and the host's own decisions (K8–K10).

use super::OpKey;
use super::answer::{Answer, Outcome, Reading, Retry, Standing, read};
use super::engine::{BASE_MS, CAP_MS, LEAST_WAIT_MS, MOST_WAIT_MS, Outbox};
use super::entries::{Entry, Flight};
use super::io::{EnqueueError, NewOp, OutboxOutput};
use super::op::{MAX_RESPONSE_BYTES, MAX_TYPE_BYTES, OnFailure, Op, OpState};
use crate::frame::cut;
use crate::tab::full_jitter;
use crate::time::Now;

/// Questions about an applied op come no faster than this, and no slower than [`MOST_ASK_MS`].
const LEAST_ASK_MS: u64 = 500;
const MOST_ASK_MS: u64 = 30_000;

impl Outbox {
    pub(super) fn on_answer(
        &mut self,
        now: Now,
        server_now_ms: Option<u64>,
        random: u128,
        request: u64,
        answer: &Answer,
    ) {
        let is_its = |e: &&Entry| matches!(e.flight, Some(Flight::Request { request: r, .. }) if r == request);
        let Some(key) = self.entries.flying().find(is_its).map(|e| e.op.key.clone()) else { return };
        let Some(entry) = self.entry_mut(&key) else { return };
        let Some(Flight::Request { ask, .. }) = entry.flight.take() else { return };
        let origin = entry.op.origin.clone();
        if matches!(answer, Answer::Answered { status: 500.., .. }) {
            self.forget_capabilities(now, &origin);
        }
        let may_be_listed = self.may_list_keys(&origin);
        let Some(entry) = self.entry_mut(&key) else { return };
        let op = &mut entry.op;
        let standing = Standing {
            keys_listed: op.keys_listed_at_first && may_be_listed,
            // What is known already is not undone by a gateway that refuses a question.
            earlier_ambiguous: op.ambiguous || ask,
            expects_other_type: op.expects_other_type,
            server_now_ms,
        };
        let reading = read(answer, standing);
        if ask || op.state.is_settled() {
            entry.take_news(&reading, answer);
            entry.ask_later(now, random);
        } else {
            entry.take_answer(now, random, &reading, answer);
            if reading.retry == Retry::AfterCredentials {
                self.ask_for_credentials(now, &key, reading.outcome == Outcome::Pending);
            }
        }
        self.save(&key);
    }

    /// A request that has not ended long after its time-out never will: its answer is lost (K12). A host that has not
    /// found credentials in time has none (K5).
    pub(super) fn give_up_the_silent(&mut self, now: Now, server_now_ms: Option<u64>, random: u128) {
        let silent = |e: &Entry| {
            let flight = e.flight.filter(|f| f.until_ms().is_some_and(|until| now.mono_ms >= until))?;
            Some((e.op.key.clone(), flight))
        };
        let silent: Vec<(OpKey, Flight)> = self.entries.flying().filter_map(silent).collect();
        for (key, flight) in silent {
            match flight {
                Flight::Request { request, .. } => self.on_answer(now, server_now_ms, random, request, &Answer::Failed),
                Flight::Refreshing { .. } => self.on_refreshed(now, &key, false),
                Flight::Writing { .. } => {}
            }
        }
    }

    /// A 401 is worth one attempt with fresh credentials; another principal's are the host's to change (K5, T6).
    fn ask_for_credentials(&mut self, now: Now, key: &OpKey, another_principal: bool) {
        let until_ms = now.mono_ms + self.config.credentials_timeout_ms;
        let Some(entry) = self.entry_mut(key) else { return };
        if entry.op.refreshed || another_principal {
            entry.op.state = OpState::Held;
        } else {
            entry.op.refreshed = true;
            entry.op.state = OpState::Waiting;
            entry.flight = Some(Flight::Refreshing { until_ms });
            self.outputs.push_back(OutboxOutput::RefreshCredentials { key: key.clone() });
        }
    }

    pub(super) fn on_refreshed(&mut self, now: Now, key: &OpKey, fresh: bool) {
        let Some(entry) = self.entry_mut(key) else { return };
        match entry.flight {
            // Only what waits for them can be held for want of them: the host may have ended the op meanwhile.
            Some(Flight::Refreshing { .. }) if fresh || entry.op.state != OpState::Waiting => {}
            Some(Flight::Refreshing { .. }) => entry.op.state = OpState::Held,
            // The host was given up; what it found after all is used.
            None if fresh && entry.op.state == OpState::Held => entry.op.state = OpState::Waiting,
            _ => return,
        }
        entry.flight = None;
        entry.due_ms = now.mono_ms;
        self.save(key);
    }

    pub(super) fn release_held(&mut self, now: Now) {
        let held = |e: &Entry| e.op.state == OpState::Held;
        let keys: Vec<OpKey> = self.entries.iter().filter(|e| held(e)).map(|e| e.op.key.clone()).collect();
        for key in keys {
            if let Some(entry) = self.entry_mut(&key) {
                entry.op.state = OpState::Waiting;
                entry.op.refreshed = false;
                entry.due_ms = now.mono_ms;
            }
            self.save(&key);
        }
    }

    /// Gives an op up. Before its first attempt it goes without a trace; after it, nothing more is attempted, and
    /// nobody can tell what became of it unless an answer still comes (K10). Returns whether there is such an op.
    pub fn cancel(&mut self, now: Now, key: &OpKey) -> bool {
        let Some(entry) = self.entry_mut(key) else { return false };
        entry.is_cancelled = true;
        match entry.flight {
            // Whether it is sent is decided when the write has ended.
            Some(Flight::Writing { .. }) => {}
            _ if entry.op.state.is_settled() => {}
            _ => self.cancel_unsent(key),
        }
        self.advance(now, None, 0);
        true
    }

    pub(super) fn cancel_if_wanted(&mut self, key: &OpKey) {
        if self.entry_mut(key).is_some_and(|e| e.is_cancelled && !e.op.state.is_settled()) {
            self.cancel_unsent(key);
        }
    }

    /// An op that is not about to be sent is given up.
    pub(super) fn cancel_unsent(&mut self, key: &OpKey) {
        let Some(entry) = self.entry_mut(key) else { return };
        let never_sent = match entry.op.state {
            OpState::Queued => true,
            // Its first `sending` was written, and nothing has gone out in this context.
            OpState::Sending => entry.op.attempts == 1 && entry.flight.is_none(),
            _ => false,
        };
        if never_sent {
            self.forget(key);
            return;
        }
        // Nobody waits for credentials any more; of a request the answer still counts.
        entry.flight = entry.flight.filter(|f| !matches!(f, Flight::Refreshing { .. }));
        entry.give_up("cancelled");
        self.save(key);
    }

    /// Asks the server what became of an op, as soon as it is known to keep keys: answered from the row, never claims,
    /// never writes (K8). [`OutboxOutput::Changed`] follows in any case. Returns whether there is something to ask about.
    pub fn ask_again(&mut self, now: Now, key: &OpKey) -> bool {
        if self.fenced {
            return false;
        }
        let Some(entry) = self.entry_mut(key) else { return false };
        let can_be_asked = matches!(entry.op.state, OpState::Unknown | OpState::Lost | OpState::Applied);
        if !can_be_asked || entry.is_parked {
            return false;
        }
        if entry.flight.is_none() {
            entry.wants_asking = true;
            entry.due_ms = now.mono_ms;
            let place = entry.op.order;
            self.entries.index(place);
            self.advance(now, None, 0);
        }
        true
    }

    /// A person says what became of an op of which nobody can tell (K8). Returns whether it was one.
    pub fn settle(&mut self, now: Now, key: &OpKey, applied: bool) -> bool {
        let Some(entry) = self.entry_mut(key).filter(|e| e.op.state == OpState::Unknown) else { return false };
        entry.op.state = if applied { OpState::Done } else { OpState::Refused };
        entry.wants_asking = false;
        entry.op.code = Some("settled_by_person".into());
        if !applied {
            entry.op.on_failure = OnFailure::Pass;
        }
        self.save(key);
        self.advance(now, None, 0);
        true
    }

    /// The host has seen that an op failed; its lane goes on (K9). Returns whether it had held it.
    pub fn pass(&mut self, now: Now, key: &OpKey) -> bool {
        let Some(entry) = self.entry_mut(key).filter(|e| e.op.state.is_settled()) else { return false };
        entry.op.on_failure = OnFailure::Pass;
        self.save(key);
        self.advance(now, None, 0);
        true
    }

    /// Queues the same request under a new key, explicitly, in the place of an op that failed or of which nobody can
    /// tell (K8): it may take effect twice, and that is the host's decision.
    ///
    /// # Errors
    /// As [`Outbox::enqueue`]; [`EnqueueError::InvalidArgument`] where the op has not ended.
    pub fn send_as_new(&mut self, now: Now, random: u128, key: &OpKey) -> Result<OpKey, EnqueueError> {
        let has_failed = |e: &&Entry| e.op.state.is_settled() && e.op.state != OpState::Done;
        let entry = self.entries.get(key).filter(has_failed).ok_or(EnqueueError::InvalidArgument("key"))?;
        let (op, may_be_volatile) = (entry.op.clone(), entry.may_be_volatile);
        let Op { method, origin, path, body, key_in_body, content_type, lane, on_failure, expects_other_type, .. } = op;
        let new = NewOp {
            key: None,
            method,
            origin,
            path,
            body,
            key_in_body,
            content_type,
            lane,
            on_failure,
            expects_other_type,
            deadline_ms: None,
            may_be_volatile,
        };
        let new = self.enqueue_in_place_of(now, random, new, Some(key))?;
        // Where its lane waits for it, the new one takes its place before the lane goes on.
        if op.on_failure == OnFailure::Hold {
            self.entries.swap(key, &new);
            self.write(key);
            self.write(&new);
        }
        self.pass(now, key);
        Ok(new)
    }
}

impl Entry {
    /// Nothing more is done about it here: one that was never sent had no effect, of any other nobody can tell. The lane
    /// of one that was applied has gone on long ago, and does (K9).
    pub(super) fn give_up(&mut self, code: &'static str) {
        if self.op.state == OpState::Applied {
            self.op.on_failure = OnFailure::Pass;
        }
        self.op.state = if self.op.attempts == 0 { OpState::Refused } else { OpState::Unknown };
        self.op.code = Some(code.into());
    }

    /// The answer to an attempt.
    fn take_answer(&mut self, now: Now, random: u128, reading: &Reading, answer: &Answer) {
        self.record(reading, answer);
        self.op.state = match reading.outcome {
            Outcome::Done => OpState::Done,
            Outcome::Applied => OpState::Applied,
            Outcome::Pending | Outcome::Ambiguous => OpState::Waiting,
            Outcome::Refused => OpState::Refused,
            Outcome::Conflict => OpState::Conflict,
            Outcome::Lost => OpState::Lost,
            Outcome::Unknown => OpState::Unknown,
        };
        self.op.ambiguous |= matches!(reading.outcome, Outcome::Ambiguous | Outcome::Unknown);
        let floor = now.mono_ms + reading.min_wait_ms.min(MOST_WAIT_MS);
        self.floor_ms = floor;
        let wait = full_jitter(self.failures, BASE_MS, CAP_MS, random).max(LEAST_WAIT_MS);
        self.due_ms = floor.max(now.mono_ms + wait);
        self.failures = self.failures.saturating_add(1);
        if self.op.state == OpState::Applied {
            self.failures = 0;
            self.ask_later(now, random);
        }
    }

    /// News of an op that was applied, given up, or of which nobody could tell: only what the server itself says counts.
    fn take_news(&mut self, reading: &Reading, answer: &Answer) {
        let state = match (reading.outcome, reading.retry) {
            (Outcome::Done, _) => OpState::Done,
            (Outcome::Applied, _) => OpState::Applied,
            (Outcome::Lost, _) => OpState::Lost,
            (Outcome::Refused, Retry::Never) => OpState::Refused,
            // That the server cannot tell is no news of what a person has said (S10).
            (Outcome::Unknown, Retry::AskAgain) if !matches!(self.op.state, OpState::Done | OpState::Refused) => {
                OpState::Unknown
            }
            _ => return,
        };
        self.record(reading, answer);
        if self.op.state != state {
            (self.op.state, self.failures) = (state, 0);
        }
    }

    /// What an answer said. What is done needs its request no more.
    fn record(&mut self, reading: &Reading, answer: &Answer) {
        self.op.replayed = reading.replayed;
        self.op.conflict |= reading.conflict;
        if reading.outcome == Outcome::Done {
            self.op.body = None;
        }
        self.op.code.clone_from(&reading.code);
        if let Answer::Answered { status, body, .. } = answer {
            self.op.status = *status;
            self.op.response_type = answer.header("content-type").map(|v| cut(v, MAX_TYPE_BYTES).into());
            let end = body.floor_char_boundary(MAX_RESPONSE_BYTES);
            self.op.response = body.get(..end).map(Into::into);
            self.op.response_cut = end < body.len();
        }
    }

    fn ask_later(&mut self, now: Now, random: u128) {
        if self.op.state == OpState::Applied {
            let wait = full_jitter(self.failures, 2 * LEAST_ASK_MS, MOST_ASK_MS, random);
            self.failures = self.failures.saturating_add(1);
            self.due_ms = now.mono_ms + wait.max(LEAST_ASK_MS);
        }
    }
}
