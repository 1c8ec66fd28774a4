//! What the content of an instance holds, and who may say so: marks that are taken back (J6), content that carries
//! what this journal never heard of (W1), and words about another incarnation (R1).

use patchkeep_core::frame::{ConfirmedAs, Homed, ReportedState, ServerFrame, TabFrame, UnconfirmedEntry};
use patchkeep_core::ids::PatchId;
use patchkeep_core::journal::RecordState;
use patchkeep_core::session::{OpenDocument, ReconcileOutcome, SaveAnswer, SaveOutcome};
use patchkeep_core::storage::Durability;
use patchkeep_rules::world::{ReconcileMode, World};

use crate::support::{deliver, doc, id, query, told, world, world_with};

/// Content that holds these, whoever applied them.
fn content(carried: Vec<PatchId>) -> OpenDocument {
    OpenDocument {
        doc: doc(),
        homed: Homed::Server,
        base_seq: 0,
        reconciles: false,
        marks_in_document: false,
        restored: false,
        carried: Some(carried),
    }
}

fn confirm(w: &mut World, n: u128, confirmed: ConfirmedAs) {
    w.receive(ServerFrame::PatchConfirmed(vec![(id(n), confirmed)]).encode());
}

/// The list of the last `hello`, with the document's home.
fn listed(w: &World) -> (Homed, Vec<UnconfirmedEntry>) {
    let hello = w.sent.iter().rev().find_map(|f| if let TabFrame::Hello(h) = f { Some(h) } else { None });
    let open = &hello.expect("a hello").docs[0];
    (open.homed, open.unconfirmed.clone())
}

fn save(w: &mut World, status: u16, body: &str) -> SaveOutcome {
    let (now, mark) = (w.now(), w.mark(&doc()).unwrap());
    let content_type = Some("application/json".into());
    let answer = SaveAnswer::Answered { status, content_type, body: body.into() };
    w.session.as_mut().unwrap().save_answered(now, &mark, &answer)
}

#[test]
fn r01_d2_a_word_about_another_incarnation_confirms_nothing() {
    let mut w = world_with(Homed::Server, Durability::Strict, true);
    w.reconcile = ReconcileMode::Answers(ReconcileOutcome::Present);
    deliver(&mut w, 1, 1);
    confirm(&mut w, 1, ConfirmedAs::Acked);
    w.cut();
    w.connect(false);
    assert!(listed(&w).1.is_empty(), "the server knows it already");
    // The content is replaced by what was merged; the hook finds the effect in it.
    w.open_document(&doc(), Homed::Server, None, true);
    assert_eq!(w.record(id(1)).unwrap().confirmed, None, "that word was about the content before");
    w.cut();
    w.connect(false);
    let (_, list) = listed(&w);
    assert_eq!(list.iter().map(|e| (e.patch_id, e.state)).collect::<Vec<_>>(), [(id(1), ReportedState::Applied)]);
    confirm(&mut w, 1, ConfirmedAs::Acked);
    w.cut();
    w.connect(false);
    assert!(listed(&w).1.is_empty());
}

#[test]
fn r01_d2_a_word_from_before_opened_is_about_the_content_before() {
    let mut w = world(Homed::Server);
    deliver(&mut w, 1, 1);
    w.cut();
    w.connect(true);
    w.open_as(content(vec![id(1)]), String::new());
    confirm(&mut w, 1, ConfirmedAs::Acked);
    assert_eq!(w.record(id(1)).unwrap().confirmed, None);
}

