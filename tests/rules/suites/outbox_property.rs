//! Random lives of an outbox against a server that counts effects (P1, P2, P4, K6).

use patchkeep_core::outbox::{Capabilities, EnqueueError, OpState, OutboxEvent};
use patchkeep_core::storage::StorageFault;
use patchkeep_rules::shop::{Fault, Shop, reconnected};
use proptest::prelude::*;

const BODY: &str = r#"{"kind":"text.append","text":"X"}"#;

#[derive(Clone, Debug)]
enum Step {
    Enqueue(u8),
    Meet(Fault),
    Advance(u64),
    Reload,
    Offline,
    Online,
    Suspend,
    Resume,
    Lists(bool),
    Cancel(usize),
    Ask(usize),
    Reconnected,
    Credentials(bool),
    HostIsSilent(bool),
    Store(Option<StorageFault>),
    Reachable(bool),
    Silent(bool),
    Slow(bool),
    SendAsNew(usize),
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        4 => Just(Fault::None),
        1 => Just(Fault::LoseRequest),
        2 => Just(Fault::LoseAnswer),
        1 => Just(Fault::BadGateway),
        1 => Just(Fault::Unsaved),
        1 => Just(Fault::Forbidden),
        1 => Just(Fault::NotProcessed),
        1 => Just(Fault::TooMany),
        1 => Just(Fault::Unauthorized),
        1 => Just(Fault::Refuse),
        1 => Just(Fault::LoginPage),
        1 => Just(Fault::InFlight),
        1 => Just(Fault::Hang),
        1 => Just(Fault::NoHeaders),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u8..2).prop_map(Step::Enqueue),
        6 => fault().prop_map(Step::Meet),
        6 => prop_oneof![Just(500u64), Just(5_000), Just(40_000), Just(300_000), Just(90_000_000)].prop_map(Step::Advance),
        2 => Just(Step::Reload),
        1 => Just(Step::Offline),
        1 => Just(Step::Online),
        1 => Just(Step::Suspend),
        2 => Just(Step::Resume),
        1 => any::<bool>().prop_map(Step::Lists),
        1 => (0usize..6).prop_map(Step::Cancel),
        1 => (0usize..6).prop_map(Step::Ask),
        1 => Just(Step::Reconnected),
        1 => any::<bool>().prop_map(Step::Credentials),
        1 => any::<bool>().prop_map(Step::HostIsSilent),
        1 => prop_oneof![
            2 => Just(None), 1 => Just(Some(StorageFault::Full)), 1 => Just(Some(StorageFault::Closed))
        ].prop_map(Step::Store),
        1 => any::<bool>().prop_map(Step::Reachable),
        1 => any::<bool>().prop_map(Step::Silent),
        1 => any::<bool>().prop_map(Step::Slow),
        1 => (0usize..6).prop_map(Step::SendAsNew),
    ]
}

fn live(keys: bool, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut shop = Shop::new(keys);
    let mut all = Vec::new();
    for step in steps {
        match step {
            Step::Enqueue(lane) => match shop.enqueue(None, &format!("d{lane}"), BODY) {
                Ok(key) => all.push(key),
                Err(error) => prop_assert!(matches!(error, EnqueueError::Storage(_)), "{error}"),
            },
            Step::Meet(fault) => shop.fault = *fault,
            Step::Advance(ms) => shop.advance(*ms),
            Step::Reload => shop.load(),
            Step::Offline => shop.happen(OutboxEvent::Offline),
            Step::Online => shop.happen(OutboxEvent::Online),
            Step::Suspend => shop.happen(OutboxEvent::Suspend),
            Step::Resume => shop.happen(OutboxEvent::Resume),
            // A server with keys may forget to say so; one without never says that it has them.
            Step::Lists(lists) => {
                shop.lists = Some(Capabilities { idempotency_keys: *lists && keys, ..Capabilities::default() });
            }
            Step::Cancel(n) => {
                if let Some(key) = all.get(*n).cloned() {
                    shop.call(|o, now, _| o.cancel(now, &key));
                }
            }
            Step::Ask(n) => {
                if let Some(key) = all.get(*n).cloned() {
                    shop.call(|o, now, _| o.ask_again(now, &key));
                }
            }
            Step::Reconnected => shop.happen(reconnected()),
            Step::Credentials(fresh) => shop.credentials = *fresh,
            Step::HostIsSilent(silent) => shop.host_is_silent = *silent,
            Step::Store(fault) => shop.store_fails = *fault,
            Step::Reachable(reachable) => shop.unreachable = !*reachable,
            Step::Silent(silent) => shop.is_silent = *silent,
            Step::Slow(slow) => {
                shop.is_slow = *slow;
                if !slow {
                    shop.catch_up();
                }
            }
            Step::SendAsNew(n) => {
                if let Some(key) = all.get(*n).cloned()
                    && let Ok(new) = shop.call(|o, now, random| o.send_as_new(now, random, &key))
                {
                    all.push(new);
                }
            }
        }
        for key in &all {
            let effects = shop.effects.get(key.as_str()).copied().unwrap_or(0);
            prop_assert!(effects <= 1, "P1: {key} took effect {effects} times");
            match shop.state(key) {
                Some(OpState::Done) => prop_assert_eq!(effects, 1, "P2: done without the effect"),
                Some(OpState::Refused) => prop_assert_eq!(effects, 0, "P4: refused, and it took effect"),
                None => prop_assert_eq!(effects, 0, "K10: gone without a trace, and it took effect"),
                _ => {}
            }
        }
    }
    shop.fault = Fault::None;
    (shop.unreachable, shop.is_silent, shop.is_slow) = (false, false, false);
    (shop.credentials, shop.host_is_silent) = (true, false);
    shop.store_fails = None;
    shop.catch_up();
    // K6: nothing more is needed than time, where the host has nothing to decide. A page that sleeps has to wake up.
    shop.happen(OutboxEvent::Resume);
    shop.advance(10 * 24 * 3_600_000);
    prop_assert!(shop.work().is_none(), "it never goes on: {:?}", shop.work());
    // What a broken store made this context leave alone is the next one's.
    shop.load();
    shop.happen(OutboxEvent::Resume);
    shop.happen(OutboxEvent::Online);
    shop.happen(OutboxEvent::CredentialsChanged);
    for key in &all {
        shop.call(|o, now, _| o.pass(now, key));
    }
    // A server that does not list keys any more cannot be asked, and waiting for that ends as well.
    for _ in 0..all.len() {
        shop.advance(10 * 24 * 3_600_000);
        for key in &all {
            shop.call(|o, now, _| o.pass(now, key));
        }
    }
    for key in &all {
        prop_assert!(shop.state(key).is_none_or(OpState::is_settled), "{key} never settles: {:?}", shop.state(key));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn p1_p2_p4_hold_over_random_lives_of_an_outbox(keys: bool, steps in prop::collection::vec(step(), 1..40)) {
        live(keys, &steps)?;
    }
}
