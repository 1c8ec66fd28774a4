//! Op keys (K1, K2): minted once per intent, reused on every attempt.

use std::fmt;

use crate::ids::Uuid;

/// The longest op key, in characters.
pub const MAX_KEY_CHARS: usize = 255;

/// An op key: 1 to [`MAX_KEY_CHARS`] visible ASCII characters.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpKey(Box<str>);

impl OpKey {
    /// The key with this text, or `None` where it has other characters or another length (K2).
    pub fn new(text: &str) -> Option<Self> {
        let fits = (1..=MAX_KEY_CHARS).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
        fits.then(|| Self(text.into()))
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The header's value: the key as it is, or an RFC 8941 string where the server announced `key_format: "sf"`.
    pub fn header_value(&self, structured: bool) -> String {
        if !structured {
            return self.0.to_string();
        }
        let mut out = String::with_capacity(self.0.len() + 2);
        out.push('"');
        for c in self.0.chars() {
            if matches!(c, '"' | '\\') {
                out.push('\\');
            }
            out.push(c);
        }
        out.push('"');
        out
    }
}

impl fmt::Display for OpKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for OpKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Mints version 7 UUIDs (RFC 9562 §6.2, method 1): in order even within one millisecond, and when the clock is set
/// back.
#[derive(Debug, Default)]
pub struct KeyMint {
    last_ms: u64,
    counter: u16,
}

/// The counter has the 12 bits of `rand_a`; it starts in its lower half, so that a burst has room to count.
const COUNTER_BITS: u32 = 12;

impl KeyMint {
    /// The next key. `random` is not used for anything else.
    pub fn mint(&mut self, wall_ms: u64, random: u128) -> OpKey {
        if wall_ms > self.last_ms {
            self.last_ms = wall_ms;
            self.counter = (random >> 100) as u16 & ((1 << (COUNTER_BITS - 1)) - 1);
        } else {
            self.counter += 1;
            if u32::from(self.counter) >> COUNTER_BITS != 0 {
                // The millisecond is full: the next one is borrowed.
                self.last_ms += 1;
                self.counter = 0;
            }
        }
        let time = u128::from(self.last_ms & ((1 << 48) - 1)) << 80;
        let rand_b = random & ((1 << 62) - 1);
        let bits = time | 0x7 << 76 | u128::from(self.counter) << 64 | 0b10 << 62 | rand_b;
        OpKey(Uuid::from_u128(bits).to_string().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k02_keys_with_other_characters_or_lengths_are_refused() {
        for text in ["", "a b", "abc\n", "café", "a\u{7f}", &"x".repeat(256)] {
            assert_eq!(OpKey::new(text), None, "{text:?}");
        }
        assert!(OpKey::new(&"~".repeat(255)).is_some());
    }

    #[test]
    fn k02_the_structured_form_escapes_quotes() {
        let key = OpKey::new("a\"b\\c").unwrap();
        assert_eq!(key.header_value(true), r#""a\"b\\c""#);
        assert_eq!(key.header_value(false), "a\"b\\c");
    }

    #[test]
    fn k01_keys_are_version_7_and_in_order() {
        let mut mint = KeyMint::default();
        let times = std::iter::repeat_n(1_796_126_400_000, 5_000).chain([1_796_126_300_000, 1_796_126_500_000]);
        let keys: Vec<_> = times.map(|ms| mint.mint(ms, u128::MAX / 3)).collect();
        assert!(keys.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(&keys[0].as_str()[..13], "01a23179-de00");
        assert!(
            keys.iter().all(|k| &k.as_str()[14..15] == "7" && matches!(&k.as_str()[19..20], "8" | "9" | "a" | "b"))
        );
    }
}
