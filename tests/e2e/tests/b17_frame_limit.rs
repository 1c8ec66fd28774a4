//! B17: no frame over the server's limit, and no loop if it is refused nevertheless.

use patchkeep_e2e::frames::{Patch, patch_id};
use patchkeep_e2e::page::with_raw_server;
use serde_json::json;

const LIMIT: usize = 4096;

#[tokio::test]
async fn b17_lists_results_and_details_stay_under_the_limit() {
    with_raw_server(async |page, server| {
        page.start_on(&server.url(), &["d1"]).await;
        let (mut socket, hello) = server.accept_with(json!({ "max_frame_bytes": LIMIT })).await;
        for n in 1..=600 {
            socket.send(hello.frame(&Patch::append(n, "d1", "x"))).await;
            socket.expect("patch_start").await;
            socket.expect("patch_ack").await;
        }
        page.handle("d1", "doc.effect(patch); return 'r'.repeat(5000);").await;
        socket.send(hello.frame(&Patch::append(601, "d1", "x"))).await;
        socket.expect("patch_start").await;
        let ack = socket.expect("patch_ack").await;
        assert_eq!(ack.get("result"), None, "a result that is too large is left out (J8)");
        page.problem("result_dropped").await;
        page.handle("d1", "throw refuse('handler_refused', 'é'.repeat(3000));").await;
        socket.send(hello.frame(&Patch::append(602, "d1", "x"))).await;
        socket.expect("patch_start").await;
        socket.expect("patch_refuse").await;
        socket.reset();

        let mut socket = server.accept().await;
        let hello = socket.welcome_with(json!({ "max_frame_bytes": LIMIT })).await;
        assert!(socket.largest() <= 64 << 10, "hello goes out before the limit is known");
        let listed = hello.doc("d1")["unconfirmed"].as_array().expect("a list").len();
        assert!((1..=500).contains(&listed), "{listed} listed; at most 500");
        // The rest is told when queried.
        for n in [1, 300, 600, 601] {
            socket.send(hello.query(n, 2)).await;
            let state = socket.skip_to("patch_state").await;
            assert_eq!((&state["patch_id"], &state["state"]), (&json!(patch_id(n)), &json!("applied")));
        }
        page.run("await pk.docs.get('d1').handle.replaceContent({ baseSeq: 1 })", json!({})).await;
        socket.skip_to("open").await;
        assert!(socket.largest_after_hello() <= LIMIT, "{} bytes", socket.largest_after_hello());
        assert_eq!(page.text("d1").await, "x".repeat(601));
    })
    .await;
}

#[tokio::test]
async fn b17_a_frame_refused_as_too_big_is_not_sent_again_at_once() {
    with_raw_server(async |page, server| {
        page.start_on(&server.url(), &["d1"]).await;
        page.handle("d1", "doc.effect(patch); return 'r'.repeat(3000);").await;
        let (mut socket, hello) = server.welcome().await;
        let patch = Patch::append(1, "d1", "X");
        socket.send(hello.frame(&patch)).await;
        socket.expect("patch_start").await;
        let refused = socket.next_text().await.expect("an acknowledgement");
        socket.close(1009).await;
        page.until("pk.session.connection.state !== 'live'").await;

        let (mut socket, hello) = server.welcome().await;
        assert_eq!(hello.doc("d1")["unconfirmed"], json!([]), "lists are left out after a frame was too big");
        socket.send(hello.frame(&patch.delivery(2))).await;
        let again = socket.next_text().await.expect("an acknowledgement");
        assert_ne!(again, refused);
        assert!(again.contains("\"replayed\":true"), "{again}");
        assert_eq!(page.text("d1").await, "X");
        assert_eq!(page.eval("pkSocketsAtOnce").await, 1);
    })
    .await;
}
