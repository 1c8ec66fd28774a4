//! B14: frames are handled in the order they come, whatever takes long; binary ones go to the host as they are.

use patchkeep_core::digest::Digest;
use patchkeep_e2e::frames::{Patch, patch_id};
use patchkeep_e2e::page::with_raw_server;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

#[tokio::test]
async fn b14_binary_and_slow_patches_do_not_reorder_anything() {
    with_raw_server(async |page, server| {
        page.start(json!({ "socket": server.url(), "binaryType": "blob" })).await;
        page.open("d1", json!({})).await;
        page.open("d2", json!({})).await;
        page.handle_async("d1", "await gate(patch.patchId); doc.effect(patch);").await;
        let (mut socket, hello) = server.welcome().await;

        let large: Vec<u8> = (0u32..5 << 20).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
        let small = vec![1, 2, 3];
        let mut bulky = Patch::append(3, "d1", "3");
        bulky.body["padding"] = "p".repeat(900 << 10).into();
        let text = |patch: &Patch| Message::text(hello.frame(patch).to_string());
        socket
            .send_all(vec![
                text(&Patch::append(1, "d1", "1")),
                Message::binary(large.clone()),
                text(&Patch::append(2, "d1", "2")),
                text(&bulky),
                Message::binary(small.clone()),
                text(&Patch::append(4, "d1", "4")),
                text(&Patch::append(5, "d2", "five")),
            ])
            .await;

        assert_eq!(socket.expect("patch_start").await["patch_id"], patch_id(1));
        assert_eq!(socket.expect("patch_start").await["patch_id"], patch_id(5), "d2 does not wait for d1 (J9)");
        assert_eq!(socket.expect("patch_ack").await["patch_id"], patch_id(5));
        socket.send(hello.query(3, 2)).await;
        assert_eq!(socket.expect("patch_state").await["state"], "applying", "received and not handled (J12b)");

        for n in 1..=4 {
            page.at_gate(&patch_id(n)).await;
            page.open_gate(&patch_id(n)).await;
            assert_eq!(socket.skip_to("patch_ack").await["patch_id"], patch_id(n));
        }
        assert_eq!(page.text("d1").await, "1234");
        assert_eq!(page.text("d2").await, "five");
        page.until("pk.binaries.length === 2").await;
        let expected = json!([
            { "bytes": large.len(), "sha256": Digest::of(&large).to_string() },
            { "bytes": 3, "sha256": Digest::of(&small).to_string() },
        ]);
        assert_eq!(
            page.run("return await pk.binaryDigests()", json!({})).await,
            expected,
            "each once, as it was sent, in order"
        );
    })
    .await;
}
