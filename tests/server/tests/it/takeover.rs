//! A holder that stops in the middle, and what overtakes it: another attempt, a purge (S1, S2, S5, S9).

use patchkeep_server::Point;
use patchkeep_server::store::Store;

use crate::tab::Tab;
use crate::world::{Edit, PATIENCE, Reply, SLACK_MS, World};

const LEASE_MS: u64 = 15_000;

/// An attempt that claimed its key and stopped there.
async fn paused(world: &World, edit: &Edit) -> tokio::task::JoinHandle<Option<Reply>> {
    world.server.faults().hold_at(Point::Claimed);
    let sending = world.sending(edit);
    world.until("the first holder stops", || world.server.faults().show().held_at.is_some()).await;
    sending
}

async fn goes_on(world: &World, first: tokio::task::JoinHandle<Option<Reply>>) -> Reply {
    world.server.faults().release();
    tokio::time::timeout(PATIENCE, first).await.unwrap().unwrap().unwrap()
}

#[tokio::test]
async fn s02_a_paused_holder_whose_lease_is_over_rolls_back() {
    let world = World::new().await;
    let first = paused(&world, &Edit::append("k", "x")).await;
    assert_eq!(world.send(&Edit::append("k", "x").attempt(2)).await.code(), "idempotency_in_flight");
    world.advance(LEASE_MS + SLACK_MS).await;
    let second = world.send(&Edit::append("k", "x").attempt(2)).await;
    assert_eq!((second.status, second.replayed()), (200, false));
    let late = goes_on(&world, first).await;
    assert_eq!((late.status, late.code()), (409, "idempotency_in_flight"));
    assert_eq!(world.stored("d1").await, ("a\nx".into(), 2));
    assert!(world.send(&Edit::append("k", "x").attempt(3)).await.replayed());
}

#[tokio::test]
async fn s05_a_paused_holder_whose_lease_is_over_sends_nothing() {
    let world = World::new().await;
    let mut tab = Tab::open(&world).await;
    let first = paused(&world, &Edit::append("k", "x")).await;
    world.advance(LEASE_MS + SLACK_MS).await;
    let second = world.sending(&Edit::append("k", "x").attempt(2));
    let patch = tab.socket.patch().await;
    let late = goes_on(&world, first).await;
    assert_eq!((late.status, late.code()), (409, "idempotency_in_flight"));
    tab.socket.quiet().await;
    assert_eq!(world.row("k", "patch_id"), Some(patch.patch_id.to_string()));
    tab.socket.ack(&patch, false).await;
    assert_eq!(second.await.unwrap().unwrap().status, 200);
}

#[tokio::test]
async fn s02_a_paused_holder_whose_claim_nobody_took_goes_on() {
    let world = World::new().await;
    let first = paused(&world, &Edit::append("k", "x")).await;
    world.advance(LEASE_MS + SLACK_MS).await;
    assert_eq!(goes_on(&world, first).await.status, 200);
    assert_eq!(world.text("d1").await, "a\nx");
}

#[tokio::test]
async fn s09_a_purged_claim_writes_nothing_and_its_retry_is_expired() {
    let world = World::with(|c| c.key_ttl_ms = 3_600_000).await;
    let began = world.now();
    let first = paused(&world, &Edit::append("k", "x").first_at(began)).await;
    world.advance(3 * 3_600_000).await;
    assert_eq!(world.server.purge().await.unwrap(), 1);
    assert_eq!(goes_on(&world, first).await.code(), "idempotency_in_flight");
    let retry = world.send(&Edit::append("k", "x").attempt(2).first_at(began)).await;
    assert_eq!((retry.status, retry.code()), (409, "idempotency_key_expired"));
    assert_eq!(world.text("d1").await, "a\n");
}

#[tokio::test]
async fn s09_what_a_start_purges_is_gone_once_it_has_started() {
    let world = World::with(|c| c.key_ttl_ms = 1000).await;
    assert_eq!(world.send(&Edit::append("k", "x")).await.status, 200);
    world.advance(10_000).await;
    let world = world.reopen().await;
    // A purge that begins later, whenever its task gets its turn, takes what somebody else is about to count.
    assert_eq!(world.row("k", "state"), None);
    assert_eq!(world.server.purge().await.unwrap(), 0);
}

#[tokio::test]
async fn s09_a_purge_spares_what_a_retry_claimed_before_it() {
    let world = World::with(|c| c.key_ttl_ms = 1000).await;
    let edit = Edit::body("k", r#"{"edit":{"kind":"text.replace","find":"later","replace":"now"}}"#);
    assert_eq!(world.send(&edit).await.code(), "anchor_not_found");
    world.send(&Edit::append("other", "later")).await;
    world.advance(2000).await;
    let retry = paused(&world, &edit.clone().attempt(2)).await;
    assert_eq!(world.server.purge().await.unwrap(), 1, "the other key alone");
    assert_eq!(goes_on(&world, retry).await.status, 200);
    assert_eq!(world.text("d1").await, "a\nnow");
}

#[tokio::test]
async fn s09_purges_racing_retries_never_let_one_land_twice() {
    const KEYS: usize = 24;
    let world = World::with(|c| c.key_ttl_ms = 1000).await;
    let began = world.now();
    let edit = |n: usize| Edit::append(&format!("k{n}"), &format!("<{n}>")).first_at(began);
    for n in 0..KEYS {
        assert_eq!(world.send(&edit(n)).await.status, 200);
    }
    world.advance(10_000).await;
    let retries: Vec<_> = (0..KEYS).map(|n| world.sending(&edit(n).attempt(2))).collect();
    let (a, b) = tokio::join!(world.server.purge(), world.server.purge());
    assert_eq!(a.unwrap() + b.unwrap(), KEYS as u64);
    for retry in retries {
        let reply = retry.await.unwrap().unwrap();
        assert!(reply.code() == "idempotency_key_expired" || reply.replayed(), "{reply:?}");
    }
    let text = world.text("d1").await;
    assert!((0..KEYS).all(|n| text.matches(&format!("<{n}>")).count() == 1), "{text}");
}

#[tokio::test]
async fn s09_d16_a_purge_goes_in_steps_oldest_first_and_raises_the_watermark_by_what_went() {
    const KEYS: usize = 7;
    let world = World::with(|c| c.key_ttl_ms = 1000).await;
    let mut claimed = Vec::new();
    for n in 0..KEYS {
        assert_eq!(world.send(&Edit::append(&format!("k{n}"), "x")).await.status, 200);
        claimed.push(world.row(&format!("k{n}"), "created_at").unwrap());
        world.advance(10).await;
    }
    let store = world.place.store().await.unwrap();
    let before = world.now() + 1_000_000;
    for (step, gone) in [(3, 3), (6, 3), (7, 1), (7, 0)] {
        assert_eq!(store.transact(move |tx| tx.purge(before, 3)).await.unwrap(), gone);
        let left = world.place.texts("SELECT key FROM op_key ORDER BY key");
        assert_eq!(left, (step..KEYS).map(|n| Some(format!("k{n}"))).collect::<Vec<_>>());
        let mark = world.place.texts("SELECT CAST(first_at AS TEXT) FROM watermark");
        assert_eq!(mark, [Some(claimed[step - 1].clone())]);
    }
}

#[tokio::test]
async fn what_is_held_goes_on_when_the_server_is_dropped() {
    let world = World::new().await;
    let first = paused(&world, &Edit::append("k", "x")).await;
    let World { server, place: _place, .. } = world;
    drop(server);
    // Otherwise a test that fails while something is held would never end.
    tokio::time::timeout(PATIENCE, first).await.unwrap().unwrap();
}
