//! Server → tab.

use super::decode::{FrameError, FrameErrorKind, frame};
use super::reason::{RejectCode, codes};
use crate::digest::Digest;
use crate::ids::{BootId, ConnId, DocId, Incarnation, JournalId, PatchId};
use crate::json::{ObjectWriter, write_string};

/// A frame that the server sends.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerFrame {
    /// The answer to `hello`.
    Welcome(Welcome),
    /// Older epochs and incarnations of this tab are fenced for this document from here on.
    Opened {
        /// The document.
        doc: DocId,
        /// The incarnation that is now the current one.
        incarnation: Incarnation,
        /// The stored document's version.
        seq: u64,
    },
    /// The connection is refused; it closes next.
    Reject(RejectCode),
    /// A patch to apply.
    Patch(PatchFrame),
    /// What do you know of these?
    PatchQuery(Vec<QueryEntry>),
    /// The server's own commit followed what the tab had said (R4).
    PatchConfirmed(Vec<(PatchId, ConfirmedAs)>),
    /// Somebody else committed.
    DocChanged {
        /// The document.
        doc: DocId,
        /// Its new version.
        seq: u64,
    },
    /// The answer to `ping`.
    Pong {
        /// What the ping said.
        t: u64,
        /// The server's clock, in ms since the epoch.
        now: u64,
    },
    /// A type this version does not know; ignored.
    Unknown,
}

/// The answer to `hello`.
#[derive(Clone, Debug, PartialEq)]
pub struct Welcome {
    /// The version the server speaks on this connection.
    pub protocol: u64,
    /// The life of the server process.
    pub boot_id: BootId,
    /// This socket.
    pub conn_id: ConnId,
    /// The server's clock, in ms since the epoch.
    pub now: u64,
    /// How often the tab pings, in ms.
    pub heartbeat_ms: u64,
    /// The largest frame either side sends, in bytes.
    pub max_frame_bytes: u64,
    /// The documents of `hello`, as opened.
    pub docs: Vec<(DocId, Incarnation, u64)>,
    /// What the server can do beyond the protocol's core.
    pub features: Vec<String>,
}

/// A patch handed out to one recipient.
#[derive(Clone, Debug, PartialEq)]
pub struct PatchFrame {
    /// The plan's id.
    pub patch_id: PatchId,
    /// Which hand-out or question this is.
    pub delivery: u64,
    /// The recipient's journal.
    pub journal_id: JournalId,
    /// The document.
    pub doc: DocId,
    /// The recipient's incarnation.
    pub incarnation: Incarnation,
    /// What the sender says the digest of the body is.
    pub digest: Digest,
    /// The edit, as JSON text, exactly as it was received.
    pub body: Box<str>,
    /// Server time after which it must not be applied, in ms since the epoch (J2).
    pub expires_at: u64,
    /// Whether local edits that the server has not confirmed forbid it.
    pub guarded: bool,
    /// The stored version it was planned against.
    pub base_seq: Option<u64>,
}

/// One question of a `patch_query`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryEntry {
    /// The patch.
    pub patch_id: PatchId,
    /// The question's number.
    pub delivery: u64,
    /// The journal the patch had been handed to.
    pub journal_id: JournalId,
}

codes! {
    /// How the server's commit left a patch (R4).
    ConfirmedAs, weakest Unknown {
        /// In the recipient's memory.
        Acked = "acked",
        /// In the stored document.
        Done = "done",
        /// No effect.
        Refused = "refused",
        /// Nobody can tell yet.
        Unknown = "unknown",
    }
}

