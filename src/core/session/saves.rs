//! Marks and saves (J6, W1–W3): which patches a snapshot holds, and what the server's answer makes of them.

use super::document::{Call, CallKind, Owed, Work};
use super::{Session, Status};
use crate::error::CallError;
use crate::ids::{DocId, Incarnation, PatchId};
use crate::journal::RecordState;
use crate::json::{self, ObjectWriter, Value, write_string};
use crate::outbox::json_of;
use crate::time::Now;

/// Every patch whose effect is in a document's text at the moment the mark was taken, and not known to be flushed.
/// Taken in the same task as the snapshot it speaks of (W1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The document.
    pub doc: DocId,
    /// Its content's lineage.
    pub incarnation: Incarnation,
    /// Orders the lineages of this tab, with its epoch (W1).
    pub generation: u64,
    /// The stored version it is based on.
    pub base_seq: u64,
    /// The patches.
    pub patch_ids: Vec<PatchId>,
    /// Patches of which nobody can tell whether this text holds them: a handler that threw or never settled. A save
    /// names them too, so that the server never takes a later silence about them for proof of absence: R7 rests on
    /// every effect leaving the tab in a save that names it, and these may leave unnamed.
    pub in_doubt: Vec<PatchId>,
}

/// A save as W1 asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaveRequest {
    /// The document.
    pub doc: DocId,
    /// The body, as JSON text.
    pub body: String,
}

/// What came back for a save.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SaveAnswer {
    /// A whole answer.
    Answered {
        /// Its status.
        status: u16,
        /// Its `Content-Type`: what is no JSON by its type is not read (K5).
        content_type: Option<String>,
        /// Its body.
        body: String,
    },
    /// None, or only part of one.
    Failed {
        /// Why, for a person.
        detail: String,
    },
}

/// What a save came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SaveOutcome {
    /// Committed: its patches are flushed.
    Saved {
        /// The stored document's version now.
        seq: u64,
    },
    /// The stored document had moved on; nothing was written (W1). The content must be merged into a new incarnation,
    /// without bringing `patch_ids` in again (W3).
    Conflict {
        /// The stored document's version.
        seq: u64,
        /// Those of the save's patches that the stored text already holds.
        patch_ids: Vec<PatchId>,
        /// Those that it may hold: an earlier save carried them in doubt, or this one did. What a merge brings in must
        /// come from comparing texts, never from applying these again (P1).
        in_doubt: Vec<PatchId>,
    },
    /// A later instance of this tab has taken over; nothing was written (W1). This instance is dead.
    Fenced,
    /// Refused for another reason; nothing was written.
    Refused {
        /// The HTTP status.
        status: u16,
        /// The error's code, where the body names one.
        code: Option<String>,
    },
    /// Nobody can tell whether it was committed. The next save will find out.
    Unknown {
        /// Why, for a person.
        detail: String,
    },
}

impl Session {
    /// Takes a mark, now.
    ///
    /// # Errors
    /// [`CallError::HandlerRunning`] while a handler of this incarnation runs, for `handler_timeout_ms` at most: a
    /// snapshot taken now may or may not hold its effect, so no save of it could name its patches truthfully (W1).
    /// One that does not settle in time holds nobody up: it is in doubt from then on. [`CallError::NotAnnounced`] until
    /// the server has said `opened` and the hook has answered, while there is a connection. [`CallError::NotOpen`] where this
    /// incarnation is not the open one; [`CallError::Fenced`], [`CallError::Closed`].
    pub fn mark(&mut self, now: Now, doc: &DocId, incarnation: Incarnation) -> Result<Mark, CallError> {
        if self.open_effects(doc).any(|c| c.incarnation == incarnation && !c.overdue) {
            return Err(CallError::HandlerRunning);
        }
        if self.is_current(doc, incarnation) && self.is_being_announced(doc) {
            return Err(CallError::NotAnnounced);
        }
        self.mark_before_effect(now, doc, incarnation)
    }

    /// Takes a mark while a handler may run of which the host knows that it has not changed the text yet.
    ///
    /// # Errors
    /// As [`Session::mark`], but for [`CallError::HandlerRunning`].
    pub fn mark_before_effect(&mut self, now: Now, doc: &DocId, incarnation: Incarnation) -> Result<Mark, CallError> {
        let mark = self.what_is_held(doc, incarnation)?;
        for patch_id in &mark.in_doubt {
            self.change_record(*patch_id, |record| record.doubted = true);
        }
        self.advance(now, [0; 2]);
        Ok(mark)
    }

