//! Who this tab is (T1–T3): `sessionStorage`, Web Locks, and what the sessions of one context share.
//!
//! All sessions of a context, and all copies of the package, share one registry on the global object. A session that
//! closes leaves its tab id and the lock on it there for the next one of the same principal, so that a framework which
//! mounts twice keeps its tab (T2).

use js_sys::{Function, Map, Object, Reflect, Symbol};
use patchkeep_core::ids::{ContextId, TabId};
use patchkeep_core::tab::{Claim, ClaimStep};
use wasm_bindgen::closure::Closure;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::Storage;

use crate::globals::global;
use crate::{locks, random};

#[wasm_bindgen]
extern "C" {
    /// The registry: `{contextId, tabs}`, the latter a `Map` from principal to [`Entry`].
    type Registry;
    #[wasm_bindgen(method, getter, js_name = contextId)]
    fn context_id(this: &Registry) -> String;
    #[wasm_bindgen(method, setter, js_name = contextId)]
    fn set_context_id(this: &Registry, id: &str);
    #[wasm_bindgen(method, getter)]
    fn tabs(this: &Registry) -> Map;
    #[wasm_bindgen(method, setter)]
    fn set_tabs(this: &Registry, tabs: &Map);

    /// One principal's tab: `{tabId, epoch, weak, inUse, lost, release, onLost}`.
    #[derive(Clone)]
    type Entry;
    #[wasm_bindgen(method, getter, js_name = tabId)]
    fn tab_id(this: &Entry) -> Option<String>;
    #[wasm_bindgen(method, setter, js_name = tabId)]
    fn set_tab_id(this: &Entry, id: &str);
    #[wasm_bindgen(method, getter)]
    fn epoch(this: &Entry) -> Option<f64>;
    #[wasm_bindgen(method, setter)]
    fn set_epoch(this: &Entry, epoch: f64);
    #[wasm_bindgen(method, getter)]
    fn weak(this: &Entry) -> bool;
    #[wasm_bindgen(method, setter)]
    fn set_weak(this: &Entry, weak: bool);
    #[wasm_bindgen(method, getter, js_name = inUse)]
    fn in_use(this: &Entry) -> bool;
    #[wasm_bindgen(method, setter, js_name = inUse)]
    fn set_in_use(this: &Entry, in_use: bool);
    #[wasm_bindgen(method, getter)]
    fn lost(this: &Entry) -> Option<bool>;
    #[wasm_bindgen(method, setter)]
    fn set_lost(this: &Entry, lost: bool);
    #[wasm_bindgen(method, getter)]
    fn release(this: &Entry) -> Option<Function>;
    #[wasm_bindgen(method, setter)]
    fn set_release(this: &Entry, release: Option<&Function>);
    #[wasm_bindgen(method, getter, js_name = onLost)]
    fn on_lost(this: &Entry) -> Option<Function>;
    #[wasm_bindgen(method, setter, js_name = onLost)]
    fn set_on_lost(this: &Entry, on_lost: &JsValue);
}

/// This context has an open session of that principal already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionExists;

