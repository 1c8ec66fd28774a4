//! The journal's rules (§4): intents, deadlines, sockets, fences, redelivery, one at a time, proofs.

use patchkeep_core::error::ProblemCode;
use patchkeep_core::frame::{Homed, RejectCode, ServerFrame};
use patchkeep_core::journal::RecordState;
use patchkeep_core::session::{Event, Input, Notice, Output, ReconcileOutcome, Status};
use patchkeep_core::storage::{Durability, StorageFault};
use patchkeep_rules::world::{HandlerMode, ReconcileMode, World};

use crate::support::{deliver, doc, id, patch, query, text, told, world, world_with};

#[test]
fn j01_no_handler_before_the_intent_is_durable() {
    let mut w = world(Homed::Elsewhere);
    w.hold_store = true;
    deliver(&mut w, 1, 1);
    assert!(w.handled.is_empty());
    assert!(w.held[0].strict, "an intent asks for strict durability");
    w.release_store();
    assert_eq!(w.handled, [id(1)]);
    assert_eq!(told(&mut w), ["ack 1 new"]);
}

#[test]
fn j02_the_deadline_is_checked_again_in_the_task_that_calls() {
    let mut w = world(Homed::Elsewhere);
    w.hold_store = true;
    deliver(&mut w, 1, 1);
    w.now_ms += 61_000;
    w.release_store();
    assert_eq!(told(&mut w), ["refuse 1 expired"]);
    assert!(w.handled.is_empty());
}

#[test]
fn j02_b79_a_clock_that_was_set_is_judged_by_the_server() {
    const DAY_MS: i64 = 86_400_000;
    for set in [DAY_MS, -DAY_MS] {
        let mut w = world(Homed::Elsewhere);
        w.wall_set_ms = set;
        deliver(&mut w, 1, 1);
        assert_eq!(told(&mut w), ["ack 1 new"], "the deadline is a minute ahead, as the server says");
        let is_told = |n: &Notice| matches!(n, Notice::Problem { code: ProblemCode::ClocksDisagree, .. });
        assert_eq!(w.notices.iter().any(is_told), set > 0, "set back, it is ahead by either clock");
        // Slept over by the one clock alone: the deadline has passed, as the server says.
        let late = patch(&w, 2, 1);
        w.now_ms += 61_000;
        w.wall_set_ms -= 61_000;
        w.receive(ServerFrame::Patch(late).encode());
        assert_eq!(told(&mut w), ["refuse 1 expired"]);
    }
}

#[test]
fn j02_b79_a_server_that_does_not_answer_is_waited_for_one_heartbeat() {
    let mut w = world(Homed::Elsewhere);
    (w.wall_set_ms, w.pongs) = (86_400_000, false);
    deliver(&mut w, 1, 1);
    assert_eq!(told(&mut w), Vec::<String>::new(), "it waits");
    // Meanwhile it is applying, once (J5, J12).
    query(&mut w, 1, 2);
    assert_eq!(told(&mut w), ["state 2 applying"]);
    w.advance(15_000);
    assert_eq!((told(&mut w), w.handled.len()), (vec!["refuse 2 expired".to_owned()], 0));
}

#[test]
fn j02_b79_it_is_asked_again_in_the_task_that_calls() {
    let mut w = world(Homed::Elsewhere);
    w.hold_store = true;
    deliver(&mut w, 1, 1);
    (w.wall_set_ms, w.pongs) = (86_400_000, false);
    w.release_store();
    assert_eq!((told(&mut w), w.handled.len()), (vec![], 0), "it waits, with its intent written");
    w.cut();
    assert_eq!(w.record(id(1)), None, "dropped with its socket (J3)");
    w.pongs = true;
    w.connect(false);
    deliver(&mut w, 1, 2);
    assert_eq!(told(&mut w), ["ack 2 new"]);
}

