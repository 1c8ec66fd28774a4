//! Who a tab is: duplicated tabs, handed-over identities, missing Web Locks and missing `sessionStorage` (T1–T3).

use std::cell::Cell;
use std::rc::Rc;

use patchkeep_core::ids::TabId;
use patchkeep_web::identity::{Held, Place, SessionExists};
use patchkeep_web::oneshot::oneshot;
use wasm_bindgen::JsValue;
use wasm_bindgen_test::wasm_bindgen_test;

use crate::support::*;

/// A session that opens: it takes its place, claims, and raises the epoch.
async fn opens(principal: &str) -> (Place, Held) {
    let place = Place::take(principal).expect("no other session is open");
    let held = place.claim(true).await;
    place.confirm(held, held.last_epoch + 1);
    (place, held)
}

/// The next load of the page, which finds `sessionStorage` and nothing else of this one.
async fn reload(principal: &str) {
    script(
        "const { tabs } = globalThis[Symbol.for('patchkeep.identity.v1')];
         const entry = tabs.get(it);
         tabs.delete(it);
         entry.release?.();
         return Promise.resolve(navigator.locks?.request('patchkeep:tab:' + entry.tabId, () => undefined))",
        principal,
    )
    .await;
}

/// A duplicated tab: it finds `sessionStorage` as it was, and the lock held by the original.
async fn duplicate(principal: &str) {
    script("globalThis[Symbol.for('patchkeep.identity.v1')].tabs.delete(it); return Promise.resolve()", principal)
        .await;
}

fn stored(principal: &str) -> Option<TabId> {
    let get = js_sys::Function::new_with_args("key", "return sessionStorage.getItem(key)");
    let key = "patchkeep:tab:".to_owned() + principal;
    get.call1(&JsValue::NULL, &key.into()).expect("it works").as_string()?.parse().ok()
}

#[wasm_bindgen_test]
async fn t01_a_reload_resumes_the_stored_id_under_its_lock() {
    let principal = fresh_name();
    let (_place, first) = opens(&principal).await;
    assert!(!first.weak);
    assert_eq!(stored(&principal), Some(first.tab_id));
    reload(&principal).await;
    let (_place, second) = opens(&principal).await;
    assert_eq!(second.tab_id, first.tab_id);
    assert!(!second.weak);
}

#[wasm_bindgen_test]
async fn b06_a_duplicated_tab_gets_another_id_at_once() {
    let principal = fresh_name();
    let (_original, first) = opens(&principal).await;
    duplicate(&principal).await;
    let (_copy, second) = opens(&principal).await;
    assert_ne!(second.tab_id, first.tab_id);
    assert!(!second.weak);
    assert_eq!(stored(&principal), Some(second.tab_id));
}

#[wasm_bindgen_test]
async fn t02_a_session_that_closes_hands_its_identity_over() {
    let principal = fresh_name();
    let (place, first) = opens(&principal).await;
    let context_id = place.context_id();
    place.leave();
    let (place, second) = opens(&principal).await;
    assert_eq!((second.tab_id, second.last_epoch, second.weak), (first.tab_id, 1, false));
    assert_eq!(place.context_id(), context_id);
    // The lock was never let go of.
    let is_free = script(
        "return navigator.locks.request('patchkeep:tab:' + it, { ifAvailable: true }, (lock) => lock !== null)",
        &first.tab_id.to_string(),
    )
    .await;
    assert!(is_free.is_falsy());
}

#[wasm_bindgen_test]
async fn t02_of_two_sessions_that_open_together_one_is_told() {
    let principal = fresh_name();
    let first = Place::take(&principal).expect("the place is free");
    assert_eq!(Place::take(&principal).err(), Some(SessionExists));
    assert!(Place::take(&fresh_name()).is_ok(), "other principals are not concerned");
    first.leave();
    assert!(Place::take(&principal).is_ok());
}

