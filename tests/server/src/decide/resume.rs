//! What a tab's list means for the patches that are open with it (R1–R3, R7, T5).

use patchkeep_core::frame::{Homed, Reason, ReportedState, UnconfirmedEntry};

use super::row::{KeyRow, KeyState, SettledBy};
use super::settle::{Settled, Speaker, absent, acknowledged, question, refused, unknown};

/// Decides one row of the speaker's tab when its document is announced. The announcement is committed in the same
/// transaction, so that older epochs and incarnations are fenced before anything here counts as proof (R7).
pub fn resume(row: &KeyRow, listed: Option<&UnconfirmedEntry>, speaker: &Speaker<'_>) -> Settled {
    let (Some(plan), Some((incarnation, homed))) = (&row.plan, speaker.open) else {
        return Settled::Ignore("not handed out");
    };
    if let Some(entry) = listed {
        return told(row, entry, speaker);
    }
    let recipient = &plan.recipient;
    if row.state == KeyState::Settled {
        // Nothing is asked any more; only a proof counts, and only against the word (S10).
        let proven = recipient.incarnation != incarnation && (recipient.homed, homed) == (Homed::Server, Homed::Server);
        return if proven { absent(row, SettledBy::Fence, speaker) } else { Settled::Ignore("settled by a person") };
    }
    if !row.state.is_open() {
        return Settled::Ignore("nothing is open");
    }
    let same_journal = recipient.journal_id == speaker.journal_id;
    if recipient.incarnation == incarnation {
        return match row.state {
            // It was told `acked` already, and need not list it again.
            KeyState::Acked => Settled::Ignore("still held"),
            _ if same_journal => question(row, speaker),
            _ => Settled::Ignore("another journal: as gone"),
        };
    }
    if recipient.homed == Homed::Server && homed == Homed::Server {
        // R7: that incarnation's content left the tab in saves alone, it is fenced, and this one does not list it.
        return absent(row, SettledBy::Fence, speaker);
    }
    if same_journal { question(row, speaker) } else { Settled::Ignore("another journal: as gone") }
}

/// Decides one row of a dead tab that another one adopted: its `unknown` and `not_seen` are both "cannot tell" (T5).
pub fn adopted(row: &KeyRow, entry: &UnconfirmedEntry, speaker: &Speaker<'_>) -> Settled {
    match entry.state {
        ReportedState::Applied | ReportedState::Refused => told(row, entry, speaker),
        _ => unknown(row, None, speaker),
    }
}

fn told(row: &KeyRow, entry: &UnconfirmedEntry, speaker: &Speaker<'_>) -> Settled {
    if row.plan.as_ref().is_none_or(|p| p.digest != entry.digest) {
        return Settled::Ignore("listed with another body");
    }
    match entry.state {
        ReportedState::Applied => acknowledged(row, speaker),
        ReportedState::Refused => refused(row, None, entry.reason.unwrap_or(Reason::HandlerRefused), None, speaker),
        ReportedState::Unknown => unknown(row, None, speaker),
        // Exactly one answer follows on this connection (J5); the question's number is what it will carry.
        ReportedState::Applying if row.state.is_open() => question(row, speaker),
        ReportedState::Applying if row.state != KeyState::Claimed => Settled::as_it_is(row),
        ReportedState::Applying | ReportedState::NotSeen => Settled::Ignore("a list cannot say that"),
    }
}
