//! One patch's record.
//!
//! ```text
//!            deadline passed · guard · the handler refuses
//!   (none) ─────────────────────────────────────────────► refused          final
//!     │ intent durable
//!     ▼
//!   applying ── effect in the document ──► applied ── kept ── flushed ──► final, confirmed
//!     │ the context died here                 │ its instance died unsaved
//!     ▼                                       ▼
//!   reconcile: present → applied by this incarnation · absent → (none) · unknown → unknown
//! ```

use crate::digest::Digest;
use crate::frame::{ConfirmedAs, Reason, ReportedState, UnconfirmedEntry};
use crate::ids::{DocId, Incarnation, PatchId, Uuid};
use crate::storage::RecordKey;

/// Where a record is in the diagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordState {
    /// The intent is written; the effect may or may not have been made.
    Applying,
    /// The effect was made in the record's incarnation.
    Applied,
    /// No effect, for the reason the record names. Final.
    Refused,
    /// Nobody can tell; reconcile may still.
    Unknown,
}

/// What one tab knows of one patch.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The document.
    pub doc: DocId,
    /// The patch.
    pub patch_id: PatchId,
    /// The digest its body had.
    pub digest: Digest,
    /// The content it was, or was to be, applied to.
    pub incarnation: Incarnation,
    /// The tab's epoch when the record was last written.
    pub epoch: u64,
    /// Where it is in the diagram.
    pub state: RecordState,
    /// Why, where refused.
    pub reason: Option<Reason>,
    /// The reason's word, where this version does not know it: the weakest stands for it, and the word is kept (§3).
    pub other_reason: Option<Box<str>>,
    /// The newest hand-out or question about it.
    pub delivery: u64,
    /// Its place in this tab's order of application: marks are taken by it (J6).
    pub local_seq: u64,
    /// When it was received, by the tab's estimate of server time, in ms since the epoch.
    pub received_at: u64,
    /// When its state was reached, by the same clock.
    pub settled_at: Option<u64>,
    /// A local store will bring the effect back with the document (J6).
    pub kept: bool,
    /// A save that holds it was confirmed by the server (J6).
    pub flushed: bool,
    /// A save may have carried the effect without naming it: that text may be the stored one now, and no later content
    /// proves the patch absent by itself (W2, J7).
    pub doubted: bool,
    /// What the server's commit made of it (R4).
    pub confirmed: Option<ConfirmedAs>,
    /// What the handler returned, as JSON text.
    pub result: Option<String>,
}

impl Record {
    /// Its key in the store.
    pub fn key(&self) -> RecordKey {
        RecordKey { patch_id: self.patch_id, doc: self.doc.clone() }
    }

    /// The record is about this content from now on. What the server said of it about other content confirms nothing
    /// any more (R1).
    pub fn move_to(&mut self, incarnation: Incarnation) {
        if self.incarnation != incarnation {
            self.incarnation = incarnation;
            self.confirmed = None;
        }
    }

    /// Whether the effect is in this incarnation's content, or in the stored document (J5).
    pub fn is_present_in(&self, incarnation: Option<Incarnation>) -> bool {
        self.state == RecordState::Applied && (self.flushed || Some(self.incarnation) == incarnation)
    }

    /// Whether nothing can change it any more: refused, or flushed (J10).
    pub const fn is_final(&self) -> bool {
        matches!(self.state, RecordState::Refused) || self.flushed
    }

    /// What retention leaves of it (J10), where the server's commit has followed its final state.
    pub fn shrunk(&self) -> Option<Self> {
        (!self.is_shrunk() && self.is_over()).then(|| {
            let settled_at = self.settled_at.unwrap_or(self.received_at);
            let left =
                Self::what_is_left(self.doc.clone(), self.patch_id, self.digest, self.state, self.reason, settled_at);
            Self { other_reason: self.other_reason.clone(), ..left }
        })
    }

    /// Whether it is final, and the server's commit has followed it: nobody waits for anything it says (J10).
    pub fn is_over(&self) -> bool {
        let refused = self.state == RecordState::Refused && self.confirmed == Some(ConfirmedAs::Refused);
        refused || (self.flushed && self.confirmed.is_some())
    }

    /// Whether this is what retention has left of a record: its incarnation and its place are forgotten.
    pub fn is_shrunk(&self) -> bool {
        self.incarnation == NO_INCARNATION
    }

    pub(super) const fn what_is_left(
        doc: DocId,
        patch_id: PatchId,
        digest: Digest,
        state: RecordState,
        reason: Option<Reason>,
        settled_at: u64,
    ) -> Self {
        let refused = matches!(state, RecordState::Refused);
        Self {
            doc,
            patch_id,
            digest,
            incarnation: NO_INCARNATION,
            epoch: 0,
            state,
            reason,
            other_reason: None,
            delivery: 0,
            local_seq: 0,
            received_at: settled_at,
            settled_at: Some(settled_at),
            kept: false,
            flushed: !refused,
            doubted: false,
            confirmed: Some(if refused { ConfirmedAs::Refused } else { ConfirmedAs::Done }),
            result: None,
        }
    }

    /// Whether it must be asked of the host before anything is said: its incarnation is dead and no save holds it (J7).
    pub fn is_open_question(&self, current: Incarnation) -> bool {
        match self.state {
            RecordState::Refused => false,
            RecordState::Unknown => true,
            RecordState::Applying | RecordState::Applied => !self.flushed && self.incarnation != current,
        }
    }

    /// How it stands in a list or an answer.
    pub const fn reported(&self) -> ReportedState {
        match self.state {
            RecordState::Applying => ReportedState::Applying,
            RecordState::Applied => ReportedState::Applied,
            RecordState::Refused => ReportedState::Refused,
            RecordState::Unknown => ReportedState::Unknown,
        }
    }

    /// The word of its reason, as it was written.
    pub fn reason_word(&self) -> Option<&str> {
        self.other_reason.as_deref().or_else(|| self.reason.map(Reason::as_str))
    }

    /// Its entry in a list, told as `state`.
    pub const fn entry(&self, state: ReportedState) -> UnconfirmedEntry {
        UnconfirmedEntry { patch_id: self.patch_id, digest: self.digest, state, reason: self.reason }
    }
}

/// No content has this id: random ones have a version in them.
const NO_INCARNATION: Incarnation = Incarnation(Uuid::from_u128(0));

impl RecordState {
    /// The word of the protocol.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Applying => "applying",
            Self::Applied => "applied",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
        }
    }

    /// The state with this word.
    pub fn from_code(word: &str) -> Option<Self> {
        [Self::Applying, Self::Applied, Self::Refused, Self::Unknown].into_iter().find(|s| s.as_str() == word)
    }
}
