//! Answers of 401, hosts that are asked for credentials, and words that come too late to count (K5, K8, K10).

use patchkeep_core::outbox::{OpState, OutboxEvent};
use patchkeep_rules::shop::{Fault, Shop, answered};

const BODY: &str = r#"{"kind":"text.append","text":"X"}"#;

#[test]
fn k05_b22_a_401_is_one_refresh_and_then_held() {
    let mut shop = Shop::new(true);
    shop.fault = Fault::Unauthorized;
    let first = shop.enqueue(None, "d2", BODY).unwrap();
    let second = shop.enqueue(None, "d2", BODY).unwrap();
    shop.advance(600_000);
    assert_eq!(shop.requests.len(), 2, "one refresh, one more attempt");
    assert_eq!((shop.state(&first), shop.state(&second)), (Some(OpState::Held), Some(OpState::Queued)));
    shop.fault = Fault::None;
    shop.happen(OutboxEvent::CredentialsChanged);
    shop.advance(60_000);
    assert_eq!((shop.state(&first), shop.state(&second)), (Some(OpState::Done), Some(OpState::Done)));
}

#[test]
fn k05_k06_a_host_that_says_nothing_about_credentials_keeps_nobody_waiting() {
    let mut shop = Shop::new(true);
    (shop.fault, shop.host_is_silent) = (Fault::Unauthorized, true);
    let held: Vec<_> = (0..64).map(|n| shop.enqueue(None, &format!("d{n}"), BODY).unwrap()).collect();
    shop.fault = Fault::None;
    let behind = shop.enqueue(None, "another", BODY).unwrap();
    assert_eq!((shop.refreshes.len(), shop.state(&behind)), (64, Some(OpState::Queued)), "every place is taken");
    shop.advance(59_000);
    assert_eq!(shop.state(&behind), Some(OpState::Queued));
    shop.advance(2_000);
    assert_eq!(shop.state(&behind), Some(OpState::Done));
    assert!(held.iter().all(|key| shop.state(key) == Some(OpState::Held)));
    assert!(shop.stored(&held[0]).is_some_and(|op| op.state == OpState::Held));
    shop.happen(OutboxEvent::CredentialsChanged);
    assert!(held.iter().all(|key| shop.state(key) == Some(OpState::Done)));
}

#[test]
fn k05_credentials_that_come_after_all_are_used() {
    let mut shop = Shop::new(true);
    (shop.fault, shop.host_is_silent) = (Fault::Unauthorized, true);
    let key = shop.enqueue(None, "d1", BODY).unwrap();
    shop.advance(61_000);
    assert_eq!(shop.state(&key), Some(OpState::Held));
    shop.happen(OutboxEvent::Refreshed { key: key.clone(), fresh: true });
    assert_eq!((shop.refreshes.len(), shop.state(&key)), (1, Some(OpState::Held)), "and refused: once, as before");
    shop.fault = Fault::None;
    shop.happen(OutboxEvent::Refreshed { key: key.clone(), fresh: true });
    assert_eq!(shop.state(&key), Some(OpState::Done));
}

#[test]
fn k08_k10_the_hosts_late_word_about_credentials_changes_nothing_that_is_settled() {
    for fresh in [false, true] {
        for settled in [None, Some(false), Some(true)] {
            let mut shop = Shop::new(true);
            (shop.fault, shop.host_is_silent) = (Fault::Unauthorized, true);
            let key = shop.enqueue(None, "d1", BODY).unwrap();
            shop.fault = Fault::None;
            assert!(shop.call(|o, now, _| o.cancel(now, &key)));
            let mut state = OpState::Unknown;
            if let Some(applied) = settled {
                assert!(shop.call(|o, now, _| o.settle(now, &key, applied)));
                state = if applied { OpState::Done } else { OpState::Refused };
            }
            assert!(!shop.call(|o, _, _| o.is_busy()), "nothing is waited for any more");
            shop.happen(OutboxEvent::Refreshed { key: key.clone(), fresh });
            shop.happen(OutboxEvent::CredentialsChanged);
            shop.advance(600_000);
            assert_eq!((shop.state(&key), shop.stored(&key).map(|op| op.state)), (Some(state), Some(state)));
            assert_eq!(shop.requests.len(), 1);
        }
    }
}

#[test]
fn k08_s10_a_question_that_was_out_does_not_undo_a_persons_word() {
    let mut shop = Shop::new(true);
    shop.fault = Fault::Hang;
    let key = shop.enqueue(None, "d1", BODY).unwrap();
    assert!(shop.call(|o, now, _| o.cancel(now, &key)));
    shop.advance(40_000);
    assert!(shop.call(|o, now, _| o.ask_again(now, &key)));
    let question = shop.requests.last().unwrap().request;
    assert!(shop.call(|o, now, _| o.settle(now, &key, true)));
    let unknown = answered(409, "application/json", r#"{"error":{"code":"patch_outcome_unknown"}}"#, &[]);
    shop.happen(OutboxEvent::Answered { request: question, answer: unknown });
    assert_eq!(shop.state(&key), Some(OpState::Done), "the server knows no more than before");
}
