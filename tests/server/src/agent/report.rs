//! What a person or a program reads of it, a line for each piece of news.

use std::cell::Cell;

use patchkeep_core::json::ObjectWriter;
use patchkeep_core::outbox::{Op, OpState};

use super::end::End;
use super::state::Stored;
use super::web::Reply;

/// Prints news, each piece once.
#[derive(Debug)]
pub(super) struct Report {
    json: bool,
    /// Several ops are told of: each line names its own.
    names_keys: bool,
    told_effect: Cell<bool>,
    told_applied: Cell<bool>,
}

const UNREACHABLE: &str = "the server cannot be reached · nothing was sent";

impl Report {
    pub(super) const fn new(json: bool) -> Self {
        Self { json, names_keys: false, told_effect: Cell::new(false), told_applied: Cell::new(false) }
    }

    pub(super) const fn of_several(json: bool) -> Self {
        Self { names_keys: true, ..Self::new(json) }
    }

    /// An op stands otherwise than before.
    pub(super) fn heard(&self, op: &Op) {
        let effect = matches!(op.state, OpState::Applied | OpState::Done);
        if !effect {
            return;
        }
        let is_first = !self.told_effect.replace(true);
        if is_first && op.replayed && op.ambiguous && op.attempts > 1 {
            let how = if op.state == OpState::Applied { "applied" } else { "written" };
            let line = format!("answer lost · retried with the same key · {how} once (replayed)");
            self.line("replayed", &line, op.key.as_str(), &Reply::kept(op));
        }
        if op.state == OpState::Applied && !self.told_applied.replace(true) {
            self.line("applied", "applied · pending save", op.key.as_str(), &Reply::kept(op));
        }
    }

    /// It is over with an op, for this time.
    pub(super) fn ended(&self, end: End, op: &Op) {
        let told = Told { code: op.code.as_deref(), key: op.key.as_str(), conflict: op.conflict };
        self.end(end, &told, &Reply::kept(op));
    }

    /// What is known of a key.
    pub(super) fn asked(&self, end: End, code: Option<&str>, reply: &Reply, key: &str) {
        match (end, settlement(reply)) {
            (End::Done, Some(line)) => self.line("settled", &line, key, reply),
            // Nothing was waited for: `not saved in time` would be wrong.
            (End::Unsaved, _) => self.line("applied", "applied · pending save", key, reply),
            _ => self.end(end, &Told { code, key, conflict: false }, reply),
        }
    }

    /// How a person's word was taken.
    pub(super) fn settled(&self, end: End, reply: &Reply, key: &str) {
        match (end, settlement(reply)) {
            (End::Done, line) => self.line("settled", line.as_deref().unwrap_or("settled"), key, reply),
            (End::Conflict, _) => self.line("conflict", &format!("conflict · {}", reply.failure()), key, reply),
            (End::Refused, _) => self.line("refused", &format!("refused · {}", reply.failure()), key, reply),
            (End::Other, _) if reply.never_sent => self.line("other", UNREACHABLE, key, reply),
            (End::Other, _) => self.line("other", &reply.failure(), key, reply),
            _ => self.line("unknown", "unknown · no answer · the same word may be given again", key, reply),
        }
    }

    /// The key is bound to another request here, and nothing was sent (K3).
    pub(super) fn reused_here(&self, key: &str) {
        let line = "conflict · idempotency_key_reused · this key was used for another request · nothing was sent";
        self.line("conflict", line, key, &Reply::default());
    }

    /// Nobody answered before the first attempt.
    pub(super) fn unreachable(&self, key: &str) {
        self.line("other", UNREACHABLE, key, &Reply { never_sent: true, ..Reply::default() });
    }

    /// The server does not take the token, and so does not say whose it is.
    pub(super) fn not_taken(&self, reply: &Reply, key: &str) {
        self.line("other", &format!("{} · nothing was sent", reply.failure()), key, reply);
    }

    /// There is nothing to go on with.
    pub(super) fn nothing(&self) {
        if !self.json {
            println!("nothing is pending");
        }
    }

    /// An op as it lies in the store.
    pub(super) fn pending(&self, stored: &Stored) {
        let Some(op) = &stored.op else {
            self.line("corrupt", &format!("{} · cannot be read", stored.key), &stored.key, &Reply::default());
            return;
        };
        let sent = if op.attempts == 1 { "1 attempt".to_owned() } else { format!("{} attempts", op.attempts) };
        let line = format!("{} · {} · {} · {sent}", op.key, op.state.as_str(), op.lane);
        self.line(op.state.as_str(), &line, op.key.as_str(), &Reply::kept(op));
    }

    fn end(&self, end: End, told: &Told<'_>, reply: &Reply) {
        let (key, code) = (told.key, told.code.unwrap_or("no_answer"));
        let why = || if reply.code().is_some() { reply.failure() } else { code.to_owned() };
        match end {
            End::Done => {
                let seq = reply.find(&["seq"], |v| v.as_integer());
                let line = seq.map_or_else(|| "done".to_owned(), |seq| format!("done · seq {seq}"));
                self.line("done", &line, key, reply);
            }
            End::Refused => self.line("refused", &format!("refused · {}", why()), key, reply),
            End::Conflict => self.line("conflict", &format!("conflict · {}", why()), key, reply),
            End::Lost => self.line("lost", &format!("lost · {}", why()), key, reply),
            End::Unsaved => self.line("unsaved", &format!("applied · not saved in time · key {key}"), key, reply),
            End::Other if reply.never_sent => self.line("other", UNREACHABLE, key, reply),
            End::Other => self.line("other", &why(), key, reply),
            End::Open => {
                self.line("open", &format!("unknown · {code} · key {key} · goes on with `resume`"), key, reply)
            }
            End::Unknown if self.json => self.line("unknown", code, key, reply),
            End::Unknown => {
                self.line("unknown", if code == "no_answer" { "unknown · no answer" } else { code }, key, reply);
                if told.conflict {
                    println!("the key is bound to another request as well");
                }
                if let Some(diff) = reply.find(&["error", "details", "diff"], |v| v.as_str().map(str::to_owned)) {
                    print!("{diff}");
                }
                println!("key {key} · may be asked about with `ask`, and settled with `settle`");
            }
        }
    }

    fn line(&self, news: &str, line: &str, key: &str, reply: &Reply) {
        if !self.json {
            let name = if self.names_keys && !key.is_empty() && !line.contains(&format!("key {key}")) {
                format!("{key} · ")
            } else {
                String::new()
            };
            println!("{name}{line}");
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

struct Told<'a> {
    code: Option<&'a str>,
    key: &'a str,
    conflict: bool,
}

/// A person's word in an answer, as a line.
fn settlement(reply: &Reply) -> Option<String> {
    let part = |name| reply.find(&["settled", name], |v| v.as_str().map(str::to_owned));
    let line = format!("settled · {} · by {}", part("as")?, part("by")?);
    let contradicted = reply.find(&["settled", "contradicted"], |v| v.as_bool()) == Some(true);
    Some(if contradicted { format!("{line} · contradicted since") } else { line })
}
