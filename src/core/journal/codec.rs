//! A record's text form: one JSON object, field names as in §4. What retention has shrunk (J10) has fewer of them.

use super::record::{Record, RecordState};
use crate::frame::{ConfirmedAs, Reason};
use crate::ids::DocId;
use crate::json::{self, ObjectWriter, Value};

/// A stored text that is no record of this version. It is left where it is and reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a stored record could not be read")]
pub struct CorruptRecord;

impl Record {
    /// The text form.
    pub fn encode(&self) -> String {
        let mut out = String::with_capacity(512);
        let mut w = ObjectWriter::new(&mut out);
        w.string("doc", self.doc.as_str())
            .display("patch_id", self.patch_id)
            .display("digest", self.digest)
            .string("state", self.state.as_str());
        if !self.is_shrunk() {
            w.display("incarnation", self.incarnation)
                .integer("epoch", self.epoch)
                .integer("delivery", self.delivery)
                .integer("local_seq", self.local_seq)
                .integer("received_at", self.received_at)
                .bool("kept", self.kept)
                .bool("flushed", self.flushed)
                .bool("doubted", self.doubted);
            if let Some(confirmed) = self.confirmed {
                w.string("confirmed", confirmed.as_str());
            }
            if let Some(result) = &self.result {
                w.raw("result", result);
            }
        }
        if let Some(reason) = self.reason_word() {
            w.string("reason", reason);
        }
        if let Some(at) = self.settled_at {
            w.integer("settled_at", at);
        }
        w.end();
        out
    }

    /// Reads the text form.
    ///
    /// # Errors
    /// [`CorruptRecord`] for anything that [`Record::encode`] does not write.
    pub fn decode(text: &str) -> Result<Self, CorruptRecord> {
        let value = json::parse(text).map_err(|_| CorruptRecord)?;
        read(&value).ok_or(CorruptRecord)
    }
}

fn read(value: &Value<'_>) -> Option<Record> {
    let text = |name: &str| value.field(name).and_then(Value::as_str);
    let integer = |name: &str| value.field(name).and_then(Value::as_integer);
    let flag = |name: &str| value.field(name).and_then(Value::as_bool);
    let state = RecordState::from_code(text("state")?)?;
    let doc = DocId::new(text("doc")?)?;
    let (patch_id, digest) = (text("patch_id")?.parse().ok()?, text("digest")?.parse().ok()?);
    let reason = text("reason").map(Reason::read);
    let other_reason = text("reason").filter(|word| Reason::from_code(word).is_none()).map(Into::into);
    let settled_at = integer("settled_at");
    if value.field("incarnation").is_none() {
        // Only what was final was shrunk.
        let is_final = matches!(state, RecordState::Applied | RecordState::Refused);
        let left = Record::what_is_left(doc, patch_id, digest, state, reason, settled_at?);
        return is_final.then_some(Record { other_reason, ..left });
    }
    let flushed = flag("flushed")?;
    if flushed && state != RecordState::Applied {
        return None;
    }
    Some(Record {
        doc,
        patch_id,
        digest,
        incarnation: text("incarnation")?.parse().ok()?,
        epoch: integer("epoch")?,
        state,
        reason,
        other_reason,
        delivery: integer("delivery")?,
        local_seq: integer("local_seq")?,
        received_at: integer("received_at")?,
        settled_at,
        kept: flag("kept")?,
        flushed,
        // A record of a version that did not write it may have been in doubt.
        doubted: flag("doubted").unwrap_or(true),
        // What is not known here confirms nothing.
        confirmed: text("confirmed").and_then(ConfirmedAs::from_code),
        result: value.member("result").map(|m| m.raw.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Digest;
    use crate::ids::{Incarnation, PatchId, Uuid};

    fn sample() -> Record {
        Record {
            doc: DocId::new("notes/\"42\"\n").unwrap(),
            patch_id: PatchId(Uuid::v4(1)),
            digest: Digest::of(b"x"),
            incarnation: Incarnation(Uuid::v4(2)),
            epoch: 3,
            state: RecordState::Refused,
            reason: Some(Reason::AnchorNotFound),
            other_reason: None,
            delivery: 4,
            local_seq: 5,
            received_at: 6,
            settled_at: Some(7),
            kept: true,
            flushed: false,
            doubted: true,
            confirmed: Some(ConfirmedAs::Acked),
            result: Some("{\"n\":1.50}".into()),
        }
    }

    #[test]
    fn a_record_survives_its_text_form() {
        let full = sample();
        let bare = Record {
            reason: None,
            settled_at: None,
            confirmed: None,
            result: None,
            state: RecordState::Applying,
            ..full.clone()
        };
        for record in [full, bare] {
            assert_eq!(Record::decode(&record.encode()), Ok(record));
        }
    }

    #[test]
    fn j10_what_is_left_of_a_record_survives_its_text_form() {
        let refused = Record { confirmed: Some(ConfirmedAs::Refused), ..sample() };
        let flushed = Record { state: RecordState::Applied, reason: None, flushed: true, ..sample() };
        for record in [refused, flushed] {
            let left = record.shrunk().unwrap();
            assert_eq!((left.state, left.reason, left.flushed), (record.state, record.reason, record.flushed));
            assert!(left.encode().len() < record.encode().len() * 2 / 3, "{}", left.encode());
            assert_eq!(Record::decode(&left.encode()), Ok(left));
        }
        // Nothing writes so little of a record that is not final.
        let open = sample().shrunk().is_none();
        assert!(open, "acknowledged as refused by nobody");
        let text = Record { confirmed: Some(ConfirmedAs::Refused), ..sample() }.shrunk().unwrap().encode();
        assert_eq!(Record::decode(&text.replace("\"refused\"", "\"unknown\"")), Err(CorruptRecord));
    }

    #[test]
    fn s03_a_reason_of_newer_code_is_kept_as_it_was_written() {
        let text = sample().encode().replace("anchor_not_found", "tide_too_high").replace("acked", "sealed");
        let record = Record::decode(&text).unwrap();
        assert_eq!((record.reason, record.reason_word()), (Some(Reason::HandlerRefused), Some("tide_too_high")));
        assert_eq!(record.confirmed, None);
        assert!(record.encode().contains("\"reason\":\"tide_too_high\""), "{}", record.encode());
        let left = Record { confirmed: Some(ConfirmedAs::Refused), ..record }.shrunk().unwrap();
        assert_eq!(Record::decode(&left.encode()).unwrap().reason_word(), Some("tide_too_high"));
    }

    #[test]
    fn other_texts_are_corrupt() {
        for text in ["", "{}", "null", "{\"doc\":\"d\"}"] {
            assert_eq!(Record::decode(text), Err(CorruptRecord));
        }
        // Nothing writes a record that is in a save though its effect was never made.
        let impossible = sample().encode().replace("\"flushed\":false", "\"flushed\":true");
        assert_eq!(Record::decode(&impossible), Err(CorruptRecord));
    }
}
