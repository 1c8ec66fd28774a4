//! The parser: RFC 8259 text to [`Value`], with the refusals of §11.

use std::borrow::Cow;

use super::number::check_number;
use super::value::sorted;
use super::{JsonError, JsonErrorKind, MAX_DEPTH, Member, Value};

/// Reads one JSON text.
///
/// # Errors
/// Anything that has no canonical form by §11; the kind says which rule.
pub fn parse(text: &str) -> Result<Value<'_>, JsonError> {
    let (value, violation) = parse_lenient(text)?;
    violation.map_or(Ok(value), Err)
}

/// Reads one JSON text and goes on past a duplicate key, a lone surrogate (read as U+FFFD) or a number without a
/// canonical form, returning the first of these beside the value: so that a hostile frame can still be answered by
/// its `patch_id`. Such a value is for addressing only; it must not be digested, stored or applied.
///
/// # Errors
/// Syntax errors and nesting deeper than [`MAX_DEPTH`].
pub fn parse_lenient(text: &str) -> Result<(Value<'_>, Option<JsonError>), JsonError> {
    let mut parser = Parser { text, at: 0, violation: None };
    parser.skip_space();
    let value = parser.value(0)?;
    parser.skip_space();
    if parser.at < text.len() {
        return Err(parser.error(JsonErrorKind::Syntax));
    }
    Ok((value, parser.violation))
}

/// Objects up to this size are checked for duplicate keys by comparing them pairwise; larger ones by sorting.
const PAIRWISE_KEYS: usize = 16;

struct Parser<'a> {
    text: &'a str,
    at: usize,
    violation: Option<JsonError>,
}

impl<'a> Parser<'a> {
    fn error(&self, kind: JsonErrorKind) -> JsonError {
        JsonError { kind, at: self.at }
    }