/// A principal's place in the registry, taken by one session at a time.
pub struct Place {
    principal: String,
    context_id: ContextId,
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
        let registry = registry();
        let tabs = registry.tabs();
        let key = JsValue::from_str(principal);
        let found = tabs.get(&key);
        let parked = (!found.is_undefined()).then(|| found.unchecked_into::<Entry>());
        if parked.as_ref().is_some_and(Entry::in_use) {
            return Err(SessionExists);
        }
        let entry = parked.filter(|entry| entry.lost() != Some(true)).unwrap_or_else(|| {
            let entry: Entry = Object::new().unchecked_into();
            tabs.set(&key, &entry);
            entry
        });
        entry.set_in_use(true);
        let context_id = registry.context_id().parse().unwrap_or_else(|_| ContextId(random::uuid()));
        Ok(Self { principal: principal.to_owned(), context_id, entry, on_lost: None })
    }

    /// This load of the page.
    pub const fn context_id(&self) -> ContextId {
        self.context_id
    }

    /// The tab id: the one an earlier session of this context left, or one claimed by T1 and T2. With `resume` the id
    /// in `sessionStorage` is asked for; without it, or where its owner lives, a new one.
    pub async fn claim(&self, resume: bool) -> Held {
        if let Some(tab_id) = self.entry.tab_id().and_then(|id| id.parse().ok()) {
            let last_epoch = self.entry.epoch().unwrap_or(0.0) as u64;
            return Held { tab_id, last_epoch, weak: self.entry.weak(), remember: !self.entry.weak() };
        }
        let stored = if resume { self.stored() } else { None };
        let (mut claim, mut step) = Claim::new(stored, locks::are_available(), random::uuid());
        loop {
            match step {
                ClaimStep::TryLock(tab_id) => {
                    let entry = self.entry.clone();
                    let release = locks::try_lock(&lock_name(tab_id), move || lost(&entry)).await;
                    let is_granted = release.is_some();
                    self.entry.set_release(release.as_ref());
                    step = claim.lock_answered(is_granted, random::uuid());
                }
                ClaimStep::Take { tab_id, weak, remember } => {
                    self.entry.set_tab_id(&tab_id.to_string());
                    self.entry.set_weak(weak);
                    return Held { tab_id, last_epoch: 0, weak, remember };
                }
            }
        }
    }

    /// The id is held at this epoch; the next load may resume it.
    pub fn confirm(&self, held: Held, epoch: u64) {
        self.entry.set_epoch(epoch as f64);
        if held.remember
            && let Some(storage) = session_storage()
        {
            // A full or forbidden store only means that the next load gets another id.
            let _ = storage.set_item(&self.storage_key(), &held.tab_id.to_string());
        }
    }

    /// Calls `lost` when the lock is taken away (T1).
    pub fn on_lost(&mut self, lost: impl Fn() + 'static) {
        let closure = Closure::<dyn FnMut()>::new(lost);
        self.entry.set_on_lost(closure.as_ref());
        self.on_lost = Some(closure);
        if self.entry.lost() == Some(true)
            && let Some(on_lost) = self.entry.on_lost()
        {
            let _ = on_lost.call0(&JsValue::UNDEFINED);
        }
    }

    /// The id is not to be used again, by this load or the next (T3, J4).
    pub fn forget(&self) {
        self.entry.set_lost(true);
        if self.stored().map(|id| id.to_string()) == self.entry.tab_id()
            && let Some(storage) = session_storage()
        {
            let _ = storage.remove_item(&self.storage_key());
        }
    }

    /// Leaves the id and its lock to the next session of this context; one that was lost or forgotten is let go.
    pub fn leave(mut self) {
        self.entry.set_on_lost(&JsValue::UNDEFINED);
        self.on_lost = None;
        self.entry.set_in_use(false);
        if self.entry.lost() == Some(true) || self.entry.tab_id().is_none() {
            if let Some(release) = self.entry.release() {
                let _ = release.call0(&JsValue::UNDEFINED);
            }
            registry().tabs().delete(&JsValue::from_str(&self.principal));
        }
    }

    /// Lets go of an id whose epoch could not be raised: nobody may know it. The place stays taken.
    pub fn give_up(&mut self) {
        if let Some(release) = self.entry.release() {
            let _ = release.call0(&JsValue::UNDEFINED);
        }
        self.entry = Object::new().unchecked_into();
        self.entry.set_in_use(true);
        registry().tabs().set(&JsValue::from_str(&self.principal), &self.entry);
    }

    fn stored(&self) -> Option<TabId> {
        session_storage()?.get_item(&self.storage_key()).ok()??.parse().ok()
    }

    fn storage_key(&self) -> String {
        STORAGE_PREFIX.to_owned() + &self.principal
    }
}

fn lost(entry: &Entry) {
    entry.set_lost(true);
    if let Some(on_lost) = entry.on_lost() {
        let _ = on_lost.call0(&JsValue::UNDEFINED);
    }
}

fn registry() -> Registry {
    let key: JsValue = Symbol::for_(REGISTRY).into();
    let global = js_sys::global();
    let found = Reflect::get(&global, &key).unwrap_or(JsValue::UNDEFINED);
    if found.is_object() {
        return found.unchecked_into();
    }
    let registry: Registry = Object::new().unchecked_into();
    registry.set_context_id(&random::uuid().to_string());
    registry.set_tabs(&Map::new());
    // On a global object that takes no more properties every session is for itself.
    let _ = Reflect::set(&global, &key, &registry);
    registry
}

/// `None` in workers, and where reading it throws.
fn session_storage() -> Option<Storage> {
    global("sessionStorage").map(JsCast::unchecked_into)
}

fn lock_name(tab_id: TabId) -> String {
    "patchkeep:tab:".to_owned() + &tab_id.to_string()
}

/// The shape of what is stored there is part of its name: another shape gets another number.
const REGISTRY: &str = "patchkeep.identity.v1";
const STORAGE_PREFIX: &str = "patchkeep:tab:";
