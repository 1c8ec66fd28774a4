//! The SQLite store: one file, one connection, WAL with `synchronous = FULL`.

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, params_from_iter};

use super::cells::{Cell, Cells};
use super::group::{Engine, Group};
use super::schema::{self, SQLITE};
use super::sql::Sql;
use super::{Store, StoreError, Tx};

/// A clock: ms since the epoch. An embedded database has its process's.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The machine's clock.
pub fn system_clock() -> Clock {
    Arc::new(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// A store in one SQLite file.
pub struct SqliteStore {
    group: Group<Sqlite>,
    clock: Clock,
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").finish_non_exhaustive()
    }
}

struct Sqlite {
    connection: Connection,
    process: u64,
    clock: Clock,
}

impl SqliteStore {
    /// Opens or makes the file, and brings its schema up to date.
    ///
    /// # Errors
    /// A file that cannot be opened, or whose schema is newer than this code.
    pub fn open(path: &Path, clock: Clock) -> Result<Self, StoreError> {
        let (path, engines) = (path.to_owned(), clock.clone());
        let group = Group::start(move || {
            let engine = connect(&path, engines)?;
            schema::migrate(&engine, &SQLITE, usize::MAX)?;
            Ok(engine)
        })?;
        Ok(Self { group, clock })
    }

    /// Leaves the file as a process does that dies after so many statements of the schema ladder.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn migrate_partly(path: &Path, statements: usize) -> Result<bool, StoreError> {
        schema::migrate(&connect(path, system_clock())?, &SQLITE, statements)
    }

    /// Finishes what was begun, and closes the file.
    pub fn close(&self) {
        self.group.close();
    }
}

fn connect(path: &Path, clock: Clock) -> Result<Sqlite, StoreError> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // Durability is promised: `done` is told only after the log is on the disk.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", "ON")?;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(Sqlite { connection, process: super::fresh_process(), clock })
}

impl Store for SqliteStore {
    async fn transact<T, E>(&self, work: impl FnOnce(&dyn Tx) -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.group.transact(work).await
    }

    fn now(&self) -> u64 {
        (self.clock)()
    }
}

impl Engine for Sqlite {
    fn begin(&self) -> Result<u64, StoreError> {
        self.batch("BEGIN IMMEDIATE")?;
        Ok((self.clock)())
    }

    fn commit(&self) -> Result<(), StoreError> {
        self.batch("COMMIT")
    }

    fn roll_back(&self) {
        // Some errors end the transaction by themselves; then there is none.
        if !self.connection.is_autocommit()
            && let Err(error) = self.batch("ROLLBACK")
        {
            tracing::error!(%error, "cannot roll back");
        }
    }
}

impl Sql for Sqlite {
    fn process(&self) -> u64 {
        self.process
    }

    fn batch(&self, sql: &str) -> Result<(), StoreError> {
        Ok(self.connection.execute_batch(sql)?)
    }

    fn query(&self, sql: &str, params: &[Cell]) -> Result<Vec<Cells>, StoreError> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let width = statement.column_count();
        let read = |row: &rusqlite::Row<'_>| (0..width).map(|n| Ok(cell(row.get_ref(n)?))).collect();
        let rows = statement.query_map(params_from_iter(params), read)?;
        Ok(rows.collect::<Result<Vec<Vec<_>>, _>>()?.into_iter().map(Cells::new).collect())
    }

    fn execute(&self, sql: &str, params: &[Cell]) -> Result<u64, StoreError> {
        let changed = self.connection.prepare_cached(sql)?.execute(params_from_iter(params))?;
        Ok(u64::try_from(changed).unwrap_or(u64::MAX))
    }
}

fn cell(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Integer(number) => Cell::Integer(number),
        ValueRef::Text(text) => Cell::Text(String::from_utf8_lossy(text).into_owned()),
        // No column of ours holds anything else; it is reported as unreadable where a text or a number is needed.
        ValueRef::Null | ValueRef::Real(_) | ValueRef::Blob(_) => Cell::Null,
    }
}

impl rusqlite::ToSql for Cell {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}
