//! A person's word about a key nobody could tell the outcome of (S10).
//!
//! It ends the key: nothing is planned under it any more, whatever the word. What comes to light later never changes
//! that word; it marks the row `contradicted`, so that operators and callers see it.

use serde_json::json;

use super::answer::Answer;
use super::row::{KeyRow, KeyState, SettledBy, Settlement, Verdict};
use super::settle::{Settled, expired};

/// What becomes of a person's word.
#[derive(Clone, Debug, PartialEq)]
pub enum Word {
    /// Write this, guarded by the patch id and the old state.
    Write {
        /// The new row.
        row: Box<KeyRow>,
        /// Fence the recipient's content first, in the same transaction: what it holds can no longer be saved.
        fence: bool,
    },
    /// Nothing is written; this is answered.
    Tell(Answer),
}

/// Takes a person's word about a key. Only `unknown` is open to it: everything else is known, or will be.
pub fn settle(row: Option<&KeyRow>, verdict: Verdict, who: &str, now: u64) -> Word {
    let Some(row) = row else { return Word::Tell(super::answer::key_unknown()) };
    let late = expired(row, now);
    let row = late.as_ref().unwrap_or(row);
    match (&row.settlement, row.state) {
        (Some(first), KeyState::Settled) if first.verdict == verdict => Word::Tell(settlement_answer(row, true)),
        (Some(first), KeyState::Settled) => Word::Tell(already(row, first)),
        (_, KeyState::Unknown) => {
            let settled = KeyRow {
                state: KeyState::Settled,
                settled_by: Some(SettledBy::Person),
                settled_at: Some(now),
                settlement: Some(Settlement { verdict, who: who.to_owned() }),
                ..row.clone()
            };
            Word::Write { row: settled.into(), fence: verdict == Verdict::NotApplied }
        }
        (_, state) => Word::Tell(
            Answer::error(409, "not_unknown", "only an unknown outcome is settled by a person")
                .with_details(json!({"state": state.as_str()})),
        ),
    }
}

/// 200: the word as it is recorded, for who gave it. `replayed`: it was given before.
pub fn settlement_answer(row: &KeyRow, replayed: bool) -> Answer {
    Answer::new(200, json!({"settled": settlement(row)})).replayed(replayed)
}

/// 409: somebody was first, with another word. Both may be looking at the same document now; neither is overwritten.
fn already(row: &KeyRow, first: &Settlement) -> Answer {
    let message = format!("it was settled as {} already", first.verdict.as_str());
    Answer::error(409, "already_settled", &message).with_details(settlement(row))
}

/// What a caller of a settled key is told. `applied` reads as done, `not_applied` as refused; the key itself stays as
/// it is, and another write takes another key (K8).
pub(super) fn settled_view(row: &KeyRow) -> Answer {
    let verdict = row.settlement.as_ref().map(|s| s.verdict);
    let mut answer = match verdict {
        Some(Verdict::Applied) => settlement_answer(row, true),
        _ => Answer::error(409, "settled_not_applied", "a person settled it as not applied")
            .with_details(settlement(row))
            .released()
            .replayed(true),
    };
    if let Some(plan) = &row.plan {
        answer.body.insert("patch_id".into(), plan.patch_id.to_string().into());
    }
    answer
}

fn settlement(row: &KeyRow) -> serde_json::Value {
    let Some(Settlement { verdict, who }) = &row.settlement else { return serde_json::Value::Null };
    json!({"as": verdict.as_str(), "by": who, "at": row.settled_at, "contradicted": row.contradicted})
}

/// Evidence that the effect is there (`true`) or is not, after a person's word. `None` where it agrees with it, or
/// was noted before.
pub(super) fn contradicts(row: &KeyRow, effect: bool) -> Option<Settled> {
    let said = row.settlement.as_ref().filter(|_| !row.contradicted)?.verdict == Verdict::Applied;
    (said != effect).then(|| Settled::noted(KeyRow { contradicted: true, ..row.clone() }))
}
