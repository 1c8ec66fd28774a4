//! What a tab says about a patch, and what its deadline does (S6, R2, R6, J12).

use patchkeep_core::frame::{ConfirmedAs, Homed, Reason};
use patchkeep_core::ids::{Incarnation, JournalId};

use super::execute::{reason_answer, released};
use super::person::contradicts;
use super::row::{KeyRow, KeyState, SettledBy};

/// Who speaks: the recipient's tab, on its current connection (R5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speaker<'a> {
    /// The connection, `boot_id/conn_id`.
    pub conn: &'a str,
    /// Its journal.
    pub journal_id: JournalId,
    /// The patch's document, where this tab has it open.
    pub open: Option<(Incarnation, Homed)>,
    /// The database's clock, in ms.
    pub now: u64,
}

/// What goes out to the speaker after the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// Nothing more.
    Nothing,
    /// The patch, as the new row's plan says.
    Patch,
    /// A question about it.
    Query,
}

/// What evidence does to a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Settled {
    /// Write this, guarded by the patch id and the old state.
    Write {
        /// The new row.
        row: Box<KeyRow>,
        /// What the tab is told once it is committed (R4).
        confirm: Option<ConfirmedAs>,
        /// What else it is sent.
        follow: Follow,
    },
    /// The row says so already; the tab is told again.
    Confirm(ConfirmedAs),
    /// It does not count; why.
    Ignore(&'static str),
}

impl Settled {
    fn write(row: KeyRow, confirm: ConfirmedAs) -> Self {
        Self::Write { row: row.into(), confirm: Some(confirm), follow: Follow::Nothing }
    }

    /// The row is written, and the tab is told how it stands now.
    pub(super) fn noted(row: KeyRow) -> Self {
        Self::Write { confirm: standing(&row), row: row.into(), follow: Follow::Nothing }
    }

    /// Nothing is written, and the tab is told how it stands: it would say it again otherwise (R4).
    pub(super) fn as_it_is(row: &KeyRow) -> Self {
        standing(row).map_or(Self::Ignore("not handed out"), Self::Confirm)
    }

    pub(super) fn follow(row: KeyRow, follow: Follow) -> Self {
        Self::Write { row: row.into(), confirm: None, follow }
    }
}

/// What a tab is told of a key in this state (R4); nothing of one that was not handed out.
const fn standing(row: &KeyRow) -> Option<ConfirmedAs> {
    match row.state {
        KeyState::Acked => Some(ConfirmedAs::Acked),
        KeyState::Done => Some(ConfirmedAs::Done),
        KeyState::Refused => Some(ConfirmedAs::Refused),
        KeyState::Unknown | KeyState::Lost | KeyState::Settled => Some(ConfirmedAs::Unknown),
        KeyState::Claimed | KeyState::Delivered => None,
    }
}

/// The effect is in the document. It is the truth however late it comes, and whatever hand-out it answers (R6).
pub fn acknowledged(row: &KeyRow, speaker: &Speaker<'_>) -> Settled {
    match row.state {
        KeyState::Delivered | KeyState::Unknown | KeyState::Acked => {
            let mut acked = KeyRow {
                state: KeyState::Acked,
                settled_by: Some(SettledBy::Tab),
                settled_at: Some(speaker.now),
                ..row.clone()
            };
            if let Some(plan) = &mut acked.plan {
                // Whoever says `applied` has it: from here on this incarnation's death is the patch's (R7). A doubt
                // stays: a save may have carried the effect out unnamed, and no later fence proves that it did not.
                let homed = plan.recipient.homed;
                hand_to(plan, speaker);
                if homed == Homed::Elsewhere {
                    plan.recipient.homed = homed;
                }
            }
            let unchanged = row.state == KeyState::Acked && row.plan == acked.plan;
            if unchanged { Settled::Confirm(ConfirmedAs::Acked) } else { Settled::write(acked, ConfirmedAs::Acked) }
        }
        KeyState::Refused | KeyState::Lost if !row.contradicted => {
            Settled::noted(KeyRow { contradicted: true, ..row.clone() })
        }
        KeyState::Settled => contradicts(row, true).unwrap_or_else(|| Settled::as_it_is(row)),
        KeyState::Done | KeyState::Refused | KeyState::Lost | KeyState::Claimed => Settled::as_it_is(row),
    }
}

/// Proven: no effect from any delivery up to `delivery`. `None` is a record that the tab lists: it holds for all.
pub fn refused(
    row: &KeyRow,
    delivery: Option<u64>,
    reason: Reason,
    detail: Option<&str>,
    speaker: &Speaker<'_>,
) -> Settled {
    if reason == Reason::PatchIdReused {
        // The known patch of that id may have taken effect: this proves nothing (P4).
        return unknown(row, delivery, speaker);
    }
    if outdated(row, delivery) {
        return Settled::Ignore("a refusal of an older delivery");
    }
    match row.state {
        KeyState::Delivered | KeyState::Unknown => {
            let row = released(row, reason_answer(reason, detail), SettledBy::Tab, speaker.now);
            Settled::write(row, ConfirmedAs::Refused)
        }
        KeyState::Acked if delivery.is_some() => gone(row, SettledBy::Tab, speaker.now),
        KeyState::Acked => Settled::Ignore("refused after it was acknowledged"),
        KeyState::Settled => contradicts(row, false).unwrap_or_else(|| Settled::as_it_is(row)),
        KeyState::Done | KeyState::Refused | KeyState::Lost | KeyState::Claimed => Settled::as_it_is(row),
    }
}

