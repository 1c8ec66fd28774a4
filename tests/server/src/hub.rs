//! Which tabs are here now: the current connection of each (R5), what it has open, and its way out.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use patchkeep_core::frame::{Homed, RejectCode, ServerFrame};
use patchkeep_core::ids::{DocId, Incarnation, JournalId, TabId};

use crate::decide::Here;
use crate::principal::Principal;
use crate::store::Stored;
use crate::way_out::{Outgoing, WayOut};

/// One accepted connection of a tab.
#[derive(Debug)]
pub struct Connection {
    /// `boot_id/conn_id`.
    pub conn: String,
    /// Whose.
    pub principal: Principal,
    /// The browsing context.
    pub tab_id: TabId,
    /// The journal it said hello with.
    pub journal_id: JournalId,
    /// The way out.
    pub out: WayOut,
}

#[derive(Debug)]
struct Tab {
    connection: Connection,
    open: HashMap<DocId, (Incarnation, Homed)>,
}

#[derive(Debug, Default)]
struct Tabs {
    by_id: HashMap<TabId, Tab>,
}

/// The tabs of one life of the server.
#[derive(Debug, Default)]
pub struct Hub {
    tabs: Mutex<Tabs>,
}

impl Hub {
    fn tabs(&self) -> MutexGuard<'_, Tabs> {
        self.tabs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a connection the tab's current one; an older one is closed.
    pub fn connect(&self, connection: Connection) {
        let mut tabs = self.tabs();
        let tab = Tab { open: HashMap::new(), connection };
        if let Some(old) = tabs.by_id.insert(tab.connection.tab_id, tab) {
            old.push(Outgoing::Close(CLOSE_REPLACED));
        }
    }

    /// The socket is gone.
    pub fn disconnect(&self, tab_id: TabId, conn: &str) {
        let mut tabs = self.tabs();
        if tabs.by_id.get(&tab_id).is_some_and(|t| t.connection.conn == conn) {
            tabs.by_id.remove(&tab_id);
        }
    }

    /// Another connection is the tab's current one (R5): this one is closed, and nothing is sent on it any more.
    pub fn replaced(&self, tab_id: TabId, conn: &str) {
        // Where there is another here already, this one was closed when that came.
        self.close(tab_id, conn, CLOSE_REPLACED);
    }

    fn close(&self, tab_id: TabId, conn: &str, code: u16) {
        let mut tabs = self.tabs();
        if tabs.by_id.get(&tab_id).is_some_and(|t| t.connection.conn == conn)
            && let Some(tab) = tabs.by_id.remove(&tab_id)
        {
            tab.push(Outgoing::Close(code));
        }
    }

    /// This connection is the tab's current one, wherever it is: any other is closed.
    pub fn replaced_by(&self, tab_id: TabId, conn: &str) {
        let here = self.tabs().by_id.get(&tab_id).map(|tab| tab.connection.conn.clone());
        if let Some(older) = here.filter(|here| here != conn) {
            self.replaced(tab_id, &older);
        }
    }

    /// Whether another document is more than may be open on this connection.
    pub fn is_full(&self, tab_id: TabId, conn: &str, doc: &DocId, most: usize) -> bool {
        let tabs = self.tabs();
        let tab = tabs.by_id.get(&tab_id).filter(|t| t.connection.conn == conn);
        tab.is_some_and(|tab| tab.open.len() >= most && !tab.open.contains_key(doc))
    }

    /// This connection asks for more than it may: it is closed.
    pub fn give_up(&self, tab_id: TabId, conn: &str) {
        self.close(tab_id, conn, CLOSE_POLICY);
    }

    /// A document is open on this connection, or no longer.
    pub fn set_open(&self, tab_id: TabId, conn: &str, doc: &DocId, open: Option<(Incarnation, Homed)>) {
        let mut tabs = self.tabs();
        let Some(tab) = tabs.by_id.get_mut(&tab_id).filter(|t| t.connection.conn == conn) else { return };
        match open {
            Some(open) => drop(tab.open.insert(doc.clone(), open)),
            None => drop(tab.open.remove(doc)),
        }
    }

