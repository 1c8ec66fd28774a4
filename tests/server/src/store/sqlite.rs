//! The SQLite store: one thread, one connection, WAL with `synchronous = FULL`.
//!
//! Units of work that wait together share one commit (and one fsync), each inside its own savepoint so that one that
//! fails undoes itself alone. Answers and effects leave only after that commit.

use std::cell::RefCell;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use patchkeep_core::ids::{DocId, Incarnation, PatchId, TabId};
use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, named_params, params};
use tokio::sync::oneshot;

use super::rows::{KEY_COLUMNS, integer, key_row, parsed, tab_owner};
use super::{Guard, Store, StoreError, Tx, key_scope, schema};
use crate::decide::{Announced, Document, KeyId, KeyRow, KeyState, TabOwner};

/// The database's clock: ms since the epoch. An embedded database has its process's.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The machine's clock.
pub fn system_clock() -> Clock {
    Arc::new(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// How many units of work share a commit at most.
const GROUP: usize = 64;

/// Runs inside the group's transaction, and returns what happens once it is committed or failed.
type Job = Box<dyn FnOnce(&SqliteTx<'_>) -> Finish + Send>;
type Finish = Box<dyn FnOnce(Result<(), StoreError>)>;

/// A store in one SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl SqliteStore {
    /// Opens or makes the file, and brings its schema up to date.
    ///
    /// # Errors
    /// A file that cannot be opened, or whose schema is newer than this code.
    pub fn open(path: &Path, clock: Clock) -> Result<Self, StoreError> {
        let mut connection = Connection::open(path)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        // Durability is promised: `done` is told only after the log is on the disk.
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "foreign_keys", "ON")?;
        connection.busy_timeout(std::time::Duration::from_secs(5))?;
        connection.set_prepared_statement_cache_capacity(64);
        schema::migrate(&mut connection)?;
        let (jobs, queue) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("patchkeep-store".into())
            .spawn(move || work(&connection, &queue, &clock))
            .map_err(|_| StoreError::Closed)?;
        Ok(Self { jobs: Mutex::new(Some(jobs)), thread: Mutex::new(Some(thread)) })
    }

    /// Finishes what was begun, and closes the file.
    pub fn close(&self) {
        drop(lock(&self.jobs).take());
        if let Some(thread) = lock(&self.thread).take()
            && thread.thread().id() != std::thread::current().id()
            && thread.join().is_err()
        {
            tracing::error!("the store's thread died");
        }
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.close();
    }
}

impl Store for SqliteStore {
    async fn transact<T, E>(&self, work: impl FnOnce(&dyn Tx) -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (answer, result) = oneshot::channel();
        let job: Job = Box::new(move |tx| {
            if answer.is_closed() {
                return Box::new(|_| {});
            }
            let outcome = tx.savepoint(work);
            Box::new(move |committed| {
                // The caller may have gone meanwhile; what was committed stays.
                let _gone = answer.send(match committed {
                    Ok(()) => outcome,
                    Err(error) => Err(error.into()),
                });
            })
        });
        let sent = lock(&self.jobs).as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        if !sent {
            return Err(StoreError::Closed.into());
        }
        result.await.unwrap_or_else(|_| Err(StoreError::Closed.into()))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn work(connection: &Connection, queue: &mpsc::Receiver<Job>, clock: &Clock) {
    let mut last = 0;
    while let Ok(first) = queue.recv() {
        let jobs = std::iter::once(first).chain(queue.try_iter().take(GROUP - 1));
        // A clock that is set back does not revive a lease.
        last = clock().max(last);
        let tx = SqliteTx { connection, now: last, effects: RefCell::new(Vec::new()) };
        let mut finishes = Vec::new();
        let committed = match connection.execute_batch("BEGIN IMMEDIATE") {
            Ok(()) => {
                finishes.extend(jobs.map(|job| job(&tx)));
                connection.execute_batch("COMMIT").map_err(|error| {
                    tracing::error!(%error, "commit failed");
                    let _still_open = connection.execute_batch("ROLLBACK");
                    error
                })
            }
            Err(error) => {
                tracing::error!(%error, "cannot begin");
                // The jobs are dropped unrun, and their callers told `closed`.
                drop(jobs.collect::<Vec<_>>());
                continue;
            }
        };
        if committed.is_ok() {
            tx.effects.take().into_iter().for_each(|effect| effect());
        }
        for finish in finishes {
            finish(committed.as_ref().map(|_| ()).map_err(|_| StoreError::Closed));
        }
    }
}

struct SqliteTx<'c> {
    connection: &'c Connection,
    now: u64,
    effects: RefCell<Vec<Box<dyn FnOnce() + Send>>>,
}

impl SqliteTx<'_> {
    /// One unit of work: undone alone where it fails, its effects with it.
    fn savepoint<T, E: From<StoreError>>(&self, work: impl FnOnce(&dyn Tx) -> Result<T, E>) -> Result<T, E> {
        let sql = |sql| self.connection.execute_batch(sql).map_err(StoreError::from);
        let effects = self.effects.borrow().len();
        sql("SAVEPOINT unit")?;
        let outcome = work(self);
        if outcome.is_err() {
            self.effects.borrow_mut().truncate(effects);
            sql("ROLLBACK TO unit")?;
        }
        sql("RELEASE unit")?;
        outcome
    }

    fn prepared(&self, sql: &str) -> Result<CachedStatement<'_>, StoreError> {
        Ok(self.connection.prepare_cached(sql)?)
    }

    fn keys(&self, rest: &str, params: impl Params) -> Result<Vec<KeyRow>, StoreError> {
        let sql = format!("SELECT {KEY_COLUMNS} FROM op_key {rest}");
        let rows = self.prepared(&sql)?.query_map(params, key_row)?.collect::<Result<_, _>>()?;
        Ok(rows)
    }

    fn changed(&self, sql: &str, params: impl Params) -> Result<bool, StoreError> {
        Ok(self.prepared(sql)?.execute(params)? > 0)
    }

    fn write_key(&self, sql: &str, row: &KeyRow, guard: &[(&str, &dyn rusqlite::ToSql)]) -> Result<bool, StoreError> {
        let (workspace, user, key) = key_scope(&row.id);
        let plan = row.plan.as_ref();
        let text = |value: Option<String>| value;
        let number = |value: Option<u64>| value.map(u64::cast_signed);
        let values = named_params! {
            ":workspace_id": workspace,
            ":user_id": user,
            ":key": key,
            ":route": row.route,
            ":request_hash": row.request_hash.to_string(),
            ":state": row.state.as_str(),
            ":claim_token": row.claim_token.to_string(),
            ":lease_until": row.lease_until.cast_signed(),
            ":attempt": row.attempt.cast_signed(),
            ":status": row.recorded.as_ref().map(|r| r.status),
            ":response": row.recorded.as_ref().map(|r| r.body.as_str()),
            ":patch_id": text(plan.map(|p| p.patch_id.to_string())),
            ":delivery": number(plan.map(|p| p.delivery)),
            ":tab_id": text(plan.map(|p| p.recipient.tab_id.to_string())),
            ":journal_id": text(plan.map(|p| p.recipient.journal_id.to_string())),
            ":doc": plan.map(|p| p.recipient.doc.as_str()),
            ":incarnation": text(plan.map(|p| p.recipient.incarnation.to_string())),
            ":homed": plan.map(|p| p.recipient.homed.as_str()),
            ":conn": plan.map(|p| p.conn.as_str()),
            ":base_seq": number(plan.map(|p| p.base_seq)),
            ":body": plan.map(|p| p.body.as_str()),
            ":digest": text(plan.map(|p| p.digest.to_string())),
            ":guarded": plan.map(|p| p.guarded),
            ":expires_at": number(plan.map(|p| p.expires_at)),
            ":created_at": row.created_at.cast_signed(),
            ":settled_by": row.settled_by.map(|by| by.as_str()),
            ":settled_at": number(row.settled_at),
            ":contradicted": row.contradicted,
            ":settled_as": row.settlement.as_ref().map(|s| s.verdict.as_str()),
            ":settled_who": row.settlement.as_ref().map(|s| s.who.as_str()),
        };
        let values: Vec<_> = values.iter().chain(guard).copied().collect();
        self.changed(sql, values.as_slice())
    }
}

