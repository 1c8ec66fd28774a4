//! A database of a test's own: a SQLite file, or a schema of the PostgreSQL database in `PATCHKEEP_TEST_DATABASE_URL`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use patchkeep_server::Config;
use patchkeep_server::store::{AnyStore, PostgresStore, SqliteStore, StoreError};
use tempfile::TempDir;

/// Where the suite runs against PostgreSQL instead of SQLite.
pub const DATABASE_URL: &str = "PATCHKEEP_TEST_DATABASE_URL";

pub struct Place {
    pub dir: TempDir,
    url: Option<String>,
    /// Added to the machine's clock for the database: time passes when a test says so.
    pub ahead: Arc<AtomicU64>,
}

impl Place {
    pub fn new() -> Self {
        let url = std::env::var(DATABASE_URL).ok().map(|server| {
            let schema = format!("t{}", uuid::Uuid::new_v4().simple());
            on_server(&server, format!("CREATE SCHEMA {schema}"), |client, sql| client.batch_execute(sql).unwrap());
            format!("{server}?options=-c%20search_path%3D{schema}&application_name={schema}")
        });
        Self { dir: tempfile::tempdir().unwrap(), url, ahead: Arc::default() }
    }

    /// Whether it is a database server's: more than one process may be there.
    pub fn is_served(&self) -> bool {
        self.url.is_some()
    }

    pub fn file(&self) -> PathBuf {
        self.dir.path().join("server.db")
    }

    pub fn config(&self) -> Config {
        let mut config = Config::new(self.file());
        config.database_url.clone_from(&self.url);
        let (clock, shift, alone) = (config.clock.clone(), self.ahead.clone(), self.ahead.clone());
        config.clock = Arc::new(move || clock() + shift.load(Ordering::SeqCst));
        config.database_shift = Some(Arc::new(move || alone.load(Ordering::SeqCst)));
        config
    }

    /// What names the database on the server's command line.
    pub fn args(&self) -> [String; 2] {
        match &self.url {
            Some(url) => ["--database-url".into(), url.clone()],
            None => ["--db".into(), self.file().display().to_string()],
        }
    }

    pub async fn store(&self) -> Result<AnyStore, StoreError> {
        let config = self.config();
        tokio::task::spawn_blocking(move || AnyStore::open(&config)).await.unwrap()
    }

    /// What a process leaves that dies after so many statements of the schema ladder; whether there were no more.
    pub fn migrate_partly(&self, statements: usize) -> bool {
        match self.url.clone() {
            Some(url) => std::thread::spawn(move || PostgresStore::migrate_partly(&url, statements)).join().unwrap(),
            None => SqliteStore::migrate_partly(&self.file(), statements),
        }
        .unwrap()
    }

    pub fn execute(&self, sql: &str) {
        match &self.url {
            Some(url) => on_server(url, sql.to_owned(), |client, sql| client.batch_execute(sql).unwrap()),
            None => rusqlite::Connection::open(self.file()).unwrap().execute_batch(sql).unwrap(),
        }
    }

    /// A query's texts, row by row, read past the server.
    pub fn texts(&self, sql: &str) -> Vec<Option<String>> {
        match &self.url {
            Some(url) => on_server(url, sql.to_owned(), |client, sql| {
                client.query(sql, &[]).unwrap().iter().map(|row| row.get(0)).collect()
            }),
            None => {
                let db = rusqlite::Connection::open(self.file()).unwrap();
                let mut statement = db.prepare(sql).unwrap();
                statement.query_map([], |r| r.get(0)).unwrap().map(Result::unwrap).collect()
            }
        }
    }

    /// Ends every connection to the database but the one that says so. False where there is no server to connect to.
    pub fn cut_connections(&self) -> bool {
        if self.url.is_some() {
            self.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
                 WHERE application_name = current_setting('application_name') AND pid <> pg_backend_pid()",
            );
        }
        self.url.is_some()
    }

    /// A column of a key's row.
    pub fn row(&self, key: &str, column: &str) -> Option<String> {
        let read = match &self.url {
            Some(_) if column == "base_body" => "convert_from(base_body, 'UTF8')".to_owned(),
            _ => format!("CAST({column} AS TEXT)"),
        };
        self.texts(&format!("SELECT {read} FROM op_key WHERE key = '{key}'")).pop().flatten()
    }

    /// What the schema is made of, in the database's own words.
    pub fn schema(&self) -> Vec<Option<String>> {
        self.texts(match &self.url {
            Some(_) => {
                "SELECT concat_ws(' ', table_name, column_name, data_type, is_nullable, column_default)
                 FROM information_schema.columns WHERE table_schema = current_schema()
                 UNION SELECT replace(indexdef, current_schema(), '') FROM pg_indexes
                 WHERE schemaname = current_schema() ORDER BY 1"
            }
            None => "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name",
        })
    }
}

/// The blocking client has a runtime of its own, and cannot be used on a thread of another.
fn on_server<T: Send + 'static>(
    url: &str,
    sql: String,
    work: impl FnOnce(&mut postgres::Client, &str) -> T + Send + 'static,
) -> T {
    let url = url.to_owned();
    let thread = std::thread::spawn(move || {
        let mut client = postgres::Client::connect(&url, postgres::NoTls).unwrap();
        work(&mut client, &sql)
    });
    thread.join().unwrap()
}