    /// A tab's current connection, as far as one document is concerned.
    pub fn here(&self, tab_id: TabId, doc: &DocId) -> Option<Here> {
        let tabs = self.tabs();
        let tab = tabs.by_id.get(&tab_id)?;
        Some(Here {
            conn: tab.connection.conn.clone(),
            journal_id: tab.connection.journal_id,
            open: tab.open.get(doc).copied(),
        })
    }

    /// Sends a frame to a tab, where this is still its current connection.
    pub fn send(&self, tab_id: TabId, conn: &str, frame: &ServerFrame) {
        let mut tabs = self.tabs();
        if let Some(tab) = tabs.by_id.get(&tab_id).filter(|t| t.connection.conn == conn) {
            let here = tab.push(Outgoing::Frame(frame.encode()));
            tabs.unless(here, tab_id);
        }
    }

    /// Sends a frame to a tab on whatever connection it has.
    pub fn send_to_tab(&self, tab_id: TabId, frame: &ServerFrame) {
        let mut tabs = self.tabs();
        if let Some(tab) = tabs.by_id.get(&tab_id) {
            let here = tab.push(Outgoing::Frame(frame.encode()));
            tabs.unless(here, tab_id);
        }
    }

    /// Tells every tab of the workspace that has the document open, but one, that somebody committed (W4).
    pub fn doc_changed(&self, stored: &Stored) {
        let Stored { workspace, doc, seq, but } = stored;
        let frame = ServerFrame::DocChanged { doc: doc.clone(), seq: *seq }.encode();
        self.tabs().by_id.retain(|tab_id, tab| {
            let concerned = tab.connection.principal.workspace == *workspace && Some(*tab_id) != *but;
            !(concerned && tab.open.contains_key(doc)) || tab.push(Outgoing::Frame(frame.clone()))
        });
    }

    /// Another tab took this one's matters over: a socket it still has is refused.
    pub fn fence(&self, tab_id: TabId) {
        if let Some(tab) = self.tabs().by_id.remove(&tab_id) {
            tab.reject(RejectCode::StaleEpoch);
        }
    }

    /// That connection is refused from here on.
    pub fn reject(&self, tab_id: TabId, conn: &str, code: RejectCode) {
        let mut tabs = self.tabs();
        if tabs.by_id.get(&tab_id).is_some_and(|tab| tab.connection.conn == conn)
            && let Some(tab) = tabs.by_id.remove(&tab_id)
        {
            tab.reject(code);
        }
    }

    /// Closes every socket, as a network would: without a word about why.
    pub fn cut(&self) {
        for (_, tab) in self.tabs().by_id.drain() {
            tab.push(Outgoing::Close(CLOSE_GOING_AWAY));
        }
    }
}

impl Tabs {
    /// A tab that could not be told is gone: it is not elected any more.
    fn unless(&mut self, told: bool, tab_id: TabId) {
        if !told {
            self.by_id.remove(&tab_id);
        }
    }
}

impl Tab {
    fn reject(&self, code: RejectCode) {
        self.push(Outgoing::Frame(ServerFrame::Reject(code).encode()));
        self.push(Outgoing::Close(code.close_code()));
    }

    fn push(&self, outgoing: Outgoing) -> bool {
        let told = self.connection.out.push(outgoing);
        if !told {
            tracing::info!(conn = %self.connection.conn, "a socket that is gone, or cut because it does not read");
        }
        told
    }
}

/// An older socket of the same tab (§3).
const CLOSE_REPLACED: u16 = 1000;
/// RFC 6455: it asks for more than it may.
pub(crate) const CLOSE_POLICY: u16 = 1008;
/// RFC 6455: the server goes away.
const CLOSE_GOING_AWAY: u16 = 1001;
