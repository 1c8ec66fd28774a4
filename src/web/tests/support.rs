//! Fixtures: fresh names, records, and stores asked as futures.

use std::rc::Rc;

use js_sys::{Function, Promise, Reflect};
use patchkeep_core::ids::{DocId, JournalId, PatchId, TabId, Uuid};
use patchkeep_core::storage::{RecordKey, StorageFault, Transaction, TransactionOutcome, Write};
use patchkeep_web::idb::{IdbStore, Patience};
use patchkeep_web::oneshot::oneshot;
use patchkeep_web::random;
use patchkeep_web::store::{Claim, Claimed, Store};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;

pub fn tab(n: u128) -> TabId {
    TabId(Uuid::v4(n))
}

pub fn journal(n: u128) -> JournalId {
    JournalId(Uuid::v4(n))
}

pub fn key(n: u128, doc: &str) -> RecordKey {
    RecordKey { patch_id: PatchId(Uuid::v4(n)), doc: DocId::new(doc).expect("a document id") }
}

pub fn put(n: u128, doc: &str, record: &str) -> Write {
    Write::Put { key: key(n, doc), record: record.into() }
}

pub fn transaction(tab_id: TabId, epoch: u64, writes: Vec<Write>) -> Transaction {
    Transaction { id: 1, tab_id, epoch, strict: false, writes }
}

/// A name that no other test uses.
pub fn fresh_name() -> String {
    "patchkeep-test:".to_owned() + &random::uuid().to_string()
}

/// A store in a database of this name.
pub async fn open_store(name: String) -> Result<IdbStore, StorageFault> {
    IdbStore::open(name, &Patience::new(5_000, Rc::new(|| {}))).await.map(|(store, _)| store)
}

pub async fn claim(store: &dyn Store, tab_id: TabId) -> Result<Claimed, StorageFault> {
    claim_with(store, Claim { tab_id, fresh_journal_id: journal(1), above: 0, strict: true }).await
}

pub async fn claim_with(store: &dyn Store, claim: Claim) -> Result<Claimed, StorageFault> {
    let (sender, receiver) = oneshot();
    store.claim(claim, Box::new(move |claimed| sender.send(claimed)));
    receiver.await
}

pub async fn transact(store: &dyn Store, transaction: Transaction) -> TransactionOutcome {
    let (sender, receiver) = oneshot();
    store.transact(transaction, Box::new(move |outcome| sender.send(outcome)));
    receiver.await
}

pub async fn read_epoch(store: &dyn Store, tab_id: TabId) -> Result<u64, StorageFault> {
    let (sender, receiver) = oneshot();
    store.read_epoch(tab_id, Box::new(move |epoch| sender.send(epoch)));
    receiver.await
}

/// The records of a tab, sorted, as its next context finds them.
pub async fn records(store: &dyn Store, tab_id: TabId) -> Vec<String> {
    let mut records = claim(store, tab_id).await.expect("the store works").records;
    records.sort();
    records
}

/// Runs a script that returns a promise, with an argument called `it`.
pub async fn script(body: &str, it: &str) -> JsValue {
    let run = Function::new_with_args("it", body);
    let promise: Promise = run.call1(&JsValue::NULL, &it.into()).expect("the script runs").unchecked_into();
    JsFuture::from(promise).await.expect("the script succeeds")
}

/// Puts something else in place of a property of the global object until it is dropped.
pub struct Replaced(&'static str);

impl Replaced {
    pub fn with(name: &'static str, value: &JsValue) -> Self {
        let descriptor = js_sys::Object::new();
        Reflect::set(&descriptor, &"value".into(), value).expect("a plain object");
        Self::define(name, &descriptor)
    }

    /// Reading the property throws, as where storage is blocked.
    pub fn throwing(name: &'static str) -> Self {
        let descriptor = js_sys::Object::new();
        let getter = Function::new_no_args("throw new DOMException('blocked', 'SecurityError')");
        Reflect::set(&descriptor, &"get".into(), &getter).expect("a plain object");
        Self::define(name, &descriptor)
    }

    fn define(name: &'static str, descriptor: &js_sys::Object) -> Self {
        Reflect::set(descriptor, &"configurable".into(), &JsValue::TRUE).expect("a plain object");
        // The platform's own property is the prototype's, or one to be put back.
        let global = js_sys::global();
        let own = js_sys::Object::get_own_property_descriptor(&global, &name.into());
        let saved = "__saved_".to_owned() + name;
        Reflect::set(&global, &saved.into(), &own).expect("the global object takes properties");
        js_sys::Object::define_property(&global, &name.into(), descriptor);
        Self(name)
    }
}

impl Drop for Replaced {
    fn drop(&mut self) {
        let global = js_sys::global();
        let saved = Reflect::get(&global, &("__saved_".to_owned() + self.0).into()).unwrap_or(JsValue::UNDEFINED);
        let _ = Reflect::delete_property(&global, &self.0.into());
        if saved.is_object() {
            js_sys::Object::define_property(&global, &self.0.into(), saved.unchecked_ref());
        }
    }
}
