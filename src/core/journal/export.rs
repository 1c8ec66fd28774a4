//! A journal as text that can leave the browser: lines of JSON, a header first, and what is wrong with such a text.
//!
//! ```text
//! {"patchkeep":"journal","version":1,"journal_id":…,"tab_id":…,"epoch":…,"durability":…,"records":2,"digests":["…","…"]}
//! {"doc":…,"patch_id":…,…}          one line a record, in the order of application; its SHA-256 is in the header
//! ```

use std::collections::BTreeSet;

use super::record::Record;
use crate::digest::Digest;
use crate::ids::{JournalId, TabId};
use crate::json::{self, ObjectWriter, Value, write_string};
use crate::storage::Durability;

/// The version of the form.
pub const EXPORT_VERSION: u64 = 1;

/// Whose journal is exported.
#[derive(Clone, Copy, Debug)]
pub struct ExportHeader {
    /// The journal.
    pub journal_id: JournalId,
    /// The tab.
    pub tab_id: TabId,
    /// Its epoch.
    pub epoch: u64,
    /// What the journal promises.
    pub durability: Durability,
}

/// Writes a journal out.
pub fn export<'a>(header: ExportHeader, records: impl IntoIterator<Item = &'a Record>) -> String {
    let mut records: Vec<&Record> = records.into_iter().collect();
    records.sort_by_key(|record| (record.local_seq, record.patch_id));
    let lines: Vec<String> = records.into_iter().map(Record::encode).collect();
    let mut out = String::new();
    ObjectWriter::new(&mut out)
        .string("patchkeep", "journal")
        .integer("version", EXPORT_VERSION)
        .display("journal_id", header.journal_id)
        .display("tab_id", header.tab_id)
        .integer("epoch", header.epoch)
        .string("durability", header.durability.as_str())
        .integer("records", lines.len() as u64)
        .array("digests", &lines, |out, line| write_string(out, &Digest::of(line.as_bytes()).to_string()))
        .end();
    for line in lines {
        out.push('\n');
        out.push_str(&line);
    }
    out.push('\n');
    out
}

/// What an exported journal is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportFlaw {
    /// The first line is no header of such a text.
    #[error("line 1: this is no header of an exported journal")]
    NoHeader,
    /// Newer code wrote it.
    #[error("line 1: version {0} is newer than this code")]
    Newer(u64),
    /// The header's own numbers do not fit each other.
    #[error("line 1: the header names {named} records and {digests} digests")]
    HeaderTorn {
        /// As counted.
        named: u64,
        /// As listed.
        digests: u64,
    },
    /// A line is not the one that was written.
    #[error("line {0}: its digest is not the one in the header")]
    Digest(u64),
    /// A line that was written so is no record.
    #[error("line {0}: it is no record of this version")]
    NoRecord(u64),
    /// The same record comes twice.
    #[error("line {0}: the same patch and document as an earlier line")]
    Twice(u64),
    /// Lines are missing or too many.
    #[error("{found} records where the header names {named}")]
    Count {
        /// In the text.
        found: u64,
        /// In the header.
        named: u64,
    },
}

