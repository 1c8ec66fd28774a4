//! The schema as an additive ladder: each step in one transaction with its ledger entry (S11).
//!
//! One text for both databases; what they spell differently is replaced by a word of the dialect.

use super::StoreError;
use super::sql::Sql;

/// How a database spells what the ladder leaves open.
pub(super) struct Dialect {
    /// Begins a transaction that no other process's ladder runs beside.
    begin: &'static [&'static str],
    /// Word by word.
    words: &'static [(&'static str, &'static str)],
}

/// SQLite.
pub(super) const SQLITE: Dialect = Dialect { begin: &["BEGIN IMMEDIATE"], words: &[("BODY", "TEXT")] };

/// PostgreSQL. Its texts cannot hold U+0000, which a document may: those are bytes.
pub(super) const POSTGRES: Dialect = Dialect {
    begin: &["BEGIN", "SELECT pg_advisory_xact_lock(1886547051, hashtext(current_schema()))"],
    words: &[("BODY", "BYTEA"), ("INTEGER", "BIGINT"), (" WITHOUT ROWID", "")],
};

/// The steps, oldest first. A step that was released is never edited; a new one is added below.
const STEPS: &[&str] = &[STEP_1, STEP_2, STEP_3, STEP_4];

const STEP_1: &str = "
CREATE TABLE document (
    workspace_id TEXT NOT NULL,
    doc          TEXT NOT NULL,
    text         BODY NOT NULL,
    seq          INTEGER NOT NULL,
    PRIMARY KEY (workspace_id, doc)
) WITHOUT ROWID;

CREATE TABLE op_key (
    workspace_id  TEXT NOT NULL,
    user_id       TEXT NOT NULL,
    key           TEXT NOT NULL,
    route         TEXT NOT NULL,
    request_hash  TEXT NOT NULL,
    state         TEXT NOT NULL,
    claim_token   TEXT NOT NULL,
    lease_until   INTEGER NOT NULL,
    attempt       INTEGER NOT NULL,
    status        INTEGER,
    response      TEXT,
    patch_id      TEXT,
    delivery      INTEGER,
    tab_id        TEXT,
    journal_id    TEXT,
    doc           TEXT,
    incarnation   TEXT,
    homed         TEXT,
    conn          TEXT,
    base_seq      INTEGER,
    base_body     BODY,
    body          TEXT,
    digest        TEXT,
    guarded       INTEGER,
    expires_at    INTEGER,
    created_at    INTEGER NOT NULL,
    settled_by    TEXT,
    settled_at    INTEGER,
    contradicted  INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (workspace_id, user_id, key)
);
CREATE UNIQUE INDEX op_key_patch ON op_key (patch_id) WHERE patch_id IS NOT NULL;
CREATE INDEX op_key_open ON op_key (tab_id, doc) WHERE state IN ('delivered', 'acked', 'unknown');
CREATE INDEX op_key_settled ON op_key (settled_at) WHERE state IN ('done', 'refused');

CREATE TABLE tab_owner (
    tab_id       TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    user_id      TEXT NOT NULL,
    journal_id   TEXT NOT NULL,
    epoch        INTEGER NOT NULL,
    context_id   TEXT NOT NULL,
    conn         TEXT NOT NULL,
    updated_at   INTEGER NOT NULL
) WITHOUT ROWID;

-- Every incarnation announced under a tab's current epoch; the highest ordinal is the newest.
CREATE TABLE tab_incarnation (
    tab_id      TEXT NOT NULL,
    doc         TEXT NOT NULL,
    ordinal     INTEGER NOT NULL,
    epoch       INTEGER NOT NULL,
    incarnation TEXT NOT NULL,
    PRIMARY KEY (tab_id, doc, ordinal)
) WITHOUT ROWID;

-- One row: keys first claimed up to here may have been removed (S9).
CREATE TABLE watermark (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    first_at INTEGER NOT NULL
);
";

/// S10: a person's word. Settled rows stay with their recipient, so that later evidence finds them.
const STEP_2: &str = "
ALTER TABLE op_key ADD COLUMN settled_as TEXT;
ALTER TABLE op_key ADD COLUMN settled_who TEXT;
CREATE INDEX op_key_watched ON op_key (tab_id, doc) WHERE state IN ('delivered', 'acked', 'unknown', 'settled');
DROP INDEX op_key_open;
";

/// Limits: what one user has open is counted without a look at what is settled.
const STEP_3: &str = "
CREATE INDEX op_key_of_user ON op_key (workspace_id, user_id)
    WHERE state IN ('claimed', 'delivered', 'acked', 'unknown');
";

/// W3: a conflict tells which effects the stored text may hold.
const STEP_4: &str = "
ALTER TABLE op_key ADD COLUMN doubted_seq INTEGER;
";

/// Brings a database to the newest step. Safe to run again after a crash anywhere: a step and its ledger entry are
/// committed together. Runs at most so many statements, and says whether that was all there was to do; less leaves
/// the transaction open, as a process does that dies.
///
/// # Errors
/// [`StoreError::Newer`] where a later version of this code wrote it.
pub(super) fn migrate(sql: &impl Sql, dialect: &Dialect, mut statements: usize) -> Result<bool, StoreError> {
    let mut run = |statement: &str| {
        let left = statements > 0;
        if left {
            statements -= 1;
            let spelled = dialect.words.iter().fold(statement.to_owned(), |s, (from, to)| s.replace(from, to));
            sql.batch(&spelled)?;
        }
        Ok::<_, StoreError>(left)
    };
    loop {
        for begin in dialect.begin {
            sql.batch(begin)?;
        }
        if !run("CREATE TABLE IF NOT EXISTS schema_step (step INTEGER PRIMARY KEY)")? {
            return Ok(false);
        }
        // Inside the transaction: another process may have come first.
        let found = sql.query("SELECT COALESCE(MAX(step), 0) FROM schema_step", &[])?;
        let found = found.into_iter().next().map_or(Ok(0), |mut row| row.integer())?;
        let known = u32::try_from(STEPS.len()).unwrap_or(u32::MAX);
        let found = u32::try_from(found).unwrap_or(u32::MAX);
        if found > known {
            sql.batch("ROLLBACK")?;
            return Err(StoreError::Newer { found, known });
        }
        let Some(text) = usize::try_from(found).ok().and_then(|n| STEPS.get(n)) else {
            sql.batch("COMMIT")?;
            return Ok(true);
        };
        for statement in text.split(";\n").map(str::trim).filter(|s| !s.is_empty()) {
            if !run(statement)? {
                return Ok(false);
            }
        }
        if !run(&format!("INSERT INTO schema_step (step) VALUES ({})", found + 1))? || !run("COMMIT")? {
            return Ok(false);
        }
    }
}
