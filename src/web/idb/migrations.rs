//! The ladder: each step is frozen once it has shipped, only adds, and says why it exists.

use wasm_bindgen::JsValue;
use web_sys::{IdbDatabase, IdbTransaction};

/// Brings a database from `from` (0: it is new) to the newest version. Returns whether it lacked what its number says.
///
/// # Errors
/// What the engine threw; the upgrade must be aborted then.
pub(super) fn upgrade(database: &IdbDatabase, transaction: &IdbTransaction, from: u32) -> Result<bool, JsValue> {
    if from < 1 {
        v1(database)?;
    }
    if from < 2 { v2(database, transaction) } else { Ok(false) }
}

/// The beginning: identity, epochs and records. Keys are out of line, since values are text and numbers.
fn v1(database: &IdbDatabase) -> Result<(), JsValue> {
    for store in ["meta", "tabs", "records"] {
        database.create_object_store(store)?;
    }
    Ok(())
}

/// Whoever opens a database by its name alone makes an empty one of version 1, which no load could use or mend (B61).
/// Stores that are missing are made; what they may have held is not known, so the journal begins under a new id.
fn v2(database: &IdbDatabase, transaction: &IdbTransaction) -> Result<bool, JsValue> {
    let stores = database.object_store_names();
    let missing: Vec<_> = ["meta", "tabs", "records"].into_iter().filter(|store| !stores.contains(store)).collect();
    for store in &missing {
        database.create_object_store(store)?;
    }
    if !missing.is_empty() {
        transaction.object_store("meta")?.delete(&JsValue::from_str("journal_id"))?;
    }
    Ok(!missing.is_empty())
}
