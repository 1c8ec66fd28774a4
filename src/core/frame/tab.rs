//! Tab → server.

use super::decode::{Fields, FrameError, FrameErrorKind, frame};
use super::reason::{Reason, codes};
use crate::digest::Digest;
use crate::ids::{ContextId, DocId, Incarnation, JournalId, PatchId, TabId};
use crate::json::{ObjectWriter, write_string};

/// A frame that a tab sends.
#[derive(Clone, Debug, PartialEq)]
pub enum TabFrame {
    /// Who this is and what is open; the first frame on every connection.
    Hello(Hello),
    /// A document opens later, or its content is replaced.
    Open(OpenDoc),
    /// A document closes.
    Close {
        /// The document.
        doc: DocId,
        /// Its incarnation.
        incarnation: Incarnation,
    },
    /// Directly before the effect.
    PatchStart {
        /// The patch.
        patch_id: PatchId,
        /// The hand-out that is being applied.
        delivery: u64,
    },
    /// The effect is in the document.
    PatchAck(AckFrame),
    /// Proven: no effect from any delivery up to this one.
    PatchRefuse {
        /// The patch.
        patch_id: PatchId,
        /// The hand-out that is answered.
        delivery: u64,
        /// Why.
        reason: Reason,
        /// More for a person, at most [`super::MAX_DETAIL_BYTES`].
        detail: Option<String>,
    },
    /// The tab cannot tell.
    PatchUnknown {
        /// The patch.
        patch_id: PatchId,
        /// The hand-out that is answered.
        delivery: u64,
        /// More for a person.
        detail: Option<String>,
    },
    /// The answer to `patch_query`.
    PatchState {
        /// The patch.
        patch_id: PatchId,
        /// The question's number.
        delivery: u64,
        /// What the tab knows.
        state: ReportedState,
        /// Why, where refused.
        reason: Option<Reason>,
    },
    /// Heartbeat, and at once when visibility changes.
    Ping {
        /// Comes back in `pong`.
        t: u64,
        /// Whether the page can be seen: the election prefers those (S5).
        visible: bool,
    },
    /// A type this version does not know; ignored.
    Unknown,
}

/// The first frame on every connection (R1).
#[derive(Clone, Debug, PartialEq)]
pub struct Hello {
    /// The version the tab speaks.
    pub protocol: u64,
    /// The principal whose records these are (T6).
    pub principal: String,
    /// The browsing context.
    pub tab_id: TabId,
    /// How often a context has taken this tab id.
    pub epoch: u64,
    /// This load of the page.
    pub context_id: ContextId,
    /// The journal.
    pub journal_id: JournalId,
    /// Open documents.
    pub docs: Vec<OpenDoc>,
    /// Dead tabs whose matters this one has taken over (T5).
    pub adopted: Vec<Adopted>,
    /// Whether the page can be seen (S5).
    pub visible: bool,
    /// What the tab can do beyond the protocol's core.
    pub features: Vec<String>,
}

/// A document as the tab has it open.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenDoc {
    /// The document.
    pub doc: DocId,
    /// The lineage of its content in memory.
    pub incarnation: Incarnation,
    /// Orders the tab's contents of the document, with its epoch (W1); 0 where the tab does not say.
    pub generation: u64,
    /// Whether its content leaves the tab only in saves by W1 (R7).
    pub homed: Homed,
    /// The stored version that this content was loaded from.
    pub base_seq: u64,
    /// Records the server has not confirmed.
    pub unconfirmed: Vec<UnconfirmedEntry>,
}

/// A dead tab that was taken over.
#[derive(Clone, Debug, PartialEq)]
pub struct Adopted {
    /// Its id.
    pub tab_id: TabId,
    /// The epoch it was raised to.
    pub epoch: u64,
    /// Its records.
    pub unconfirmed: Vec<UnconfirmedEntry>,
}

/// One record in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct UnconfirmedEntry {
    /// The patch.
    pub patch_id: PatchId,
    /// The digest it was recorded with.
    pub digest: Digest,
    /// What the tab knows.
    pub state: ReportedState,
    /// Why, where refused.
    pub reason: Option<Reason>,
}

/// An acknowledgement.
#[derive(Clone, Debug, PartialEq)]
pub struct AckFrame {
    /// The patch.
    pub patch_id: PatchId,
    /// The hand-out that is answered.
    pub delivery: u64,
    /// Whether the effect was made by an earlier hand-out.
    pub replayed: bool,
    /// When the effect was made, by the tab's estimate of server time, in ms since the epoch.
    pub applied_at: u64,
    /// What the handler returned, as JSON text of at most [`super::MAX_RESULT_BYTES`].
    pub result: Option<String>,
}

