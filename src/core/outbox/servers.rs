//! What each server can do (K4): asked once, and again after a reconnect or a 5xx.

use super::OpKey;
use super::engine::{BASE_MS, CAP_MS, GRACE_MS, LEAST_WAIT_MS, Origin, Outbox, PROBE_MS};
use super::io::{Capabilities, OutboxOutput};
use crate::tab::full_jitter;
use crate::time::Now;

impl Outbox {
    /// What the origin can do, or `None` while it is being asked (K4).
    pub(super) fn capabilities(&mut self, origin: &str) -> Option<Capabilities> {
        let origin_text = origin.to_owned();
        if !self.origins.contains_key(&origin_text) {
            self.origins.insert(origin_text.clone(), Origin::default());
        }
        let origin = self.origins.get_mut(&origin_text)?;
        if origin.known.is_none() && !origin.asking {
            origin.asking = true;
            self.outputs.push_back(OutboxOutput::AskCapabilities { origin: origin_text });
            return None;
        }
        origin.known
    }

    /// The op goes on when the origin's answer is in; one that never comes counts as "not listed" (K4).
    pub(super) fn await_capabilities(&mut self, now: Now, key: &OpKey, origin: &str) {
        let until = now.mono_ms + self.config.attempt_timeout_ms + GRACE_MS;
        let Some(entry) = self.entry_mut(key) else { return };
        if !entry.awaits_capabilities {
            entry.awaits_capabilities = true;
            entry.due_ms = until;
            return;
        }
        entry.awaits_capabilities = false;
        self.origins.insert(origin.to_owned(), Origin { known: Some(Capabilities::default()), ..Origin::default() });
    }

    pub(super) fn on_capabilities(&mut self, now: Now, origin: String, listed: Option<Capabilities>) {
        self.offline &= listed.is_none();
        self.await_no_more(&origin, now.mono_ms);
        self.origins.insert(origin, Origin { known: Some(listed.unwrap_or_default()), ..Origin::default() });
    }

    /// Nothing sent now would arrive: the question is put again after a back-off, and no attempt is spent (K6).
    pub(super) fn on_unreachable(&mut self, now: Now, random: u128, origin: String) {
        let failures = self.origins.get(&origin).map_or(0, |o| o.failures);
        let wait = full_jitter(failures, BASE_MS, CAP_MS, random).max(LEAST_WAIT_MS);
        self.await_no_more(&origin, now.mono_ms + wait);
        self.origins.insert(origin, Origin { known: None, asking: false, failures: failures.saturating_add(1) });
    }

    fn await_no_more(&mut self, origin: &str, due_ms: u64) {
        for entry in self.entries.iter_mut().filter(|e| e.awaits_capabilities && e.op.origin == origin) {
            entry.awaits_capabilities = false;
            entry.due_ms = due_ms;
        }
    }

    pub(super) fn probe(&mut self, now: Now, key: &OpKey, origin: &str) {
        let origin = origin.to_owned();
        if let Some(known) = self.origins.get_mut(&origin).filter(|o| !o.asking) {
            known.asking = true;
            self.outputs.push_back(OutboxOutput::AskCapabilities { origin });
        }
        if let Some(entry) = self.entry_mut(key) {
            entry.due_ms = now.mono_ms + PROBE_MS;
        }
    }

    pub(super) fn forget_capabilities(&mut self) {
        for origin in self.origins.values_mut() {
            origin.known = None;
            origin.asking = false;
        }
    }

    pub(super) fn listed_now(&self, origin: &str) -> bool {
        self.origins.get(&origin.to_owned()).and_then(|o| o.known).is_some_and(|c| c.idempotency_keys)
    }
}
