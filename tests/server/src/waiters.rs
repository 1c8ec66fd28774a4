//! Requests that wait for a patch to settle.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use patchkeep_core::ids::PatchId;
use tokio::sync::watch;

/// What a waiting request is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signal {
    /// Counts changes of the row: look again.
    pub changes: u64,
    /// The caller's connection is to be lost (a fault switch).
    pub lose: bool,
}

/// One channel for each patch somebody waits for.
#[derive(Clone, Debug, Default)]
pub struct Waiters {
    by_patch: Arc<Mutex<HashMap<PatchId, watch::Sender<Signal>>>>,
}

/// A place in the waiting room; leaves it when dropped.
#[derive(Debug)]
pub struct Waiter {
    room: Waiters,
    patch_id: PatchId,
    signal: watch::Receiver<Signal>,
}

impl Waiters {
    /// Waits for a patch from now on. Take the place before the row is read, so that no change falls in between.
    pub fn join(&self, patch_id: PatchId) -> Waiter {
        let signal = self.with(|room| room.entry(patch_id).or_default().subscribe());
        Waiter { room: self.clone(), patch_id, signal }
    }

    /// The row of a patch was changed.
    pub fn changed(&self, patch_id: PatchId) {
        self.tell(patch_id, |signal| signal.changes += 1);
    }

    /// Any row may have been changed, by a process whose word was missed.
    pub fn look_again(&self) {
        self.with(|room| room.values().for_each(|waiting| waiting.send_modify(|signal| signal.changes += 1)));
    }

    /// The callers that wait for it are to lose their connections.
    pub fn lose(&self, patch_id: PatchId) {
        self.tell(patch_id, |signal| signal.lose = true);
    }

    fn tell(&self, patch_id: PatchId, change: impl FnOnce(&mut Signal)) {
        self.with(|room| {
            if let Some(waiting) = room.get(&patch_id) {
                waiting.send_modify(change);
            }
        });
    }

    fn with<T>(&self, work: impl FnOnce(&mut HashMap<PatchId, watch::Sender<Signal>>) -> T) -> T {
        work(&mut self.by_patch.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Waiter {
    /// Resolves with the next signal after the last one seen.
    pub async fn next(&mut self) -> Signal {
        // The sender lives as long as a waiter does, so this ends only with a change.
        let _open = self.signal.changed().await;
        *self.signal.borrow_and_update()
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let patch_id = self.patch_id;
        self.room.with(|room| {
            // This one still counts until it is gone.
            if room.get(&patch_id).is_some_and(|waiting| waiting.receiver_count() <= 1) {
                room.remove(&patch_id);
            }
        });
    }
}