codes! {
    /// Where a document's content can come from and go to (R7).
    Homed, weakest Elsewhere {
        /// It leaves a tab only in saves by W1, and no local draft restores it.
        Server = "server",
        /// There is another way.
        Elsewhere = "elsewhere",
    }
}

codes! {
    /// What a tab says of a patch in a list or an answer.
    ReportedState, weakest Unknown {
        /// The effect is in the document.
        Applied = "applied",
        /// No effect.
        Refused = "refused",
        /// Under way; exactly one of ack, refuse, unknown or `not_seen` follows on this connection (J5).
        Applying = "applying",
        /// The tab cannot tell.
        Unknown = "unknown",
        /// Proven: no effect so far (J12).
        NotSeen = "not_seen",
    }
}

impl TabFrame {
    /// Reads a frame.
    ///
    /// # Errors
    /// Text that is no frame of §3.
    pub fn decode(text: &str) -> Result<Self, FrameError> {
        frame(text, |f, frame_type| {
            Ok(match frame_type {
                "hello" => Self::Hello(Hello {
                    protocol: f.integer("protocol")?,
                    principal: f.str("principal")?.into(),
                    tab_id: f.parsed("tab_id")?,
                    epoch: f.integer("epoch")?,
                    context_id: f.parsed("context_id")?,
                    journal_id: f.parsed("journal_id")?,
                    docs: f.list("docs", OpenDoc::read)?,
                    adopted: f.list("adopted", |a| {
                        Ok(Adopted {
                            tab_id: a.parsed("tab_id")?,
                            epoch: a.integer("epoch")?,
                            unconfirmed: a.list("unconfirmed", UnconfirmedEntry::read)?,
                        })
                    })?,
                    visible: visible(f)?,
                    features: f.strings("features")?,
                }),
                "open" => Self::Open(OpenDoc::read(f)?),
                "close" => Self::Close { doc: f.doc()?, incarnation: f.parsed("incarnation")? },
                "patch_start" => Self::PatchStart { patch_id: f.parsed("patch_id")?, delivery: f.integer("delivery")? },
                "patch_ack" => Self::PatchAck(AckFrame {
                    patch_id: f.parsed("patch_id")?,
                    delivery: f.integer("delivery")?,
                    replayed: f.bool("replayed")?,
                    applied_at: f.integer("applied_at")?,
                    result: f.optional("result").and_then(|_| f.raw("result").ok()).map(Into::into),
                }),
                "patch_refuse" => Self::PatchRefuse {
                    patch_id: f.parsed("patch_id")?,
                    delivery: f.integer("delivery")?,
                    reason: f.coded("reason", Reason::read)?,
                    detail: f.optional_str("detail")?.map(Into::into),
                },
                "patch_unknown" => Self::PatchUnknown {
                    patch_id: f.parsed("patch_id")?,
                    delivery: f.integer("delivery")?,
                    detail: f.optional_str("detail")?.map(Into::into),
                },
                "patch_state" => Self::PatchState {
                    patch_id: f.parsed("patch_id")?,
                    delivery: f.integer("delivery")?,
                    state: f.coded("state", ReportedState::read)?,
                    reason: reason(f)?,
                },
                "ping" => Self::Ping { t: f.integer("t")?, visible: visible(f)? },
                _ => Self::Unknown,
            })
        })
    }

    /// The frame's text.
    pub fn encode(&self) -> String {
        let mut out = String::new();
        let mut w = ObjectWriter::new(&mut out);
        match self {
            Self::Hello(hello) => hello.write(&mut w),
            Self::Open(open) => {
                w.string("type", "open");
                open.write(&mut w);
            }
            Self::Close { doc, incarnation } => {
                w.string("type", "close").string("doc", doc.as_str()).display("incarnation", incarnation);
            }
            Self::PatchStart { patch_id, delivery } => {
                about(&mut w, "patch_start", *patch_id, *delivery);
            }
            Self::PatchAck(ack) => {
                about(&mut w, "patch_ack", ack.patch_id, ack.delivery)
                    .bool("replayed", ack.replayed)
                    .integer("applied_at", ack.applied_at);
                if let Some(result) = &ack.result {
                    w.raw("result", result);
                }
            }
            Self::PatchRefuse { patch_id, delivery, reason, detail } => {
                about(&mut w, "patch_refuse", *patch_id, *delivery).string("reason", reason.as_str());
                optional(&mut w, "detail", detail.as_deref());
            }
            Self::PatchUnknown { patch_id, delivery, detail } => {
                about(&mut w, "patch_unknown", *patch_id, *delivery);
                optional(&mut w, "detail", detail.as_deref());
            }
            Self::PatchState { patch_id, delivery, state, reason } => {
                about(&mut w, "patch_state", *patch_id, *delivery).string("state", state.as_str());
                optional(&mut w, "reason", reason.map(Reason::as_str));
            }
            Self::Ping { t, visible } => {
                w.string("type", "ping").integer("t", *t).bool("visible", *visible);
            }
            Self::Unknown => {
                w.string("type", "unknown");
            }
        }
        w.end();
        out
    }
}