/// Reads an exported journal; every flaw is named.
///
/// # Errors
/// All there is to find wrong with it.
pub fn verify(text: &str) -> Result<Vec<Record>, Vec<ExportFlaw>> {
    let mut lines = text.lines();
    let header = lines.next().unwrap_or_default();
    let digests = read_header(header).map_err(|flaw| vec![flaw])?;
    let (mut flaws, mut records, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    let mut found = 0;
    for (line, number) in lines.zip(2..) {
        found += 1;
        if digests.get(found - 1).is_none_or(|digest| *digest != Digest::of(line.as_bytes())) {
            flaws.push(ExportFlaw::Digest(number));
            continue;
        }
        match Record::decode(line) {
            Ok(record) if seen.insert(record.key()) => records.push(record),
            Ok(_) => flaws.push(ExportFlaw::Twice(number)),
            Err(_) => flaws.push(ExportFlaw::NoRecord(number)),
        }
    }
    if found != digests.len() {
        flaws.push(ExportFlaw::Count { found: found as u64, named: digests.len() as u64 });
    }
    if flaws.is_empty() { Ok(records) } else { Err(flaws) }
}

fn read_header(line: &str) -> Result<Vec<Digest>, ExportFlaw> {
    let value = json::parse(line).map_err(|_| ExportFlaw::NoHeader)?;
    let text = |name: &str| value.field(name).and_then(Value::as_str);
    let integer = |name: &str| value.field(name).and_then(Value::as_integer).ok_or(ExportFlaw::NoHeader);
    if text("patchkeep") != Some("journal") {
        return Err(ExportFlaw::NoHeader);
    }
    let version = integer("version")?;
    if version > EXPORT_VERSION {
        return Err(ExportFlaw::Newer(version));
    }
    let has_ids = text("journal_id").is_some_and(|id| id.parse::<JournalId>().is_ok())
        && text("tab_id").is_some_and(|id| id.parse::<TabId>().is_ok());
    let listed = value.field("digests").and_then(Value::as_array).filter(|_| has_ids).ok_or(ExportFlaw::NoHeader)?;
    let digests = listed.iter().map(|digest| digest.as_str()?.parse().ok()).collect::<Option<Vec<Digest>>>();
    let digests = digests.ok_or(ExportFlaw::NoHeader)?;
    let named = integer("records")?;
    if named != digests.len() as u64 {
        return Err(ExportFlaw::HeaderTorn { named, digests: digests.len() as u64 });
    }
    Ok(digests)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{DocId, Incarnation, PatchId, Uuid};
    use crate::journal::RecordState;

    fn record(n: u128) -> Record {
        Record {
            doc: DocId::new("notes/42").unwrap(),
            patch_id: PatchId(Uuid::v4(n)),
            digest: Digest::of(b"x"),
            incarnation: Incarnation(Uuid::v4(9)),
            epoch: 1,
            state: RecordState::Applied,
            reason: None,
            delivery: 1,
            local_seq: n as u64,
            received_at: 6,
            settled_at: None,
            other_reason: None,
            kept: false,
            flushed: false,
            doubted: false,
            confirmed: None,
            result: None,
        }
    }

    fn exported(records: &[Record]) -> String {
        let header = ExportHeader {
            journal_id: JournalId(Uuid::v4(7)),
            tab_id: TabId(Uuid::v4(8)),
            epoch: 3,
            durability: Durability::Strict,
        };
        export(header, records)
    }

    #[test]
    fn what_is_exported_is_found_whole() {
        assert_eq!(verify(&exported(&[record(2), record(1)])), Ok(vec![record(1), record(2)]));
        assert_eq!(verify(&exported(&[])), Ok(Vec::new()));
    }

    #[test]
    fn every_flaw_is_named() {
        let whole = exported(&[record(1), record(2)]);
        let changed = whole.replacen("\"delivery\":1", "\"delivery\":2", 1);
        assert_eq!(verify(&changed), Err(vec![ExportFlaw::Digest(2)]));
        let cut = whole.lines().take(2).collect::<Vec<_>>().join("\n");
        assert_eq!(verify(&cut), Err(vec![ExportFlaw::Count { found: 1, named: 2 }]));
        let longer = format!("{whole}{{}}\n");
        assert_eq!(verify(&longer), Err(vec![ExportFlaw::Digest(4), ExportFlaw::Count { found: 3, named: 2 }]));
        assert_eq!(verify(&exported(&[record(1), record(1)])), Err(vec![ExportFlaw::Twice(3)]));
        assert_eq!(verify(&whole.replace("\"version\":1", "\"version\":2")), Err(vec![ExportFlaw::Newer(2)]));
        let torn = whole.replace("\"records\":2", "\"records\":3");
        assert_eq!(verify(&torn), Err(vec![ExportFlaw::HeaderTorn { named: 3, digests: 2 }]));
        for text in ["", "{}", "[]", "{\"patchkeep\":\"journal\",\"version\":1}"] {
            assert_eq!(verify(text), Err(vec![ExportFlaw::NoHeader]), "{text}");
        }
    }
}
