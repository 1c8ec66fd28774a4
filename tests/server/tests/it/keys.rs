//! Claims, replays, refusals, questions and retention (S1–S4, S9, K2, K8).

use std::sync::Arc;

use patchkeep_core::digest;
use patchkeep_server::decide::{KeyId, KeyRow, KeyState};
use patchkeep_server::principal::in_header;
use patchkeep_server::store::{Guard, Store, StoreError};
use serde_json::json;

use crate::world::{Edit, OTHER_TOKEN, Reply, STRANGER_TOKEN, TOKEN, World, fresh, read};

#[tokio::test]
async fn s02_a_direct_write_is_done_with_its_commit() {
    let world = World::new().await;
    let reply = world.send(&Edit::append("k", "x")).await;
    assert_eq!((reply.status, reply.replayed()), (200, false));
    assert_eq!(reply.body["seq"], json!(2));
    assert_eq!(world.stored("d1").await, ("a\nx".into(), 2));
    assert_eq!(world.state("k"), "done");
}

#[tokio::test]
async fn s03_the_recorded_answer_is_told_again() {
    let world = World::new().await;
    world.send(&Edit::append("k", "x")).await;
    let again = world.send(&Edit::append("k", "x").attempt(2)).await;
    assert_eq!((again.status, again.replayed(), &again.body["seq"]), (200, true, &json!(2)));
    assert_eq!(world.text("d1").await, "a\nx");
    let world = world.reopen().await;
    assert!(world.send(&Edit::append("k", "x").attempt(3)).await.replayed());
    assert_eq!(world.text("d1").await, "a\nx");
}

