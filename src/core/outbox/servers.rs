//! What each server can do (K4): asked once, and again after a reconnect or a 5xx. What one origin says or fails to say
//! is nothing to the others.

use super::OpKey;
use super::engine::{BASE_MS, CAP_MS, GRACE_MS, LEAST_WAIT_MS, Outbox, PROBE_MS};
use super::io::{Capabilities, OutboxOutput};
use crate::tab::full_jitter;
use crate::time::Now;

/// What is known of one origin.
#[derive(Debug, Default)]
pub(super) struct Origin {
    /// What counts now: said, or by silence, since its last reconnect or 5xx.
    pub(super) known: Option<Capabilities>,
    /// The last question, as long as nothing made it an old one: only its answer counts.
    question: Option<u64>,
    /// Until when that answer is waited for, by the monotonic clock; an op that waits for it is due then.
    until_ms: Option<u64>,
    /// How often in a row it could not be reached at all.
    failures: u32,
}

impl Outbox {
    /// What the origin can do, or `None` while it is being asked (K4).
    pub(super) fn capabilities(&mut self, now: Now, origin: &str) -> Option<Capabilities> {
        let name = origin.to_owned();
        if !self.origins.contains_key(&name) {
            self.origins.insert(name.clone(), Origin::default());
        }
        let known = self.origins.get(&name)?.known;
        if known.is_none() {
            self.ask_capabilities(now, origin);
        }
        known
    }

    /// Asks, unless an answer is being waited for already.
    fn ask_capabilities(&mut self, now: Now, name: &str) {
        let Some(origin) = self.origins.get_mut(&name.to_owned()).filter(|o| o.until_ms.is_none()) else { return };
        self.last_question += 1;
        let question = self.last_question;
        origin.question = Some(question);
        origin.until_ms = Some(now.mono_ms + self.config.attempt_timeout_ms + GRACE_MS);
        self.outputs.push_back(OutboxOutput::AskCapabilities { question, origin: name.to_owned() });
    }

    /// The op goes on when the origin's answer is in.
    pub(super) fn await_capabilities(&mut self, now: Now, key: &OpKey, origin: &str) {
        let until_ms = self.origins.get(&origin.to_owned()).and_then(|o| o.until_ms).unwrap_or(now.mono_ms);
        if let Some(entry) = self.entry_mut(key) {
            entry.awaits_capabilities = true;
            entry.due_ms = until_ms;
        }
    }

    pub(super) fn on_capabilities(&mut self, now: Now, question: u64, listed: Option<Capabilities>) {
        if listed.is_some() {
            self.is_online(now);
        }
        let known = Some(listed.unwrap_or_default());
        if let Some(name) = self.end_question(question, |origin| (origin.known, origin.failures) = (known, 0)) {
            self.await_no_more(&name, now.mono_ms);
        }
    }

    /// Nothing sent now would arrive: the question is put again after a back-off, and no attempt is spent (K6).
    pub(super) fn on_unreachable(&mut self, now: Now, random: u128, question: u64) {
        let mut failures = 0;
        let ended = self.end_question(question, |origin| {
            failures = origin.failures;
            origin.known = None;
            origin.failures = failures.saturating_add(1);
        });
        if let Some(name) = ended {
            let wait = full_jitter(failures, BASE_MS, CAP_MS, random).max(LEAST_WAIT_MS);
            self.await_no_more(&name, now.mono_ms + wait);
        }
    }

    /// Takes the answer to a question in. One that was asked for before the last reconnect or 5xx, or instead of which
    /// another was put, is none (K4).
    fn end_question(&mut self, question: u64, end: impl FnOnce(&mut Origin)) -> Option<String> {
        let name = self.origins.iter().find(|(_, o)| o.question == Some(question)).map(|(name, _)| name.clone())?;
        let origin = self.origins.get_mut(&name)?;
        origin.until_ms = None;
        end(origin);
        Some(name)
    }

    /// An answer that does not come counts as "not listed" where nothing else is known, until it does come (K4).
    pub(super) fn give_up_silent_questions(&mut self, now: Now) {
        let silent = |o: &Origin| o.until_ms.is_some_and(|until| now.mono_ms >= until);
        let names: Vec<String> = self.origins.iter().filter(|(_, o)| silent(o)).map(|(name, _)| name.clone()).collect();
        for name in names {
            if let Some(origin) = self.origins.get_mut(&name) {
                origin.until_ms = None;
                origin.known = origin.known.or_else(|| Some(Capabilities::default()));
            }
            self.await_no_more(&name, now.mono_ms);
        }
    }

    /// The page falls asleep: that nobody answers it there proves nothing, and what waits is asked again (T4).
    pub(super) fn drop_questions(&mut self, now: Now) {
        for origin in self.origins.values_mut() {
            (origin.question, origin.until_ms) = (None, None);
        }
        for entry in self.entries.iter_mut().filter(|e| e.awaits_capabilities) {
            entry.awaits_capabilities = false;
            entry.due_ms = now.mono_ms;
        }
    }

    fn await_no_more(&mut self, origin: &str, due_ms: u64) {
        for entry in self.entries.iter_mut().filter(|e| e.awaits_capabilities && e.op.origin == origin) {
            entry.awaits_capabilities = false;
            entry.due_ms = due_ms;
        }
    }

    /// While the browser says that it is offline, the server is asked instead of being sent anything (K6).
    pub(super) fn probe(&mut self, now: Now, key: &OpKey, origin: &str) {
        self.ask_capabilities(now, origin);
        if let Some(entry) = self.entry_mut(key) {
            entry.due_ms = now.mono_ms + PROBE_MS;
        }
    }

    /// What was said overrules what the browser thinks of the network, for all that waits because of that (K6).
    pub(super) fn is_online(&mut self, now: Now) {
        if std::mem::take(&mut self.offline) {
            self.hurry(now);
        }
    }

    /// An origin was reconnected, or failed: what it said before, and what it was asked before, counts no more (K4).
    pub(super) fn forget_capabilities(&mut self, now: Now, name: &str) {
        let Some(origin) = self.origins.get_mut(&name.to_owned()) else { return };
        (origin.known, origin.question, origin.until_ms) = (None, None, None);
        self.await_no_more(name, now.mono_ms);
    }

    pub(super) fn knows_capabilities(&self, origin: &str) -> bool {
        self.origins.get(&origin.to_owned()).is_some_and(|o| o.known.is_some())
    }

    /// Whether the origin lists keys, or has not said yet: what is ambiguous is judged when it has (K4).
    pub(super) fn may_list_keys(&self, origin: &str) -> bool {
        self.origins.get(&origin.to_owned()).and_then(|o| o.known).is_none_or(|c| c.idempotency_keys)
    }
}
