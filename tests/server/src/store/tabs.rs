//! Which tabs are connected, at which process, and what they have open there: what S5 elects from.
//!
//! A row says what its process last wrote. Whether that process still lives is asked of the database where there may be
//! several; an embedded one has one process, and rows of another are of one that is gone.

use patchkeep_core::frame::Homed;
use patchkeep_core::ids::{DocId, Incarnation, JournalId, TabId};

use super::StoreError;
use super::sql::{Sql, SqlTx};
use crate::decide::{Elected, TabOwner};
use crate::principal::Principal;

/// A tab that has a document open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The tab.
    pub elected: Elected,
    /// Whether its socket is this process's.
    pub here: bool,
}

/// Tabs as they are connected now. Who they are is [`super::Tx::tab`].
pub trait Tabs {
    /// The tab's owner is connected at this process from now on, and has nothing open.
    fn connected(&self, tab_id: TabId, visible: bool) -> Result<(), StoreError>;

    /// That connection is gone; a newer one stays.
    fn disconnected(&self, tab_id: TabId, conn: &str) -> Result<(), StoreError>;

    /// This process ends: nobody is connected to it any more.
    fn left(&self) -> Result<(), StoreError>;

    /// The tab came into sight on that connection, or went out of it.
    fn shown(&self, tab_id: TabId, conn: &str, visible: bool) -> Result<(), StoreError>;

    /// A document is open on the owner's connection.
    fn opened(
        &self,
        tab_id: TabId,
        owner: &TabOwner,
        doc: &DocId,
        incarnation: Incarnation,
        homed: Homed,
    ) -> Result<(), StoreError>;

    /// Everything this connection has open was said: what the tab announced before and does not have open is forgotten,
    /// where nothing needs it.
    fn only_these(&self, tab_id: TabId) -> Result<(), StoreError>;

    /// It is no longer: that incarnation of it, or whichever it is.
    fn closed(&self, tab_id: TabId, doc: &DocId, incarnation: Option<Incarnation>) -> Result<(), StoreError>;

    /// The principal's tabs at living processes that have the document open, in the order of S5: visible before hidden,
    /// then longest connected.
    fn candidates(&self, principal: &Principal, doc: &DocId) -> Result<Vec<Candidate>, StoreError>;

    /// The journal of a tab that is connected at another living process.
    fn elsewhere(&self, tab_id: TabId) -> Result<Option<JournalId>, StoreError>;
}

