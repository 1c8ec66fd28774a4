//! The global object, in a page or a worker, and what may or may not be on it.

use js_sys::Reflect;
use wasm_bindgen::JsValue;

/// A property of the global object; `None` where it is missing, `undefined`, `null`, or throws when it is read
/// (as `sessionStorage` and `indexedDB` do where storage is blocked).
pub fn global(name: &str) -> Option<JsValue> {
    property(&js_sys::global(), name)
}

/// A property of an object, by the same rule.
pub fn property(object: &JsValue, name: &str) -> Option<JsValue> {
    let value = Reflect::get(object, &JsValue::from_str(name)).ok()?;
    (!value.is_undefined() && !value.is_null()).then_some(value)
}

/// The `name` of a thrown value, as of a `DOMException`.
pub fn error_name(thrown: &JsValue) -> Option<String> {
    property(thrown, "name")?.as_string()
}

/// What a thrown value says, for a person.
pub fn error_message(thrown: &JsValue) -> String {
    property(thrown, "message").and_then(|m| m.as_string()).unwrap_or_default()
}
