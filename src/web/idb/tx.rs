//! One transaction: requests issued one behind the other without waiting, and its end.

use std::cell::RefCell;
use std::rc::Rc;

use js_sys::{Array, Object, Reflect};
use wasm_bindgen::closure::Closure;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{Event, IdbDatabase, IdbObjectStore, IdbRequest, IdbTransaction};

/// The parts of the API whose options web-sys keeps behind an unstable switch, declared as they are.
#[wasm_bindgen]
extern "C" {
    type Database;
    #[wasm_bindgen(method, catch)]
    fn transaction(this: &Database, stores: &Array, mode: &str, options: &JsValue) -> Result<IdbTransaction, JsValue>;

    type DurableTransaction;
    #[wasm_bindgen(method, getter)]
    fn durability(this: &DurableTransaction) -> Option<String>;
}

/// What a transaction is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// It only reads.
    Read,
    /// It writes, with this `durability`.
    Write {
        /// `"strict"`, else `"relaxed"`.
        strict: bool,
    },
}

/// How a transaction ended.
pub(super) enum End {
    /// It is committed.
    Complete {
        /// Whether it had `durability: "strict"`, by its own account.
        strict: bool,
    },
    /// Nothing of it was written. The error is `null` where it was aborted without one.
    Aborted(JsValue),
}

/// A transaction in which requests can be issued.
#[derive(Clone)]
pub(super) struct Tx(Rc<State>);

struct State {
    transaction: IdbTransaction,
    callbacks: RefCell<Vec<Callback>>,
    ended: RefCell<Option<Ended>>,
    /// Why it was aborted from here: what a request threw that was made in a callback.
    cause: RefCell<Option<JsValue>>,
}

type Callback = Closure<dyn FnMut(Event)>;
type Ended = Box<dyn FnOnce(End)>;

/// Runs a transaction: `issue` makes its requests, `ended` hears of its end, once, whatever fails.
pub(super) fn run(
    database: &IdbDatabase,
    stores: &[&str],
    mode: Mode,
    issue: impl FnOnce(&Tx) -> Result<(), JsValue>,
    ended: impl FnOnce(End) + 'static,
) {
    let transaction = match begin(database, stores, mode) {
        Ok(transaction) => transaction,
        Err(thrown) => return ended(End::Aborted(thrown)),
    };
    let tx = Tx(Rc::new(State {
        transaction,
        callbacks: RefCell::default(),
        ended: RefCell::new(Some(Box::new(ended))),
        cause: RefCell::default(),
    }));
    tx.listen();
    // What was issued before is still answered: the end is the transaction's own event, as always.
    if let Err(thrown) = issue(&tx) {
        tx.abort_for(thrown);
    }
}

fn begin(database: &IdbDatabase, stores: &[&str], mode: Mode) -> Result<IdbTransaction, JsValue> {
    let stores: Array = stores.iter().map(|name| JsValue::from_str(name)).collect();
    let options = Object::new();
    let word = match mode {
        Mode::Read => "readonly",
        Mode::Write { strict } => {
            let durability = if strict { "strict" } else { "relaxed" };
            Reflect::set(&options, &JsValue::from_str("durability"), &JsValue::from_str(durability))?;
            "readwrite"
        }
    };
    database.unchecked_ref::<Database>().transaction(&stores, word, &options)
}

impl Tx {
    /// One of its stores.
    pub(super) fn store(&self, name: &str) -> Result<IdbObjectStore, JsValue> {
        self.0.transaction.object_store(name)
    }

    /// Calls back, within the transaction, with what a request found. A request that fails aborts the transaction.
    pub(super) fn on_result(&self, request: &IdbRequest, found: impl FnOnce(JsValue) + 'static) {
        let mut found = Some(found);
        let callback = Callback::new(move |event: Event| {
            let request = event.target().map(JsCast::unchecked_into::<IdbRequest>);
            if let (Some(request), Some(found)) = (request, found.take()) {
                found(request.result().unwrap_or(JsValue::UNDEFINED));
            }
        });
        request.set_onsuccess(Some(callback.as_ref().unchecked_ref()));
        self.0.callbacks.borrow_mut().push(callback);
    }

    /// Rolls everything back. One that has ended already stays as it is.
    pub(super) fn abort(&self) {
        let _ = self.0.transaction.abort();
    }

    /// Rolls everything back because a request could not even be made.
    pub(super) fn abort_for(&self, thrown: JsValue) {
        *self.0.cause.borrow_mut() = Some(thrown);
        self.abort();
    }

    /// Its end comes as one of two events; both let go of everything the transaction held.
    fn listen(&self) {
        let tx = self.clone();
        let complete = Callback::new(move |_| {
            let durability = tx.0.transaction.unchecked_ref::<DurableTransaction>().durability();
            tx.end(End::Complete { strict: durability.as_deref() == Some("strict") });
        });
        let tx = self.clone();
        let abort = Callback::new(move |_| {
            let cause = tx.0.cause.borrow_mut().take();
            let error = cause.or_else(|| tx.0.transaction.error().map(Into::into));
            tx.end(End::Aborted(error.unwrap_or(JsValue::NULL)));
        });
        self.0.transaction.set_oncomplete(Some(complete.as_ref().unchecked_ref()));
        self.0.transaction.set_onabort(Some(abort.as_ref().unchecked_ref()));
        self.0.callbacks.borrow_mut().extend([complete, abort]);
    }

    fn end(&self, end: End) {
        let ended = self.0.ended.borrow_mut().take();
        // The callback that is running lives until it returns.
        let callbacks = self.0.callbacks.take();
        if let Some(ended) = ended {
            ended(end);
        }
        drop(callbacks);
    }
}
