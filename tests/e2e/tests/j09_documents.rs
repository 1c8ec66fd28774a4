//! J9: one patch of a document at a time; documents do not wait for each other.

use patchkeep_e2e::frames::{Patch, patch_id};
use patchkeep_e2e::page::with_raw_server;
use serde_json::json;

#[tokio::test]
async fn j09_two_documents_at_once() {
    with_raw_server(async |page, server| {
        page.start_on(&server.url(), &["d1", "d2"]).await;
        page.handle_async("d1", "await gate(patch.patchId); doc.effect(patch);").await;
        let (mut socket, hello) = server.welcome().await;
        for patch in [
            Patch::append(1, "d1", "a"),
            Patch::append(2, "d1", "b"),
            Patch::append(3, "d2", "c"),
            Patch::append(4, "d2", "d"),
        ] {
            socket.send(hello.frame(&patch)).await;
        }
        for n in [3, 4] {
            assert_eq!(socket.skip_to("patch_ack").await["patch_id"], patch_id(n));
        }
        assert_eq!(page.text("d2").await, "cd");
        assert_eq!(page.calls("d1").await, 1, "the second waits for the first");
        for n in [1, 2] {
            page.at_gate(&patch_id(n)).await;
            page.open_gate(&patch_id(n)).await;
            assert_eq!(socket.skip_to("patch_ack").await["patch_id"], patch_id(n));
        }
        assert_eq!(page.text("d1").await, "ab");
    })
    .await;
}

#[tokio::test]
async fn j09_a_handler_that_never_settles_makes_its_document_busy_and_no_other() {
    with_raw_server(async |page, server| {
        page.start(json!({ "socket": server.url(), "handlerTimeoutMs": 300 })).await;
        page.open("d1", json!({})).await;
        page.open("d2", json!({})).await;
        page.handle_async("d1", "await gate('never'); doc.effect(patch);").await;
        let (mut socket, hello) = server.welcome().await;
        socket.send(hello.frame(&Patch::append(1, "d1", "a"))).await;
        socket.expect("patch_start").await;
        assert_eq!(socket.expect("patch_unknown").await["patch_id"], patch_id(1));
        page.problem("handler_timeout").await;
        socket.send(hello.frame(&Patch::append(2, "d1", "b"))).await;
        assert_eq!(socket.expect("patch_refuse").await["reason"], "busy");
        socket.send(hello.frame(&Patch::append(3, "d2", "c"))).await;
        socket.expect("patch_start").await;
        socket.expect("patch_ack").await;

        page.open_gate("never").await;
        let late = socket.expect("patch_ack").await;
        assert_eq!(late["patch_id"], patch_id(1), "R6: a late acknowledgement is the truth");
        socket.send(hello.frame(&Patch::append(2, "d1", "b").delivery(2))).await;
        socket.expect("patch_start").await;
        socket.expect("patch_ack").await;
        assert_eq!(page.text("d1").await, "ab");
    })
    .await;
}
