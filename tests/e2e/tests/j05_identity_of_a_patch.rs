//! J5: one id is one patch; another digest under it is refused and changes no record.

use patchkeep_e2e::frames::{Patch, patch_id};
use patchkeep_e2e::page::with_raw_server;

#[tokio::test]
async fn j05_another_digest_under_a_known_id_is_refused() {
    with_raw_server(async |page, server| {
        page.start_on(&server.url(), &["d1"]).await;
        let (mut socket, hello) = server.welcome().await;
        let patch = Patch::append(1, "d1", "X");
        socket.send(hello.frame(&patch)).await;
        socket.expect("patch_start").await;
        socket.expect("patch_ack").await;

        socket.send(hello.frame(&Patch::append(1, "d1", "Y").delivery(2))).await;
        let refusal = socket.expect("patch_refuse").await;
        assert_eq!(refusal["reason"], "patch_id_reused");
        assert_eq!(refusal["delivery"], 2);
        page.until(&format!("pk.record('{}').state === 'applied'", patch_id(1))).await;

        socket.send(hello.frame(&patch.delivery(3))).await;
        assert_eq!(socket.expect("patch_ack").await["replayed"], true, "the record is untouched");
        assert_eq!(page.text("d1").await, "X");
        assert_eq!(page.calls("d1").await, 1);
    })
    .await;
}

#[tokio::test]
async fn j13_a_throw_without_a_refusal_is_unknown_without_a_hook() {
    with_raw_server(async |page, server| {
        page.start_on(&server.url(), &["d1"]).await;
        page.handle("d1", "doc.effect(patch); throw new Error('half way');").await;
        let (mut socket, hello) = server.welcome().await;
        let patch = Patch::append(1, "d1", "X");
        socket.send(hello.frame(&patch)).await;
        socket.expect("patch_start").await;
        socket.expect("patch_unknown").await;
        page.problem("handler_threw").await;
        socket.send(hello.frame(&patch.delivery(2))).await;
        assert_eq!(socket.expect("patch_unknown").await["delivery"], 2);
        assert_eq!(page.calls("d1").await, 1, "it is not tried again");
    })
    .await;
}
