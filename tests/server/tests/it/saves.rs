//! Saves (W1–W4).

use patchkeep_core::frame::{ConfirmedAs, OpenDoc, RejectCode, ServerFrame, TabFrame};
use patchkeep_core::ids::{DocId, Incarnation};
use serde_json::{Value, json};

use crate::tab::{Identity, Tab, incarnation, open_doc};
use crate::world::{Edit, OTHER_TOKEN, TOKEN, World};

#[tokio::test]
async fn w02_a_save_makes_its_patches_done() {
    let world = World::new().await;
    let mut tab = Tab::open(&world).await;
    let patch = tab.applies(&world, &Edit::append("k", "x")).await;
    let saved = tab.save(&world, 1, "a\nx", &[patch.patch_id]).await;
    assert_eq!((saved.status, &saved.body["seq"]), (200, &json!(2)));
    tab.socket.confirmed(patch.patch_id, ConfirmedAs::Done).await;
    let asked = world.send(&Edit::append("k", "x").ask()).await;
    assert_eq!((asked.status, asked.replayed(), &asked.body["seq"]), (200, true, &json!(2)));
    assert_eq!(asked.body.get("applied_pending_flush"), None);
    assert_eq!(world.stored("d1").await, ("a\nx".into(), 2));
}

#[tokio::test]
async fn w02_a_save_settles_delivered_and_unknown_and_answers_who_waits() {
    let world = World::new().await;
    let mut tab = Tab::open(&world).await;
    let sending = world.sending(&Edit::append("delivered", "x"));
    let first = tab.socket.patch().await;
    world.server.faults().next_patch_expires_in_ms(30);
    let unknown = world.sending(&Edit::append("unknown", "y"));
    let second = tab.socket.patch().await;
    assert_eq!(unknown.await.unwrap().unwrap().code(), "patch_outcome_unknown");
    let saved = tab.save(&world, 1, "a\nxy", &[first.patch_id, second.patch_id]).await;
    assert_eq!(saved.status, 200);
    let reply = sending.await.unwrap().unwrap();
    assert_eq!((reply.status, &reply.body["seq"]), (200, &json!(2)), "the waiting request learns of it");
    assert_eq!((world.state("delivered").as_str(), world.state("unknown").as_str()), ("done", "done"));
    let both = vec![(first.patch_id, ConfirmedAs::Done), (second.patch_id, ConfirmedAs::Done)];
    assert_eq!(tab.socket.frame().await, ServerFrame::PatchConfirmed(both));
}

#[tokio::test]
async fn w01_a_stale_base_writes_nothing_and_w03_tells_what_is_held() {
    let world = World::new().await;
    let mut tab = Tab::open(&world).await;
    let patch = tab.applies(&world, &Edit::append("k", "x")).await;
    // The save is committed and its answer lost; the tab saves again, as it must.
    world.server.faults().lose_next_save_answer(1);
    let body = tab.who.save(tab.incarnation, 1, "a\nx", &[patch.patch_id]);
    assert!(world.put("d1", TOKEN, &body).await.is_none());
    let not_held = patchkeep_core::ids::PatchId(crate::world::fresh());
    let again = tab.save(&world, 1, "a\nx!", &[patch.patch_id, not_held]).await;
    assert_eq!((again.status, again.code()), (409, "save_conflict"));
    assert_eq!(again.body["error"]["details"]["seq"], json!(2));
    assert_eq!(again.body["error"]["details"]["patch_ids"], json!([patch.patch_id.to_string()]));
    assert_eq!(world.stored("d1").await, ("a\nx".into(), 2));
}

#[tokio::test]
async fn w01_a_conflict_settles_nothing() {
    let world = World::new().await;
    let mut tab = Tab::open(&world).await;
    let patch = tab.applies(&world, &Edit::append("k", "x")).await;
    let conflict = tab.save(&world, 7, "a\nx", &[patch.patch_id]).await;
    assert_eq!(conflict.body["error"]["details"]["patch_ids"], json!([]));
    assert_eq!(world.state("k"), "acked");
}

#[tokio::test]
async fn w01_a_fenced_save_writes_nothing() {
    let world = World::new().await;
    let old = Tab::open(&world).await;
    let mut new = Tab::hello(&world, old.who.reloaded(), open_doc("d1", incarnation())).await;
    let fenced = old.save(&world, 1, "zombie", &[]).await;
    assert_eq!((fenced.status, fenced.code()), (409, "save_fenced"));
    // The same epoch, with its content replaced: the older incarnation is fenced as well.
    let next = incarnation();
    new.socket.send(&TabFrame::Open(open_doc("d1", next))).await;
    new.socket.opened().await;
    assert_eq!(new.save(&world, 1, "zombie", &[]).await.code(), "save_fenced");
    assert_eq!(world.stored("d1").await, ("a\n".into(), 1));
    let body = new.who.save(next, 1, "alive", &[]);
    assert_eq!(world.put("d1", TOKEN, &body).await.unwrap().status, 200);
}

