//! Resume (§7): what is listed, what follows, and what the server's answers settle.

use patchkeep_core::frame::{ConfirmedAs, Hello, Homed, ReportedState, ServerFrame, TabFrame};
use patchkeep_core::session::ReconcileOutcome;
use patchkeep_core::storage::Durability;
use patchkeep_rules::world::{HandlerMode, ReconcileMode, World};

use crate::support::{deliver, doc, id, patch, told, world, world_with};

fn last_hello(world: &World) -> &Hello {
    let hellos = world.sent.iter().filter_map(|f| if let TabFrame::Hello(h) = f { Some(h) } else { None });
    hellos.collect::<Vec<_>>().pop().unwrap()
}

fn listed(world: &World) -> Vec<ReportedState> {
    last_hello(world).docs[0].unconfirmed.iter().map(|e| e.state).collect()
}

fn confirm(world: &mut World, n: u128, as_: ConfirmedAs) {
    world.receive(ServerFrame::PatchConfirmed(vec![(id(n), as_)]).encode());
}

#[test]
fn r01_unconfirmed_records_are_listed() {
    let mut w = world(Homed::Elsewhere);
    deliver(&mut w, 1, 1);
    w.handler = HandlerMode::Refuse("anchor_not_found".into());
    deliver(&mut w, 2, 1);
    w.handler = HandlerMode::Later;
    deliver(&mut w, 3, 1);
    w.cut();
    w.connect(false);
    assert_eq!(listed(&w), [ReportedState::Applied, ReportedState::Refused, ReportedState::Applying]);
    confirm(&mut w, 1, ConfirmedAs::Acked);
    confirm(&mut w, 2, ConfirmedAs::Refused);
    w.cut();
    w.connect(false);
    assert_eq!(listed(&w), [ReportedState::Applying], "what the server knows is not told again");
}

#[test]
fn r07_an_acked_patch_is_listed_again_by_the_next_incarnation() {
    let mut w = world_with(Homed::Elsewhere, Durability::Strict, true);
    w.reconcile = ReconcileMode::Answers(ReconcileOutcome::Present);
    deliver(&mut w, 1, 1);
    confirm(&mut w, 1, ConfirmedAs::Acked);
    w.die();
    w.load();
    w.open_document(&doc(), Homed::Elsewhere, None, true);
    w.connect(false);
    assert_eq!(listed(&w), [ReportedState::Applying]);
    assert_eq!(told(&mut w), ["ack 1 new", "ack 1 replayed"], "the follow-up of what was listed as applying");
}

#[test]
fn r04_done_is_the_word_of_a_save() {
    let mut w = world(Homed::Elsewhere);
    deliver(&mut w, 1, 1);
    confirm(&mut w, 1, ConfirmedAs::Done);
    assert!(w.record(id(1)).unwrap().flushed);
    w.die();
    w.load();
    w.open_document(&doc(), Homed::Elsewhere, None, false);
    w.connect(false);
    told(&mut w);
    deliver(&mut w, 1, 2);
    assert_eq!(told(&mut w), ["ack 2 replayed"]);
}

#[test]
fn r04_what_is_done_meanwhile_is_not_applied_again() {
    let mut w = world(Homed::Elsewhere);
    w.hold_store = true;
    deliver(&mut w, 1, 1);
    confirm(&mut w, 1, ConfirmedAs::Done);
    w.release_store();
    assert!(w.handled.is_empty());
    assert_eq!(told(&mut w), ["ack 1 replayed"]);
}

#[test]
fn p05_what_the_server_does_not_know_is_listed() {
    let mut w = world(Homed::Elsewhere);
    w.handler = HandlerMode::Later;
    deliver(&mut w, 1, 1);
    w.advance(30_000);
    confirm(&mut w, 1, ConfirmedAs::Unknown);
    w.cut();
    w.settle(id(1), &HandlerMode::Ok);
    w.connect(false);
    assert_eq!(listed(&w), [ReportedState::Applied]);
}

#[test]
fn j05_exactly_one_answer_however_often_it_is_asked() {
    let mut w = world_with(Homed::Server, Durability::Strict, true);
    deliver(&mut w, 1, 1);
    told(&mut w);
    w.reconcile = ReconcileMode::Answers(ReconcileOutcome::Absent);
    w.die();
    w.load();
    w.open_document(&doc(), Homed::Server, None, true);
    w.connect(true);
    let garbled =
        |w: &World, n| ServerFrame::Patch(patch(w, 1, n)).encode().replace("\"guarded\":false", "\"guarded\":0");
    for n in 2..=4 {
        let frame = garbled(&w, n);
        w.receive(frame);
    }
    w.connect(false);
    assert_eq!(told(&mut w), ["state 4 not_seen"]);
}

#[test]
fn b04_reading_the_journal_back_does_not_write_it_again() {
    let mut w = world_with(Homed::Elsewhere, Durability::Strict, true);
    w.reconcile = ReconcileMode::Answers(ReconcileOutcome::Present);
    deliver(&mut w, 1, 1);
    w.flush(&doc());
    confirm(&mut w, 1, ConfirmedAs::Done);
    deliver(&mut w, 2, 1);
    let before = w.record(id(2)).unwrap();
    let epoch = w.store.epoch(w.tab_id());
    w.handled.clear();
    for _ in 0..50 {
        w.die();
        w.load();
        w.open_document(&doc(), Homed::Elsewhere, None, true);
        w.connect(false);
    }
    let after = w.record(id(2)).unwrap();
    assert_eq!(w.session.as_ref().unwrap().records().len(), 2);
    assert_eq!(w.store.epoch(w.tab_id()), epoch + 50);
    assert!(w.handled.is_empty());
    assert_eq!(
        (before.state, before.delivery, before.settled_at, before.kept),
        (after.state, after.delivery, after.settled_at, after.kept)
    );
}

#[test]
fn b17_a_list_that_was_cut_proves_nothing_by_its_silence() {
    let mut w = world(Homed::Server);
    for n in 0..600 {
        deliver(&mut w, n, 1);
    }
    assert!(w.sent.iter().all(|f| f.encode().len() < 1 << 20));
    w.cut();
    w.connect(false);
    let hello = last_hello(&w);
    let bytes = TabFrame::Hello(hello.clone()).encode().len();
    assert!(bytes < 64 * 1024, "{bytes}");
    assert!(hello.docs[0].unconfirmed.len() < 600);
    assert_eq!(hello.docs[0].homed, Homed::Elsewhere);
}

#[test]
fn r01_documents_that_do_not_fit_into_hello_follow_as_open() {
    let mut w = World::new(Durability::Strict, 0);
    let docs: Vec<_> = (0..400).map(|n| patchkeep_core::ids::DocId::new(&format!("notes/{n}")).unwrap()).collect();
    for doc in &docs {
        w.open_document(doc, Homed::Elsewhere, None, false);
    }
    w.connect(false);
    let in_hello = last_hello(&w).docs.len();
    let opened = w.sent.iter().filter(|f| matches!(f, TabFrame::Open(_))).count();
    assert!(in_hello < docs.len());
    assert_eq!(in_hello + opened, docs.len());
}