#[test]
fn w01_d3_content_names_what_it_carries_without_a_record_of_it() {
    let mut w = World::new(Durability::Strict, 0);
    w.open_as(content(vec![id(7)]), id(7).to_string());
    w.connect(false);
    told(&mut w);
    let named = |w: &mut World| w.mark(&doc()).unwrap().patch_ids;
    assert_eq!(named(&mut w), [id(7)]);
    // Asked about it, the tab does not deny what its content holds (J12), and applies it no second time (J5).
    query(&mut w, 7, 2);
    deliver(&mut w, 7, 3);
    assert_eq!(told(&mut w), ["state 2 applied", "ack 3 replayed"]);
    assert_eq!((named(&mut w), w.handled.len()), (vec![id(7)], 0));
    assert_eq!(save(&mut w, 200, r#"{"seq":1}"#), SaveOutcome::Saved { seq: 1 });
    assert!(named(&mut w).is_empty(), "the stored document holds it now");
}

#[test]
fn w01_d3_what_is_carried_without_a_record_is_named_until_it_is_flushed() {
    let mut w = World::new(Durability::Strict, 0);
    w.open_as(content(vec![id(7), id(8), id(7)]), String::new());
    w.connect(false);
    let named = |w: &mut World| w.mark(&doc()).unwrap().patch_ids;
    assert_eq!(named(&mut w), [id(7), id(8)]);
    confirm(&mut w, 8, ConfirmedAs::Done);
    assert_eq!(named(&mut w), [id(7)]);
    let details = format!(r#"{{"seq":4,"patch_ids":["{}"]}}"#, id(7));
    let conflict = format!(r#"{{"error":{{"code":"save_conflict","details":{details}}}}}"#);
    let SaveOutcome::Conflict { patch_ids, .. } = save(&mut w, 409, &conflict) else { panic!("no conflict") };
    assert_eq!(patch_ids, [id(7), id(8)], "both are in the stored text");
    assert!(named(&mut w).is_empty());
}

#[test]
fn j06_d4_content_that_begins_without_the_effect_takes_kept_back() {
    let mut w = world_with(Homed::Elsewhere, Durability::Strict, true);
    deliver(&mut w, 1, 1);
    w.keep(&doc());
    assert!(w.record(id(1)).unwrap().kept);
    w.cut();
    // An older version is restored: the hook is asked only once the server has fenced what came before.
    w.stored.get_mut(&doc()).unwrap().kept = None;
    w.open_document(&doc(), Homed::Elsewhere, None, true);
    assert!(!w.record(id(1)).unwrap().kept, "no store will bring it back with this content");
    assert!(w.store.texts(w.tab_id()).iter().all(|text| !text.contains("\"kept\":true")), "not on the disk either");
    w.keep(&doc());
    w.die();
    w.load();
    w.open_document(&doc(), Homed::Elsewhere, None, true);
    w.connect(false);
    assert_ne!(w.record(id(1)).unwrap().state, RecordState::Applied, "{}", w.open[&doc()].text);
}

#[test]
fn j06_d4_a_newer_draft_that_does_not_name_it_takes_kept_back() {
    let mut w = world_with(Homed::Elsewhere, Durability::Strict, true);
    deliver(&mut w, 1, 1);
    deliver(&mut w, 2, 1);
    let first = w.mark(&doc()).unwrap();
    w.keep(&doc());
    let only_two = patchkeep_core::session::Mark { patch_ids: vec![id(2)], ..first };
    let now = w.now();
    w.session.as_mut().unwrap().kept(now, &only_two).unwrap();
    assert_eq!([1, 2].map(|n| w.record(id(n)).unwrap().kept), [false, true]);
}

#[test]
fn w03_d7_a_conflict_after_a_lost_answer_names_what_the_stored_text_holds() {
    let mut w = world(Homed::Server);
    deliver(&mut w, 1, 1);
    deliver(&mut w, 2, 1);
    let mark = w.mark(&doc()).unwrap();
    let now = w.now();
    let lost = SaveAnswer::Failed { detail: "reset".into() };
    let outcome = w.session.as_mut().unwrap().save_answered(now, &mark, &lost);
    assert!(matches!(outcome, SaveOutcome::Unknown { .. }));
    // It was committed, as the socket says.
    confirm(&mut w, 1, ConfirmedAs::Done);
    let conflict = r#"{"error":{"code":"save_conflict","details":{"seq":1,"patch_ids":[],"in_doubt":[]}}}"#;
    let expected = SaveOutcome::Conflict { seq: 1, patch_ids: vec![id(1)], in_doubt: vec![] };
    assert_eq!(save(&mut w, 409, conflict), expected);
    assert_eq!(save(&mut w, 409, conflict), expected, "however often it is tried before the merge");
    // A save that is confirmed is a base that holds it: from there on no conflict is about it.
    assert_eq!(save(&mut w, 200, r#"{"seq":2}"#), SaveOutcome::Saved { seq: 2 });
    let conflict = r#"{"error":{"code":"save_conflict","details":{"seq":3,"patch_ids":[]}}}"#;
    let expected = SaveOutcome::Conflict { seq: 3, patch_ids: vec![], in_doubt: vec![] };
    assert_eq!(save(&mut w, 409, conflict), expected);
}
