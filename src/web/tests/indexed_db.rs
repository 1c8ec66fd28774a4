//! What only the durable store goes through: durability, other connections, faults.

use std::cell::Cell;
use std::rc::Rc;

use patchkeep_core::storage::{StorageFault, TransactionOutcome};
use patchkeep_web::idb::fault;
use patchkeep_web::oneshot::oneshot;
use patchkeep_web::store::Store;
use wasm_bindgen::JsValue;
use wasm_bindgen_test::wasm_bindgen_test;

use crate::support::*;

#[wasm_bindgen_test]
async fn j01_durability_is_read_back_from_the_transaction() {
    let store = open_store(fresh_name()).await.unwrap();
    let claimed = claim(&store, tab(1)).await.unwrap();
    assert!(claimed.strict);
    for strict in [true, false] {
        let mut one = transaction(tab(1), claimed.epoch, vec![put(1, "d", "x")]);
        one.strict = strict;
        assert_eq!(transact(&store, one).await, TransactionOutcome::Durable { strict });
    }
}

#[wasm_bindgen_test]
async fn j01_an_engine_that_does_not_know_the_option_is_believed_to_be_relaxed() {
    script(
        "window.__durability = Object.getOwnPropertyDescriptor(IDBTransaction.prototype, 'durability');
         delete IDBTransaction.prototype.durability; return Promise.resolve()",
        "",
    )
    .await;
    let store = open_store(fresh_name()).await.unwrap();
    let strict = claim(&store, tab(1)).await.map(|claimed| claimed.strict);
    script(
        "Object.defineProperty(IDBTransaction.prototype, 'durability', window.__durability);
         return Promise.resolve()",
        "",
    )
    .await;
    assert_eq!(strict, Ok(false));
}

#[wasm_bindgen_test]
async fn what_was_written_is_there_for_the_next_context() {
    let name = fresh_name();
    let first = open_store(name.clone()).await.unwrap();
    let epoch = claim(&first, tab(1)).await.unwrap().epoch;
    transact(&first, transaction(tab(1), epoch, vec![put(1, "d", "x")])).await;
    first.close();
    let second = open_store(name).await.unwrap();
    let claimed = claim(&second, tab(1)).await.unwrap();
    assert_eq!((claimed.epoch, claimed.records), (2, vec!["x".to_owned()]));
}

#[wasm_bindgen_test]
async fn j11_a_deleted_database_is_reported_and_stays_away() {
    let name = fresh_name();
    let store = open_store(name.clone()).await.unwrap();
    claim(&store, tab(1)).await.unwrap();
    let (sender, lost) = oneshot();
    store.on_lost(Box::new(move |fault| sender.send(fault)));
    script(
        "return new Promise((done, failed) => {
           const request = indexedDB.deleteDatabase(it);
           request.onsuccess = done; request.onerror = failed;
         })",
        &name,
    )
    .await;
    assert_eq!(lost.await, StorageFault::Evicted);
    let outcome = transact(&store, transaction(tab(1), 1, vec![put(1, "d", "x")])).await;
    assert_eq!(outcome, TransactionOutcome::Failed(StorageFault::Evicted));
    assert_eq!(read_epoch(&store, tab(1)).await, Err(StorageFault::Evicted));
}

#[wasm_bindgen_test]
async fn j11_newer_code_gets_its_way_and_older_code_says_so() {
    let name = fresh_name();
    let store = open_store(name.clone()).await.unwrap();
    claim(&store, tab(1)).await.unwrap();
    let (sender, lost) = oneshot();
    store.on_lost(Box::new(move |fault| sender.send(fault)));
    script(
        "return new Promise((done, failed) => {
           const request = indexedDB.open(it, 999);
           request.onsuccess = () => { request.result.close(); done(); };
           request.onerror = failed; request.onblocked = failed;
         })",
        &name,
    )
    .await;
    assert_eq!(lost.await, StorageFault::Newer);
    assert_eq!(open_store(name).await.err(), Some(StorageFault::Newer));
}

/// Keeps every connection of a name in `window.__connections`, so that a test can end one as the browser would.
async fn watch_connections() {
    script(
        "if (!window.__connections) {
           window.__connections = {};
           const open = IDBFactory.prototype.open;
           IDBFactory.prototype.open = function (name, version) {
             const request = open.call(this, name, version);
             request.addEventListener('success', () => (window.__connections[name] = request.result));
             return request;
           };
         }
         return Promise.resolve()",
        "",
    )
    .await;
}