#[test]
fn j03_a_call_the_host_was_not_given_yet_is_taken_back() {
    type Host = fn(&mut World);
    let replaces: Host = |w| w.open_document(&doc(), Homed::Elsewhere, None, false);
    let closes: Host = |w| {
        let (now, incarnation) = (w.now(), w.open[&doc()].incarnation);
        w.session.as_mut().unwrap().close_document(now, &doc(), incarnation).unwrap();
        w.happen(Event::Timer);
    };
    let loses: Host = |w| w.cut();
    let sleeps: Host = |w| w.happen(Event::Suspend);
    let host = [(replaces, "refuse 1 wrong_incarnation"), (closes, "refuse 1 not_open"), (loses, ""), (sleeps, "")];
    for (acts, answer) in host {
        let mut w = world(Homed::Elsewhere);
        w.hold_store = true;
        deliver(&mut w, 1, 1);
        let intent = w.held.pop_front().unwrap();
        let outcome = w.store.run(&intent);
        let event = Event::Transaction { id: intent.id, outcome };
        let (now, random) = (w.now(), w.fresh());
        // The outputs of this are news for the host before they are the call, and the host acts on news.
        w.session.as_mut().unwrap().handle(Input { now, random, event });
        acts(&mut w);
        let answers: Vec<_> = told(&mut w).into_iter().filter(|t| t != "close").collect();
        assert_eq!(answers.join(" "), answer);
        assert_eq!((w.handled.len(), w.record(id(1))), (0, None), "{answer}");
    }
}

#[test]
fn j05_a_garbled_duplicate_of_a_patch_under_way_is_answered_once() {
    let mut w = world(Homed::Elsewhere);
    w.hold_store = true;
    deliver(&mut w, 1, 1);
    let garbled = ServerFrame::Patch(patch(&w, 1, 2)).encode().replace("\"guarded\":false", "\"guarded\":0");
    w.receive(garbled);
    assert_eq!(told(&mut w), Vec::<String>::new(), "its own answer is on the way");
    w.release_store();
    assert_eq!(told(&mut w), ["ack 1 new"]);
}

#[test]
fn j03_the_intent_is_dropped_with_its_socket() {
    let mut w = world(Homed::Elsewhere);
    w.hold_store = true;
    deliver(&mut w, 1, 1);
    w.cut();
    w.release_store();
    assert!(w.handled.is_empty());
    assert_eq!(w.record(id(1)), None);
    w.connect(false);
    query(&mut w, 1, 2);
    assert_eq!(told(&mut w), ["state 2 not_seen"]);
    deliver(&mut w, 1, 3);
    assert_eq!(told(&mut w), ["ack 3 new"]);
}

#[test]
fn j03_a_dropped_intent_does_not_come_back_after_a_reload() {
    let mut w = world(Homed::Elsewhere);
    w.hold_store = true;
    deliver(&mut w, 1, 1);
    w.cut();
    w.release_store();
    w.die();
    w.load();
    assert_eq!(w.record(id(1)), None);
}

#[test]
fn j03_b03b_once_called_nothing_is_dropped() {
    let mut w = world(Homed::Elsewhere);
    w.handler = HandlerMode::Later;
    deliver(&mut w, 1, 1);
    w.cut();
    w.connect(false);
    deliver(&mut w, 1, 2);
    assert_eq!(told(&mut w), [""; 0]);
    w.settle(id(1), &HandlerMode::Ok);
    assert_eq!(told(&mut w), ["ack 2 new"]);
    assert_eq!(w.handled, [id(1)]);
}

#[test]
fn j03_b53c_a_handler_outlives_its_document() {
    let mut w = world(Homed::Elsewhere);
    w.handler = HandlerMode::Later;
    deliver(&mut w, 1, 1);
    let call = w.pending[0].call;
    assert!(w.session.as_ref().unwrap().still_wanted(call));
    w.open_document(&doc(), Homed::Elsewhere, None, false);
    assert!(!w.session.as_ref().unwrap().still_wanted(call));
    query(&mut w, 1, 2);
    assert_eq!(told(&mut w), ["state 2 applying"]);
    w.settle(id(1), &HandlerMode::Ok);
    assert_eq!(told(&mut w), ["unknown 2"], "where the effect went, nobody knows");
}

#[test]
fn j04_a_fenced_write_ends_the_session() {
    let mut w = world(Homed::Elsewhere);
    deliver(&mut w, 1, 1);
    told(&mut w);
    let tab = w.tab_id();
    w.store.steal(tab);
    deliver(&mut w, 2, 1);
    assert_eq!(w.status(), Some(Status::Fenced));
    assert_eq!(told(&mut w), [""; 0]);
    assert!(w.mark(&doc()).is_none(), "a fenced instance is not saved");
    assert_eq!(w.session.as_ref().unwrap().next_wake(), None);
}

#[test]
fn t01_losing_the_lock_is_being_fenced() {
    let mut w = world(Homed::Elsewhere);
    w.happen(Event::LockLost);
    assert_eq!(w.status(), Some(Status::Fenced));
    assert_eq!(w.connected, None);
}

