//! Taking a tab id (T1–T3): which one a new context may call its own.
//!
//! ```text
//!  stored id, Web Locks ──► TryLock ── granted ──► Take that id
//!                              └── refused ──────► Take a new id (T2: a duplicated tab never waits)
//!  nothing stored ───────────► TryLock(new) ─────► Take
//!  no Web Locks ─────────────────────────────────► Take a new id, weak: nothing is resumed on faith
//! ```

use crate::ids::{ContextId, JournalId, TabId, Uuid};

/// Who this context is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its tab id.
    pub tab_id: TabId,
    /// How often a context has taken that id, this one included.
    pub epoch: u64,
    /// This load of the page.
    pub context_id: ContextId,
    /// The journal it was taken from.
    pub journal_id: JournalId,
    /// No Web Lock guards the id; it is new with every load (T2).
    pub weak: bool,
}

/// What to do next to take an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimStep {
    /// Request the Web Lock `patchkeep:tab:<id>` with `ifAvailable`; answered by [`Claim::lock_answered`].
    TryLock(TabId),
    /// Raise the id's epoch in the transaction that reads it (T3), and load its records.
    Take {
        /// The id.
        tab_id: TabId,
        /// Whether no lock guards it.
        weak: bool,
        /// Whether to write it to `sessionStorage`, for the next load to resume.
        remember: bool,
    },
}

/// The claim under way.
#[derive(Debug)]
pub struct Claim {
    wanted: TabId,
    attempts: u32,
}

impl Claim {
    /// Begins: `stored` is what `sessionStorage` holds, `fresh` a new random id.
    pub fn new(stored: Option<TabId>, locks_available: bool, fresh: Uuid) -> (Self, ClaimStep) {
        let fresh = TabId(fresh);
        if !locks_available {
            let step = ClaimStep::Take { tab_id: fresh, weak: true, remember: false };
            return (Self { wanted: fresh, attempts: 0 }, step);
        }
        let wanted = stored.unwrap_or(fresh);
        (Self { wanted, attempts: 0 }, ClaimStep::TryLock(wanted))
    }

    /// The lock was granted or not; `fresh` is a new random id for the latter case.
    pub fn lock_answered(&mut self, granted: bool, fresh: Uuid) -> ClaimStep {
        if granted {
            return ClaimStep::Take { tab_id: self.wanted, weak: false, remember: true };
        }
        self.wanted = TabId(fresh);
        self.attempts += 1;
        if self.attempts > MOST_ATTEMPTS {
            // Locks on ids that nobody can know are refused: the lock manager does not work here.
            return ClaimStep::Take { tab_id: self.wanted, weak: true, remember: false };
        }
        ClaimStep::TryLock(self.wanted)
    }
}

/// A stored id may be held by another context; a fresh one may not, unless locks do not work at all.
const MOST_ATTEMPTS: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    const fn id(n: u128) -> TabId {
        TabId(Uuid::from_u128(n))
    }

    #[test]
    fn t01_a_stored_id_is_resumed_under_its_lock() {
        let (mut claim, step) = Claim::new(Some(id(1)), true, Uuid::from_u128(2));
        assert_eq!(step, ClaimStep::TryLock(id(1)));
        assert_eq!(
            claim.lock_answered(true, Uuid::from_u128(3)),
            ClaimStep::Take { tab_id: id(1), weak: false, remember: true }
        );
    }

    #[test]
    fn t02_a_duplicated_tab_mints_another_id_at_once() {
        let (mut claim, _) = Claim::new(Some(id(1)), true, Uuid::from_u128(2));
        assert_eq!(claim.lock_answered(false, Uuid::from_u128(3)), ClaimStep::TryLock(id(3)));
        assert_eq!(
            claim.lock_answered(true, Uuid::from_u128(4)),
            ClaimStep::Take { tab_id: id(3), weak: false, remember: true }
        );
    }

    #[test]
    fn t02_b07_without_locks_nothing_is_resumed_on_faith() {
        let (_, step) = Claim::new(Some(id(1)), false, Uuid::from_u128(2));
        assert_eq!(step, ClaimStep::Take { tab_id: id(2), weak: true, remember: false });
    }

    #[test]
    fn t02_locks_that_are_never_granted_end_in_a_weak_identity() {
        let (mut claim, _) = Claim::new(None, true, Uuid::from_u128(1));
        claim.lock_answered(false, Uuid::from_u128(2));
        claim.lock_answered(false, Uuid::from_u128(3));
        assert_eq!(
            claim.lock_answered(false, Uuid::from_u128(4)),
            ClaimStep::Take { tab_id: id(4), weak: true, remember: false }
        );
    }
}
