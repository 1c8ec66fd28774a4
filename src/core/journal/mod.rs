//! The journal of one tab (§4): one record per patch, and what it proves.

mod codec;
mod index;
mod record;

pub use codec::CorruptRecord;
pub use index::Journal;
pub use record::{Record, RecordState};
