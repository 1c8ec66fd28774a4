//! The ops of an agent, on the disk before the network hears of them (K1).
//!
//! One SQLite file for all agents of a user. Each process is a tab of its own: its ops carry its id, and a file that
//! it holds locked says that it is alive. The kernel lets go of the lock when the process ends, however it ends; what
//! it left behind may then be taken over, in the transaction that takes it away from the dead (T5, J4).

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use patchkeep_core::ids::TabId;
use patchkeep_core::outbox::{Op, OpKey, OpState, OutboxTransaction};
use patchkeep_core::storage::{StorageFault, TransactionOutcome};
use rusqlite::{Connection, ErrorCode, OptionalExtension, TransactionBehavior, params};

use crate::store::system_clock;

/// The ops of one user at one server.
#[derive(Debug)]
pub struct OpStore {
    db: Connection,
    alive: PathBuf,
    scope: String,
    tab_id: TabId,
    /// Locked as long as this process lives.
    _lock: File,
}

/// Why there is no store.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file system.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The database.
    #[error("{0}")]
    Database(#[from] rusqlite::Error),
    /// It was written by a later version.
    #[error("the state was written by a later version")]
    Newer,
}

/// What is known of a key before it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing, and it is kept for this process now.
    Free,
    /// An op whose process is gone.
    Idle(TabId, Box<Op>),
    /// A process that lives is at work on it.
    Busy,
    /// A record that cannot be read. It is left where it is.
    Corrupt,
}

/// An op as it lies in the store.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Its key.
    pub key: String,
    /// The op; `None` where it cannot be read.
    pub op: Option<Op>,
    /// Whose it is.
    pub owner: Option<TabId>,
}

/// What is over is kept so long, for whoever repeats a key (K3), in ms.
const KEEP_OVER_MS: i64 = 7 * 24 * 3_600_000;
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
const VERSION: u32 = 1;

impl OpStore {
    /// Opens the state in this folder for a process with a fresh `tab_id`, and makes it where there is none. `scope`
    /// names server and principal: ops of another are not seen (T6).
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(folder: &Path, scope: &str, tab_id: TabId) -> Result<Self, OpenError> {
        let (alive, mut db) = (folder.join("alive"), open(folder)?);
        private_folder(&alive)?;
        let lock = private(File::options().read(true).write(true).create_new(true), &alive.join(tab_id.to_string()))?;
        lock.lock()?;
        let before = now_ms().saturating_sub(KEEP_OVER_MS);
        let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        tx.execute(
            "DELETE FROM op WHERE state IN ('kept', 'done', 'refused', 'conflict') AND written_at < ?1",
            params![before],
        )?;
        tx.commit()?;
        Ok(Self { db, alive, scope: scope.to_owned(), tab_id, _lock: lock })
    }

    /// Whose ops this process writes.
    pub const fn tab_id(&self) -> TabId {
        self.tab_id
    }

    /// Keeps a key for this process, or says what is known of it. Until an op is written under it, nobody else sees it.
    ///
    /// # Errors
    /// The database.
    pub fn claim(&mut self, key: &OpKey) -> Result<Found, OpenError> {
        let tx = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let row: Option<(String, Option<String>)> = tx
            .query_row(
                "SELECT owner, op FROM op WHERE scope = ?1 AND key = ?2",
                params![self.scope, key.as_str()],
                |r| Ok((r.get(0)?, r.get(1)?)),
            )
            .optional()?;
        let Some((owner, op)) = row else {
            tx.execute(
                "INSERT INTO op (scope, key, owner, state, written_at) VALUES (?1, ?2, ?3, 'kept', ?4)",
                params![self.scope, key.as_str(), self.tab_id.to_string(), now_ms()],
            )?;
            tx.commit()?;
            return Ok(Found::Free);
        };
        let Ok(from) = owner.parse::<TabId>() else { return Ok(Found::Corrupt) };
        match op.map(|text| Op::decode(&text)) {
            _ if from != self.tab_id && !is_gone(&self.alive, from) => Ok(Found::Busy),
            None => {
                tx.execute(
                    "UPDATE op SET owner = ?3 WHERE scope = ?1 AND key = ?2",
                    params![self.scope, key.as_str(), self.tab_id.to_string()],
                )?;
                tx.commit()?;
                Ok(Found::Free)
            }
            Some(Ok(op)) => Ok(Found::Idle(from, op.into())),
            Some(Err(_)) => Ok(Found::Corrupt),
        }
    }

    /// The ops of this scope whose processes are gone, in the order in which they were queued.
    ///
    /// # Errors
    /// The database.
    pub fn idle(&self) -> Result<Vec<(TabId, Op)>, OpenError> {
        let mut idle: Vec<_> = read(&self.db, Some(&self.scope))?
            .into_iter()
            .filter_map(|stored| Some((stored.owner?, stored.op?)))
            .filter(|(owner, _)| *owner != self.tab_id && is_gone(&self.alive, *owner))
            .collect();
        idle.sort_by_key(|(_, op)| (op.created_at_ms, op.order));
        Ok(idle)
    }

    /// Writes, if all of it still belongs to whom the transaction says. Durable when it returns.
    pub fn transact(&mut self, transaction: &OutboxTransaction) -> TransactionOutcome {
        match self.try_transact(transaction) {
            Ok(true) => TransactionOutcome::Durable { strict: true },
            Ok(false) => TransactionOutcome::Fenced,
            Err(error) => TransactionOutcome::Failed(fault(&error)),
        }
    }

