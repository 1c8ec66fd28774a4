//! Whichever store a server was configured with.

use super::{Hear, PostgresStore, SqliteStore, Store, StoreError, Tx};
use crate::config::Config;

/// SQLite, or PostgreSQL where there is a URL.
#[derive(Debug)]
pub enum AnyStore {
    /// A file.
    Sqlite(SqliteStore),
    /// A database server.
    Postgres(PostgresStore),
}

impl AnyStore {
    /// Opens what the configuration names. Waits for the database; an async caller does so elsewhere.
    ///
    /// # Errors
    /// As [`SqliteStore::open`] and [`PostgresStore::connect`].
    pub fn open(config: &Config) -> Result<Self, StoreError> {
        match &config.database_url {
            Some(url) => {
                PostgresStore::connect(url, config.database_limits, config.database_shift.clone()).map(Self::Postgres)
            }
            None => SqliteStore::open(&config.db, config.clock.clone()).map(Self::Sqlite),
        }
    }

    /// Finishes what was begun, and closes it.
    pub fn close(&self) {
        match self {
            Self::Sqlite(store) => store.close(),
            Self::Postgres(store) => store.close(),
        }
    }
}

impl Store for AnyStore {
    async fn transact<T, E>(&self, work: impl FnOnce(&dyn Tx) -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        match self {
            Self::Sqlite(store) => store.transact(work).await,
            Self::Postgres(store) => store.transact(work).await,
        }
    }

    fn listen(&self, hear: Hear) {
        match self {
            Self::Sqlite(store) => store.listen(hear),
            Self::Postgres(store) => store.listen(hear),
        }
    }

    fn now(&self) -> u64 {
        match self {
            Self::Sqlite(store) => store.now(),
            Self::Postgres(store) => store.now(),
        }
    }
}
