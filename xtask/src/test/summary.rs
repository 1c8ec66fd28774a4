//! What the runners say at the end, collected: the lines themselves, and the sum of what they count.

use std::fmt;

/// What was counted so far.
#[derive(Debug, Default, PartialEq)]
pub struct Summary {
    lines: Vec<String>,
    passed: u64,
    failed: u64,
}

impl Summary {
    /// Looks at one line a runner printed.
    pub fn see(&mut self, line: &str) {
        let line = plain(line);
        if let Some((passed, failed)) = counts(&line) {
            self.passed += passed;
            self.failed += failed;
            self.lines.push(line.trim().to_owned());
        }
    }

    /// Counts something that failed without a runner's line, or before one: a build, a missing file.
    pub fn fail(&mut self, line: String) {
        self.failed += 1;
        self.lines.push(line);
    }

    /// How many failed so far.
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// How many ran so far.
    pub fn ran(&self) -> u64 {
        self.passed + self.failed
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            writeln!(f, "{line}")?;
        }
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// What a closing line counts, as (passed, failed); nothing if the line is none.
///
/// Only nextest indents its own, and it indents further what a failed test printed: a closing line there is not ours.
fn counts(line: &str) -> Option<(u64, u64)> {
    // nextest: `     Summary [   1.2s] 12 tests run: 11 passed (1 slow), 1 failed, 2 skipped`
    if let Some((_, rest)) = line.trim_start().strip_prefix("Summary [").and_then(|rest| rest.split_once("run:")) {
        let all = |word| number_before(rest, word).unwrap_or(0);
        return Some((all("passed"), all("failed") + all("timed") + all("exec")));
    }
    // libtest and wasm-bindgen-test: `test result: ok. 3 passed; 0 failed; 0 ignored`
    if let Some(rest) = line.strip_prefix("test result:") {
        return number_before(rest, "passed").zip(number_before(rest, "failed"));
    }
    // Ours: `12 passed, 0 failed`, nothing else on the line
    if let Some((passed, failed)) = line.split_once(" passed, ") {
        return Some((passed.parse().ok()?, failed.strip_suffix(" failed")?.parse().ok()?));
    }
    // node's runner, whose counts come on lines of their own: `ℹ pass 3`, `# fail 0`
    let mut words = line.split_whitespace();
    match (words.next(), words.next(), words.next(), words.next()) {
        (Some("ℹ" | "#"), Some("pass"), Some(number), None) => Some((number.parse().ok()?, 0)),
        (Some("ℹ" | "#"), Some("fail"), Some(number), None) => Some((0, number.parse().ok()?)),
        _ => None,
    }
}

/// The number right before a word: 11 for `passed` in `11 passed (1 slow), 1 failed`.
fn number_before(text: &str, word: &str) -> Option<u64> {
    let mut before = None;
    for part in text.split_whitespace() {
        if part.trim_end_matches([',', ';']) == word {
            return before;
        }
        before = part.parse().ok();
    }
    None
}

/// A line without the escapes that colour it.
fn plain(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(next) = chars.next() {
        if next == '\u{1b}' {
            // All that runners send are colours: ESC [ numbers m.
            chars.by_ref().find(char::is_ascii_alphabetic);
        } else {
            out.push(next);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_lines_of_all_runners_are_understood() {
        let cases = [
            ("     Summary [   1.204s] 12 tests run: 12 passed, 2 skipped", Some((12, 0))),
            ("Summary [   0.1s] 12/40 tests run: 10 passed (1 slow), 1 failed, 1 timed out, 0 skipped", Some((10, 2))),
            (
                "\u{1b}[32;1m Summary\u{1b}[0m [ 0.1s] \u{1b}[1m1\u{1b}[0m test run: \u{1b}[1m1\u{1b}[0m \u{1b}[32;1mpassed\u{1b}[0m, 0 skipped",
                Some((1, 0)),
            ),
            ("test result: ok. 5 passed; 0 failed; 0 ignored; 0 filtered out; finished in 0.02s", Some((5, 0))),
            ("test result: FAILED. 4 passed; 1 failed; 0 ignored; 0 filtered out", Some((4, 1))),
            ("93 passed, 2 failed", Some((93, 2))),
            ("ℹ pass 3", Some((3, 0))),
            ("# fail 1", Some((0, 1))),
            ("    test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 113 filtered out", None),
            ("    93 passed, 2 failed", None),
            ("it said 93 passed, 2 failed", None),
            ("test journal::passed ... ok", None),
            ("# pass the salt", None),
            ("", None),
        ];
        for (line, counted) in cases {
            assert_eq!(counts(&plain(line)), counted, "{line}");
        }
    }

    #[test]
    fn the_summary_ends_with_the_plain_line_that_counts_everything() {
        let mut summary = Summary::default();
        for line in ["test a ... ok", "test result: ok. 1 passed; 0 failed; 0 ignored", "2 passed, 1 failed"] {
            summary.see(line);
        }
        summary.fail("browser: cannot start".into());
        let text = summary.to_string();
        assert_eq!(text.lines().last(), Some("3 passed, 2 failed"));
        assert_eq!(text.lines().count(), 4);
    }
}
