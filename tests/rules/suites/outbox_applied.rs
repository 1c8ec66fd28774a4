//! Ops that were applied in a tab and are not saved yet (P2, K5, K7, K9).

use patchkeep_core::outbox::{Capabilities, OpState};
use patchkeep_rules::shop::{Fault, Shop, reconnected};

const BODY: &str = r#"{"kind":"text.append","text":"X"}"#;
const DAY_MS: u64 = 24 * 3_600_000;

fn asks(shop: &Shop) -> usize {
    shop.requests.iter().filter(|r| r.headers.iter().any(|(name, _)| *name == "Idempotency-Ask")).count()
}

#[test]
fn k05_k07_an_applied_op_is_asked_about_past_its_keys_life() {
    for reloads in [false, true] {
        let mut shop = Shop::new(true);
        shop.lists = shop.lists.map(|listed| Capabilities { key_ttl_ms: Some(3_600_000), ..listed });
        shop.fault = Fault::Unsaved;
        let key = shop.enqueue(None, "d1", BODY).unwrap();
        shop.advance(DAY_MS / 2);
        if reloads {
            shop.load();
            shop.advance(DAY_MS / 2);
        }
        assert_eq!(shop.state(&key), Some(OpState::Applied), "S9: the row is there; asking is not sending");
        shop.fault = Fault::None;
        shop.advance(60_000);
        assert_eq!(shop.state(&key), Some(OpState::Done), "P5");
        assert_eq!(shop.requests.len() - asks(&shop), 1);
    }
}

#[test]
fn k06_k09_asking_about_what_is_never_saved_ends_as_unknown_and_holds_no_lane() {
    let mut shop = Shop::new(true);
    shop.fault = Fault::Unsaved;
    let key = shop.enqueue(None, "d1", BODY).unwrap();
    shop.advance(60 * DAY_MS);
    assert_eq!(shop.state(&key), Some(OpState::Unknown));
    assert_eq!(shop.outbox.as_ref().unwrap().op(&key).and_then(|op| op.code.as_deref()), Some("questions_exhausted"));
    assert!((9_000..=10_000).contains(&asks(&shop)), "{} questions", asks(&shop));
    let next = shop.enqueue(None, "d1", BODY).unwrap();
    assert_eq!(shop.state(&next), Some(OpState::Applied), "its lane went on when it was applied");
    shop.load();
    shop.enqueue(None, "d1", BODY).unwrap();
    assert_eq!(shop.requests.len() - asks(&shop), 3, "that is stored");
    shop.fault = Fault::None;
    assert!(shop.call(|o, now, _| o.ask_again(now, &key)));
    assert_eq!(shop.state(&key), Some(OpState::Done), "K8: it can still be asked about");
}

#[test]
fn k06_where_keys_are_not_kept_any_more_waiting_for_the_save_ends_too() {
    let mut shop = Shop::new(true);
    shop.fault = Fault::Unsaved;
    let key = shop.enqueue(None, "d1", BODY).unwrap();
    shop.lists = Some(Capabilities::default());
    shop.happen(reconnected());
    let asked = asks(&shop);
    shop.advance(60 * DAY_MS);
    assert_eq!((asks(&shop), shop.state(&key)), (asked, Some(OpState::Unknown)));
    assert!(shop.questions.len() <= 10_002, "{} questions", shop.questions.len());
}

#[test]
fn k09_k10_an_applied_op_that_is_given_up_holds_no_lane() {
    let mut shop = Shop::new(true);
    shop.fault = Fault::Unsaved;
    let key = shop.enqueue(None, "d1", BODY).unwrap();
    assert!(shop.call(|o, now, _| o.cancel(now, &key)));
    assert_eq!(shop.state(&key), Some(OpState::Unknown));
    let next = shop.enqueue(None, "d1", BODY).unwrap();
    assert_eq!(shop.state(&next), Some(OpState::Applied), "its lane had gone on, and does");
}
