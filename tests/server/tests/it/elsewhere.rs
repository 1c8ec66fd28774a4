//! Tabs whose sockets are another process's: they are elected, told of commits and replaced all the same (S5, W4, R5).

use patchkeep_core::frame::{ConfirmedAs, Homed, ServerFrame};
use patchkeep_core::ids::{ContextId, DocId, JournalId, TabId};
use patchkeep_server::Point;
use patchkeep_server::decide::TabOwner;
use patchkeep_server::store::{Store, StoreError};
use serde_json::json;

use crate::place::Place;
use crate::tab::{Identity, Tab, incarnation, open_doc};
use crate::world::{Edit, OTHER_TOKEN, SLACK_MS, TOKEN, World, fresh};

/// Two servers that hear each other. An embedded database has one process: there is nothing to see there.
async fn two() -> Option<(World, patchkeep_server::Server)> {
    let world = World::new().await;
    if !world.place.is_served() {
        return None;
    }
    let other = world.beside().await;
    Some((world, other))
}

#[tokio::test]
async fn s05_d12_a_write_at_another_process_reaches_the_tab() {
    let Some((world, other)) = two().await else { return };
    let mut tab = Tab::open(&world).await;
    let sending = world.sending_to(&other, &Edit::append("k", "x"));
    let patch = tab.socket.patch().await;
    tab.socket.ack(&patch, false).await;
    tab.socket.confirmed(patch.patch_id, ConfirmedAs::Acked).await;
    let reply = sending.await.unwrap().unwrap();
    assert_eq!((reply.status, &reply.body["applied_pending_flush"]), (200, &json!(true)));
    assert_eq!(reply.body["recipient"]["incarnation"], json!(tab.incarnation.to_string()), "it is not gone");
    assert_eq!(world.stored("d1").await, ("a\n".into(), 1), "nothing was written past it");
    assert_eq!(tab.save(&world, 1, "a\nx", &[patch.patch_id]).await.status, 200);
    let retry = world.sending_to(&other, &Edit::append("k", "x").attempt(2)).await.unwrap().unwrap();
    assert_eq!((retry.status, &retry.body["seq"]), (200, &json!(2)));
    other.stop().await;
}

#[tokio::test]
async fn s05_d12_the_longest_connected_of_all_processes_is_elected() {
    let Some((world, other)) = two().await else { return };
    let mut first = Tab::hello_at(&world, &other, Identity::new(), open_doc("d1", incarnation())).await;
    let mut second = Tab::open(&world).await;
    let sending = world.sending(&Edit::append("k", "x"));
    let patch = first.socket.patch().await;
    first.socket.ack(&patch, false).await;
    assert_eq!(sending.await.unwrap().unwrap().status, 200);
    second.socket.quiet().await;
    // It closes its socket: the other one is next, wherever the write arrives.
    let place = first.who.tab_id;
    first.socket.drop_dead();
    let gone = || world.place.texts(&format!("SELECT CAST(process AS TEXT) FROM tab_owner WHERE tab_id = '{place}'"));
    world.until("it is known to be gone", || gone() == [None]).await;
    let sending = world.sending_to(&other, &Edit::append("k2", "y"));
    let patch = second.socket.patch().await;
    second.socket.ack(&patch, false).await;
    assert_eq!(sending.await.unwrap().unwrap().status, 200);
    other.stop().await;
}

#[tokio::test]
async fn s05_d12_a_tab_of_a_process_that_is_gone_is_not_elected() {
    let world = World::new().await;
    let other = world.beside().await;
    let _tab = Tab::hello_at(&world, &other, Identity::new(), open_doc("d1", incarnation())).await;
    other.stop().await;
    let reply = world.send(&Edit::append("k", "x")).await;
    assert_eq!((reply.status, &reply.body["seq"]), (200, &json!(2)), "it is written directly");
    // What the process left behind is over for its successor on the same address as well.
    let _tab = Tab::open(&world).await;
    world.server.restart().await.unwrap();
    assert_eq!(world.send(&Edit::append("k2", "y")).await.body["seq"], json!(3));
    let world = world.reopen().await;
    assert_eq!(world.send(&Edit::append("k3", "z")).await.body["seq"], json!(4));
}

