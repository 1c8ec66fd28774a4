//! The schema as an additive ladder: each step in one transaction with its ledger entry (S11).
//!
//! One text for both databases; what they spell differently is replaced by a word of the dialect.

use super::StoreError;
use super::cells::Cell;
use super::limits::{BEGIN, UNLIMITED};
use super::sql::Sql;

/// How a database spells what the ladder leaves open.
pub(super) struct Dialect {
    /// Begins a transaction that no other process's ladder runs beside.
    begin: &'static [&'static str],
    /// Word by word.
    words: &'static [(&'static str, &'static str)],
    /// How many there are of a column (`table.column`) or an index.
    things: &'static str,
    /// The columns of a table, and their types.
    columns: &'static str,
}

/// SQLite.
pub(super) const SQLITE: Dialect =
    Dialect { begin: &["BEGIN IMMEDIATE"], words: &[("BODY", "TEXT")], things: SQLITE_THINGS, columns: SQLITE_COLUMNS };
const SQLITE_COLUMNS: &str = "SELECT name, type FROM pragma_table_info(?1) ORDER BY cid";
const SQLITE_THINGS: &str = "
SELECT COUNT(*) FROM (
    SELECT t.name || '.' || c.name AS thing FROM sqlite_schema AS t, pragma_table_info(t.name) AS c WHERE t.type = 'table'
    UNION ALL SELECT name FROM sqlite_schema WHERE type = 'index')
WHERE thing = ?1";

/// PostgreSQL. Its texts cannot hold U+0000, which a document may: those are bytes.
pub(super) const POSTGRES: Dialect = Dialect {
    begin: &[BEGIN, UNLIMITED, "SELECT pg_advisory_xact_lock(1886547051, hashtext(current_schema()))"],
    words: &[("BODY", "BYTEA"), ("INTEGER", "BIGINT"), (" WITHOUT ROWID", "")],
    things: POSTGRES_THINGS,
    columns: POSTGRES_COLUMNS,
};
const POSTGRES_COLUMNS: &str = "
SELECT CAST(column_name AS TEXT), CAST(data_type AS TEXT) FROM information_schema.columns
WHERE table_schema = current_schema() AND table_name = ?1 ORDER BY ordinal_position";
const POSTGRES_THINGS: &str = "
SELECT COUNT(*) FROM (
    SELECT table_name || '.' || column_name AS thing FROM information_schema.columns WHERE table_schema = current_schema()
    UNION ALL SELECT CAST(indexname AS TEXT) FROM pg_indexes WHERE schemaname = current_schema()) AS things
WHERE thing = CAST(?1 AS TEXT)";

/// One step of the ladder.
struct Step {
    /// A column or an index that is there once the step was taken, and stays.
    mark: &'static str,
    /// A table that is made anew under another key first.
    rebuild: Option<Rebuild>,
    /// What it runs.
    text: &'static str,
}

/// A table made anew. Every row goes over, or the step fails; and every column, whoever added it.
struct Rebuild {
    table: &'static str,
    /// Its columns and keys from now on.
    body: &'static str,
    /// The columns the body names. Those it does not name are carried with their type, and may be null.
    columns: &'static [&'static str],
}

const fn step(mark: &'static str, text: &'static str) -> Step {
    Step { mark, rebuild: None, text }
}

/// The steps, oldest first. A step that was released is never edited; a new one is added below.
const STEPS: &[Step] = &[
    step("op_key.claim_token", STEP_1),
    step("op_key_watched", STEP_2),
    step("op_key_of_user", STEP_3),
    step("op_key.doubted_seq", STEP_4),
    Step { mark: "tab_incarnation_order", rebuild: Some(REBUILD_5), text: STEP_5 },
    step("op_key_over", STEP_6),
    step("tab_open_of_user", STEP_7),
    step("op_key_claimed", STEP_8),
    step("tab_owner_age", STEP_9),
    step("op_key_doubted", STEP_10),
];

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

/// W1: whether an incarnation was announced is asked by its id; its place in the order is a column like others.
const REBUILD_5: Rebuild = Rebuild {
    table: "tab_incarnation",
    body: "(
    tab_id      TEXT NOT NULL,
    doc         TEXT NOT NULL,
    incarnation TEXT NOT NULL,
    ordinal     INTEGER NOT NULL,
    epoch       INTEGER NOT NULL,
    PRIMARY KEY (tab_id, doc, incarnation)
) WITHOUT ROWID",
    columns: &["tab_id", "doc", "incarnation", "ordinal", "epoch"],
};
const STEP_5: &str = "
CREATE UNIQUE INDEX tab_incarnation_order ON tab_incarnation (tab_id, doc, ordinal);
";

/// S9: what is lost is over as well.
const STEP_6: &str = "
CREATE INDEX op_key_over ON op_key (settled_at) WHERE state IN ('done', 'refused', 'lost');
DROP INDEX op_key_settled;
";

