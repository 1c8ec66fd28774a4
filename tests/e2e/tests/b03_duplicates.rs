//! B03: a duplicate is answered again, not swallowed (J3, J5).

use patchkeep_e2e::frames::{Patch, patch_id};
use patchkeep_e2e::page::with_raw_server;
use serde_json::json;

patchkeep_e2e::on_each_engine!(
    b03a_an_applied_patch_is_acknowledged_with_each_delivery,
    b03b_a_handler_that_outlives_its_socket_answers_once_on_the_next,
    b03c_a_refusal_is_given_again_without_asking_the_handler,
);

async fn b03a_an_applied_patch_is_acknowledged_with_each_delivery() {
    with_raw_server(async |page, server| {
        page.start_on(&server.url(), &["d1"]).await;
        page.handle("d1", "doc.effect(patch); return { line: 7 };").await;
        let (mut socket, hello) = server.welcome().await;
        let patch = Patch::append(1, "d1", "X");
        socket.send(hello.frame(&patch)).await;
        socket.expect("patch_start").await;
        // The acknowledgement is on its way and is never read.
        page.until(&format!("pk.record('{}')?.state === 'applied'", patch_id(1))).await;
        socket.reset();

        let (mut socket, hello) = server.welcome().await;
        assert_eq!(hello.doc("d1")["unconfirmed"][0]["state"], "applied", "R1 lists it");
        for delivery in 2..=5 {
            socket.send(hello.frame(&patch.delivery(delivery))).await;
            let ack = socket.expect("patch_ack").await;
            assert_eq!(ack["patch_id"], patch.patch_id);
            assert_eq!(ack["delivery"], delivery);
            assert_eq!(ack["replayed"], true);
            assert_eq!(ack["result"], json!({ "line": 7 }), "the recorded result comes again");
        }
        assert_eq!(page.text("d1").await, "X");
        assert_eq!(page.calls("d1").await, 1);
        page.until(&format!("pk.record('{}').replays === 4", patch_id(1))).await;
    })
    .await;
}

async fn b03b_a_handler_that_outlives_its_socket_answers_once_on_the_next() {
    with_raw_server(async |page, server| {
        page.start_on(&server.url(), &["d1"]).await;
        page.handle_async("d1", "await gate('slow'); doc.effect(patch);").await;
        let (mut socket, hello) = server.welcome().await;
        let patch = Patch::append(1, "d1", "X");
        socket.send(hello.frame(&patch)).await;
        page.at_gate("slow").await;
        socket.reset();

        let (mut socket, hello) = server.welcome().await;
        assert_eq!(hello.doc("d1")["unconfirmed"][0]["state"], "applying", "once called nothing is dropped");
        socket.send(hello.frame(&patch.delivery(2))).await;
        socket.settle(hello.journal_id()).await;
        page.open_gate("slow").await;
        let ack = socket.expect("patch_ack").await;
        assert_eq!((&ack["patch_id"], &ack["delivery"]), (&json!(patch.patch_id), &json!(2)));
        socket.settle(hello.journal_id()).await;
        assert_eq!(page.text("d1").await, "X");
        assert_eq!(page.calls("d1").await, 1);
    })
    .await;
}

async fn b03c_a_refusal_is_given_again_without_asking_the_handler() {
    with_raw_server(async |page, server| {
        page.start_on(&server.url(), &["d1"]).await;
        page.handle("d1", "throw refuse('handler_refused', 'not today');").await;
        let (mut socket, hello) = server.welcome().await;
        let patch = Patch::append(1, "d1", "X");
        socket.send(hello.frame(&patch)).await;
        socket.expect("patch_start").await;
        for delivery in 1..=3 {
            if delivery > 1 {
                socket.send(hello.frame(&patch.delivery(delivery))).await;
            }
            let refusal = socket.expect("patch_refuse").await;
            assert_eq!(refusal["reason"], "handler_refused");
            assert_eq!(refusal["delivery"], delivery);
        }
        assert_eq!(page.calls("d1").await, 1);
        assert_eq!(page.text("d1").await, "");
    })
    .await;
}
