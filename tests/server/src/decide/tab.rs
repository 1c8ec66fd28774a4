//! Who a tab is, and whether it is there (T3, R5).

use patchkeep_core::frame::{Hello, Homed, PROTOCOL, RejectCode};
use patchkeep_core::ids::{Incarnation, JournalId};

use super::row::TabOwner;
use crate::principal::Principal;

/// A tab's current connection, as far as one document is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Here {
    /// The connection, `boot_id/conn_id`.
    pub conn: String,
    /// The journal it said hello with.
    pub journal_id: JournalId,
    /// The document, where it is open.
    pub open: Option<(Incarnation, Homed)>,
}

/// Decides whether a hello is accepted, and who holds the tab id from then on.
///
/// # Errors
/// The `reject` code of §3: another version, another principal (T6), another user's tab, or an epoch that is fenced
/// off (T3; the same epoch from another load of the page is stale too).
pub fn admit(
    owner: Option<&TabOwner>,
    hello: &Hello,
    principal: &Principal,
    conn: &str,
) -> Result<TabOwner, RejectCode> {
    if hello.protocol != PROTOCOL {
        return Err(RejectCode::UnsupportedProtocol);
    }
    if hello.principal != principal.to_string() {
        return Err(RejectCode::PrincipalMismatch);
    }
    if let Some(owner) = owner {
        if owner.principal != *principal {
            return Err(RejectCode::TabNotYours);
        }
        let same_epoch_elsewhere = hello.epoch == owner.epoch && hello.context_id != owner.context_id;
        if hello.epoch < owner.epoch || same_epoch_elsewhere {
            return Err(RejectCode::StaleEpoch);
        }
    }
    Ok(TabOwner {
        principal: principal.clone(),
        journal_id: hello.journal_id,
        epoch: hello.epoch,
        context_id: hello.context_id,
        conn: conn.to_owned(),
    })
}
