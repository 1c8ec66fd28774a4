//! What the outbox knows of each server, and what it waits for until it knows it (K4, K6).

use patchkeep_core::outbox::{Answer, Capabilities, NewOp, OnFailure, OpKey, OpState, OutboxEvent};
use patchkeep_rules::shop::{Fault, Shop, answered, reconnected};

const BODY: &str = r#"{"kind":"text.append","text":"X"}"#;

const KEEPS_KEYS: Option<Capabilities> =
    Some(Capabilities { idempotency_keys: true, key_ttl_ms: None, structured_keys: false, attempts: true });

fn bad_gateway() -> Answer {
    answered(502, "text/html", "<html>", &[])
}

fn at_another_origin(lane: &str) -> NewOp {
    NewOp {
        key: None,
        method: "POST".into(),
        origin: "https://other.example".into(),
        path: "/api/docs/d1/edits".into(),
        body: Some(BODY.into()),
        key_in_body: false,
        content_type: "application/json".into(),
        lane: lane.into(),
        on_failure: OnFailure::Hold,
        expects_other_type: false,
        deadline_ms: None,
        may_be_volatile: false,
    }
}

/// Ops of these lanes, each with a request out that nobody answers.
fn out(shop: &mut Shop, lanes: &[&str]) -> Vec<OpKey> {
    let fault = std::mem::replace(&mut shop.fault, Fault::Hang);
    let keys = lanes.iter().map(|lane| shop.enqueue(None, lane, BODY).unwrap()).collect();
    shop.fault = fault;
    keys
}

fn answer(shop: &mut Shop, key: &OpKey, answer: Answer) {
    let request = shop.requests.iter().rfind(|r| r.key == *key).unwrap().request;
    shop.happen(OutboxEvent::Answered { request, answer });
}

#[test]
fn k04_without_the_capability_an_ambiguous_op_is_not_sent_again() {
    let mut shop = Shop::new(false);
    shop.fault = Fault::LoseAnswer;
    let key = shop.enqueue(None, "d1", BODY).unwrap();
    shop.fault = Fault::None;
    shop.advance(600_000);
    assert_eq!(shop.state(&key), Some(OpState::Unknown));
    assert_eq!(shop.effects[key.as_str()], 1);
}

#[test]
fn k04_a_capability_that_appears_between_two_attempts_does_not_count() {
    let mut shop = Shop::new(false);
    shop.fault = Fault::NotProcessed;
    let key = shop.enqueue(None, "d1", BODY).unwrap();
    shop.keeps_keys = true;
    shop.lists = Some(Capabilities { idempotency_keys: true, ..Capabilities::default() });
    shop.fault = Fault::LoseAnswer;
    shop.advance(600_000);
    assert_eq!(shop.state(&key), Some(OpState::Unknown));
    assert_eq!(shop.effects[key.as_str()], 1);
}

#[test]
fn k04_a_server_that_cannot_be_reached_costs_no_attempt() {
    let mut shop = Shop::new(true);
    shop.unreachable = true;
    let key = shop.enqueue(None, "d1", BODY).unwrap();
    shop.advance(3 * 3_600_000);
    assert_eq!((shop.requests.len(), shop.state(&key)), (0, Some(OpState::Queued)));
    shop.unreachable = false;
    shop.happen(OutboxEvent::Online);
    assert_eq!(shop.state(&key), Some(OpState::Done), "K6: waiting ends early");
}

#[test]
fn k08_a_server_that_keeps_no_keys_is_never_asked() {
    // It would take the question for the write itself.
    let mut shop = Shop::new(false);
    shop.fault = Fault::LoseAnswer;
    let key = shop.enqueue(None, "d1", BODY).unwrap();
    shop.fault = Fault::None;
    assert!(shop.call(|o, now, _| o.ask_again(now, &key)));
    shop.advance(600_000);
    assert_eq!((shop.state(&key), shop.effects[key.as_str()]), (Some(OpState::Unknown), 1));
    shop.keeps_keys = true;
    shop.lists = Some(Capabilities { idempotency_keys: true, ..Capabilities::default() });
    shop.happen(reconnected());
    assert!(shop.call(|o, now, _| o.ask_again(now, &key)));
    assert_eq!((shop.state(&key), shop.effects[key.as_str()]), (Some(OpState::Done), 1));
}

