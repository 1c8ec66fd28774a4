//! Rows as SQLite spells them.

use std::str::FromStr;

use patchkeep_core::frame::Homed;
use patchkeep_core::ids::DocId;
use rusqlite::Row;
use rusqlite::types::{FromSql, Type};

use crate::decide::{KeyId, KeyRow, KeyState, Plan, Recipient, Recorded, SettledBy, Settlement, TabOwner, Verdict};
use crate::principal::Principal;

/// The columns of [`key_row`], in its order.
pub(super) const KEY_COLUMNS: &str = "workspace_id, user_id, key, route, request_hash, state, claim_token, \
     lease_until, attempt, status, response, patch_id, delivery, tab_id, journal_id, doc, incarnation, homed, conn, \
     base_seq, body, digest, guarded, expires_at, created_at, settled_by, settled_at, contradicted, \
     settled_as, settled_who";

/// Reads a key's row.
pub(super) fn key_row(row: &Row<'_>) -> rusqlite::Result<KeyRow> {
    let recorded = match (row.get::<_, Option<u16>>("status")?, row.get::<_, Option<String>>("response")?) {
        (Some(status), Some(body)) => Some(Recorded { status, body }),
        _ => None,
    };
    let planned = row.get::<_, Option<String>>("patch_id")?.is_some();
    Ok(KeyRow {
        id: KeyId {
            principal: Principal { workspace: row.get("workspace_id")?, user: row.get("user_id")? },
            key: parsed(row, "key")?,
        },
        route: row.get("route")?,
        request_hash: parsed(row, "request_hash")?,
        state: word(row, "state", KeyState::from_word)?,
        claim_token: parsed(row, "claim_token")?,
        lease_until: integer(row, "lease_until")?,
        attempt: integer(row, "attempt")?,
        recorded,
        plan: if planned { Some(plan(row)?) } else { None },
        created_at: integer(row, "created_at")?,
        settled_by: match row.get::<_, Option<String>>("settled_by")? {
            Some(by) => Some(SettledBy::from_word(&by).ok_or_else(|| unreadable("settled_by"))?),
            None => None,
        },
        settled_at: row.get::<_, Option<i64>>("settled_at")?.map(i64::cast_unsigned),
        contradicted: row.get("contradicted")?,
        settlement: match row.get::<_, Option<String>>("settled_who")? {
            Some(who) => Some(Settlement { verdict: word(row, "settled_as", Verdict::from_word)?, who }),
            None => None,
        },
    })
}

fn plan(row: &Row<'_>) -> rusqlite::Result<Plan> {
    Ok(Plan {
        patch_id: parsed(row, "patch_id")?,
        delivery: integer(row, "delivery")?,
        recipient: Recipient {
            tab_id: parsed(row, "tab_id")?,
            journal_id: parsed(row, "journal_id")?,
            doc: word(row, "doc", DocId::new)?,
            incarnation: parsed(row, "incarnation")?,
            homed: word(row, "homed", Homed::from_code)?,
        },
        conn: row.get("conn")?,
        base_seq: integer(row, "base_seq")?,
        body: row.get("body")?,
        digest: parsed(row, "digest")?,
        guarded: row.get("guarded")?,
        expires_at: integer(row, "expires_at")?,
    })
}

/// Reads who holds a tab id.
pub(super) fn tab_owner(row: &Row<'_>) -> rusqlite::Result<TabOwner> {
    Ok(TabOwner {
        principal: Principal { workspace: row.get("workspace_id")?, user: row.get("user_id")? },
        journal_id: parsed(row, "journal_id")?,
        epoch: integer(row, "epoch")?,
        context_id: parsed(row, "context_id")?,
        conn: row.get("conn")?,
    })
}

/// A column that holds an id or a digest.
pub(super) fn parsed<T: FromStr>(row: &Row<'_>, name: &'static str) -> rusqlite::Result<T> {
    word(row, name, |text| text.parse().ok())
}

/// A column that holds one of a few words.
fn word<T>(row: &Row<'_>, name: &'static str, read: impl Fn(&str) -> Option<T>) -> rusqlite::Result<T> {
    read(row.get_ref(name)?.as_str()?).ok_or_else(|| unreadable(name))
}

/// A column that holds a number that is never negative; SQLite's integers are signed, the bits are kept.
pub(super) fn integer(row: &Row<'_>, name: &'static str) -> rusqlite::Result<u64> {
    Ok(i64::column_result(row.get_ref(name)?)?.cast_unsigned())
}

fn unreadable(column: &'static str) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, Type::Text, format!("column {column}").into())
}
