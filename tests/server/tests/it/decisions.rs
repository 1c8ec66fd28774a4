//! The pure decisions, every state against every piece of evidence.

use patchkeep_core::digest::Digest;
use patchkeep_core::frame::{ConfirmedAs, Homed, Reason, ReportedState, UnconfirmedEntry};
use patchkeep_core::ids::{DocId, Incarnation, JournalId, PatchId, TabId};
use patchkeep_server::decide::{
    Attempt, Claim, ClaimFacts, Follow, KeyId, KeyRow, KeyState, Plan, Recipient, Recorded, Settled, SettledBy,
    Settlement, Speaker, Verdict, Word, acknowledged, claim, expired, not_seen, refused, resume, settle, settle_saved,
    unknown,
};

use crate::world::fresh;

const NOW: u64 = 1000;
const DELIVERY: u64 = 3;

fn row(state: KeyState, homed: Homed, expires_at: u64) -> KeyRow {
    let settled = matches!(state, KeyState::Done | KeyState::Refused);
    KeyRow {
        id: KeyId { principal: "ws/user".parse().unwrap(), key: "k".parse().unwrap() },
        route: "PATCH /api/docs/d1".into(),
        request_hash: Digest::of(b"request"),
        state,
        claim_token: fresh(),
        lease_until: NOW + 1,
        attempt: 2,
        recorded: settled.then(|| Recorded { status: 200, body: "{}".into() }),
        plan: (state != KeyState::Claimed).then(|| Plan {
            patch_id: PatchId(fresh()),
            delivery: DELIVERY,
            recipient: Recipient {
                tab_id: TabId(fresh()),
                journal_id: JournalId(fresh()),
                doc: DocId::new("d1").unwrap(),
                incarnation: Incarnation(fresh()),
                homed,
            },
            conn: "boot/conn".into(),
            base_seq: 1,
            body: "{}".into(),
            digest: Digest::of(b"patch"),
            guarded: false,
            expires_at,
            doubted_seq: None,
        }),
        created_at: 1,
        settled_by: None,
        settled_at: None,
        contradicted: false,
        settlement: None,
    }
}

/// Every row there can be, as far as decisions look at it.
fn rows() -> Vec<KeyRow> {
    let mut rows = Vec::new();
    for state in KeyState::ALL {
        for homed in [Homed::Server, Homed::Elsewhere] {
            for expires_at in [NOW - 1, NOW, NOW + 1] {
                let row = row(state, homed, expires_at);
                if state != KeyState::Settled {
                    rows.push(row);
                    continue;
                }
                rows.extend([Verdict::Applied, Verdict::NotApplied].map(|verdict| KeyRow {
                    settled_by: Some(SettledBy::Person),
                    settlement: Some(Settlement { verdict, who: "ws/user".into() }),
                    ..row.clone()
                }));
            }
        }
    }
    rows
}

/// Every speaker there can be for a row: the recipient's incarnation or another, its journal or another.
fn speakers(row: &KeyRow) -> Vec<Speaker<'static>> {
    let own = row.plan.as_ref().map(|p| &p.recipient);
    let journals = [own.map_or(JournalId(fresh()), |r| r.journal_id), JournalId(fresh())];
    let incarnations = [own.map_or(Incarnation(fresh()), |r| r.incarnation), Incarnation(fresh())];
    let mut speakers = Vec::new();
    for journal_id in journals {
        speakers.push(Speaker { conn: "boot/next", journal_id, open: None, now: NOW });
        for incarnation in incarnations {
            for homed in [Homed::Server, Homed::Elsewhere] {
                speakers.push(Speaker { conn: "boot/next", journal_id, open: Some((incarnation, homed)), now: NOW });
            }
        }
    }
    speakers
}

/// The arrows of §9 that evidence from a tab may take.
fn allowed(from: KeyState, to: KeyState) -> bool {
    use KeyState::{Acked, Delivered, Lost, Refused, Unknown};
    match from {
        Delivered | Unknown => matches!(to, Delivered | Acked | Refused | Unknown),
        // Proven absent it is handed out again or lost; another incarnation may be in doubt.
        Acked => matches!(to, Acked | Delivered | Lost | Unknown),
        _ => to == from,
    }
}

