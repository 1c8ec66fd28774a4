//! SHA-256 over canonical JSON: the `digest` of a patch and the fingerprint of a keyed write (§1, §11).

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use crate::canonical;
use crate::ids::DocId;
use crate::json::{self, JsonError, MAX_DEPTH, Value};

/// A SHA-256, read and written as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

/// The text was not 64 lower-case hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a digest")]
pub struct NotADigest;

impl Digest {
    /// The SHA-256 of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(64);
        for byte in self.0 {
            for nibble in [byte >> 4, byte & 0xf] {
                text.push(char::from_digit(u32::from(nibble), 16).unwrap_or('0'));
            }
        }
        f.write_str(&text)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Self, NotADigest> {
        let bytes = text.as_bytes();
        let mut out = [0; 32];
        if bytes.len() != 2 * out.len() {
            return Err(NotADigest);
        }
        let nibble = |b: u8| match b {
            b'0'..=b'9' => Ok(b - b'0'),
            b'a'..=b'f' => Ok(b - b'a' + 10),
            _ => Err(NotADigest),
        };
        for (slot, pair) in out.iter_mut().zip(bytes.chunks_exact(2)) {
            let [high, low] = pair else { return Err(NotADigest) };
            *slot = nibble(*high)? << 4 | nibble(*low)?;
        }
        Ok(Self(out))
    }
}

/// The digest of a JSON text's canonical form.
///
/// # Errors
/// Input without a canonical form (§11).
pub fn of_json(text: &str) -> Result<Digest, JsonError> {
    canonical::canonicalize(text).map(|canonical| Digest::of(canonical.as_bytes()))
}

/// The digest of a patch: of `{"body":…,"doc":…}`.
///
/// # Errors
/// A body without a canonical form, or nested so deep that the object around it has none.
pub fn patch(doc: &DocId, body: &str) -> Result<Digest, JsonError> {
    patch_value(doc, &json::parse(body)?)
}

/// As [`patch`], for a body that is parsed already.
///
/// # Errors
/// A body nested so deep that the object around it has no canonical form.
pub fn patch_value(doc: &DocId, body: &Value<'_>) -> Result<Digest, JsonError> {
    wrapped(body, |out, body| {
        out.push_str("{\"body\":");
        out.push_str(body);
        out.push_str(",\"doc\":");
        json::write_string(out, doc.as_str());
    })
}

/// The fingerprint an op key is bound to: the digest of `{"body":…,"method":…,"path":…}`. A request without a body
/// has `null` there.
///
/// # Errors
/// A body without a canonical form, or nested so deep that the object around it has none.
pub fn fingerprint(method: &str, path: &str, body: &str) -> Result<Digest, JsonError> {
    wrapped(&json::parse(body)?, |out, body| {
        out.push_str("{\"body\":");
        out.push_str(body);
        out.push_str(",\"method\":");
        json::write_string(out, method);
        out.push_str(",\"path\":");
        json::write_string(out, path);
    })
}

fn wrapped(body: &Value<'_>, members: impl FnOnce(&mut String, &str)) -> Result<Digest, JsonError> {
    // The wrapper is one container more; the limit is on the whole.
    if depth(body) >= MAX_DEPTH {
        return Err(JsonError { kind: json::JsonErrorKind::TooDeep, at: 0 });
    }
    let mut inner = String::new();
    canonical::write(&mut inner, body);
    let mut out = String::with_capacity(inner.len() + 64);
    members(&mut out, &inner);
    out.push('}');
    Ok(Digest::of(out.as_bytes()))
}

fn depth(value: &Value<'_>) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.iter().map(|m| depth(&m.value)).max().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b03_digest_of_the_first_patch() {
        let doc = DocId::new("d1").unwrap();
        let digest = patch(&doc, r#"{"kind":"text.append","text":"X"}"#).unwrap();
        assert_eq!(digest.to_string(), "896978198279c532ebd2e4be3f7867194e6e8220ef53e6fdae46ff972f788727");
        assert_eq!(digest.to_string().parse(), Ok(digest));
    }

    #[test]
    fn b58_proto_is_data() {
        let doc = DocId::new("d1").unwrap();
        let digest = patch(&doc, r#"{"kind":"json.merge","value":{"__proto__":{"polluted":1},"a":1}}"#).unwrap();
        assert_eq!(digest.to_string(), "86b0f164ff6da3aeaf7fca0fcad14cabc4cc854a3cf129cd90c2c5e57423f793");
    }

    #[test]
    fn b43_the_wrapper_counts() {
        let doc = DocId::new("d1").unwrap();
        let nested = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert!(patch(&doc, &nested(127)).is_ok());
        assert!(patch(&doc, &nested(128)).is_err());
    }

    #[test]
    fn b30_digest_of_hard_numbers() {
        let doc = DocId::new("d1").unwrap();
        let body = r#"{"n":[1.5777777777770001,117.63331139400017,122.416294033786585,0.9215686321258545,1e21,295147905179352830000,0.000001,1e-7,9.999999999999997e22,999999999999999700000,-0.0000033333333333333333]}"#;
        assert_eq!(
            patch(&doc, body).unwrap().to_string(),
            "6b901ef56fd5243b719f2ca6ab812900bfc1408ddf259e2ac98b5ce14a06053d"
        );
    }
}