#[tokio::test]
async fn s03_another_request_under_the_key_is_refused_whatever_the_state() {
    let world = World::new().await;
    world.send(&Edit::append("done", "x")).await;
    world.send(&Edit::body("refused", r#"{"edit":{"kind":"text.replace","find":"z","replace":""}}"#)).await;
    for key in ["done", "refused"] {
        let reused = world.send(&Edit::append(key, "y").attempt(9)).await;
        assert_eq!((reused.status, reused.code()), (422, "idempotency_key_reused"), "{key}");
        assert_eq!(world.send(&Edit::append(key, "x").doc("d2")).await.code(), "idempotency_key_reused");
    }
    assert_eq!(world.text("d1").await, "a\nx");
}

#[tokio::test]
async fn s03_the_fingerprint_is_of_the_meaning_not_the_spelling() {
    let world = World::new().await;
    world.send(&Edit::body("k", r#"{"edit":{"kind":"text.append","text":"é"}}"#)).await;
    let spelled = Edit::body("k", r#" { "edit" : {"text":"\u00e9" , "kind":"text.append"} } "#);
    assert!(world.send(&spelled).await.replayed());
}

#[tokio::test]
async fn k02_a_key_with_quotes_in_it_is_one_key_wherever_it_is_read() {
    let world = World::new().await;
    let header = r#""\"a\\b\"""#;
    assert_eq!(world.send(&Edit::append(header, "x")).await.status, 200);
    assert!(world.send(&Edit::append(header, "x").attempt(2)).await.replayed());
    let world = world.reopen().await;
    assert!(world.send(&Edit::append(header, "x").attempt(3)).await.replayed());
    assert_eq!(world.text("d1").await, "a\nx");
}

#[tokio::test]
async fn s03_sixty_four_at_once_have_one_effect() {
    let world = World::new().await;
    let sent: Vec<_> = (0..64).map(|_| world.sending(&Edit::append("k", "x"))).collect();
    let mut firsts = 0;
    for task in sent {
        let reply = task.await.unwrap().unwrap();
        match reply.status {
            200 => firsts += usize::from(!reply.replayed()),
            _ => assert_eq!((reply.status, reply.code()), (409, "idempotency_in_flight")),
        }
    }
    assert_eq!(firsts, 1);
    assert_eq!(world.text("d1").await, "a\nx");
}

#[tokio::test]
async fn s04_a_refusal_releases_the_key_for_higher_attempts_alone() {
    let world = World::new().await;
    let edit = Edit::body("k", r#"{"edit":{"kind":"text.replace","find":"later","replace":"now"}}"#);
    let refused = world.send(&edit.clone().attempt(2)).await;
    assert_eq!((refused.status, refused.code(), refused.released()), (422, "anchor_not_found", true));
    assert!(!refused.replayed());
    world.send(&Edit::append("other", "later")).await;
    // The attempts up to the refused one get its answer, though the edit would apply by now.
    for attempt in [1, 2] {
        let again = world.send(&edit.clone().attempt(attempt)).await;
        assert_eq!((again.code(), again.released(), again.replayed()), ("anchor_not_found", true, true));
    }
    assert_eq!(world.send(&edit.clone().attempt(3)).await.status, 200);
    assert_eq!(world.text("d1").await, "a\nnow");
}

#[tokio::test]
async fn s04_a_missing_document_is_a_refusal_under_the_key() {
    let world = World::new().await;
    let refused = world.send(&Edit::append("k", "x").doc("nowhere")).await;
    assert_eq!((refused.status, refused.code(), refused.released()), (404, "not_found", true));
}

#[tokio::test]
async fn s01_keys_belong_to_a_principal() {
    let world = World::new().await;
    world.send(&Edit::append("k", "x")).await;
    let other = world.send(&Edit::append("k", "x").token(OTHER_TOKEN)).await;
    assert_eq!((other.status, other.replayed()), (200, false), "another user's key of the same name");
    assert_eq!(world.text("d1").await, "a\nxx");
    let stranger = world.send(&Edit::append("k", "x").token(STRANGER_TOKEN)).await;
    assert_eq!(stranger.code(), "not_found", "documents belong to a workspace");
}

#[tokio::test]
async fn k02_keys_and_headers_that_are_refused() {
    let world = World::new().await;
    let patch = |headers: &[(&'static str, &'static str)]| {
        let mut request = world.http.patch(world.url("/api/docs/d1")).bearer_auth(TOKEN);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(r#"{"edit":{"kind":"text.append","text":"x"}}"#);
        async move { read(request.send().await.unwrap()).await.unwrap() }
    };
    assert_eq!(patch(&[]).await.code(), "idempotency_key_missing");
    assert_eq!(patch(&[("idempotency-key", "a b")]).await.code(), "idempotency_key_invalid");
    let doubled = [("idempotency-key", "intent"), ("idempotency-key", "evil")];
    assert_eq!(patch(&doubled).await.code(), "idempotency_key_invalid");
    for attempt in ["0", "-1", "x", ""] {
        let headers = [("idempotency-key", "k"), ("idempotency-attempt", attempt)];
        assert_eq!(patch(&headers).await.status, 400, "attempt {attempt:?}");
    }
    assert_eq!(world.text("d1").await, "a\n");
    // Both spellings of K2 name the same key.
    assert!(!patch(&[("idempotency-key", "raw")]).await.replayed());
    assert!(patch(&[("idempotency-key", "\"raw\"")]).await.replayed());
}

#[tokio::test]
async fn k08_a_question_never_claims_and_never_writes() {
    let world = World::new().await;
    let asked = world.send(&Edit::append("k", "x").ask()).await;
    assert_eq!((asked.status, asked.code(), asked.released()), (404, "idempotency_key_unknown", false));
    assert_eq!(world.state("k"), "");
    world.send(&Edit::append("k", "x")).await;
    let asked = world.send(&Edit::append("k", "x").ask()).await;
    assert_eq!((asked.status, asked.replayed()), (200, true));
    let refused = Edit::body("r", r#"{"edit":{"kind":"text.replace","find":"z","replace":""}}"#);
    world.send(&refused).await;
    let asked = world.send(&refused.clone().attempt(7).ask()).await;
    assert_eq!((asked.code(), asked.replayed()), ("anchor_not_found", true), "a higher question claims nothing");
    assert_eq!(world.row("r", "attempt").as_deref(), Some("1"));
}

#[tokio::test]
async fn t06_requests_for_another_principal_are_not_processed() {
    let world = World::new().await;
    let request = world
        .http
        .patch(world.url("/api/docs/d1"))
        .bearer_auth(TOKEN)
        .header("patchkeep-principal", "ws/other")
        .header("idempotency-key", "k")
        .body(r#"{"edit":{"kind":"text.append","text":"x"}}"#);
    let reply = read(request.send().await.unwrap()).await.unwrap();
    assert_eq!((reply.status, reply.code()), (409, "principal_mismatch"));
    assert_eq!(reply.body["not_processed"], json!(true));
    assert_eq!(world.state("k"), "");
    // Names of any characters are named by their bytes: a header holds no others.
    assert_eq!(in_header("ws/zoë 50%"), "ws/zo%C3%AB%2050%25");
    let unknown = world.http.get(world.url("/api/docs/d1")).bearer_auth("guess").send().await.unwrap();
    assert_eq!(unknown.status(), 401);
}

/// A row as another attempt left it when its process died.
async fn leave_claimed(world: &World, key: &str, body: &str, lease_until: u64) -> KeyRow {
    let row = KeyRow {
        id: KeyId { principal: "ws/user".parse().unwrap(), key: key.parse().unwrap() },
        route: "PATCH /api/docs/d1".into(),
        request_hash: digest::fingerprint("PATCH", "/api/docs/d1", body).unwrap(),
        state: KeyState::Claimed,
        claim_token: fresh(),
        lease_until,
        attempt: 1,
        recorded: None,
        plan: None,
        created_at: world.now(),
        settled_by: None,
        settled_at: None,
        contradicted: false,
        settlement: None,
    };
    let store = world.place.store().await.unwrap();
    let inserted = row.clone();
    let fresh: Result<bool, StoreError> = store.transact(move |tx| tx.insert_key(&inserted)).await;
    assert!(fresh.unwrap());
    row
}

#[tokio::test]
async fn b26_an_expired_claim_is_taken_over_and_its_holder_writes_nothing() {
    let world = World::new().await;
    let edit = Edit::append("k", "x");
    let held = leave_claimed(&world, "k", &edit.body, world.now() + 5_000).await;
    let waiting = world.send(&edit.clone().attempt(2)).await;
    assert_eq!((waiting.status, waiting.code()), (409, "idempotency_in_flight"));
    assert_eq!(waiting.headers["retry-after"], "1");
    assert_eq!(waiting.body["retry_after_ms"], json!(1000));
    assert_eq!(world.send(&edit.clone().ask()).await.code(), "idempotency_in_flight");
    world.advance(5_000).await;
    assert_eq!(world.send(&edit.clone().ask()).await.code(), "idempotency_in_flight", "a question takes nothing over");
    assert_eq!(world.send(&edit.clone().attempt(2)).await.status, 200);
    // The first holder wakes up: neither its write nor its hand-out finds the claim (S2, S5).
    let store = Arc::new(world.place.store().await.unwrap());
    let late = KeyRow { state: KeyState::Done, ..held.clone() };
    let wrote: Result<bool, StoreError> =
        store.transact(move |tx| tx.update_key(&late, Guard::Claim(late.claim_token))).await;
    assert!(!wrote.unwrap());
    assert_eq!(world.text("d1").await, "a\nx");
}

#[tokio::test]
async fn s09_settled_keys_go_after_their_time_and_are_not_claimed_again() {
    let world = World::with(|c| c.key_ttl_ms = 1_000_000).await;
    let began = world.now();
    world.send(&Edit::append("old", "x").first_at(began)).await;
    assert_eq!(world.server.purge().await.unwrap(), 0, "they live as long as was promised");
    world.advance(1_000_001).await;
    assert_eq!(world.server.purge().await.unwrap(), 1);
    let expired = |reply: &Reply| (reply.status, reply.code() == "idempotency_key_expired");
    let late = world.send(&Edit::append("old", "x").first_at(began).attempt(2)).await;
    assert_eq!(expired(&late), (409, true));
    assert_eq!(expired(&world.send(&Edit::append("old", "x").first_at(began).ask()).await), (409, true));
    assert_eq!(expired(&world.send(&Edit::append("unsaid", "x")).await), (409, true), "no time proves nothing");
    let future = world.now() + 10_000_000;
    assert_eq!(expired(&world.send(&Edit::append("future", "x").first_at(future)).await), (409, true));
    assert_eq!(world.send(&Edit::append("new", "y").first_at(world.now())).await.status, 200);
    // A UUIDv7 says itself when it was minted; the database's clock is ahead of it here.
    let minted = uuid::Uuid::new_v7(uuid::Timestamp::from_unix_time(world.now() / 1000, 0, 0, 0)).to_string();
    assert_eq!(world.send(&Edit::append(&minted, "z")).await.status, 200);
    assert_eq!(world.text("d1").await, "a\nxyz");
}

#[tokio::test]
async fn s09_open_keys_are_never_removed_by_age() {
    let world = World::with(|c| c.key_ttl_ms = 1000).await;
    let mut tab = crate::tab::Tab::open(&world).await;
    let sending = world.sending(&Edit::append("acked", "x"));
    let patch = tab.socket.patch().await;
    tab.socket.ack(&patch, false).await;
    assert_eq!(sending.await.unwrap().unwrap().status, 200);
    world.advance(10_000_000).await;
    assert_eq!(world.server.purge().await.unwrap(), 0);
    assert_eq!(world.state("acked"), "acked");
}
