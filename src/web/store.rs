//! One interface for the journal's storage. What stands behind it is tested by one suite (`tests/store.rs`).

use patchkeep_core::ids::{JournalId, TabId};
use patchkeep_core::storage::{StorageFault, Transaction, TransactionOutcome};

/// Called once with what came of a request; in this task or a later one.
pub type Done<T> = Box<dyn FnOnce(T)>;

/// Storage for the journals of one principal's tabs.
pub trait Store {
    /// Takes a tab id (T3): raises its epoch in the transaction that reads it, reads or mints the journal's id, and
    /// reads the tab's records.
    fn claim(&self, claim: Claim, done: Done<Result<Claimed, StorageFault>>);

    /// Runs a transaction: all of its writes or none, and none where the stored epoch is higher (J4).
    fn transact(&self, transaction: Transaction, done: Done<TransactionOutcome>);

    /// The stored epoch of a tab, 0 where there is none (T4).
    fn read_epoch(&self, tab_id: TabId, done: Done<Result<u64, StorageFault>>);

    /// Whom to tell when the store is found to be gone without having been asked. Told once.
    fn on_lost(&self, lost: Done<StorageFault>);

    /// Lets go of what it holds. Requests under way are still answered.
    fn close(&self);
}

/// A tab id to take.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// The id.
    pub tab_id: TabId,
    /// The id of the journal, if it has none yet.
    pub fresh_journal_id: JournalId,
    /// The epoch is to be above this one too: what this context knows of an earlier claim.
    pub above: u64,
    /// Whether `durability: "strict"` is asked for.
    pub strict: bool,
}

/// A tab id taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// Its epoch now.
    pub epoch: u64,
    /// The journal's id.
    pub journal_id: JournalId,
    /// The records' text forms, in no particular order.
    pub records: Vec<String>,
    /// Whether the engine really gave `durability: "strict"`.
    pub strict: bool,
}