impl Tx for SqliteTx<'_> {
    fn now(&self) -> u64 {
        self.now
    }

    fn document(&self, workspace: &str, doc: &DocId) -> Result<Option<Document>, StoreError> {
        let document = self
            .prepared("SELECT text, seq FROM document WHERE workspace_id = ?1 AND doc = ?2")?
            .query_row(params![workspace, doc.as_str()], |r| {
                Ok(Document { text: r.get("text")?, seq: integer(r, "seq")? })
            })
            .optional()?;
        Ok(document)
    }

    fn put_document(&self, workspace: &str, doc: &DocId, document: &Document) -> Result<bool, StoreError> {
        let values = params![workspace, doc.as_str(), document.text, document.seq.cast_signed()];
        if document.seq == 1 {
            let sql = "INSERT INTO document (workspace_id, doc, text, seq) VALUES (?1, ?2, ?3, ?4)
                       ON CONFLICT DO NOTHING";
            return self.changed(sql, values);
        }
        let sql = "UPDATE document SET text = ?3, seq = ?4 WHERE workspace_id = ?1 AND doc = ?2 AND seq = ?4 - 1";
        self.changed(sql, values)
    }

    fn key(&self, id: &KeyId) -> Result<Option<KeyRow>, StoreError> {
        let (workspace, user, key) = key_scope(id);
        let sql = "WHERE workspace_id = ?1 AND user_id = ?2 AND key = ?3";
        Ok(self.keys(sql, [workspace, user, key])?.pop())
    }

    fn key_of_patch(&self, patch_id: PatchId) -> Result<Option<KeyRow>, StoreError> {
        Ok(self.keys("WHERE patch_id = ?1", [patch_id.to_string()])?.pop())
    }

    fn open_keys(&self, tab_id: TabId, doc: &DocId) -> Result<Vec<KeyRow>, StoreError> {
        let sql = "WHERE tab_id = ?1 AND doc = ?2 AND state IN ('delivered', 'acked', 'unknown', 'settled')
                   ORDER BY created_at";
        self.keys(sql, [tab_id.to_string().as_str(), doc.as_str()])
    }

    fn delivered_keys(&self) -> Result<Vec<KeyRow>, StoreError> {
        self.keys("WHERE state = 'delivered'", [])
    }

    fn insert_key(&self, row: &KeyRow) -> Result<bool, StoreError> {
        self.write_key(INSERT_KEY, row, &[])
    }

    fn update_key(&self, row: &KeyRow, guard: Guard) -> Result<bool, StoreError> {
        match guard {
            Guard::Claim(token) => {
                let sql = format!("{UPDATE_KEY} AND claim_token = :old_token AND state = 'claimed'");
                self.write_key(&sql, row, &[(":old_token", &token.to_string())])
            }
            Guard::Token(token) => {
                let sql = format!("{UPDATE_KEY} AND claim_token = :old_token");
                self.write_key(&sql, row, &[(":old_token", &token.to_string())])
            }
            Guard::Patch(patch_id, state) => {
                let sql = format!("{UPDATE_KEY} AND patch_id = :old_patch AND state = :old_state");
                let (patch_id, state) = (patch_id.to_string(), state.as_str());
                self.write_key(&sql, row, &[(":old_patch", &patch_id), (":old_state", &state)])
            }
        }
    }

    fn put_base(&self, id: &KeyId, text: &str) -> Result<(), StoreError> {
        let (workspace, user, key) = key_scope(id);
        let sql = "UPDATE op_key SET base_body = ?4 WHERE workspace_id = ?1 AND user_id = ?2 AND key = ?3";
        self.changed(sql, [workspace, user, key, text]).map(|_| ())
    }

    fn base(&self, id: &KeyId) -> Result<Option<String>, StoreError> {
        let (workspace, user, key) = key_scope(id);
        let sql = "SELECT base_body FROM op_key WHERE workspace_id = ?1 AND user_id = ?2 AND key = ?3";
        let found = self.prepared(sql)?.query_row([workspace, user, key], |r| r.get(0)).optional()?;
        Ok(found.flatten())
    }

    fn tab(&self, tab_id: TabId) -> Result<Option<TabOwner>, StoreError> {
        let sql = "SELECT * FROM tab_owner WHERE tab_id = ?1";
        Ok(self.prepared(sql)?.query_row([tab_id.to_string()], tab_owner).optional()?)
    }

    fn put_tab(&self, tab_id: TabId, owner: &TabOwner) -> Result<(), StoreError> {
        let sql = "INSERT OR REPLACE INTO tab_owner
                   (tab_id, workspace_id, user_id, journal_id, epoch, context_id, conn, updated_at)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let values = params![
            tab_id.to_string(),
            owner.principal.workspace,
            owner.principal.user,
            owner.journal_id.to_string(),
            owner.epoch.cast_signed(),
            owner.context_id.to_string(),
            owner.conn,
            self.now.cast_signed(),
        ];
        self.changed(sql, values).map(|_| ())
    }

    fn newest(&self, tab_id: TabId, doc: &DocId) -> Result<Option<Announced>, StoreError> {
        let sql = "SELECT epoch, incarnation FROM tab_incarnation WHERE tab_id = ?1 AND doc = ?2
                   ORDER BY ordinal DESC LIMIT 1";
        let found = self.prepared(sql)?.query_row([tab_id.to_string().as_str(), doc.as_str()], |r| {
            Ok(Announced { epoch: integer(r, "epoch")?, incarnation: parsed(r, "incarnation")? })
        });
        Ok(found.optional()?)
    }

    fn superseded(&self, tab_id: TabId, doc: &DocId, incarnation: Incarnation) -> Result<bool, StoreError> {
        let sql = "SELECT EXISTS (
                     SELECT 1 FROM tab_incarnation old JOIN tab_incarnation new USING (tab_id, doc)
                     WHERE old.tab_id = ?1 AND old.doc = ?2 AND old.incarnation = ?3 AND new.ordinal > old.ordinal)";
        let ids = [tab_id.to_string(), doc.as_str().to_owned(), incarnation.to_string()];
        Ok(self.prepared(sql)?.query_row(ids, |r| r.get(0))?)
    }

    fn announce(&self, tab_id: TabId, doc: &DocId, announced: Announced) -> Result<(), StoreError> {
        let (tab, doc) = (tab_id.to_string(), doc.as_str());
        // A lower epoch is fenced by its number alone; only this epoch's incarnations need a list.
        let sql = "DELETE FROM tab_incarnation WHERE tab_id = ?1 AND doc = ?2 AND epoch < ?3";
        self.changed(sql, params![tab, doc, announced.epoch.cast_signed()])?;
        let sql = "INSERT INTO tab_incarnation (tab_id, doc, ordinal, epoch, incarnation)
                   SELECT ?1, ?2, COALESCE(MAX(ordinal), 0) + 1, ?3, ?4
                   FROM tab_incarnation WHERE tab_id = ?1 AND doc = ?2";
        let values = params![tab, doc, announced.epoch.cast_signed(), announced.incarnation.to_string()];
        self.changed(sql, values).map(|_| ())
    }

    fn watermark(&self) -> Result<Option<u64>, StoreError> {
        let sql = "SELECT first_at FROM watermark";
        Ok(self.prepared(sql)?.query_row([], |r| integer(r, "first_at")).optional()?)
    }

    fn purge(&self, before: u64) -> Result<u64, StoreError> {
        let mark = format!(
            "INSERT INTO watermark (one, first_at)
             SELECT 1, MAX(created_at) FROM op_key WHERE {PURGEABLE} HAVING COUNT(*) > 0
             ON CONFLICT (one) DO UPDATE SET first_at = MAX(first_at, excluded.first_at)"
        );
        let before = before.cast_signed();
        self.changed(&mark, [before])?;
        let gone = self.prepared(&format!("DELETE FROM op_key WHERE {PURGEABLE}"))?.execute([before])?;
        Ok(u64::try_from(gone).unwrap_or(u64::MAX))
    }

    fn counts(&self) -> Result<Vec<(KeyState, u64)>, StoreError> {
        let mut statement = self.prepared("SELECT state, COUNT(*) AS n FROM op_key GROUP BY state")?;
        let rows = statement.query_map([], |r| Ok((r.get::<_, String>("state")?, integer(r, "n")?)))?;
        let counts: Vec<_> = rows.collect::<Result<_, _>>()?;
        counts
            .into_iter()
            .map(|(word, n)| Ok((KeyState::from_word(&word).ok_or(StoreError::Unreadable("state"))?, n)))
            .collect()
    }

    fn after_commit(&self, effect: Box<dyn FnOnce() + Send>) {
        self.effects.borrow_mut().push(effect);
    }
}