#[test]
fn t04_b09_a_suspended_page_does_nothing_and_reads_the_epoch_first() {
    let mut w = world(Homed::Elsewhere);
    w.hold_store = true;
    deliver(&mut w, 1, 1);
    w.happen(Event::Suspend);
    assert_eq!(w.connected, None);
    let tab = w.tab_id();
    w.store.steal(tab);
    w.happen(Event::Resume);
    w.release_store();
    assert_eq!(w.status(), Some(Status::Fenced));
    assert_eq!(w.wanted, None, "no attempt is made for a tab that is another's");
    assert!(w.handled.is_empty());
}

#[test]
fn t04_a_page_that_comes_back_connects_anew() {
    let mut w = world(Homed::Elsewhere);
    w.happen(Event::Suspend);
    w.happen(Event::Resume);
    assert!(w.wanted.is_some());
}

#[test]
fn j05_redelivery_reacks() {
    let mut w = world(Homed::Elsewhere);
    deliver(&mut w, 1, 1);
    w.cut();
    w.connect(false);
    for delivery in 2..=5 {
        deliver(&mut w, 1, delivery);
    }
    assert_eq!(told(&mut w), ["ack 1 new", "ack 2 replayed", "ack 3 replayed", "ack 4 replayed", "ack 5 replayed"]);
    assert_eq!(w.effects[&id(1)], 1);
    assert_eq!(w.record(id(1)).unwrap().replays, 4);
}

#[test]
fn j05_b03c_a_refusal_is_repeated_and_the_handler_not_called_again() {
    let mut w = world(Homed::Elsewhere);
    w.handler = HandlerMode::Refuse("anchor_ambiguous".into());
    for delivery in 1..=3 {
        deliver(&mut w, 1, delivery);
    }
    assert_eq!(told(&mut w), ["refuse 1 anchor_ambiguous", "refuse 2 anchor_ambiguous", "refuse 3 anchor_ambiguous"]);
    assert_eq!(w.handled, [id(1)]);
}

#[test]
fn j05_a_word_of_the_hosts_own_is_handler_refused() {
    let mut w = world(Homed::Elsewhere);
    w.handler = HandlerMode::Refuse("too_shiny".into());
    deliver(&mut w, 1, 1);
    assert_eq!(told(&mut w), ["refuse 1 handler_refused"]);
}

#[test]
fn j05_the_same_id_with_another_body_while_it_waits() {
    let mut w = world(Homed::Elsewhere);
    w.handler = HandlerMode::Later;
    deliver(&mut w, 1, 1);
    deliver(&mut w, 2, 1);
    let mut other = patch(&w, 3, 2);
    other.patch_id = id(2);
    w.receive(ServerFrame::Patch(other).encode());
    assert_eq!(told(&mut w), ["refuse 2 patch_id_reused"]);
    w.settle(id(1), &HandlerMode::Ok);
    w.settle(id(2), &HandlerMode::Ok);
    assert_eq!(told(&mut w), ["ack 1 new", "ack 1 new"]);
}

#[test]
fn j07_b05_absent_is_not_used_before_the_predecessors_are_fenced() {
    let mut w = world_with(Homed::Server, Durability::Strict, true);
    deliver(&mut w, 1, 1);
    told(&mut w);
    w.reconcile = ReconcileMode::Answers(ReconcileOutcome::Absent);
    w.die();
    w.load();
    w.open_document(&doc(), Homed::Server, None, true);
    w.connect(true);
    deliver(&mut w, 1, 2);
    assert_eq!(told(&mut w), [""; 0], "listed as applying, and not asked yet");
    assert_eq!(text(&w), "");
    w.connect(false);
    assert_eq!(told(&mut w), ["state 2 not_seen"]);
    deliver(&mut w, 1, 3);
    assert_eq!(told(&mut w), ["ack 3 new"]);
}

#[test]
fn j07_absent_is_not_believed_of_a_document_with_another_way_out() {
    let mut w = world_with(Homed::Elsewhere, Durability::Strict, true);
    deliver(&mut w, 1, 1);
    told(&mut w);
    w.reconcile = ReconcileMode::Answers(ReconcileOutcome::Absent);
    w.die();
    w.load();
    w.open_document(&doc(), Homed::Elsewhere, None, true);
    w.connect(false);
    deliver(&mut w, 1, 2);
    assert_eq!(told(&mut w), ["unknown 1", "unknown 2"]);
    assert_eq!(text(&w), "");
}