#[tokio::test]
async fn w01_a_save_of_an_incarnation_never_announced_is_not_taken_beside_an_announced_one() {
    let world = World::new().await;
    let mut tab = Tab::open(&world).await;
    let patch = tab.applies(&world, &Edit::append("k", "x")).await;
    // Its content was replaced twice while it was away, and only the second is announced, without the patch.
    let (never, next) = (incarnation(), incarnation());
    tab.socket.send(&TabFrame::Open(open_doc("d1", next))).await;
    tab.socket.opened().await;
    let again = tab.socket.patch().await;
    assert_eq!((again.patch_id, again.incarnation), (patch.patch_id, next), "it was proven absent (R7)");
    let body = tab.who.save(never, 1, "a\nx", &[patch.patch_id]);
    let reply = world.put("d1", TOKEN, &body).await.unwrap();
    assert_eq!((reply.status, reply.code()), (409, "save_not_announced"));
    assert_eq!((world.stored("d1").await, world.state("k").as_str()), (("a\n".into(), 1), "delivered"));
    // One whose `open` was still on its way is taken once that has come.
    let later = incarnation();
    let body = tab.who.save(later, 1, "later", &[]);
    assert_eq!(world.put("d1", TOKEN, &body).await.unwrap().code(), "save_not_announced");
    tab.socket.send(&TabFrame::Open(open_doc("d1", later))).await;
    tab.socket.opened().await;
    assert_eq!(world.put("d1", TOKEN, &body).await.unwrap().status, 200);
    // The next load of the page may save before its hello has come: its base decides.
    let body = tab.who.reloaded().save(incarnation(), 2, "sooner", &[]);
    assert_eq!(world.put("d1", TOKEN, &body).await.unwrap().status, 200);
}

/// A save of the n-th content that a tab begins in its epoch.
fn of_generation(tab: &Tab, n: u64, incarnation: Incarnation, base_seq: u64, text: &str) -> Value {
    let mut body = tab.who.save(incarnation, base_seq, text, &[]);
    body["generation"] = json!(n);
    body
}

#[tokio::test]
async fn w01_a_save_of_a_generation_never_announced_counts_as_its_announcement() {
    let world = World::new().await;
    let first = OpenDoc { generation: 1, ..open_doc("d1", incarnation()) };
    let mut tab = Tab::hello(&world, Identity::new(), first.clone()).await;
    // The socket is slow: the second content is saved before the server has heard of it, and so is the third.
    let [second, third] = [incarnation(), incarnation()];
    let put = async |body: Value| world.put("d1", TOKEN, &body).await.unwrap();
    assert_eq!(put(of_generation(&tab, 3, third, 1, "third")).await.status, 200);
    // What is older is fenced, whether it was announced or not, and whatever its base.
    for (n, older) in [(1, first.incarnation), (2, second)] {
        let reply = put(of_generation(&tab, n, older, 2, "older")).await;
        assert_eq!((reply.status, reply.code()), (409, "save_fenced"), "{n}");
    }
    assert_eq!(world.text("d1").await, "third");
    // Its own `open` comes, and nothing changes; it saves on.
    tab.socket.send(&TabFrame::Open(OpenDoc { generation: 3, ..open_doc("d1", third) })).await;
    assert_eq!(tab.socket.opened().await, (third, 2));
    assert_eq!(put(of_generation(&tab, 3, third, 2, "third again")).await.status, 200);
    // A later load of the page begins to count anew, and comes after all of these.
    let reloaded = Tab { who: tab.who.reloaded(), ..tab };
    assert_eq!(put(of_generation(&reloaded, 1, incarnation(), 3, "reloaded")).await.status, 200);
    assert_eq!(world.text("d1").await, "reloaded");
}

#[tokio::test]
async fn w01_an_older_generation_is_never_announced_after_a_later_one() {
    let world = World::new().await;
    let newest = OpenDoc { generation: 2, ..open_doc("d1", incarnation()) };
    let mut tab = Tab::hello(&world, Identity::new(), newest).await;
    let older = OpenDoc { generation: 1, ..open_doc("d1", incarnation()) };
    tab.socket.send(&TabFrame::Open(older)).await;
    // It must not wait for a word that does not come.
    assert_eq!(tab.socket.rejected().await, (RejectCode::SettledElsewhere, Some(4406)));
}