/// Settled without an effect still open, or claimed and never gone on with.
const PURGEABLE: &str = "(state IN ('done', 'refused') AND settled_at < ?1)
                         OR (state = 'claimed' AND lease_until < ?1)";

const INSERT_KEY: &str = "INSERT INTO op_key (
    workspace_id, user_id, key, route, request_hash, state, claim_token, lease_until, attempt, status, response,
    patch_id, delivery, tab_id, journal_id, doc, incarnation, homed, conn, base_seq, body, digest, guarded,
    expires_at, created_at, settled_by, settled_at, contradicted, settled_as, settled_who)
  VALUES (
    :workspace_id, :user_id, :key, :route, :request_hash, :state, :claim_token, :lease_until, :attempt, :status,
    :response, :patch_id, :delivery, :tab_id, :journal_id, :doc, :incarnation, :homed, :conn, :base_seq, :body,
    :digest, :guarded, :expires_at, :created_at, :settled_by, :settled_at, :contradicted,
    :settled_as, :settled_who)
  ON CONFLICT DO NOTHING";

const UPDATE_KEY: &str = "UPDATE op_key SET
    route = :route, request_hash = :request_hash, state = :state, claim_token = :claim_token,
    lease_until = :lease_until, attempt = :attempt, status = :status, response = :response, patch_id = :patch_id,
    delivery = :delivery, tab_id = :tab_id, journal_id = :journal_id, doc = :doc, incarnation = :incarnation,
    homed = :homed, conn = :conn, base_seq = :base_seq, body = :body, digest = :digest, guarded = :guarded,
    expires_at = :expires_at, created_at = :created_at, settled_by = :settled_by, settled_at = :settled_at,
    contradicted = :contradicted, settled_as = :settled_as, settled_who = :settled_who
  WHERE workspace_id = :workspace_id AND user_id = :user_id AND key = :key";
