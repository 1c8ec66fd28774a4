//! One thread that owns one connection, and the units of work that share its commits.
//!
//! Units of work that wait together share one commit (and one fsync), each inside its own savepoint so that one that
//! fails undoes itself alone. Answers and effects leave only after that commit.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, mpsc};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use super::sql::{Sql, SqlTx};
use super::{StoreError, Tx};

/// How many units of work share a commit at most.
const GROUP: usize = 64;

/// A connection that can begin a transaction no other process's runs beside.
pub(super) trait Engine: Sql + Sized + 'static {
    /// Begins, and reads the database's clock in ms.
    fn begin(&self) -> Result<u64, StoreError>;

    /// Commits. `Ok` only where the database says that it did (S11).
    fn commit(&self) -> Result<(), StoreError>;

    /// Ends a transaction that is not to be committed, whatever is left of it.
    fn roll_back(&self);
}

/// Runs inside the group's transaction, and returns what happens once it is committed or failed.
type Job<C> = Box<dyn FnOnce(&SqlTx<'_, C>) -> Finish + Send>;
type Finish = Box<dyn FnOnce(Result<(), StoreError>)>;

/// The way to the thread.
pub(super) struct Group<C: Engine> {
    jobs: Mutex<Option<mpsc::Sender<Job<C>>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl<C: Engine> Group<C> {
    /// Opens the connection on a thread of its own, and keeps both.
    pub(super) fn start(open: impl FnOnce() -> Result<C, StoreError> + Send + 'static) -> Result<Self, StoreError> {
        let (jobs, queue) = mpsc::channel();
        let (opened, result) = mpsc::channel();
        let run = move || match open() {
            Ok(engine) => {
                // Whoever opens it waits for this.
                let _gone = opened.send(Ok(()));
                work(&engine, &queue);
            }
            Err(error) => {
                let _gone = opened.send(Err(error));
            }
        };
        let thread =
            std::thread::Builder::new().name("patchkeep-store".into()).spawn(run).map_err(|_| StoreError::Closed)?;
        result.recv().map_err(|_| StoreError::Closed)??;
        Ok(Self { jobs: Mutex::new(Some(jobs)), thread: Mutex::new(Some(thread)) })
    }

    pub(super) async fn transact<T, E>(
        &self,
        work: impl FnOnce(&dyn Tx) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (answer, result) = oneshot::channel();
        let job: Job<C> = Box::new(move |tx| {
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

    /// Finishes what was begun, and closes the connection.
    pub(super) fn close(&self) {
        drop(lock(&self.jobs).take());
        if let Some(thread) = lock(&self.thread).take()
            && thread.thread().id() != std::thread::current().id()
            && thread.join().is_err()
        {
            tracing::error!("the store's thread died");
        }
    }
}

impl<C: Engine> Drop for Group<C> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<C: Engine> std::fmt::Debug for Group<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Group(…)")
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn work<C: Engine>(engine: &C, queue: &mpsc::Receiver<Job<C>>) {
    let mut last = 0;
    while let Ok(first) = queue.recv() {
        let jobs = std::iter::once(first).chain(queue.try_iter().take(GROUP - 1));
        match engine.begin() {
            // A clock that is set back does not revive a lease.
            Ok(now) => last = now.max(last),
            Err(error) => {
                tracing::error!(%error, "cannot begin");
                // The jobs are dropped unrun, and their callers told `closed`.
                drop(jobs.collect::<Vec<_>>());
                continue;
            }
        }
        let tx = SqlTx::new(engine, last);
        let finishes: Vec<_> = jobs.map(|job| job(&tx)).collect();
        let ended = if tx.is_broken() { Err(StoreError::NotCommitted) } else { engine.commit() };
        let committed = ended.map_err(|error| {
            tracing::error!(%error, "commit failed");
            engine.roll_back();
        });
        if committed.is_ok() {
            tx.effects().into_iter().for_each(survive);
        }
        for finish in finishes {
            survive(|| finish(committed.map_err(|()| StoreError::NotCommitted)));
        }
    }
}

/// Runs what is not the store's own: if it panics, this thread goes on with what everybody else waits for.
fn survive(foreign: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(foreign)).is_err() {
        tracing::error!("what a unit of work left for after its commit panicked");
    }
}
