//! The statements, once for both databases: [`Tx`] over whatever runs SQL.
//!
//! Only what SQLite and PostgreSQL both understand is used, with the same meaning in both.

use std::cell::{Cell as Flag, RefCell};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use patchkeep_core::ids::{DocId, Incarnation, PatchId, TabId};

use super::cells::{Cell, Cells};
use super::rows::{KEY_COLUMNS, key_cells, key_row, tab_owner};
use super::{Guard, StoreError, Tx, Word, key_scope};
use crate::decide::{Announced, Document, KeyId, KeyRow, KeyState, TabOwner};
use crate::principal::Principal;

/// A connection, as far as statements are concerned. Parameters are written `?1`, `?2`, … in any order.
pub(super) trait Sql {
    /// Runs statements without parameters.
    fn batch(&self, sql: &str) -> Result<(), StoreError>;

    /// Runs a query.
    fn query(&self, sql: &str, params: &[Cell]) -> Result<Vec<Cells>, StoreError>;

    /// Runs a statement, and counts the rows it changed.
    fn execute(&self, sql: &str, params: &[Cell]) -> Result<u64, StoreError>;

    /// What names this process among those on the database.
    fn process(&self) -> u64;

    /// Whether a process on the database is there, and hears what is said to it. This one is.
    fn lives(&self, process: u64) -> Result<bool, StoreError> {
        Ok(process == self.process())
    }

    /// Tells other processes once the transaction is committed, where there are any.
    fn notify(&self, _word: &Word) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A transaction on a connection, shared by the units of work of one commit.
pub(super) struct SqlTx<'c, C> {
    connection: &'c C,
    now: u64,
    effects: RefCell<Vec<Box<dyn FnOnce() + Send>>>,
    /// A statement of the unit under way failed. PostgreSQL takes no other after that; SQLite would (S11).
    failed: Flag<bool>,
    /// The transaction itself is not what it was: a unit could not be undone alone, and nothing of it may be believed.
    broken: Flag<bool>,
}

impl<'c, C: Sql> SqlTx<'c, C> {
    pub(super) const fn new(connection: &'c C, now: u64) -> Self {
        Self { connection, now, effects: RefCell::new(Vec::new()), failed: Flag::new(false), broken: Flag::new(false) }
    }

    pub(super) const fn connection(&self) -> &'c C {
        self.connection
    }

    pub(super) const fn clock(&self) -> u64 {
        self.now
    }

    /// Whether there is nothing to commit: see `broken`.
    pub(super) const fn is_broken(&self) -> bool {
        self.broken.get()
    }

    /// What happens now that it is committed.
    pub(super) fn effects(self) -> Vec<Box<dyn FnOnce() + Send>> {
        self.effects.into_inner()
    }

    /// One unit of work: undone alone where it fails, panics, or goes on after a statement that failed; its effects
    /// with it.
    pub(super) fn savepoint<T, E: From<StoreError>>(&self, work: impl FnOnce(&dyn Tx) -> Result<T, E>) -> Result<T, E> {
        if self.broken.get() {
            return Err(StoreError::NotCommitted.into());
        }
        let effects = self.effects.borrow().len();
        self.failed.set(false);
        if let Err(error) = self.connection.batch("SAVEPOINT unit") {
            self.broken.set(true);
            return Err(error.into());
        }
        // What it may leave half done is the transaction's, and undone below.
        let outcome = match catch_unwind(AssertUnwindSafe(|| work(self))) {
            Ok(Ok(_)) if self.failed.get() => Err(StoreError::Aborted.into()),
            Ok(outcome) => outcome,
            Err(_) => Err(StoreError::Panicked.into()),
        };
        let outcome = outcome.and_then(|value| {
            self.connection.batch("RELEASE SAVEPOINT unit")?;
            Ok(value)
        });
        if outcome.is_err() {
            self.effects.borrow_mut().truncate(effects);
            let undone = self.connection.batch("ROLLBACK TO SAVEPOINT unit");
            if let Err(error) = undone.and_then(|()| self.connection.batch("RELEASE SAVEPOINT unit")) {
                tracing::error!(%error, "a unit of work cannot be undone alone: nothing beside it is committed");
                self.broken.set(true);
            }
        }
        outcome
    }

    /// Runs a statement of the unit under way, unless one of it has failed.
    pub(super) fn run<T>(&self, statement: impl FnOnce(&C) -> Result<T, StoreError>) -> Result<T, StoreError> {
        if self.failed.get() {
            return Err(StoreError::Aborted);
        }
        statement(self.connection).inspect_err(|_| self.failed.set(true))
    }

    pub(super) fn read(&self, sql: &str, params: &[Cell]) -> Result<Vec<Cells>, StoreError> {
        self.run(|connection| connection.query(sql, params))
    }

    pub(super) fn write(&self, sql: &str, params: &[Cell]) -> Result<u64, StoreError> {
        self.run(|connection| connection.execute(sql, params))
    }

    fn changed(&self, sql: &str, params: &[Cell]) -> Result<bool, StoreError> {
        Ok(self.write(sql, params)? > 0)
    }

    pub(super) fn one(&self, sql: &str, params: &[Cell]) -> Result<Option<Cells>, StoreError> {
        Ok(self.read(sql, params)?.into_iter().next())
    }

    fn keys(&self, rest: &str, params: &[Cell]) -> Result<Vec<KeyRow>, StoreError> {
        let sql = format!("SELECT {} FROM op_key {rest}", KEY_COLUMNS.join(", "));
        self.read(&sql, params)?.into_iter().map(key_row).collect()
    }
}

