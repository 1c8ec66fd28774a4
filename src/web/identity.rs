//! Who this tab is (T1–T3): the core's claim, carried out.
//!
//! All sessions of a context, and all copies of the package, share one registry on the global object. A session that
//! closes leaves its tab id and the lock on it there for the next one of the same principal, so that a framework which
//! mounts twice keeps its tab (T2). Registry, `sessionStorage` and locks are handled in `identity.js`.

use js_sys::Promise;
use patchkeep_core::ids::{ContextId, DocId, TabId};
use patchkeep_core::tab::{Claim, ClaimStep};
use wasm_bindgen::closure::Closure;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen_futures::JsFuture;

use crate::random;

#[wasm_bindgen(module = "/identity.js")]
extern "C" {
    #[wasm_bindgen(js_name = Place)]
    type Entry;
    #[wasm_bindgen(constructor, js_class = "Place")]
    fn new(principal: &str, fresh_context_id: &str) -> Entry;
    #[wasm_bindgen(method, getter, js_class = "Place", js_name = isTaken)]
    fn is_taken(this: &Entry) -> bool;
    #[wasm_bindgen(method, getter, js_class = "Place", js_name = contextId)]
    fn context_id(this: &Entry) -> String;
    #[wasm_bindgen(method, getter, js_class = "Place", js_name = tabId)]
    fn tab_id(this: &Entry) -> Option<String>;
    #[wasm_bindgen(method, getter, js_class = "Place")]
    fn epoch(this: &Entry) -> f64;
    #[wasm_bindgen(method, getter, js_class = "Place")]
    fn weak(this: &Entry) -> bool;
    #[wasm_bindgen(method, js_class = "Place")]
    fn stored(this: &Entry) -> Option<String>;
    #[wasm_bindgen(method, js_class = "Place", js_name = tryLock)]
    fn try_lock(this: &Entry, tab_id: &str) -> Promise;
    #[wasm_bindgen(method, js_class = "Place")]
    fn hold(this: &Entry, tab_id: &str, weak: bool);
    #[wasm_bindgen(method, js_class = "Place")]
    fn confirm(this: &Entry, epoch: f64, remember: bool);
    #[wasm_bindgen(method, js_class = "Place", js_name = onLost)]
    fn on_lost(this: &Entry, lost: &Closure<dyn FnMut()>);
    #[wasm_bindgen(method, js_class = "Place", js_name = nextGeneration)]
    fn next_generation(this: &Entry, doc: &str) -> f64;
    #[wasm_bindgen(method, js_class = "Place")]
    fn forget(this: &Entry);
    #[wasm_bindgen(method, js_class = "Place")]
    fn leave(this: &Entry);
    #[wasm_bindgen(method, js_class = "Place", js_name = giveUp)]
    fn give_up(this: &Entry);

    #[wasm_bindgen(js_name = hasLocks)]
    fn has_locks() -> bool;
}

/// This context has an open session of that principal already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionExists;

/// A principal's place in the registry, taken by one session at a time.
pub struct Place {
    entry: Entry,
    on_lost: Option<Closure<dyn FnMut()>>,
}

/// The tab id that a place holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The id.
    pub tab_id: TabId,
    /// The epoch at which an earlier session of this context held it; 0 where none did.
    pub last_epoch: u64,
    /// No lock guards it.
    pub weak: bool,
    /// To be written to `sessionStorage` once its epoch is raised.
    pub remember: bool,
}

impl Place {
    /// Takes the place, at once: of two sessions that open together one is told.
    ///
    /// # Errors
    /// [`SessionExists`].
    pub fn take(principal: &str) -> Result<Self, SessionExists> {
        let entry = Entry::new(principal, &random::uuid().to_string());
        if entry.is_taken() { Err(SessionExists) } else { Ok(Self { entry, on_lost: None }) }
    }

    /// This load of the page.
    pub fn context_id(&self) -> ContextId {
        // Another copy of the package may have put anything there; an id of one's own is then as good.
        self.entry.context_id().parse().unwrap_or_else(|_| ContextId(random::uuid()))
    }

    /// The tab id: the one an earlier session of this context left, or one claimed by T1 and T2. With `resume` the id
    /// in `sessionStorage` is asked for; without it, or where its owner lives, a new one.
    pub async fn claim(&self, resume: bool) -> Held {
        if let Some(tab_id) = read(self.entry.tab_id()) {
            let weak = self.entry.weak();
            return Held { tab_id, last_epoch: self.entry.epoch() as u64, weak, remember: !weak };
        }
        let stored = if resume { read(self.entry.stored()) } else { None };
        let (mut claim, mut step) = Claim::new(stored, has_locks(), random::uuid());
        loop {
            match step {
                ClaimStep::TryLock(tab_id) => {
                    let answer = JsFuture::from(self.entry.try_lock(&tab_id.to_string())).await;
                    let is_granted = answer.is_ok_and(|granted| granted.is_truthy());
                    step = claim.lock_answered(is_granted, random::uuid());
                }
                ClaimStep::Take { tab_id, weak, remember } => {
                    self.entry.hold(&tab_id.to_string(), weak);
                    return Held { tab_id, last_epoch: 0, weak, remember };
                }
            }
        }
    }

    /// The id is held at this epoch; the next load may resume it.
    pub fn confirm(&self, held: Held, epoch: u64) {
        self.entry.confirm(epoch as f64, held.remember);
    }

    /// Counts one more content of a document in this context (§1): from 1 on.
    pub fn next_generation(&self, doc: &DocId) -> u64 {
        self.entry.next_generation(doc.as_str()) as u64
    }

    /// Calls `lost` when the lock is taken away (T1), or at once where that has happened already.
    pub fn on_lost(&mut self, lost: impl Fn() + 'static) {
        let lost = Closure::new(lost);
        self.entry.on_lost(&lost);
        self.on_lost = Some(lost);
    }

    /// The id is not to be used again, by this load or the next (T3, J4).
    pub fn forget(&self) {
        self.entry.forget();
    }

    /// Leaves the id and its lock to the next session of this context; one that was lost or forgotten is let go.
    pub fn leave(self) {
        self.entry.leave();
    }

    /// Lets go of an id whose epoch could not be raised: nobody may know it. The place stays taken.
    pub fn give_up(&mut self) {
        self.entry.give_up();
    }
}

fn read(id: Option<String>) -> Option<TabId> {
    id?.parse().ok()
}
