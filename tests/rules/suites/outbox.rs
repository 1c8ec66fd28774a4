//! The outbox's rules (§8); `outbox_servers` has what it knows of servers, `outbox_property` random lives of it.

use patchkeep_core::ids::{TabId, Uuid};
use patchkeep_core::outbox::{EnqueueError, NewOp, OnFailure, OpKey, OpState, OutboxEvent, Request};
use patchkeep_core::storage::StorageFault;
use patchkeep_rules::shop::{Fault, Shop, answered};

const BODY: &str = r#"{"kind":"text.append","text":"X"}"#;

fn header<'r>(request: &'r Request, name: &str) -> Option<&'r str> {
    request.headers.iter().find(|(n, _)| *n == name).map(|(_, v)| v.as_str())
}

fn new_op() -> NewOp {
    NewOp {
        key: None,
        method: "POST".into(),
        origin: "https://api.example".into(),
        path: "/api/docs/d1/edits".into(),
        body: Some(BODY.into()),
        key_in_body: false,
        content_type: "application/json".into(),
        lane: "d1".into(),
        on_failure: OnFailure::Hold,
        expects_other_type: false,
        deadline_ms: None,
        may_be_volatile: false,
    }
}

#[test]
fn k01_b18a_the_same_key_and_bytes_on_every_attempt() {
    let mut shop = Shop::new(true);
    shop.fault = Fault::BadGateway;
    let key = shop.enqueue(Some("intent-42"), "d1", BODY).unwrap();
    shop.advance(1_500);
    shop.fault = Fault::LoseRequest;
    shop.advance(3_000);
    shop.fault = Fault::None;
    shop.advance(60_000);
    assert_eq!(shop.state(&key), Some(OpState::Done));
    assert_eq!(shop.effects["intent-42"], 1);
    let attempts: Vec<_> = shop.requests.iter().map(|r| header(r, "Idempotency-Attempt").unwrap().to_owned()).collect();
    let expected: Vec<_> = (1..=attempts.len()).map(|n| n.to_string()).collect();
    assert_eq!(attempts, expected);
    assert!(
        shop.requests
            .iter()
            .all(|r| header(r, "Idempotency-Key") == Some("intent-42") && r.body.as_deref() == Some(BODY))
    );
}

