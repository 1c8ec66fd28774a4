//! What each server can do (K4): asked once, and again after a reconnect or a 5xx.

use super::OpKey;
use super::engine::{GRACE_MS, Origin, Outbox, PROBE_MS};
use super::io::{Capabilities, OutboxOutput};
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
        self.origins.insert(origin.to_owned(), Origin { known: Some(Capabilities::default()), asking: false });
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