#[tokio::test]
async fn w03_a_conflict_names_what_earlier_saves_of_the_tab_carried_in_doubt_though_this_one_does_not() {
    let world = World::new().await;
    let mut tab = Tab::open(&world).await;
    let sending = world.sending(&Edit::append("k", "x"));
    let patch = tab.socket.patch().await;
    tab.socket.unknown(&patch).await;
    sending.await.unwrap().unwrap();
    let mut body = tab.who.save(tab.incarnation, 1, "a\nx", &[]);
    body["in_doubt"] = json!([patch.patch_id.to_string()]);
    assert_eq!(world.put("d1", TOKEN, &body).await.unwrap().status, 200);
    // Its answer was lost, and the host knows by now that the patch is not in its text.
    let conflict = tab.save(&world, 1, "a\ny", &[]).await;
    let details = &conflict.body["error"]["details"];
    assert_eq!(details, &json!({"seq": 2, "patch_ids": [], "in_doubt": [patch.patch_id.to_string()]}));
    // From that version on it is part of the base, doubtful or not.
    let conflict = tab.save(&world, 7, "a\ny", &[]).await;
    assert_eq!(conflict.body["error"]["details"]["in_doubt"], json!([]));
}

#[tokio::test]
async fn w02_d16_a_patch_that_is_named_twice_counts_once() {
    let world = World::new().await;
    let mut tab = Tab::open(&world).await;
    let patch = tab.applies(&world, &Edit::append("k", "x")).await;
    let twice = [patch.patch_id, patch.patch_id];
    let mut body = tab.who.save(tab.incarnation, 1, "a\nx", &twice);
    body["in_doubt"] = json!(twice.map(|id| id.to_string()));
    assert_eq!(world.put("d1", TOKEN, &body).await.unwrap().status, 200);
    tab.socket.confirmed(patch.patch_id, ConfirmedAs::Done).await;
    assert_eq!(world.state("k"), "done");
    let conflict = world.put("d1", TOKEN, &body).await.unwrap();
    let details = &conflict.body["error"]["details"];
    assert_eq!(details, &json!({"seq": 2, "patch_ids": [patch.patch_id.to_string()], "in_doubt": []}));
}

