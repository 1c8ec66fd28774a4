//! The edits of §10 on a stored text: the text edits of the core, and JSON edits of documents that hold JSON.

mod json_edit;
mod tree;

use patchkeep_core::edit;
use patchkeep_core::frame::Reason;
use patchkeep_core::json::Value;

const TEXT_KINDS: [&str; 6] = ["text.replace", "text.insert", "text.append", "text.prepend", "text.splice", "text.set"];

/// The text after an edit.
///
/// # Errors
/// The refusal of §10; `too_large` where the result is over `max_bytes`.
pub fn apply(text: &str, body: &Value<'_>, max_bytes: usize) -> Result<String, Reason> {
    let after = match kind(body)? {
        "json.patch" => json_edit::patch(text, body.field("ops").ok_or(Reason::Malformed)?, max_bytes)?,
        "json.merge" => json_edit::merge(text, body.field("value").ok_or(Reason::Malformed)?)?,
        _ => edit::apply(text, body)?,
    };
    if after.len() > max_bytes { Err(Reason::TooLarge) } else { Ok(after) }
}

/// Whether the body is of a kind that §10 names.
///
/// # Errors
/// `malformed` where it is not.
pub fn check_kind(body: &Value<'_>) -> Result<(), Reason> {
    kind(body).map(|_| ())
}

fn kind<'b>(body: &'b Value<'_>) -> Result<&'b str, Reason> {
    let kind = body.field("kind").and_then(Value::as_str).ok_or(Reason::Malformed)?;
    let known = TEXT_KINDS.contains(&kind) || kind == "json.patch" || kind == "json.merge";
    if known { Ok(kind) } else { Err(Reason::Malformed) }
}
