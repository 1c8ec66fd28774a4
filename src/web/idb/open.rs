//! Opening the database.

use std::cell::Cell;
use std::rc::Rc;

use patchkeep_core::storage::StorageFault;
use wasm_bindgen::closure::Closure;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{Event, IdbDatabase, IdbFactory, IdbOpenDbRequest, IdbVersionChangeEvent};

use super::codec::fault;
use super::migrations;
use super::schema::VERSION;
use crate::globals::global;
use crate::oneshot::oneshot;

/// Whether a database that is not there may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IfMissing {
    /// Make it.
    Create,
    /// It was there before: say that it is gone.
    Evicted,
}

/// Opens the database, migrated to the newest version.
pub(super) async fn open(name: &str, if_missing: IfMissing) -> Result<IdbDatabase, StorageFault> {
    let factory: IdbFactory = global("indexedDB").ok_or(StorageFault::Unavailable)?.unchecked_into();
    let request = factory.open_with_u32(name, VERSION).map_err(|thrown| fault(&thrown))?;
    let was_missing = Rc::new(Cell::new(false));
    let upgrade = upgrade_callback(&request, if_missing, &was_missing);
    let (sender, receiver) = oneshot();
    let settled = Closure::<dyn FnMut(Event)>::new(move |_| sender.send(()));
    request.set_onupgradeneeded(Some(upgrade.as_ref().unchecked_ref()));
    request.set_onsuccess(Some(settled.as_ref().unchecked_ref()));
    request.set_onerror(Some(settled.as_ref().unchecked_ref()));
    receiver.await;
    if was_missing.get() {
        return Err(StorageFault::Evicted);
    }
    // The result of a request that failed is `undefined`, or throws, depending on the engine.
    match request.result() {
        Ok(database) if database.is_object() => Ok(database.unchecked_into()),
        _ => Err(open_fault(&request)),
    }
}

fn upgrade_callback(
    request: &IdbOpenDbRequest,
    if_missing: IfMissing,
    was_missing: &Rc<Cell<bool>>,
) -> Closure<dyn FnMut(IdbVersionChangeEvent)> {
    let request = request.clone();
    let was_missing = Rc::clone(was_missing);
    Closure::new(move |event: IdbVersionChangeEvent| {
        let from = event.old_version() as u32;
        let is_unwanted = from == 0 && if_missing == IfMissing::Evicted;
        was_missing.set(is_unwanted);
        let database = request.result().map(JsCast::unchecked_into::<IdbDatabase>);
        let is_upgraded = !is_unwanted && database.and_then(|database| migrations::upgrade(&database, from)).is_ok();
        if !is_upgraded && let Some(transaction) = request.transaction() {
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