impl Hello {
    fn write(&self, w: &mut ObjectWriter<'_>) {
        w.string("type", "hello")
            .integer("protocol", self.protocol)
            .string("principal", &self.principal)
            .display("tab_id", self.tab_id)
            .integer("epoch", self.epoch)
            .display("context_id", self.context_id)
            .display("journal_id", self.journal_id)
            .array("docs", &self.docs, |out, doc| {
                let mut w = ObjectWriter::new(out);
                doc.write(&mut w);
                w.end();
            })
            .array("adopted", &self.adopted, |out, adopted| {
                ObjectWriter::new(out)
                    .display("tab_id", adopted.tab_id)
                    .integer("epoch", adopted.epoch)
                    .array("unconfirmed", &adopted.unconfirmed, UnconfirmedEntry::write)
                    .end();
            })
            .bool("visible", self.visible)
            .array("features", &self.features, |out, feature| write_string(out, feature));
    }
}

impl OpenDoc {
    fn read(f: &Fields<'_, '_>) -> Result<Self, FrameErrorKind> {
        Ok(Self {
            doc: f.doc()?,
            incarnation: f.parsed("incarnation")?,
            generation: f.optional_integer("generation")?.unwrap_or(0),
            homed: f.coded("homed", Homed::read)?,
            base_seq: f.integer("base_seq")?,
            unconfirmed: f.list("unconfirmed", UnconfirmedEntry::read)?,
        })
    }

    fn write(&self, w: &mut ObjectWriter<'_>) {
        w.string("doc", self.doc.as_str())
            .display("incarnation", self.incarnation)
            .integer("generation", self.generation)
            .string("homed", self.homed.as_str())
            .integer("base_seq", self.base_seq)
            .array("unconfirmed", &self.unconfirmed, UnconfirmedEntry::write);
    }
}

impl UnconfirmedEntry {
    fn read(f: &Fields<'_, '_>) -> Result<Self, FrameErrorKind> {
        Ok(Self {
            patch_id: f.parsed("patch_id")?,
            digest: f.parsed("digest")?,
            state: f.coded("state", ReportedState::read)?,
            reason: reason(f)?,
        })
    }

    fn write(out: &mut String, entry: &Self) {
        let mut w = ObjectWriter::new(out);
        w.display("patch_id", entry.patch_id).display("digest", entry.digest).string("state", entry.state.as_str());
        optional(&mut w, "reason", entry.reason.map(Reason::as_str));
        w.end();
    }

    /// An upper bound of an entry's size on the wire, in bytes, with the comma before it.
    pub const MAX_BYTES: usize = 200;
}

fn reason(f: &Fields<'_, '_>) -> Result<Option<Reason>, FrameErrorKind> {
    Ok(f.optional_str("reason")?.map(Reason::read))
}

/// A tab that does not say is taken to be visible.
fn visible(f: &Fields<'_, '_>) -> Result<bool, FrameErrorKind> {
    Ok(f.optional_bool("visible")?.unwrap_or(true))
}

fn about<'w, 'o>(
    w: &'w mut ObjectWriter<'o>,
    frame_type: &str,
    patch_id: PatchId,
    delivery: u64,
) -> &'w mut ObjectWriter<'o> {
    w.string("type", frame_type).display("patch_id", patch_id).integer("delivery", delivery)
}

fn optional(w: &mut ObjectWriter<'_>, key: &str, text: Option<&str>) {
    if let Some(text) = text {
        w.string(key, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Uuid;

    #[test]
    fn an_entry_never_exceeds_its_bound() {
        for reason in Reason::ALL {
            let entry = UnconfirmedEntry {
                patch_id: PatchId(Uuid::v4(u128::MAX)),
                digest: Digest::of(b""),
                state: ReportedState::Applying,
                reason: Some(*reason),
            };
            let mut out = String::from(",");
            UnconfirmedEntry::write(&mut out, &entry);
            assert!(out.len() <= UnconfirmedEntry::MAX_BYTES, "{}", out.len());
        }
    }
}
