//! A listening server: for the binary, and for end-to-end tests in the same process.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::app::App;
use crate::config::Config;
use crate::faults::Faults;
use crate::http::router;
use crate::listen::{self, Bounds, stopped};
use crate::net::LosableListener;
use crate::store::{AnyStore, Store, StoreError};

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("cannot listen: {0}")]
    Listen(#[from] io::Error),
    /// The database cannot be opened or brought up to date.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How often settled keys past their time are removed.
const PURGE_EVERY: Duration = Duration::from_secs(600);

/// How many rows are removed in one transaction: everybody waits for it.
const PURGE_STEP: u64 = 500;

/// A server that listens until it is stopped.
#[derive(Debug)]
pub struct Server {
    addr: SocketAddr,
    app: Arc<App<AnyStore>>,
    stop: watch::Sender<bool>,
    listening: JoinHandle<()>,
}

impl Server {
    /// Opens the database, brings it up to date, and listens. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// An address or a database that cannot be used.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let listener = TcpListener::bind(config.listen).await?;
        let addr = listener.local_addr()?;
        let opening = config.clone();
        let store = tokio::task::spawn_blocking(move || AnyStore::open(&opening)).await.map_err(io::Error::other)??;
        let app = App::start(store, config).await?;
        // Here and not in the task, whose first turn comes at any time: whoever counts what goes counts all of it. One
        // step, so that no backlog delays the start, and one that is started again and again still gets on.
        purge_step(&app).await?;
        let stop = watch::Sender::new(false);
        let bounds = Bounds {
            connections: app.config.max_connections,
            head: Duration::from_millis(app.config.head_timeout_ms),
            drain: Duration::from_millis(app.config.drain_ms),
        };
        let serving = listen::serve(LosableListener(listener), router(app.clone()), bounds, stop.subscribe());
        let purging = tokio::spawn(purge(app.clone(), stop.subscribe()));
        let listening = tokio::spawn(async move {
            serving.await;
            purging.abort();
        });
        Ok(Self { addr, app, stop, listening })
    }

    /// Where it listens.
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Its address as a URL, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Its fault switches; they work whether or not `/faults` is served.
    pub fn faults(&self) -> Faults {
        self.app.faults.clone()
    }

    /// Closes every tab's socket.
    pub fn cut(&self) {
        self.app.boot().hub.cut();
    }

    /// What a process that dies and comes back looks like (S8): sockets, tickets and waiting requests are gone, the
    /// `boot_id` is another, the database and the address are the same.
    ///
    /// # Errors
    /// A database that does not answer.
    pub async fn restart(&self) -> Result<(), StoreError> {
        self.app.restart().await
    }

    /// Removes settled keys older than their time to live, as the periodic task does (S9). Returns how many went.
    ///
    /// # Errors
    /// A database that does not answer.
    pub async fn purge(&self) -> Result<u64, StoreError> {
        purge_once(&self.app).await
    }

    /// Stops listening, ends what is waiting, and closes the database.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        self.app.faults.hold_no_more();
        self.app.end();
        if let Err(error) = (&mut self.listening).await {
            tracing::error!(%error, "listening ended");
        }
        // A process that is killed loses its lock with its connection; one that ends says so before it is gone.
        if let Err(error) = self.app.store.transact(|tx| tx.left()).await {
            tracing::warn!(%error, "other processes find out by themselves that this one is gone");
        }
        self.app.store.close();
    }
}

impl Drop for Server {
    /// What is held goes on: whoever waits for its thread, a runtime that ends above all, would wait for ever.
    fn drop(&mut self) {
        self.app.faults.hold_no_more();
    }
}

async fn purge(app: Arc<App<AnyStore>>, stop: watch::Receiver<bool>) {
    let mut every = tokio::time::interval_at(Instant::now() + PURGE_EVERY, PURGE_EVERY);
    let over = stopped(stop);
    tokio::pin!(over);
    loop {
        tokio::select! {
            _ = every.tick() => {}
            () = &mut over => return,
        }
        if let Err(error) = purge_once(&app).await {
            tracing::error!(%error, "purging failed");
        }
    }
}

async fn purge_once<S: Store>(app: &App<S>) -> Result<u64, StoreError> {
    let mut gone = 0;
    loop {
        let (keys, tabs) = purge_step(app).await?;
        gone += keys;
        if keys < PURGE_STEP && tabs < PURGE_STEP {
            break;
        }
    }
    for (state, rows) in app.store.transact(|tx| tx.counts()).await? {
        tracing::info!(state = state.as_str(), rows, "open keys");
    }
    Ok(gone)
}

/// One step of it: how many keys went, and how much of what tabs left behind.
async fn purge_step<S: Store>(app: &App<S>) -> Result<(u64, u64), StoreError> {
    let (keys, tabs) = (app.config.key_ttl_ms, app.config.tab_ttl_ms.max(app.config.key_ttl_ms));
    let keys = app.store.transact(move |tx| tx.purge(tx.now().saturating_sub(keys), PURGE_STEP)).await?;
    let tabs = app.store.transact(move |tx| tx.purge_tabs(tx.now().saturating_sub(tabs), PURGE_STEP)).await?;
    Ok((keys, tabs))
}
