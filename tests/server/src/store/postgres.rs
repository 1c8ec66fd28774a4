//! The PostgreSQL store: one connection of this process, and one unit of work at a time in all of them.
//!
//! An advisory lock of the schema makes the transactions of several processes as serial as SQLite's, so that the same
//! decisions hold on both. Leases and deadlines go by the database's clock. Without TLS: the server belongs beside
//! its database, or behind a tunnel.

use std::cell::RefCell;
use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use postgres::error::Severity;
use postgres::types::private::BytesMut;
use postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use postgres::{Client, NoTls, Statement};

use super::cells::{Cell, Cells};
use super::group::{Engine, Group};
use super::hearing::{self, CHANNEL, Ears, PROCESSES};
use super::limits::{self, BEGIN, Limits};
use super::places::numbered;
use super::schema::{self, POSTGRES};
use super::sql::Sql;
use super::sqlite::{Clock, system_clock};
use super::{Hear, Store, StoreError, Tx, Word, fresh_process};

/// A store in one schema of a PostgreSQL database: the first of the connection's `search_path`.
pub struct PostgresStore {
    group: Group<Postgres>,
    /// How far the database's clock was ahead of this machine's, in ms.
    ahead: Arc<AtomicI64>,
    machine: Clock,
    config: Box<postgres::Config>,
    limits: Limits,
    process: u64,
    over: Arc<AtomicBool>,
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore").finish_non_exhaustive()
    }
}

struct Postgres {
    config: postgres::Config,
    limits: Limits,
    process: u64,
    live: RefCell<Option<Live>>,
    ahead: Arc<AtomicI64>,
    machine: Clock,
    /// Added to the database's clock.
    shift: Option<Clock>,
}

struct Live {
    client: Client,
    statements: HashMap<String, Statement>,
}

impl PostgresStore {
    /// Connects, and brings the schema up to date. `shift` is added to the database's clock: time passes when a test
    /// says so.
    ///
    /// # Errors
    /// A URL or a database that cannot be used, or a schema that is newer than this code.
    pub fn connect(url: &str, limits: Limits, shift: Option<Clock>) -> Result<Self, StoreError> {
        let (ahead, machine) = (Arc::new(AtomicI64::new(0)), system_clock());
        let mut config: Box<postgres::Config> = Box::new(url.parse()?);
        limits::bound(&mut config);
        let (url, ahead2, machine2) = (url.to_owned(), ahead.clone(), machine.clone());
        let process = fresh_process();
        let group = Group::start(move || {
            let engine = Postgres { process, ..open(&url, limits, ahead2, machine2, shift)? };
            schema::migrate(&engine, &POSTGRES, usize::MAX)?;
            // What is left to say of time until the first transaction.
            engine.begin()?;
            engine.batch("COMMIT")?;
            Ok(engine)
        })?;
        Ok(Self { group, ahead, machine, config, limits, process, over: Arc::default() })
    }

    /// Leaves the database as a process does that dies after so many statements of the schema ladder. Must not be
    /// called on a thread of an async runtime.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub fn migrate_partly(url: &str, statements: usize) -> Result<bool, StoreError> {
        let engine = open(url, Limits::default(), Arc::default(), system_clock(), None)?;
        schema::migrate(&engine, &POSTGRES, statements)
    }

    /// Finishes what was begun, and closes the connection.
    pub fn close(&self) {
        self.over.store(true, Ordering::SeqCst);
        self.group.close();
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.close();
    }
}

fn open(
    url: &str,
    limits: Limits,
    ahead: Arc<AtomicI64>,
    machine: Clock,
    shift: Option<Clock>,
) -> Result<Postgres, StoreError> {
    let mut config: postgres::Config = url.parse()?;
    limits::bound(&mut config);
    let engine = Postgres { config, limits, process: fresh_process(), live: RefCell::default(), ahead, machine, shift };
    engine.reconnect()?;
    Ok(engine)
}

impl Store for PostgresStore {
    async fn transact<T, E>(&self, work: impl FnOnce(&dyn Tx) -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.group.transact(work).await
    }

    fn listen(&self, hear: Hear) {
        let (config, over) = (postgres::Config::clone(&self.config), self.over.clone());
        hearing::listen(Ears { config, limits: self.limits, process: self.process, over }, hear);
    }

    fn now(&self) -> u64 {
        (self.machine)().saturating_add_signed(self.ahead.load(Ordering::SeqCst))
    }
}

impl Postgres {
    fn reconnect(&self) -> Result<(), StoreError> {
        let mut client = self.config.connect(NoTls)?;
        client.batch_execute(&self.limits.session())?;
        *self.live.borrow_mut() = Some(Live { client, statements: HashMap::new() });
        Ok(())
    }

    fn with<T>(&self, work: impl FnOnce(&mut Live) -> Result<T, postgres::Error>) -> Result<T, StoreError> {
        let mut live = self.live.borrow_mut();
        let live = live.as_mut().ok_or(StoreError::Closed)?;
        Ok(work(live)?)
    }
}

