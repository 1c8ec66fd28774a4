//! Units of work that share a commit with one that goes wrong (S11): what each is told is what the store holds.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

use patchkeep_core::ids::DocId;
use patchkeep_server::decide::Document;
use patchkeep_server::store::{AnyStore, Store, StoreError, Tx};

use crate::place::Place;
use crate::world::{Edit, World};

fn put(tx: &dyn Tx, name: &str) -> Result<bool, StoreError> {
    tx.put_document("ws", &DocId::new(name).unwrap(), &Document { text: name.into(), seq: 1 })
}

async fn is_stored(store: &AnyStore, name: &'static str) -> bool {
    let doc = DocId::new(name).unwrap();
    store.transact(move |tx| tx.document("ws", &doc)).await.unwrap().is_some()
}

/// What became of a unit: what its caller was told, whether it is stored, and whether its effect happened.
#[derive(Debug, PartialEq)]
struct Fate {
    told: bool,
    stored: bool,
    effect: bool,
}

const DONE: Fate = Fate { told: true, stored: true, effect: true };
const UNDONE: Fate = Fate { told: false, stored: false, effect: false };

/// What a unit does beside its document and its effect.
type Rest = Box<dyn FnOnce(&dyn Tx) -> Result<(), StoreError> + Send>;

/// Three units in one commit: two that are well, and between them the one in question, each with a document and an
/// effect of its own.
async fn beside(store: &AnyStore, wrong: impl FnOnce(&dyn Tx) -> Result<(), StoreError> + Send + 'static) -> [Fate; 3] {
    const NAMES: [&str; 3] = ["before", "wrong", "after"];
    let effects: [Arc<AtomicBool>; 3] = Default::default();
    let unit = |n: usize, rest: Rest| {
        let effect = effects[n].clone();
        store.transact(move |tx| {
            put(tx, NAMES[n])?;
            tx.after_commit(Box::new(move || effect.store(true, Ordering::SeqCst)));
            rest(tx)
        })
    };
    // The first waits until the others have been handed in: the store takes them into its group.
    let (go, gate) = mpsc::channel();
    let held = unit(0, Box::new(move |_| gate.recv().map_err(|_| StoreError::Closed)));
    let (wrong, after) = (unit(1, Box::new(wrong)), unit(2, Box::new(|_| Ok(()))));
    let (first, second, third, ()) = tokio::join!(held, wrong, after, async { go.send(()).unwrap() });
    let mut fates = Vec::new();
    for (n, told) in [first, second, third].into_iter().enumerate() {
        let (told, effect) = (told.is_ok(), effects[n].load(Ordering::SeqCst));
        fates.push(Fate { told, stored: is_stored(store, NAMES[n]).await, effect });
    }
    fates.try_into().unwrap()
}

#[tokio::test]
async fn s11_d5_a_unit_that_swallows_a_failed_statement_is_undone_alone_and_told() {
    let place = Place::new();
    let store = place.store().await.unwrap();
    let fates = beside(&store, |tx| {
        // "There already, or whatever": on one database the transaction is over by now, on the other it is not.
        let _swallowed = tx.execute("INSERT INTO nowhere VALUES (?1)", &["x".into()]);
        Ok(())
    });
    assert_eq!(fates.await, [DONE, UNDONE, DONE]);
}

#[tokio::test]
async fn s11_d5_nothing_is_run_in_a_unit_after_a_statement_that_failed() {
    let place = Place::new();
    let store = place.store().await.unwrap();
    let (tell, told) = mpsc::channel();
    let fates = beside(&store, move |tx| {
        assert!(tx.query("SELECT nonsense", &[]).is_err());
        tell.send(tx.query("SELECT CAST(1 AS BIGINT)", &[]).is_err()).unwrap();
        Ok(())
    });
    assert_eq!(fates.await, [DONE, UNDONE, DONE]);
    assert!(told.recv().unwrap());
}

#[tokio::test]
async fn s11_d5_a_commit_that_was_a_rollback_is_no_commit() {
    let place = Place::new();
    let store = place.store().await.unwrap();
    // A unit ends the transaction that it shares: whatever a COMMIT says after that, nothing of the others is there.
    let fates = beside(&store, |tx| tx.execute("ROLLBACK", &[]).map(|_| ()));
    for fate in fates.await {
        assert_eq!((fate.told, fate.effect), (fate.stored, fate.stored), "told as it is: {fate:?}");
    }
    assert_eq!(beside(&store, |_| Ok(())).await, [DONE, DONE, DONE], "the store goes on");
}

#[tokio::test]
async fn s11_d5_a_commit_that_is_refused_is_told_to_everybody() {
    let place = Place::new();
    let store = place.store().await.unwrap();
    place.execute(
        "CREATE TABLE parent (id TEXT PRIMARY KEY);
         CREATE TABLE child (id TEXT REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED)",
    );
    // What is put off to the end of the transaction fails there, and takes the whole of it along.
    let fates = beside(&store, |tx| tx.execute("INSERT INTO child VALUES (?1)", &["orphan".into()]).map(|_| ()));
    assert_eq!(fates.await, [UNDONE, UNDONE, UNDONE]);
    assert_eq!(beside(&store, |_| Ok(())).await, [DONE, DONE, DONE], "the store goes on");
}

#[tokio::test]
async fn s11_d20_a_unit_that_panics_is_undone_alone_and_the_store_lives_on() {
    let place = Place::new();
    let store = place.store().await.unwrap();
    let fates = beside(&store, |_| panic!("on purpose"));
    assert_eq!(fates.await, [DONE, UNDONE, DONE]);
    let panicked: Result<(), StoreError> = store.transact(|_| panic!("on purpose")).await;
    assert!(matches!(panicked, Err(StoreError::Panicked)), "{panicked:?}");
}

#[tokio::test]
async fn s11_d20_an_effect_that_panics_takes_nobody_along() {
    let place = Place::new();
    let store = place.store().await.unwrap();
    let fates = beside(&store, |tx| {
        tx.after_commit(Box::new(|| panic!("on purpose")));
        Ok(())
    });
    assert_eq!(fates.await, [DONE, DONE, DONE]);
    assert!(is_stored(&store, "after").await);
}

#[tokio::test]
async fn s11_d20_a_server_serves_on_after_a_units_panic() {
    let world = World::new().await;
    let app = patchkeep_server::App::start(world.place.store().await.unwrap(), world.place.config()).await.unwrap();
    let panicked: Result<(), StoreError> = app.transact(|_| panic!("on purpose")).await;
    assert!(panicked.is_err());
    assert!(app.transact(|tx| tx.counts()).await.is_ok());
    assert_eq!(world.send(&Edit::append("k", "x")).await.status, 200);
}