#[tokio::test]
async fn s05_d12_what_is_out_is_handed_out_again_after_words_may_have_been_missed() {
    let Some((world, other)) = two().await else { return };
    let mut tab = Tab::open(&world).await;
    let sending = world.sending_to(&other, &Edit::append("k", "x"));
    let patch = tab.socket.patch().await;
    assert!(world.place.cut_connections());
    let again = tab.socket.patch().await;
    assert_eq!(again.patch_id, patch.patch_id);
    assert!(again.delivery > patch.delivery);
    tab.socket.ack(&again, true).await;
    assert_eq!(sending.await.unwrap().unwrap().status, 200);
    other.stop().await;
}

#[tokio::test]
async fn s05_d12_a_closed_document_is_not_elected() {
    let world = World::new().await;
    let mut tab = Tab::open(&world).await;
    let close = patchkeep_core::frame::TabFrame::Close { doc: DocId::new("d1").unwrap(), incarnation: tab.incarnation };
    tab.socket.send(&close).await;
    tab.socket.quiet().await;
    assert_eq!(world.send(&Edit::append("k", "x")).await.body["seq"], json!(2));
}

#[tokio::test]
async fn w04_d12_tabs_at_other_processes_are_told_of_every_commit() {
    let Some((world, other)) = two().await else { return };
    let watcher = Identity { token: OTHER_TOKEN, principal: "ws/other".into(), ..Identity::new() };
    let mut watching = Tab::hello(&world, watcher, open_doc("d1", incarnation())).await;
    let changed = |seq| ServerFrame::DocChanged { doc: DocId::new("d1").unwrap(), seq };
    // A direct write, and a save.
    world.sending_to(&other, &Edit::append("k", "x")).await.unwrap().unwrap();
    assert_eq!(watching.socket.frame().await, changed(2));
    let mut saver = Tab::hello_at(&world, &other, Identity::new(), open_doc("d1", incarnation())).await;
    let body = saver.who.save(saver.incarnation, 2, "b", &[]);
    let request = world.http.put(format!("{}/api/docs/d1", other.url())).bearer_auth(TOKEN).body(body.to_string());
    assert_eq!(request.send().await.unwrap().status(), 200);
    assert_eq!(watching.socket.frame().await, changed(3));
    // Whoever saved is not told, nor is anybody twice.
    assert_eq!(watching.save(&world, 3, "c", &[]).await.status, 200);
    assert_eq!(saver.socket.frame().await, changed(4));
    saver.socket.quiet().await;
    watching.socket.quiet().await;
    other.stop().await;
}

#[tokio::test]
async fn r05_d14_a_hello_at_another_process_closes_the_older_socket() {
    let Some((world, other)) = two().await else { return };
    let mut old = Tab::open(&world).await;
    let mut new = Tab::hello_at(&world, &other, old.who.clone(), open_doc("d1", old.incarnation)).await;
    assert_eq!(old.socket.closed().await, Some(1000));
    new.socket.quiet().await;
    other.stop().await;
}

#[tokio::test]
async fn s11_d15_a_process_that_stops_in_a_transaction_does_not_stop_the_others() {
    let world = World::with(|c| c.database_limits.idle_ms = 200).await;
    // The lock of an embedded database is its one process's.
    if !world.place.is_served() {
        return;
    }
    let other = world.beside().await;
    world.server.faults().hold_at(Point::Writing);
    let stopped = world.sending(&Edit::append("k", "x"));
    world.until("it stops in the middle", || world.server.faults().show().held_at.is_some()).await;
    assert_eq!(world.sending_to(&other, &Edit::append("k2", "y")).await.unwrap().unwrap().status, 200);
    world.server.faults().release();
    // Nothing of it was committed; the same key is done once its lease is over.
    let failed = stopped.await.unwrap().unwrap();
    assert_eq!(failed.status, 500, "{failed:?}");
    assert_eq!(world.text("d1").await, "a\ny");
    world.advance(15_000 + SLACK_MS).await;
    assert_eq!(world.send(&Edit::append("k", "x").attempt(2)).await.status, 200);
    assert_eq!(world.text("d1").await, "a\nyx");
    other.stop().await;
}