impl ServerFrame {
    /// Reads a frame.
    ///
    /// # Errors
    /// Text that is no frame of §3.
    pub fn decode(text: &str) -> Result<Self, FrameError> {
        frame(text, |f, frame_type| {
            Ok(match frame_type {
                "welcome" => Self::Welcome(Welcome {
                    protocol: f.integer("protocol")?,
                    boot_id: f.parsed("boot_id")?,
                    conn_id: f.parsed("conn_id")?,
                    now: f.integer("now")?,
                    heartbeat_ms: f.integer("heartbeat_ms")?,
                    max_frame_bytes: f
                        .optional_integer("max_frame_bytes")?
                        .unwrap_or(super::DEFAULT_MAX_FRAME_BYTES as u64),
                    docs: f.list("docs", |d| Ok((d.doc()?, d.parsed("incarnation")?, d.integer("seq")?)))?,
                    features: f.strings("features")?,
                }),
                "opened" => {
                    Self::Opened { doc: f.doc()?, incarnation: f.parsed("incarnation")?, seq: f.integer("seq")? }
                }
                "reject" => Self::Reject(f.coded("code", RejectCode::read)?),
                "patch" => Self::Patch(PatchFrame {
                    patch_id: f.parsed("patch_id")?,
                    delivery: positive(f.integer("delivery")?)?,
                    journal_id: f.parsed("journal_id")?,
                    doc: f.doc()?,
                    incarnation: f.parsed("incarnation")?,
                    digest: f.parsed("digest")?,
                    body: f.raw("body")?.into(),
                    expires_at: f.integer("expires_at")?,
                    guarded: f.bool("guarded")?,
                    base_seq: f.optional_integer("base_seq")?,
                }),
                "patch_query" => Self::PatchQuery(f.list("patches", |p| {
                    Ok(QueryEntry {
                        patch_id: p.parsed("patch_id")?,
                        delivery: positive(p.integer("delivery")?)?,
                        journal_id: p.parsed("journal_id")?,
                    })
                })?),
                "patch_confirmed" => Self::PatchConfirmed(
                    f.list("patches", |p| Ok((p.parsed("patch_id")?, p.coded("as", ConfirmedAs::read)?)))?,
                ),
                "doc_changed" => Self::DocChanged { doc: f.doc()?, seq: f.integer("seq")? },
                "pong" => Self::Pong { t: f.integer("t")?, now: f.integer("now")? },
                _ => Self::Unknown,
            })
        })
    }

    /// The frame's text.
    pub fn encode(&self) -> String {
        let mut out = String::new();
        let mut w = ObjectWriter::new(&mut out);
        match self {
            Self::Welcome(welcome) => welcome.write(&mut w),
            Self::Opened { doc, incarnation, seq } => {
                w.string("type", "opened");
                opened(&mut w, doc, *incarnation, *seq);
            }
            Self::Reject(code) => {
                w.string("type", "reject").string("code", code.as_str());
            }
            Self::Patch(patch) => patch.write(&mut w),
            Self::PatchQuery(entries) => {
                w.string("type", "patch_query").array("patches", entries, |out, e| {
                    ObjectWriter::new(out)
                        .display("patch_id", e.patch_id)
                        .integer("delivery", e.delivery)
                        .display("journal_id", e.journal_id)
                        .end();
                });
            }
            Self::PatchConfirmed(entries) => {
                w.string("type", "patch_confirmed").array("patches", entries, |out, (id, state)| {
                    ObjectWriter::new(out).display("patch_id", id).string("as", state.as_str()).end();
                });
            }
            Self::DocChanged { doc, seq } => {
                w.string("type", "doc_changed").string("doc", doc.as_str()).integer("seq", *seq);
            }
            Self::Pong { t, now } => {
                w.string("type", "pong").integer("t", *t).integer("now", *now);
            }
            Self::Unknown => {
                w.string("type", "unknown");
            }
        }
        w.end();
        out
    }
}

impl Welcome {
    fn write(&self, w: &mut ObjectWriter<'_>) {
        w.string("type", "welcome")
            .integer("protocol", self.protocol)
            .display("boot_id", self.boot_id)
            .display("conn_id", self.conn_id)
            .integer("now", self.now)
            .integer("heartbeat_ms", self.heartbeat_ms)
            .integer("max_frame_bytes", self.max_frame_bytes)
            .array("docs", &self.docs, |out, (doc, incarnation, seq)| {
                let mut w = ObjectWriter::new(out);
                opened(&mut w, doc, *incarnation, *seq);
                w.end();
            })
            .array("features", &self.features, |out, feature| write_string(out, feature));
    }
}

impl PatchFrame {
    fn write(&self, w: &mut ObjectWriter<'_>) {
        w.string("type", "patch")
            .display("patch_id", self.patch_id)
            .integer("delivery", self.delivery)
            .display("journal_id", self.journal_id)
            .string("doc", self.doc.as_str())
            .display("incarnation", self.incarnation)
            .display("digest", self.digest)
            .raw("body", &self.body)
            .integer("expires_at", self.expires_at)
            .bool("guarded", self.guarded);
        if let Some(seq) = self.base_seq {
            w.integer("base_seq", seq);
        }
    }
}

fn opened(w: &mut ObjectWriter<'_>, doc: &DocId, incarnation: Incarnation, seq: u64) {
    w.string("doc", doc.as_str()).display("incarnation", incarnation).integer("seq", seq);
}

fn positive(delivery: u64) -> Result<u64, FrameErrorKind> {
    if delivery == 0 { Err(FrameErrorKind::Field("delivery")) } else { Ok(delivery) }
}
