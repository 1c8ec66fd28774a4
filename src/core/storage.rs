//! What the core asks of durable storage, in a vocabulary without rows: a log can stand behind it as well as a table.
//!
//! Every [`Transaction`] names the epoch it expects. The web layer reads the stored one in the same transaction and
//! aborts if that is higher (J4); it decides nothing else.

use crate::ids::{DocId, JournalId, PatchId, TabId};

/// How firmly the journal holds what it was told (J11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Durability {
    /// An intent is on the disk before its handler is called.
    Strict,
    /// It has reached the operating system; a power cut may lose it.
    Relaxed,
    /// It lives as long as this context.
    Memory,
}

impl Durability {
    /// The word of the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Relaxed => "relaxed",
            Self::Memory => "memory",
        }
    }
}

/// Writes that become durable together, or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// Names it in the answer.
    pub id: u64,
    /// Whose journal.
    pub tab_id: TabId,
    /// The epoch the store must hold for that tab. A higher one aborts the transaction and fences the session (J4); a
    /// lower one, or none, aborts it too: what was written under this one is gone (J11).
    pub epoch: u64,
    /// Whether `durability: "strict"` is asked for: an intent or an identity is among the writes (J1).
    pub strict: bool,
    /// What to write, in this order.
    pub writes: Vec<Write>,
}

/// One write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// The record is now this.
    Put {
        /// Which record.
        key: RecordKey,
        /// Its text form; opaque to the store.
        record: String,
    },
    /// There is no such record any more.
    Remove(RecordKey),
    /// The journal goes by another id from here on (T3).
    JournalId(JournalId),
}

/// The key of a record within one tab's journal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordKey {
    /// The patch.
    pub patch_id: PatchId,
    /// The document.
    pub doc: DocId,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionOutcome {
    /// It is durable; `strict` as read back from the transaction itself (J1).
    Durable {
        /// Whether the engine really gave `durability: "strict"`.
        strict: bool,
    },
    /// The store holds a higher epoch; nothing was written (J4).
    Fenced,
    /// Nothing was written, and the store cannot be relied on any more (J11).
    Failed(StorageFault),
}

/// Why storage cannot be relied on (J11): one stable code for each way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StorageFault {
    /// There is no such storage here, or it may not be used.
    Unavailable,
    /// It is full.
    Full,
    /// It was there and is gone.
    Evicted,
    /// Its contents or files are damaged.
    Corrupt,
    /// A newer version of this code has changed its schema.
    Newer,
    /// The connection to it died and could not be made again.
    Closed,
    /// It did not open in time: another tab, a deletion under way or the engine holds it up.
    Blocked,
    /// Another failure of the engine.
    Failed,
}

impl StorageFault {
    /// The stable code.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Unavailable => "storage_unavailable",
            Self::Full => "storage_full",
            Self::Evicted => "storage_evicted",
            Self::Corrupt => "storage_corrupt",
            Self::Newer => "storage_newer_than_code",
            Self::Closed => "storage_closed",
            Self::Blocked => "storage_blocked",
            Self::Failed => "storage_failed",
        }
    }
}
