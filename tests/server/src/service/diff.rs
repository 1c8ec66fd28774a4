//! The unified diff of S6: how the stored text changed since a patch was planned.

use std::time::Duration;

use similar::{ChangeTag, TextDiff};

/// The longest diff that goes into an answer, in bytes.
const MAX_BYTES: usize = 64 * 1024;
/// A hostile pair of texts gets a coarser diff, not a slow one.
const TIME_LIMIT: Duration = Duration::from_millis(200);

/// The unified diff from `base` to `now`; empty where they are equal.
pub(super) fn unified(base: &str, now: &str) -> String {
    let diff = TextDiff::configure().timeout(TIME_LIMIT).diff_lines(base, now);
    if diff.iter_all_changes().all(|c| c.tag() == ChangeTag::Equal) {
        return String::new();
    }
    let mut text = diff.unified_diff().context_radius(3).header("base", "stored").to_string();
    if text.len() > MAX_BYTES {
        let mut end = MAX_BYTES;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str("\n… cut\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s06_a_unified_diff() {
        assert_eq!(unified("a\n", "a\n"), "");
        assert_eq!(unified("a\nb\n", "a\nc\n"), "--- base\n+++ stored\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n");
    }
}