/// S5: a tab is elected among the sockets of all processes.
const STEP_7: &str = "
ALTER TABLE tab_owner ADD COLUMN process INTEGER;
ALTER TABLE tab_owner ADD COLUMN since INTEGER;
ALTER TABLE tab_owner ADD COLUMN hidden INTEGER;
CREATE TABLE tab_open (
    tab_id       TEXT NOT NULL,
    doc          TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    user_id      TEXT NOT NULL,
    conn         TEXT NOT NULL,
    incarnation  TEXT NOT NULL,
    homed        TEXT NOT NULL,
    PRIMARY KEY (tab_id, doc)
) WITHOUT ROWID;
CREATE INDEX tab_open_of_user ON tab_open (workspace_id, user_id, doc);
";

/// S9: claims that nobody went on with are found by the end of their lease.
const STEP_8: &str = "
CREATE INDEX op_key_claimed ON op_key (lease_until) WHERE state = 'claimed';
";

/// What tabs leave behind goes by age. Of what was announced before nobody knows what it keeps out: all that is stored.
const STEP_9: &str = "
ALTER TABLE tab_incarnation ADD COLUMN announced_at INTEGER;
ALTER TABLE tab_incarnation ADD COLUMN fence_seq INTEGER;
UPDATE tab_incarnation SET announced_at = 0, fence_seq = (
    SELECT COALESCE(MAX(document.seq), 0) FROM document WHERE document.doc = tab_incarnation.doc);
CREATE INDEX tab_incarnation_age ON tab_incarnation (announced_at);
CREATE INDEX tab_owner_age ON tab_owner (updated_at);
";

/// W1: `(epoch, generation)` orders a tab's incarnations. W3: a conflict tells what earlier saves carried in doubt.
const STEP_10: &str = "
ALTER TABLE tab_incarnation ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;
CREATE INDEX op_key_doubted ON op_key (workspace_id, user_id, doc, doubted_seq) WHERE doubted_seq IS NOT NULL;
";

/// Brings a database to the newest step. Safe to run again after a crash anywhere: a step and its ledger entry are
/// committed together. A database from before the ledger is recognised at the step whose marks it bears. Runs at most so many statements, and says whether that was all there was to do; less leaves
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
        let found = number(sql, "SELECT COALESCE(MAX(step), 0) FROM schema_step", &[])?;
        if found == 0 {
            let mut before = 0;
            for step in STEPS {
                if number(sql, dialect.things, &[step.mark.into()])? == 0 {
                    break;
                }
                before += 1;
                if !run(&format!("INSERT INTO schema_step (step) VALUES ({before})"))? {
                    return Ok(false);
                }
            }
            if before > 0 {
                tracing::info!(step = before, "a database from before the ledger");
                if !run("COMMIT")? {
                    return Ok(false);
                }
                continue;
            }
        }
        let known = u32::try_from(STEPS.len()).unwrap_or(u32::MAX);
        let found = u32::try_from(found).unwrap_or(u32::MAX);
        if found > known {
            sql.batch("ROLLBACK")?;
            return Err(StoreError::Newer { found, known });
        }
        let Some(step) = usize::try_from(found).ok().and_then(|n| STEPS.get(n)) else {
            sql.batch("COMMIT")?;
            return Ok(true);
        };
        let mut statements = match &step.rebuild {
            Some(rebuild) => rebuilt(sql, dialect, rebuild)?,
            None => Vec::new(),
        };
        statements.extend(step.text.split(";\n").map(|s| s.trim().to_owned()).filter(|s| !s.is_empty()));
        for statement in &statements {
            if !run(statement)? {
                return Ok(false);
            }
        }
        if !run(&format!("INSERT INTO schema_step (step) VALUES ({})", found + 1))? || !run("COMMIT")? {
            return Ok(false);
        }
    }
}

fn number(sql: &impl Sql, query: &str, params: &[Cell]) -> Result<u64, StoreError> {
    sql.query(query, params)?.into_iter().next().map_or(Ok(0), |mut row| row.integer())
}

/// The statements that make a table anew and carry over what is in it.
fn rebuilt(sql: &impl Sql, dialect: &Dialect, rebuild: &Rebuild) -> Result<Vec<String>, StoreError> {
    let Rebuild { table, body, columns } = rebuild;
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let mut statements = vec![format!("CREATE TABLE {table}_anew {body}")];
    let mut carried = Vec::new();
    for mut row in sql.query(dialect.columns, &[(*table).into()])? {
        let (name, of_type) = (row.text()?, row.text()?);
        if !columns.contains(&name.as_str()) {
            statements.push(format!("ALTER TABLE {table}_anew ADD COLUMN {} {of_type}", quoted(&name)));
        }
        carried.push(quoted(&name));
    }
    let carried = carried.join(", ");
    statements.push(format!("INSERT INTO {table}_anew ({carried}) SELECT {carried} FROM {table}"));
    statements.push(format!("DROP TABLE {table}"));
    statements.push(format!("ALTER TABLE {table}_anew RENAME TO {table}"));
    Ok(statements)
}
