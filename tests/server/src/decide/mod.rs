//! The server's side of a keyed write (§9) as pure functions: rows and what happened in, rows and what to say out.
//!
//! ```text
//!  claimed ──► done (direct write)            delivered ──► acked ──► done (a save, W2)
//!     │  └──► delivered (a tab has it open)       │  │         └────► lost (proven absent after the ack)
//!     └─► refused                                 │  └──► refused
//!   lease over: may be taken over                 └────► unknown ──► acked · done · refused · settled
//! ```
//!
//! Nothing here does I/O, reads a clock or draws a random number. The caller reads the rows and writes what comes
//! back in one transaction, guarded as the result says; frames go out after its commit.

mod answer;
mod claim;
mod execute;
mod order;
mod person;
mod resume;
mod row;
mod save;
mod settle;
mod tab;

pub use answer::{Answer, Since, applied, in_flight, key_expired, key_unknown, lost, outcome_unknown, too_many};
pub use claim::{Attempt, Claim, ClaimFacts, Rejoin, SAFETY_MARGIN_MS, View, claim, rejoin, view};
pub use execute::{Elected, ExecuteFacts, Execution, Write, execute, refuse_claimed, store_claimed};
pub use order::{Place, after_all, place};
pub use person::{Word, settle, settlement_answer};
pub use resume::{adopted, resume};
pub use row::{
    Announced, Document, KeyId, KeyRow, KeyState, Plan, Recipient, Recorded, SettledBy, Settlement, TabOwner, Verdict,
};
pub use save::{Held, Save, SaveFacts, SaveRefusal, check_save, doubt_saved, held, settle_saved};
pub use settle::{Follow, Settled, Speaker, acknowledged, expired, not_seen, refused, unknown};
pub use tab::{Here, admit};