#[test]
fn s05_evidence_moves_a_row_along_the_arrows_alone() {
    let mut decided = 0;
    for row in rows() {
        for speaker in speakers(&row) {
            let digest = row.plan.as_ref().map_or(Digest::of(b""), |p| p.digest);
            let patch_id = row.plan.as_ref().map_or(PatchId(fresh()), |p| p.patch_id);
            let entry = |state| UnconfirmedEntry { patch_id, digest, state, reason: None };
            let mut all = vec![acknowledged(&row, &speaker), resume(&row, None, &speaker)];
            for n in [DELIVERY - 1, DELIVERY, DELIVERY + 1] {
                all.push(refused(&row, Some(n), Reason::Busy, None, &speaker));
                all.push(unknown(&row, Some(n), &speaker));
                all.push(not_seen(&row, n, &speaker));
            }
            all.extend(ReportedState::ALL.iter().map(|s| resume(&row, Some(&entry(*s)), &speaker)));
            for settled in all {
                decided += 1;
                let Settled::Write { row: after, .. } = settled else { continue };
                assert!(allowed(row.state, after.state), "{:?} to {:?}", row.state, after.state);
                if !row.state.is_open() {
                    let contradicted = KeyRow { contradicted: true, ..row.clone() };
                    assert_eq!(*after, contradicted, "a settled row only learns that it is contradicted");
                }
                let (before, after) = (row.plan.as_ref().unwrap(), after.plan.as_ref().unwrap());
                assert!(after.delivery >= before.delivery);
                assert_eq!((after.patch_id, after.digest, &after.body), (before.patch_id, before.digest, &before.body));
            }
        }
    }
    assert!(decided > 4000, "{decided}");
}

#[test]
fn r02_an_older_no_changes_nothing() {
    for row in rows() {
        for speaker in speakers(&row) {
            for n in [0, DELIVERY - 1, DELIVERY + 1] {
                for settled in [
                    refused(&row, Some(n), Reason::HandlerRefused, None, &speaker),
                    not_seen(&row, n, &speaker),
                    unknown(&row, Some(n), &speaker),
                ] {
                    assert!(matches!(settled, Settled::Ignore(_)), "{:?} {settled:?}", row.state);
                }
            }
        }
    }
}

#[test]
fn j12_only_the_journal_that_was_asked_can_say_not_seen() {
    for row in rows() {
        for speaker in speakers(&row) {
            let own = row.plan.as_ref().is_some_and(|p| p.recipient.journal_id == speaker.journal_id);
            if !own {
                assert!(matches!(not_seen(&row, DELIVERY, &speaker), Settled::Ignore(_)));
            }
        }
    }
}

#[test]
fn w02_d06_no_not_seen_silence_or_fence_outweighs_the_doubt_of_a_save() {
    let doubted = |row: KeyRow| KeyRow { plan: row.plan.map(|plan| Plan { doubted_seq: Some(2), ..plan }), ..row };
    for row in rows().into_iter().map(doubted) {
        for speaker in speakers(&row) {
            for settled in [
                not_seen(&row, DELIVERY, &speaker),
                resume(&row, None, &speaker),
                refused(&row, Some(DELIVERY), Reason::PatchIdReused, None, &speaker),
            ] {
                let Settled::Write { row: after, follow, confirm } = settled else { continue };
                assert!(row.state.is_open(), "a person's word is not contradicted by it: {after:?}");
                assert!(after.state == row.state || after.state == KeyState::Unknown, "{:?}", after.state);
                assert_ne!(follow, Follow::Patch, "it is not handed out again");
                assert!(matches!(confirm, None | Some(ConfirmedAs::Unknown)));
                assert_eq!(after.plan.as_ref().unwrap().doubted_seq, Some(2), "the doubt stays");
            }
            // What was in a document may have been carried out of it, whoever refuses it later.
            let refusal = refused(&row, Some(DELIVERY), Reason::Expired, None, &speaker);
            if row.state == KeyState::Acked {
                assert!(matches!(refusal, Settled::Write { row, .. } if row.state == KeyState::Unknown));
            }
        }
    }
}

#[test]
fn r07_silence_proves_absence_only_between_two_homes_on_the_server() {
    for row in rows().into_iter().filter(|r| r.state.is_open()) {
        let recipient = row.plan.as_ref().unwrap().recipient.clone();
        for speaker in speakers(&row) {
            let Some((incarnation, homed)) = speaker.open else { continue };
            let proven =
                incarnation != recipient.incarnation && homed == Homed::Server && recipient.homed == Homed::Server;
            if let Settled::Write { row: after, .. } = resume(&row, None, &speaker) {
                let called_absent = after.state != row.state || after.plan.as_ref().unwrap().recipient != recipient;
                assert!(!called_absent || proven, "{row:?} {after:?}");
            }
        }
    }
}

#[test]
fn s06_nothing_is_handed_out_after_its_deadline() {
    for row in rows() {
        for speaker in speakers(&row) {
            for settled in [not_seen(&row, DELIVERY, &speaker), resume(&row, None, &speaker)] {
                if let Settled::Write { row: after, follow: Follow::Patch, .. } = settled {
                    assert!(after.plan.as_ref().unwrap().expires_at > NOW);
                    assert_eq!(after.state, KeyState::Delivered);
                }
            }
        }
    }
}

