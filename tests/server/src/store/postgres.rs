//! The PostgreSQL store: one connection of this process, and one unit of work at a time in all of them.
//!
//! An advisory lock of the schema makes the transactions of several processes as serial as SQLite's, so that the same
//! decisions hold on both. Leases and deadlines go by the database's clock. Without TLS: the server belongs beside
//! its database, or behind a tunnel.

use std::cell::RefCell;
use std::collections::HashMap;
use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use postgres::fallible_iterator::FallibleIterator as _;
use postgres::types::private::BytesMut;
use postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use postgres::{Client, NoTls, Statement};

use super::cells::{Cell, Cells};
use super::group::{Engine, Group};
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
    pub fn connect(url: &str, shift: Option<Clock>) -> Result<Self, StoreError> {
        let (ahead, machine) = (Arc::new(AtomicI64::new(0)), system_clock());
        let config = Box::new(url.parse()?);
        let (url, ahead2, machine2) = (url.to_owned(), ahead.clone(), machine.clone());
        let process = fresh_process();
        let group = Group::start(move || {
            let engine = Postgres { process, ..open(&url, ahead2, machine2, shift)? };
            schema::migrate(&engine, &POSTGRES, usize::MAX)?;
            // What is left to say of time until the first transaction.
            engine.begin()?;
            engine.batch("COMMIT")?;
            Ok(engine)
        })?;
        Ok(Self { group, ahead, machine, config, process, over: Arc::default() })
    }

    /// Leaves the database as a process does that dies after so many statements of the schema ladder. Must not be
    /// called on a thread of an async runtime.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub fn migrate_partly(url: &str, statements: usize) -> Result<bool, StoreError> {
        schema::migrate(&open(url, Arc::default(), system_clock(), None)?, &POSTGRES, statements)
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

fn open(url: &str, ahead: Arc<AtomicI64>, machine: Clock, shift: Option<Clock>) -> Result<Postgres, StoreError> {
    let config: postgres::Config = url.parse()?;
    let engine = Postgres { config, process: fresh_process(), live: RefCell::default(), ahead, machine, shift };
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
        let (config, process, over) = (self.config.clone(), self.process, self.over.clone());
        let (begun, begins) = mpsc::channel();
        let listening = move || {
            let mut times = 0;
            while !over.load(Ordering::SeqCst) {
                let listens = || {
                    // Whoever started this waits for the first time alone.
                    let _heard = begun.send(());
                    if times > 0 {
                        hear(Word::Missed);
                    }
                };
                if let Err(error) = hear_until(&config, process, &over, &hear, listens) {
                    tracing::debug!(%error, "not listening to other processes");
                    std::thread::sleep(LISTEN_AGAIN);
                }
                times += 1;
            }
        };
        if let Err(error) = std::thread::Builder::new().name("patchkeep-listen".into()).spawn(listening) {
            tracing::warn!(%error, "other processes are not heard");
        }
        // A tab that connects to this process right away is elected by the others right away.
        if begins.recv_timeout(LISTEN_WITHIN).is_err() {
            tracing::warn!("other processes are not heard yet");
        }
    }

    fn now(&self) -> u64 {
        (self.machine)().saturating_add_signed(self.ahead.load(Ordering::SeqCst))
    }
}

/// Listens on a connection of its own, until it is lost or the store closed.
fn hear_until(
    config: &postgres::Config,
    process: u64,
    over: &AtomicBool,
    hear: &Hear,
    listens: impl FnOnce(),
) -> Result<(), postgres::Error> {
    let mut client = config.connect(NoTls)?;
    let channel: String = client.query_one(&format!("SELECT {CHANNEL}"), &[])?.try_get(0)?;
    // Whoever holds that lock hears: it goes with the connection, however the process ends. Shared, so that what is left
    // of an older connection of this process is not waited for.
    client.batch_execute(&format!("LISTEN {channel}; SELECT pg_advisory_lock_shared({PROCESSES}, {process})"))?;
    listens();
    let own = process.to_string();
    while !over.load(Ordering::SeqCst) {
        {
            let mut notifications = client.notifications();
            let mut told = notifications.timeout_iter(LISTEN_AGAIN);
            while let Some(notification) = told.next()? {
                // What this process says comes back to it.
                let said = notification.payload().split_once(' ').filter(|(by, _)| *by != own);
                if let Some(word) = said.and_then(|(_, word)| Word::read(word)) {
                    hear(word);
                }
            }
        }
        if client.is_closed() {
            return Ok(());
        }
    }
    Ok(())
}

/// One channel for each schema.
const CHANNEL: &str = "'patchkeep_' || CAST(abs(CAST(hashtext(current_schema()) AS BIGINT)) AS TEXT)";
/// The first half of the locks that living processes hold; the second is the process.
const PROCESSES: u32 = 1_886_547_052;
/// How long a start waits for the listener.
const LISTEN_WITHIN: Duration = Duration::from_secs(5);
/// How often a listener looks whether it is to end, and how long it waits before it connects again.
const LISTEN_AGAIN: Duration = Duration::from_millis(200);

impl Postgres {
    fn reconnect(&self) -> Result<(), StoreError> {
        let client = self.config.connect(NoTls)?;
        *self.live.borrow_mut() = Some(Live { client, statements: HashMap::new() });
        Ok(())
    }

    fn with<T>(&self, work: impl FnOnce(&mut Live) -> Result<T, postgres::Error>) -> Result<T, StoreError> {
        let mut live = self.live.borrow_mut();
        let live = live.as_mut().ok_or(StoreError::Closed)?;
        Ok(work(live)?)
    }
}

impl Engine for Postgres {
    fn begin(&self) -> Result<u64, StoreError> {
        let closed = self.live.borrow().as_ref().is_none_or(|live| live.client.is_closed());
        if closed {
            // The database was restarted, or the network was: nothing of the old connection is open any more.
            self.reconnect()?;
        }
        let begun = self.batch("BEGIN; SELECT pg_advisory_xact_lock(1886547051, hashtext(current_schema()))");
        if begun.is_err() && self.reconnect().is_ok() {
            self.batch("BEGIN; SELECT pg_advisory_xact_lock(1886547051, hashtext(current_schema()))")?;
        } else {
            begun?;
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
        let statement = self.client.prepare(&sql.replace('?', "$"))?;
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
