//! Rows as both databases spell them.

use patchkeep_core::frame::Homed;
use patchkeep_core::ids::DocId;

use super::StoreError;
use super::cells::{Cell, Cells};
use crate::decide::{KeyId, KeyRow, KeyState, Plan, Recipient, Recorded, SettledBy, Settlement, TabOwner, Verdict};
use crate::principal::{OpKey, Principal};

/// The columns of a key's row, in the order in which it is read and written.
pub(super) const KEY_COLUMNS: [&str; 31] = [
    "workspace_id",
    "user_id",
    "key",
    "route",
    "request_hash",
    "state",
    "claim_token",
    "lease_until",
    "attempt",
    "status",
    "response",
    "patch_id",
    "delivery",
    "tab_id",
    "journal_id",
    "doc",
    "incarnation",
    "homed",
    "conn",
    "base_seq",
    "body",
    "digest",
    "guarded",
    "expires_at",
    "doubted_seq",
    "created_at",
    "settled_by",
    "settled_at",
    "contradicted",
    "settled_as",
    "settled_who",
];

/// How many of them are the plan's.
const PLAN_COLUMNS: usize = 14;

/// Writes a key's row.
pub(super) fn key_cells(row: &KeyRow) -> Vec<Cell> {
    let KeyId { principal, key } = &row.id;
    let mut cells: Vec<Cell> = vec![
        principal.workspace.as_str().into(),
        principal.user.as_str().into(),
        key.as_str().into(),
        row.route.as_str().into(),
        row.request_hash.to_string().into(),
        row.state.as_str().into(),
        row.claim_token.to_string().into(),
        row.lease_until.into(),
        row.attempt.into(),
        row.recorded.as_ref().map(|r| u64::from(r.status)).into(),
        row.recorded.as_ref().map(|r| r.body.as_str()).into(),
    ];
    match &row.plan {
        Some(plan) => cells.extend::<[Cell; PLAN_COLUMNS]>([
            plan.patch_id.to_string().into(),
            plan.delivery.into(),
            plan.recipient.tab_id.to_string().into(),
            plan.recipient.journal_id.to_string().into(),
            plan.recipient.doc.as_str().into(),
            plan.recipient.incarnation.to_string().into(),
            plan.recipient.homed.as_str().into(),
            plan.conn.as_str().into(),
            plan.base_seq.into(),
            plan.body.as_str().into(),
            plan.digest.to_string().into(),
            plan.guarded.into(),
            plan.expires_at.into(),
            plan.doubted_seq.into(),
        ]),
        None => cells.extend(std::iter::repeat_n(Cell::Null, PLAN_COLUMNS)),
    }
    cells.extend([
        row.created_at.into(),
        row.settled_by.map(SettledBy::as_str).into(),
        row.settled_at.into(),
        row.contradicted.into(),
        row.settlement.as_ref().map(|s| s.verdict.as_str()).into(),
        row.settlement.as_ref().map(|s| s.who.as_str()).into(),
    ]);
    cells
}

/// Reads a key's row.
pub(super) fn key_row(mut row: Cells) -> Result<KeyRow, StoreError> {
    Ok(KeyRow {
        id: KeyId {
            principal: principal(&mut row)?,
            key: row.word("key", |text| OpKey::from_stored(text.to_owned()))?,
        },
        route: row.text()?,
        request_hash: row.parsed()?,
        state: row.word("state", KeyState::from_word)?,
        claim_token: row.parsed()?,
        lease_until: row.integer()?,
        attempt: row.integer()?,
        recorded: match (row.maybe_integer()?, row.maybe_text()?) {
            (Some(status), Some(body)) => {
                let status = u16::try_from(status).map_err(|_| StoreError::Unreadable("status"))?;
                Some(Recorded { status, body })
            }
            _ => None,
        },
        plan: if row.is_next_null() {
            row.skip(PLAN_COLUMNS);
            None
        } else {
            Some(plan(&mut row)?)
        },
        created_at: row.integer()?,
        settled_by: match row.maybe_text()? {
            Some(by) => Some(SettledBy::from_word(&by).ok_or(StoreError::Unreadable("settled_by"))?),
            None => None,
        },
        settled_at: row.maybe_integer()?,
        contradicted: row.integer()? != 0,
        settlement: if row.is_next_null() {
            None
        } else {
            Some(Settlement { verdict: row.word("settled_as", Verdict::from_word)?, who: row.text()? })
        },
    })
}

fn plan(row: &mut Cells) -> Result<Plan, StoreError> {
    Ok(Plan {
        patch_id: row.parsed()?,
        delivery: row.integer()?,
        recipient: Recipient {
            tab_id: row.parsed()?,
            journal_id: row.parsed()?,
            doc: row.word("doc", DocId::new)?,
            incarnation: row.parsed()?,
            homed: row.word("homed", Homed::from_code)?,
        },
        conn: row.text()?,
        base_seq: row.integer()?,
        body: row.text()?,
        digest: row.parsed()?,
        guarded: row.integer()? != 0,
        expires_at: row.integer()?,
        doubted_seq: row.maybe_integer()?,
    })
}

/// Reads who holds a tab id.
pub(super) fn tab_owner(mut row: Cells) -> Result<TabOwner, StoreError> {
    Ok(TabOwner {
        principal: principal(&mut row)?,
        journal_id: row.parsed()?,
        epoch: row.integer()?,
        context_id: row.parsed()?,
        conn: row.text()?,
    })
}

fn principal(row: &mut Cells) -> Result<Principal, StoreError> {
    Ok(Principal { workspace: row.text()?, user: row.text()? })
}
