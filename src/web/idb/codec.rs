//! Keys, values and errors of the database.

use std::str::FromStr;

use js_sys::Array;
use patchkeep_core::ids::TabId;
use patchkeep_core::storage::{RecordKey, StorageFault};
use wasm_bindgen::JsValue;
use web_sys::IdbKeyRange;

use crate::globals::error_name;

/// The key of one record.
pub(super) fn record_key(tab_id: TabId, key: &RecordKey) -> JsValue {
    let patch_id = JsValue::from_str(&key.patch_id.to_string());
    Array::of3(&tab_key(tab_id), &patch_id, &JsValue::from_str(key.doc.as_str())).into()
}

/// The keys of all records of one tab: arrays sort after their own beginnings, and after every string.
pub(super) fn record_range(tab_id: TabId) -> Result<IdbKeyRange, JsValue> {
    let tab_id = tab_key(tab_id);
    IdbKeyRange::bound(&Array::of1(&tab_id), &Array::of2(&tab_id, &Array::new()))
}

/// The key of one tab.
pub(super) fn tab_key(tab_id: TabId) -> JsValue {
    JsValue::from_str(&tab_id.to_string())
}

/// A stored epoch; 0 where there is none.
pub(super) fn epoch(stored: &JsValue) -> u64 {
    stored.as_f64().unwrap_or(0.0) as u64
}

/// A stored id; `None` where there is none, or something else.
pub(super) fn id<T: FromStr>(stored: &JsValue) -> Option<T> {
    stored.as_string()?.parse().ok()
}

/// A record's text form as it is stored: its checksum before it.
pub(super) fn sealed(text: &str) -> JsValue {
    let mut out = checksum(text);
    out.push_str(text);
    JsValue::from_str(&out)
}

/// Stored texts. What is no text, or not the one that was written, stays in as an empty one: it must not pass for
/// absent (J11).
pub(super) fn texts(stored: JsValue) -> Vec<String> {
    Array::from(&stored).iter().map(|text| text.as_string().and_then(unsealed).unwrap_or_default()).collect()
}

fn unsealed(stored: String) -> Option<String> {
    // Records from before there were checksums are objects as they stand.
    if stored.starts_with('{') {
        return Some(stored);
    }
    let (sum, text) = stored.split_at_checked(CHECKSUM_CHARS)?;
    (sum == checksum(text)).then(|| text.to_owned())
}

/// FNV-1a of 64 bits, in hex: against damage, not against anybody.
fn checksum(text: &str) -> String {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let digit = |at: u32| char::from_digit((hash >> (4 * at)) as u32 & 0xf, 16);
    (0..CHECKSUM_CHARS as u32).rev().filter_map(digit).collect()
}

const CHECKSUM_CHARS: usize = 16;

/// Which fault an engine's error is, by the name of the `DOMException`. Names are all that engines agree on.
pub fn fault(error: &JsValue) -> StorageFault {
    match error_name(error).as_deref() {
        Some("QuotaExceededError") => StorageFault::Full,
        Some("VersionError") => StorageFault::Newer,
        Some("SecurityError" | "NotAllowedError" | "NotSupportedError") => StorageFault::Unavailable,
        Some("NotFoundError" | "NotReadableError") => StorageFault::Corrupt,
        Some("InvalidStateError" | "AbortError") => StorageFault::Closed,
        _ => StorageFault::Failed,
    }
}