#[test]
fn k06_attempts_are_not_spent_offline() {
    let mut shop = Shop::new(true);
    shop.lists = None;
    shop.happen(OutboxEvent::Offline);
    let key = shop.enqueue(None, "d1", BODY).unwrap();
    shop.advance(3_600_000);
    assert_eq!(shop.requests.len(), 0);
    shop.lists = Some(Capabilities { idempotency_keys: true, ..Capabilities::default() });
    shop.happen(OutboxEvent::Online);
    shop.advance(60_000);
    assert_eq!(shop.state(&key), Some(OpState::Done));
}

#[test]
fn k04_d11_a_502_to_one_lane_is_no_doubt_about_the_others() {
    let mut shop = Shop::new(true);
    let keys = out(&mut shop, &["d1", "d2", "d3"]);
    for key in &keys {
        answer(&mut shop, key, bad_gateway());
    }
    assert!(keys.iter().all(|key| shop.state(key) == Some(OpState::Waiting)));
    shop.advance(60_000);
    assert!(keys.iter().all(|key| shop.state(key) == Some(OpState::Done)));
    assert!(shop.effects.values().all(|n| *n == 1));
}

#[test]
fn k04_d11_a_reconnect_leaves_what_is_out_ambiguous_until_the_next_word() {
    for (listed, ends_as) in [(KEEPS_KEYS, OpState::Done), (None, OpState::Unknown)] {
        let mut shop = Shop::new(true);
        let keys = out(&mut shop, &["d1", "d2"]);
        shop.happen(reconnected());
        (shop.is_silent, shop.lists) = (true, listed);
        for key in &keys {
            answer(&mut shop, key, Answer::Failed);
        }
        shop.advance(10_000);
        assert!(keys.iter().all(|key| shop.state(key) == Some(OpState::Waiting)), "nothing is judged before the word");
        assert_eq!(shop.requests.len(), 2, "and nothing is sent");
        shop.is_silent = false;
        let question = *shop.questions.last().unwrap();
        shop.happen(OutboxEvent::Capabilities { question, listed });
        shop.advance(60_000);
        assert!(keys.iter().all(|key| shop.state(key) == Some(ends_as)), "{listed:?}");
    }
}

#[test]
fn k04_d11_a_5xx_is_judged_by_what_is_said_after_it() {
    let mut shop = Shop::new(true);
    let key = out(&mut shop, &["d1"]).remove(0);
    shop.lists = Some(Capabilities::default());
    shop.happen(reconnected());
    out(&mut shop, &["d2"]);
    // Not listed by now; a 5xx makes that an old word as well, and the next one is another.
    shop.lists = KEEPS_KEYS;
    answer(&mut shop, &key, bad_gateway());
    shop.advance(60_000);
    assert_eq!(shop.state(&key), Some(OpState::Done));
}

#[test]
fn k04_d11_what_was_asked_before_a_5xx_or_a_reconnect_is_asked_again() {
    for reconnects in [false, true] {
        let mut shop = Shop::new(true);
        let first = out(&mut shop, &["d1"]).remove(0);
        shop.happen(reconnected());
        shop.is_silent = true;
        let waits = shop.enqueue(None, "d2", BODY).unwrap();
        let old = *shop.questions.last().unwrap();
        if reconnects {
            shop.happen(reconnected());
        } else {
            answer(&mut shop, &first, bad_gateway());
        }
        let new = *shop.questions.last().unwrap();
        assert_ne!(new, old, "asked again at once, since an op waits for the answer");
        shop.happen(OutboxEvent::Capabilities { question: old, listed: KEEPS_KEYS });
        shop.happen(OutboxEvent::Unreachable { question: old });
        assert_eq!((shop.requests.len(), shop.state(&waits)), (1, Some(OpState::Queued)), "the old answer is none");
        shop.happen(OutboxEvent::Capabilities { question: new, listed: KEEPS_KEYS });
        assert_eq!(shop.state(&waits), Some(OpState::Done));
    }
}

