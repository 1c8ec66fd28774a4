//! Saves: one request, its whole answer, nothing kept.

use js_sys::{Promise, Uint8Array, encode_uri_component};
use patchkeep_core::ids::DocId;
use patchkeep_core::session::SaveAnswer;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{Headers, ReadableStreamDefaultReader, RequestInit, RequestRedirect, Response};

use crate::globals::{error_message, property};

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_name = fetch)]
    fn global_fetch(url: &str, init: &RequestInit) -> Promise;

    #[wasm_bindgen(js_namespace = AbortSignal, js_name = timeout, catch)]
    fn timeout_signal(ms: f64) -> Result<web_sys::AbortSignal, JsValue>;
}

/// The address of a document below `base_url`. `None` where there is none: `.` and `..` as parts of an id would be
/// taken for steps through the tree, however they are written.
pub fn document_url(base_url: &str, doc: &DocId) -> Option<String> {
    let mut url = base_url.trim_end_matches('/').to_owned();
    url.push_str("/docs");
    for part in doc.as_str().split('/') {
        if part == "." || part == ".." {
            return None;
        }
        url.push('/');
        url.push_str(&String::from(encode_uri_component(part)));
    }
    Some(url)
}

/// Sends a save. Redirects are not followed; the answer is read to its end, or given up.
pub async fn put(url: &str, principal: &str, headers: &Headers, body: &str) -> SaveAnswer {
    match send(url, principal, headers, body).await {
        Ok(answer) => answer,
        Err(thrown) => SaveAnswer::Failed { detail: error_message(&thrown) },
    }
}

async fn send(url: &str, principal: &str, headers: &Headers, body: &str) -> Result<SaveAnswer, JsValue> {
    headers.set("Content-Type", "application/json")?;
    // T6. A header holds no other characters; the server still knows the credentials.
    if principal.bytes().all(|b| b.is_ascii_graphic()) {
        headers.set("Patchkeep-Principal", principal)?;
    }
    let init = RequestInit::new();
    init.set_method("PUT");
    init.set_headers(headers);
    init.set_body(&JsValue::from_str(body));
    init.set_redirect(RequestRedirect::Manual);
    // Engines without it have only their own patience.
    if let Ok(signal) = timeout_signal(TIMEOUT_MS) {
        init.set_signal(Some(&signal));
    }
    let response: Response = JsFuture::from(global_fetch(url, &init)).await?.unchecked_into();
    if response.status() == 0 {
        // What `redirect: "manual"` makes of a redirect: no status, no body.
        return Ok(SaveAnswer::Answered { status: REDIRECTED, body: String::new() });
    }
    let body = read_bounded(&response).await?;
    Ok(SaveAnswer::Answered { status: response.status(), body })
}

/// The body's first 64 KiB (K12): more than any answer of the protocol.
async fn read_bounded(response: &Response) -> Result<String, JsValue> {
    let Some(stream) = response.body() else { return Ok(String::new()) };
    let reader: ReadableStreamDefaultReader = stream.get_reader().unchecked_into();
    let mut bytes = Vec::new();
    loop {
        let chunk = JsFuture::from(reader.read()).await?;
        let Some(value) = property(&chunk, "value") else { break };
        bytes.extend(value.unchecked_into::<Uint8Array>().to_vec());
        if bytes.len() > MAX_BODY_BYTES {
            bytes.truncate(MAX_BODY_BYTES);
            // Nobody waits for what becomes of it.
            let _ = reader.cancel();
            break;
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// An answer that takes longer is counted as lost.
const TIMEOUT_MS: f64 = 60_000.0;
const MAX_BODY_BYTES: usize = 64 * 1024;
/// Stands for any 3xx.
const REDIRECTED: u16 = 302;