#[tokio::test]
async fn s11_d15_what_a_role_or_a_database_has_set_is_not_inherited() {
    let world = World::new().await;
    if !world.place.is_served() {
        return;
    }
    let store = world.place.store().await.unwrap();
    for (name, value) in [
        ("transaction_isolation", "read committed"),
        ("synchronous_commit", "on"),
        ("lock_timeout", "20s"),
        ("statement_timeout", "30s"),
        ("idle_in_transaction_session_timeout", "10s"),
    ] {
        let asked = store.transact(move |tx| tx.query("SELECT current_setting(?1)", &[name.into()]));
        assert_eq!(asked.await.unwrap(), [[value.into()]], "{name}");
    }
}

#[tokio::test]
async fn s05_d12_visible_before_hidden_then_longest_connected() {
    let place = Place::new();
    let store = place.store().await.unwrap();
    let doc = DocId::new("d1").unwrap();
    let owner = |n: u32| TabOwner {
        principal: "ws/user".parse().unwrap(),
        journal_id: JournalId(fresh()),
        epoch: 1,
        context_id: ContextId(fresh()),
        conn: format!("boot/{n}"),
    };
    let tabs: Vec<_> = (0..4).map(|n| (TabId(fresh()), owner(n))).collect();
    let order = async || {
        let doc = doc.clone();
        let elect = move |tx: &dyn patchkeep_server::store::Tx| tx.candidates(&"ws/user".parse().unwrap(), &doc);
        let found = store.transact(elect).await.unwrap();
        found.into_iter().map(|c| c.elected.conn).collect::<Vec<_>>()
    };
    for (n, (tab_id, owner)) in tabs.iter().cloned().enumerate() {
        let doc = doc.clone();
        let hello = move |tx: &dyn patchkeep_server::store::Tx| {
            tx.put_tab(tab_id, &owner)?;
            tx.connected(tab_id, n >= 2)?;
            tx.opened(tab_id, &owner, &doc, incarnation(), Homed::Server)
        };
        store.transact(hello).await.unwrap();
        place.ahead.fetch_add(10, std::sync::atomic::Ordering::SeqCst);
    }
    assert_eq!(order().await, ["boot/2", "boot/3", "boot/0", "boot/1"]);
    // One comes to the front, another goes to the back, one is gone, and a word of an older connection counts nothing.
    let ids: Vec<_> = tabs.iter().map(|(tab_id, _)| *tab_id).collect();
    let moved = move |tx: &dyn patchkeep_server::store::Tx| {
        tx.shown(ids[1], "boot/1", true)?;
        tx.shown(ids[2], "boot/2", false)?;
        tx.shown(ids[0], "boot/older", true)?;
        tx.disconnected(ids[3], "boot/older")?;
        tx.disconnected(ids[2], "boot/2")
    };
    store.transact(moved).await.unwrap();
    assert_eq!(order().await, ["boot/1", "boot/3", "boot/0"]);
    let closing = (tabs[3].0, doc.clone());
    let closed = move |tx: &dyn patchkeep_server::store::Tx| tx.closed(closing.0, &closing.1, None);
    store.transact(closed).await.unwrap();
    assert_eq!(order().await, ["boot/1", "boot/0"]);
    let others = "ws/other".parse().unwrap();
    let none: Result<Vec<_>, StoreError> = store.transact(move |tx| tx.candidates(&others, &doc)).await;
    assert!(none.unwrap().is_empty());
}
