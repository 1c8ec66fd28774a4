//! Hand-outs, their answers and their deadlines (S5–S8, R5, R6).

use patchkeep_core::frame::{ConfirmedAs, Reason, ReportedState, TabFrame};
use patchkeep_core::ids::PatchId;
use serde_json::json;

use crate::tab::{Identity, Socket, Tab, elsewhere, incarnation, open_doc};
use crate::world::{Edit, OTHER_TOKEN, World, fresh};

#[tokio::test]
async fn s05_the_patch_is_stored_before_it_is_sent() {
    let world = World::new().await;
    let mut tab = Tab::open(&world).await;
    let sending = world.sending(&Edit::append("k", "x"));
    let patch = tab.socket.patch().await;
    assert_eq!(world.state("k"), "delivered");
    assert_eq!(world.row("k", "patch_id"), Some(patch.patch_id.to_string()));
    assert_eq!(world.row("k", "base_body").as_deref(), Some("a\n"));
    assert_eq!((patch.delivery, patch.base_seq, patch.guarded), (1, Some(1), false));
    assert_eq!((patch.incarnation, patch.journal_id), (tab.incarnation, tab.who.journal_id));
    assert_eq!(&*patch.body, r#"{"kind":"text.append","text":"x"}"#);
    assert_eq!(patch.digest, patchkeep_core::digest::patch(&patch.doc, &patch.body).unwrap());
    tab.socket.ack(&patch, false).await;
    sending.await.unwrap().unwrap();
}

#[tokio::test]
async fn s05_the_body_goes_out_as_it_came_in() {
    let world = World::new().await;
    let mut tab = Tab::open(&world).await;
    let edit = r#"{"kind":"text.append", "text":"\u0078", "n":1.50, "big":123456789012345680000}"#;
    let sending = world.sending(&Edit::body("k", &format!(r#"{{"edit":{edit},"guarded":true}}"#)));
    let patch = tab.socket.patch().await;
    assert_eq!((&*patch.body, patch.guarded), (edit, true));
    tab.socket.ack(&patch, false).await;
    assert_eq!(sending.await.unwrap().unwrap().status, 200);
}

#[tokio::test]
async fn s05_the_longest_connected_tab_of_the_principal_is_elected() {
    let world = World::new().await;
    let stranger = Identity { token: OTHER_TOKEN, principal: "ws/other".into(), ..Identity::new() };
    let mut others = Tab::hello(&world, stranger, open_doc("d1", incarnation())).await;
    let mut elder = Tab::open(&world).await;
    let mut younger = Tab::open(&world).await;
    let sending = world.sending(&Edit::append("k", "x"));
    let patch = elder.socket.patch().await;
    elder.socket.ack(&patch, false).await;
    assert_eq!(sending.await.unwrap().unwrap().body["recipient"]["tab_id"], json!(elder.who.tab_id.to_string()));
    younger.socket.quiet().await;
    others.socket.quiet().await;
    elder.socket.send(&TabFrame::Close { doc: patch.doc.clone(), incarnation: elder.incarnation }).await;
    elder.socket.confirmed(patch.patch_id, ConfirmedAs::Acked).await;
    elder.socket.quiet().await;
    let sending = world.sending(&Edit::append("k2", "y"));
    let patch = younger.socket.patch().await;
    younger.socket.ack(&patch, false).await;
    assert_eq!(sending.await.unwrap().unwrap().status, 200);
}

#[tokio::test]
async fn s05_a_page_that_can_be_seen_is_elected_before_one_that_cannot() {
    let world = World::new().await;
    let mut elder = Tab::open(&world).await;
    let mut younger = Tab::open(&world).await;
    let hide = async |tab: &mut Tab| {
        tab.socket.visible = false;
        // A ping is answered before it is taken in; what answers the next one comes after that.
        tab.socket.quiet().await;
        tab.socket.quiet().await;
    };
    hide(&mut elder).await;
    let sending = world.sending(&Edit::append("k", "x"));
    let patch = younger.socket.patch().await;
    younger.socket.ack(&patch, false).await;
    assert_eq!(sending.await.unwrap().unwrap().status, 200);
    younger.socket.confirmed(patch.patch_id, ConfirmedAs::Acked).await;
    // Of two that cannot be seen, the one that has been connected longest.
    younger.socket.send(&TabFrame::Close { doc: patch.doc.clone(), incarnation: younger.incarnation }).await;
    younger.socket.quiet().await;
    let mut third = Tab::open(&world).await;
    hide(&mut third).await;
    let sending = world.sending(&Edit::append("k2", "y"));
    let patch = elder.socket.patch().await;
    elder.socket.ack(&patch, false).await;
    assert_eq!(sending.await.unwrap().unwrap().status, 200);
    third.socket.quiet().await;
}

#[tokio::test]
async fn s06_acknowledged_is_applied_and_not_done() {
    let world = World::new().await;
    let mut tab = Tab::open(&world).await;
    let sending = world.sending(&Edit::append("k", "x"));
    let patch = tab.socket.patch().await;
    tab.socket.ack(&patch, false).await;
    let reply = sending.await.unwrap().unwrap();
    assert_eq!((reply.status, reply.replayed()), (200, false));
    assert_eq!(reply.body["applied_pending_flush"], json!(true));
    assert_eq!(reply.patch_id(), patch.patch_id.to_string());
    assert_eq!(reply.body["recipient"]["incarnation"], json!(tab.incarnation.to_string()));
    tab.socket.confirmed(patch.patch_id, ConfirmedAs::Acked).await;
    assert_eq!(world.text("d1").await, "a\n", "nothing is stored yet");
    // Asked again: the same, told as a replay; the recipient is gone once its socket is.
    let asked = world.send(&Edit::append("k", "x").ask()).await;
    assert!(asked.replayed() && asked.body["applied_pending_flush"] == json!(true));
    tab.socket.drop_dead();
    let gone = async { while world.send(&Edit::append("k", "x").ask()).await.body["recipient"] != json!("gone") {} };
    tokio::time::timeout(crate::world::PATIENCE, gone).await.unwrap();
    assert_eq!(world.state("k"), "acked", "a recipient that stays away leaves it acked");
}

#[tokio::test]
async fn s06_a_refusal_releases_the_key() {
    let world = World::new().await;
    let mut tab = Tab::open(&world).await;
    let sending = world.sending(&Edit::append("k", "x"));
    let first = tab.socket.patch().await;
    tab.socket
        .send(&TabFrame::PatchRefuse {
            patch_id: first.patch_id,
            delivery: 1,
            reason: Reason::UnconfirmedEdits,
            detail: Some("typing".into()),
        })
        .await;
    let reply = sending.await.unwrap().unwrap();
    assert_eq!((reply.status, reply.code(), reply.released()), (409, "unconfirmed_edits", true));
    assert_eq!(reply.body["error"]["details"]["detail"], json!("typing"));
    tab.socket.confirmed(first.patch_id, ConfirmedAs::Refused).await;
    assert!(world.send(&Edit::append("k", "x")).await.replayed());
    // The next attempt is planned anew, under another id.
    let sending = world.sending(&Edit::append("k", "x").attempt(2));
    let second = tab.socket.patch().await;
    assert_ne!(second.patch_id, first.patch_id);
    tab.socket.ack(&second, false).await;
    assert_eq!(sending.await.unwrap().unwrap().status, 200);
}

#[tokio::test]
async fn s06_silence_until_the_deadline_is_unknown_with_a_diff() {
    let world = World::new().await;
    let mut tab = Tab::open(&world).await;
    world.server.faults().next_patch_expires_in_ms(300);
    let sending = world.sending(&Edit::append("k", "x"));
    let patch = tab.socket.patch().await;
    // Somebody else writes meanwhile: the diff is of the stored text.
    let saved = tab.save(&world, 1, "a\nb\n", &[]).await;
    assert_eq!(saved.status, 200);
    let reply = sending.await.unwrap().unwrap();
    assert_eq!((reply.status, reply.code(), reply.released()), (409, "patch_outcome_unknown", false));
    let details = &reply.body["error"]["details"];
    assert_eq!(details["patch_id"], json!(patch.patch_id.to_string()));
    assert_eq!((&details["base_seq"], &details["current_seq"]), (&json!(1), &json!(2)));
    assert_eq!(details["unflushed_possible"], json!(true));
    assert_eq!(details["recipient"]["tab_id"], json!(tab.who.tab_id.to_string()));
    assert_eq!(details["diff"], json!("--- base\n+++ stored\n@@ -1 +1,2 @@\n a\n+b\n"));
    assert_eq!(world.state("k"), "unknown");
}

#[tokio::test]
async fn s06_it_settles_though_the_caller_is_gone() {
    let world = World::new().await;
    let mut tab = Tab::open(&world).await;
    world.server.faults().next_patch_expires_in_ms(300);
    let sending = world.sending(&Edit::append("k", "x"));
    let first = tab.socket.patch().await;
    sending.abort();
    world.until_state("k", "unknown").await;
    tab.socket.ack(&first, false).await;
    tab.socket.confirmed(first.patch_id, ConfirmedAs::Acked).await;
    assert_eq!(world.state("k"), "acked");
}

#[tokio::test]
async fn r06_a_late_acknowledgement_is_the_truth() {
    let world = World::new().await;
    let mut tab = Tab::open(&world).await;
    world.server.faults().next_patch_expires_in_ms(50);
    let sending = world.sending(&Edit::append("k", "x"));
    let patch = tab.socket.patch().await;
    assert_eq!(sending.await.unwrap().unwrap().code(), "patch_outcome_unknown");
    tab.socket.ack(&patch, false).await;
    tab.socket.confirmed(patch.patch_id, ConfirmedAs::Acked).await;
    let asked = world.send(&Edit::append("k", "x").ask()).await;
    assert_eq!(asked.body["applied_pending_flush"], json!(true));
}

#[tokio::test]
async fn s06_a_tab_that_cannot_tell_makes_it_unknown_at_once() {
    let world = World::new().await;
    let mut tab = Tab::open(&world).await;
    let sending = world.sending(&Edit::append("k", "x"));
    let patch = tab.socket.patch().await;
    tab.socket.unknown(&patch).await;
    assert_eq!(sending.await.unwrap().unwrap().code(), "patch_outcome_unknown");
    tab.socket.confirmed(patch.patch_id, ConfirmedAs::Unknown).await;
}

#[tokio::test]
async fn r02_patch_id_reused_is_no_proof_of_absence() {
    let world = World::new().await;
    let mut tab = Tab::open(&world).await;
    let sending = world.sending(&Edit::append("k", "x"));
    let patch = tab.socket.patch().await;
    tab.socket.refuse(&patch, Reason::PatchIdReused).await;
    assert_eq!(sending.await.unwrap().unwrap().code(), "patch_outcome_unknown");
}

#[tokio::test]
async fn s07_a_retry_hands_the_same_patch_to_the_same_recipient() {
    let world = World::new().await;
    let mut tab = Tab::open(&world).await;
    let mut second = Tab::open(&world).await;
    let first = world.sending(&Edit::append("k", "x"));
    let patch = tab.socket.patch().await;
    first.abort();
    let retry = world.sending(&Edit::append("k", "x").attempt(2));
    let again = tab.socket.patch().await;
    assert_eq!((again.patch_id, again.delivery, again.digest), (patch.patch_id, 2, patch.digest));
    assert_eq!((again.body, again.expires_at), (patch.body.clone(), patch.expires_at));
    // A "no" to the first hand-out, crossing the second, does not count (R2).
    tab.socket
        .send(&TabFrame::PatchRefuse { patch_id: patch.patch_id, delivery: 1, reason: Reason::Busy, detail: None })
        .await;
    tab.socket.quiet().await;
    assert_eq!(world.state("k"), "delivered");
    tab.socket
        .send(&TabFrame::PatchAck(patchkeep_core::frame::AckFrame {
            patch_id: patch.patch_id,
            delivery: 2,
            replayed: true,
            applied_at: 1,
            result: None,
        }))
        .await;
    let reply = retry.await.unwrap().unwrap();
    assert!(reply.replayed() && reply.body["applied_pending_flush"] == json!(true));
    second.socket.quiet().await;
}

#[tokio::test]
async fn s07_an_unknown_key_is_asked_of_its_recipient_again() {
    let world = World::new().await;
    let mut tab = Tab::open(&world).await;
    let sending = world.sending(&Edit::append("k", "x"));
    let patch = tab.socket.patch().await;
    tab.socket.unknown(&patch).await;
    assert_eq!(sending.await.unwrap().unwrap().code(), "patch_outcome_unknown");
    tab.socket.confirmed(patch.patch_id, ConfirmedAs::Unknown).await;
    let retry = world.sending(&Edit::append("k", "x").attempt(2));
    let again = tab.socket.patch().await;
    assert_eq!((again.patch_id, again.delivery), (patch.patch_id, 2));
    tab.socket.ack(&again, true).await;
    assert!(retry.await.unwrap().unwrap().replayed());
}

#[tokio::test]
async fn s07_gone_stays_unknown_and_is_never_planned_again() {
    let world = World::new().await;
    let mut tab = Tab::open(&world).await;
    let mut other = Tab::open(&world).await;
    world.server.faults().next_patch_expires_in_ms(50);
    let sending = world.sending(&Edit::append("k", "x"));
    tab.socket.patch().await;
    tab.socket.drop_dead();
    assert_eq!(sending.await.unwrap().unwrap().code(), "patch_outcome_unknown");
    for attempt in 2..5 {
        let reply = world.send(&Edit::append("k", "x").attempt(attempt)).await;
        assert_eq!(
            (reply.code(), &reply.body["error"]["details"]["recipient"]),
            ("patch_outcome_unknown", &json!("gone"))
        );
    }
    other.socket.quiet().await;
    assert_eq!(world.text("d1").await, "a\n");
}

#[tokio::test]
async fn r05_a_forged_acknowledgement_counts_for_nothing() {
    let world = World::new().await;
    let mut tab = Tab::open(&world).await;
    let mut forger = Tab::open(&world).await;
    let sending = world.sending(&Edit::append("k", "x"));
    let patch = tab.socket.patch().await;
    forger.socket.ack(&patch, false).await;
    forger.socket.refuse(&patch, Reason::HandlerRefused).await;
    forger.socket.unknown(&patch).await;
    forger.socket.quiet().await;
    assert_eq!(world.state("k"), "delivered");
    tab.socket.ack(&patch, false).await;
    assert_eq!(sending.await.unwrap().unwrap().status, 200);
}

#[tokio::test]
async fn r05_an_older_socket_of_the_tab_no_longer_counts() {
    let world = World::new().await;
    let mut old = Tab::open(&world).await;
    let sending = world.sending(&Edit::append("k", "x"));
    let patch = old.socket.patch().await;
    // What goes out is slow from here on, so that the older socket can still be heard while the new one says hello.
    world.server.faults().delay_ms(500);
    old.socket.send(&TabFrame::Ping { t: 1, visible: true }).await;
    let next = old.who.reloaded();
    let mut new = Socket::connect(&world, next.token).await;
    let open = crate::tab::listed(elsewhere("d1", incarnation()), &patch, ReportedState::Unknown);
    new.send(&TabFrame::Hello(next.hello(vec![open]))).await;
    world.until_state("k", "unknown").await;
    old.socket.ack(&patch, false).await;
    assert_eq!(old.socket.closed().await, Some(1000), "the older socket is closed");
    assert_eq!(world.state("k"), "unknown");
    assert_eq!(sending.await.unwrap().unwrap().code(), "patch_outcome_unknown");
    new.welcome().await;
    new.confirmed(patch.patch_id, ConfirmedAs::Unknown).await;
}

#[tokio::test]
async fn s08_a_restart_forgets_sockets_and_not_recipients() {
    let world = World::new().await;
    let mut tab = Tab::open(&world).await;
    let sending = world.sending(&Edit::append("k", "x"));
    let patch = tab.socket.patch().await;
    world.server.restart().await.unwrap();
    assert!(sending.await.unwrap().is_none(), "the caller gets no answer");
    tab.socket.closed().await;
    // The same tab comes back, and says that it has the patch.
    let open = crate::tab::listed(open_doc("d1", tab.incarnation), &patch, ReportedState::Applied);
    let mut back = Tab::hello(&world, tab.who.clone(), open).await;
    back.socket.confirmed(patch.patch_id, ConfirmedAs::Acked).await;
    let retry = world.send(&Edit::append("k", "x").attempt(2)).await;
    assert!(retry.replayed() && retry.body["applied_pending_flush"] == json!(true));
}

#[tokio::test]
async fn s08_a_new_boot_still_times_out_what_was_delivered() {
    let world = World::new().await;
    let mut tab = Tab::open(&world).await;
    world.server.faults().next_patch_expires_in_ms(400);
    let sending = world.sending(&Edit::append("k", "x"));
    tab.socket.patch().await;
    let world = world.reopen().await;
    assert!(sending.await.unwrap().is_none());
    world.until_state("k", "unknown").await;
}

#[tokio::test]
async fn s06_frames_about_unknown_patches_are_ignored() {
    let world = World::new().await;
    let mut tab = Tab::open(&world).await;
    let patch_id = PatchId(fresh());
    tab.socket.send(&TabFrame::PatchUnknown { patch_id, delivery: 1, detail: None }).await;
    tab.socket.send(&TabFrame::PatchStart { patch_id, delivery: 1 }).await;
    tab.socket.quiet().await;
}

#[tokio::test]
async fn s05_an_edit_too_large_for_a_frame_is_refused_before_it_is_planned() {
    let world = World::with(|c| c.max_frame_bytes = 8192).await;
    let mut tab = Tab::open(&world).await;
    let reply = world.send(&Edit::append("k", &"x".repeat(5000))).await;
    assert_eq!((reply.status, reply.code(), reply.released()), (413, "too_large", true));
    tab.socket.quiet().await;
}
