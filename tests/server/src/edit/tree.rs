//! An owned JSON tree that loses nothing: numbers stay literals, members keep their order.

use std::collections::HashMap;

use patchkeep_core::json::{MAX_DEPTH, Value, write_string};

/// One JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number's literal.
    Number(String),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Node>),
    /// An object. A key is data, `__proto__` like any other (B58).
    Object(Vec<(String, Node)>),
}

impl Node {
    /// The tree of a parsed text.
    pub fn from_value(value: &Value<'_>) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(b) => Self::Bool(*b),
            Value::Number(literal) => Self::Number((*literal).to_owned()),
            Value::String(text) => Self::String(text.as_ref().to_owned()),
            Value::Array(items) => Self::Array(items.iter().map(Self::from_value).collect()),
            Value::Object(members) => {
                Self::Object(members.iter().map(|m| (m.key.as_ref().to_owned(), Self::from_value(&m.value))).collect())
            }
        }
    }

    /// Its text, without white space.
    pub fn text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
            Self::Number(literal) => out.push_str(literal),
            Self::String(text) => write_string(out, text),
            Self::Array(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                for (i, (key, value)) in members.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    write_string(out, key);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }

    /// The containers inside each other, itself included.
    pub fn depth(&self) -> usize {
        match self {
            Self::Array(items) => 1 + items.iter().map(Self::depth).max().unwrap_or(0),
            Self::Object(members) => 1 + members.iter().map(|(_, v)| v.depth()).max().unwrap_or(0),
            _ => 0,
        }
    }

    /// About how many bytes its text has.
    pub fn size(&self) -> usize {
        match self {
            Self::Null | Self::Bool(_) => 5,
            Self::Number(text) => text.len(),
            Self::String(text) => text.len() + 2,
            Self::Array(items) => items.iter().map(|i| i.size() + 1).sum::<usize>() + 2,
            Self::Object(members) => members.iter().map(|(k, v)| k.len() + v.size() + 4).sum::<usize>() + 2,
        }
    }

    /// RFC 6902, 4.6: numbers are equal by value, objects without regard to order.
    pub fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => {
                a == b || matches!((a.parse::<f64>(), b.parse::<f64>()), (Ok(a), Ok(b)) if a == b)
            }
            (Self::Array(a), Self::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b)),
            (Self::Object(a), Self::Object(b)) => {
                let values: HashMap<&str, &Self> = b.iter().map(|(key, v)| (key.as_str(), v)).collect();
                a.len() == b.len()
                    && a.iter().all(|(key, v)| values.get(key.as_str()).is_some_and(|other| v.same(other)))
            }
            _ => self == other,
        }
    }

    /// Whether a text of it would still be read back (§11).
    pub fn is_readable(&self) -> bool {
        self.depth() <= MAX_DEPTH
    }
}

/// Where an object has a key.
pub fn find(members: &[(String, Node)], key: &str) -> Option<usize> {
    members.iter().position(|(k, _)| k == key)
}

/// Sets a key, in its place where it is there, else at the end.
pub fn set(members: &mut Vec<(String, Node)>, key: &str, value: Node) {
    match find(members, key) {
        Some(at) => members[at].1 = value,
        None => members.push((key.to_owned(), value)),
    }
}
