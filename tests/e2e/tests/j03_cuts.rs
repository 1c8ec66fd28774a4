//! The socket is cut at each point of a patch's way (J3, J8, R1, R6): one effect, and the truth about it afterwards.

use patchkeep_e2e::frames::{Patch, patch_id};
use patchkeep_e2e::page::with_raw_server;
use serde_json::json;

#[tokio::test]
async fn j03_cut_before_the_handler_is_called_drops_the_intent() {
    with_raw_server(async |page, server| {
        page.start_on(&server.url(), &["d1"]).await;
        page.handle_async("d1", "await gate(patch.patchId); doc.effect(patch);").await;
        let (mut socket, hello) = server.welcome().await;
        socket.send(hello.frame(&Patch::append(1, "d1", "1"))).await;
        socket.send(hello.frame(&Patch::append(2, "d1", "2"))).await;
        page.at_gate(&patch_id(1)).await;
        socket.settle_after_start(hello.journal_id()).await;
        socket.reset();

        let (mut socket, hello) = server.welcome().await;
        let listed = &hello.doc("d1")["unconfirmed"];
        assert_eq!(listed.as_array().map(Vec::len), Some(1), "only what was called is listed: {listed}");
        page.open_gate(&patch_id(1)).await;
        assert_eq!(socket.expect("patch_ack").await["patch_id"], patch_id(1));
        socket.settle(hello.journal_id()).await;
        assert_eq!(page.text("d1").await, "1", "the other was dropped");

        page.open_gate(&patch_id(2)).await;
        socket.send(hello.query(2, 2)).await;
        assert_eq!(socket.expect("patch_state").await["state"], "not_seen");
        socket.send(hello.frame(&Patch::append(2, "d1", "2").delivery(3))).await;
        socket.expect("patch_start").await;
        assert_eq!(socket.expect("patch_ack").await["replayed"], false);
        assert_eq!(page.text("d1").await, "12");
    })
    .await;
}

#[tokio::test]
async fn j03_cut_while_the_handler_runs_is_told_in_the_next_hello() {
    with_raw_server(async |page, server| {
        page.start_on(&server.url(), &["d1"]).await;
        page.handle_async("d1", "await gate('slow'); doc.effect(patch); doc.wanted = patch.stillWanted();").await;
        let (mut socket, hello) = server.welcome().await;
        socket.send(hello.frame(&Patch::append(1, "d1", "X"))).await;
        page.at_gate("slow").await;
        socket.reset();
        page.until("pk.session.connection.state !== 'live'").await;
        // The effect is made while there is no connection at all.
        page.open_gate("slow").await;
        page.until(&format!("pk.record('{}').state === 'applied'", patch_id(1))).await;

        let (_socket, hello) = server.welcome().await;
        assert_eq!(hello.doc("d1")["unconfirmed"][0]["state"], "applied");
        assert_eq!(page.text("d1").await, "X");
    })
    .await;
}

#[tokio::test]
async fn j08_cut_before_the_acknowledgement_is_read_changes_nothing_twice() {
    with_raw_server(async |page, server| {
        page.start_on(&server.url(), &["d1"]).await;
        let (mut socket, hello) = server.welcome().await;
        let patch = Patch::append(1, "d1", "X");
        socket.send(hello.frame(&patch)).await;
        socket.expect("patch_start").await;
        socket.reset();

        let (mut socket, hello) = server.welcome().await;
        socket.send(hello.frame(&patch.delivery(2))).await;
        let ack = socket.skip_to("patch_ack").await;
        assert_eq!((&ack["replayed"], &ack["delivery"]), (&json!(true), &json!(2)));
        assert_eq!(page.text("d1").await, "X");
    })
    .await;
}

#[tokio::test]
async fn r04_cut_before_the_confirmation_lists_the_patch_again_and_cut_after_it_does_not() {
    with_raw_server(async |page, server| {
        page.start_on(&server.url(), &["d1"]).await;
        let (mut socket, hello) = server.welcome().await;
        socket.send(hello.frame(&Patch::append(1, "d1", "X"))).await;
        socket.expect("patch_start").await;
        socket.expect("patch_ack").await;
        socket.reset();

        let (mut socket, hello) = server.welcome().await;
        assert_eq!(hello.doc("d1")["unconfirmed"][0]["patch_id"], patch_id(1));
        socket
            .send(json!({ "type": "patch_confirmed", "patches": [{ "patch_id": patch_id(1), "as": "acked" }] }))
            .await;
        page.until(&format!("pk.record('{}').confirmed === 'acked'", patch_id(1))).await;
        socket.reset();

        let (_socket, hello) = server.welcome().await;
        assert_eq!(hello.doc("d1")["unconfirmed"], json!([]), "R4: what is confirmed is not listed");
        assert_eq!(page.text("d1").await, "X");
    })
    .await;
}
