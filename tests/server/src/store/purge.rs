//! What goes by age, in steps that others do not wait for long (S9), and the counts of what never goes.

use patchkeep_core::ids::TabId;

use super::StoreError;
use super::sql::{Sql, SqlTx};
use crate::decide::KeyState;

/// Settled without an effect still open; and claimed, and never gone on with. Each by an index of its own.
const PURGEABLE: [&str; 2] = [
    "state IN ('done', 'refused', 'lost') AND settled_at < ?1 ORDER BY settled_at",
    "state = 'claimed' AND lease_until < ?1 ORDER BY lease_until",
];

/// Whether an announcement `old` of `owner` fences nothing that could still be saved, and no key may yet be settled by
/// it. What was replaced cannot be saved once the document has moved on: its base is stale then, and stays so.
const NOT_NEEDED: &str = "
    NOT EXISTS (
        SELECT 1 FROM tab_incarnation AS fence
        LEFT JOIN document ON document.workspace_id = owner.workspace_id AND document.doc = fence.doc
        WHERE fence.tab_id = old.tab_id AND fence.doc = old.doc AND fence.fence_seq >= COALESCE(document.seq, 0))
    AND NOT EXISTS (
        SELECT 1 FROM op_key AS key WHERE key.tab_id = old.tab_id AND key.doc = old.doc
          AND key.state IN ('delivered', 'acked', 'unknown', 'settled'))";

impl<C: Sql> SqlTx<'_, C> {
    pub(super) fn purge_keys(&self, before: u64, most: u64) -> Result<u64, StoreError> {
        let mut gone = 0;
        for purgeable in PURGEABLE {
            let values = [before.into(), (most - gone).into()];
            let oldest = |what: &str| {
                format!(
                    "SELECT {what} FROM op_key WHERE {purgeable}, workspace_id, user_id, key LIMIT CAST(?2 AS BIGINT)"
                )
            };
            let mark = format!(
                "INSERT INTO watermark (one, first_at)
                 SELECT 1, MAX(created_at) FROM ({}) AS oldest HAVING COUNT(*) > 0
                 ON CONFLICT (one) DO UPDATE SET first_at =
                   CASE WHEN excluded.first_at > watermark.first_at THEN excluded.first_at ELSE watermark.first_at END",
                oldest("created_at")
            );
            self.write(&mark, &values)?;
            let sql = format!(
                "DELETE FROM op_key WHERE (workspace_id, user_id, key) IN ({})",
                oldest("workspace_id, user_id, key")
            );
            gone += self.write(&sql, &values)?;
        }
        Ok(gone)
    }

    pub(super) fn purge_left_behind(&self, before: u64, most: u64) -> Result<u64, StoreError> {
        self.forget_processes(before)?;
        let values = [before.into(), most.into()];
        let announced = format!(
            "DELETE FROM tab_incarnation WHERE (tab_id, doc, incarnation) IN (
                 SELECT old.tab_id, old.doc, old.incarnation FROM tab_incarnation AS old
                 JOIN tab_owner AS owner ON owner.tab_id = old.tab_id
                 WHERE old.announced_at < ?1 AND {NOT_NEEDED}
                   AND NOT EXISTS (
                     SELECT 1 FROM tab_open AS here WHERE here.tab_id = old.tab_id AND here.doc = old.doc
                       AND here.conn = owner.conn AND owner.process IS NOT NULL)
                 ORDER BY old.announced_at, old.tab_id, old.doc, old.incarnation LIMIT CAST(?2 AS BIGINT))"
        );
        let gone = self.write(&announced, &values)?;
        let left = "SELECT owner.tab_id FROM tab_owner AS owner
                    WHERE owner.updated_at < ?1 AND owner.process IS NULL
                      AND NOT EXISTS (SELECT 1 FROM tab_incarnation AS old WHERE old.tab_id = owner.tab_id)
                      AND NOT EXISTS (
                        SELECT 1 FROM op_key AS key WHERE key.tab_id = owner.tab_id
                          AND key.state IN ('delivered', 'acked', 'unknown', 'settled'))
                    ORDER BY owner.updated_at, owner.tab_id LIMIT CAST(?2 AS BIGINT)";
        let values = [before.into(), (most - gone).into()];
        self.write(&format!("DELETE FROM tab_open WHERE tab_id IN ({left})"), &values)?;
        Ok(gone + self.write(&format!("DELETE FROM tab_owner WHERE tab_id IN ({left})"), &values)?)
    }

    /// What this tab announced and does not have open any more, where nothing needs it: a document that was opened for
    /// nothing leaves nothing.
    pub(super) fn forget_closed(&self, tab_id: TabId) -> Result<(), StoreError> {
        let sql = format!(
            "DELETE FROM tab_incarnation WHERE (tab_id, doc, incarnation) IN (
                 SELECT old.tab_id, old.doc, old.incarnation FROM tab_incarnation AS old
                 JOIN tab_owner AS owner ON owner.tab_id = old.tab_id
                 WHERE old.tab_id = ?1 AND {NOT_NEEDED}
                   AND NOT EXISTS (SELECT 1 FROM tab_open AS here WHERE here.tab_id = old.tab_id AND here.doc = old.doc))"
        );
        self.write(&sql, &[tab_id.to_string().into()]).map(|_| ())
    }

    /// Tabs of processes that are gone are connected nowhere. Only old rows are looked at: the others may be about to
    /// say hello to another process.
    fn forget_processes(&self, before: u64) -> Result<(), StoreError> {
        let sql = "SELECT DISTINCT process FROM tab_owner WHERE process IS NOT NULL AND updated_at < ?1";
        for mut row in self.read(sql, &[before.into()])? {
            let process = row.integer()?;
            if !self.run(|connection| connection.lives(process))? {
                let sql = "UPDATE tab_owner SET process = NULL WHERE process = ?1 AND updated_at < ?2";
                self.write(sql, &[process.into(), before.into()])?;
            }
        }
        Ok(())
    }

    pub(super) fn open_counts(&self) -> Result<Vec<(KeyState, u64)>, StoreError> {
        // The words of the index, so that nobody walks over what is settled.
        let sql = "SELECT state, COUNT(*) FROM op_key WHERE state IN ('delivered', 'acked', 'unknown', 'settled')
                   GROUP BY state";
        let mut counts = Vec::new();
        for mut row in self.read(sql, &[])? {
            let state = row.word("state", KeyState::from_word)?;
            if state.is_open() {
                counts.push((state, row.integer()?));
            }
        }
        Ok(counts)
    }
}
