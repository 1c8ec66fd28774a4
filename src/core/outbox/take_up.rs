//! A person takes up again, under its own key, an op that is known to have had no effect (S4, S6).

use super::OpKey;
use super::engine::Outbox;
use super::op::OpState;
use crate::time::Now;

impl Outbox {
    /// Attempts an op again that was refused, or lost, under its own key and with the same bytes: the server's word for
    /// it is that no attempt up to `past` left anything behind, and the next one is numbered behind that. The host
    /// decides this, never the outbox. Returns whether there was such an op that may still be sent (K7).
    pub fn take_up(&mut self, now: Now, key: &OpKey, past: u64) -> bool {
        let may_be_sent = self.op(key).is_some_and(|op| self.is_over(now, op).is_none());
        let Some(entry) = self.entry_mut(key).filter(|_| may_be_sent) else { return false };
        if !matches!(entry.op.state, OpState::Refused | OpState::Lost) || entry.flight.is_some() {
            return false;
        }
        entry.op.state = OpState::Waiting;
        entry.op.attempts = entry.op.attempts.max(past);
        // Whatever was ambiguous is known now to have had no effect.
        entry.op.ambiguous = false;
        entry.op.refreshed = false;
        entry.is_cancelled = false;
        entry.failures = 0;
        (entry.due_ms, entry.floor_ms) = (now.mono_ms, 0);
        self.save(key);
        self.advance(now, None, 0);
        true
    }
}