    fn note(&mut self, kind: JsonErrorKind, at: usize) {
        self.violation.get_or_insert(JsonError { kind, at });
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn slice(&self, from: usize) -> &'a str {
        // Both ends were reached over ASCII bytes, so they are character boundaries.
        self.text.get(from..self.at).unwrap_or_default()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Result<(), JsonError> {
        if self.peek() == Some(byte) {
            self.at += 1;
            Ok(())
        } else {
            Err(self.error(JsonErrorKind::Syntax))
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value<'a>, JsonError> {
        match self.peek() {
            Some(b'{') => self.object(self.deeper(depth)?),
            Some(b'[') => self.array(self.deeper(depth)?),
            Some(b'"') => self.string().map(Value::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            _ => Err(self.error(JsonErrorKind::Syntax)),
        }
    }

    fn deeper(&self, depth: usize) -> Result<usize, JsonError> {
        if depth == MAX_DEPTH { Err(self.error(JsonErrorKind::TooDeep)) } else { Ok(depth + 1) }
    }

    fn word(&mut self, word: &str, value: Value<'a>) -> Result<Value<'a>, JsonError> {
        if self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            Ok(value)
        } else {
            Err(self.error(JsonErrorKind::Syntax))
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value<'a>, JsonError> {
        self.at += 1;
        let mut members: Vec<Member<'a>> = Vec::new();
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Object(members));
        }
        loop {
            let key_at = self.at;
            if self.peek() != Some(b'"') {
                return Err(self.error(JsonErrorKind::Syntax));
            }
            let key = self.string()?;
            if members.len() < PAIRWISE_KEYS && members.iter().any(|m| m.key == key) {
                self.note(JsonErrorKind::DuplicateKey, key_at);
            }
            self.skip_space();
            self.expect(b':')?;
            self.skip_space();
            let from = self.at;
            let value = self.value(depth)?;
            let raw = self.slice(from);
            members.push(Member { key, value, raw });
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                _ => return Err(self.error(JsonErrorKind::Syntax)),
            }
            self.skip_space();
        }
        if members.len() > PAIRWISE_KEYS {
            let sorted = sorted(&members);
            if sorted.windows(2).any(|pair| matches!(pair, [a, b] if a.key == b.key)) {
                self.note(JsonErrorKind::DuplicateKey, self.at);
            }
        }
        self.at += 1;
        Ok(Value::Object(members))
    }

    fn array(&mut self, depth: usize) -> Result<Value<'a>, JsonError> {
        self.at += 1;
        let mut items = Vec::new();
        self.skip_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::Array(items));
        }
        loop {
            items.push(self.value(depth)?);
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return Err(self.error(JsonErrorKind::Syntax)),
            }
            self.skip_space();
        }
        self.at += 1;
        Ok(Value::Array(items))
    }

    fn number(&mut self) -> Result<Value<'a>, JsonError> {
        let from = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits()?,
            _ => return Err(self.error(JsonErrorKind::Syntax)),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        let literal = self.slice(from);
        if let Err(kind) = check_number(literal) {
            self.note(kind, from);
        }
        Ok(Value::Number(literal))
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let from = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == from { Err(self.error(JsonErrorKind::Syntax)) } else { Ok(()) }
    }

    /// A string, at its opening quote. Borrowed where it has no escape.
    fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        self.at += 1;
        let from = self.at;
        self.skip_plain();
        if self.peek() == Some(b'"') {
            let text = self.slice(from);
            self.at += 1;
            return Ok(Cow::Borrowed(text));
        }
        let mut out = String::from(self.slice(from));
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Cow::Owned(out));
                }
                Some(b'\\') => self.escape(&mut out)?,
                // A raw control character, or the end of the text.
                _ => return Err(self.error(JsonErrorKind::Syntax)),
            }
            let plain = self.at;
            self.skip_plain();
            out.push_str(self.slice(plain));
        }
    }

    fn skip_plain(&mut self) {
        while let Some(byte) = self.peek() {
            if byte == b'"' || byte == b'\\' || byte < 0x20 {
                return;
            }
            self.at += 1;
        }
    }

    fn escape(&mut self, out: &mut String) -> Result<(), JsonError> {
        let at = self.at;
        self.at += 1;
        let escaped = self.peek().ok_or(self.error(JsonErrorKind::Syntax))?;
        self.at += 1;
        out.push(match escaped {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => self.unicode_escape(at)?,
            _ => return Err(JsonError { kind: JsonErrorKind::Syntax, at }),
        });
        Ok(())
    }

    fn unicode_escape(&mut self, at: usize) -> Result<char, JsonError> {
        let unit = self.four_hex()?;
        if let Some(c) = char::from_u32(unit) {
            return Ok(c);
        }
        let is_high = (0xd800..0xdc00).contains(&unit);
        if is_high && self.text.as_bytes()[self.at..].starts_with(b"\\u") {
            let back = self.at;
            self.at += 2;
            let low = self.four_hex()?;
            if (0xdc00..0xe000).contains(&low) {
                let code = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = back;
        }
        self.note(JsonErrorKind::LoneSurrogate, at);
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn four_hex(&mut self) -> Result<u32, JsonError> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|b| (b as char).to_digit(16)).ok_or(self.error(JsonErrorKind::Syntax))?;
            unit = unit << 4 | digit;
            self.at += 1;
        }
        Ok(unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> JsonErrorKind {
        parse(text).unwrap_err().kind
    }

    #[test]
    fn members_keep_their_own_text() {
        let value = parse(r#" { "a" : [1.0, {"b":"\u0041"}] , "c":2 } "#).unwrap();
        assert_eq!(value.member("a").unwrap().raw, r#"[1.0, {"b":"\u0041"}]"#);
        assert_eq!(value.field("c"), Some(&Value::Number("2")));
    }

    #[test]
    fn duplicate_keys_are_found_in_small_and_large_objects() {
        assert_eq!(kind(r#"{"a":1,"\u0061":2}"#), JsonErrorKind::DuplicateKey);
        let mut text = String::from("{");
        for i in 0..100 {
            text.push_str(&format!("\"k{i}\":0,"));
        }
        text.push_str("\"k42\":1}");
        assert_eq!(kind(&text), JsonErrorKind::DuplicateKey);
    }

    #[test]
    fn lenient_reading_still_addresses_a_hostile_frame() {
        let (value, violation) = parse_lenient(r#"{"patch_id":"p","body":{"text":"\ud83d"}}"#).unwrap();
        assert_eq!(value.field("patch_id").and_then(Value::as_str), Some("p"));
        assert_eq!(violation.unwrap().kind, JsonErrorKind::LoneSurrogate);
    }

    #[test]
    fn depth_200_000_is_refused_without_a_stack_overflow() {
        assert_eq!(kind(&"[".repeat(200_000)), JsonErrorKind::TooDeep);
    }

    #[test]
    fn integers_are_never_rounded() {
        let integer = |text| parse(text).ok().and_then(|v| v.as_integer());
        assert_eq!(integer("9007199254740991"), Some(9_007_199_254_740_991));
        assert_eq!(integer("1e3"), Some(1000));
        for text in ["9007199254740992", "9007199254740993", "-1", "1.5", "1e300", "\"1\""] {
            assert_eq!(integer(text), None, "{text}");
        }
    }
}
