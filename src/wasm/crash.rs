//! A Rust panic leaves the instance unusable: all it still does is to say so.

use std::cell::RefCell;

use js_sys::Function;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

/// `crashed` is called if this instance panics. Nothing of it may be called from then on.
#[wasm_bindgen(js_name = onCrash)]
pub fn on_crash(crashed: Function) {
    CRASHED.set(Some(crashed));
    std::panic::set_hook(Box::new(|_| {
        if let Some(crashed) = CRASHED.take() {
            // It throws nothing, and if it did, the trap that follows would say more.
            let _ = crashed.call0(&JsValue::UNDEFINED);
        }
    }));
}

thread_local! {
    static CRASHED: RefCell<Option<Function>> = const { RefCell::new(None) };
}
