//! What every store must do, run against each of them.

use std::future::Future;
use std::rc::Rc;

use patchkeep_core::storage::{StorageFault, TransactionOutcome, Write};
use patchkeep_web::memory::MemoryStore;
use patchkeep_web::store::{Claim, Store};
use wasm_bindgen_test::wasm_bindgen_test;

use crate::support::*;

macro_rules! for_every_store {
    ($($name:ident)*) => {
        mod memory {
            use super::*;
            $(#[wasm_bindgen_test] async fn $name() { run(Rc::new(MemoryStore::default()), super::$name).await; })*
        }
        mod indexed_db {
            use super::*;
            $(#[wasm_bindgen_test] async fn $name() {
                let store = open_store(fresh_name()).await.expect("IndexedDB works here");
                run(Rc::new(store), super::$name).await;
            })*
        }
    };
}

for_every_store! {
    t03_each_claim_raises_the_epoch
    t03_a_claim_goes_above_what_the_context_knows
    the_journal_has_one_id
    the_journal_goes_by_another_id
    records_of_a_tab_are_read_back
    records_are_overwritten_and_removed
    tabs_do_not_see_each_other
    j04_a_higher_epoch_rolls_everything_back
    j11_the_same_epoch_goes_on_and_a_lower_one_is_an_eviction
    writes_take_effect_in_their_order
    any_document_id_is_a_key
    t04_the_epoch_is_read
    many_transactions_at_once_are_all_answered
}

async fn run<F: Future<Output = ()>>(store: Rc<dyn Store>, test: impl FnOnce(Rc<dyn Store>) -> F) {
    test(Rc::clone(&store)).await;
    store.close();
}

fn is_durable(outcome: TransactionOutcome) -> bool {
    matches!(outcome, TransactionOutcome::Durable { .. })
}

async fn t03_each_claim_raises_the_epoch(store: Rc<dyn Store>) {
    for epoch in 1..=3 {
        assert_eq!(claim(&*store, tab(1)).await.unwrap().epoch, epoch);
    }
    assert_eq!(claim(&*store, tab(2)).await.unwrap().epoch, 1);
}

async fn t03_a_claim_goes_above_what_the_context_knows(store: Rc<dyn Store>) {
    let known = Claim { tab_id: tab(1), fresh_journal_id: journal(1), above: 7, strict: false };
    assert_eq!(claim_with(&*store, known).await.unwrap().epoch, 8);
    assert_eq!(claim(&*store, tab(1)).await.unwrap().epoch, 9);
}

async fn the_journal_has_one_id(store: Rc<dyn Store>) {
    let first = Claim { tab_id: tab(1), fresh_journal_id: journal(1), above: 0, strict: true };
    let second = Claim { tab_id: tab(2), fresh_journal_id: journal(2), ..first };
    assert_eq!(claim_with(&*store, first).await.unwrap().journal_id, journal(1));
    assert_eq!(claim_with(&*store, second).await.unwrap().journal_id, journal(1));
}

async fn the_journal_goes_by_another_id(store: Rc<dyn Store>) {
    claim(&*store, tab(1)).await.unwrap();
    let renamed = transaction(tab(1), 1, vec![Write::JournalId(journal(9)), put(1, "d", "r")]);
    assert!(is_durable(transact(&*store, renamed).await));
    assert_eq!(claim(&*store, tab(1)).await.unwrap().journal_id, journal(9));
}

async fn records_of_a_tab_are_read_back(store: Rc<dyn Store>) {
    let epoch = claim(&*store, tab(1)).await.unwrap().epoch;
    let writes = vec![put(1, "d1", "one"), put(2, "d1", "two"), put(3, "d2", "three ü 😀")];
    assert!(is_durable(transact(&*store, transaction(tab(1), epoch, writes)).await));
    assert_eq!(records(&*store, tab(1)).await, ["one", "three ü 😀", "two"]);
}

async fn records_are_overwritten_and_removed(store: Rc<dyn Store>) {
    let epoch = claim(&*store, tab(1)).await.unwrap().epoch;
    let first = vec![put(1, "d", "old"), put(2, "d", "gone")];
    assert!(is_durable(transact(&*store, transaction(tab(1), epoch, first)).await));
    let second = vec![put(1, "d", "new"), Write::Remove(key(2, "d")), Write::Remove(key(3, "never there"))];
    assert!(is_durable(transact(&*store, transaction(tab(1), epoch, second)).await));
    assert_eq!(records(&*store, tab(1)).await, ["new"]);
}

