//! Where documents, keys and tabs are stored: the vocabulary of a transaction, and SQLite or PostgreSQL behind it.
//!
//! A unit of work is a closure over [`Tx`]. What it must not do before the commit (sending a frame, waking a waiting
//! request) it leaves with [`Tx::after_commit`]; these run in commit order, and not at all where the commit fails.

mod any;
mod cells;
mod group;
mod hearing;
mod limits;
mod places;
mod postgres;
mod purge;
mod rows;
mod schema;
mod sql;
mod sqlite;
mod tabs;
mod word;

pub use any::AnyStore;
pub use cells::Cell;
pub use limits::Limits;
pub use postgres::PostgresStore;
pub use sqlite::{Clock, SqliteStore, system_clock};
pub use tabs::{Candidate, Tabs};
pub use word::{Hear, Stored, Word};

use patchkeep_core::ids::{DocId, Incarnation, PatchId, TabId, Uuid};

use crate::decide::{Announced, Document, KeyId, KeyRow, KeyState, TabOwner};
use crate::principal::Principal;

/// Why a unit of work did not happen.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database refused.
    #[error("database: {0}")]
    Database(#[from] rusqlite::Error),
    /// The database server refused, or cannot be reached.
    #[error("database: {0}")]
    Server(#[from] ::postgres::Error),
    /// A row holds what no version of this code wrote.
    #[error("unreadable row: {0}")]
    Unreadable(&'static str),
    /// The schema is newer than the code.
    #[error("the database is at schema step {found}, this server knows {known}")]
    Newer {
        /// The step found.
        found: u32,
        /// The newest one known.
        known: u32,
    },
    /// A statement failed earlier in this unit of work, and what called it went on (S11).
    #[error("an earlier statement of this unit of work failed")]
    Aborted,
    /// The unit of work panicked; nothing of it is there.
    #[error("the unit of work panicked")]
    Panicked,
    /// The store does not say that the transaction committed.
    #[error("the transaction was not committed")]
    NotCommitted,
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

/// What must still hold of a key's row when it is written; zero rows otherwise.
#[derive(Clone, Copy, Debug)]
pub enum Guard {
    /// The claim is still this attempt's (S2, S5).
    Claim(Uuid),
    /// It is still out under this plan, in this state (S5).
    Patch(PatchId, KeyState),
    /// It was released, or its lease was over, under this token (S4).
    Token(Uuid),
}

/// One transaction.
pub trait Tx: Tabs {
    /// The database's clock, in ms since the epoch; it does not go back within one store.
    fn now(&self) -> u64;

    /// A document of a workspace.
    fn document(&self, workspace: &str, doc: &DocId) -> Result<Option<Document>, StoreError>;

    /// Writes a document whose stored version is one lower (0: it is new). False where it is not.
    fn put_document(&self, workspace: &str, doc: &DocId, document: &Document) -> Result<bool, StoreError>;

    /// A key's row.
    fn key(&self, id: &KeyId) -> Result<Option<KeyRow>, StoreError>;

    /// The row whose plan has this id.
    fn key_of_patch(&self, patch_id: PatchId) -> Result<Option<KeyRow>, StoreError>;

    /// The principal's patches of a document that a save committed past this version may hold unnamed, as far as they are
    /// not done: as many as a save may name (W3).
    fn doubted_since(&self, principal: &Principal, doc: &DocId, seq: u64) -> Result<Vec<PatchId>, StoreError>;

    /// The rows whose plans have these ids, in their order: each once, and those alone that there are.
    fn keys_of_patches(&self, patch_ids: &[PatchId]) -> Result<Vec<KeyRow>, StoreError>;

    /// The rows of a recipient that evidence may still change: open ones (delivered, acked, unknown), and those a person
    /// settled (S10).
    fn open_keys(&self, tab_id: TabId, doc: &DocId) -> Result<Vec<KeyRow>, StoreError>;

    /// Every delivered row: what a new boot has to time out.
    fn delivered_keys(&self) -> Result<Vec<KeyRow>, StoreError>;

    /// How many keys of a principal are open: claimed, delivered, acked or unknown.
    fn open_count(&self, principal: &Principal) -> Result<u64, StoreError>;

    /// Adds a row. False where there is one.
    fn insert_key(&self, row: &KeyRow) -> Result<bool, StoreError>;

    /// Replaces a row while the guard holds. False where it does not.
    fn update_key(&self, row: &KeyRow, guard: Guard) -> Result<bool, StoreError>;

    /// Keeps the text a patch was planned against, for the diff of S6.
    fn put_base(&self, id: &KeyId, text: &str) -> Result<(), StoreError>;

    /// That text.
    fn base(&self, id: &KeyId) -> Result<Option<String>, StoreError>;

    /// Who holds a tab id.
    fn tab(&self, tab_id: TabId) -> Result<Option<TabOwner>, StoreError>;

    /// Writes who holds it.
    fn put_tab(&self, tab_id: TabId, owner: &TabOwner) -> Result<(), StoreError>;

    /// The newest announcement of a document by a tab.
    fn newest(&self, tab_id: TabId, doc: &DocId) -> Result<Option<Announced>, StoreError>;

    /// Whether this incarnation was announced and a later one after it.
    fn superseded(&self, tab_id: TabId, doc: &DocId, incarnation: Incarnation) -> Result<bool, StoreError>;

    /// Makes an announcement the newest; older ones are fenced by it from the commit on. `keeps_out`: something was handed
    /// to one of those, and this is the stored version now; while it is, the fence is all that keeps that out of a save.
    fn announce(
        &self,
        tab_id: TabId,
        doc: &DocId,
        announced: Announced,
        keeps_out: Option<u64>,
    ) -> Result<(), StoreError>;

    /// Keys first claimed up to here may have been removed (S9).
    fn watermark(&self) -> Result<Option<u64>, StoreError>;

    /// Removes keys that were settled (`done`, `refused`) or whose claim ran out before `before`, at most so many, and
    /// raises the watermark first (S9). Never touches other rows. Returns how many went.
    fn purge(&self, before: u64, most: u64) -> Result<u64, StoreError>;

    /// Removes what tabs left behind before `before`, at most so many rows: never what an open key refers to, nor a fence
    /// that still keeps something out of a save (W1). Returns how many went.
    fn purge_tabs(&self, before: u64, most: u64) -> Result<u64, StoreError>;

    /// How many rows are in each open state, for operators: those are never removed by age (S9).
    fn counts(&self) -> Result<Vec<(KeyState, u64)>, StoreError>;

    /// Runs a statement on the host's own tables, in this transaction, and counts the rows it changed. Parameters are
    /// written `?1`, `?2`, … in any order.
    fn execute(&self, sql: &str, params: &[Cell]) -> Result<u64, StoreError>;

    /// Runs a query on the host's own tables, in this transaction. Columns are 64-bit integers, texts, or `BYTEA` that
    /// is a text.
    fn query(&self, sql: &str, params: &[Cell]) -> Result<Vec<Vec<Cell>>, StoreError>;

    /// Tells the other processes on this database, once this is committed. An embedded database has none.
    fn tell_others(&self, word: &Word) -> Result<(), StoreError>;

    /// What happens once this is committed.
    fn after_commit(&self, effect: Box<dyn FnOnce() + Send>);
}

/// A store of documents, keys and tabs.
pub trait Store: Send + Sync + 'static {
    /// Runs a unit of work in a transaction: committed where it returns `Ok`, undone where it returns `Err` or the
    /// caller's future is gone *before* it began. Durable when this resolves.
    fn transact<T, E>(
        &self,
        work: impl FnOnce(&dyn Tx) -> Result<T, E> + Send + 'static,
    ) -> impl Future<Output = Result<T, E>> + Send
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static;

    /// Hears what processes on this database tell each other from now on, until the store is closed. A word may be
    /// lost with a connection: nothing but haste depends on it. Waits for the database; an async caller does so elsewhere.
    fn listen(&self, _hear: Hear) {}

    /// About what the database's clock says, in ms since the epoch: for timers, never for decisions.
    fn now(&self) -> u64;
}

/// The workspace part of a principal scopes documents; keys are scoped by the whole.
pub(crate) fn key_scope(id: &KeyId) -> (&str, &str, &str) {
    let KeyId { principal: Principal { workspace, user }, key } = id;
    (workspace, user, key.as_str())
}

/// A fresh number for a process: 31 bits, which is what a lock of PostgreSQL can name.
fn fresh_process() -> u64 {
    u64::from(uuid::Uuid::new_v4().as_fields().0 >> 1)
}

/// A fresh random id, for claim tokens, patches, connections and boots.
pub(crate) fn fresh_id() -> Uuid {
    Uuid::from_u128(uuid::Uuid::now_v7().as_u128())
}
