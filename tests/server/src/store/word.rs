//! What the processes on one database tell each other. A word may be lost: nothing but haste depends on it.

use std::fmt;

use patchkeep_core::ids::{DocId, PatchId, TabId};

/// What one process tells the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// The row of this patch was changed: who waits for it looks again.
    Changed(PatchId),
    /// A retry of this patch came to a process that does not have its recipient's socket (S7).
    Retried(PatchId),
    /// What this tab holds of the document was fenced on a person's word (S10).
    Fenced(TabId, DocId),
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed(patch_id) => write!(f, "changed {patch_id}"),
            Self::Retried(patch_id) => write!(f, "retried {patch_id}"),
            // The document's id comes last: it may hold spaces.
            Self::Fenced(tab_id, doc) => write!(f, "fenced {tab_id} {doc}"),
        }
    }
}

impl Word {
    /// Reads a word. One of a later version is none.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (what, rest) = text.split_once(' ')?;
        match what {
            "changed" => rest.parse().ok().map(Self::Changed),
            "retried" => rest.parse().ok().map(Self::Retried),
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
        for word in [Word::Changed(PatchId(id)), Word::Retried(PatchId(id)), Word::Fenced(TabId(id), doc)] {
            assert_eq!(Word::read(&word.to_string()), Some(word));
        }
        for text in ["", "changed", "changed x", "fenced", "fenced x y", "later something"] {
            assert_eq!(Word::read(text), None, "{text}");
        }
    }
}
