//! What the run loop asks of the program it runs in.

use patchkeep_core::ids::DocId;
use patchkeep_core::session::{HandlerCall, Notice, ReconcileCall};
use wasm_bindgen::JsValue;

/// The program that embeds a session. All of these are called while no borrow is held: each may call back into the
/// driver, at once or later.
pub trait Host {
    /// The address of the next connection, or a promise of it. An error counts as a failed attempt.
    fn url(&self) -> Result<js_sys::Promise, JsValue>;
    /// Calls a document's handler; its answer comes as an event of the driver.
    fn apply(&self, call: &HandlerCall);
    /// Whether a document has edits that the server has not confirmed; `true` where nobody can tell.
    fn unconfirmed_edits(&self, doc: &DocId) -> bool;
    /// Calls a document's reconcile hook; its answer comes as an event of the driver.
    fn reconcile(&self, call: &ReconcileCall);
    /// Tells of something.
    fn notice(&self, notice: &Notice);
    /// Another connection holds the opening of the storage up; it is waited for a while yet.
    fn storage_blocked(&self);
    /// Hands over a binary frame as it came.
    fn binary(&self, data: &JsValue);
}