    fn what_is_held(&self, doc: &DocId, incarnation: Incarnation) -> Result<Mark, CallError> {
        self.check_live()?;
        let document = self.documents.get(doc).filter(|d| d.incarnation == incarnation).ok_or(CallError::NotOpen)?;
        // A handler of an earlier incarnation may yet reach into this text, or has; nobody waits for it.
        let is_doubtful = |c: &&Call| c.overdue || c.incarnation != incarnation;
        let mut in_doubt: Vec<_> = self.open_effects(doc).filter(is_doubtful).map(|c| c.patch_id).collect();
        // Open questions of dead incarnations too: nobody has said yet whether this content holds their effects.
        let open = self.journal.open_of(doc).into_iter().filter(|r| r.is_open_question(incarnation));
        let named: Vec<_> = open.map(|r| r.patch_id).filter(|id| !in_doubt.contains(id)).collect();
        in_doubt.extend(named);
        in_doubt.retain(|id| !document.carries(*id));
        let mut patch_ids = self.journal.unflushed_in(doc, incarnation);
        patch_ids.extend(document.carried.iter().filter(|c| !c.flushed).map(|c| c.patch_id));
        let (generation, base_seq) = (document.generation, document.base_seq);
        Ok(Mark { doc: doc.clone(), incarnation, generation, base_seq, patch_ids, in_doubt })
    }

    /// Whether the server's word about this content, or the hook's about what it holds, is on its way: a save waits for
    /// both, for as long as there is a socket on which they may come.
    fn is_being_announced(&self, doc: &DocId) -> bool {
        let asks = |call: &&Call| matches!(call.kind, CallKind::Reconcile(_)) && call.doc == *doc && !call.overdue;
        let waits =
            |d: &super::Document| d.fenced_at.is_none() || d.lane.queue.iter().any(|w| matches!(w, Work::Reconcile(_)));
        self.is_taking_back(doc)
            || self.connection.socket().is_some()
                && (self.documents.get(doc).is_some_and(waits) || self.calls.values().any(|c| asks(&c)))
    }

    /// The calls that may or may not have changed the document's text by now.
    fn open_effects(&self, doc: &DocId) -> impl Iterator<Item = &Call> {
        let may_have = |k: &CallKind| match k {
            CallKind::Handler { .. } => true,
            CallKind::Reconcile(question) => matches!(question.owed, Owed::Throw),
        };
        self.calls.values().filter(move |c| c.doc == *doc && may_have(&c.kind))
    }

    /// Whether content that came without an effect is still taking the word back that a local store would bring it (J6):
    /// the host gets the document once that is durable. It ends with [`super::Notice::Settled`].
    pub fn is_taking_back(&self, doc: &DocId) -> bool {
        self.documents.get(doc).is_some_and(|d| d.taking_back.is_some())
    }

    /// A local store will bring back, with the document, every effect the mark names, and no other: what an earlier
    /// draft held and this one does not name is `kept` no longer (J6).
    ///
    /// # Errors
    /// The session has ended.
    pub fn kept(&mut self, now: Now, mark: &Mark) -> Result<(), CallError> {
        self.check_live()?;
        let of_doc = self.journal.open_of(&mark.doc).into_iter();
        for patch_id in of_doc.map(|record| record.patch_id).collect::<Vec<_>>() {
            let kept = mark.patch_ids.contains(&patch_id);
            self.change_record(patch_id, |record| record.kept = kept || (record.kept && record.flushed));
        }
        self.advance(now, [0; 2]);
        Ok(())
    }

    /// The server has confirmed a save that the host made by itself, by W1, of a snapshot taken with this mark (J6).
    ///
    /// # Errors
    /// [`CallError::InvalidArgument`] where `seq` is not past the version the mark was based on; the session has ended.
    pub fn flushed(&mut self, now: Now, mark: &Mark, seq: u64) -> Result<(), CallError> {
        self.check_live()?;
        if seq <= mark.base_seq || seq > json::MAX_SAFE_INTEGER {
            return Err(CallError::InvalidArgument("seq"));
        }
        self.set_flushed(mark, &mark.patch_ids);
        if let Some(document) = self.documents.get_mut(&mark.doc).filter(|d| d.incarnation == mark.incarnation) {
            document.base_seq = document.base_seq.max(seq);
            // The stored document of that version is what this content is based on now.
            document.stored_ahead.clear();
        }
        self.advance(now, [0; 2]);
        Ok(())
    }

