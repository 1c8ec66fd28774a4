//! The stores: units of work, their effects, and the schema ladder.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use patchkeep_core::ids::DocId;
use patchkeep_server::decide::Document;
use patchkeep_server::store::{AnyStore, Store, StoreError, Tx};

use crate::place::Place;

fn doc() -> DocId {
    DocId::new("d").unwrap()
}

fn put(tx: &dyn Tx, text: &str, seq: u64) -> Result<bool, StoreError> {
    tx.put_document("ws", &doc(), &Document { text: text.into(), seq })
}

async fn stored(store: &AnyStore) -> Option<Document> {
    store.transact(|tx| tx.document("ws", &doc())).await.unwrap()
}

#[tokio::test]
async fn a_unit_that_fails_undoes_itself_alone_and_says_nothing() {
    let place = Place::new();
    let store = place.store().await.unwrap();
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
    let place = Place::new();
    let store = place.store().await.unwrap();
    for (text, seq, fits) in [("early", 2, false), ("a", 1, true), ("b", 1, false), ("b", 3, false), ("b", 2, true)] {
        let wrote: Result<bool, StoreError> = store.transact(move |tx| put(tx, text, seq)).await;
        assert_eq!(wrote.unwrap(), fits, "{text} {seq}");
    }
    assert_eq!(stored(&store).await, Some(Document { text: "b".into(), seq: 2 }));
}

#[tokio::test]
async fn a_closed_store_says_so() {
    let place = Place::new();
    let store = place.store().await.unwrap();
    store.close();
    let closed: Result<bool, StoreError> = store.transact(|tx| put(tx, "x", 1)).await;
    assert!(matches!(closed, Err(StoreError::Closed)));
}

#[tokio::test]
async fn s11_opening_again_keeps_everything_and_a_newer_schema_is_refused() {
    let place = Place::new();
    let store = place.store().await.unwrap();
    let _fits: Result<bool, StoreError> = store.transact(|tx| put(tx, "x", 1)).await;
    drop(store);
    let store = place.store().await.unwrap();
    assert!(stored(&store).await.is_some());
    if let AnyStore::Sqlite(_) = &store {
        assert_eq!(place.texts("PRAGMA journal_mode"), [Some("wal".into())]);
    }
    drop(store);
    place.execute("INSERT INTO schema_step (step) VALUES (999)");
    assert!(matches!(place.store().await, Err(StoreError::Newer { found: 999, .. })));
}

#[tokio::test]
async fn s11_a_crash_after_any_statement_of_the_ladder_changes_nothing_in_the_end() {
    let reference = Place::new();
    drop(reference.store().await.unwrap());
    let whole = reference.schema();
    assert!(whole.len() > 8, "{whole:?}");
    let mut crashes = 0;
    loop {
        let place = Place::new();
        let complete = place.migrate_partly(crashes);
        // Whatever step was reached is used, before the next process goes on.
        let used = place.schema().iter().flatten().any(|line| line.contains("seq"));
        if used {
            place.execute("INSERT INTO document (workspace_id, doc, text, seq) VALUES ('ws', 'd', 'kept', 7)");
        }
        // It dies again at the same place, and at the first.
        place.migrate_partly(1);
        place.migrate_partly(crashes);
        let store = place.store().await.unwrap();
        assert_eq!(place.schema(), whole, "after {crashes} statements");
        let kept = used.then(|| Document { text: "kept".into(), seq: 7 });
        assert_eq!(stored(&store).await, kept, "after {crashes} statements");
        assert_eq!(place.texts("SELECT CAST(step AS TEXT) FROM schema_step ORDER BY step").len(), STEPS);
        if complete {
            break;
        }
        crashes += 1;
    }
    assert!(crashes > 12, "{crashes}");
}

#[tokio::test]
async fn s11_text_of_any_kind_is_kept() {
    let place = Place::new();
    let store = place.store().await.unwrap();
    let text = "\0 \u{7f} é 🙂 \r\n ' ? $1 \\";
    let wrote: Result<bool, StoreError> = store.transact(move |tx| put(tx, text, 1)).await;
    assert!(wrote.unwrap());
    assert_eq!(stored(&store).await, Some(Document { text: text.into(), seq: 1 }));
}

