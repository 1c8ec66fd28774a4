//! Strict JSON (§11): a parser that loses nothing on the way to the digest, and a small writer.
//!
//! Number literals stay text, every member keeps the slice it was read from, and what has no canonical form is an
//! error with a kind instead of a silent repair. The usual crate would give a double for each number, drop duplicate
//! keys and tell lone surrogates from syntax errors only by the words of its message.

mod number;
mod parse;
mod value;
mod write;

pub use parse::{parse, parse_lenient};
pub(crate) use value::sorted;
pub use value::{Member, Value};
pub use write::{ObjectWriter, write_string};

use std::fmt;

/// The deepest nesting of containers that has a canonical form (§11).
pub const MAX_DEPTH: usize = 128;

/// The largest integer that a frame's number field may hold: 2⁵³ − 1, the last one that no double confuses.
pub const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// Why a text has no canonical form (§11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JsonErrorKind {
    /// Not JSON by RFC 8259.
    Syntax,
    /// A string or key holds half of a surrogate pair.
    LoneSurrogate,
    /// An object names a key twice.
    DuplicateKey,
    /// A number is too large for a double.
    NotFinite,
    /// An integer literal whose ECMAScript form is another literal.
    InexactInteger,
    /// More than [`MAX_DEPTH`] containers inside each other.
    TooDeep,
}

impl JsonErrorKind {
    /// The stable code, as the vectors spell it.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Syntax => "syntax",
            Self::LoneSurrogate => "lone_surrogate",
            Self::DuplicateKey => "duplicate_key",
            Self::NotFinite => "not_finite",
            Self::InexactInteger => "inexact_integer",
            Self::TooDeep => "too_deep",
        }
    }
}

/// A text that was refused, and the byte offset where the reason was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// Why.
    pub kind: JsonErrorKind,
    /// Where, in bytes from the start.
    pub at: usize,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.code())?;
        f.write_str(" at byte ")?;
        fmt::Display::fmt(&self.at, f)
    }
}

impl std::error::Error for JsonError {}