impl<C: Sql> Tabs for SqlTx<'_, C> {
    fn connected(&self, tab_id: TabId, visible: bool) -> Result<(), StoreError> {
        let tab = tab_id.to_string();
        self.write("DELETE FROM tab_open WHERE tab_id = ?1", &[tab.as_str().into()])?;
        let sql = "UPDATE tab_owner SET process = ?2, since = ?3, hidden = ?4 WHERE tab_id = ?1";
        let process = self.connection().process();
        self.write(sql, &[tab.into(), process.into(), self.clock().into(), (!visible).into()]).map(|_| ())
    }

    fn disconnected(&self, tab_id: TabId, conn: &str) -> Result<(), StoreError> {
        // Its age counts from here.
        let sql = "UPDATE tab_owner SET process = NULL, updated_at = ?3 WHERE tab_id = ?1 AND conn = ?2";
        self.write(sql, &[tab_id.to_string().into(), conn.into(), self.clock().into()]).map(|_| ())
    }

    fn left(&self) -> Result<(), StoreError> {
        let sql = "UPDATE tab_owner SET process = NULL WHERE process = ?1";
        self.write(sql, &[self.connection().process().into()]).map(|_| ())
    }

    fn shown(&self, tab_id: TabId, conn: &str, visible: bool) -> Result<(), StoreError> {
        let sql = "UPDATE tab_owner SET hidden = ?3 WHERE tab_id = ?1 AND conn = ?2 AND hidden <> ?3";
        self.write(sql, &[tab_id.to_string().into(), conn.into(), (!visible).into()]).map(|_| ())
    }

    fn opened(
        &self,
        tab_id: TabId,
        owner: &TabOwner,
        doc: &DocId,
        incarnation: Incarnation,
        homed: Homed,
    ) -> Result<(), StoreError> {
        let sql = "INSERT INTO tab_open (tab_id, doc, workspace_id, user_id, conn, incarnation, homed)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                   ON CONFLICT (tab_id, doc) DO UPDATE SET
                     workspace_id = ?3, user_id = ?4, conn = ?5, incarnation = ?6, homed = ?7";
        let values = [
            tab_id.to_string().into(),
            doc.as_str().into(),
            owner.principal.workspace.as_str().into(),
            owner.principal.user.as_str().into(),
            owner.conn.as_str().into(),
            incarnation.to_string().into(),
            homed.as_str().into(),
        ];
        self.write(sql, &values).map(|_| ())
    }

    fn only_these(&self, tab_id: TabId) -> Result<(), StoreError> {
        self.forget_closed(tab_id)
    }

    fn closed(&self, tab_id: TabId, doc: &DocId, incarnation: Option<Incarnation>) -> Result<(), StoreError> {
        let mut sql = "DELETE FROM tab_open WHERE tab_id = ?1 AND doc = ?2".to_owned();
        let mut values = vec![tab_id.to_string().into(), doc.as_str().into()];
        if let Some(incarnation) = incarnation {
            sql.push_str(" AND incarnation = ?3");
            values.push(incarnation.to_string().into());
        }
        self.write(&sql, &values).map(|_| ())
    }

    fn candidates(&self, principal: &Principal, doc: &DocId) -> Result<Vec<Candidate>, StoreError> {
        // By the owner's connection: what an older one had open does not count (R5). Connections are numbered in the
        // order of time, which tells apart those of one commit.
        let sql = "SELECT owner.process, owner.conn, owner.tab_id, owner.journal_id, here.incarnation, here.homed
                   FROM tab_open AS here JOIN tab_owner AS owner
                     ON owner.tab_id = here.tab_id AND owner.conn = here.conn AND owner.process IS NOT NULL
                   WHERE here.workspace_id = ?1 AND here.user_id = ?2 AND here.doc = ?3
                   ORDER BY owner.hidden, owner.since, owner.conn";
        let values = [principal.workspace.as_str().into(), principal.user.as_str().into(), doc.as_str().into()];
        let mut living = Living::default();
        let mut candidates = Vec::new();
        for mut row in self.read(sql, &values)? {
            let process = row.integer()?;
            if !living.ask(self, process)? {
                continue;
            }
            candidates.push(Candidate {
                here: process == self.connection().process(),
                elected: Elected {
                    conn: row.text()?,
                    tab_id: row.parsed()?,
                    journal_id: row.parsed()?,
                    incarnation: row.parsed()?,
                    homed: row.word("homed", Homed::from_code)?,
                },
            });
        }
        Ok(candidates)
    }

    fn elsewhere(&self, tab_id: TabId) -> Result<Option<JournalId>, StoreError> {
        let sql = "SELECT process, journal_id FROM tab_owner WHERE tab_id = ?1 AND process IS NOT NULL";
        let Some(mut row) = self.one(sql, &[tab_id.to_string().into()])? else { return Ok(None) };
        let process = row.integer()?;
        let away = process != self.connection().process() && Living::default().ask(self, process)?;
        if away { row.parsed().map(Some) } else { Ok(None) }
    }
}

/// What was asked about processes already.
#[derive(Default)]
struct Living(Vec<(u64, bool)>);

impl Living {
    fn ask<C: Sql>(&mut self, tx: &SqlTx<'_, C>, process: u64) -> Result<bool, StoreError> {
        if let Some((_, lives)) = self.0.iter().find(|(known, _)| *known == process) {
            return Ok(*lives);
        }
        let lives = tx.run(|connection| connection.lives(process))?;
        self.0.push((process, lives));
        Ok(lives)
    }
}