impl<C: Sql> Tx for SqlTx<'_, C> {
    fn now(&self) -> u64 {
        self.now
    }

    fn document(&self, workspace: &str, doc: &DocId) -> Result<Option<Document>, StoreError> {
        let sql = "SELECT text, seq FROM document WHERE workspace_id = ?1 AND doc = ?2";
        let found = self.one(sql, &[workspace.into(), doc.as_str().into()])?;
        found.map(|mut row| Ok(Document { text: row.text()?, seq: row.integer()? })).transpose()
    }

    fn put_document(&self, workspace: &str, doc: &DocId, document: &Document) -> Result<bool, StoreError> {
        let values = [workspace.into(), doc.as_str().into(), document.text.as_str().into(), document.seq.into()];
        if document.seq == 1 {
            let sql = "INSERT INTO document (workspace_id, doc, text, seq) VALUES (?1, ?2, ?3, ?4)
                       ON CONFLICT DO NOTHING";
            return self.changed(sql, &values);
        }
        let sql = "UPDATE document SET text = ?3, seq = ?4 WHERE workspace_id = ?1 AND doc = ?2 AND seq + 1 = ?4";
        self.changed(sql, &values)
    }

    fn key(&self, id: &KeyId) -> Result<Option<KeyRow>, StoreError> {
        Ok(self.keys("WHERE workspace_id = ?1 AND user_id = ?2 AND key = ?3", &scope(id))?.pop())
    }

    fn key_of_patch(&self, patch_id: PatchId) -> Result<Option<KeyRow>, StoreError> {
        Ok(self.keys("WHERE patch_id = ?1", &[patch_id.to_string().into()])?.pop())
    }

    fn doubted_since(&self, principal: &Principal, doc: &DocId, seq: u64) -> Result<Vec<PatchId>, StoreError> {
        let sql =
            "SELECT patch_id FROM op_key WHERE workspace_id = ?1 AND user_id = ?2 AND doc = ?3 AND doubted_seq > ?4
                   AND state <> 'done' ORDER BY doubted_seq, patch_id LIMIT 10000";
        let (workspace, user) = (principal.workspace.as_str(), principal.user.as_str());
        let found = self.read(sql, &[workspace.into(), user.into(), doc.as_str().into(), seq.into()])?;
        found.into_iter().map(|mut row| row.parsed()).collect()
    }

    fn keys_of_patches(&self, patch_ids: &[PatchId]) -> Result<Vec<KeyRow>, StoreError> {
        let mut found = HashMap::new();
        for part in patch_ids.chunks(MANY) {
            // Two widths, and so two statements to prepare: what is left over asks for the last one again.
            let width = if part.len() > FEW { MANY } else { FEW };
            let places: Vec<_> = (1..=width).map(|n| format!("?{n}")).collect();
            let ids = part.iter().chain(std::iter::repeat(&part[part.len() - 1])).take(width);
            let values: Vec<_> = ids.map(|id| id.to_string().into()).collect();
            for row in self.keys(&format!("WHERE patch_id IN ({})", places.join(", ")), &values)? {
                found.extend(row.plan.as_ref().map(|plan| plan.patch_id).map(|id| (id, row)));
            }
        }
        Ok(patch_ids.iter().filter_map(|id| found.remove(id)).collect())
    }

    fn open_keys(&self, tab_id: TabId, doc: &DocId) -> Result<Vec<KeyRow>, StoreError> {
        let sql = "WHERE tab_id = ?1 AND doc = ?2 AND state IN ('delivered', 'acked', 'unknown', 'settled')
                   ORDER BY created_at";
        self.keys(sql, &[tab_id.to_string().into(), doc.as_str().into()])
    }

    fn delivered_keys(&self) -> Result<Vec<KeyRow>, StoreError> {
        self.keys("WHERE state = 'delivered'", &[])
    }

    fn open_count(&self, principal: &Principal) -> Result<u64, StoreError> {
        let sql = "SELECT COUNT(*) FROM op_key WHERE workspace_id = ?1 AND user_id = ?2
                   AND state IN ('claimed', 'delivered', 'acked', 'unknown')";
        let found = self.one(sql, &[principal.workspace.as_str().into(), principal.user.as_str().into()])?;
        found.map_or(Ok(0), |mut row| row.integer())
    }

    fn insert_key(&self, row: &KeyRow) -> Result<bool, StoreError> {
        let places: Vec<_> = (1..=KEY_COLUMNS.len()).map(|n| format!("?{n}")).collect();
        let (columns, places) = (KEY_COLUMNS.join(", "), places.join(", "));
        let sql = format!("INSERT INTO op_key ({columns}) VALUES ({places}) ON CONFLICT DO NOTHING");
        self.changed(&sql, &key_cells(row))
    }

    fn update_key(&self, row: &KeyRow, guard: Guard) -> Result<bool, StoreError> {
        // The first three are the primary key.
        let set: Vec<_> = (1usize..).zip(KEY_COLUMNS).skip(3).map(|(n, column)| format!("{column} = ?{n}")).collect();
        let mut values = key_cells(row);
        let (a, b) = (values.len() + 1, values.len() + 2);
        let held = match guard {
            Guard::Claim(token) => {
                values.push(token.to_string().into());
                format!("claim_token = ?{a} AND state = 'claimed'")
            }
            Guard::Token(token) => {
                values.push(token.to_string().into());
                format!("claim_token = ?{a}")
            }
            Guard::Patch(patch_id, state) => {
                values.extend([patch_id.to_string().into(), state.as_str().into()]);
                format!("patch_id = ?{a} AND state = ?{b}")
            }
        };
        // The diff of S6 is for a key that is open; nobody reads its base afterwards.
        let base = if row.state.is_open() { "" } else { ", base_body = NULL" };
        let set = set.join(", ");
        let sql =
            format!("UPDATE op_key SET {set}{base} WHERE workspace_id = ?1 AND user_id = ?2 AND key = ?3 AND {held}");
        self.changed(&sql, &values)
    }

    fn put_base(&self, id: &KeyId, text: &str) -> Result<(), StoreError> {
        let sql = "UPDATE op_key SET base_body = ?4 WHERE workspace_id = ?1 AND user_id = ?2 AND key = ?3";
        let [workspace, user, key] = scope(id);
        self.changed(sql, &[workspace, user, key, text.into()]).map(|_| ())
    }

    fn base(&self, id: &KeyId) -> Result<Option<String>, StoreError> {
        let sql = "SELECT base_body FROM op_key WHERE workspace_id = ?1 AND user_id = ?2 AND key = ?3";
        let found = self.one(sql, &scope(id))?;
        found.map_or(Ok(None), |mut row| row.maybe_text())
    }

    fn tab(&self, tab_id: TabId) -> Result<Option<TabOwner>, StoreError> {
        let sql = "SELECT workspace_id, user_id, journal_id, epoch, context_id, conn FROM tab_owner WHERE tab_id = ?1";
        self.one(sql, &[tab_id.to_string().into()])?.map(tab_owner).transpose()
    }

    fn put_tab(&self, tab_id: TabId, owner: &TabOwner) -> Result<(), StoreError> {
        let sql = "INSERT INTO tab_owner
                     (tab_id, workspace_id, user_id, journal_id, epoch, context_id, conn, updated_at)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
                   ON CONFLICT (tab_id) DO UPDATE SET
                     workspace_id = ?2, user_id = ?3, journal_id = ?4, epoch = ?5, context_id = ?6, conn = ?7,
                     updated_at = ?8";
        let values = [
            tab_id.to_string().into(),
            owner.principal.workspace.as_str().into(),
            owner.principal.user.as_str().into(),
            owner.journal_id.to_string().into(),
            owner.epoch.into(),
            owner.context_id.to_string().into(),
            owner.conn.as_str().into(),
            self.now.into(),
        ];
        self.changed(sql, &values).map(|_| ())
    }

    fn newest(&self, tab_id: TabId, doc: &DocId) -> Result<Option<Announced>, StoreError> {
        let sql = "SELECT epoch, generation, incarnation FROM tab_incarnation WHERE tab_id = ?1 AND doc = ?2
                   ORDER BY ordinal DESC LIMIT 1";
        let found = self.one(sql, &[tab_id.to_string().into(), doc.as_str().into()])?;
        let read = |mut row: Cells| {
            Ok(Announced { epoch: row.integer()?, generation: row.integer()?, incarnation: row.parsed()? })
        };
        found.map(read).transpose()
    }

    fn superseded(&self, tab_id: TabId, doc: &DocId, incarnation: Incarnation) -> Result<bool, StoreError> {
        // Its own place first, then whether anything is past it: a join would pair all with all.
        let sql = "SELECT COUNT(*) FROM (
                       SELECT 1 FROM tab_incarnation WHERE tab_id = ?1 AND doc = ?2 AND ordinal > (
                           SELECT MAX(ordinal) FROM tab_incarnation WHERE tab_id = ?1 AND doc = ?2 AND incarnation = ?3)
                       LIMIT 1) AS later";
        let ids = [tab_id.to_string().into(), doc.as_str().into(), incarnation.to_string().into()];
        let later = self.one(sql, &ids)?.map_or(Ok(0), |mut row| row.integer())?;
        Ok(later > 0)
    }

    fn announce(
        &self,
        tab_id: TabId,
        doc: &DocId,
        announced: Announced,
        keeps_out: Option<u64>,
    ) -> Result<(), StoreError> {
        let (tab, doc, epoch) = (Cell::from(tab_id.to_string()), Cell::from(doc.as_str()), announced.epoch.into());
        // What an older announcement keeps out, this one does from now on.
        let sql = "SELECT MAX(fence_seq) FROM tab_incarnation WHERE tab_id = ?1 AND doc = ?2";
        let before = self.one(sql, &[tab.clone(), doc.clone()])?.map_or(Ok(None), |mut row| row.maybe_integer())?;
        // A lower epoch is fenced by its number alone; only this epoch's incarnations need a list.
        let sql = "DELETE FROM tab_incarnation WHERE tab_id = ?1 AND doc = ?2 AND epoch < ?3";
        let mut values = vec![tab, doc, epoch];
        self.changed(sql, &values)?;
        let sql = "INSERT INTO tab_incarnation (tab_id, doc, ordinal, epoch, incarnation, announced_at, fence_seq, generation)
                   SELECT CAST(?1 AS TEXT), CAST(?2 AS TEXT), COALESCE(MAX(ordinal), 0) + 1, CAST(?3 AS BIGINT),
                     CAST(?4 AS TEXT), CAST(?5 AS BIGINT), CAST(?6 AS BIGINT), CAST(?7 AS BIGINT)
                   FROM tab_incarnation WHERE tab_id = ?1 AND doc = ?2";
        let incarnation = announced.incarnation.to_string();
        let kept_out = before.max(keeps_out);
        values.extend([incarnation.into(), self.now.into(), kept_out.into(), announced.generation.into()]);
        self.changed(sql, &values).map(|_| ())
    }

    fn watermark(&self) -> Result<Option<u64>, StoreError> {
        self.one("SELECT first_at FROM watermark", &[])?.map(|mut row| row.integer()).transpose()
    }

    fn purge(&self, before: u64, most: u64) -> Result<u64, StoreError> {
        self.purge_keys(before, most)
    }

    fn purge_tabs(&self, before: u64, most: u64) -> Result<u64, StoreError> {
        self.purge_left_behind(before, most)
    }

    fn counts(&self) -> Result<Vec<(KeyState, u64)>, StoreError> {
        self.open_counts()
    }

    fn execute(&self, sql: &str, params: &[Cell]) -> Result<u64, StoreError> {
        self.write(sql, params)
    }

    fn query(&self, sql: &str, params: &[Cell]) -> Result<Vec<Vec<Cell>>, StoreError> {
        Ok(self.read(sql, params)?.into_iter().map(Cells::rest).collect())
    }

    fn tell_others(&self, word: &Word) -> Result<(), StoreError> {
        self.run(|connection| connection.notify(word))
    }

    fn after_commit(&self, effect: Box<dyn FnOnce() + Send>) {
        self.effects.borrow_mut().push(effect);
    }
}

/// How many rows are asked for at once, and how many where it is not worth that.
const MANY: usize = 128;
const FEW: usize = 8;

fn scope(id: &KeyId) -> [Cell; 3] {
    let (workspace, user, key) = key_scope(id);
    [workspace.into(), user.into(), key.into()]
}
