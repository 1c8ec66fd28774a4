//! One server: what lasts (store, configuration, switches) and one life of its process (sockets, waiting requests).

use std::sync::{Arc, Mutex, PoisonError};

use patchkeep_core::ids::{BootId, PatchId};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::config::Config;
use crate::decide::Answer;
use crate::faults::Faults;
use crate::hub::Hub;
use crate::principal::Principal;
use crate::sockets::Sockets;
use crate::store::{Store, StoreError, Tx, fresh_id};
use crate::tickets::Tickets;
use crate::waiters::Waiters;

/// What a router serves: the state shared by all requests and sockets.
#[derive(Debug)]
pub struct App<S> {
    pub(crate) store: S,
    pub(crate) config: Config,
    pub(crate) faults: Faults,
    boot: Mutex<Arc<Boot>>,
}

/// One life of the server. A restart (S8) ends it: its sockets close, its requests end without an answer, and nothing
/// of it may send any more.
#[derive(Debug)]
pub(crate) struct Boot {
    pub(crate) id: BootId,
    pub(crate) hub: Hub,
    pub(crate) waiters: Waiters,
    pub(crate) tickets: Tickets,
    pub(crate) sockets: Sockets,
    runtime: Handle,
    over: watch::Sender<bool>,
}

impl<S: Store> App<S> {
    /// The first life on this store. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// A store that does not answer.
    pub async fn start(store: S, config: Config) -> Result<Arc<Self>, StoreError> {
        let boot = Mutex::new(Arc::new(Boot::new()));
        let app = Arc::new(Self { store, config, faults: Faults::default(), boot });
        app.seed().await?;
        app.watch_deadlines().await?;
        let (listener, runtime) = (Arc::downgrade(&app), Handle::current());
        let heard = move |word| {
            let _in_runtime = runtime.enter();
            if let Some(app) = listener.upgrade() {
                crate::service::heard(&app, &app.boot(), word);
            }
        };
        let listening = app.clone();
        if let Err(error) = tokio::task::spawn_blocking(move || listening.store.listen(Box::new(heard))).await {
            tracing::error!(%error, "other processes are not heard");
        }
        Ok(app)
    }

    /// Ends this life and begins another on the same store: what a process that dies and comes back looks like.
    ///
    /// # Errors
    /// A store that does not answer.
    pub async fn restart(self: &Arc<Self>) -> Result<(), StoreError> {
        let old =
            std::mem::replace(&mut *self.boot.lock().unwrap_or_else(PoisonError::into_inner), Arc::new(Boot::new()));
        old.end();
        self.watch_deadlines().await
    }

    /// Whom the bearer token of a request is of (T6).
    ///
    /// # Errors
    /// What to answer: 401, or 409 where the request is for another principal.
    pub fn authenticate(&self, headers: &axum::http::HeaderMap) -> Result<Principal, Answer> {
        crate::http::authenticate(&self.config.tokens, headers)
    }

    /// Runs a unit of work on the store: a team's own tables are made and read with it.
    ///
    /// # Errors
    /// As the work; or a store that does not answer, with everything undone.
    pub async fn transact<T, E>(&self, work: impl FnOnce(&dyn Tx) -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.store.transact(work).await
    }

    /// Ends this life.
    pub fn end(&self) {
        self.boot().end();
    }

    pub(crate) fn boot(&self) -> Arc<Boot> {
        self.boot.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ms since the epoch on the server's clock, which is its database's.
    pub(crate) fn now(&self) -> u64 {
        self.store.now()
    }

    async fn seed(&self) -> Result<(), StoreError> {
        let Some((_, principal)) = self.config.tokens.first() else { return Ok(()) };
        let (workspace, seed) = (principal.workspace.clone(), self.config.seed.clone());
        self.store.transact(move |tx| crate::service::seed(tx, &workspace, &seed)).await
    }

    /// Patches that were out when the last life ended still have a deadline, and nobody waits for it.
    async fn watch_deadlines(self: &Arc<Self>) -> Result<(), StoreError> {
        let delivered = self.store.transact(|tx| tx.delivered_keys()).await?;
        let boot = self.boot();
        for plan in delivered.into_iter().filter_map(|row| row.plan) {
            crate::service::watch_deadline(self, &boot, plan.patch_id, plan.expires_at);
        }
        Ok(())
    }
}

impl Boot {
    fn new() -> Self {
        Self {
            id: BootId(fresh_id()),
            hub: Hub::default(),
            waiters: Waiters::default(),
            tickets: Tickets::default(),
            sockets: Sockets::default(),
            runtime: Handle::current(),
            over: watch::Sender::new(false),
        }
    }

    fn end(&self) {
        self.over.send_replace(true);
    }

    /// Whether this life has ended.
    pub(crate) fn is_over(&self) -> bool {
        *self.over.borrow()
    }

    /// Resolves when this life ends.
    pub(crate) async fn over(&self) {
        // The sender is a field of `self`: this fails never, and resolves at the latest with the end.
        let mut over = self.over.subscribe();
        let _ended = over.wait_for(|over| *over).await;
    }

    /// Runs a task until it is done or this life ends.
    pub(crate) fn spawn(self: &Arc<Self>, task: impl Future<Output = ()> + Send + 'static) {
        let boot = self.clone();
        self.runtime.spawn(async move {
            tokio::select! {
                () = task => {}
                () = boot.over() => {}
            }
        });
    }

    /// A row was changed: whoever waits for its patch looks again.
    pub(crate) fn changed(&self, patch_id: PatchId) {
        self.waiters.changed(patch_id);
    }
}
