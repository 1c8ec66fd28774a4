//! One open document: its incarnation, what R7 and J7 need to know of it, and its lane.
//!
//! A lane does one thing at a time, in arrival order (J9):
//!
//! ```text
//!  queue ──► (clocks disagree: Asks) ──► Intent ──► Guard ──► Handler ──► (throws) Reconcile ──► next
//!        └─► Reconcile ── absent ──► Intent …
//! ```

use std::collections::VecDeque;

use super::ReconcileOutcome;
use crate::frame::{Homed, PatchFrame};
use crate::ids::{DocId, Incarnation, PatchId};
use crate::journal::Record;
use crate::time::Now;

/// An open document.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) id: DocId,
    pub(super) incarnation: Incarnation,
    /// Orders this tab's contents of the document, with the epoch (W1).
    pub(super) generation: u64,
    pub(super) homed: Homed,
    pub(super) base_seq: u64,
    pub(super) reconciles: bool,
    pub(super) marks_in_document: bool,
    /// The first content of the document in this context, and of the server alone: what a dead context left unsaved is
    /// in none of it, and no hook need be asked for that (J7).
    pub(super) is_fresh: bool,
    /// The host has said what this content carries over from what it replaced. Without that word silence about a patch
    /// proves nothing (R7).
    pub(super) says_what_it_carries: bool,
    /// The `seq` of `opened` for this incarnation: its predecessors are fenced (J7, R7).
    pub(super) fenced_at: Option<u64>,
    /// The socket on which it was announced last, by `hello` or `open`.
    pub(super) announced_on: Option<u64>,
    /// Its list was cut, so it was announced as `elsewhere`: silence in that list must prove nothing (R7).
    pub(super) list_was_cut: bool,
    /// What the host says its content holds and this journal has no record of (W1).
    pub(super) carried: Vec<Carried>,
    /// Patches of this content that the stored document holds past `base_seq`: a save whose answer was lost and that the
    /// socket confirmed, or what a conflict named. A merge must not bring them in again (W3).
    pub(super) stored_ahead: Vec<PatchId>,
    /// The transaction that takes back what was `kept` of earlier content, while it is not durable (J6).
    pub(super) taking_back: Option<u64>,
    pub(super) lane: Lane,
}

/// A patch whose effect is in the content by the host's word alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carried {
    pub(super) patch_id: PatchId,
    /// A confirmed save holds it.
    pub(super) flushed: bool,
}

/// The most work that waits for one document; a patch beyond it is `busy`.
pub(super) const MAX_QUEUE: usize = 1_000;

/// What a document does, and what waits.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) queue: VecDeque<Work>,
    pub(super) running: Option<Running>,
}

/// Something that waits its turn.
#[derive(Debug)]
pub(super) enum Work {
    /// A patch without a record.
    Apply(Delivery),
    /// A record whose outcome the host must tell (J7).
    Reconcile(Question),
}

/// A `patch` frame and the socket that carried it (J3).
#[derive(Debug, Clone)]
pub(super) struct Delivery {
    pub(super) conn: u64,
    pub(super) frame: PatchFrame,
}

/// A question to the reconcile hook, and who is owed the answer.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) patch_id: PatchId,
    /// The number the answer carries.
    pub(super) delivery: u64,
    pub(super) owed: Owed,
}

/// Who is owed an answer on the current connection.
#[derive(Debug)]
pub(super) enum Owed {
    /// Nobody: the connection that asked is gone.
    Nothing,
    /// It was listed or answered as `applying` (J5).
    FollowUp,
    /// A `patch_query` that has not been answered at all yet.
    State,
    /// A redelivered patch: acknowledged if present, applied if absent.
    Patch(Box<Delivery>),
    /// The handler of this very delivery threw (J13).
    Throw,
}

/// What a lane is doing.
#[derive(Debug)]
pub(super) enum Running {
    /// The local clocks disagree about the deadline: the server is asked for the time, until then by the monotonic clock
    /// (J2).
    Asks { until_ms: u64, delivery: Delivery, has_intent: bool },
    /// The intent is on its way to the store, in this transaction.
    Intent { transaction: u64, delivery: Delivery },
    /// The host is asked for unconfirmed edits; answered in the same task.
    Guard { call: u64, delivery: Delivery },
    /// The handler was called.
    Handler { call: u64 },
    /// The hook was called.
    Reconcile { call: u64 },
}

/// A call of the host's code that has not settled. It outlives its document: a handler that runs may yet make its
/// effect, and its record stays `applying` until it settles (J3).
#[derive(Debug)]
pub(super) struct Call {
    pub(super) doc: DocId,
    pub(super) incarnation: Incarnation,
    pub(super) patch_id: PatchId,
    pub(super) since: Now,
    /// `handler_timeout_ms` has passed: `patch_unknown` was said, later patches are `busy` (J9).
    pub(super) overdue: bool,
    pub(super) kind: CallKind,
}

