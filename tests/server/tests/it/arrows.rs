//! Every arrow of the diagram of §9, each by what makes it, through the real server.

use patchkeep_core::frame::{ConfirmedAs, PatchFrame, Reason, ReportedState};
use serde_json::json;

use crate::tab::{Tab, incarnation, listed, open_doc};
use crate::world::{Edit, TOKEN, World};

/// A key that is out with a tab.
async fn delivered() -> (World, Tab, PatchFrame) {
    let world = World::new().await;
    let mut tab = Tab::open(&world).await;
    let sending = world.sending(&Edit::append("k", "x"));
    let patch = tab.socket.patch().await;
    assert_eq!(world.state("k"), "delivered");
    sending.abort();
    (world, tab, patch)
}

async fn acked() -> (World, Tab, PatchFrame) {
    let (world, mut tab, patch) = delivered().await;
    tab.socket.ack(&patch, false).await;
    tab.socket.confirmed(patch.patch_id, ConfirmedAs::Acked).await;
    assert_eq!(world.state("k"), "acked");
    (world, tab, patch)
}

async fn unknown() -> (World, Tab, PatchFrame) {
    let (world, mut tab, patch) = delivered().await;
    tab.socket.unknown(&patch).await;
    tab.socket.confirmed(patch.patch_id, ConfirmedAs::Unknown).await;
    assert_eq!(world.state("k"), "unknown");
    (world, tab, patch)
}

#[tokio::test]
async fn arrow_claimed_to_done() {
    let world = World::new().await;
    world.send(&Edit::append("k", "x")).await;
    assert_eq!((world.state("k").as_str(), world.row("k", "settled_by").as_deref()), ("done", Some("write")));
}

#[tokio::test]
async fn arrow_claimed_to_refused_and_claimed_again() {
    let world = World::new().await;
    let edit = Edit::body("k", r#"{"edit":{"kind":"text.replace","find":"z","replace":""}}"#);
    world.send(&edit).await;
    assert_eq!(world.state("k"), "refused");
    world.send(&Edit::append("other", "z")).await;
    world.send(&edit.attempt(2)).await;
    assert_eq!(world.state("k"), "done");
}

#[tokio::test]
async fn arrow_claimed_to_delivered_to_acked_to_done() {
    let (world, tab, patch) = acked().await;
    assert_eq!(tab.save(&world, 1, "a\nx", &[patch.patch_id]).await.status, 200);
    assert_eq!((world.state("k").as_str(), world.row("k", "settled_by").as_deref()), ("done", Some("save")));
}

#[tokio::test]
async fn arrow_delivered_to_refused() {
    let (world, mut tab, patch) = delivered().await;
    tab.socket.refuse(&patch, Reason::HandlerRefused).await;
    tab.socket.confirmed(patch.patch_id, ConfirmedAs::Refused).await;
    assert_eq!(world.state("k"), "refused");
}

#[tokio::test]
async fn arrow_delivered_to_done() {
    let (world, tab, patch) = delivered().await;
    tab.save(&world, 1, "a\nx", &[patch.patch_id]).await;
    assert_eq!(world.state("k"), "done");
}

#[tokio::test]
async fn arrow_delivered_to_unknown_by_the_deadline() {
    let (world, ..) = delivered().await;
    world.pass_deadline().await;
    assert_eq!(world.send(&Edit::append("k", "x").ask()).await.code(), "patch_outcome_unknown");
}

#[tokio::test]
async fn arrow_delivered_to_unknown_by_the_tab() {
    unknown().await;
}

#[tokio::test]
async fn arrow_acked_to_lost_where_it_is_proven_absent() {
    let (world, tab, patch) = acked().await;
    world.pass_deadline().await;
    let mut back = Tab::hello(&world, tab.who.reloaded(), open_doc("d1", incarnation())).await;
    back.socket.confirmed(patch.patch_id, ConfirmedAs::Unknown).await;
    assert_eq!((world.state("k").as_str(), world.row("k", "settled_by").as_deref()), ("lost", Some("fence")));
}

#[tokio::test]
async fn arrow_acked_to_delivered_where_it_is_proven_absent_in_time() {
    let (world, tab, patch) = acked().await;
    let mut back = Tab::hello(&world, tab.who.reloaded(), open_doc("d1", incarnation())).await;
    assert_eq!(back.socket.patch().await.patch_id, patch.patch_id);
    assert_eq!(world.state("k"), "delivered");
}

#[tokio::test]
async fn arrow_unknown_to_acked_by_a_late_acknowledgement() {
    let (world, mut tab, patch) = unknown().await;
    tab.socket.ack(&patch, false).await;
    tab.socket.confirmed(patch.patch_id, ConfirmedAs::Acked).await;
    assert_eq!(world.state("k"), "acked");
}

#[tokio::test]
async fn arrow_unknown_to_done_by_a_save() {
    let (world, tab, patch) = unknown().await;
    tab.save(&world, 1, "a\nx", &[patch.patch_id]).await;
    assert_eq!(world.state("k"), "done");
}

#[tokio::test]
async fn arrow_unknown_to_refused_by_proof() {
    let (world, mut tab, patch) = unknown().await;
    tab.socket.refuse(&patch, Reason::HandlerRefused).await;
    tab.socket.confirmed(patch.patch_id, ConfirmedAs::Refused).await;
    assert_eq!(world.state("k"), "refused");
}

#[tokio::test]
async fn arrow_unknown_to_settled_by_a_person() {
    let (world, ..) = unknown().await;
    assert_eq!(world.post("/api/keys/k/settle", TOKEN, &json!({"as": "applied"})).await.status, 200);
    assert_eq!((world.state("k").as_str(), world.row("k", "settled_by").as_deref()), ("settled", Some("person")));
}

#[tokio::test]
async fn arrow_unknown_is_settled_by_resume_after_the_tabs_death_and_a_server_restart() {
    for (says, confirmed, state) in [
        (ReportedState::Applied, ConfirmedAs::Acked, "acked"),
        (ReportedState::Refused, ConfirmedAs::Refused, "refused"),
    ] {
        let (world, tab, patch) = delivered().await;
        let Tab { who, socket, .. } = tab;
        socket.drop_dead();
        let world = world.reopen().await;
        world.pass_deadline().await;
        assert_eq!(world.send(&Edit::append("k", "x").attempt(2)).await.code(), "patch_outcome_unknown");
        let open = listed(open_doc("d1", incarnation()), &patch, says);
        let mut back = Tab::hello(&world, who.reloaded(), open).await;
        back.socket.confirmed(patch.patch_id, confirmed).await;
        assert_eq!(world.state("k"), state);
    }
}
