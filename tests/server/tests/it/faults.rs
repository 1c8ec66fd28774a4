//! The fault switches.

use std::time::{Duration, Instant};

use patchkeep_core::frame::ConfirmedAs;
use serde_json::json;

use crate::tab::{Socket, Tab, open_doc};
use crate::world::{Edit, TOKEN, World};

#[tokio::test]
async fn they_are_off_unless_asked_for() {
    let world = World::with(|c| c.faults = false).await;
    assert_eq!(world.get("/faults").await.status, 404);
    assert_eq!(world.post("/faults", TOKEN, &json!({"cut": true})).await.status, 404);
}

#[tokio::test]
async fn they_are_for_callers_with_a_token_and_pages_of_this_machine() {
    let world = World::new().await;
    let post =
        || world.http.post(world.url("/faults")).header("content-type", "application/json").body(r#"{"cut":true}"#);
    let get = || world.http.get(world.url("/faults"));
    for request in [post(), get()] {
        assert_eq!(request.send().await.unwrap().status(), 401);
    }
    // A strange name that was made to point here.
    for request in [post(), get()] {
        let request = request.bearer_auth(TOKEN).header("host", "rebound.test");
        assert_eq!(request.send().await.unwrap().status(), 404);
    }
    assert_eq!(world.get("/faults").await.status, 200);
}

#[tokio::test]
async fn they_show_how_they_stand() {
    let world = World::new().await;
    let set = json!({"lose_next_ack": 2, "delay_ms": 5, "next_patch_expires_in_ms": 70});
    let shown = world.post("/faults", TOKEN, &set).await;
    let want = json!({
        "lose_next_ack": 2, "lose_next_answer": 0, "lose_next_save_answer": 0, "delay_ms": 5,
        "next_patch_expires_in_ms": 70,
    });
    assert_eq!(shown.body, want);
    assert_eq!(world.get("/faults").await.body, want);
    assert_eq!(world.post("/faults", TOKEN, &json!({"lose_everything": true})).await.status, 422);
}

#[tokio::test]
async fn a_lost_ack_loses_the_callers_connection_and_the_retry_is_a_replay() {
    let world = World::new().await;
    let mut tab = Tab::open(&world).await;
    world.server.faults().lose_next_ack(1);
    let sending = world.sending(&Edit::append("k", "x"));
    let patch = tab.socket.patch().await;
    tab.socket.ack(&patch, false).await;
    assert!(sending.await.unwrap().is_none());
    assert_eq!(world.state("k"), "delivered");
    let retry = world.sending(&Edit::append("k", "x").attempt(2));
    let again = tab.socket.patch().await;
    assert_eq!((again.patch_id, again.delivery), (patch.patch_id, 2));
    tab.socket.ack(&again, true).await;
    assert!(retry.await.unwrap().unwrap().replayed());
    tab.socket.confirmed(patch.patch_id, ConfirmedAs::Acked).await;
}

#[tokio::test]
async fn a_lost_answer_is_a_write_that_was_done() {
    let world = World::new().await;
    world.server.faults().lose_next_answer(1);
    assert!(world.try_send(&Edit::append("k", "x")).await.is_none());
    assert_eq!(world.text("d1").await, "a\nx");
    let retry = world.send(&Edit::append("k", "x").attempt(2)).await;
    assert_eq!((retry.status, retry.replayed()), (200, true));
    assert_eq!(world.text("d1").await, "a\nx");
}

#[tokio::test]
async fn cut_closes_every_socket() {
    let world = World::new().await;
    let mut tab = Tab::open(&world).await;
    world.post("/faults", TOKEN, &json!({"cut": true})).await;
    tab.socket.closed().await;
    Tab::hello(&world, tab.who, open_doc("d1", tab.incarnation)).await;
}

#[tokio::test]
async fn restart_is_a_new_boot_on_the_same_database() {
    let world = World::new().await;
    let who = crate::tab::Identity::new();
    let boot = async || {
        let mut socket = Socket::connect(&world, TOKEN).await;
        socket.send(&patchkeep_core::frame::TabFrame::Hello(who.hello(vec![]))).await;
        let boot_id = socket.welcome().await.boot_id;
        (socket, boot_id)
    };
    let (mut socket, first) = boot().await;
    let ticket = world.post("/api/tickets", TOKEN, &json!({})).await.body["ticket"].as_str().unwrap().to_owned();
    world.send(&Edit::append("k", "x")).await;
    assert_eq!(world.post("/faults", TOKEN, &json!({"restart": true})).await.status, 200);
    socket.closed().await;
    assert_ne!(boot().await.1, first);
    assert_eq!(Socket::with_ticket(&world, &ticket).await.closed().await, Some(4402), "tickets died with it");
    assert!(world.send(&Edit::append("k", "x").attempt(2)).await.replayed());
}

#[tokio::test]
async fn delay_holds_frames_back() {
    let world = World::new().await;
    let mut tab = Tab::open(&world).await;
    world.server.faults().delay_ms(100);
    let began = Instant::now();
    tab.socket.quiet().await;
    assert!(began.elapsed() >= Duration::from_millis(100));
}
