//! Records, states and outcomes as JSON text in the protocol's spelling; `pkg/src/wire.ts` reads it.

use patchkeep_core::ids::PatchId;
use patchkeep_core::json::{ObjectWriter, write_string};
use patchkeep_core::session::{ConnectionState, Notice, RecordView, SaveOutcome, Session, Status};

/// Who a session is, and how it stands.
pub fn info(session: &Session) -> String {
    let identity = session.identity();
    let mut out = String::new();
    let mut w = ObjectWriter::new(&mut out);
    w.display("tab_id", identity.tab_id)
        .integer("epoch", identity.epoch)
        .display("context_id", identity.context_id)
        .display("journal_id", identity.journal_id)
        .bool("weak", identity.weak)
        .string("durability", session.durability().as_str())
        .string("status", status(session.status()))
        .raw("connection", &connection(session.connection()));
    w.end();
    out
}

/// Every record.
pub fn records(records: &[RecordView]) -> String {
    let mut out = String::from("[");
    for (i, view) in records.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        write_record(&mut out, view);
    }
    out.push(']');
    out
}

/// One record.
pub fn record(view: &RecordView) -> String {
    let mut out = String::with_capacity(RECORD_BYTES);
    write_record(&mut out, view);
    out
}

/// A notice: its kind, and what it says.
pub fn notice(notice: &Notice) -> (&'static str, String) {
    let mut out = String::new();
    match notice {
        Notice::Connection(state) => ("connection", connection(*state)),
        Notice::Status(now) => ("status", string(status(*now))),
        Notice::Record(view) => ("record", record(view)),
        Notice::Settled { doc } => ("settled", string(doc.as_str())),
        Notice::Durability { durability, fault, journal_id } => {
            let mut w = ObjectWriter::new(&mut out);
            w.string("durability", durability.as_str()).display("journal_id", journal_id);
            if let Some(fault) = fault {
                w.string("fault", fault.code());
            }
            w.end();
            ("durability", out)
        }
        Notice::RecordGone { doc, patch_id } => {
            ObjectWriter::new(&mut out).string("doc", doc.as_str()).display("patch_id", patch_id).end();
            ("gone", out)
        }
        Notice::Opened { doc, incarnation, seq } => {
            let mut w = ObjectWriter::new(&mut out);
            w.string("doc", doc.as_str()).display("incarnation", incarnation).integer("seq", *seq).end();
            ("opened", out)
        }
        Notice::DocChanged { doc, seq } => {
            ObjectWriter::new(&mut out).string("doc", doc.as_str()).integer("seq", *seq).end();
            ("changed", out)
        }
        Notice::Problem { code, patch_id, detail } => {
            let mut w = ObjectWriter::new(&mut out);
            w.string("code", code.code()).string("detail", detail);
            if let Some(patch_id) = patch_id {
                w.display("patch_id", patch_id);
            }
            w.end();
            ("problem", out)
        }
    }
}

/// What a save came to.
pub fn save_outcome(outcome: &SaveOutcome) -> String {
    let mut out = String::new();
    let mut w = ObjectWriter::new(&mut out);
    match outcome {
        SaveOutcome::Saved { seq } => w.string("status", "saved").integer("seq", *seq),
        SaveOutcome::Conflict { seq, patch_ids, in_doubt } => {
            let id = |out: &mut String, id: &PatchId| write_string(out, &id.to_string());
            w.string("status", "conflict").integer("seq", *seq);
            w.array("patch_ids", patch_ids, id).array("in_doubt", in_doubt, id)
        }
        SaveOutcome::Fenced => w.string("status", "fenced"),
        SaveOutcome::Refused { status, code } => {
            w.string("status", "refused").integer("http_status", u64::from(*status));
            if let Some(code) = code {
                w.string("code", code);
            }
            &mut w
        }
        SaveOutcome::Unknown { detail } => w.string("status", "unknown").string("detail", detail),
    };
    w.end();
    out
}

fn write_record(out: &mut String, view: &RecordView) {
    let mut w = ObjectWriter::new(out);
    w.display("patch_id", view.patch_id)
        .string("doc", view.doc.as_str())
        .string("state", view.state.as_str())
        .display("incarnation", view.incarnation)
        .bool("current", view.current)
        .integer("delivery", view.delivery)
        .integer("replays", view.replays)
        .bool("kept", view.kept)
        .bool("flushed", view.flushed)
        .integer("received_at", view.received_at);
    if let Some(reason) = view.reason {
        w.string("reason", reason.as_str());
    }
    if let Some(confirmed) = view.confirmed {
        w.string("confirmed", confirmed.as_str());
    }
    if let Some(at) = view.settled_at {
        w.integer("settled_at", at);
    }
    if let Some(result) = &view.result {
        w.raw("result", result);
    }
    w.end();
}

fn connection(state: ConnectionState) -> String {
    let mut out = String::new();
    let mut w = ObjectWriter::new(&mut out);
    match state {
        ConnectionState::Waiting { until_ms } => w.string("state", "waiting").integer("until_ms", until_ms),
        ConnectionState::Connecting => w.string("state", "connecting"),
        ConnectionState::Live => w.string("state", "live"),
        ConnectionState::Held(code) => w.string("state", "held").string("code", code.as_str()),
        ConnectionState::Suspended => w.string("state", "suspended"),
        ConnectionState::Ended => w.string("state", "ended"),
    };
    w.end();
    out
}

const fn status(status: Status) -> &'static str {
    match status {
        Status::Live => "live",
        Status::Fenced => "fenced",
        Status::Closed => "closed",
    }
}

fn string(text: &str) -> String {
    let mut out = String::new();
    write_string(&mut out, text);
    out
}

/// Room for a record with short names.
const RECORD_BYTES: usize = 384;