#[test]
fn j07_absent_is_not_believed_of_a_stale_base() {
    let mut w = world_with(Homed::Server, Durability::Strict, true);
    deliver(&mut w, 1, 1);
    told(&mut w);
    w.reconcile = ReconcileMode::Answers(ReconcileOutcome::Absent);
    w.stored.get_mut(&doc()).unwrap().seq = 5;
    w.die();
    w.load();
    w.open_document(&doc(), Homed::Server, Some(4), true);
    w.connect(false);
    deliver(&mut w, 1, 2);
    assert_eq!(told(&mut w), ["unknown 1", "unknown 2"]);
}

#[test]
fn j07_j09_b05_a_hook_that_never_settles_ends_as_unknown() {
    let mut w = world_with(Homed::Server, Durability::Strict, true);
    deliver(&mut w, 1, 1);
    told(&mut w);
    w.reconcile = ReconcileMode::Never;
    w.die();
    w.load();
    w.open_document(&doc(), Homed::Server, None, true);
    w.connect(false);
    deliver(&mut w, 1, 2);
    deliver(&mut w, 2, 1);
    assert_eq!(told(&mut w), [""; 0]);
    w.advance(30_000);
    assert_eq!(told(&mut w), ["unknown 2", "refuse 1 busy"]);
    deliver(&mut w, 3, 1);
    assert_eq!(told(&mut w), ["refuse 1 busy"]);
}

