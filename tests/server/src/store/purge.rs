//! What goes by age, in steps that others do not wait for long (S9), and the counts of what never goes.

use super::StoreError;
use super::sql::{Sql, SqlTx};
use crate::decide::KeyState;

/// Settled without an effect still open; and claimed, and never gone on with. Each by an index of its own.
const PURGEABLE: [&str; 2] = [
    "state IN ('done', 'refused', 'lost') AND settled_at < ?1 ORDER BY settled_at",
    "state = 'claimed' AND lease_until < ?1 ORDER BY lease_until",
];

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