    /// The request that saves `text`, which was taken in the same task as the mark (W1).
    ///
    /// # Errors
    /// The mark's incarnation is not the open one any more, or the session has ended.
    pub fn save_request(&self, mark: &Mark, text: &str) -> Result<SaveRequest, CallError> {
        self.check_live()?;
        if !self.is_current(&mark.doc, mark.incarnation) {
            return Err(CallError::NotOpen);
        }
        let mut body = String::with_capacity(text.len() + 256);
        ObjectWriter::new(&mut body)
            .string("text", text)
            .display("tab_id", self.identity.tab_id)
            .integer("epoch", self.identity.epoch)
            .display("incarnation", mark.incarnation)
            .integer("generation", mark.generation)
            .integer("base_seq", mark.base_seq)
            .array("patch_ids", &mark.patch_ids, |out, id| write_string(out, &id.to_string()))
            .array("in_doubt", &mark.in_doubt, |out, id| write_string(out, &id.to_string()))
            .end();
        Ok(SaveRequest { doc: mark.doc.clone(), body })
    }

    /// Reads the answer to a save and records what it settles. Only a readable 2xx of the server counts as committed.
    pub fn save_answered(&mut self, now: Now, mark: &Mark, answer: &SaveAnswer) -> SaveOutcome {
        let mut outcome = read_answer(answer);
        if self.status != Status::Live {
            return outcome;
        }
        match &mut outcome {
            SaveOutcome::Saved { seq } if self.flushed(now, mark, *seq).is_err() => {
                return SaveOutcome::Unknown {
                    detail: "the answer names a version that is not past the save's base".into(),
                };
            }
            SaveOutcome::Conflict { patch_ids, .. } => {
                let held: Vec<_> = mark.patch_ids.iter().filter(|id| patch_ids.contains(id)).copied().collect();
                self.set_flushed(mark, &held);
                // A save of this content may have been committed though its answer was lost: the server is not told of
                // its patches again, and so names them no more (W1). The host sees one list (W3).
                let document = self.documents.get(&mark.doc).filter(|d| d.incarnation == mark.incarnation);
                let known = document.into_iter().flat_map(|d| &d.stored_ahead);
                let known: Vec<_> = known.filter(|id| !patch_ids.contains(id)).copied().collect();
                patch_ids.extend(known);
                self.advance(now, [0; 2]);
            }
            _ => {}
        }
        outcome
    }

    fn set_flushed(&mut self, mark: &Mark, patch_ids: &[PatchId]) {
        if let Some(document) = self.documents.get_mut(&mark.doc).filter(|d| d.incarnation == mark.incarnation) {
            document.note_stored(patch_ids);
        }
        for patch_id in patch_ids {
            // A save that held it was committed: whatever was doubted meanwhile, it is in the stored document (P5).
            self.change_record(*patch_id, |record| {
                record.state = RecordState::Applied;
                record.flushed = true;
            });
        }
    }
}

fn read_answer(answer: &SaveAnswer) -> SaveOutcome {
    let (status, content_type, body) = match answer {
        SaveAnswer::Failed { detail } => return SaveOutcome::Unknown { detail: detail.clone() },
        SaveAnswer::Answered { status, content_type, body } => (*status, content_type.as_deref(), body),
    };
    let value = json_of(content_type, body).unwrap_or(Value::Null);
    let error = value.field("error");
    let code = error.and_then(|e| e.field("code")).and_then(Value::as_str);
    match status {
        200..=299 => match value.field("seq").and_then(Value::as_integer) {
            Some(seq) => SaveOutcome::Saved { seq },
            None => SaveOutcome::Unknown { detail: "the answer to the save could not be read".into() },
        },
        409 if code == Some("save_fenced") => SaveOutcome::Fenced,
        409 if code == Some("save_conflict") => {
            let details = error.and_then(|e| e.field("details"));
            match details.and_then(|d| d.field("seq")).and_then(Value::as_integer) {
                Some(seq) => SaveOutcome::Conflict {
                    seq,
                    patch_ids: patches(details, "patch_ids"),
                    in_doubt: patches(details, "in_doubt"),
                },
                None => SaveOutcome::Refused { status, code: code.map(Into::into) },
            }
        }
        300..=499 if status != 408 && status != 425 && status != 429 => {
            SaveOutcome::Refused { status, code: code.map(Into::into) }
        }
        _ => SaveOutcome::Unknown { detail: "status ".to_owned() + &status.to_string() },
    }
}

fn patches(details: Option<&Value<'_>>, field: &str) -> Vec<PatchId> {
    let ids = details.and_then(|d| d.field(field)).and_then(Value::as_array).unwrap_or_default();
    ids.iter().filter_map(|id| id.as_str()?.parse().ok()).collect()
}