/// The tab cannot tell (P3).
pub fn unknown(row: &KeyRow, delivery: Option<u64>, speaker: &Speaker<'_>) -> Settled {
    if outdated(row, delivery) {
        return Settled::Ignore("a doubt about an older delivery");
    }
    let open = speaker.open.map(|(incarnation, _)| incarnation);
    let has_it = row.plan.as_ref().is_some_and(|p| open == Some(p.recipient.incarnation));
    match row.state {
        KeyState::Acked if has_it => Settled::Ignore("in doubt after it was acknowledged"),
        KeyState::Unknown if row.settled_by == Some(SettledBy::Tab) => Settled::Confirm(ConfirmedAs::Unknown),
        KeyState::Delivered | KeyState::Unknown | KeyState::Acked => {
            let row = KeyRow {
                state: KeyState::Unknown,
                settled_by: Some(SettledBy::Tab),
                settled_at: Some(speaker.now),
                ..row.clone()
            };
            Settled::write(row, ConfirmedAs::Unknown)
        }
        // A doubt is no evidence against a person's word.
        KeyState::Done | KeyState::Refused | KeyState::Settled | KeyState::Lost | KeyState::Claimed => {
            Settled::as_it_is(row)
        }
    }
}

/// Proven by the journal that was asked: no effect so far (J12).
pub fn not_seen(row: &KeyRow, delivery: u64, speaker: &Speaker<'_>) -> Settled {
    if outdated(row, Some(delivery)) {
        return Settled::Ignore("not seen before an older delivery");
    }
    if row.plan.as_ref().is_none_or(|p| p.recipient.journal_id != speaker.journal_id) {
        return Settled::Ignore("another journal cannot know");
    }
    absent(row, SettledBy::Tab, speaker)
}

/// The patch is proven absent, as far as tabs can tell: the same one again before its deadline, else the key is released
/// or lost (R2, S6).
pub(super) fn absent(row: &KeyRow, by: SettledBy, speaker: &Speaker<'_>) -> Settled {
    if row.state == KeyState::Settled {
        // What a save may have stored is not proven absent, and contradicts nobody (W2).
        let doubted = row.plan.as_ref().is_some_and(|p| p.doubted_seq.is_some());
        let against = if doubted { None } else { contradicts(row, false) };
        return against.unwrap_or_else(|| closed(row, by));
    }
    if !row.state.is_open() {
        return closed(row, by);
    }
    let Some(plan) = &row.plan else { return Settled::Ignore("not handed out") };
    if plan.doubted_seq.is_some() {
        return in_doubt(row, by, speaker.now);
    }
    if speaker.now >= plan.expires_at || speaker.open.is_none() {
        return gone(row, by, speaker.now);
    }
    let mut again = KeyRow { state: KeyState::Delivered, settled_by: None, settled_at: None, ..row.clone() };
    if let Some(plan) = &mut again.plan {
        plan.delivery += 1;
        hand_to(plan, speaker);
    }
    Settled::follow(again, Follow::Patch)
}

/// Nothing is open any more: whoever spoke of it is told so, and whoever was silent need not be.
fn closed(row: &KeyRow, by: SettledBy) -> Settled {
    if by == SettledBy::Tab { Settled::as_it_is(row) } else { Settled::Ignore("nothing is open") }
}

/// A save was committed that may hold it: whoever calls it absent knows of a memory, not of the stored text (W2).
fn in_doubt(row: &KeyRow, by: SettledBy, now: u64) -> Settled {
    if row.state == KeyState::Unknown && row.settled_by == Some(SettledBy::Tab) {
        return Settled::Confirm(ConfirmedAs::Unknown);
    }
    let row = KeyRow { state: KeyState::Unknown, settled_by: Some(by), settled_at: Some(now), ..row.clone() };
    Settled::write(row, ConfirmedAs::Unknown)
}

fn gone(row: &KeyRow, by: SettledBy, now: u64) -> Settled {
    if row.plan.as_ref().is_some_and(|p| p.doubted_seq.is_some()) && row.state == KeyState::Acked {
        // It was in a document once, and a save may have carried it out of there.
        return in_doubt(row, by, now);
    }
    if row.state == KeyState::Acked {
        let lost = KeyRow { state: KeyState::Lost, settled_by: Some(by), settled_at: Some(now), ..row.clone() };
        return Settled::noted(lost);
    }
    Settled::write(released(row, reason_answer(Reason::Expired, None), by, now), ConfirmedAs::Refused)
}

/// The deadline passed without a word: `unknown` (S6). A deadline alone never proves anything (J2).
pub fn expired(row: &KeyRow, now: u64) -> Option<KeyRow> {
    let over = row.plan.as_ref().is_some_and(|p| now >= p.expires_at);
    (row.state == KeyState::Delivered && over).then(|| KeyRow { state: KeyState::Unknown, ..row.clone() })
}

/// A question about the patch: it counts like a hand-out, so that an older "no" is not taken for its answer (R2).
pub(super) fn question(row: &KeyRow, speaker: &Speaker<'_>) -> Settled {
    let mut asked = row.clone();
    if let Some(plan) = &mut asked.plan {
        plan.delivery += 1;
        speaker.conn.clone_into(&mut plan.conn);
    }
    Settled::follow(asked, Follow::Query)
}

fn hand_to(plan: &mut super::row::Plan, speaker: &Speaker<'_>) {
    speaker.conn.clone_into(&mut plan.conn);
    if let Some((incarnation, homed)) = speaker.open {
        plan.recipient.journal_id = speaker.journal_id;
        plan.recipient.incarnation = incarnation;
        plan.recipient.homed = homed;
    }
}

/// R2: a "no" counts only for the newest hand-out or question; another number was never sent.
fn outdated(row: &KeyRow, delivery: Option<u64>) -> bool {
    delivery.is_some_and(|n| row.plan.as_ref().is_none_or(|p| p.delivery != n))
}
