//! Opening the database, within a time: a pending deletion, another tab's connection or a stalled engine may hold it up
//! for ever, and some of them say nothing (J11).

use std::cell::Cell;
use std::rc::Rc;

use patchkeep_core::storage::StorageFault;
use wasm_bindgen::closure::Closure;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{Event, IdbDatabase, IdbFactory, IdbOpenDbRequest, IdbVersionChangeEvent};

use super::codec::fault;
use super::migrations;
use super::schema::{META, RECORDS, TABS, VERSION};
use crate::clock;
use crate::globals::global;
use crate::oneshot::oneshot;
use crate::timers::Timer;

/// Whether a database that is not there may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IfMissing {
    /// Make it.
    Create,
    /// It was there before: say that it is gone.
    Evicted,
}

/// How long somebody waits for storage, and what they are told meanwhile.
#[derive(Clone)]
pub struct Patience {
    /// How long it was at the beginning, in ms.
    pub(super) storage_timeout_ms: u64,
    until_ms: u64,
    on_blocked: Rc<dyn Fn()>,
}

impl Patience {
    /// From now on for `storage_timeout_ms`. `on_blocked` is called where the engine says that another connection holds
    /// the opening up.
    pub fn new(storage_timeout_ms: u64, on_blocked: Rc<dyn Fn()>) -> Self {
        Self { storage_timeout_ms, until_ms: clock::now().mono_ms + storage_timeout_ms, on_blocked }
    }

    /// Calls back when it ends, unless the timer is dropped before.
    pub fn timer(&self, over: impl Fn() + 'static) -> Timer {
        let timer = Timer::new(over);
        timer.set(Some(self.until_ms));
        timer
    }
}

/// A database that was opened.
pub(super) struct OpenDatabase {
    pub(super) database: IdbDatabase,
    /// It lacked stores, which are there now: what they may have held is gone (B61).
    pub(super) is_repaired: bool,
}

/// Opens the database, migrated to the newest version. One that opens after all, too late, is closed again.
pub(super) async fn open(name: &str, if_missing: IfMissing, patience: &Patience) -> Result<OpenDatabase, StorageFault> {
    let factory: IdbFactory = global("indexedDB").ok_or(StorageFault::Unavailable)?.unchecked_into();
    let request = factory.open_with_u32(name, VERSION).map_err(|thrown| fault(&thrown))?;
    let upgraded = Rc::new(Cell::new(Upgraded::default()));
    let upgrade = upgrade_callback(&request, if_missing, &upgraded);
    let (sender, receiver) = oneshot();
    let (late, on_blocked) = (sender.clone(), Rc::clone(&patience.on_blocked));
    let settled = Closure::<dyn FnMut(Event)>::new(move |_| sender.send(true));
    let blocked = Closure::<dyn FnMut(Event)>::new(move |_| on_blocked());
    let _timer = patience.timer(move || late.send(false));
    request.set_onupgradeneeded(Some(upgrade.as_ref().unchecked_ref()));
    request.set_onblocked(Some(blocked.as_ref().unchecked_ref()));
    request.set_onsuccess(Some(settled.as_ref().unchecked_ref()));
    request.set_onerror(Some(settled.as_ref().unchecked_ref()));
    if !receiver.await {
        leave_behind(request, upgrade);
        return Err(StorageFault::Blocked);
    }
    let Upgraded { was_missing, is_repaired } = upgraded.get();
    if was_missing {
        return Err(StorageFault::Evicted);
    }
    // The result of a request that failed is `undefined`, or throws, depending on the engine.
    match request.result() {
        Ok(database) if database.is_object() => with_shape(database.unchecked_into(), is_repaired),
        _ => Err(open_fault(&request)),
    }
}

/// Nobody waits any more: should it open after all, it is brought up to date and closed.
fn leave_behind(request: IdbOpenDbRequest, upgrade: Closure<dyn FnMut(IdbVersionChangeEvent)>) {
    upgrade.forget();
    request.set_onblocked(None);
    request.set_onerror(None);
    let opened = request.clone();
    let close = Closure::once_into_js(move |_: Event| {
        if let Ok(database) = opened.result() {
            database.unchecked_into::<IdbDatabase>().close();
        }
    });
    request.set_onsuccess(Some(close.unchecked_ref()));
}

/// The number says what should be there; what is there is looked at.
fn with_shape(database: IdbDatabase, is_repaired: bool) -> Result<OpenDatabase, StorageFault> {
    let stores = database.object_store_names();
    if [META, TABS, RECORDS].iter().all(|store| stores.contains(store)) {
        return Ok(OpenDatabase { database, is_repaired });
    }
    database.close();
    Err(StorageFault::Corrupt)
}

/// What an upgrade came to.
#[derive(Clone, Copy, Debug, Default)]
struct Upgraded {
    was_missing: bool,
    is_repaired: bool,
}

fn upgrade_callback(
    request: &IdbOpenDbRequest,
    if_missing: IfMissing,
    upgraded: &Rc<Cell<Upgraded>>,
) -> Closure<dyn FnMut(IdbVersionChangeEvent)> {
    let request = request.clone();
    let upgraded = Rc::clone(upgraded);
    Closure::new(move |event: IdbVersionChangeEvent| {
        let from = event.old_version() as u32;
        let was_missing = from == 0 && if_missing == IfMissing::Evicted;
        let Some(transaction) = request.transaction() else { return };
        let database = request.result().map(JsCast::unchecked_into::<IdbDatabase>);
        let done = database.and_then(|database| {
            if was_missing { Err(JsValue::NULL) } else { migrations::upgrade(&database, &transaction, from) }
        });
        upgraded.set(Upgraded { was_missing, is_repaired: done == Ok(true) });
        if done.is_err() {
            let _ = transaction.abort();
        }
    })
}

/// While the database is being opened an unknown error is one of its files.
fn open_fault(request: &IdbOpenDbRequest) -> StorageFault {
    let error = request.error().ok().flatten().map_or(JsValue::NULL, Into::into);
    match crate::globals::error_name(&error).as_deref() {
        Some("UnknownError") => StorageFault::Corrupt,
        Some("InvalidStateError") => StorageFault::Unavailable,
        _ => fault(&error),
    }
}
