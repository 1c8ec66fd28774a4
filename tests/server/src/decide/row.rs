//! What the decisions read and write: rows, as plain values.

use patchkeep_core::digest::Digest;
use patchkeep_core::frame::Homed;
use patchkeep_core::ids::{ContextId, DocId, Incarnation, JournalId, PatchId, TabId, Uuid};

use crate::principal::{OpKey, Principal};

/// Which row of the keys table: one per principal and key (§9).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyId {
    /// Whose key it is.
    pub principal: Principal,
    /// The key.
    pub key: OpKey,
}

/// Where a keyed write stands (the diagram of §9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyState {
    /// Claimed by one attempt until its lease is over; nothing was written (S1).
    Claimed,
    /// Planned, stored, and on its way to one recipient (S5).
    Delivered,
    /// In the recipient's memory (P2).
    Acked,
    /// In the stored document (P2).
    Done,
    /// No effect; the key may be claimed by a higher attempt (S4).
    Refused,
    /// Nobody can tell (P3).
    Unknown,
    /// It was acked, and is proven absent since (S6).
    Lost,
    /// It was unknown, and a person said what became of it (S10).
    Settled,
}

impl KeyState {
    /// Every state.
    pub const ALL: [Self; 8] = [
        Self::Claimed,
        Self::Delivered,
        Self::Acked,
        Self::Done,
        Self::Refused,
        Self::Unknown,
        Self::Lost,
        Self::Settled,
    ];

    /// The word in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Delivered => "delivered",
            Self::Acked => "acked",
            Self::Done => "done",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
            Self::Lost => "lost",
            Self::Settled => "settled",
        }
    }

    /// The state with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.as_str() == word)
    }

    /// Whether evidence about the patch may still change the row (S5).
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Delivered | Self::Acked | Self::Unknown)
    }
}

/// What settled a row, for operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SettledBy {
    /// The write's own transaction (S2).
    Write,
    /// A save that holds the patch (W2).
    Save,
    /// What the recipient's tab said.
    Tab,
    /// A fence that proves absence (R7).
    Fence,
    /// A person (S10).
    Person,
}

impl SettledBy {
    /// Every value.
    pub const ALL: [Self; 5] = [Self::Write, Self::Save, Self::Tab, Self::Fence, Self::Person];

    /// The word in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Save => "save",
            Self::Tab => "tab",
            Self::Fence => "fence",
            Self::Person => "person",
        }
    }

    /// The value with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.as_str() == word)
    }
}

/// What a person may say of an unknown outcome (S10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The effect is there.
    Applied,
    /// It is not.
    NotApplied,
}

impl Verdict {
    /// The word on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::NotApplied => "not_applied",
        }
    }

    /// The verdict with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Applied, Self::NotApplied].into_iter().find(|v| v.as_str() == word)
    }
}

/// A person's word; `settled_at` says when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// The word.
    pub verdict: Verdict,
    /// Whose: the principal.
    pub who: String,
}

/// Who a patch was handed to (§1), and whether its content had another way out of the tab (R7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipient {
    /// The browsing context.
    pub tab_id: TabId,
    /// Its journal.
    pub journal_id: JournalId,
    /// The document.
    pub doc: DocId,
    /// The lineage of content in memory.
    pub incarnation: Incarnation,
    /// Whether that content leaves the tab only in saves by W1.
    pub homed: Homed,
}

/// One plan of one edit, as it was handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The plan's id; never used for another body.
    pub patch_id: PatchId,
    /// Hand-outs and questions so far.
    pub delivery: u64,
    /// The one tab that may apply it.
    pub recipient: Recipient,
    /// The connection it last went to, for operators; dead after a restart (S8).
    pub conn: String,
    /// The stored version it was planned against.
    pub base_seq: u64,
    /// The edit, as the JSON text that came in.
    pub body: String,
    /// The digest of `{"body":…,"doc":…}`.
    pub digest: Digest,
    /// Whether unconfirmed local edits forbid it.
    pub guarded: bool,
    /// The deadline, on the server's clock, in ms.
    pub expires_at: u64,
    /// The newest stored version that was saved with this patch in doubt: it may hold the effect (W3).
    pub doubted_seq: Option<u64>,
}

/// An answer as it was recorded: status and body without the mirrored headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The HTTP status.
    pub status: u16,
    /// The body, JSON text.
    pub body: String,
}

/// One keyed write (§9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRow {
    /// Whose, and which.
    pub id: KeyId,
    /// Method and path, for operators.
    pub route: String,
    /// The fingerprint the key is bound to.
    pub request_hash: Digest,
    /// Where it stands.
    pub state: KeyState,
    /// Who may write under the claim (S2, S5).
    pub claim_token: Uuid,
    /// Until when, on the database's clock, in ms.
    pub lease_until: u64,
    /// The highest attempt that was served.
    pub attempt: u64,
    /// The answer, where it is final.
    pub recorded: Option<Recorded>,
    /// The plan, where it was handed to a tab.
    pub plan: Option<Plan>,
    /// When it was first claimed, on the database's clock, in ms.
    pub created_at: u64,
    /// What settled it.
    pub settled_by: Option<SettledBy>,
    /// When, on the database's clock, in ms.
    pub settled_at: Option<u64>,
    /// Whether evidence came after the settlement that says otherwise (S10).
    pub contradicted: bool,
    /// A person's word, where that settled it (S10).
    pub settlement: Option<Settlement>,
}

/// A stored document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The whole text.
    pub text: String,
    /// Its version, +1 with every commit.
    pub seq: u64,
}

/// Who holds a tab id (T3), and which of its connections counts (R5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TabOwner {
    /// Whose tab it is.
    pub principal: Principal,
    /// The journal it last said hello with.
    pub journal_id: JournalId,
    /// The highest epoch seen.
    pub epoch: u64,
    /// The load of the page that holds it.
    pub context_id: ContextId,
    /// The current connection, `boot_id/conn_id`.
    pub conn: String,
}

/// The newest announcement of a document by a tab: what fences older ones (R7, W1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announced {
    /// The epoch it was made under.
    pub epoch: u64,
    /// Which of the tab's contents in that epoch; 0 where the tab does not say (W1).
    pub generation: u64,
    /// The incarnation.
    pub incarnation: Incarnation,
}