#[tokio::test]
async fn w03_d16_a_save_of_as_many_ids_as_may_be_names_every_one_that_is_held() {
    const HELD: usize = 300;
    let world = World::new().await;
    let mut tab = Tab::open(&world).await;
    let mut patches = Vec::new();
    for n in 0..HELD {
        let patch = tab.applies(&world, &Edit::append(&format!("k{n}"), "x")).await;
        patches.push(patch.patch_id);
    }
    let (sure, doubted) = patches.split_at(HELD / 2);
    let mut body = tab.who.save(tab.incarnation, 1, "held", sure);
    body["in_doubt"] = json!(doubted.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert_eq!(world.put("d1", TOKEN, &body).await.unwrap().status, 200);
    // Among as many others as fit, on a base that is stale.
    let others = |n| std::iter::repeat_with(|| crate::world::fresh().to_string()).take(10_000 - n);
    let text = |ids: &[patchkeep_core::ids::PatchId]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
    body["patch_ids"] = json!(others(HELD).chain(text(&patches)).collect::<Vec<_>>());
    body["in_doubt"] = json!(others(0).collect::<Vec<_>>());
    let conflict = world.put("d1", TOKEN, &body).await.unwrap();
    let details = &conflict.body["error"]["details"];
    assert_eq!((&details["seq"], &details["patch_ids"]), (&json!(2), &json!(text(sure))));
    assert_eq!(details["in_doubt"], json!(text(doubted)));
}

#[tokio::test]
async fn w03_a_conflict_names_what_an_earlier_save_carried_in_doubt() {
    let world = World::new().await;
    let mut tab = Tab::open(&world).await;
    let sending = world.sending(&Edit::append("k", "x"));
    let patch = tab.socket.patch().await;
    // The handler has not settled when the text is taken; the save is committed, and its answer lost.
    let mut body = tab.who.save(tab.incarnation, 1, "a\nx", &[]);
    body["in_doubt"] = json!([patch.patch_id.to_string()]);
    world.server.faults().lose_next_save_answer(1);
    assert!(world.put("d1", TOKEN, &body).await.is_none());
    tab.socket.ack(&patch, false).await;
    sending.await.unwrap().unwrap();
    let conflict = tab.save(&world, 1, "a\nx!", &[patch.patch_id]).await;
    assert_eq!((conflict.status, conflict.code()), (409, "save_conflict"));
    let details = &conflict.body["error"]["details"];
    assert_eq!(details, &json!({"seq": 2, "patch_ids": [], "in_doubt": [patch.patch_id.to_string()]}));
    // A save that names it ends the doubt; one that doubts it still is told that it is held.
    assert_eq!(tab.save(&world, 2, "a\nx", &[patch.patch_id]).await.status, 200);
    let conflict = world.put("d1", TOKEN, &body).await.unwrap();
    let details = &conflict.body["error"]["details"];
    assert_eq!(details, &json!({"seq": 3, "patch_ids": [patch.patch_id.to_string()], "in_doubt": []}));
}

#[tokio::test]
async fn w01_fences_hold_across_a_restart() {
    let world = World::new().await;
    let old = Tab::open(&world).await;
    let _new = Tab::hello(&world, old.who.reloaded(), open_doc("d1", incarnation())).await;
    let world = world.reopen().await;
    assert_eq!(old.save(&world, 1, "zombie", &[]).await.code(), "save_fenced");
}

#[tokio::test]
async fn t06_another_users_tab_saves_nothing() {
    let world = World::new().await;
    let tab = Tab::open(&world).await;
    let body = tab.who.save(tab.incarnation, 1, "forged", &[]);
    let reply = world.put("d1", OTHER_TOKEN, &body).await.unwrap();
    assert_eq!((reply.status, reply.code()), (403, "tab_not_yours"));
}

#[tokio::test]
async fn t06_a_save_settles_no_other_principals_keys() {
    let world = World::new().await;
    let mut tab = Tab::open(&world).await;
    let patch = tab.applies(&world, &Edit::append("k", "x")).await;
    let other = Identity { token: OTHER_TOKEN, principal: "ws/other".into(), ..Identity::new() };
    let other = Tab::hello(&world, other, open_doc("d1", incarnation())).await;
    assert_eq!(other.save(&world, 1, "mine", &[patch.patch_id]).await.status, 200);
    assert_eq!(world.state("k"), "acked");
}

#[tokio::test]
async fn w04_every_commit_raises_seq_and_is_told_to_the_others() {
    let world = World::new().await;
    let other = Identity { token: OTHER_TOKEN, principal: "ws/other".into(), ..Identity::new() };
    let mut watching = Tab::hello(&world, other, open_doc("d1", incarnation())).await;
    let doc = DocId::new("d1").unwrap();
    world.send(&Edit::append("k", "x")).await;
    assert_eq!(watching.socket.frame().await, ServerFrame::DocChanged { doc: doc.clone(), seq: 2 });
    let mut tab = Tab::open(&world).await;
    assert_eq!(tab.save(&world, 2, "b", &[]).await.body["seq"], json!(3));
    assert_eq!(watching.socket.frame().await, ServerFrame::DocChanged { doc, seq: 3 });
    tab.socket.quiet().await;
    world.send(&Edit::append("k2", "y").doc("d2")).await;
    watching.socket.quiet().await;
}

#[tokio::test]
async fn w01_the_first_save_makes_a_document() {
    let world = World::new().await;
    let who = Identity::new();
    let body = who.save(incarnation(), 0, "new", &[]);
    assert_eq!(world.put("d3", TOKEN, &body).await.unwrap().body["seq"], json!(1));
    assert_eq!(world.put("d3", TOKEN, &body).await.unwrap().code(), "save_conflict");
    assert_eq!(world.stored("d3").await, ("new".into(), 1));
}

#[tokio::test]
async fn w01_malformed_saves_are_refused_by_the_name_of_the_field() {
    let world = World::new().await;
    let good = Identity::new().save(incarnation(), 1, "x", &[]);
    for field in ["text", "tab_id", "epoch", "incarnation", "base_seq"] {
        let mut body = good.clone();
        body[field] = json!(null);
        let reply = world.put("d1", TOKEN, &body).await.unwrap();
        assert_eq!((reply.status, reply.code()), (400, "malformed"), "{field}");
        assert!(reply.body["error"]["message"].as_str().unwrap().contains(field));
    }
    let lone = world.http.put(world.url("/api/docs/d1")).bearer_auth(TOKEN);
    let text = good.to_string().replace("\"x\"", "\"\\ud83d\"");
    assert_eq!(lone.body(text).send().await.unwrap().status(), 400);
    assert_eq!(world.text("d1").await, "a\n");
}
