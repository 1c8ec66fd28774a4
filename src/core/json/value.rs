//! A parsed JSON text that borrows from its source.

use std::borrow::Cow;

use super::MAX_SAFE_INTEGER;

/// One JSON value. Numbers are their literals; members are in source order.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number's literal, as written.
    Number(&'a str),
    /// A string, unescaped.
    String(Cow<'a, str>),
    /// An array.
    Array(Vec<Value<'a>>),
    /// An object.
    Object(Vec<Member<'a>>),
}

/// One member of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Member<'a> {
    /// The key, unescaped.
    pub key: Cow<'a, str>,
    /// The value.
    pub value: Value<'a>,
    /// The value's own text, without the white space around it.
    pub raw: &'a str,
}

impl<'a> Value<'a> {
    /// The member with this key, where the value is an object that has one.
    pub fn member(&self, key: &str) -> Option<&Member<'a>> {
        match self {
            Self::Object(members) => members.iter().find(|m| m.key == key),
            _ => None,
        }
    }

    /// The value of the member with this key.
    pub fn field(&self, key: &str) -> Option<&Value<'a>> {
        self.member(key).map(|m| &m.value)
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The items of an array.
    pub fn as_array(&self) -> Option<&[Value<'a>]> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }

    /// A boolean.
    pub const fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// A whole number from 0 to 2⁵³ − 1, however it is spelled; never rounded to one.
    pub fn as_integer(&self) -> Option<u64> {
        let Self::Number(literal) = self else { return None };
        if let Ok(n) = literal.parse::<u64>() {
            return (n <= MAX_SAFE_INTEGER).then_some(n);
        }
        let n: f64 = literal.parse().ok()?;
        let safe = n >= 0.0 && n <= MAX_SAFE_INTEGER as f64 && n.fract() == 0.0;
        safe.then_some(n as u64)
    }

    /// Whether this is `null`.
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }
}

/// Members in the order of their keys' UTF-16 code units.
pub(crate) fn sorted<'m, 'a>(members: &'m [Member<'a>]) -> Vec<&'m Member<'a>> {
    let mut sorted: Vec<_> = members.iter().collect();
    // Equal keys are refused, so that a stable order would mean nothing.
    sorted.sort_unstable_by(|a, b| a.key.encode_utf16().cmp(b.key.encode_utf16()));
    sorted
}
