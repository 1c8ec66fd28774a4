//! The journal of one tab (§4): one record per patch, and what it proves.

mod codec;
mod export;
mod index;
mod record;
mod retention;

pub use codec::CorruptRecord;
pub use export::{EXPORT_VERSION, ExportFlaw, ExportHeader, export, verify};
pub use index::Journal;
pub use record::{Record, RecordState};
pub use retention::{Retention, RetentionLimits, Step};
