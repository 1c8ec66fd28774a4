//! Parameters of a statement, written `?1`, `?2`, … as PostgreSQL wants them: `$1`, `$2`, ….
//!
//! Only outside of literals, quoted names and comments, and only where a number follows: a team's statement may hold
//! question marks of its own, as texts or as operators.

/// The statement with its parameters renamed.
pub(super) fn numbered(sql: &str) -> String {
    let mut out = String::with_capacity(sql.len());
    let mut rest = sql;
    while let Some(at) = rest.find(['?', '\'', '"', '-', '/', '$']) {
        let (plain, from) = rest.split_at(at);
        out.push_str(plain);
        let escapes = plain.ends_with(['e', 'E']) && !plain.trim_end_matches(['e', 'E']).ends_with(is_word);
        let taken = match from.as_bytes() {
            [b'?', b'1'..=b'9', ..] => {
                out.push('$');
                rest = &from[1..];
                continue;
            }
            [quote @ (b'\'' | b'"'), ..] => quoted(from, char::from(*quote), escapes),
            [b'-', b'-', ..] => from.find('\n').unwrap_or(from.len()),
            [b'/', b'*', ..] => comment(from),
            [b'$', ..] if !plain.ends_with(is_word) => dollar(from),
            _ => 1,
        };
        let (whole, after) = from.split_at(taken);
        out.push_str(whole);
        rest = after;
    }
    out.push_str(rest);
    out
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// How long a quoted text is. A doubled quote ends it and begins it again, which comes to the same.
fn quoted(text: &str, quote: char, escapes: bool) -> usize {
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        if c == quote {
            return at + 1;
        }
        if escapes && c == '\\' {
            chars.next();
        }
    }
    text.len()
}

/// How long a comment is; they nest.
fn comment(text: &str) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while at < text.len() {
        match text.as_bytes().get(at..at + 2) {
            Some(b"/*") => (depth, at) = (depth + 1, at + 2),
            Some(b"*/") => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// How long a text between dollar signs is, with its tag; a single dollar sign is itself.
fn dollar(text: &str) -> usize {
    let Some(tag) = text[1..].find('$').map(|end| &text[..end + 2]) else { return 1 };
    let name = &tag[1..tag.len() - 1];
    if name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(is_word) {
        return 1;
    }
    text[tag.len()..].find(tag).map_or(text.len(), |end| end + 2 * tag.len())
}

#[cfg(test)]
mod tests {
    use super::numbered;

    #[test]
    fn only_parameters_are_renamed() {
        for (sql, want) in [
            ("a = ?1 AND b = ?12", "a = $1 AND b = $12"),
            ("'?1' || ?1 || 'it''s ?2'", "'?1' || $1 || 'it''s ?2'"),
            (r#""?1" ?1"#, r#""?1" $1"#),
            ("j ? 'k' AND j ?| ?1 AND j ?& ?2", "j ? 'k' AND j ?| $1 AND j ?& $2"),
            ("1 -- ?1 'a\n, ?1", "1 -- ?1 'a\n, $1"),
            ("/* ?1 /* ' */ ?2 */ ?3", "/* ?1 /* ' */ ?2 */ $3"),
            (r"E'\'?1' || ?1", r"E'\'?1' || $1"),
            (r"'\' || ?1", r"'\' || $1"),
            (r"name'\' ?1", r"name'\' $1"),
            ("$x$ ?1 $y$ $x$ ?1", "$x$ ?1 $y$ $x$ $1"),
            ("$$ ?1 $$ || ?1", "$$ ?1 $$ || $1"),
            ("a - ?1 / ?2", "a - $1 / $2"),
            ("é ?1 'é?1", "é $1 'é?1"),
        ] {
            assert_eq!(numbered(sql), want);
        }
    }
}