#[test]
fn j08_a_result_that_cannot_be_sent_is_dropped_and_the_ack_goes_out() {
    use patchkeep_core::session::{HandlerOutcome, HandlerResult};
    for result in [
        HandlerResult::Unsendable,
        HandlerResult::Json("\"x\"".repeat(2000)),
        HandlerResult::Json(r#""\ud800""#.into()),
    ] {
        let mut w = world(Homed::Elsewhere);
        w.handler = HandlerMode::Later;
        deliver(&mut w, 1, 1);
        let call = w.pending[0].call;
        w.happen(Event::Handler { call, outcome: HandlerOutcome::Applied(result) });
        assert_eq!(told(&mut w), ["ack 1 new"]);
        assert!(w.notices.iter().any(|n| matches!(n, Notice::Problem { code: ProblemCode::ResultDropped, .. })));
    }
}

#[test]
fn j08_what_nothing_waits_for_shares_a_transaction() {
    let stored_state = |w: &mut World| {
        w.die();
        w.load();
        w.record(id(3)).unwrap().state
    };
    let lived = || {
        let mut w = world(Homed::Elsewhere);
        let before = w.transactions;
        for n in 1..=3 {
            deliver(&mut w, n, 1);
        }
        assert_eq!(told(&mut w).len(), 3);
        assert_eq!(w.transactions - before, 3, "one a patch: its intent");
        w
    };
    assert_eq!(stored_state(&mut lived()), RecordState::Applying, "which is asked about like `applied` (J7)");
    let mut waited = lived();
    waited.advance(100);
    assert_eq!(stored_state(&mut waited), RecordState::Applied);
    let mut suspended = lived();
    suspended.happen(Event::Suspend);
    assert_eq!(stored_state(&mut suspended), RecordState::Applied);
    let mut closed = lived();
    closed.happen(Event::Close);
    assert_eq!(stored_state(&mut closed), RecordState::Applied);
}

#[test]
fn j09_a_handler_that_does_not_settle_makes_later_patches_busy_and_may_still_ack() {
    let mut w = world(Homed::Elsewhere);
    w.handler = HandlerMode::Later;
    deliver(&mut w, 1, 1);
    deliver(&mut w, 2, 1);
    w.advance(30_000);
    assert_eq!(told(&mut w), ["unknown 1", "refuse 1 busy"]);
    deliver(&mut w, 1, 2);
    query(&mut w, 1, 3);
    assert_eq!(told(&mut w), ["unknown 2", "state 3 unknown"]);
    w.settle(id(1), &HandlerMode::Ok);
    assert_eq!(told(&mut w), ["ack 3 new"], "R6: a late ack is the truth");
    deliver(&mut w, 2, 2);
    assert_eq!(w.handled, [id(1), id(2)], "busy was not recorded");
}

#[test]
fn j11_a_failed_write_moves_the_journal_to_memory_and_says_hello_anew() {
    let mut w = world(Homed::Elsewhere);
    deliver(&mut w, 1, 1);
    told(&mut w);
    let old = w.journal_id();
    w.store.evict();
    deliver(&mut w, 2, 1);
    assert_eq!(told(&mut w), [""; 0]);
    assert!(w.connected.is_none(), "the connection is closed");
    assert_ne!(w.journal_id(), old);
    assert!(w.notices.iter().any(|n| {
        matches!(n, Notice::Durability { durability: Durability::Memory, fault: Some(StorageFault::Evicted), .. })
    }));
    w.connect(false);
    deliver(&mut w, 1, 2);
    assert_eq!(told(&mut w), ["ack 2 replayed"], "what this context knows it still knows");
    deliver(&mut w, 3, 1);
    assert_eq!(told(&mut w), ["ack 1 new"]);
    let mut of_old = patch(&w, 4, 2);
    of_old.journal_id = old.unwrap();
    w.receive(ServerFrame::Patch(of_old).encode());
    assert_eq!(told(&mut w), ["unknown 2"]);
}

#[test]
fn j11_a_corrupt_record_makes_silence_prove_nothing() {
    use patchkeep_core::session::{Config, Session, Start};
    let w = world(Homed::Elsewhere);
    let identity = w.session.as_ref().unwrap().identity().clone();
    let journal_id = identity.journal_id;
    let start = Start {
        now: w.now(),
        random: [7, 8],
        principal: "ws/user".into(),
        identity,
        durability: Durability::Strict,
        fault: None,
        records: vec!["{\"doc\":".into()],
        visible: true,
        config: Config::default(),
    };
    let session = Session::new(start);
    assert_eq!(session.durability(), Durability::Memory);
    assert_ne!(session.identity().journal_id, journal_id);
}

#[test]
fn j12b_a_frame_that_waits_its_turn_is_applying() {
    let mut w = world(Homed::Elsewhere);
    w.handler = HandlerMode::Later;
    deliver(&mut w, 1, 1);
    deliver(&mut w, 2, 1);
    query(&mut w, 2, 2);
    assert_eq!(told(&mut w), ["state 2 applying"]);
    w.settle(id(1), &HandlerMode::Ok);
    w.settle(id(2), &HandlerMode::Ok);
    assert_eq!(told(&mut w), ["ack 1 new", "ack 2 new"]);
}

#[test]
fn j12c_b36_a_relaxed_journal_proves_nothing_after_a_power_cut() {
    let mut w = world_with(Homed::Elsewhere, Durability::Relaxed, false);
    deliver(&mut w, 1, 1);
    told(&mut w);
    w.die();
    w.store.power_cut();
    w.load();
    w.open_document(&doc(), Homed::Elsewhere, None, false);
    w.connect(false);
    query(&mut w, 1, 2);
    deliver(&mut w, 1, 3);
    assert_eq!(told(&mut w), ["state 2 unknown", "unknown 3"]);
    assert_eq!(text(&w), "");
}

#[test]
fn j12c_r07_a_fenced_home_proves_what_a_relaxed_journal_cannot() {
    let mut w = world_with(Homed::Server, Durability::Relaxed, false);
    deliver(&mut w, 1, 1);
    told(&mut w);
    w.die();
    w.store.power_cut();
    w.load();
    w.open_document(&doc(), Homed::Server, None, false);
    w.connect(false);
    deliver(&mut w, 1, 2);
    assert_eq!(told(&mut w), ["ack 2 new"]);
}

#[test]
fn j12c_what_only_this_context_was_handed_is_provable_in_memory() {
    let mut w = world_with(Homed::Elsewhere, Durability::Memory, false);
    w.handler = HandlerMode::Later;
    deliver(&mut w, 1, 1);
    deliver(&mut w, 2, 1);
    w.cut();
    w.connect(false);
    query(&mut w, 2, 2);
    query(&mut w, 3, 2);
    assert_eq!(told(&mut w), ["state 2 not_seen", "state 2 unknown"]);
}

#[test]
fn j12_a_refusal_too_needs_proof() {
    let mut w = world(Homed::Elsewhere);
    let mut of_another_journal = patch(&w, 1, 2);
    of_another_journal.journal_id = patchkeep_core::ids::JournalId(patchkeep_core::ids::Uuid::v4(5));
    of_another_journal.incarnation = patchkeep_core::ids::Incarnation(patchkeep_core::ids::Uuid::v4(6));
    w.receive(ServerFrame::Patch(of_another_journal).encode());
    assert_eq!(told(&mut w), ["unknown 2"]);
}

#[test]
fn j13_a_throw_whose_effect_is_there_is_an_ack() {
    let mut w = world_with(Homed::Elsewhere, Durability::Strict, true);
    w.reconcile = ReconcileMode::Answers(ReconcileOutcome::Present);
    w.handler = HandlerMode::Throw;
    deliver(&mut w, 1, 1);
    assert_eq!(told(&mut w), ["ack 1 new"]);
}

#[test]
fn j13_a_throw_while_the_socket_is_gone_is_settled_on_the_next_one() {
    let mut w = world_with(Homed::Server, Durability::Strict, true);
    w.reconcile = ReconcileMode::Answers(ReconcileOutcome::Absent);
    w.handler = HandlerMode::Later;
    deliver(&mut w, 1, 1);
    w.cut();
    w.settle(id(1), &HandlerMode::Throw);
    w.connect(false);
    deliver(&mut w, 1, 2);
    assert_eq!(told(&mut w), ["refuse 2 handler_error"]);
}

#[test]
fn j01_d1_an_intent_is_not_taken_out_by_a_remove_that_was_queued_before_it() {
    let mut w = world(Homed::Server);
    deliver(&mut w, 9, 1);
    w.hold_store = true;
    w.advance(100);
    assert_eq!(w.held.len(), 1, "another record's write is under way");
    deliver(&mut w, 1, 1);
    w.cut();
    w.connect(false);
    deliver(&mut w, 1, 2);
    w.release_store();
    assert_eq!(w.handled, [id(9), id(1)]);
    let stored = w.store.texts(w.tab_id());
    assert!(stored.iter().any(|text| text.contains(&id(1).to_string())), "{stored:?}");
}

#[test]
fn t04_d18_a_page_that_falls_asleep_again_is_not_woken_by_an_epoch_read_before() {
    let mut w = world(Homed::Elsewhere);
    let read = |w: &mut World| step(w, Event::EpochRead(Ok(1)));
    assert!(step(&mut w, Event::Resume).is_empty(), "it did not sleep");
    step(&mut w, Event::Suspend);
    assert!(step(&mut w, Event::Resume).iter().any(|o| matches!(o, Output::ReadEpoch)));
    step(&mut w, Event::Suspend);
    assert!(!connects(&read(&mut w)), "it sleeps");
    assert!(step(&mut w, Event::Resume).iter().any(|o| matches!(o, Output::ReadEpoch)), "read anew");
    assert!(connects(&read(&mut w)));
}

#[test]
fn t04_d18_two_sleeps_need_two_reads() {
    let mut w = world(Homed::Elsewhere);
    for event in [Event::Suspend, Event::Resume, Event::Suspend, Event::Resume] {
        step(&mut w, event);
    }
    assert!(!connects(&step(&mut w, Event::EpochRead(Ok(1)))), "that was read before the second sleep");
    assert!(connects(&step(&mut w, Event::EpochRead(Ok(1)))));
}

#[test]
fn t04_d18_a_held_connection_sleeps_too() {
    let mut w = world(Homed::Elsewhere);
    w.receive(ServerFrame::Reject(RejectCode::Unauthorized).encode());
    step(&mut w, Event::Suspend);
    assert!(!connects(&step(&mut w, Event::Reconnect)), "the host has credentials, and the page sleeps");
    step(&mut w, Event::Resume);
    assert!(connects(&step(&mut w, Event::EpochRead(Ok(1)))), "after the epoch was read");
    // Without that word it is held as before.
    let mut w = world(Homed::Elsewhere);
    w.receive(ServerFrame::Reject(RejectCode::Unauthorized).encode());
    step(&mut w, Event::Suspend);
    step(&mut w, Event::Resume);
    assert!(!connects(&step(&mut w, Event::EpochRead(Ok(1)))));
}

/// What the session asks for when this happens; nothing of it is done.
fn step(w: &mut World, event: Event) -> Vec<Output> {
    let (now, random) = (w.now(), w.fresh());
    let session = w.session.as_mut().unwrap();
    session.handle(Input { now, random, event });
    std::iter::from_fn(|| session.poll()).collect()
}

fn connects(outputs: &[Output]) -> bool {
    outputs.iter().any(|o| matches!(o, Output::Connect { .. }))
}
