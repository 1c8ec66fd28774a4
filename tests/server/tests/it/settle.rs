//! A person's word about an unknown outcome (S10).

use patchkeep_core::frame::{ConfirmedAs, Homed, OpenDoc, PatchFrame, RejectCode, ReportedState, TabFrame};
use serde_json::json;

use crate::tab::{Identity, Socket, Tab, incarnation, listed, open_doc};
use crate::world::{Edit, OTHER_TOKEN, Reply, TOKEN, World};

/// A key nobody can tell the outcome of; its tab is there and said so.
async fn unknown() -> (World, Tab, PatchFrame) {
    let world = World::new().await;
    let mut tab = Tab::open(&world).await;
    let sending = world.sending(&Edit::append("k", "x"));
    let patch = tab.socket.patch().await;
    tab.socket.unknown(&patch).await;
    assert_eq!(sending.await.unwrap().unwrap().code(), "patch_outcome_unknown");
    tab.socket.confirmed(patch.patch_id, ConfirmedAs::Unknown).await;
    (world, tab, patch)
}

async fn settle(world: &World, verdict: &str) -> Reply {
    world.post("/api/keys/k/settle", TOKEN, &json!({"as": verdict})).await
}

#[tokio::test]
async fn s10_unknown_to_settled_as_applied() {
    let (world, mut tab, patch) = unknown().await;
    let settled = settle(&world, "applied").await;
    assert_eq!((settled.status, settled.replayed()), (200, false));
    let word = &settled.body["settled"];
    assert_eq!(
        (&word["as"], &word["by"], &word["contradicted"]),
        (&json!("applied"), &json!("ws/user"), &json!(false))
    );
    assert!(word["at"].as_u64().is_some_and(|at| at <= world.now()));
    // A retry is answered as done, and hands nothing out.
    let retry = world.send(&Edit::append("k", "x").attempt(2)).await;
    assert_eq!((retry.status, retry.replayed(), &retry.body["settled"]["as"]), (200, true, &json!("applied")));
    tab.socket.quiet().await;
    // The tab was not fenced: what it has may be saved.
    assert_eq!(tab.save(&world, 1, "a\nx", &[patch.patch_id]).await.status, 200);
    assert_eq!((world.state("k").as_str(), world.row("k", "contradicted").as_deref()), ("done", Some("0")));
}

#[tokio::test]
async fn s10_not_applied_fences_the_recipient_first() {
    let (world, mut tab, patch) = unknown().await;
    assert_eq!(settle(&world, "not_applied").await.status, 200);
    let saved = tab.save(&world, 1, "a\nx", &[patch.patch_id]).await;
    assert_eq!(saved.code(), "save_fenced");
    assert_eq!((world.state("k").as_str(), world.text("d1").await.as_str()), ("settled", "a\n"));
    // The caller reads it as refused; the key stays what it is.
    for attempt in [1, 9] {
        let retry = world.send(&Edit::append("k", "x").attempt(attempt)).await;
        assert_eq!((retry.status, retry.code()), (409, "settled_not_applied"));
        assert!(retry.released() && retry.replayed());
    }
    // Nothing is handed to the fenced content, and the tab's next load is its successor.
    assert_eq!(tab.socket.rejected().await, (RejectCode::SettledElsewhere, Some(4406)));
    assert_eq!(world.send(&Edit::append("direct", "y")).await.body["seq"], json!(2));
    let mut back = Tab::hello(&world, tab.who.reloaded(), open_doc("d1", incarnation())).await;
    back.socket.quiet().await;
    assert_eq!(back.save(&world, 2, "a\nyz", &[]).await.status, 200);
    assert_eq!((world.state("k").as_str(), world.row("k", "contradicted").as_deref()), ("settled", Some("0")));
}

#[tokio::test]
async fn s10_a_late_acknowledgement_contradicts_and_applies_nothing() {
    let (world, tab, patch) = unknown().await;
    settle(&world, "not_applied").await;
    // A draft of what was fenced comes back with the next load.
    let listed = listed(crate::tab::elsewhere("d1", incarnation()), &patch, ReportedState::Applied);
    let mut back = Tab::hello(&world, tab.who.reloaded(), listed).await;
    back.socket.confirmed(patch.patch_id, ConfirmedAs::Unknown).await;
    assert_eq!((world.state("k").as_str(), world.row("k", "contradicted").as_deref()), ("settled", Some("1")));
    let reported = world.get("/api/keys/k").await;
    assert_eq!(reported.body["error"]["details"]["contradicted"], json!(true));
    assert_eq!(world.text("d1").await, "a\n");
    assert_eq!(settle(&world, "not_applied").await.body["settled"]["contradicted"], json!(true));
}

#[tokio::test]
async fn s10_not_applied_fences_all_that_the_tab_makes_of_it_and_tells_it() {
    let (world, mut tab, patch) = unknown().await;
    settle(&world, "not_applied").await;
    assert_eq!(tab.socket.rejected().await, (RejectCode::SettledElsewhere, Some(4406)));
    // It comes back without having heard: with the same content, and with what it made of it.
    for (generation, content) in [(1, tab.incarnation), (2, incarnation())] {
        let open = OpenDoc { generation, ..open_doc("d1", content) };
        let mut socket = Socket::connect(&world, TOKEN).await;
        socket.send(&TabFrame::Hello(tab.who.hello(vec![open]))).await;
        assert_eq!(socket.rejected().await, (RejectCode::SettledElsewhere, Some(4406)), "{generation}");
        let mut body = tab.who.save(content, 1, "a\nx", &[patch.patch_id]);
        body["generation"] = json!(generation);
        assert_eq!(world.put("d1", TOKEN, &body).await.unwrap().code(), "save_fenced", "{generation}");
    }
    // The document stays writable, and a later load of the page opens it like any other.
    let mut back = Tab::hello(&world, tab.who.reloaded(), open_doc("d1", incarnation())).await;
    assert_eq!(back.save(&world, 1, "a\nb", &[]).await.status, 200);
    back.socket.quiet().await;
}

