//! Two servers on one database: each has its own sockets, and both the same keys (S8, S11).

use patchkeep_core::frame::{ConfirmedAs, RejectCode, ReportedState, ServerFrame, TabFrame};
use patchkeep_core::ids::PatchId;
use patchkeep_server::Server;
use serde_json::json;

use crate::tab::{Heard, Identity, Tab, incarnation, listed, open_doc};
use crate::world::{Edit, Reply, TOKEN, World, fresh};

#[tokio::test]
async fn s03_sixty_four_at_once_over_two_servers_have_one_effect() {
    let world = World::new().await;
    let other = world.beside().await;
    let sent: Vec<_> = (0..64)
        .map(|n| world.sending_to(if n % 2 == 0 { &world.server } else { &other }, &Edit::append("k", "x")))
        .collect();
    let mut firsts = 0;
    for task in sent {
        let reply = task.await.unwrap().unwrap();
        match reply.status {
            200 => firsts += usize::from(!reply.replayed()),
            _ => assert_eq!((reply.status, reply.code()), (409, "idempotency_in_flight")),
        }
    }
    assert_eq!((firsts, world.text("d1").await.as_str()), (1, "a\nx"));
    other.stop().await;
}

#[tokio::test]
async fn s02_many_keys_over_two_servers_all_land_once() {
    let world = World::new().await;
    let other = world.beside().await;
    let sent: Vec<_> = (0..40)
        .map(|n| {
            let edit = Edit::append(&format!("k{n}"), &format!("<{n}>"));
            world.sending_to(if n % 2 == 0 { &world.server } else { &other }, &edit)
        })
        .collect();
    for task in sent {
        assert_eq!(task.await.unwrap().unwrap().status, 200);
    }
    let (text, seq) = world.stored("d1").await;
    assert!((0..40).all(|n| text.matches(&format!("<{n}>")).count() == 1), "{text}");
    assert_eq!(seq, 41);
    other.stop().await;
}

#[tokio::test]
async fn s07_another_server_never_plans_what_is_out_again() {
    let world = World::with(|c| c.patch_timeout_ms = 400).await;
    let other = world.beside().await;
    let mut tab = Tab::open(&world).await;
    let sending = world.sending(&Edit::append("k", "x"));
    let patch = tab.socket.patch().await;
    // The tab's socket is the first server's: the second knows no better until the deadline, and writes nothing.
    let retry = world.sending_to(&other, &Edit::append("k", "x").attempt(2)).await.unwrap().unwrap();
    assert_eq!(retry.code(), "patch_outcome_unknown");
    // Where processes know of each other it is not called gone either.
    let recipient = &retry.body["error"]["details"]["recipient"];
    assert_eq!(*recipient == json!("gone"), !world.place.is_served(), "{recipient}");
    assert_eq!(world.text("d1").await, "a\n");
    assert_eq!(sending.await.unwrap().unwrap().code(), "patch_outcome_unknown");
    // The first server is gone; the tab comes to the second and settles it there.
    let heir = world.left_to(other).await;
    let open = listed(open_doc("d1", tab.incarnation), &patch, ReportedState::Applied);
    let mut back = Tab::hello(&heir, tab.who.clone(), open).await;
    back.socket.confirmed(patch.patch_id, ConfirmedAs::Acked).await;
    assert_eq!(heir.state("k"), "acked");
}

#[tokio::test]
async fn s11_a_lost_database_connection_is_made_again() {
    let world = World::new().await;
    world.send(&Edit::append("k", "x")).await;
    // An embedded database has none to lose; the suite runs against a server as well.
    if world.place.cut_connections() {
        assert!(world.send(&Edit::append("k", "x").attempt(2)).await.replayed());
    }
    assert_eq!(world.send(&Edit::append("k2", "y")).await.status, 200);
    assert_eq!(world.text("d1").await, "a\nxy");
}

/// A tab that lives at the second server, while a socket of the same load of its page that is dead by now was the last
/// to say hello, at the first.
async fn overtaken(world: &World, other: &Server) -> Tab {
    let open = open_doc("d1", incarnation());
    let living = Tab::hello_at(world, other, Identity::new(), open.clone()).await;
    let late = Tab::hello(world, living.who.clone(), open).await;
    late.socket.drop_dead();
    living
}

#[tokio::test]
async fn r05_d14_any_frame_on_a_replaced_connection_closes_it() {
    let world = World::new().await;
    let other = world.beside().await;
    let patch_id = PatchId(fresh());
    let frames = |tab: &Tab| {
        [
            TabFrame::Ping { t: 1, visible: true },
            TabFrame::Open(open_doc("d2", incarnation())),
            TabFrame::Close { doc: open_doc("d1", tab.incarnation).doc, incarnation: tab.incarnation },
            TabFrame::PatchStart { patch_id, delivery: 1 },
            TabFrame::PatchUnknown { patch_id, delivery: 1, detail: None },
            TabFrame::Hello(tab.who.hello(vec![])),
        ]
    };
    for n in 0..6 {
        let mut tab = overtaken(&world, &other).await;
        let frame = frames(&tab)[n].clone();
        // Where the processes hear each other it is closed before.
        tab.socket.try_send(&frame).await;
        let code = loop {
            match tab.socket.next().await {
                Heard::Closed(code) => break code,
                // It may be answered before it is known to be deaf; nothing is opened on it.
                Heard::Frame(said) => assert!(matches!(said, ServerFrame::Pong { .. }), "{frame:?}: {said:?}"),
            }
        };
        assert_eq!(code, Some(1000), "{frame:?}");
    }
    other.stop().await;
}

