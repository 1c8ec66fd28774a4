//! Both of the tab's clocks. `Date.now()` jumps, `performance.now()` may stop in sleep: the core knows.

use patchkeep_core::time::Now;
use wasm_bindgen::prelude::wasm_bindgen;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = performance, js_name = now)]
    fn performance_now() -> f64;
}

/// Reads both clocks.
pub fn now() -> Now {
    Now { mono_ms: performance_now() as u64, wall_ms: js_sys::Date::now() as u64 }
}
