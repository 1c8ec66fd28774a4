//! Saves: one request, its whole answer, nothing kept. The request itself is made in `fetch.js`.

use js_sys::{JsString, Promise, encode_uri_component};
use patchkeep_core::ids::DocId;
use patchkeep_core::session::SaveAnswer;
use wasm_bindgen::JsCast;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen_futures::JsFuture;
use web_sys::Headers;

#[wasm_bindgen(module = "/fetch.js")]
extern "C" {
    #[wasm_bindgen(js_name = put)]
    fn send(url: &str, principal: &str, headers: &Headers, body: &str) -> Promise;
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
    let answer = JsFuture::from(send(url, principal, headers, body)).await;
    let answer = answer.ok().and_then(|answer| answer.dyn_into::<JsString>().ok()).map(String::from);
    let answer = answer.unwrap_or_default();
    let (status, rest) = answer.split_once(' ').unwrap_or(("", &answer));
    match (status.parse(), rest.split_once('\n')) {
        (Ok(status), Some((kind, body))) => {
            let content_type = (!kind.is_empty()).then(|| kind.to_owned());
            SaveAnswer::Answered { status, content_type, body: body.to_owned() }
        }
        _ => SaveAnswer::Failed { detail: rest.to_owned() },
    }
}
