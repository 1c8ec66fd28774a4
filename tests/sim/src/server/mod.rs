//! The server: its rows, its sockets, and the units of work around the real decisions.
//!
//! The units of work are those of the reference server's `service`, without its runtime: each is one step, which is
//! what a serialised transaction is, and what it has to say leaves at its end. What is decided, and under which guard
//! it is written, is decided by `patchkeep_server::decide` alone.

mod keyed;
mod rows;
mod save;
mod say;
mod tabs;

use std::collections::{BTreeMap, VecDeque};

use patchkeep_core::frame::Homed;
use patchkeep_core::ids::{BootId, DocId, Incarnation, JournalId, PatchId, TabId, Uuid};
use patchkeep_server::decide::{Here, KeyRow};
use patchkeep_server::principal::Principal;

pub use keyed::Request;
pub(crate) use rows::{DOCS, Rows, doc};

use crate::rng::Rng;

/// How far the server's clock is ahead of the simulation's, in ms.
pub const CLOCK_OFFSET: u64 = 1_700_000_000_000;
/// How long a claim lives, in ms.
pub(crate) const LEASE_MS: u64 = 3_000;

/// The server: what lasts, and one life of its process.
#[derive(Debug)]
pub struct Server {
    pub(crate) rows: Rows,
    pub(crate) boot: BootId,
    /// Counts the lives.
    pub(crate) life: u64,
    pub(crate) principal: Principal,
    pub(crate) hub: BTreeMap<TabId, HubTab>,
    pub(crate) sessions: BTreeMap<u64, Greeted>,
    pub(crate) tasks: BTreeMap<u64, Task>,
    pub(crate) last_task: u64,
    pub(crate) connections: u64,
    /// Saves on their way to the server: texts that may become the document.
    pub(crate) saves_under_way: VecDeque<(u64, patchkeep_server::decide::Save)>,
}

/// A tab that is here: its current connection (R5).
#[derive(Debug)]
pub(crate) struct HubTab {
    pub(crate) conn: String,
    pub(crate) socket: u64,
    pub(crate) journal_id: JournalId,
    pub(crate) since: u64,
    pub(crate) open: BTreeMap<DocId, (Incarnation, Homed)>,
}

/// A connection that said hello.
#[derive(Clone, Debug)]
pub(crate) struct Greeted {
    pub(crate) conn: String,
    pub(crate) tab_id: TabId,
    pub(crate) epoch: u64,
    pub(crate) journal_id: JournalId,
}

/// A request that is being worked on.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) request: Request,
    pub(crate) stage: Stage,
}

/// How far it is.
#[derive(Debug)]
pub(crate) enum Stage {
    /// The key is claimed, the write comes next.
    Claimed(Box<KeyRow>),
    /// It waits for a patch.
    Waiting { patch_id: PatchId, until: u64, replayed: bool },
}

impl Server {
    /// A server with two documents.
    pub fn new(rng: &mut Rng) -> Self {
        Self {
            rows: Rows::new(),
            boot: BootId(Uuid::v4(rng.wide())),
            life: 1,
            principal: Principal { workspace: "ws".into(), user: "user".into() },
            hub: BTreeMap::new(),
            sessions: BTreeMap::new(),
            tasks: BTreeMap::new(),
            last_task: 0,
            connections: 0,
            saves_under_way: VecDeque::new(),
        }
    }

    /// A tab's current connection, as far as one document is concerned.
    pub(crate) fn here(&self, tab_id: TabId, doc: &DocId) -> Option<Here> {
        let tab = self.hub.get(&tab_id)?;
        Some(Here { conn: tab.conn.clone(), journal_id: tab.journal_id, open: tab.open.get(doc).copied() })
    }
}
