//! The reference bodies of §10, as a pure function from text and body to a [`Splice`].
//!
//! Offsets are UTF-16 code units, as editors count; text is compared code unit by code unit, without normalisation;
//! matches are counted without overlap, from the start. Everything is literal: a dollar sign or a dot means itself.

use crate::frame::Reason;
use crate::json::Value;

/// One replacement in a text, in UTF-16 code units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splice {
    /// Where it begins.
    pub at: usize,
    /// How many units go.
    pub delete: usize,
    /// What comes in their place.
    pub insert: String,
}

/// What a text edit does to this text.
///
/// # Errors
/// The refusal of §10: `anchor_not_found`, `anchor_ambiguous`, `out_of_range`, `expect_mismatch`, or `malformed` for
/// a body that is no text edit.
pub fn plan(text: &str, body: &Value<'_>) -> Result<Splice, Reason> {
    let splice = plan_bytes(text, body)?;
    let units = |bytes: &str| bytes.encode_utf16().count();
    let (before, rest) = text.split_at(splice.from);
    let (deleted, _) = rest.split_at(splice.to - splice.from);
    Ok(Splice { at: units(before), delete: units(deleted), insert: splice.insert.into() })
}

/// The text after a text edit.
///
/// # Errors
/// As [`plan`].
pub fn apply(text: &str, body: &Value<'_>) -> Result<String, Reason> {
    let splice = plan_bytes(text, body)?;
    let (before, rest) = text.split_at(splice.from);
    let (_, after) = rest.split_at(splice.to - splice.from);
    let mut out = String::with_capacity(before.len() + splice.insert.len() + after.len());
    out.push_str(before);
    out.push_str(splice.insert);
    out.push_str(after);
    Ok(out)
}

/// A splice whose borders are byte offsets on character borders of the text it was planned for.
struct ByteSplice<'b> {
    from: usize,
    to: usize,
    insert: &'b str,
}

fn plan_bytes<'b>(text: &str, body: &'b Value<'_>) -> Result<ByteSplice<'b>, Reason> {
    let at = |from, to, insert| Ok(ByteSplice { from, to, insert });
    match field_str(body, "kind")? {
        "text.replace" => {
            let find = field_str(body, "find")?;
            let from = find_occurrence(text, find, body)?;
            at(from, from + find.len(), field_str(body, "replace")?)
        }
        "text.insert" => {
            let anchor = field_str(body, "anchor")?;
            let insert = field_str(body, "text")?;
            let from = find_occurrence(text, anchor, body)?;
            match field_str(body, "where")? {
                "before" => at(from, from, insert),
                "after" => at(from + anchor.len(), from + anchor.len(), insert),
                _ => Err(Reason::Malformed),
            }
        }
        "text.append" => at(text.len(), text.len(), field_str(body, "text")?),
        "text.prepend" => at(0, 0, field_str(body, "text")?),
        "text.set" => at(0, text.len(), field_str(body, "text")?),
        "text.splice" => {
            let start = field_integer(body, "at")?;
            let end = start.checked_add(field_integer(body, "delete")?).ok_or(Reason::OutOfRange)?;
            let from = byte_offset(text, start)?;
            let to = byte_offset(text, end)?;
            let insert = field_str(body, "insert")?;
            if body.field("expect").is_some() {
                let deleted = text.get(from..to).ok_or(Reason::OutOfRange)?;
                if deleted != field_str(body, "expect")? {
                    return Err(Reason::ExpectMismatch);
                }
            }
            at(from, to, insert)
        }
        _ => Err(Reason::Malformed),
    }
}

fn field_str<'b>(body: &'b Value<'_>, name: &str) -> Result<&'b str, Reason> {
    body.field(name).and_then(Value::as_str).ok_or(Reason::Malformed)
}

fn field_integer(body: &Value<'_>, name: &str) -> Result<u64, Reason> {
    body.field(name).and_then(Value::as_integer).ok_or(Reason::Malformed)
}

/// The byte offset of the one match, or of the n-th (counted from 1) where the body names an `occurrence`.
fn find_occurrence(text: &str, find: &str, body: &Value<'_>) -> Result<usize, Reason> {
    if find.is_empty() {
        return Err(Reason::Malformed);
    }
    let mut matches = text.match_indices(find).map(|(at, _)| at);
    if body.field("occurrence").is_some() {
        let n = field_integer(body, "occurrence")?;
        let skipped = n.checked_sub(1).ok_or(Reason::Malformed)?;
        let skipped = usize::try_from(skipped).map_err(|_| Reason::AnchorNotFound)?;
        return matches.nth(skipped).ok_or(Reason::AnchorNotFound);
    }
    let only = matches.next().ok_or(Reason::AnchorNotFound)?;
    if matches.next().is_some() { Err(Reason::AnchorAmbiguous) } else { Ok(only) }
}

