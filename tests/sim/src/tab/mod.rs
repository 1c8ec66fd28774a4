//! The browser: windows, contexts with the real session in each, the disk behind them, and the embedding host.

mod disk;
mod drive;
mod host;
mod saves;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use patchkeep_core::ids::{DocId, Incarnation, PatchId, TabId};
use patchkeep_core::session::{Event, Session};
use patchkeep_server::decide::{Announced, Held};

pub use disk::{Disk, Draft};

/// A window: what `sessionStorage` holds, and the context it shows.
#[derive(Debug, Default)]
pub struct Slot {
    /// The stored tab id.
    pub(crate) tab: Option<TabId>,
    /// The context.
    pub(crate) context: Option<u64>,
}

/// A document in a context's memory.
#[derive(Clone, Debug)]
pub struct OpenText {
    /// Its content.
    pub(crate) text: String,
    /// Its lineage.
    pub(crate) incarnation: Incarnation,
    /// The text that was last stored or loaded.
    pub(crate) saved: String,
    /// The patches whose effects this instance made or carried over.
    pub(crate) holds: BTreeSet<PatchId>,
}

/// Why the stored text is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The document opens.
    Open,
    /// The host loads it anew, and throws away what it has.
    Refresh,
    /// Somebody else committed: the host takes that over, unless something would be lost by it when it is there.
    MovedOn,
    /// A save conflict: the stored text holds these patches already, or may hold them (W3).
    Merge(Held),
}

/// One load of the page.
#[derive(Debug)]
pub struct Context {
    pub(crate) slot: usize,
    pub(crate) tab: TabId,
    /// When it was loaded.
    pub(crate) began: u64,
    /// How far its wall clock is off, in ms.
    pub(crate) skew: i64,
    pub(crate) session: Session,
    pub(crate) docs: BTreeMap<DocId, OpenText>,
    /// How many contents of each document it has begun.
    pub(crate) generations: BTreeMap<DocId, u64>,
    /// What waits for a frozen page.
    pub(crate) frozen: Option<VecDeque<Event>>,
    /// Whether it was told that it is frozen (T4).
    pub(crate) was_told: bool,
    pub(crate) inbox: VecDeque<Event>,
    pub(crate) sockets: BTreeMap<u64, u64>,
    pub(crate) timer_at: Option<u64>,
    /// Documents with a save under way.
    pub(crate) saving: BTreeSet<DocId>,
    /// Documents whose stored text was asked for.
    pub(crate) fetching: BTreeSet<DocId>,
}

impl Context {
    /// A document's content, as it stands in the order of the tab's (W1).
    pub(crate) fn content(&self, doc: &DocId, incarnation: Incarnation) -> Announced {
        let generation = self.generations.get(doc).copied().unwrap_or_default();
        Announced { epoch: self.session.identity().epoch, generation, incarnation }
    }
}