#[wasm_bindgen_test]
async fn t01_a_stolen_lock_is_noticed_and_the_id_is_not_handed_on() {
    let principal = fresh_name();
    let (mut place, first) = opens(&principal).await;
    let (sender, noticed) = oneshot();
    place.on_lost(move || sender.send(()));
    steal(first.tab_id).await;
    noticed.await;
    place.leave();
    let (_place, second) = opens(&principal).await;
    assert_ne!(second.tab_id, first.tab_id);
}

#[wasm_bindgen_test]
async fn t01_a_lock_stolen_between_two_sessions_is_noticed_too() {
    let principal = fresh_name();
    let (place, first) = opens(&principal).await;
    place.leave();
    steal(first.tab_id).await;
    let (mut place, second) = opens(&principal).await;
    assert_ne!(second.tab_id, first.tab_id);
    let is_lost = Rc::new(Cell::new(false));
    let lost = Rc::clone(&is_lost);
    place.on_lost(move || lost.set(true));
    assert!(!is_lost.get());
}

async fn steal(tab_id: TabId) {
    script(
        "return new Promise((done) => navigator.locks.request('patchkeep:tab:' + it, { steal: true }, async () => {
           setTimeout(done);
           await new Promise(() => undefined);
         }))",
        &tab_id.to_string(),
    )
    .await;
}

#[wasm_bindgen_test]
async fn t03_a_forgotten_identity_is_not_resumed() {
    let principal = fresh_name();
    let (place, first) = opens(&principal).await;
    place.forget();
    assert_eq!(stored(&principal), None);
    place.leave();
    let (_place, second) = opens(&principal).await;
    assert_ne!(second.tab_id, first.tab_id);
}

#[wasm_bindgen_test]
async fn j04_a_session_that_lost_its_id_does_not_hold_up_the_next() {
    let principal = fresh_name();
    let (fenced, first) = opens(&principal).await;
    fenced.forget();
    let (_place, second) = opens(&principal).await;
    assert_ne!(second.tab_id, first.tab_id);
    fenced.leave();
    assert_eq!(Place::take(&principal).err(), Some(SessionExists), "the fenced one took nothing along");
    assert_eq!(stored(&principal), Some(second.tab_id));
}

#[wasm_bindgen_test]
async fn b07_without_web_locks_a_stored_id_is_not_believed() {
    let principal = fresh_name();
    let (_place, first) = opens(&principal).await;
    reload(&principal).await;
    let without = Replaced::with("navigator", &js_sys::Object::new());
    let (_place, second) = opens(&principal).await;
    assert!(second.weak);
    assert_ne!(second.tab_id, first.tab_id);
    assert_eq!(stored(&principal), Some(first.tab_id), "a weak id is not remembered");
    reload(&principal).await;
    let (place, third) = opens(&principal).await;
    assert_ne!(third.tab_id, second.tab_id);
    place.leave();
    let (_place, fourth) = opens(&principal).await;
    assert_eq!(fourth.tab_id, third.tab_id, "within one context it is handed over");
    drop(without);
}

#[wasm_bindgen_test]
async fn t01_session_storage_that_throws_counts_as_absent() {
    let principal = fresh_name();
    let throwing = Replaced::throwing("sessionStorage");
    let (place, first) = opens(&principal).await;
    assert!(!first.weak);
    place.forget();
    place.leave();
    let (_place, second) = opens(&principal).await;
    drop(throwing);
    assert_ne!(second.tab_id, first.tab_id);
    assert_eq!(stored(&principal), None);
}

#[wasm_bindgen_test]
async fn t03_an_id_whose_epoch_cannot_be_raised_is_given_up() {
    let principal = fresh_name();
    let mut place = Place::take(&principal).expect("the place is free");
    let first = place.claim(true).await;
    place.give_up();
    assert_eq!(Place::take(&principal).err(), Some(SessionExists), "the place stays taken");
    let second = place.claim(false).await;
    assert_ne!(second.tab_id, first.tab_id);
}
