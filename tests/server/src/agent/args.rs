//! The command line, and the edit it spells.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use patchkeep_core::json::ObjectWriter;

/// Writes to documents with an op key.
///
/// Exit codes: 0 done, 1 other, 2 refused, 3 unknown or lost, 4 conflict, 5 applied and not saved in time.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Change a document, once.
    Patch(Box<Patch>),
    /// Go on with what earlier invocations left behind, under the same keys; ask about what nobody could tell.
    Resume {
        /// Only this op.
        key: Option<String>,
        /// How long to wait until all is saved, in seconds.
        #[arg(long, value_name = "SECONDS", default_value_t = 30)]
        wait: u64,
        /// Where and who.
        #[command(flatten)]
        common: Common,
    },
    /// Show what earlier invocations left behind. Asks nobody.
    Pending {
        /// Where it is kept.
        #[command(flatten)]
        place: Place,
        /// One JSON object for each line.
        #[arg(long)]
        json: bool,
    },
    /// Ask what became of a key. Changes nothing.
    Ask {
        /// The op key of an earlier invocation.
        key: String,
        /// Where and who.
        #[command(flatten)]
        common: Common,
    },
    /// Say what became of a key whose outcome nobody can tell. The first word stands.
    Settle {
        /// The op key.
        key: String,
        /// What you found: whether the edit is in the document. `not-applied` also fences what the tab it went to
        /// still holds: that cannot be saved any more.
        #[arg(long = "as", id = "verdict", value_enum)]
        verdict: Verdict,
        /// Where and who.
        #[command(flatten)]
        common: Common,
    },
    /// Print a document's text.
    Read {
        /// The document.
        doc: String,
        /// Where and who.
        #[command(flatten)]
        common: Common,
    },
}

/// Where the server is, and who calls.
#[derive(Args)]
pub struct Common {
    /// The server.
    #[arg(long, env = "PATCHKEEP_SERVER", default_value = "http://127.0.0.1:8787")]
    pub server: String,
    /// The bearer token.
    #[arg(long, env = "PATCHKEEP_TOKEN", hide_env_values = true)]
    pub token: String,
    /// Whom the token is of, as workspace/user, for servers that do not say it themselves.
    #[arg(long, env = "PATCHKEEP_PRINCIPAL")]
    pub principal: Option<String>,
    /// Where ops are kept.
    #[command(flatten)]
    pub place: Place,
    /// One JSON object for each line of news.
    #[arg(long)]
    pub json: bool,
}

/// Where ops are kept until everything is known of them.
#[derive(Debug, Args)]
pub struct Place {
    /// The folder [default: patchkeep in the user's state folder]
    #[arg(long, value_name = "DIR", env = "PATCHKEEP_STATE")]
    pub state: Option<PathBuf>,
}

// Not derived: the token must not be printed.
impl std::fmt::Debug for Common {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Common").field("server", &self.server).field("json", &self.json).finish_non_exhaustive()
    }
}

/// One edit.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("edit").required(true).args(["find", "append", "prepend", "insert", "set"]))]
pub struct Patch {
    /// The document.
    pub doc: String,
    /// The text to replace.
    #[arg(long, requires = "replace")]
    find: Option<String>,
    /// What comes in its place.
    #[arg(long, requires = "find")]
    replace: Option<String>,
    /// Which of several matches, from 1.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    occurrence: Option<u64>,
    /// Text for the end.
    #[arg(long)]
    append: Option<String>,
    /// Text for the beginning.
    #[arg(long)]
    prepend: Option<String>,
    /// Text to put beside an anchor.
    #[arg(long, requires = "anchor", requires = "place")]
    insert: Option<String>,
    /// The anchor.
    #[arg(long, requires = "insert")]
    anchor: Option<String>,
    /// On which side of it.
    #[arg(long = "where", id = "place", requires = "insert", value_enum)]
    place: Option<Where>,
    /// The whole new text.
    #[arg(long)]
    set: Option<String>,
    /// The op key of an earlier invocation whose outcome is open.
    #[arg(long)]
    pub key: Option<String>,
    /// Only where the document has no unconfirmed edits.
    #[arg(long)]
    guarded: bool,
    /// How long to wait until it is saved, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub wait: u64,
    /// Where and who.
    #[command(flatten)]
    pub common: Common,
}

/// A person's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Verdict {
    /// The edit is there.
    Applied,
    /// It is not.
    #[value(alias = "not_applied")]
    NotApplied,
}

/// A side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Where {
    /// In front of it.
    Before,
    /// Behind it.
    After,
}

impl Patch {
    /// The request's body (§10).
    ///
    /// # Errors
    /// No edit was named; the parser sees to it that there is one.
    pub fn body(&self) -> Result<String, String> {
        let mut edit = String::new();
        let mut w = ObjectWriter::new(&mut edit);
        if let (Some(find), Some(replace)) = (&self.find, &self.replace) {
            w.string("kind", "text.replace").string("find", find).string("replace", replace);
        } else if let (Some(text), Some(anchor), Some(place)) = (&self.insert, &self.anchor, self.place) {
            let place = if place == Where::Before { "before" } else { "after" };
            w.string("kind", "text.insert").string("anchor", anchor).string("where", place).string("text", text);
        } else {
            let whole = [("text.append", &self.append), ("text.prepend", &self.prepend), ("text.set", &self.set)];
            let named = whole.iter().find_map(|(kind, text)| Some((kind, text.as_ref()?)));
            let (kind, text) = named.ok_or("an edit is needed")?;
            w.string("kind", kind).string("text", text);
        }
        if let Some(n) = self.occurrence {
            w.integer("occurrence", n);
        }
        w.end();
        let mut body = String::new();
        let mut w = ObjectWriter::new(&mut body);
        w.raw("edit", &edit).bool("guarded", self.guarded);
        w.end();
        Ok(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(args: &[&str]) -> Result<String, clap::Error> {
        let all = ["agent", "patch", "d", "--token", "t"].iter().chain(args);
        match Cli::try_parse_from(all)?.command {
            Command::Patch(patch) => Ok(patch.body().unwrap()),
            other => unreachable!("it parsed `patch`, not {other:?}"),
        }
    }

    #[test]
    fn s10_the_edits_it_spells() {
        for (args, want) in [
            (
                &["--find", "$&", "--replace", "\"", "--occurrence", "2"][..],
                r#"{"edit":{"kind":"text.replace","find":"$&","replace":"\"","occurrence":2},"guarded":false}"#,
            ),
            (&["--append", "x", "--guarded"], r#"{"edit":{"kind":"text.append","text":"x"},"guarded":true}"#),
            (&["--prepend", "x"], r#"{"edit":{"kind":"text.prepend","text":"x"},"guarded":false}"#),
            (&["--set", ""], r#"{"edit":{"kind":"text.set","text":""},"guarded":false}"#),
            (
                &["--insert", "x", "--anchor", "a", "--where", "after"],
                r#"{"edit":{"kind":"text.insert","anchor":"a","where":"after","text":"x"},"guarded":false}"#,
            ),
        ] {
            assert_eq!(body(args).unwrap(), want);
        }
    }

    #[test]
    fn half_an_edit_is_none() {
        for args in [
            &[][..],
            &["--find", "x"],
            &["--replace", "x"],
            &["--insert", "x"],
            &["--insert", "x", "--anchor", "a"],
            &["--append", "x", "--set", "y"],
            &["--find", "x", "--replace", "y", "--occurrence", "0"],
        ] {
            assert!(body(args).is_err(), "{args:?}");
        }
    }
}
