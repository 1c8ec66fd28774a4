//! The SQLite store: units of work, their effects, and the schema ladder.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use patchkeep_core::ids::DocId;
use patchkeep_server::decide::Document;
use patchkeep_server::store::{SqliteStore, Store, StoreError, Tx, system_clock};

fn doc() -> DocId {
    DocId::new("d").unwrap()
}

fn put(tx: &dyn Tx, text: &str, seq: u64) -> Result<bool, StoreError> {
    tx.put_document("ws", &doc(), &Document { text: text.into(), seq })
}

async fn stored(store: &SqliteStore) -> Option<Document> {
    store.transact(|tx| tx.document("ws", &doc())).await.unwrap()
}

#[tokio::test]
async fn a_unit_that_fails_undoes_itself_alone_and_says_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&dir.path().join("a.db"), system_clock()).unwrap();
    let said = Arc::new(AtomicU64::new(0));
    let good = |n: u64| {
        let said = said.clone();
        store.transact(move |tx| {
            put(tx, &n.to_string(), n)?;
            tx.after_commit(Box::new(move || {
                said.fetch_add(1, Ordering::SeqCst);
            }));
            Ok::<_, StoreError>(())
        })
    };
    let bad = {
        let said = said.clone();
        store.transact(move |tx| {
            put(tx, "undone", 2)?;
            tx.after_commit(Box::new(move || {
                said.fetch_add(100, Ordering::SeqCst);
            }));
            Err::<(), _>(StoreError::Unreadable("on purpose"))
        })
    };
    // Asked for together, they may share a commit.
    let (first, failed, second) = tokio::join!(good(1), bad, good(2));
    assert!(first.is_ok() && failed.is_err() && second.is_ok());
    assert_eq!(stored(&store).await, Some(Document { text: "2".into(), seq: 2 }));
    assert_eq!(said.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_document_is_written_only_onto_the_version_before() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&dir.path().join("a.db"), system_clock()).unwrap();
    for (text, seq, fits) in [("early", 2, false), ("a", 1, true), ("b", 1, false), ("b", 3, false), ("b", 2, true)] {
        let wrote: Result<bool, StoreError> = store.transact(move |tx| put(tx, text, seq)).await;
        assert_eq!(wrote.unwrap(), fits, "{text} {seq}");
    }
    assert_eq!(stored(&store).await, Some(Document { text: "b".into(), seq: 2 }));
}

#[tokio::test]
async fn a_closed_store_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&dir.path().join("a.db"), system_clock()).unwrap();
    store.close();
    let closed: Result<bool, StoreError> = store.transact(|tx| put(tx, "x", 1)).await;
    assert!(matches!(closed, Err(StoreError::Closed)));
}

#[tokio::test]
async fn s11_opening_again_keeps_everything_and_a_newer_schema_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let store = SqliteStore::open(&path, system_clock()).unwrap();
    let _fits: Result<bool, StoreError> = store.transact(|tx| put(tx, "x", 1)).await;
    drop(store);
    let store = SqliteStore::open(&path, system_clock()).unwrap();
    assert!(stored(&store).await.is_some());
    drop(store);
    let db = rusqlite::Connection::open(&path).unwrap();
    assert_eq!(db.query_row("PRAGMA journal_mode", [], |r| r.get::<_, String>(0)).unwrap(), "wal");
    db.execute("INSERT INTO schema_step (step) VALUES (999)", []).unwrap();
    assert!(matches!(SqliteStore::open(&path, system_clock()), Err(StoreError::Newer { found: 999, .. })));
}

#[tokio::test]
async fn the_databases_clock_does_not_go_back() {
    let dir = tempfile::tempdir().unwrap();
    let time = Arc::new(AtomicU64::new(100));
    let clock = time.clone();
    let store = SqliteStore::open(&dir.path().join("a.db"), Arc::new(move || clock.load(Ordering::SeqCst))).unwrap();
    let now = async || store.transact(|tx| Ok::<_, StoreError>(tx.now())).await.unwrap();
    assert_eq!(now().await, 100);
    time.store(50, Ordering::SeqCst);
    assert_eq!(now().await, 100);
    time.store(150, Ordering::SeqCst);
    assert_eq!(now().await, 150);
}