#[test]
fn k03_the_same_key_with_another_request_is_refused_here() {
    let mut shop = Shop::new(true);
    let key = shop.enqueue(Some("k"), "d1", BODY).unwrap();
    assert_eq!(shop.enqueue(Some("k"), "d1", "{}"), Err(EnqueueError::KeyReused));
    assert_eq!(
        shop.enqueue(Some("k"), "d1", r#"{"text":"X", "kind":"text.append"}"#),
        Ok(key),
        "the same canonical body"
    );
    assert_eq!(shop.requests.len(), 1);
}

#[test]
fn k05_a_gateways_403_after_a_lost_answer_is_unknown() {
    let mut shop = Shop::new(true);
    shop.fault = Fault::LoseAnswer;
    let key = shop.enqueue(None, "d1", BODY).unwrap();
    shop.fault = Fault::Forbidden;
    shop.advance(60_000);
    assert_eq!(shop.state(&key), Some(OpState::Unknown));
    shop.fault = Fault::None;
    assert!(shop.call(|o, now, _| o.ask_again(now, &key)));
    assert_eq!(shop.state(&key), Some(OpState::Done), "K8: asking again finds out");
    assert_eq!(shop.effects[key.as_str()], 1);
}

#[test]
fn k06_b26a_every_loop_is_bounded_and_ends_as_unknown() {
    for fault in [Fault::InFlight, Fault::BadGateway, Fault::TooMany, Fault::Hang, Fault::LoginPage, Fault::LoseRequest]
    {
        let mut shop = Shop::new(true);
        shop.fault = fault;
        let key = shop.enqueue(None, "d1", BODY).unwrap();
        shop.advance(48 * 3_600_000);
        assert_eq!(shop.state(&key), Some(OpState::Unknown), "{fault:?}");
        assert!(shop.requests.len() <= 12);
        assert!(shop.effects.values().all(|n| *n == 1));
    }
}

#[test]
fn k06_retry_after_is_a_floor_that_encouragement_does_not_lower() {
    let mut shop = Shop::new(true);
    shop.fault = Fault::TooMany;
    let key = shop.enqueue(None, "d1", BODY).unwrap();
    shop.fault = Fault::None;
    shop.advance(6_900);
    shop.happen(OutboxEvent::Drain);
    assert_eq!(shop.requests.len(), 1);
    shop.advance(60_000);
    assert_eq!(shop.state(&key), Some(OpState::Done));
}

#[test]
fn k07_past_its_keys_life_an_op_is_not_sent_again() {
    let mut shop = Shop::new(true);
    shop.fault = Fault::LoseAnswer;
    let key = shop.enqueue(None, "d1", BODY).unwrap();
    shop.outbox = None;
    shop.now_ms += 24 * 3_600_000;
    shop.load();
    shop.advance(60_000);
    assert_eq!(shop.requests.len(), 1);
    assert_eq!(shop.state(&key), Some(OpState::Unknown));
}

#[test]
fn k07_d8_a_clock_that_is_set_back_does_not_lengthen_a_keys_life() {
    const HOUR_MS: u64 = 3_600_000;
    for (reloads, knows_server_clock) in [(true, true), (false, true), (false, false)] {
        let mut shop = Shop::new(true);
        shop.knows_server_clock = knows_server_clock;
        shop.fault = Fault::LoseAnswer;
        let key = shop.enqueue(None, "d1", BODY).unwrap();
        shop.fault = Fault::None;
        shop.wall_set_ms = -48 * 3_600_000;
        if reloads {
            shop.outbox = None;
        }
        shop.now_ms += 25 * HOUR_MS;
        if reloads {
            shop.load();
        }
        shop.advance(60_000);
        assert_eq!(shop.requests.len(), 1, "reloads: {reloads}, server's clock known: {knows_server_clock}");
        assert_eq!(shop.state(&key), Some(OpState::Unknown));
    }
}

#[test]
fn k08_unknown_is_settled_by_a_person_or_sent_as_new() {
    let mut shop = Shop::new(false);
    shop.fault = Fault::LoseRequest;
    let first = shop.enqueue(None, "d1", BODY).unwrap();
    let behind = shop.enqueue(None, "d1", BODY).unwrap();
    shop.fault = Fault::None;
    shop.advance(600_000);
    assert_eq!((shop.state(&first), shop.state(&behind)), (Some(OpState::Unknown), Some(OpState::Queued)));
    let new = shop.call(|o, now, random| o.send_as_new(now, random, &first)).unwrap();
    assert_ne!(new, first);
    shop.advance(60_000);
    assert_eq!(shop.effects.get(first.as_str()), None);
    assert_eq!((shop.effects[new.as_str()], shop.state(&behind)), (1, Some(OpState::Done)));
    assert!(shop.call(|o, now, _| o.settle(now, &first, false)));
    assert_eq!(shop.state(&first), Some(OpState::Refused));
}

#[test]
fn k09_b22_lanes_are_independent_and_a_failed_head_holds_its_own() {
    let mut shop = Shop::new(true);
    shop.fault = Fault::Refuse;
    let head = shop.enqueue(None, "d1", BODY).unwrap();
    shop.fault = Fault::None;
    let held = shop.enqueue(None, "d1", BODY).unwrap();
    let other = shop.enqueue(None, "d2", BODY).unwrap();
    shop.advance(60_000);
    assert_eq!(shop.state(&head), Some(OpState::Refused));
    assert_eq!((shop.state(&held), shop.state(&other)), (Some(OpState::Queued), Some(OpState::Done)));
    assert!(shop.call(|o, now, _| o.pass(now, &head)));
    assert_eq!(shop.state(&held), Some(OpState::Done));
}

#[test]
fn k09_b21_one_attempt_at_a_time_however_often_it_is_drained() {
    let mut shop = Shop::new(true);
    shop.fault = Fault::Hang;
    let key = shop.enqueue(None, "d1", BODY).unwrap();
    for event in [OutboxEvent::Drain, OutboxEvent::Drain, OutboxEvent::Online, OutboxEvent::Drain] {
        shop.happen(event);
    }
    assert_eq!(shop.requests.len(), 1);
    assert_eq!(shop.state(&key), Some(OpState::Sending));
}

#[test]
fn k10_cancelling_leaves_no_trace_before_and_a_doubt_after_the_first_attempt() {
    let mut shop = Shop::new(true);
    shop.fault = Fault::Hang;
    let sent = shop.enqueue(None, "d1", BODY).unwrap();
    let queued = shop.enqueue(None, "d1", BODY).unwrap();
    assert!(shop.call(|o, now, _| o.cancel(now, &queued)));
    assert!(shop.call(|o, now, _| o.cancel(now, &sent)));
    assert_eq!((shop.state(&queued), shop.state(&sent)), (None, Some(OpState::Unknown)));
    assert_eq!(shop.gone, [queued]);
    shop.load();
    assert_eq!(shop.outbox.as_ref().unwrap().ops().count(), 1);
}

#[test]
fn k11_b20_after_a_crash_the_same_key_goes_on() {
    let mut shop = Shop::new(true);
    shop.fault = Fault::Hang;
    let key = shop.enqueue(None, "d1", BODY).unwrap();
    shop.fault = Fault::None;
    shop.load();
    assert_eq!(shop.state(&key), Some(OpState::Done));
    assert_eq!(header(&shop.requests[1], "Idempotency-Attempt"), Some("2"));
    assert_eq!(shop.effects[key.as_str()], 1);
}

#[test]
fn k01_an_op_that_cannot_be_stored_is_given_back_unsent() {
    let mut shop = Shop::new(true);
    shop.store_fails = Some(StorageFault::Full);
    let key = shop.enqueue(None, "d1", BODY).unwrap();
    assert_eq!((shop.requests.len(), shop.state(&key)), (0, None));
    assert_eq!(shop.gone, [key]);
    shop.store_fails = Some(StorageFault::Failed);
    shop.enqueue(None, "d1", BODY).unwrap();
    assert_eq!(shop.enqueue(None, "d1", BODY), Err(EnqueueError::Storage(StorageFault::Failed)));
    assert_eq!((shop.requests.len(), shop.gone.len(), shop.told_stored.len()), (0, 2, 0));
}

#[test]
fn k01_where_the_host_allows_it_an_op_lives_in_memory() {
    for fault in [StorageFault::Full, StorageFault::Failed] {
        let mut shop = Shop::new(true);
        shop.store_fails = Some(fault);
        let key = shop.queue(NewOp { may_be_volatile: true, ..new_op() }).unwrap();
        assert_eq!(shop.state(&key), Some(OpState::Done), "{fault:?}");
        assert_eq!(shop.told_stored, [key]);
    }
}

#[test]
fn k01_a_full_store_is_tried_again_and_nothing_is_sent_meanwhile() {
    let mut shop = Shop::new(true);
    shop.unreachable = true;
    let key = shop.enqueue(None, "d1", BODY).unwrap();
    shop.unreachable = false;
    shop.store_fails = Some(StorageFault::Full);
    shop.advance(60_000);
    assert_eq!((shop.requests.len(), shop.state(&key)), (0, Some(OpState::Queued)), "its `sending` cannot be written");
    shop.store_fails = None;
    shop.advance(10_000);
    assert_eq!(shop.state(&key), Some(OpState::Done));
    assert_eq!(header(&shop.requests[0], "Idempotency-Attempt"), Some("1"), "K1: what was not written was no attempt");
    assert_eq!(shop.stored(&key).map(|op| op.state), Some(OpState::Done));
}

#[test]
fn k01_a_stored_op_is_not_sent_behind_the_back_of_its_record() {
    // A later context finds it `queued`: it would send it as if it never had been.
    let mut shop = Shop::new(false);
    shop.unreachable = true;
    let key = shop.enqueue(None, "d1", BODY).unwrap();
    shop.unreachable = false;
    shop.store_fails = Some(StorageFault::Closed);
    shop.advance(600_000);
    assert_eq!((shop.requests.len(), shop.state(&key)), (0, Some(OpState::Queued)));
    shop.store_fails = None;
    shop.load();
    assert_eq!((shop.requests.len(), shop.state(&key)), (1, Some(OpState::Done)));
}

#[test]
fn j11_after_an_eviction_what_memory_holds_goes_on() {
    let mut shop = Shop::new(true);
    shop.unreachable = true;
    let key = shop.enqueue(None, "d1", BODY).unwrap();
    shop.unreachable = false;
    shop.happen(OutboxEvent::StorageLost(StorageFault::Evicted));
    shop.store_fails = Some(StorageFault::Evicted);
    shop.advance(600_000);
    assert_eq!(shop.state(&key), Some(OpState::Done));
}

#[test]
fn k01_storing_and_sending_share_one_write() {
    let mut shop = Shop::new(true);
    let first = shop.enqueue(None, "d1", BODY).unwrap();
    let (before, key) = (shop.steps, shop.enqueue(None, "d1", BODY).unwrap());
    assert_eq!((shop.state(&first), shop.state(&key)), (Some(OpState::Done), Some(OpState::Done)));
    // Two changes, one write, one word that it is stored, the request; the answer's change and write.
    assert_eq!(shop.steps - before, 7);
}

#[test]
fn k02_the_key_goes_into_the_body_only_where_it_is_asked_for() {
    let mut shop = Shop::new(true);
    let in_body = |body: &str| NewOp { key_in_body: true, body: Some(body.into()), ..new_op() };
    for (body, sent) in [
        ("{}", r#"{"op_key":"KEY"}"#),
        (r#" { "a":1}"#, r#"{"op_key":"KEY", "a":1}"#),
        (r#"{"a":1,"op_key":"KEY"}"#, r#"{"a":1,"op_key":"KEY"}"#),
    ] {
        let key = OpKey::new(&format!("intent-{}", body.len())).unwrap();
        let new = NewOp { key: Some(key.clone()), ..in_body(&body.replace("KEY", key.as_str())) };
        shop.queue(new).unwrap();
        let request = shop.requests.last().unwrap();
        assert_eq!(request.body, Some(sent.replace("KEY", key.as_str())));
        assert_eq!(header(request, "Idempotency-Key"), Some(key.as_str()));
    }
    for body in ["[]", "1", "{", r#"{"op_key":"other"}"#, r#"{"op_key":1}"#] {
        assert_eq!(shop.queue(in_body(body)), Err(EnqueueError::InvalidArgument("keyIn")), "{body}");
    }
    shop.fault = Fault::Refuse;
    let refused = shop.queue(in_body(r#"{"a":1}"#)).unwrap();
    shop.fault = Fault::None;
    let new = shop.call(|o, now, random| o.send_as_new(now, random, &refused)).unwrap();
    assert_eq!(shop.requests.last().unwrap().body, Some(format!(r#"{{"op_key":"{new}","a":1}}"#)));
}

#[test]
fn k05_headers_that_cannot_be_had_are_no_ambiguous_attempt() {
    let mut shop = Shop::new(false);
    shop.fault = Fault::NoHeaders;
    let key = shop.enqueue(None, "d1", BODY).unwrap();
    assert_eq!(shop.state(&key), Some(OpState::Waiting));
    shop.fault = Fault::None;
    shop.advance(60_000);
    assert_eq!((shop.state(&key), shop.effects[key.as_str()]), (Some(OpState::Done), 1));
}

#[test]
fn k08_what_is_sent_as_new_takes_the_place_of_what_failed() {
    let mut shop = Shop::new(true);
    shop.fault = Fault::Refuse;
    let first = shop.enqueue(None, "d1", BODY).unwrap();
    shop.fault = Fault::None;
    let behind = shop.enqueue(None, "d1", BODY).unwrap();
    let new = shop.call(|o, now, random| o.send_as_new(now, random, &first)).unwrap();
    assert_eq!(shop.order, [new.to_string(), behind.to_string()]);
    shop.load();
    assert_eq!(shop.outbox.as_ref().unwrap().ops().map(|op| op.key.clone()).collect::<Vec<_>>(), [new, behind, first]);
}

#[test]
fn k09_ten_thousand_ops_go_out_in_order_and_each_step_is_a_small_one() {
    let mut shop = Shop::new(true);
    shop.unreachable = true;
    let keys: Vec<OpKey> = (0..10_000).map(|_| shop.enqueue(None, "d1", BODY).unwrap()).collect();
    let before = shop.steps;
    shop.unreachable = false;
    shop.happen(OutboxEvent::Online);
    shop.advance(60_000);
    assert_eq!(shop.order, keys.iter().map(ToString::to_string).collect::<Vec<_>>());
    let steps = (shop.steps - before) as usize;
    assert!(steps < 10 * keys.len(), "{steps} outputs");
    let kept = shop.outbox.as_ref().unwrap().ops().count();
    assert_eq!(kept, 1_000, "of what is over for long nothing is kept");
    assert!(keys.iter().rev().take(kept).all(|key| shop.state(key) == Some(OpState::Done)));
    assert_eq!(shop.stored(&keys[0]), None);
    assert!(shop.stored(&keys[9_999]).is_some_and(|op| op.body.is_none()), "what is done needs its request no more");
}

#[test]
fn k09_the_order_survives_a_reload() {
    let mut shop = Shop::new(true);
    shop.unreachable = true;
    let mut keys: Vec<OpKey> = (0..3).map(|n| shop.enqueue(Some(&format!("z{n}")), "d1", BODY).unwrap()).collect();
    shop.load();
    keys.extend((0..3).map(|n| shop.enqueue(Some(&format!("a{n}")), "d1", BODY).unwrap()));
    shop.unreachable = false;
    shop.load();
    assert_eq!(shop.order, keys.iter().map(ToString::to_string).collect::<Vec<_>>());
}

#[test]
fn k12_what_is_kept_of_an_answer_is_bounded_and_says_so() {
    let mut shop = Shop::new(true);
    shop.fault = Fault::Hang;
    let key = shop.enqueue(None, "d1", BODY).unwrap();
    let request = shop.requests[0].request;
    let answer = answered(200, "application/json", &format!("{{\"text\":\"{}\"}}", "ä".repeat(40_000)), &[]);
    shop.happen(OutboxEvent::Answered { request, answer });
    let op = shop.stored(&key).unwrap();
    assert_eq!((op.state, op.response_cut), (OpState::Done, true));
    assert!((65_530..=65_536).contains(&op.response.unwrap().len()));
}

#[test]
fn t05_a_dead_tabs_ops_are_taken_over_in_their_order() {
    let (mut dead, old) = (Shop::new(true), TabId(Uuid::v4(9)));
    dead.fault = Fault::LoseAnswer;
    let sent = dead.enqueue(Some("sent"), "d1", BODY).unwrap();
    dead.fault = Fault::Hang;
    dead.advance(5_000);
    let queued = dead.enqueue(Some("queued"), "d1", BODY).unwrap();
    let shared = dead.enqueue(Some("shared"), "d3", BODY).unwrap();
    let ops: Vec<_> = [&queued, &sent, &shared].into_iter().map(|key| dead.stored(key).unwrap()).collect();
    assert_eq!(ops[1].state, OpState::Sending);

    let mut shop = Shop::new(true);
    shop.enqueue(Some("shared"), "d3", BODY).unwrap();
    shop.fault = Fault::Forbidden;
    assert_eq!(shop.adopt(old, ops), [shared], "what this tab has itself stays where it is");
    assert_eq!(shop.state(&sent), Some(OpState::Unknown), "K11: `sending` is ambiguous, and a gateway proves nothing");
    assert_eq!(shop.state(&queued), Some(OpState::Queued), "K9: its lane waits");
    assert_eq!(shop.taken, [(old, 7, sent), (old, 7, queued)], "in the transaction that brings them here");
}

#[test]
fn t05_what_cannot_be_taken_over_stays_where_it_is() {
    let mut dead = Shop::new(true);
    dead.unreachable = true;
    let key = dead.enqueue(None, "d1", BODY).unwrap();
    let ops = vec![dead.stored(&key).unwrap()];
    for fault in [StorageFault::Full, StorageFault::Failed] {
        let mut shop = Shop::new(true);
        shop.store_fails = Some(fault);
        shop.adopt(TabId(Uuid::v4(9)), ops.clone());
        shop.advance(600_000);
        assert_eq!((shop.requests.len(), shop.taken.len()), (0, 0), "{fault:?}");
    }
}

#[test]
fn k01_b57_addresses_with_credentials_are_refused() {
    let mut shop = Shop::new(true);
    let new = NewOp { origin: "https://ada:SECRET-1@api.example".into(), ..new_op() };
    assert_eq!(shop.queue(new), Err(EnqueueError::InvalidArgument("origin")));
}

#[test]
fn j04_a_fenced_outbox_sends_nothing_more() {
    let mut shop = Shop::new(true);
    let old = shop.outbox.take();
    shop.load();
    shop.outbox = old;
    let key = shop.enqueue(None, "d1", BODY).unwrap();
    assert_eq!(shop.requests.len(), 0);
    assert_eq!(shop.state(&key), None, "it was never stored, and is given back");
    assert_eq!(shop.enqueue(None, "d1", BODY), Err(EnqueueError::Fenced));
}