#[tokio::test]
async fn a_teams_statement_means_the_same_on_both_databases() {
    let place = Place::new();
    let store = place.store().await.unwrap();
    let sql = "SELECT 'is it ?1? it''s ?2' || CAST(?2 AS TEXT) AS \"a ?1\" /* or ?1 */ -- and '?2\n, CAST(?1 AS TEXT)";
    let asked = store.transact(move |tx| tx.query(sql, &["one".into(), "two".into()]));
    assert_eq!(asked.await.unwrap(), [["is it ?1? it's ?2two".into(), "one".into()]]);
}

#[tokio::test]
async fn the_databases_clock_does_not_go_back() {
    let place = Place::new();
    let store = place.store().await.unwrap();
    let now = async || store.transact(|tx| Ok::<_, StoreError>(tx.now())).await.unwrap();
    place.ahead.store(1_000_000, Ordering::SeqCst);
    let late = now().await;
    place.ahead.store(0, Ordering::SeqCst);
    assert_eq!(now().await, late);
    place.ahead.store(2_000_000, Ordering::SeqCst);
    assert!(now().await >= late + 1_000_000);
}

/// A database at a step of the ladder, and no further.
fn at_step(step: usize) -> Place {
    let place = Place::new();
    place.migrate_partly(statements_to(step));
    place
}

/// After how many statements a step is taken: found once, by trying.
fn statements_to(step: usize) -> usize {
    static TAKEN: OnceLock<Vec<usize>> = OnceLock::new();
    let found = TAKEN.get_or_init(|| {
        let mut taken = Vec::new();
        for statements in 0.. {
            let place = Place::new();
            let complete = place.migrate_partly(statements);
            let ledger = place.schema().iter().flatten().any(|line| line.contains("schema_step"));
            if ledger && place.texts("SELECT CAST(step AS TEXT) FROM schema_step").len() > taken.len() {
                taken.push(statements);
            }
            if complete {
                break;
            }
        }
        taken
    });
    assert_eq!(found.len(), STEPS);
    found[step - 1]
}

const STEPS: usize = 10;

#[tokio::test]
async fn s11_a_database_from_before_the_ledger_is_recognised_at_every_shape() {
    let reference = Place::new();
    drop(reference.store().await.unwrap());
    for step in 1..=STEPS {
        let place = at_step(step);
        place.execute("INSERT INTO document (workspace_id, doc, text, seq) VALUES ('ws', 'd', 'kept', 7)");
        place.execute("DROP TABLE schema_step");
        // It dies while it is recognised, and again.
        place.migrate_partly(2);
        let store = place.store().await.unwrap();
        assert_eq!(place.schema(), reference.schema(), "from step {step}");
        assert_eq!(stored(&store).await, Some(Document { text: "kept".into(), seq: 7 }), "from step {step}");
        assert_eq!(place.texts("SELECT CAST(step AS TEXT) FROM schema_step").len(), STEPS);
    }
}

#[tokio::test]
async fn s11_a_table_made_anew_under_another_key_keeps_every_row_and_every_column() {
    const OLD: usize = 4;
    const ROWS: usize = 3;
    let rows = |place: &Place| {
        let mut rows = place.texts(
            "SELECT tab_id || ' ' || doc || ' ' || CAST(ordinal AS TEXT) || ' ' || incarnation || ' ' || \"the note\"
             FROM tab_incarnation",
        );
        rows.sort();
        rows
    };
    let fill = |place: &Place| {
        place.execute("ALTER TABLE tab_incarnation ADD COLUMN \"the note\" TEXT");
        for n in 1..=ROWS {
            place.execute(&format!(
                "INSERT INTO tab_incarnation (tab_id, doc, ordinal, epoch, incarnation, \"the note\")
                 VALUES ('t', 'd', {n}, 1, 'i{n}', 'note {n}')"
            ));
        }
    };
    let whole = at_step(OLD);
    fill(&whole);
    let before = rows(&whole);
    assert_eq!(before.len(), ROWS);
    drop(whole.store().await.unwrap());
    assert_eq!(rows(&whole), before);
    let mut crashes = 0;
    loop {
        let place = at_step(OLD);
        fill(&place);
        let complete = place.migrate_partly(crashes);
        assert_eq!(rows(&place), before, "after {crashes} statements");
        drop(place.store().await.unwrap());
        assert_eq!((rows(&place), place.schema()), (before.clone(), whole.schema()), "after {crashes} statements");
        if complete {
            break;
        }
        crashes += 1;
    }
    assert!(crashes > 6, "{crashes}");
}
