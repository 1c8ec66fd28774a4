//! One open document, and marks of it, as JavaScript holds them.

use std::cell::Cell;
use std::rc::Rc;

use patchkeep_core::ids::{DocId, Incarnation, PatchId};
use patchkeep_core::session::{Mark, OpenDocument};
use patchkeep_web::driver::Driver;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen_futures::future_to_promise;
use web_sys::Headers;

use crate::session::{homed, ids, thrown};
use crate::text;

/// `EngineDocument` of `engine.ts`: a document and the lineage of its content.
#[wasm_bindgen]
pub struct EngineDocument {
    pub(crate) driver: Rc<Driver>,
    pub(crate) doc: DocId,
    pub(crate) incarnation: Cell<Incarnation>,
}

/// `EngineMark` of `engine.ts`.
#[wasm_bindgen]
pub struct EngineMark(Mark);

#[wasm_bindgen]
impl EngineDocument {
    /// The lineage of its content.
    pub fn incarnation(&self) -> String {
        self.incarnation.get().to_string()
    }

    /// The stored version that its content is based on.
    #[wasm_bindgen(js_name = baseSeq)]
    pub fn base_seq(&self) -> Option<f64> {
        self.driver.read(|session| session.base_seq(&self.doc)).map(|seq| seq as f64)
    }

    /// Whether a word of an earlier draft is still being taken back, durably.
    #[wasm_bindgen(js_name = isTakingBack)]
    pub fn is_taking_back(&self) -> bool {
        self.driver.read(|session| session.is_taking_back(&self.doc))
    }

    /// Replaces its content; `carried` are patch ids joined by spaces, where the host says what it carries.
    ///
    /// # Errors
    /// As [`Driver::replace_document`].
    #[wasm_bindgen(js_name = replaceContent)]
    pub fn replace_content(
        &self,
        base_seq: f64,
        homed_at_server: bool,
        restored: bool,
        reconciles: bool,
        marks_in_document: bool,
        carried: Option<String>,
    ) -> Result<(), JsValue> {
        let open = OpenDocument {
            doc: self.doc.clone(),
            homed: homed(homed_at_server),
            base_seq: base_seq as u64,
            reconciles,
            marks_in_document,
            restored,
            carried: carried.as_deref().map(ids),
        };
        self.incarnation.set(self.driver.replace_document(open).map_err(thrown)?);
        Ok(())
    }

    /// Closes it.
    ///
    /// # Errors
    /// As [`Driver::close_document`].
    pub fn close(&self) -> Result<(), JsValue> {
        self.driver.close_document(&self.doc, self.incarnation.get()).map_err(thrown)
    }

    /// Takes a mark.
    ///
    /// # Errors
    /// As [`Driver::mark`].
    pub fn mark(&self) -> Result<EngineMark, JsValue> {
        self.driver.mark(&self.doc, self.incarnation.get()).map(EngineMark).map_err(thrown)
    }

    /// A local store keeps what the mark names.
    ///
    /// # Errors
    /// As [`Driver::kept`].
    pub fn kept(&self, mark: &EngineMark) -> Result<(), JsValue> {
        self.driver.kept(&mark.0).map_err(thrown)
    }

    /// The host's own save of what the mark names was confirmed.
    ///
    /// # Errors
    /// As [`Driver::flushed`].
    pub fn flushed(&self, mark: &EngineMark, seq: f64) -> Result<(), JsValue> {
        self.driver.flushed(&mark.0, seq as u64).map_err(thrown)
    }

    /// Sends a save in this task; the promise gives its outcome.
    ///
    /// # Errors
    /// As [`Driver::save`].
    pub fn save(
        &self,
        mark: &EngineMark,
        text: &str,
        base_url: &str,
        headers: Headers,
    ) -> Result<js_sys::Promise, JsValue> {
        let outcome = self.driver.save(mark.0.clone(), text, base_url, headers).map_err(thrown)?;
        Ok(future_to_promise(async move { Ok(text::save_outcome(&outcome.await).into()) }))
    }
}

#[wasm_bindgen]
impl EngineMark {
    /// Its `base_seq`, its generation, its patch ids, `?`, and those in doubt, joined by spaces.
    pub fn text(&self) -> String {
        let mut out = self.0.base_seq.to_string() + " " + &self.0.generation.to_string();
        push_ids(&mut out, &self.0.patch_ids);
        out.push_str(" ?");
        push_ids(&mut out, &self.0.in_doubt);
        out
    }
}

fn push_ids(out: &mut String, ids: &[PatchId]) {
    for id in ids {
        out.push(' ');
        out.push_str(&id.to_string());
    }
}