#[wasm_bindgen_test]
async fn j11_a_dead_connection_is_opened_again_where_the_journal_is_the_same() {
    watch_connections().await;
    let name = fresh_name();
    let store = open_store(name.clone()).await.unwrap();
    let epoch = claim(&store, tab(1)).await.unwrap().epoch;
    let is_lost = Rc::new(Cell::new(false));
    let lost = Rc::clone(&is_lost);
    store.on_lost(Box::new(move |_| lost.set(true)));
    script("window.__connections[it].close(); return Promise.resolve()", &name).await;
    let outcome = transact(&store, transaction(tab(1), epoch, vec![put(1, "d", "x")])).await;
    assert!(matches!(outcome, TransactionOutcome::Durable { .. }), "{outcome:?}");
    assert!(!is_lost.get());
    script("window.__connections[it].close(); return Promise.resolve()", &name).await;
    assert_eq!(read_epoch(&store, tab(1)).await, Ok(epoch));
    assert_eq!(records(&store, tab(1)).await, ["x"]);
}

#[wasm_bindgen_test]
async fn j11_a_dead_connection_to_a_journal_that_is_gone_is_an_eviction() {
    watch_connections().await;
    for replace in [false, true] {
        let name = fresh_name();
        let store = open_store(name.clone()).await.unwrap();
        let epoch = claim(&store, tab(1)).await.unwrap().epoch;
        script(
            "window.__connections[it].close();
             return new Promise((done, failed) => {
               const request = indexedDB.deleteDatabase(it);
               request.onsuccess = done; request.onerror = failed;
             })",
            &name,
        )
        .await;
        if replace {
            let other = open_store(name.clone()).await.unwrap();
            let fresh =
                patchkeep_web::store::Claim { tab_id: tab(1), fresh_journal_id: journal(77), above: 0, strict: false };
            claim_with(&other, fresh).await.unwrap();
            other.close();
        }
        let outcome = transact(&store, transaction(tab(1), epoch, vec![put(1, "d", "x")])).await;
        assert_eq!(outcome, TransactionOutcome::Failed(StorageFault::Evicted), "replaced: {replace}");
    }
}

#[wasm_bindgen_test]
async fn j11_an_epoch_that_is_gone_is_an_eviction_at_the_next_write() {
    watch_connections().await;
    let name = fresh_name();
    let store = open_store(name.clone()).await.unwrap();
    let epoch = claim(&store, tab(1)).await.unwrap().epoch;
    script(
        "return new Promise((done, failed) => {
           const tx = window.__connections[it].transaction('tabs', 'readwrite');
           tx.objectStore('tabs').clear();
           tx.oncomplete = done; tx.onabort = failed;
         })",
        &name,
    )
    .await;
    let outcome = transact(&store, transaction(tab(1), epoch, vec![put(1, "d", "x")])).await;
    assert_eq!(outcome, TransactionOutcome::Failed(StorageFault::Evicted));
    assert!(records(&store, tab(1)).await.is_empty(), "and nothing was written");
}

#[wasm_bindgen_test]
async fn j11_a_full_store_writes_nothing_and_says_so() {
    let name = fresh_name();
    let store = open_store(name).await.unwrap();
    let epoch = claim(&store, tab(1)).await.unwrap().epoch;
    script(
        "window.__put = IDBObjectStore.prototype.put;
         IDBObjectStore.prototype.put = function (value, key) {
           if (String(value).endsWith('too much')) throw new DOMException('full', 'QuotaExceededError');
           return window.__put.call(this, value, key);
         };
         return Promise.resolve()",
        "",
    )
    .await;
    let writes = vec![put(1, "d", "first"), put(2, "d", "too much")];
    let outcome = transact(&store, transaction(tab(1), epoch, writes)).await;
    script("IDBObjectStore.prototype.put = window.__put; return Promise.resolve()", "").await;
    assert_eq!(outcome, TransactionOutcome::Failed(StorageFault::Full));
    assert!(records(&store, tab(1)).await.is_empty());
}

#[wasm_bindgen_test]
async fn j11_no_indexed_db_or_a_forbidden_one_is_unavailable() {
    for replace in [|| Replaced::throwing("indexedDB"), || Replaced::with("indexedDB", &JsValue::UNDEFINED)] {
        let replaced = replace();
        let opened = open_store(fresh_name()).await;
        drop(replaced);
        assert_eq!(opened.err(), Some(StorageFault::Unavailable));
    }
}

#[wasm_bindgen_test]
fn j11_every_name_of_an_error_is_a_fault() {
    let named = |name: &str| {
        let error = js_sys::Object::new();
        js_sys::Reflect::set(&error, &"name".into(), &name.into()).unwrap();
        fault(&error)
    };
    for (name, expected) in [
        ("QuotaExceededError", StorageFault::Full),
        ("VersionError", StorageFault::Newer),
        ("SecurityError", StorageFault::Unavailable),
        ("NotFoundError", StorageFault::Corrupt),
        ("NotReadableError", StorageFault::Corrupt),
        ("InvalidStateError", StorageFault::Closed),
        ("AbortError", StorageFault::Closed),
        ("UnknownError", StorageFault::Failed),
        ("", StorageFault::Failed),
    ] {
        assert_eq!(named(name), expected, "{name}");
    }
    assert_eq!(fault(&JsValue::NULL), StorageFault::Failed);
}