#[tokio::test]
async fn s10_a_proof_of_absence_contradicts_applied() {
    for homed in [Homed::Server, Homed::Elsewhere] {
        let world = World::new().await;
        let open = OpenDoc { homed, ..open_doc("d1", incarnation()) };
        let mut tab = Tab::hello(&world, Identity::new(), open.clone()).await;
        let sending = world.sending(&Edit::append("k", "x"));
        let patch = tab.socket.patch().await;
        tab.socket.unknown(&patch).await;
        sending.await.unwrap().unwrap();
        settle(&world, "applied").await;
        // R7 where that counts, the tab's own record where it does not.
        let mut again = OpenDoc { incarnation: incarnation(), ..open };
        if homed == Homed::Elsewhere {
            again = listed(again, &patch, ReportedState::Refused);
        }
        let mut back = Tab::hello(&world, tab.who.reloaded(), again).await;
        back.socket.confirmed(patch.patch_id, ConfirmedAs::Unknown).await;
        assert_eq!((world.state("k").as_str(), world.row("k", "contradicted").as_deref()), ("settled", Some("1")));
        assert_eq!(world.get("/api/keys/k").await.body["settled"]["contradicted"], json!(true));
    }
}

#[tokio::test]
async fn s10_a_save_that_holds_it_is_stronger_than_a_persons_word() {
    let (world, tab, patch) = unknown().await;
    settle(&world, "not_applied").await;
    // A later load of the tab brings it back from a local draft, and saves it.
    let back = Tab::hello(&world, tab.who.reloaded(), crate::tab::elsewhere("d1", incarnation())).await;
    assert_eq!(back.save(&world, 1, "a\nx", &[patch.patch_id]).await.status, 200);
    assert_eq!((world.state("k").as_str(), world.row("k", "contradicted").as_deref()), ("done", Some("1")));
}

#[tokio::test]
async fn s10_two_people_at_once_and_one_word_stands() {
    let (world, ..) = unknown().await;
    let (first, second) = tokio::join!(settle(&world, "applied"), settle(&world, "not_applied"));
    let (stands, late) = if first.status == 200 { (first, second) } else { (second, first) };
    assert_eq!((stands.status, late.status, late.code()), (200, 409, "already_settled"));
    assert_eq!(late.body["error"]["details"]["as"], stands.body["settled"]["as"]);
    // The same word again is no quarrel.
    let again = settle(&world, stands.body["settled"]["as"].as_str().unwrap()).await;
    assert_eq!((again.status, again.replayed(), &again.body["settled"]), (200, true, &stands.body["settled"]));
}

#[tokio::test]
async fn s10_what_is_known_is_not_settled() {
    let world = World::new().await;
    assert_eq!(settle(&world, "applied").await.code(), "idempotency_key_unknown");
    world.send(&Edit::append("k", "x")).await;
    let done = settle(&world, "not_applied").await;
    assert_eq!(
        (done.status, done.code(), &done.body["error"]["details"]["state"]),
        (409, "not_unknown", &json!("done"))
    );
    let mut tab = Tab::open(&world).await;
    let sending = world.sending(&Edit::append("out", "y"));
    let patch = tab.socket.patch().await;
    let out = world.post("/api/keys/out/settle", TOKEN, &json!({"as": "applied"})).await;
    assert_eq!(out.body["error"]["details"]["state"], json!("delivered"));
    tab.socket.ack(&patch, false).await;
    sending.await.unwrap().unwrap();
    assert_eq!(world.post("/api/keys/out/settle", TOKEN, &json!({"as": "applied"})).await.code(), "not_unknown");
}

#[tokio::test]
async fn s10_silence_past_the_deadline_is_settled_as_well() {
    let world = World::new().await;
    let mut tab = Tab::open(&world).await;
    let sending = world.sending(&Edit::append("k", "x"));
    tab.socket.patch().await;
    world.pass_deadline().await;
    assert_eq!(settle(&world, "applied").await.status, 200);
    sending.await.unwrap().unwrap();
    assert_eq!(world.get("/api/keys/k").await.body["settled"]["as"], json!("applied"));
}

#[tokio::test]
async fn s10_who_waits_is_told() {
    let (world, mut tab, _) = unknown().await;
    let retry = world.sending(&Edit::append("k", "x").attempt(2));
    tab.socket.patch().await;
    assert_eq!(settle(&world, "applied").await.status, 200);
    let reply = retry.await.unwrap().unwrap();
    assert_eq!((reply.status, &reply.body["settled"]["as"]), (200, &json!("applied")));
}

#[tokio::test]
async fn s10_nobody_settles_anothers_key() {
    let (world, ..) = unknown().await;
    let others = world.post("/api/keys/k/settle", OTHER_TOKEN, &json!({"as": "applied"})).await;
    assert_eq!((others.status, others.code()), (404, "idempotency_key_unknown"));
    for body in [json!({}), json!({"as": "maybe"}), json!({"as": 1}), json!([])] {
        assert_eq!(world.post("/api/keys/k/settle", TOKEN, &body).await.status, 400, "{body}");
    }
    assert_eq!(world.state("k"), "unknown");
}

#[tokio::test]
async fn s10_settled_keys_are_never_removed_by_age() {
    let (world, ..) = unknown().await;
    settle(&world, "not_applied").await;
    world.advance(10 * 24 * 60 * 60 * 1000).await;
    assert_eq!(world.server.purge().await.unwrap(), 0);
    assert_eq!(world.state("k"), "settled");
}