#[test]
fn k04_d11_other_origins_are_not_touched() {
    let mut shop = Shop::new(true);
    shop.enqueue(None, "d1", BODY).unwrap();
    shop.queue(at_another_origin("d2")).unwrap();
    assert_eq!(shop.questions.len(), 2);
    let key = out(&mut shop, &["d1"]).remove(0);
    answer(&mut shop, &key, bad_gateway());
    shop.queue(at_another_origin("d2")).unwrap();
    assert_eq!(shop.questions.len(), 2, "the other one did not fail");
    shop.advance(60_000);
    assert_eq!((shop.questions.len(), shop.state(&key)), (3, Some(OpState::Done)));
    shop.happen(reconnected());
    shop.queue(at_another_origin("d2")).unwrap();
    assert_eq!(shop.questions.len(), 3, "nor was it reconnected");
    shop.enqueue(None, "d1", BODY).unwrap();
    assert_eq!(shop.questions.len(), 4);
}

#[test]
fn k04_d11_what_is_forgotten_while_sending_is_written_is_asked_before_the_request() {
    let mut shop = Shop::new(true);
    shop.enqueue(None, "d1", BODY).unwrap();
    shop.is_slow = true;
    let key = shop.enqueue(None, "d1", BODY).unwrap();
    shop.lists = Some(Capabilities { structured_keys: true, ..KEEPS_KEYS.unwrap() });
    shop.happen(reconnected());
    shop.is_slow = false;
    shop.catch_up();
    assert_eq!((shop.requests.len(), shop.state(&key)), (2, Some(OpState::Done)));
    let header = |name: &str| shop.requests[1].headers.iter().find(|(n, _)| *n == name).map(|(_, v)| v.clone());
    assert_eq!(header("Idempotency-Key"), Some(format!("\"{key}\"")), "as the server reads it now");
    assert_eq!(header("Idempotency-Attempt").as_deref(), Some("1"), "what was not sent was no attempt");
}

#[test]
fn k04_a_question_without_an_answer_counts_as_not_listed_until_the_answer_comes() {
    let mut shop = Shop::new(true);
    shop.is_silent = true;
    shop.fault = Fault::LoseAnswer;
    let key = shop.enqueue(None, "d1", BODY).unwrap();
    shop.advance(30_000);
    assert_eq!(shop.requests.len(), 0);
    shop.advance(30_000);
    assert_eq!((shop.requests.len(), shop.state(&key)), (1, Some(OpState::Unknown)));
    shop.fault = Fault::None;
    shop.happen(OutboxEvent::Capabilities { question: shop.questions[0], listed: KEEPS_KEYS });
    assert!(shop.call(|o, now, _| o.ask_again(now, &key)));
    assert_eq!((shop.questions.len(), shop.state(&key)), (1, Some(OpState::Done)));
}

#[test]
fn k04_t04_a_question_that_was_out_when_the_page_froze_is_put_again() {
    let mut shop = Shop::new(true);
    let key = out(&mut shop, &["d1"]).remove(0);
    shop.is_silent = true;
    answer(&mut shop, &key, bad_gateway());
    shop.advance(10_000);
    assert_eq!(shop.questions.len(), 2);
    shop.happen(OutboxEvent::Suspend);
    shop.now_ms += 3_600_000;
    shop.is_silent = false;
    shop.happen(OutboxEvent::Resume);
    assert_eq!(
        (shop.questions.len(), shop.state(&key)),
        (3, Some(OpState::Done)),
        "silence in its sleep proves nothing"
    );
}

#[test]
fn k06_d11_a_probe_without_an_answer_is_followed_by_another() {
    let mut shop = Shop::new(true);
    shop.enqueue(None, "d1", BODY).unwrap();
    shop.happen(OutboxEvent::Offline);
    shop.is_silent = true;
    let key = shop.enqueue(None, "d1", BODY).unwrap();
    shop.advance(600_000);
    assert!((5..=20).contains(&shop.questions.len()), "{} questions", shop.questions.len());
    assert_eq!((shop.requests.len(), shop.state(&key)), (1, Some(OpState::Queued)));
    // An answer overrules the hint, for all that waited because of it.
    shop.happen(OutboxEvent::Capabilities { question: *shop.questions.last().unwrap(), listed: KEEPS_KEYS });
    assert_eq!(shop.state(&key), Some(OpState::Done));
}
