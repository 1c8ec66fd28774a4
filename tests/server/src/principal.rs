//! The authenticated user in a workspace, and the op keys that belong to one (§1).

use std::fmt;
use std::str::FromStr;

use patchkeep_core::ids::MAX_PRINCIPAL_BYTES;
use patchkeep_core::outbox::{self, MAX_KEY_CHARS};

/// The authenticated user in a workspace, written `workspace/user`. Keys, tabs and recipients belong to one (T6).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Principal {
    /// The workspace: the scope of documents.
    pub workspace: String,
    /// The user in it.
    pub user: String,
}

/// The text was not `workspace/user`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a principal is written workspace/user")]
pub struct NotAPrincipal;

impl FromStr for Principal {
    type Err = NotAPrincipal;

    fn from_str(text: &str) -> Result<Self, NotAPrincipal> {
        let (workspace, user) = text.split_once('/').ok_or(NotAPrincipal)?;
        if workspace.is_empty() || user.is_empty() || user.contains('/') || text.len() > MAX_PRINCIPAL_BYTES {
            return Err(NotAPrincipal);
        }
        Ok(Self { workspace: workspace.into(), user: user.into() })
    }
}

/// How a header names a principal: it holds visible ASCII alone, so that the rest, and `%` itself, is percent-encoded.
pub fn in_header(principal: &str) -> String {
    principal.bytes().fold(String::new(), |mut out, byte| {
        match byte {
            b'!'..=b'~' if byte != b'%' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
        out
    })
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.workspace, self.user)
    }
}

/// One write a caller sends: 1 to [`MAX_KEY_CHARS`] visible ASCII characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OpKey(String);

/// The text was not an op key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an op key is 1 to {MAX_KEY_CHARS} visible ASCII characters")]
pub struct NotAnOpKey;

impl OpKey {
    /// A key as it was stored: its text itself, in which quotes are characters like any other. Reading it as a header
    /// would unquote it a second time, into another key.
    pub fn from_stored(text: String) -> Option<Self> {
        outbox::OpKey::new(&text).map(|_| Self(text))
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for OpKey {
    type Err = NotAnOpKey;

    /// Reads both spellings of K2: raw, and as an RFC 8941 string. They name the same key.
    fn from_str(text: &str) -> Result<Self, NotAnOpKey> {
        let key = match text.strip_prefix('"').and_then(|t| t.strip_suffix('"')) {
            Some(quoted) => unescape(quoted).ok_or(NotAnOpKey)?,
            None => text.to_owned(),
        };
        Self::from_stored(key).ok_or(NotAnOpKey)
    }
}

/// The content of an RFC 8941 string: only `\"` and `\\` are escaped, and a bare quote ends the string.
fn unescape(quoted: &str) -> Option<String> {
    let mut out = String::with_capacity(quoted.len());
    let mut chars = quoted.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => return None,
            '\\' => match chars.next() {
                Some(escaped @ ('"' | '\\')) => out.push(escaped),
                _ => return None,
            },
            _ => out.push(c),
        }
    }
    Some(out)
}

impl fmt::Display for OpKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k02_raw_and_structured_spelling_are_one_key() {
        assert_eq!("a-b".parse::<OpKey>(), "\"a-b\"".parse());
        assert_eq!(r#""a\"b\\""#.parse::<OpKey>(), Ok(OpKey(r#"a"b\"#.into())));
        for bad in ["", "\"\"", "a b", "é", "\"a\"b\"", "\"a\\n\"", &"x".repeat(256)] {
            assert_eq!(bad.parse::<OpKey>(), Err(NotAnOpKey), "{bad}");
        }
        assert!("x".repeat(255).parse::<OpKey>().is_ok());
    }

    #[test]
    fn k02_a_stored_key_is_not_unquoted_again() {
        for header in [r#""\"x\"""#, r#""\"a\\b\"""#] {
            let key: OpKey = header.parse().unwrap();
            assert_eq!(OpKey::from_stored(key.to_string()), Some(key));
        }
    }

    #[test]
    fn a_principal_has_two_parts() {
        assert_eq!("ws/user".parse::<Principal>().map(|p| p.to_string()).as_deref(), Ok("ws/user"));
        for bad in ["", "ws", "/u", "ws/", "a/b/c"] {
            assert_eq!(bad.parse::<Principal>(), Err(NotAPrincipal), "{bad}");
        }
    }
}