/// Whether it was the connection that failed, and not a statement.
fn is_lost(error: &StoreError) -> bool {
    let StoreError::Server(error) = error else { return false };
    error.as_db_error().is_none_or(|error| error.parsed_severity() != Some(Severity::Error))
}

impl Engine for Postgres {
    fn begin(&self) -> Result<u64, StoreError> {
        let closed = self.live.borrow().as_ref().is_none_or(|live| live.client.is_closed());
        if closed {
            // The database was restarted, or the network was: nothing of the old connection is open any more.
            self.reconnect()?;
        }
        let begin = format!("{BEGIN}; SELECT pg_advisory_xact_lock(1886547051, hashtext(current_schema()))");
        if let Err(error) = self.batch(&begin) {
            // What is left of it is not worth a look.
            *self.live.borrow_mut() = None;
            if !is_lost(&error) {
                // Its turn did not come in time: another connection would only wait as long again.
                return Err(error);
            }
            self.reconnect()?;
            self.batch(&begin)?;
        }
        let rows = self.query("SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)", &[])?;
        let now = rows.into_iter().next().map_or(Err(StoreError::Unreadable("clock")), |mut row| row.integer())?;
        let now = now.saturating_add(self.shift.as_ref().map_or(0, |shift| shift()));
        self.ahead.store(now.cast_signed().saturating_sub((self.machine)().cast_signed()), Ordering::SeqCst);
        Ok(now)
    }

    fn commit(&self) -> Result<(), StoreError> {
        // COMMIT of an aborted transaction succeeds, and rolls back: its tag says `ROLLBACK`, which the client does not
        // hand on. Any other statement is refused there, and what follows it in one message is not run.
        self.batch("SELECT 1; COMMIT")
    }

    fn roll_back(&self) {
        if let Err(error) = self.batch("ROLLBACK") {
            tracing::error!(%error, "cannot roll back: the connection is given up");
            *self.live.borrow_mut() = None;
        }
    }
}

impl Sql for Postgres {
    fn notify(&self, word: &Word) -> Result<(), StoreError> {
        let sql = format!("SELECT CAST(pg_notify({CHANNEL}, ?1) AS TEXT)");
        self.query(&sql, &[format!("{} {word}", self.process).into()]).map(|_| ())
    }

    fn process(&self) -> u64 {
        self.process
    }

    fn lives(&self, process: u64) -> Result<bool, StoreError> {
        if process == self.process {
            return Ok(true);
        }
        let sql = format!(
            "SELECT COUNT(*) FROM pg_locks
             WHERE locktype = 'advisory' AND CAST(classid AS BIGINT) = {PROCESSES} AND objsubid = 2 AND granted
               AND CAST(objid AS BIGINT) = ?1
               AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        );
        let found = self.query(&sql, &[process.into()])?.into_iter().next();
        Ok(found.map_or(Ok(0), |mut row| row.integer())? > 0)
    }

    fn batch(&self, sql: &str) -> Result<(), StoreError> {
        self.with(|live| live.client.batch_execute(sql))
    }

    fn query(&self, sql: &str, params: &[Cell]) -> Result<Vec<Cells>, StoreError> {
        let rows = self.with(|live| {
            let statement = live.prepared(sql)?;
            live.client.query(&statement, &borrowed(params))
        })?;
        rows.iter().map(|row| (0..row.len()).map(|n| cell(row, n)).collect::<Result<_, _>>().map(Cells::new)).collect()
    }

    fn execute(&self, sql: &str, params: &[Cell]) -> Result<u64, StoreError> {
        self.with(|live| {
            let statement = live.prepared(sql)?;
            live.client.execute(&statement, &borrowed(params))
        })
    }
}

impl Live {
    fn prepared(&mut self, sql: &str) -> Result<Statement, postgres::Error> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(&numbered(sql))?;
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }
}

fn borrowed(params: &[Cell]) -> Vec<&(dyn ToSql + Sync)> {
    params.iter().map(|cell| cell as &(dyn ToSql + Sync)).collect()
}

fn cell(row: &postgres::Row, n: usize) -> Result<Cell, StoreError> {
    let column = row.columns().get(n).ok_or(StoreError::Unreadable("a column is missing"))?;
    Ok(match *column.type_() {
        Type::INT8 => row.try_get::<_, Option<i64>>(n)?.map_or(Cell::Null, Cell::Integer),
        Type::BYTEA => match row.try_get::<_, Option<Vec<u8>>>(n)? {
            Some(bytes) => Cell::Text(String::from_utf8(bytes).map_err(|_| StoreError::Unreadable("a text"))?),
            None => Cell::Null,
        },
        _ => row.try_get::<_, Option<String>>(n)?.into(),
    })
}

impl ToSql for Cell {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Integer(number) => number.to_sql_checked(ty, out),
            Self::Text(text) if *ty == Type::BYTEA => text.as_bytes().to_sql_checked(ty, out),
            Self::Text(text) => text.to_sql_checked(ty, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}
