//! Deliberate bugs, in the harness and never in the product: what the simulation is worth is what it kills.
//!
//! Each breaks one rule at the seam between the real machines: a guard that is not checked, a fact that is told
//! wrongly, a storage that lies, a host or caller that does not do as the protocol asks.

macro_rules! mutants {
    ($($(#[doc = $doc:literal])* $name:ident),* $(,)?) => {
        /// One deliberate bug.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mutant { $($(#[doc = $doc])* $name),* }

        impl Mutant {
            /// Every one, with what it breaks.
            pub const ALL: &'static [(Self, &'static str)] = &[$((Self::$name, concat!($($doc),*))),*];
        }
    };
}

mutants! {
    /// R2: a negative answer to an older delivery is believed
    OlderNegative,
    /// R5: frames of a connection that was replaced count
    OldConnection,
    /// W1: the save of an old epoch or incarnation is accepted
    OldSave,
    /// W1: `base_seq` is not checked
    AnyBase,
    /// W1: a save does not name its patches
    NamelessSave,
    /// W1: a save does not name what is in doubt
    NoDoubt,
    /// P2: done on acknowledgement
    DoneOnAck,
    /// S5, K8: an unknown key is planned again
    ReplanUnknown,
    /// K8: a question claims
    AskClaims,
    /// S2, S5: the claim token is not checked
    NoToken,
    /// S6: a passed deadline is read as refused
    DeadlineProves,
    /// S4: the row of a refused write is deleted
    RefusedDeleted,
    /// S4: any attempt may claim a refused key
    AnyAttempt,
    /// W3: the conflict does not say what is held
    HeldUntold,
    /// W3: the merge does not list what it carries over
    CarriedUntold,
    /// J12a: the journal keeps its id, and the epochs, though its records are gone
    JournalIdKept,
    /// J1: what removes a record takes out the intent that was queued behind it
    RemoveLast,
    /// R1: what was confirmed of one content is not listed for the next
    ConfirmedOfAnother,
    /// J6: a word that was kept is never taken back
    KeptForGood,
    /// W3: the tab does not say what the socket confirmed of its own lost saves
    OwnSavesUntold,
    /// W1: what the content carries without a record is not named
    CarriedUnnamed,
    /// J12c: a relaxed journal says it is strict
    RelaxedAsStrict,
    /// J1: the intent is said to be durable and is not
    NoIntent,
    /// J4: the store checks the epoch neither for the journal nor for drafts, and an old context goes on
    NoStoreFence,
    /// R7: a document with local drafts says its home is the server
    HomedLie,
    /// J7: the hook says absent of what it does not know
    HookLies,
    /// S7: another incarnation is handed the patch without being asked, as if for the first time
    NotAsked,
    /// K1: a key per attempt
    KeyPerAttempt,
    /// K5: a 4xx after an ambiguous attempt is read as refused
    FourxxBelieved,
    /// J13: refuse() is thrown after the effect
    RefusesAfterEffect,
    /// S2: `done` is recorded outside the write's transaction
    DoneApart,
    /// J3: a slow handler applies to whatever is open by then
    NotWanted,
}
