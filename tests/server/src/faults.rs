//! The fault switches of tests and the demo. Nothing of this is reachable unless the server was started with them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

/// What goes wrong next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Switches {
    /// How many acknowledgements are dropped unread, with the connection of the caller that waits for them.
    pub lose_next_ack: u64,
    /// How many writes are done and their callers' connections closed without an answer.
    pub lose_next_answer: u64,
    /// The same for saves.
    pub lose_next_save_answer: u64,
    /// How long every frame to a tab is held back, in ms.
    pub delay_ms: u64,
    /// The next patch's time to live instead of the configured one, in ms.
    pub next_patch_expires_in_ms: Option<u64>,
}

/// The switches of one server; they outlive its restarts.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    switches: Arc<Mutex<Switches>>,
}

impl Faults {
    fn lock(&self) -> MutexGuard<'_, Switches> {
        self.switches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How they stand.
    pub fn show(&self) -> Switches {
        *self.lock()
    }

    /// Drops the next `n` acknowledgements, and the connections of the callers that wait for them.
    pub fn lose_next_ack(&self, n: u64) {
        self.lock().lose_next_ack = n;
    }

    /// Closes the connections of the next `n` writes that were done, without an answer.
    pub fn lose_next_answer(&self, n: u64) {
        self.lock().lose_next_answer = n;
    }

    /// Closes the connections of the next `n` saves that were committed, without an answer.
    pub fn lose_next_save_answer(&self, n: u64) {
        self.lock().lose_next_save_answer = n;
    }

    /// Holds every frame to a tab back for so long, in ms.
    pub fn delay_ms(&self, ms: u64) {
        self.lock().delay_ms = ms;
    }

    /// Gives the next patch so long to live, in ms.
    pub fn next_patch_expires_in_ms(&self, ms: u64) {
        self.lock().next_patch_expires_in_ms = Some(ms);
    }

    pub(crate) fn take_ack(&self) -> bool {
        take(&mut self.lock().lose_next_ack)
    }

    pub(crate) fn take_answer(&self) -> bool {
        take(&mut self.lock().lose_next_answer)
    }

    pub(crate) fn take_save_answer(&self) -> bool {
        take(&mut self.lock().lose_next_save_answer)
    }

    pub(crate) fn take_expiry(&self) -> Option<u64> {
        self.lock().next_patch_expires_in_ms.take()
    }
}

fn take(left: &mut u64) -> bool {
    let any = *left > 0;
    *left = left.saturating_sub(1);
    any
}
