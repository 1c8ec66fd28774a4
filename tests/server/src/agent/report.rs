//! What a person or a program reads of it, a line for each piece of news.

use std::cell::Cell;

use patchkeep_core::json::ObjectWriter;
use patchkeep_core::outbox::{Outcome, Reading};

use super::client::Reply;
use super::policy::{End, Progress};

/// Prints news, each piece once.
#[derive(Debug)]
pub(super) struct Report {
    json: bool,
    told_applied: Cell<bool>,
    told_replay: Cell<bool>,
}

impl Report {
    pub(super) const fn new(json: bool) -> Self {
        Self { json, told_applied: Cell::new(false), told_replay: Cell::new(false) }
    }

    /// An answer arrived. `progress` is as it was when the request went out.
    pub(super) fn heard(&self, reading: &Reading, reply: &Reply, key: &str, progress: &Progress, asking: bool) {
        let effect = matches!(reading.outcome, Outcome::Applied | Outcome::Done);
        if effect && progress.retried && reading.replayed && !asking && !self.told_replay.replace(true) {
            let how = if reading.outcome == Outcome::Applied { "applied" } else { "written" };
            self.line(
                "replayed",
                &format!("answer lost · retried with the same key · {how} once (replayed)"),
                key,
                reply,
            );
        }
        if reading.outcome == Outcome::Applied && !self.told_applied.replace(true) {
            self.line("applied", "applied · pending save", key, reply);
        }
    }

    /// What is known of a key.
    pub(super) fn asked(&self, end: End, reading: &Reading, reply: &Reply, key: &str) {
        match (end, settlement(reply)) {
            (End::Done, Some(line)) => self.line("settled", &line, key, reply),
            // Nothing was waited for: `not saved in time` would be wrong.
            (End::Unsaved, _) => self.line("applied", "applied · pending save", key, reply),
            _ => self.ended(end, reading, reply, key),
        }
    }

    /// How a person's word was taken.
    pub(super) fn settled(&self, end: End, reply: &Reply, key: &str) {
        match (end, settlement(reply)) {
            (End::Done, line) => self.line("settled", line.as_deref().unwrap_or("settled"), key, reply),
            (End::Conflict, _) => self.line("conflict", &format!("conflict · {}", reply.failure()), key, reply),
            (End::Refused, _) => self.line("refused", &format!("refused · {}", reply.failure()), key, reply),
            (End::Other, _) if reply.never_sent => {
                self.line("other", "the server cannot be reached · nothing was sent", key, reply);
            }
            (End::Other, _) => self.line("other", &reply.failure(), key, reply),
            _ => self.line("unknown", "unknown · no answer · the same word may be given again", key, reply),
        }
    }

    /// It is over.
    pub(super) fn ended(&self, end: End, reading: &Reading, reply: &Reply, key: &str) {
        let code = reading.code.as_deref().unwrap_or("no_answer");
        match end {
            End::Done => {
                let seq = reply.find(&["seq"], |v| v.as_integer());
                let line = seq.map_or_else(|| "done".to_owned(), |seq| format!("done · seq {seq}"));
                self.line("done", &line, key, reply);
            }
            End::Refused => self.line("refused", &format!("refused · {}", reply.failure()), key, reply),
            End::Conflict => self.line("conflict", &format!("conflict · {}", reply.failure()), key, reply),
            End::Lost => self.line("lost", &format!("lost · {}", reply.failure()), key, reply),
            End::Unsaved => self.line("unsaved", &format!("applied · not saved in time · key {key}"), key, reply),
            End::Other if reply.never_sent => {
                self.line("other", "the server cannot be reached · nothing was sent", key, reply)
            }
            End::Other => self.line("other", &reply.failure(), key, reply),
            End::Unknown if self.json => self.line("unknown", code, key, reply),
            End::Unknown => {
                println!("{}", if code == "no_answer" { "unknown · no answer" } else { code });
                if let Some(diff) = reply.find(&["error", "details", "diff"], |v| v.as_str().map(str::to_owned)) {
                    print!("{diff}");
                }
                println!("key {key} · may be asked about with --key");
            }
        }
    }

    fn line(&self, news: &str, line: &str, key: &str, reply: &Reply) {
        if !self.json {
            println!("{line}");
            return;
        }
        let mut out = String::new();
        let mut w = ObjectWriter::new(&mut out);
        w.string("news", news).string("line", line).string("key", key).integer("status", u64::from(reply.status));
        // Only what was read as JSON may stand inside an object of ours.
        if reply.find(&[], |_| Some(())).is_some() {
            w.raw("answer", reply.body.trim());
        }
        w.end();
        println!("{out}");
    }
}

/// A person's word in an answer, as a line.
fn settlement(reply: &Reply) -> Option<String> {
    let part = |name| reply.find(&["settled", name], |v| v.as_str().map(str::to_owned));
    let line = format!("settled · {} · by {}", part("as")?, part("by")?);
    let contradicted = reply.find(&["settled", "contradicted"], |v| v.as_bool()) == Some(true);
    Some(if contradicted { format!("{line} · contradicted since") } else { line })
}
