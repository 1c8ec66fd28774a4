//! What a claimed write does: it is refused, written directly, or planned for a tab (S2, S4, S5).

use patchkeep_core::digest;
use patchkeep_core::frame::{Homed, Reason};
use patchkeep_core::ids::{DocId, Incarnation, JournalId, PatchId, TabId};
use patchkeep_core::json::Value;
use serde_json::json;

use super::answer::Answer;
use super::row::{Document, KeyRow, KeyState, Plan, Recipient, SettledBy};
use crate::edit;

/// What the write wants.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// The document.
    pub doc: &'a DocId,
    /// The edit as it came in.
    pub edit_text: &'a str,
    /// The same, parsed.
    pub edit: &'a Value<'a>,
    /// Whether unconfirmed local edits forbid it.
    pub guarded: bool,
}

/// The tab that has the document open and was chosen (S5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elected {
    /// Its connection, `boot_id/conn_id`.
    pub conn: String,
    /// The browsing context.
    pub tab_id: TabId,
    /// Its journal.
    pub journal_id: JournalId,
    /// The incarnation it has open.
    pub incarnation: Incarnation,
    /// Where that content lives.
    pub homed: Homed,
}

/// What an execution needs beside rows.
#[derive(Clone, Copy, Debug)]
pub struct ExecuteFacts {
    /// The database's clock, in ms.
    pub now: u64,
    /// A fresh patch id.
    pub patch_id: PatchId,
    /// How long a tab has to answer, in ms.
    pub patch_timeout_ms: u64,
    /// The largest edit that fits into a frame, in bytes.
    pub max_edit_bytes: usize,
    /// The largest document, in bytes.
    pub max_doc_bytes: usize,
}

/// The row to write, guarded by the claim token and `state = claimed`; zero rows undo everything (S2, S5).
#[derive(Clone, Debug, PartialEq)]
pub enum Execution {
    /// Nothing is written but the refusal.
    Refuse(KeyRow),
    /// The patch goes to the elected tab once this is committed.
    HandOut(KeyRow),
    /// The text is written in the same transaction.
    Store {
        /// The row.
        row: KeyRow,
        /// The new document; its `seq` is one higher.
        document: Document,
    },
}

/// Decides what a claimed write does.
pub fn execute(
    row: &KeyRow,
    document: Option<&Document>,
    write: &Write<'_>,
    elected: Option<&Elected>,
    facts: &ExecuteFacts,
) -> Execution {
    let Some(document) = document else {
        let answer = Answer::error(404, "not_found", "there is no such document");
        return Execution::Refuse(refuse_claimed(row, answer, facts.now));
    };
    let planned = match elected {
        Some(elected) => plan(document, write, elected, facts)
            .map(|plan| Execution::HandOut(KeyRow { state: KeyState::Delivered, plan: Some(plan), ..row.clone() })),
        None => store(row, document, write, facts),
    };
    planned.unwrap_or_else(|reason| {
        let answer = reason_answer(reason, None);
        Execution::Refuse(refuse_claimed(row, answer, facts.now))
    })
}

/// Whether the edit fits the document as *stored* is not asked: the tab's text is the newer one, and it decides.
fn plan(document: &Document, write: &Write<'_>, elected: &Elected, facts: &ExecuteFacts) -> Result<Plan, Reason> {
    edit::check_kind(write.edit)?;
    if write.edit_text.len() > facts.max_edit_bytes {
        return Err(Reason::TooLarge);
    }
    Ok(Plan {
        patch_id: facts.patch_id,
        delivery: 1,
        recipient: Recipient {
            tab_id: elected.tab_id,
            journal_id: elected.journal_id,
            doc: write.doc.clone(),
            incarnation: elected.incarnation,
            homed: elected.homed,
        },
        conn: elected.conn.clone(),
        base_seq: document.seq,
        body: write.edit_text.to_owned(),
        digest: digest::patch_value(write.doc, write.edit).map_err(|_| Reason::Malformed)?,
        guarded: write.guarded,
        expires_at: facts.now.saturating_add(facts.patch_timeout_ms),
        doubted_seq: None,
    })
}

fn store(row: &KeyRow, document: &Document, write: &Write<'_>, facts: &ExecuteFacts) -> Result<Execution, Reason> {
    // The same bound as for a tab: whether somebody has the document open must not decide what an edit may be.
    if write.edit_text.len() > facts.max_edit_bytes {
        return Err(Reason::TooLarge);
    }
    let text = edit::apply(&document.text, write.edit, facts.max_doc_bytes)?;
    let document = Document { text, seq: document.seq + 1 };
    let answer = Answer::new(200, json!({"seq": document.seq, "doc": write.doc.as_str()}));
    Ok(Execution::Store { row: store_claimed(row, &answer, facts.now), document })
}

/// The row of a direct write: `done` with its answer, to be written in the write's own transaction (S2).
pub fn store_claimed(row: &KeyRow, answer: &Answer, now: u64) -> KeyRow {
    KeyRow {
        state: KeyState::Done,
        recorded: Some(answer.record()),
        settled_by: Some(SettledBy::Write),
        settled_at: Some(now),
        ..row.clone()
    }
}

/// The row of a claimed write that was refused, and wrote nothing (S4).
pub fn refuse_claimed(row: &KeyRow, answer: Answer, now: u64) -> KeyRow {
    released(row, answer, SettledBy::Write, now)
}

/// The row after a refusal: the answer is recorded beside the highest attempt served, and the key is released (S4).
pub(super) fn released(row: &KeyRow, answer: Answer, by: SettledBy, now: u64) -> KeyRow {
    let mut answer = answer.released();
    answer.body.insert("attempt".into(), row.attempt.into());
    KeyRow {
        state: KeyState::Refused,
        recorded: Some(answer.record()),
        settled_by: Some(by),
        settled_at: Some(now),
        ..row.clone()
    }
}

/// The 4xx for a reason (§3): 409 where the moment was wrong, 413 and 422 where the edit was.
pub(super) fn reason_answer(reason: Reason, detail: Option<&str>) -> Answer {
    let (status, message) = match reason {
        Reason::Expired => (409, "it was not applied in time, and has no effect"),
        Reason::UnconfirmedEdits => (409, "the document has edits that are not saved yet"),
        Reason::NotOpen | Reason::WrongIncarnation => (409, "the document was closed or reloaded meanwhile"),
        Reason::Busy => (409, "an earlier patch of this document does not settle"),
        Reason::DigestMismatch => (409, "the edit was damaged on its way"),
        Reason::PatchIdReused => (409, "the tab knows this patch with another body"),
        Reason::TooLarge => (413, "the edit or the text it makes is too large"),
        Reason::Malformed => (422, "this is not an edit"),
        Reason::HandlerRefused => (422, "the editor refused the edit"),
        Reason::HandlerError => (422, "the editor failed, and nothing was changed"),
        Reason::AnchorNotFound => (422, "the text to look for is not there"),
        Reason::AnchorAmbiguous => (422, "the text to look for is there more than once"),
        Reason::OutOfRange => (422, "an offset is past the end, or inside a character"),
        Reason::ExpectMismatch => (422, "another text is there than expected"),
        Reason::PatchFailed => (422, "the JSON patch does not apply"),
    };
    let answer = Answer::error(status, reason.as_str(), message);
    match detail {
        Some(detail) => answer.with_details(json!({"detail": detail})),
        None => answer,
    }
}