/// Which of the host's functions runs.
#[derive(Debug)]
pub(super) enum CallKind {
    /// `apply`; the answer carries this number.
    Handler { delivery: u64 },
    /// `reconcile`.
    Reconcile(Question),
}

impl Document {
    /// Whether its lane is idle and the first in its queue need not wait: questions wait for the fence (J7).
    pub(super) fn can_begin(&self) -> bool {
        self.lane.running.is_none()
            && match self.lane.queue.front() {
                None => false,
                Some(Work::Apply(_)) => true,
                Some(Work::Reconcile(question)) => self.fenced_at.is_some() || matches!(question.owed, Owed::Throw),
            }
    }

    /// Until when the server's time is waited for, by the monotonic clock in ms.
    pub(super) const fn asks_until(&self) -> Option<u64> {
        match self.lane.running {
            Some(Running::Asks { until_ms, .. }) => Some(until_ms),
            _ => None,
        }
    }

    /// Whether the host says that the content holds this patch, of which there is no record.
    pub(super) fn carries(&self, patch_id: PatchId) -> bool {
        self.carried.iter().any(|c| c.patch_id == patch_id)
    }

    /// A save that holds these was committed; past `base_seq` unless the save's own answer says so.
    pub(super) fn note_stored(&mut self, patch_ids: &[PatchId]) {
        for carried in self.carried.iter_mut().filter(|c| patch_ids.contains(&c.patch_id)) {
            carried.flushed = true;
        }
        for patch_id in patch_ids {
            if !self.stored_ahead.contains(patch_id) {
                self.stored_ahead.push(*patch_id);
            }
        }
    }

    /// Whether R7 holds: content leaves this tab only in saves, and the server has fenced what came before.
    pub(super) fn has_fenced_home(&self) -> bool {
        self.announced_home() == Homed::Server && self.fenced_at.is_some()
    }

    /// Whether somebody can tell what became of a patch whose content is dead: the hook, or R7 itself (J7).
    pub(super) const fn can_tell(&self) -> bool {
        self.reconciles || self.is_fresh
    }

    /// Whether `absent` may be believed of this record (J7). What a save carried in doubt may be in the stored text, and
    /// so in this one, unless the document itself says that it is not.
    pub(super) fn may_hear_absent(&self, record: &Record) -> bool {
        let on_fenced_base = self.fenced_at.is_some_and(|seq| self.base_seq >= seq);
        on_fenced_base && (self.marks_in_document || (self.homed == Homed::Server && !record.doubted))
    }

    /// What this content tells of a patch where there is no hook: R7, of what died unsaved with an earlier context.
    pub(super) fn tells(&self, record: &Record) -> ReconcileOutcome {
        let died_before = self.is_fresh && record.incarnation != self.incarnation;
        if died_before { ReconcileOutcome::Absent } else { ReconcileOutcome::Unknown }
    }

    /// What the server is told about its home: R7 reads silence about a patch as proof that it is absent, so nothing may
    /// be in this content that its list leaves out.
    pub(super) fn announced_home(&self) -> Homed {
        let lists_all = !self.list_was_cut && self.says_what_it_carries && self.carried.iter().all(|c| c.flushed);
        if lists_all { self.homed } else { Homed::Elsewhere }
    }
}

impl Running {
    /// The frame whose handler has not been called yet.
    pub(super) const fn uncalled(&self) -> Option<&Delivery> {
        match self {
            Self::Asks { delivery, .. } | Self::Intent { delivery, .. } | Self::Guard { delivery, .. } => {
                Some(delivery)
            }
            Self::Handler { .. } | Self::Reconcile { .. } => None,
        }
    }
}

impl Lane {
    /// The waiting or uncalled frame of a patch: received and not handled yet (J12b).
    pub(super) fn uncalled_mut(&mut self, patch_id: PatchId) -> Option<&mut Delivery> {
        if let Some(Running::Asks { delivery, .. } | Running::Intent { delivery, .. } | Running::Guard { delivery, .. }) =
            &mut self.running
            && delivery.frame.patch_id == patch_id
        {
            return Some(delivery);
        }
        self.queue.iter_mut().find_map(|work| match work {
            Work::Apply(delivery) if delivery.frame.patch_id == patch_id => Some(delivery),
            _ => None,
        })
    }

    /// The waiting question about a patch.
    pub(super) fn question_mut(&mut self, patch_id: PatchId) -> Option<&mut Question> {
        self.queue.iter_mut().find_map(|work| match work {
            Work::Reconcile(question) if question.patch_id == patch_id => Some(question),
            _ => None,
        })
    }
}
