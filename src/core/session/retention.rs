//! Retention in the background (J10): when nothing else is being written.

use super::Session;
use super::store::Urgency;
use crate::journal::Step;
use crate::storage::Write;
use crate::time::Now;

impl Session {
    /// Writes the next few steps where the store has nothing else to do. What ends that transaction comes by here
    /// again; a pass begins with the next thing that happens after it is due, since a tab in which nothing happens
    /// gathers nothing.
    pub(super) fn run_retention(&mut self, now: Now) {
        if self.store.is_busy() {
            return;
        }
        let server_ms = self.clock.estimate(now);
        for step in self.retention.steps(&self.journal, now.mono_ms, server_ms) {
            match step {
                Step::Shrink(left) => {
                    let write = Write::Put { key: left.key(), record: left.encode() };
                    self.journal.put(left);
                    self.write(write, Urgency::Now);
                }
                Step::Drop(patch_id) => self.forget_record(patch_id),
            }
        }
    }
}
