//! The identifiers of §1: UUIDs with a type each, so that a tab id is never taken for a journal id.
//!
//! The core mints none of them: a fresh [`Uuid`] arrives with an input.

use std::fmt;
use std::str::FromStr;

/// A UUID as 128 bits, read in either case and written in lower case (RFC 9562 text form).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uuid(u128);

/// The text was not a UUID in its 36-character form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a UUID")]
pub struct NotAUuid;

const HYPHENS: [usize; 4] = [8, 13, 18, 23];
const TEXT_LEN: usize = 36;

impl Uuid {
    /// The UUID with these 128 bits, most significant first; version and variant are the caller's business.
    pub const fn from_u128(bits: u128) -> Self {
        Self(bits)
    }

    /// A version 4 UUID made of 128 random bits.
    pub const fn v4(random: u128) -> Self {
        let version = (random & !(0xf << 76)) | (4 << 76);
        Self((version & !(0x3 << 62)) | (0x2 << 62))
    }

    /// Its 128 bits.
    pub const fn as_u128(self) -> u128 {
        self.0
    }
}

impl FromStr for Uuid {
    type Err = NotAUuid;

    fn from_str(text: &str) -> Result<Self, NotAUuid> {
        if text.len() != TEXT_LEN {
            return Err(NotAUuid);
        }
        let mut bits = 0u128;
        for (i, byte) in text.bytes().enumerate() {
            if HYPHENS.contains(&i) {
                if byte != b'-' {
                    return Err(NotAUuid);
                }
                continue;
            }
            let digit = (byte as char).to_digit(16).ok_or(NotAUuid)?;
            bits = bits << 4 | u128::from(digit);
        }
        Ok(Self(bits))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [b'-'; TEXT_LEN];
        let mut shift = 128;
        for (i, slot) in text.iter_mut().enumerate() {
            if !HYPHENS.contains(&i) {
                shift -= 4;
                let digit = (self.0 >> shift) as u8 & 0xf;
                *slot = if digit < 10 { b'0' + digit } else { b'a' + digit - 10 };
            }
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

macro_rules! uuid_newtypes {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub Uuid);

        impl FromStr for $name {
            type Err = NotAUuid;
            fn from_str(text: &str) -> Result<Self, NotAUuid> {
                text.parse().map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    )*};
}

uuid_newtypes! {
    /// One plan of one edit, minted by the server and never used for another body.
    PatchId,
    /// A browsing context; survives reload, held by one live context at a time (T1).
    TabId,
    /// One load of the page.
    ContextId,
    /// One lineage of a document's content in memory.
    Incarnation,
    /// One journal database; another one means that the old journal is gone.
    JournalId,
    /// One life of the server process.
    BootId,
    /// One socket at the server.
    ConnId,
}

/// The longest document id, in bytes of UTF-8.
pub const MAX_DOC_ID_BYTES: usize = 512;
/// The longest principal, in bytes of UTF-8.
pub const MAX_PRINCIPAL_BYTES: usize = 256;

/// A document's id: 1 to [`MAX_DOC_ID_BYTES`] bytes, otherwise opaque.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DocId(Box<str>);

impl DocId {
    /// The id with this text, or `None` where it is empty or too long.
    pub fn new(text: &str) -> Option<Self> {
        (1..=MAX_DOC_ID_BYTES).contains(&text.len()).then(|| Self(text.into()))
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DocId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for DocId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuid_text_form_round_trips_in_lower_case() {
        let id: Uuid = "01890000-0000-7000-8000-00000000ABCD".parse().unwrap();
        assert_eq!(id.to_string(), "01890000-0000-7000-8000-00000000abcd");
        assert_eq!(id.to_string().parse::<Uuid>(), Ok(id));
    }

    #[test]
    fn other_texts_are_no_uuid() {
        for text in [
            "",
            "x",
            "0189000000007000800000000000abcd",
            "01890000-0000-7000-8000-00000000abcg",
            "01890000-0000-7000-8000-00000000abc-",
        ] {
            assert_eq!(text.parse::<Uuid>(), Err(NotAUuid), "{text}");
        }
    }

    #[test]
    fn v4_sets_version_and_variant_only() {
        assert_eq!(Uuid::v4(u128::MAX).to_string(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(Uuid::v4(0).to_string(), "00000000-0000-4000-8000-000000000000");
    }
}
