//! The ladder: each step is frozen once it has shipped, only adds, and says why it exists.

use wasm_bindgen::JsValue;
use web_sys::IdbDatabase;

/// Brings a database from `from` (0: it is new) to the newest version.
///
/// # Errors
/// What the engine threw; the upgrade must be aborted then.
pub(super) fn upgrade(database: &IdbDatabase, from: u32) -> Result<(), JsValue> {
    if from < 1 {
        v1(database)?;
    }
    Ok(())
}

/// The beginning: identity, epochs and records. Keys are out of line, since values are text and numbers.
fn v1(database: &IdbDatabase) -> Result<(), JsValue> {
    for store in ["meta", "tabs", "records"] {
        database.create_object_store(store)?;
    }
    Ok(())
}