async fn tabs_do_not_see_each_other(store: Rc<dyn Store>) {
    for (n, text) in [(1, "one"), (2, "two"), (u128::MAX, "last")] {
        let epoch = claim(&*store, tab(n)).await.unwrap().epoch;
        assert!(is_durable(transact(&*store, transaction(tab(n), epoch, vec![put(1, "d", text)])).await));
    }
    assert_eq!(records(&*store, tab(1)).await, ["one"]);
    assert_eq!(records(&*store, tab(2)).await, ["two"]);
    assert_eq!(records(&*store, tab(u128::MAX)).await, ["last"]);
}

async fn j04_a_higher_epoch_rolls_everything_back(store: Rc<dyn Store>) {
    let old = claim(&*store, tab(1)).await.unwrap().epoch;
    assert!(is_durable(transact(&*store, transaction(tab(1), old, vec![put(1, "d", "kept")])).await));
    claim(&*store, tab(1)).await.unwrap();
    let writes =
        vec![put(1, "d", "late"), put(2, "d", "late"), Write::Remove(key(1, "d")), Write::JournalId(journal(9))];
    assert_eq!(transact(&*store, transaction(tab(1), old, writes)).await, TransactionOutcome::Fenced);
    let now = claim(&*store, tab(1)).await.unwrap();
    assert_eq!((now.records, now.journal_id), (vec!["kept".to_owned()], journal(1)));
}

async fn j11_the_same_epoch_goes_on_and_a_lower_one_is_an_eviction(store: Rc<dyn Store>) {
    let epoch = claim(&*store, tab(1)).await.unwrap().epoch;
    assert!(is_durable(transact(&*store, transaction(tab(1), epoch, vec![put(1, "d", "x")])).await));
    // The store had a higher one, and has it no more.
    let outcome = transact(&*store, transaction(tab(1), epoch + 5, vec![put(2, "d", "y")])).await;
    assert_eq!(outcome, TransactionOutcome::Failed(StorageFault::Evicted));
    assert_eq!(records(&*store, tab(1)).await, ["x"]);
}

async fn writes_take_effect_in_their_order(store: Rc<dyn Store>) {
    let epoch = claim(&*store, tab(1)).await.unwrap().epoch;
    let writes = vec![
        put(1, "d", "a"),
        Write::Remove(key(1, "d")),
        put(1, "d", "b"),
        put(2, "d", "c"),
        Write::Remove(key(2, "d")),
    ];
    assert!(is_durable(transact(&*store, transaction(tab(1), epoch, writes)).await));
    assert_eq!(records(&*store, tab(1)).await, ["b"]);
}

async fn any_document_id_is_a_key(store: Rc<dyn Store>) {
    let epoch = claim(&*store, tab(1)).await.unwrap().epoch;
    let ids = ["notes/42", " ", "\u{0}", "\u{ffff}", "a,b]", "😀"];
    let writes = ids.iter().map(|id| put(1, id, id)).collect();
    assert!(is_durable(transact(&*store, transaction(tab(1), epoch, writes)).await));
    let mut expected = ids;
    expected.sort();
    assert_eq!(records(&*store, tab(1)).await, expected);
}

async fn t04_the_epoch_is_read(store: Rc<dyn Store>) {
    assert_eq!(read_epoch(&*store, tab(1)).await, Ok(0));
    claim(&*store, tab(1)).await.unwrap();
    claim(&*store, tab(1)).await.unwrap();
    assert_eq!(read_epoch(&*store, tab(1)).await, Ok(2));
}

async fn many_transactions_at_once_are_all_answered(store: Rc<dyn Store>) {
    let epoch = claim(&*store, tab(1)).await.unwrap().epoch;
    let (sender, receiver) = patchkeep_web::oneshot::oneshot();
    let left = Rc::new(std::cell::Cell::new(50));
    for n in 0..50 {
        let (sender, left) = (sender.clone(), Rc::clone(&left));
        let one = transaction(tab(1), epoch, vec![put(n, "d", &n.to_string())]);
        let done = move |outcome| {
            assert!(is_durable(outcome));
            left.set(left.get() - 1);
            if left.get() == 0 {
                sender.send(());
            }
        };
        store.transact(one, Box::new(done));
    }
    receiver.await;
    assert_eq!(records(&*store, tab(1)).await.len(), 50);
}
