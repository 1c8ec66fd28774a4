//! The web layer in a real browser: one suite for every store, and what only IndexedDB, Web Locks and
//! `sessionStorage` can go through.
#![cfg(target_arch = "wasm32")]

mod conformance;
mod identity;
mod indexed_db;
mod platform;
mod support;

wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_browser);
