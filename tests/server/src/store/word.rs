//! What the processes on one database tell each other. A word may be lost: nothing but haste depends on it.

use std::fmt;

use patchkeep_core::ids::{DocId, PatchId, TabId};

/// A commit that tabs are told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The workspace of the document.
    pub workspace: String,
    /// The document.
    pub doc: DocId,
    /// Its version now.
    pub seq: u64,
    /// The tab that saved it, which knows.
    pub but: Option<TabId>,
}

/// What one process tells the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// The rows of these patches were changed: who waits for them looks again.
    Changed(Vec<PatchId>),
    /// This patch is for a tab whose socket is another process's: it was planned for it (S5), or retried (S7).
    Forward(PatchId),
    /// This tab said hello: whoever has an older socket of it closes that (R5).
    Came(TabId),
    /// A document was stored (W4).
    Stored(Stored),
    /// What this tab holds of the document was fenced on a person's word (S10).
    Fenced(TabId, DocId),
    /// Never said: words may have been missed, since this process could not listen for a while.
    Missed,
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed(patch_ids) => {
                f.write_str("changed")?;
                patch_ids.iter().try_for_each(|patch_id| write!(f, " {patch_id}"))
            }
            Self::Forward(patch_id) => write!(f, "forward {patch_id}"),
            Self::Came(tab_id) => write!(f, "came {tab_id}"),
            // No workspace has a slash in its name.
            Self::Stored(Stored { workspace, doc, seq, but }) => {
                let but = but.map_or_else(|| "-".to_owned(), |tab_id| tab_id.to_string());
                write!(f, "stored {seq} {but} {workspace}/{doc}")
            }
            // The document's id comes last: it may hold spaces.
            Self::Fenced(tab_id, doc) => write!(f, "fenced {tab_id} {doc}"),
            Self::Missed => f.write_str("missed"),
        }
    }
}

impl Word {
    /// How many patches one word names at most: PostgreSQL carries 8,000 bytes.
    pub(crate) const PATCHES: usize = 200;

    /// Reads a word. One of a later version is none.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (what, rest) = text.split_once(' ')?;
        match what {
            "changed" => rest.split(' ').map(|id| id.parse().ok()).collect::<Option<_>>().map(Self::Changed),
            "forward" => rest.parse().ok().map(Self::Forward),
            "came" => rest.parse().ok().map(Self::Came),
            "stored" => {
                let (seq, rest) = rest.split_once(' ')?;
                let (but, rest) = rest.split_once(' ')?;
                let (workspace, doc) = rest.split_once('/')?;
                let but = if but == "-" { None } else { Some(but.parse().ok()?) };
                let (workspace, seq) = (workspace.to_owned(), seq.parse().ok()?);
                Some(Self::Stored(Stored { workspace, doc: DocId::new(doc)?, seq, but }))
            }
            "fenced" => {
                let (tab_id, doc) = rest.split_once(' ')?;
                Some(Self::Fenced(tab_id.parse().ok()?, DocId::new(doc)?))
            }
            _ => None,
        }
    }
}

/// Takes what another process tells.
pub type Hear = Box<dyn Fn(Word) + Send>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_read_as_it_was_said() {
        let id = "01890000-0000-7000-8000-00000000abcd".parse().unwrap();
        let doc = DocId::new("a b  c").unwrap();
        let stored =
            |but| Word::Stored(Stored { workspace: "w s".into(), doc: DocId::new("a/b c").unwrap(), seq: 7, but });
        for word in [
            Word::Changed(vec![PatchId(id); Word::PATCHES]),
            Word::Forward(PatchId(id)),
            Word::Came(TabId(id)),
            Word::Fenced(TabId(id), doc),
            stored(None),
            stored(Some(TabId(id))),
        ] {
            assert_eq!(Word::read(&word.to_string()), Some(word));
        }
        for text in ["", "changed", "changed x", "fenced", "fenced x y", "stored 1 - ws", "missed", "later something"] {
            assert_eq!(Word::read(text), None, "{text}");
        }
    }
}
