//! One session, as JavaScript holds it. Errors are strings: a code of [`CallError`], and the argument's name behind it.

use std::rc::Rc;

use patchkeep_core::error::{CallError, refusal_reason};
use patchkeep_core::frame::Homed;
use patchkeep_core::ids::{DocId, Incarnation, PatchId};
use patchkeep_core::session::{
    Config, Event, HandlerOutcome, HandlerResult, Mark, OpenDocument, ReconcileOutcome, Session,
};
use patchkeep_core::storage::Durability;
use patchkeep_web::driver::Driver;
use patchkeep_web::open::{Options, open};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen_futures::future_to_promise;
use web_sys::{BinaryType, Headers};

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
    handler_timeout_ms: f64,
    binary_type: String,
) -> Result<EngineSession, JsValue> {
    let durability = match durability.as_str() {
        "memory" => Durability::Memory,
        "relaxed" => Durability::Relaxed,
        _ => Durability::Strict,
    };
    let binary_type = if binary_type == "arraybuffer" { BinaryType::Arraybuffer } else { BinaryType::Blob };
    let config = Config { handler_timeout_ms: handler_timeout_ms as u64 };
    let options = Options { principal, durability, config, binary_type };
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

    /// Opens a document; returns the incarnation.
    ///
    /// # Errors
    /// As [`Driver::open_document`].
    #[wasm_bindgen(js_name = openDocument)]
    pub fn open_document(
        &self,
        doc: &str,
        base_seq: f64,
        homed_at_server: bool,
        restored: bool,
        reconciles: bool,
        marks_in_document: bool,
    ) -> Result<String, JsValue> {
        let open = OpenDocument {
            doc: document(doc)?,
            homed: homed(homed_at_server),
            base_seq: base_seq as u64,
            reconciles,
            marks_in_document,
            restored,
            carried: Vec::new(),
        };
        self.0.open_document(open).map(|incarnation| incarnation.to_string()).map_err(thrown)
    }

    /// Replaces the content of an open document; returns the new incarnation.
    ///
    /// # Errors
    /// As [`Driver::replace_document`].
    #[wasm_bindgen(js_name = replaceContent)]
    #[allow(clippy::too_many_arguments, reason = "one call across the border is cheaper than an object")]
    pub fn replace_content(
        &self,
        doc: &str,
        base_seq: f64,
        homed_at_server: bool,
        restored: bool,
        reconciles: bool,
        marks_in_document: bool,
        carried: &str,
    ) -> Result<String, JsValue> {
        let open = OpenDocument {
            doc: document(doc)?,
            homed: homed(homed_at_server),
            base_seq: base_seq as u64,
            reconciles,
            marks_in_document,
            restored,
            carried: patch_ids(carried),
        };
        self.0.replace_document(open).map(|incarnation| incarnation.to_string()).map_err(thrown)
    }

    /// Closes a document.
    ///
    /// # Errors
    /// As [`Driver::close_document`].
    #[wasm_bindgen(js_name = closeDocument)]
    pub fn close_document(&self, doc: &str, incarnation: &str) -> Result<(), JsValue> {
        self.0.close_document(&document(doc)?, lineage(incarnation)?).map_err(thrown)
    }

    /// The stored version that an open document's content is based on.
    #[wasm_bindgen(js_name = baseSeq)]
    pub fn base_seq(&self, doc: &str) -> Option<f64> {
        let doc = DocId::new(doc)?;
        self.0.read(|session| session.base_seq(&doc)).map(|seq| seq as f64)
    }

    /// Takes a mark: its `base_seq`, its patch ids, `?`, and those in doubt, joined by spaces.
    ///
    /// # Errors
    /// As [`Session::mark`].
    pub fn mark(&self, doc: &str, incarnation: &str) -> Result<String, JsValue> {
        let (doc, incarnation) = (document(doc)?, lineage(incarnation)?);
        let mark = self.0.read(|session| session.mark(&doc, incarnation)).map_err(thrown)?;
        let mut out = mark.base_seq.to_string();
        push_ids(&mut out, &mark.patch_ids);
        out.push_str(IN_DOUBT);
        push_ids(&mut out, &mark.in_doubt);
        Ok(out)
    }

    /// A local store keeps what the mark names.
    ///
    /// # Errors
    /// As [`Driver::kept`].
    pub fn kept(&self, doc: &str, incarnation: &str, mark: &str) -> Result<(), JsValue> {
        self.0.kept(&read_mark(doc, incarnation, mark)?).map_err(thrown)
    }

    /// The host's own save of what the mark names was confirmed.
    ///
    /// # Errors
    /// As [`Driver::flushed`].
    pub fn flushed(&self, doc: &str, incarnation: &str, mark: &str, seq: f64) -> Result<(), JsValue> {
        self.0.flushed(&read_mark(doc, incarnation, mark)?, seq as u64).map_err(thrown)
    }

    /// Sends a save in this task; the promise gives its outcome.
    ///
    /// # Errors
    /// As [`Driver::save`].
    pub fn save(
        &self,
        doc: &str,
        incarnation: &str,
        mark: &str,
        text: &str,
        base_url: &str,
        headers: Headers,
    ) -> Result<js_sys::Promise, JsValue> {
        let mark = read_mark(doc, incarnation, mark)?;
        let outcome = self.0.save(mark, text, base_url, headers).map_err(thrown)?;
        Ok(future_to_promise(async move { Ok(text::save_outcome(&outcome.await).into()) }))
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

fn thrown(error: CallError) -> JsValue {
    let code = error.code();
    match error {
        CallError::InvalidArgument(argument) => JsValue::from_str(&[code, argument].join(" ")),
        _ => JsValue::from_str(code),
    }
}

fn document(id: &str) -> Result<DocId, JsValue> {
    DocId::new(id).ok_or(CallError::InvalidArgument("id")).map_err(thrown)
}

fn lineage(incarnation: &str) -> Result<Incarnation, JsValue> {
    incarnation.parse().map_err(|_| thrown(CallError::NotOpen))
}

const fn homed(at_server: bool) -> Homed {
    if at_server { Homed::Server } else { Homed::Elsewhere }
}

fn patch_ids(joined: &str) -> Vec<PatchId> {
    joined.split(' ').filter_map(|id| id.parse().ok()).collect()
}

fn push_ids(out: &mut String, ids: &[PatchId]) {
    for id in ids {
        out.push(' ');
        out.push_str(&id.to_string());
    }
}

fn read_mark(doc: &str, incarnation: &str, mark: &str) -> Result<Mark, JsValue> {
    let (certain, in_doubt) = mark.split_once(IN_DOUBT).unwrap_or((mark, ""));
    let (base_seq, ids) = certain.split_once(' ').unwrap_or((certain, ""));
    Ok(Mark {
        doc: document(doc)?,
        incarnation: lineage(incarnation)?,
        base_seq: base_seq.parse().map_err(|_| thrown(CallError::InvalidArgument("mark")))?,
        patch_ids: patch_ids(ids),
        in_doubt: patch_ids(in_doubt),
    })
}

/// Comes between the two lists of a mark.
const IN_DOUBT: &str = " ?";
