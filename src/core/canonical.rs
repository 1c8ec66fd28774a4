//! RFC 8785 (JSON Canonicalization Scheme), with the refusals of §11.

use crate::json::{self, JsonError, Value};

/// The canonical form of a JSON text: keys sorted by UTF-16 code units, ECMAScript number form, no white space.
///
/// # Errors
/// Input that has no such form (§11): see [`json::JsonErrorKind`].
pub fn canonicalize(text: &str) -> Result<String, JsonError> {
    let value = json::parse(text)?;
    let mut out = String::with_capacity(text.len());
    write(&mut out, &value);
    Ok(out)
}

/// Appends the canonical form of a value that [`json::parse`] accepted.
pub fn write(out: &mut String, value: &Value<'_>) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(literal) => write_number(out, literal),
        Value::String(text) => json::write_string(out, text),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write(out, item);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (i, member) in json::sorted(members).into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                json::write_string(out, &member.key);
                out.push(':');
                write(out, &member.value);
            }
            out.push('}');
        }
    }
}

fn write_number(out: &mut String, literal: &str) {
    // The parser accepted the literal, so it is a finite number.
    let number: f64 = literal.parse().unwrap_or_default();
    out.push_str(ryu_js::Buffer::new().format_finite(number));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minus_zero_is_zero() {
        assert_eq!(canonicalize("[-0,-0.0,0e5]").as_deref(), Ok("[0,0,0]"));
    }

    #[test]
    fn b30_numbers_keep_their_last_bit() {
        let text = "[1.5777777777770001,122.416294033786585,295147905179352830000,-0.0000033333333333333333]";
        assert_eq!(
            canonicalize(text).as_deref(),
            Ok("[1.5777777777770001,122.41629403378658,295147905179352830000,-0.0000033333333333333333]")
        );
    }
}