/// The byte offset of a UTF-16 offset; one past the end or inside a surrogate pair is out of range.
fn byte_offset(text: &str, units: u64) -> Result<usize, Reason> {
    let mut seen = 0;
    for (at, c) in text.char_indices() {
        if seen >= units {
            return if seen == units { Ok(at) } else { Err(Reason::OutOfRange) };
        }
        seen += c.len_utf16() as u64;
    }
    if seen == units { Ok(text.len()) } else { Err(Reason::OutOfRange) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    fn edit(text: &str, body: &str) -> Result<String, Reason> {
        let body = json::parse(body).unwrap();
        let splice = plan(text, &body)?;
        let units: Vec<u16> = text.encode_utf16().collect();
        let mut spliced = units[..splice.at].to_vec();
        spliced.extend(splice.insert.encode_utf16());
        spliced.extend(&units[splice.at + splice.delete..]);
        let applied = apply(text, &body)?;
        assert_eq!(String::from_utf16(&spliced).unwrap(), applied, "plan and apply agree");
        Ok(applied)
    }

    #[test]
    fn b51_replacements_are_literal() {
        let body = r#"{"kind":"text.replace","find":"log(1);","replace":"$& $$ $` $' $1"}"#;
        assert_eq!(edit("log(1);", body).as_deref(), Ok("$& $$ $` $' $1"));
        assert_eq!(
            edit("a.b(c axb(c", r#"{"kind":"text.replace","find":"a.b(c","replace":"x"}"#).as_deref(),
            Ok("x axb(c")
        );
    }

    #[test]
    fn s10_one_match_or_the_nth() {
        let replace = |extra: &str| format!(r#"{{"kind":"text.replace","find":"aa","replace":"b"{extra}}}"#);
        assert_eq!(edit("aaa", &replace("")).as_deref(), Ok("ba"), "matches do not overlap");
        assert_eq!(edit("aaaa", &replace("")), Err(Reason::AnchorAmbiguous));
        assert_eq!(edit("aaaa", &replace(r#","occurrence":2"#)).as_deref(), Ok("aab"));
        assert_eq!(edit("aaaa", &replace(r#","occurrence":3"#)), Err(Reason::AnchorNotFound));
        assert_eq!(edit("aaaa", &replace(r#","occurrence":0"#)), Err(Reason::Malformed));
        assert_eq!(edit("bb", &replace("")), Err(Reason::AnchorNotFound));
    }

    #[test]
    fn s10_insert_append_prepend_set() {
        let insert = |place: &str| format!(r#"{{"kind":"text.insert","anchor":"b","where":"{place}","text":"-"}}"#);
        assert_eq!(edit("abc", &insert("before")).as_deref(), Ok("a-bc"));
        assert_eq!(edit("abc", &insert("after")).as_deref(), Ok("ab-c"));
        assert_eq!(edit("abc", &insert("beside")), Err(Reason::Malformed));
        assert_eq!(edit("b", r#"{"kind":"text.append","text":"c"}"#).as_deref(), Ok("bc"));
        assert_eq!(edit("b", r#"{"kind":"text.prepend","text":"a"}"#).as_deref(), Ok("ab"));
        assert_eq!(edit("b", r#"{"kind":"text.set","text":""}"#).as_deref(), Ok(""));
    }

    #[test]
    fn s10_splice_counts_utf16_and_never_splits_a_pair() {
        let splice = |at: u32, delete: u32, extra: &str| {
            format!(r#"{{"kind":"text.splice","at":{at},"delete":{delete},"insert":"x"{extra}}}"#)
        };
        assert_eq!(edit("é😀z", &splice(3, 1, "")).as_deref(), Ok("é😀x"));
        assert_eq!(edit("é😀z", &splice(2, 0, "")), Err(Reason::OutOfRange));
        assert_eq!(edit("é😀z", &splice(1, 1, "")), Err(Reason::OutOfRange));
        assert_eq!(edit("é😀z", &splice(4, 0, "")).as_deref(), Ok("é😀zx"));
        assert_eq!(edit("é😀z", &splice(5, 0, "")), Err(Reason::OutOfRange));
        assert_eq!(edit("abc", &splice(1, 1, r#","expect":"b""#)).as_deref(), Ok("axc"));
        assert_eq!(edit("abc", &splice(1, 1, r#","expect":"c""#)), Err(Reason::ExpectMismatch));
    }

    #[test]
    fn s10_other_bodies_are_malformed() {
        for body in [
            "null",
            "{}",
            r#"{"kind":"text.future"}"#,
            r#"{"kind":"text.append"}"#,
            r#"{"kind":"text.replace","find":"","replace":"x"}"#,
        ] {
            assert_eq!(edit("abc", body), Err(Reason::Malformed), "{body}");
        }
    }
}
