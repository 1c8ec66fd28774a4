//! The fault switches of tests and the demo. Nothing of this is reachable unless the server was started with them.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

/// Where a keyed write can be held, as if its process had stopped there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Point {
    /// The key is claimed, and nothing else is done.
    Claimed,
    /// The write's rows are written, and not committed. The store is held with it.
    Writing,
    /// The write is committed, or the patch handed out, and the caller has no answer.
    Committed,
    /// What was handed out has settled, and the caller has no answer.
    Settled,
}

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
    /// Where the next write is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold_at: Option<Point>,
    /// Where one is held now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_at: Option<Point>,
}

/// The switches of one server; they outlive its restarts.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    switches: Arc<Mutex<Switches>>,
    released: Arc<Condvar>,
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

    /// Holds the next write that comes to this point, until [`Self::release`]. One is held at a time.
    pub fn hold_at(&self, point: Point) {
        self.lock().hold_at = Some(point);
    }

    /// The write that is held goes on.
    pub fn release(&self) {
        self.lock().held_at = None;
        self.released.notify_all();
    }

    /// Nothing is held from here on.
    pub(crate) fn hold_no_more(&self) {
        self.lock().hold_at = None;
        self.release();
    }

    /// Stops here where that was asked for: blocks the thread.
    pub(crate) fn pass(&self, point: Point) {
        let mut switches = self.lock();
        if switches.hold_at != Some(point) || switches.held_at.is_some() {
            return;
        }
        switches.hold_at = None;
        switches.held_at = Some(point);
        while switches.held_at == Some(point) {
            switches = self.released.wait(switches).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The same for a task.
    pub(crate) async fn pass_by(&self, point: Point) {
        if self.show().hold_at == Some(point) {
            let faults = self.clone();
            // A server that ends meanwhile has nothing to hold.
            let _ended = tokio::task::spawn_blocking(move || faults.pass(point)).await;
        }
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
