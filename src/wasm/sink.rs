//! What the run loop asks of JavaScript. The functions there throw nothing; what they throw nevertheless is dropped
//! here, since an exception that unwinds through this module would leave the run loop half done.

use js_sys::Promise;
use patchkeep_core::ids::DocId;
use patchkeep_core::session::{HandlerCall, Notice, ReconcileCall};
use patchkeep_web::host::Host;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::text;

#[wasm_bindgen]
extern "C" {
    /// `Sink` of `engine.ts`.
    pub type Sink;

    #[wasm_bindgen(method, catch)]
    #[allow(clippy::too_many_arguments, reason = "one call across the border is cheaper than an object")]
    fn apply(
        this: &Sink,
        call: f64,
        patch_id: &str,
        doc: &str,
        incarnation: &str,
        delivery: f64,
        body: &str,
        expires_at: f64,
        guarded: bool,
        base_seq: Option<f64>,
    ) -> Result<(), JsValue>;

    #[wasm_bindgen(method, catch, js_name = unconfirmedEdits)]
    fn unconfirmed_edits(this: &Sink, doc: &str) -> Result<bool, JsValue>;

    #[wasm_bindgen(method, catch)]
    fn reconcile(this: &Sink, call: f64, incarnation: &str, record: &str) -> Result<(), JsValue>;

    #[wasm_bindgen(method, catch)]
    fn notice(this: &Sink, kind: &str, json: &str) -> Result<(), JsValue>;

    #[wasm_bindgen(method, catch, js_name = storageBlocked)]
    fn storage_blocked(this: &Sink) -> Result<(), JsValue>;

    #[wasm_bindgen(method, catch)]
    fn binary(this: &Sink, data: &JsValue) -> Result<(), JsValue>;

    #[wasm_bindgen(method, catch)]
    fn url(this: &Sink) -> Result<Promise, JsValue>;
}

impl Host for Sink {
    fn url(&self) -> Result<Promise, JsValue> {
        Self::url(self)
    }

    fn apply(&self, call: &HandlerCall) {
        let patch_id = call.patch_id.to_string();
        let incarnation = call.incarnation.to_string();
        let _ = Self::apply(
            self,
            call.call as f64,
            &patch_id,
            call.doc.as_str(),
            &incarnation,
            call.delivery as f64,
            &call.body,
            call.expires_at as f64,
            call.guarded,
            call.base_seq.map(|seq| seq as f64),
        );
    }

    fn unconfirmed_edits(&self, doc: &DocId) -> bool {
        Self::unconfirmed_edits(self, doc.as_str()).unwrap_or(true)
    }

    fn reconcile(&self, call: &ReconcileCall) {
        let incarnation = call.incarnation.to_string();
        let _ = Self::reconcile(self, call.call as f64, &incarnation, &text::record(&call.record));
    }

    fn notice(&self, notice: &Notice) {
        let (kind, json) = text::notice(notice);
        let _ = Self::notice(self, kind, &json);
    }

    fn storage_blocked(&self) {
        let _ = Self::storage_blocked(self);
    }

    fn binary(&self, data: &JsValue) {
        let _ = Self::binary(self, data);
    }
}