#[test]
fn s06_a_deadline_makes_delivered_unknown_and_nothing_else() {
    for row in rows() {
        let late = row.state == KeyState::Delivered && row.plan.as_ref().is_some_and(|p| p.expires_at <= NOW);
        let after = expired(&row, NOW);
        assert_eq!(after.is_some(), late);
        assert!(after.is_none_or(|r| r.state == KeyState::Unknown && r.recorded.is_none()));
    }
}

#[test]
fn w02_a_save_makes_done_of_whatever_was_handed_out() {
    for row in rows() {
        let after = settle_saved(&row, 9, NOW);
        let settles = !matches!(row.state, KeyState::Claimed | KeyState::Done);
        assert_eq!(after.is_some(), settles, "{:?}", row.state);
        let Some(after) = after else { continue };
        assert_eq!((after.state, after.settled_by), (KeyState::Done, Some(SettledBy::Save)));
        let denied = row.settlement.is_some_and(|s| s.verdict == Verdict::NotApplied);
        assert_eq!(after.contradicted, denied || matches!(row.state, KeyState::Refused | KeyState::Lost));
    }
}

#[test]
fn s10_only_unknown_is_open_to_a_persons_word_and_the_first_word_stands() {
    for row in rows() {
        for verdict in [Verdict::Applied, Verdict::NotApplied] {
            let late = expired(&row, NOW).is_some();
            match settle(Some(&row), verdict, "ws/other", NOW) {
                Word::Write { row: after, fence } => {
                    assert!(row.state == KeyState::Unknown || late, "{:?}", row.state);
                    assert_eq!(fence, verdict == Verdict::NotApplied);
                    assert_eq!((after.state, after.settled_at), (KeyState::Settled, Some(NOW)));
                    assert_eq!(after.settlement, Some(Settlement { verdict, who: "ws/other".into() }));
                    assert_eq!(after.plan, row.plan, "it stays the recipient's, so that evidence finds it");
                }
                Word::Tell(answer) if row.state == KeyState::Settled => {
                    let same = row.settlement.as_ref().is_some_and(|s| s.verdict == verdict);
                    assert_eq!((answer.status, answer.replayed), if same { (200, true) } else { (409, false) });
                }
                Word::Tell(answer) => {
                    assert!(row.state != KeyState::Unknown && !late);
                    assert_eq!(answer.code(), Some("not_unknown"));
                }
            }
        }
    }
    assert!(matches!(settle(None, Verdict::Applied, "ws/user", NOW), Word::Tell(a) if a.status == 404));
}

#[test]
fn s10_evidence_contradicts_the_other_word_alone() {
    for row in rows().into_iter().filter(|r| r.state == KeyState::Settled) {
        let said = row.settlement.as_ref().is_some_and(|s| s.verdict == Verdict::Applied);
        for speaker in speakers(&row) {
            let marks = |settled: Settled| matches!(settled, Settled::Write { row, .. } if row.contradicted);
            assert_eq!(marks(acknowledged(&row, &speaker)), !said);
            assert_eq!(marks(refused(&row, Some(DELIVERY), Reason::HandlerRefused, None, &speaker)), said);
            assert!(!marks(unknown(&row, Some(DELIVERY), &speaker)), "a doubt is no evidence");
        }
    }
}

#[test]
fn s03_only_a_free_key_is_taken() {
    for row in rows() {
        for (number, now, ask) in
            [(1, NOW, false), (2, NOW, false), (3, NOW, false), (3, NOW + 1, false), (3, NOW + 1, true)]
        {
            let attempt = Attempt {
                id: row.id.clone(),
                route: row.route.clone(),
                fingerprint: row.request_hash,
                number,
                first_at: None,
                ask,
            };
            let facts = ClaimFacts { now, token: fresh(), lease_ms: 10, watermark: Some(0) };
            let free = !ask
                && match row.state {
                    KeyState::Claimed => now > NOW,
                    KeyState::Refused | KeyState::Lost => number > row.attempt,
                    _ => false,
                };
            match claim(Some(&row), &attempt, &facts) {
                Claim::TakeOver { row: taken, from } => {
                    assert!(free, "{:?} attempt {number}", row.state);
                    assert_eq!((from, taken.state, taken.plan), (row.claim_token, KeyState::Claimed, None));
                    assert_eq!(taken.created_at, row.created_at, "S9 counts from the first claim");
                }
                Claim::Take(_) => panic!("there is a row"),
                Claim::Tell(_) | Claim::Look => assert!(!free, "{:?} attempt {number}", row.state),
            }
            let other = Attempt { fingerprint: Digest::of(b"another request"), ..attempt };
            assert!(matches!(claim(Some(&row), &other, &facts), Claim::Tell(a) if a.status == 422));
        }
    }
}
