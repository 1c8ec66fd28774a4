//! J2: nothing is applied past its deadline, and T4: a frozen tab that wakes applies nothing late.

use patchkeep_e2e::frames::{Patch, now_ms, patch_id};
use patchkeep_e2e::page::with_raw_server;
use patchkeep_e2e::wait::until;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

#[tokio::test]
async fn j02_a_patch_that_expires_behind_a_busy_page_is_refused() {
    with_raw_server(async |page, server| {
        page.start_on(&server.url(), &["d1"]).await;
        page.handle("d1", "const end = Date.now() + 1500; while (Date.now() < end); doc.effect(patch);").await;
        let (mut socket, hello) = server.welcome().await;
        let late = Patch { expires_in_ms: 700, ..Patch::append(2, "d1", "late") };
        let frames = [Patch::append(1, "d1", "X"), late];
        socket.send_all(frames.iter().map(|patch| Message::text(hello.frame(patch).to_string())).collect()).await;
        socket.expect("patch_start").await;
        assert_eq!(socket.expect("patch_ack").await["patch_id"], patch_id(1));
        let refusal = socket.expect("patch_refuse").await;
        assert_eq!((&refusal["patch_id"], &refusal["reason"]), (&json!(patch_id(2)), &json!("expired")));
        assert_eq!(page.text("d1").await, "X");
        assert_eq!(page.calls("d1").await, 1);
    })
    .await;
}

#[tokio::test]
async fn t4_a_patch_that_came_while_the_page_was_frozen_is_not_applied_when_it_wakes() {
    with_raw_server(async |page, server| {
        page.start_on(&server.url(), &["d1"]).await;
        let (mut socket, hello) = server.welcome().await;
        page.live().await;
        page.cdp("Page.setWebLifecycleState", json!({ "state": "frozen" })).await;
        let patch = Patch { expires_in_ms: 300, ..Patch::append(1, "d1", "X") };
        let expires_at = now_ms() + patch.expires_in_ms;
        socket.send(hello.frame(&patch)).await;
        until("the deadline", async || (now_ms() > expires_at).then_some(())).await;
        page.cdp("Page.setWebLifecycleState", json!({ "state": "active" })).await;

        let (mut socket, hello) = server.welcome().await;
        let again = Patch { expires_in_ms: -1, ..patch.delivery(2) };
        socket.send(hello.frame(&again)).await;
        let refusal = socket.expect("patch_refuse").await;
        assert_eq!((&refusal["reason"], &refusal["delivery"]), (&json!("expired"), &json!(2)));
        assert_eq!(page.text("d1").await, "");
        assert_eq!(page.calls("d1").await, 0);
    })
    .await;
}
