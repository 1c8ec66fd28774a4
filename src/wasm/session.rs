//! One session, as JavaScript holds it. Errors are strings: a code of [`CallError`], and the argument's name behind it.

use std::cell::Cell;
use std::rc::Rc;

use patchkeep_core::error::{CallError, refusal_reason};
use patchkeep_core::frame::Homed;
use patchkeep_core::ids::{DocId, PatchId};
use patchkeep_core::session::{Config, Event, HandlerOutcome, HandlerResult, OpenDocument, ReconcileOutcome, Session};
use patchkeep_core::storage::Durability;
use patchkeep_web::driver::Driver;
use patchkeep_web::open::{Options, open};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen_futures::future_to_promise;
use web_sys::BinaryType;

use crate::document::EngineDocument;
use crate::sink::Sink;
use crate::text;

/// `EngineSession` of `engine.ts`.
#[wasm_bindgen]
pub struct EngineSession(Rc<Driver>);

/// Opens a session.
///
/// # Errors
/// `session_exists`.
#[wasm_bindgen(js_name = openSession)]
pub async fn open_session(
    sink: Sink,
    principal: String,
    durability: String,
    storage_timeout_ms: f64,
    handler_timeout_ms: f64,
    binary_type: String,
) -> Result<EngineSession, JsValue> {
    let durability = match durability.as_str() {
        "memory" => Durability::Memory,
        "relaxed" => Durability::Relaxed,
        _ => Durability::Strict,
    };
    let binary_type = if binary_type == "arraybuffer" { BinaryType::Arraybuffer } else { BinaryType::Blob };
    let config = Config { handler_timeout_ms: handler_timeout_ms as u64, ..Config::default() };
    let storage_timeout_ms = storage_timeout_ms as u64;
    let options = Options { principal, durability, storage_timeout_ms, config, binary_type };
    let driver = open(options, Rc::new(sink)).await.map_err(|_| JsValue::from_str("session_exists"))?;
    Ok(EngineSession(driver))
}

#[wasm_bindgen]
impl EngineSession {
    /// Who it is, and how it stands.
    pub fn info(&self) -> String {
        self.0.read(text::info)
    }

    /// Every record.
    pub fn records(&self) -> String {
        text::records(&self.0.read(Session::records))
    }

    /// The database of this principal's journals.
    #[wasm_bindgen(js_name = databaseName)]
    pub fn database_name(&self) -> String {
        self.0.database_name()
    }

    /// The journal as lines of JSON, a header first.
    #[wasm_bindgen(js_name = exportJournal)]
    pub fn export_journal(&self) -> String {
        self.0.read(Session::export_journal)
    }

    /// Opens a document; `carried` are the patch ids that its content is known to hold, joined by spaces, where the host
    /// says so.
    ///
    /// # Errors
    /// As [`Driver::open_document`].
    #[wasm_bindgen(js_name = openDocument)]
    #[allow(clippy::too_many_arguments, reason = "one call across the border is cheaper than an object")]
    pub fn open_document(
        &self,
        doc: &str,
        base_seq: f64,
        homed_at_server: bool,
        restored: bool,
        reconciles: bool,
        marks_in_document: bool,
        carried: Option<String>,
    ) -> Result<EngineDocument, JsValue> {
        let doc = DocId::new(doc).ok_or(CallError::InvalidArgument("id")).map_err(thrown)?;
        let open = OpenDocument {
            doc: doc.clone(),
            homed: homed(homed_at_server),
            base_seq: base_seq as u64,
            reconciles,
            marks_in_document,
            restored,
            carried: carried.as_deref().map(ids),
        };
        let incarnation = Cell::new(self.0.open_document(open).map_err(thrown)?);
        Ok(EngineDocument { driver: Rc::clone(&self.0), doc, incarnation })
    }

    /// News of a handler: `HandlerAnswer` of `engine.ts`.
    #[wasm_bindgen(js_name = handlerAnswered)]
    pub fn handler_answered(&self, call: f64, answer: u8, text: Option<String>, detail: Option<String>) {
        let text = text.unwrap_or_default();
        let outcome = match answer {
            0 => HandlerOutcome::Pending,
            1 => HandlerOutcome::Applied(HandlerResult::None),
            2 => HandlerOutcome::Applied(HandlerResult::Json(text)),
            3 => HandlerOutcome::Applied(HandlerResult::Unsendable),
            4 => {
                let (reason, own_word) = refusal_reason(&text);
                HandlerOutcome::Refused { reason, detail: detail.or_else(|| own_word.map(Into::into)) }
            }
            _ => HandlerOutcome::Threw { detail: text },
        };
        self.0.deliver(Event::Handler { call: call as u64, outcome });
    }

    /// News of a reconcile hook: `ReconcileAnswerCode` of `engine.ts`.
    #[wasm_bindgen(js_name = reconcileAnswered)]
    pub fn reconcile_answered(&self, call: f64, answer: u8) {
        let outcome = match answer {
            0 => ReconcileOutcome::Pending,
            1 => ReconcileOutcome::Present,
            2 => ReconcileOutcome::Absent,
            _ => ReconcileOutcome::Unknown,
        };
        self.0.deliver(Event::Reconcile { call: call as u64, outcome });
    }

    /// Whether an asynchronous handler's effect is still wanted.
    #[wasm_bindgen(js_name = stillWanted)]
    pub fn still_wanted(&self, call: f64) -> bool {
        self.0.read(|session| session.still_wanted(call as u64))
    }

    /// Tries to connect at once.
    pub fn reconnect(&self) {
        self.0.deliver(Event::Reconnect);
    }

    /// Closes the session; the promise is fulfilled when what was to be written is written.
    pub fn close(&self) -> js_sys::Promise {
        let driver = Rc::clone(&self.0);
        future_to_promise(async move {
            driver.close().await;
            Ok(JsValue::UNDEFINED)
        })
    }
}

/// What a call of the host was refused with.
pub(crate) fn thrown(error: CallError) -> JsValue {
    let code = error.code();
    match error {
        CallError::InvalidArgument(argument) => JsValue::from_str(&[code, argument].join(" ")),
        _ => JsValue::from_str(code),
    }
}

/// Patch ids joined by spaces.
pub(crate) fn ids(joined: &str) -> Vec<PatchId> {
    joined.split(' ').filter_map(|id| id.parse().ok()).collect()
}

pub(crate) const fn homed(at_server: bool) -> Homed {
    if at_server { Homed::Server } else { Homed::Elsewhere }
}