    fn try_transact(&mut self, transaction: &OutboxTransaction) -> rusqlite::Result<bool> {
        let (scope, me) = (&self.scope, transaction.tab_id.to_string());
        let tx = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for (from, _, key) in &transaction.taken {
            let taken = tx.execute(
                "DELETE FROM op WHERE scope = ?1 AND key = ?2 AND owner = ?3",
                params![scope, key.as_str(), from.to_string()],
            )?;
            if taken == 0 {
                return Ok(false);
            }
        }
        for (key, op) in &transaction.writes {
            let Some(text) = op else {
                tx.execute(
                    "DELETE FROM op WHERE scope = ?1 AND key = ?2 AND owner = ?3",
                    params![scope, key.as_str(), me],
                )?;
                continue;
            };
            let state = Op::decode(text).map_or("corrupt", |op| op.state.as_str());
            let written = tx.execute(
                "INSERT INTO op (scope, key, owner, op, state, written_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                 ON CONFLICT (scope, key) DO UPDATE SET op = ?4, state = ?5, written_at = ?6 WHERE owner = ?3",
                params![scope, key.as_str(), me, text, state, now_ms()],
            )?;
            if written == 0 {
                return Ok(false);
            }
        }
        tx.commit()?;
        Ok(true)
    }
}

impl Drop for OpStore {
    fn drop(&mut self) {
        // What was kept and not used is free again; a process that is killed leaves it to whoever finds it.
        let _left = self.db.execute("DELETE FROM op WHERE owner = ?1 AND op IS NULL", params![self.tab_id.to_string()]);
        // A file that stays behind is unlocked, and says the same.
        let _kept = fs::remove_file(self.alive.join(self.tab_id.to_string()));
    }
}

/// Everything in the state of this folder, whoever's it is; nothing where there is no state.
///
/// # Errors
/// [`OpenError`].
pub fn all(folder: &Path) -> Result<Vec<Stored>, OpenError> {
    if folder.join(FILE).exists() { read(&open(folder)?, None) } else { Ok(Vec::new()) }
}

/// Whether somebody has to hear of an op in this state: it goes on, or nobody can tell what became of it.
pub const fn is_open(state: OpState) -> bool {
    !matches!(state, OpState::Done | OpState::Refused | OpState::Conflict)
}

const FILE: &str = "outbox.db";

fn open(folder: &Path) -> Result<Connection, OpenError> {
    private_folder(folder)?;
    let path = folder.join(FILE);
    private_file(&path)?;
    let db = Connection::open(path)?;
    db.busy_timeout(BUSY_TIMEOUT)?;
    let found: u32 = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if found > VERSION {
        return Err(OpenError::Newer);
    }
    // FULL: a commit is on the disk when it returns, whatever the journal.
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "FULL")?;
    db.execute_batch(
        "BEGIN IMMEDIATE;
         CREATE TABLE IF NOT EXISTS op (
           scope TEXT NOT NULL, key TEXT NOT NULL, owner TEXT NOT NULL, op TEXT, state TEXT NOT NULL,
           written_at INTEGER NOT NULL, PRIMARY KEY (scope, key)
         ) WITHOUT ROWID;
         PRAGMA user_version = 1;
         COMMIT;",
    )?;
    Ok(db)
}

/// Documents are in it: nobody else's business, also where somebody else made the folder.
fn private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    close_to_others(folder, 0o700)
}

/// The database. What lies beside it takes its mode when it is made, and may be older.
fn private_file(path: &Path) -> io::Result<()> {
    private(File::options().read(true).write(true).create(true).truncate(false), path)?;
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        match close_to_others(Path::new(&name), 0o600) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            ended => ended?,
        }
    }
    Ok(())
}

fn private(options: &mut fs::OpenOptions, path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options.open(path)
}

#[cfg(unix)]
fn close_to_others(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;

    const STICKY: u32 = 0o1000;
    let found = fs::metadata(path)?.permissions().mode();
    // A sticky folder is everybody's place on purpose (`/tmp`): only what is in it is ours to close.
    if found & 0o077 == 0 || found & STICKY != 0 {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
const fn close_to_others(_path: &Path, _mode: u32) -> io::Result<()> {
    Ok(())
}

/// A process that ended lets go of its lock, and one that ended well has removed it.
fn is_gone(alive: &Path, tab: TabId) -> bool {
    match File::open(alive.join(tab.to_string())) {
        Ok(file) => !matches!(file.try_lock(), Err(TryLockError::WouldBlock)),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

fn read(db: &Connection, scope: Option<&str>) -> Result<Vec<Stored>, OpenError> {
    let mut statement =
        db.prepare("SELECT key, owner, op FROM op WHERE op IS NOT NULL AND (?1 IS NULL OR scope = ?1) ORDER BY key")?;
    let rows = statement.query_map(params![scope], |row| {
        let (key, owner, text): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(Stored { key, owner: owner.parse().ok(), op: Op::decode(&text).ok() })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn fault(error: &rusqlite::Error) -> StorageFault {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StorageFault::Full,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StorageFault::Corrupt,
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => StorageFault::Unavailable,
        _ => StorageFault::Failed,
    }
}

fn now_ms() -> i64 {
    i64::try_from((system_clock())()).unwrap_or(i64::MAX)
}
