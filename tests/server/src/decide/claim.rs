//! Claiming a key, and what an attempt finds when it is claimed already (S1, S3, S4, S7, S9).

use patchkeep_core::digest::Digest;
use patchkeep_core::ids::Uuid;

use super::answer::{self, Answer};
use super::person::settled_view;
use super::row::{KeyId, KeyRow, KeyState, SettledBy};
use super::tab::Here;

/// How far a caller's first attempt must lie after the watermark (S9), in ms: callers estimate the server's clock.
pub const SAFETY_MARGIN_MS: u64 = 60_000;

/// How long a caller is asked to wait for another attempt's claim, in ms.
const IN_FLIGHT_WAIT_MS: u64 = 1000;

/// One attempt of a keyed write, as it arrived.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// Whose key, and which.
    pub id: KeyId,
    /// Method and path.
    pub route: String,
    /// What the key is bound to.
    pub fingerprint: Digest,
    /// Its number, from 1.
    pub number: u64,
    /// When the op's first attempt was made, in ms of server time, as the caller says.
    pub first_at: Option<u64>,
    /// Only a question (K8): answered from the row, never claims, never writes.
    pub ask: bool,
}

/// What a claim needs beside the row.
#[derive(Clone, Copy, Debug)]
pub struct ClaimFacts {
    /// The database's clock, in ms.
    pub now: u64,
    /// A fresh claim token.
    pub token: Uuid,
    /// How long the claim lives, in ms.
    pub lease_ms: u64,
    /// Keys first claimed up to here may have been removed (S9).
    pub watermark: Option<u64>,
}

/// What becomes of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum Claim {
    /// The key is free: insert this row.
    Take(KeyRow),
    /// The key was released, or its lease is over: put this row in the place of the one with that token.
    TakeOver {
        /// The new row.
        row: KeyRow,
        /// The token the old one must still have.
        from: Uuid,
    },
    /// Nothing to do but answer.
    Tell(Answer),
    /// It is out with a tab, or settled: answer by [`view`]; a retry first goes by [`rejoin`].
    Look,
}

/// Decides what an attempt finds (S1, S3).
pub fn claim(row: Option<&KeyRow>, attempt: &Attempt, facts: &ClaimFacts) -> Claim {
    let Some(row) = row else {
        return match (facts.watermark, attempt.ask) {
            (Some(mark), _) if !safely_after(attempt.first_at, mark, facts.now) => Claim::Tell(answer::key_expired()),
            (_, true) => Claim::Tell(answer::key_unknown()),
            _ => Claim::Take(fresh(attempt, facts, facts.now)),
        };
    };
    if row.request_hash != attempt.fingerprint {
        return Claim::Tell(answer::key_reused());
    }
    let free = match row.state {
        KeyState::Claimed => facts.now >= row.lease_until,
        // S4, and the same for `lost`: an older attempt still on its way must not plan the write again.
        KeyState::Refused | KeyState::Lost => attempt.number > row.attempt,
        _ => false,
    };
    if free && !attempt.ask {
        return Claim::TakeOver { row: fresh(attempt, facts, row.created_at), from: row.claim_token };
    }
    match row.state {
        KeyState::Claimed => Claim::Tell(answer::in_flight(IN_FLIGHT_WAIT_MS)),
        _ => Claim::Look,
    }
}

fn fresh(attempt: &Attempt, facts: &ClaimFacts, created_at: u64) -> KeyRow {
    KeyRow {
        id: attempt.id.clone(),
        route: attempt.route.clone(),
        request_hash: attempt.fingerprint,
        state: KeyState::Claimed,
        claim_token: facts.token,
        lease_until: facts.now.saturating_add(facts.lease_ms),
        attempt: attempt.number,
        recorded: None,
        plan: None,
        created_at,
        settled_by: None,
        settled_at: None,
        contradicted: false,
        settlement: None,
    }
}

/// S9: no time, or one that lies in the future, proves nothing.
fn safely_after(first_at: Option<u64>, watermark: u64, now: u64) -> bool {
    first_at
        .is_some_and(|at| at > watermark.saturating_add(SAFETY_MARGIN_MS) && at <= now.saturating_add(SAFETY_MARGIN_MS))
}

/// Where a retry of a `delivered` or `unknown` key goes (S7).
#[derive(Clone, Debug, PartialEq)]
pub enum Rejoin {
    /// The same incarnation is there: the same patch again; it re-acknowledges.
    Again(KeyRow),
    /// Another incarnation of the same journal: a question first (R3).
    Ask(KeyRow),
    /// The recipient is away, or its journal is another: nothing is sent.
    Gone(KeyRow),
}

impl Rejoin {
    /// The row to write in any case: it keeps the highest attempt that was served.
    pub const fn row(&self) -> &KeyRow {
        match self {
            Self::Again(row) | Self::Ask(row) | Self::Gone(row) => row,
        }
    }
}

/// Decides where a retry goes. Nothing is ever planned anew here: an insertion keeps its anchor, and would land twice.
pub fn rejoin(row: &KeyRow, number: u64, recipient: Option<&Here>) -> Rejoin {
    let mut row = row.clone();
    row.attempt = row.attempt.max(number);
    let Some(plan) = &mut row.plan else { return Rejoin::Gone(row) };
    let Some(here) = recipient.filter(|h| h.journal_id == plan.recipient.journal_id) else { return Rejoin::Gone(row) };
    plan.delivery += 1;
    plan.conn.clone_from(&here.conn);
    let same = here.open.is_some_and(|(incarnation, _)| incarnation == plan.recipient.incarnation);
    // An earlier "I cannot tell" is not the answer to this question.
    row.settled_by = None;
    if same { Rejoin::Again(row) } else { Rejoin::Ask(row) }
}

/// What a row says to a caller.
#[derive(Clone, Debug, PartialEq)]
pub enum View {
    /// This, as it is.
    Answer(Answer),
    /// [`answer::applied`], with whether the recipient is there.
    Applied,
    /// [`answer::outcome_unknown`], with the diff since.
    Unknown,
    /// Nothing yet.
    Waiting,
}

/// Reads a row for a caller. `replayed`: another attempt caused the effect. `patient`: the caller waits for the tab's
/// word, so that a deadline alone does not end the waiting.
pub fn view(row: &KeyRow, replayed: bool, patient: bool) -> View {
    match (row.state, &row.recorded) {
        (KeyState::Done | KeyState::Refused, Some(recorded)) => View::Answer(Answer::from_record(recorded, replayed)),
        (KeyState::Lost, _) => View::Answer(answer::lost(row)),
        (KeyState::Settled, _) => View::Answer(settled_view(row)),
        (KeyState::Acked, _) => View::Applied,
        (KeyState::Delivered, _) => View::Waiting,
        (KeyState::Unknown, _) if patient && row.settled_by != Some(SettledBy::Tab) => View::Waiting,
        (KeyState::Unknown, _) => View::Unknown,
        (KeyState::Claimed | KeyState::Done | KeyState::Refused, _) => {
            View::Answer(answer::in_flight(IN_FLIGHT_WAIT_MS))
        }
    }
}
