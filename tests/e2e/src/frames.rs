//! Frames as a server sends them.

use patchkeep_core::digest;
use patchkeep_core::ids::DocId;
use serde_json::{Value, json};

/// A `patch` frame to be.
#[derive(Clone, Debug)]
pub struct Patch {
    /// The document.
    pub doc: String,
    /// Its id: the n-th of a test.
    pub patch_id: String,
    /// The edit.
    pub body: Value,
    /// The hand-out.
    pub delivery: u64,
    /// How long it may be applied, in ms from now.
    pub expires_in_ms: i64,
    /// Whether only a document without unconfirmed edits may take it.
    pub guarded: bool,
}

impl Patch {
    /// The n-th patch of a test, which appends text.
    pub fn append(n: u32, doc: &str, text: &str) -> Self {
        Self {
            doc: doc.into(),
            patch_id: patch_id(n),
            body: json!({ "kind": "text.append", "text": text }),
            delivery: 1,
            expires_in_ms: 60_000,
            guarded: false,
        }
    }

    /// The same patch, handed out for the n-th time.
    #[must_use]
    pub fn delivery(&self, delivery: u64) -> Self {
        Self { delivery, ..self.clone() }
    }

    /// The frame for this recipient.
    pub fn frame(&self, journal_id: &str, incarnation: &str) -> Value {
        let doc = DocId::new(&self.doc).expect("a test's document has a good id");
        let digest = digest::patch(&doc, &self.body.to_string()).expect("a test's body has a canonical form");
        json!({
            "type": "patch",
            "patch_id": self.patch_id,
            "delivery": self.delivery,
            "journal_id": journal_id,
            "doc": self.doc,
            "incarnation": incarnation,
            "digest": digest.to_string(),
            "body": self.body,
            "expires_at": now_ms() + self.expires_in_ms,
            "guarded": self.guarded,
        })
    }
}

/// The id of the n-th patch.
pub fn patch_id(n: u32) -> String {
    format!("01890000-0000-7000-8000-{n:012x}")
}

/// The wall clock, in ms since the epoch.
pub fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("the clock is past 1970");
    i64::try_from(since.as_millis()).expect("the year is below 292277026")
}
