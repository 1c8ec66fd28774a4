//! `hello`, `open` and the lists in them (R1): what the server is told of what it may have missed.

use super::Session;
use super::document::{CallKind, Owed};
use crate::frame::{
    ConfirmedAs, Hello, MAX_HELLO_BYTES, MAX_UNCONFIRMED, OpenDoc, PROTOCOL, ReportedState, TabFrame, UnconfirmedEntry,
};
use crate::ids::{DocId, PatchId};
use crate::journal::{Record, RecordState};

/// An upper bound of a `hello` or `open` frame without documents, in bytes: ids, principal and field names.
const HELLO_FRAME_BYTES: usize = 2_048;
/// An upper bound of a document's entry without its list and its id, in bytes.
const DOC_BYTES: usize = 256;
/// JSON may spell one byte of an id with six.
const ESCAPE_FACTOR: usize = 6;

impl Session {
    /// The first frame of a connection. Documents that do not fit follow as `open` once `welcome` is in.
    pub(super) fn say_hello(&mut self) {
        let limit = MAX_HELLO_BYTES.min(self.connection.max_frame_bytes);
        let mut room = limit.saturating_sub(HELLO_FRAME_BYTES);
        let mut docs = Vec::new();
        for doc in self.documents.keys().cloned().collect::<Vec<_>>() {
            let fixed = fixed_bytes(&doc);
            if fixed > room {
                break;
            }
            room -= fixed;
            if let Some(open) = self.announcement(&doc, &mut room) {
                docs.push(open);
            }
        }
        self.send(TabFrame::Hello(Hello {
            protocol: PROTOCOL,
            principal: self.principal.clone(),
            tab_id: self.identity.tab_id,
            epoch: self.identity.epoch,
            context_id: self.identity.context_id,
            journal_id: self.journal.id,
            docs,
            adopted: Vec::new(),
            visible: self.visible,
            features: Vec::new(),
        }));
    }

    /// Announces every document that this connection has not heard of.
    pub(super) fn announce_rest(&mut self) {
        let talking = self.connection.talking();
        let unheard = |d: &super::Document| d.announced_on != talking;
        let docs: Vec<_> = self.documents.values().filter(|d| unheard(d)).map(|d| d.id.clone()).collect();
        for doc in docs {
            self.announce(&doc);
        }
    }

    /// Sends `open` for a document.
    pub(super) fn announce(&mut self, doc: &DocId) {
        let fixed = HELLO_FRAME_BYTES.min(self.connection.max_frame_bytes / 2) + fixed_bytes(doc);
        let mut room = self.connection.max_frame_bytes.saturating_sub(fixed);
        if let Some(open) = self.announcement(doc, &mut room) {
            self.send(TabFrame::Open(open));
        }
    }

    /// A document with as much of its list as there is room for, in bytes, which it takes from `room`.
    ///
    /// Where the list is cut the document is announced as `elsewhere`: a list that was cut for want of room is silent
    /// about what it left out (R7).
    fn announcement(&mut self, doc: &DocId, room: &mut usize) -> Option<OpenDoc> {
        let most = if self.connection.shrunk { 0 } else { (*room / UnconfirmedEntry::MAX_BYTES).min(MAX_UNCONFIRMED) };
        let document = self.documents.get(doc)?;
        let entries: Vec<_> = self.journal.open_of(doc).into_iter().filter_map(|r| self.list_entry(r)).collect();
        let list_was_cut = entries.len() > most;
        let unconfirmed: Vec<_> = entries.into_iter().take(most).collect();
        *room -= unconfirmed.len() * UnconfirmedEntry::MAX_BYTES;
        let (incarnation, generation, base_seq) = (document.incarnation, document.generation, document.base_seq);
        let listed: Vec<_> =
            unconfirmed.iter().filter(|e| e.state == ReportedState::Applying).map(|e| e.patch_id).collect();
        for patch_id in listed {
            self.owe_follow_up(patch_id);
        }
        let talking = self.connection.talking();
        let document = self.documents.get_mut(doc)?;
        document.announced_on = talking;
        document.list_was_cut = list_was_cut;
        let homed = document.announced_home();
        Some(OpenDoc { doc: doc.clone(), incarnation, generation, homed, base_seq, unconfirmed })
    }

    /// How a record stands in a list, or `None` where the server knows already.
    fn list_entry(&self, record: &Record) -> Option<UnconfirmedEntry> {
        let document = self.documents.get(&record.doc)?;
        if record.is_open_question(document.incarnation) {
            let under_way = self.is_under_way(record.patch_id);
            let will_be_asked = document.can_tell() && record.incarnation != document.incarnation;
            let state = if under_way || will_be_asked { ReportedState::Applying } else { ReportedState::Unknown };
            return Some(record.entry(state));
        }
        let as_it_is = matches!(record.confirmed, Some(ConfirmedAs::Acked | ConfirmedAs::Done));
        let known = document.fenced_at.is_some() && as_it_is && record.state == RecordState::Applied;
        (!known).then(|| record.entry(record.reported()))
    }

    /// A call that was listed as `applying` owes its answer to this connection (J5).
    fn owe_follow_up(&mut self, patch_id: PatchId) {
        for call in self.calls.values_mut().filter(|c| c.patch_id == patch_id) {
            if let CallKind::Reconcile(question) = &mut call.kind
                && matches!(question.owed, Owed::Nothing)
            {
                question.owed = Owed::FollowUp;
            }
        }
    }

    /// Whether the host's code runs for this patch.
    pub(super) fn is_under_way(&self, patch_id: PatchId) -> bool {
        self.calls.values().any(|c| c.patch_id == patch_id)
    }
}

fn fixed_bytes(doc: &DocId) -> usize {
    DOC_BYTES + doc.as_str().len() * ESCAPE_FACTOR
}
