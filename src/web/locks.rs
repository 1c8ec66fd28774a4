//! Web Locks: a tab id is held by one live context at a time (T1).

use std::cell::Cell;
use std::rc::Rc;

use js_sys::{Function, Object, Promise, Reflect};
use wasm_bindgen::closure::Closure;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};

use crate::globals::{global, property};
use crate::oneshot::oneshot;

/// The lock manager, declared as it is: web-sys keeps it behind an unstable switch.
#[wasm_bindgen]
extern "C" {
    type LockManager;
    #[wasm_bindgen(method, catch)]
    fn request(this: &LockManager, name: &str, options: &JsValue, callback: &JsValue) -> Result<Promise, JsValue>;
}

/// Whether there are Web Locks here. In insecure contexts there are none.
pub fn are_available() -> bool {
    manager().is_some()
}

/// Takes a lock if nobody holds it. Returns the function that lets it go, or `None`.
///
/// `lost` is called if the lock is taken away later (`steal`).
pub async fn try_lock(name: &str, lost: impl FnOnce() + 'static) -> Option<Function> {
    let manager = manager()?;
    let options = Object::new();
    Reflect::set(&options, &JsValue::from_str("ifAvailable"), &JsValue::TRUE).ok()?;
    let (sender, receiver) = oneshot();
    let refused = sender.clone();
    let is_held = Rc::new(Cell::new(false));
    let was_held = Rc::clone(&is_held);
    let callback = Closure::once_into_js(move |lock: JsValue| -> JsValue {
        if lock.is_null() {
            sender.send(None);
            return JsValue::UNDEFINED;
        }
        is_held.set(true);
        let (held, release) = pending();
        sender.send(Some(release));
        held.into()
    });
    let request = manager.request(name, &options, &callback).ok()?;
    // Called once in any case: when the lock was let go, was taken away, or was never to be had.
    let over = Closure::once_into_js(move |error: JsValue| {
        if error.is_undefined() {
            return;
        }
        refused.send(None);
        if was_held.get() {
            lost();
        }
    });
    then(&request, &over);
    receiver.await
}

fn manager() -> Option<LockManager> {
    property(&global("navigator")?, "locks").map(JsCast::unchecked_into)
}

/// A promise that is pending until the function is called.
fn pending() -> (Promise, Function) {
    let mut release = None;
    let promise = Promise::new(&mut |resolve, _| release = Some(resolve));
    // The executor runs before the constructor returns.
    (promise, release.unwrap_or_default())
}

/// `promise.then(settled, settled)`: the promise that makes is of no interest.
fn then(promise: &Promise, settled: &JsValue) {
    let _ = promise.unchecked_ref::<Thenable>().then(settled, settled);
}

#[wasm_bindgen]
extern "C" {
    type Thenable;
    #[wasm_bindgen(method)]
    fn then(this: &Thenable, resolved: &JsValue, rejected: &JsValue) -> JsValue;
}
