//! One timer, set anew after every step of the core.

use std::cell::Cell;
use std::rc::Rc;

use wasm_bindgen::closure::Closure;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::clock;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_name = setTimeout)]
    fn set_timeout(callback: &Closure<dyn FnMut()>, ms: f64) -> f64;
    #[wasm_bindgen(js_name = clearTimeout)]
    fn clear_timeout(id: f64);
}

/// A timer that calls back at a time of the monotonic clock. Dropping it ends it.
pub struct Timer {
    state: Rc<State>,
    wake: Closure<dyn FnMut()>,
}

#[derive(Default)]
struct State {
    due_ms: Cell<Option<u64>>,
    id: Cell<Option<f64>>,
}

impl Timer {
    /// A timer that is not set. `wake` may be called early, where the wait was longer than an engine can count, or
    /// where clocks are coarse: whoever is woken looks at the clock and sets the timer again.
    pub fn new(wake: impl Fn() + 'static) -> Self {
        let state = Rc::new(State::default());
        let own = Rc::clone(&state);
        let wake = Closure::new(move || {
            own.id.set(None);
            own.due_ms.set(None);
            wake();
        });
        Self { state, wake }
    }

    /// Sets it, or ends it. Setting it to the time it is set to already costs nothing.
    pub fn set(&self, due_ms: Option<u64>) {
        if self.state.due_ms.get() == due_ms {
            return;
        }
        self.state.due_ms.set(due_ms);
        if let Some(id) = self.state.id.take() {
            clear_timeout(id);
        }
        if let Some(due_ms) = due_ms {
            let wait = due_ms.saturating_sub(clock::now().mono_ms).min(LONGEST_MS);
            self.state.id.set(Some(set_timeout(&self.wake, wait as f64)));
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some(id) = self.state.id.take() {
            clear_timeout(id);
        }
    }
}

/// Engines keep the delay in 32 signed bits and fire at once where it is larger (K6).
const LONGEST_MS: u64 = (1 << 31) - 1;
