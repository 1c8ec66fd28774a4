//! The surface in a real browser, against a scripted socket: what is asked of JavaScript, and JavaScript that calls
//! back into whatever called it (B39).
#![cfg(target_arch = "wasm32")]

mod re_entrancy;
mod storage;
mod support;
mod surface;

wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_browser);
