//! What is kept of matters that are over, and for how long (J10).
//!
//! A record that is final and confirmed shrinks to what names it; that stays for thirty days, and a hundred thousand of
//! them at most, the oldest dropped first. Everything else stays until it is settled or discarded. A pass over the
//! journal lists what there is to do; the list is then worked off in small steps, between writes that somebody waits
//! for. A crash between two steps loses nothing but the work.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::{Journal, Record};
use crate::ids::PatchId;

/// How much of what is over is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionLimits {
    /// How long after it was settled, in ms.
    pub keep_ms: u64,
    /// How many.
    pub most: usize,
    /// How long until the journal is looked through again, in ms.
    pub every_ms: u64,
}

impl Default for RetentionLimits {
    fn default() -> Self {
        Self { keep_ms: 30 * 24 * 3_600_000, most: 100_000, every_ms: 3_600_000 }
    }
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Write this in the place of the whole record.
    Shrink(Record),
    /// Forget it: it is old, or there are too many.
    Drop(PatchId),
}

/// The passes over one journal.
#[derive(Debug)]
pub struct Retention {
    limits: RetentionLimits,
    /// By the monotonic clock, in ms.
    next_pass_ms: u64,
    /// How many records there may be before a pass is due whatever the clock says.
    next_pass_len: usize,
    work: VecDeque<(PatchId, Task)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Shrink,
    Drop,
}

/// Steps in one transaction: few enough that a write somebody waits for does not wait long behind it.
const STEPS_AT_ONCE: usize = 64;
/// The first pass leaves a page time to begin.
const FIRST_PASS_MS: u64 = 10_000;
/// So many new records make a pass due.
const GROWTH: usize = 1_024;

impl Retention {
    /// Begins at `now_ms` on the monotonic clock.
    pub const fn new(limits: RetentionLimits, now_ms: u64) -> Self {
        Self { limits, next_pass_ms: now_ms + FIRST_PASS_MS, next_pass_len: usize::MAX, work: VecDeque::new() }
    }

    /// The next steps. `now_ms` is the monotonic clock's, `server_ms` the estimate of the server's, by which records
    /// are dated.
    pub fn steps(&mut self, journal: &Journal, now_ms: u64, server_ms: u64) -> Vec<Step> {
        if self.work.is_empty() && (now_ms >= self.next_pass_ms || journal.len() > self.next_pass_len) {
            self.next_pass_ms = now_ms + self.limits.every_ms;
            self.next_pass_len = journal.len() + GROWTH;
            self.begin(journal, server_ms);
        }
        let mut steps = Vec::new();
        while steps.len() < STEPS_AT_ONCE
            && let Some((patch_id, task)) = self.work.pop_front()
        {
            // It may have changed since it was listed.
            let Some(record) = journal.record(patch_id) else { continue };
            steps.extend(match task {
                Task::Shrink => record.shrunk().map(Step::Shrink),
                Task::Drop => record.is_over().then_some(Step::Drop(patch_id)),
            });
        }
        steps
    }

    /// Lists what goes, the oldest first, and what shrinks. (A heap, since only the oldest matter, and since a sort
    /// weighs kilobytes in the module.)
    fn begin(&mut self, journal: &Journal, server_ms: u64) {
        let over = journal.records().filter(|record| record.is_over());
        let mut over: BinaryHeap<_> =
            over.map(|r| Reverse((r.settled_at.unwrap_or(r.received_at), r.patch_id))).collect();
        while let Some(Reverse((at, patch_id))) = over.peek().copied()
            && (over.len() > self.limits.most || at.saturating_add(self.limits.keep_ms) < server_ms)
        {
            over.pop();
            self.work.push_back((patch_id, Task::Drop));
        }
        let is_whole = |id: &PatchId| journal.record(*id).is_some_and(|r| !r.is_shrunk());
        self.work.extend(over.into_iter().map(|Reverse((_, id))| id).filter(is_whole).map(|id| (id, Task::Shrink)));
    }
}