#[tokio::test]
async fn r05_d14_a_dead_sockets_late_hello_does_not_deafen_the_living_one() {
    let world = World::new().await;
    let other = world.beside().await;
    let mut tab = overtaken(&world, &other).await;
    tab.socket.try_send(&TabFrame::Ping { t: 1, visible: true }).await;
    tab.socket.closed().await;
    let mut back = Tab::hello_at(&world, &other, tab.who.clone(), open_doc("d1", tab.incarnation)).await;
    let sending = world.sending_to(&other, &Edit::append("k", "x"));
    let patch = back.socket.patch().await;
    back.socket.ack(&patch, false).await;
    back.socket.confirmed(patch.patch_id, ConfirmedAs::Acked).await;
    assert_eq!(sending.await.unwrap().unwrap().body["applied_pending_flush"], json!(true));
    other.stop().await;
}

/// A tab at the world's own server, and keys that it cannot tell the outcome of.
async fn unknown(world: &World, keys: &[&str]) -> Tab {
    let mut tab = Tab::open(world).await;
    for key in keys {
        let sending = world.sending(&Edit::append(key, "x"));
        let patch = tab.socket.patch().await;
        tab.socket.unknown(&patch).await;
        tab.socket.confirmed(patch.patch_id, ConfirmedAs::Unknown).await;
        assert_eq!(sending.await.unwrap().unwrap().code(), "patch_outcome_unknown");
    }
    tab
}

async fn settle_at(world: &World, server: &Server, key: &str, verdict: &str) -> Reply {
    world.post_to(server, &format!("/api/keys/{key}/settle"), TOKEN, &json!({"as": verdict})).await
}

#[tokio::test]
async fn s10_d13_not_applied_at_another_process_leaves_the_document_writable_at_the_tabs_own() {
    let world = World::new().await;
    let other = world.beside().await;
    let mut tab = unknown(&world, &["k", "k2"]).await;
    assert_eq!(settle_at(&world, &other, "k", "not_applied").await.status, 200);
    let written = world.send(&Edit::append("new", "y")).await;
    assert_eq!((written.status, &written.body["seq"]), (200, &json!(2)), "{written:?}");
    assert_eq!(world.text("d1").await, "a\ny");
    // Its tab is told, or told as soon as it says anything of it where processes do not hear each other.
    if !world.place.is_served() {
        tab.socket.send(&TabFrame::Open(open_doc("d1", incarnation()))).await;
    }
    let code = loop {
        match tab.socket.frame().await {
            ServerFrame::Reject(code) => break code,
            // Whether it has heard of the fence by the time of the write is a matter of time.
            said => assert!(matches!(said, ServerFrame::DocChanged { .. }), "{said:?}"),
        }
    };
    assert_eq!((code, tab.socket.closed().await), (RejectCode::SettledElsewhere, Some(4406)));
    // What else was out with the fenced content is handed to nobody, and its next load is its successor.
    let retry = world.send(&Edit::append("k2", "x").attempt(2)).await;
    assert_eq!(retry.code(), "patch_outcome_unknown");
    let next = incarnation();
    let mut back = Tab::hello(&world, tab.who.reloaded(), crate::tab::elsewhere("d1", next)).await;
    assert_eq!(back.socket.query().await.delivery, 2);
    assert_eq!(back.save(&world, 2, "a\ny\nz", &[]).await.status, 200);
    other.stop().await;
}

#[tokio::test]
async fn s10_d13_who_waits_at_another_process_is_told() {
    let world = World::new().await;
    // Processes on an embedded database do not hear each other.
    if !world.place.is_served() {
        return;
    }
    let other = world.beside().await;
    // Many, so that most of them wait by the time the word is given: whoever looks later needs none.
    let keys = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let mut tab = unknown(&world, &keys).await;
    let mut retries = Vec::new();
    for key in keys {
        retries.push(world.sending(&Edit::append(key, "x").attempt(2)));
        tab.socket.patch().await;
        world.stored("d1").await;
    }
    for key in keys {
        assert_eq!(settle_at(&world, &other, key, "applied").await.status, 200);
    }
    for retry in retries {
        let reply = retry.await.unwrap().unwrap();
        assert_eq!((reply.status, &reply.body["settled"]["as"]), (200, &json!("applied")));
    }
    other.stop().await;
}
