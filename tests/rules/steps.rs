//! Frames of a scripted server.

use patchkeep_core::frame::{PROTOCOL, ServerFrame, Welcome};
use patchkeep_core::ids::{BootId, ConnId, DocId, Incarnation, Uuid};

/// `welcome`.
pub fn welcome(now: u64, max_frame_bytes: u64, docs: Vec<(DocId, Incarnation, u64)>) -> String {
    ServerFrame::Welcome(Welcome {
        protocol: PROTOCOL,
        boot_id: BootId(Uuid::v4(1)),
        conn_id: ConnId(Uuid::v4(2)),
        now,
        heartbeat_ms: 15_000,
        max_frame_bytes,
        docs,
        features: Vec::new(),
    })
    .encode()
}

/// `opened`.
pub fn opened(doc: &DocId, incarnation: Incarnation, seq: u64) -> String {
    ServerFrame::Opened { doc: doc.clone(), incarnation, seq }.encode()
}

/// `pong`.
pub fn pong(t: u64, now: u64) -> String {
    ServerFrame::Pong { t, now }.encode()
}
