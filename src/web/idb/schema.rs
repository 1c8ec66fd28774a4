//! What the database is called and what is in it.
//!
//! | store | key | value |
//! | --- | --- | --- |
//! | `meta` | a name | `journal_id` → the journal's id as text |
//! | `tabs` | tab id | its epoch, a number |
//! | `records` | `[tab id, patch id, document]` | a record's checksum and text form; from before there were checksums, the text form alone |

/// The version of the newest migration.
pub(super) const VERSION: u32 = 2;

pub(super) const META: &str = "meta";
pub(super) const TABS: &str = "tabs";
pub(super) const RECORDS: &str = "records";

/// The key in `meta`.
pub(super) const JOURNAL_ID: &str = "journal_id";

/// One database for each principal (T6).
pub fn database_name(principal: &str) -> String {
    "patchkeep:".to_owned() + principal
}
