//! What tabs leave behind: it has an end, and not before nothing refers to it (J10, S9).

use patchkeep_core::frame::{ConfirmedAs, TabFrame};
use patchkeep_core::ids::TabId;
use serde_json::json;

use crate::tab::{Identity, Socket, Tab, incarnation, open_doc};
use crate::world::{Edit, TOKEN, World};

const MONTH_MS: u64 = 31 * 24 * 60 * 60 * 1000;

/// How many rows there are of a tab: itself, and what it announced.
fn rows(world: &World, tab_id: TabId) -> [usize; 2] {
    ["tab_owner", "tab_incarnation"]
        .map(|table| world.place.texts(&format!("SELECT tab_id FROM {table} WHERE tab_id = '{tab_id}'")).len())
}

/// Its socket ends, and the server knows.
async fn leaves(world: &World, tab: Tab) {
    let tab_id = tab.who.tab_id;
    tab.socket.drop_dead();
    let sql = format!("SELECT CAST(process AS TEXT) FROM tab_owner WHERE tab_id = '{tab_id}'");
    world.until("it is known to be gone", || world.place.texts(&sql) == [None]).await;
}

#[tokio::test]
async fn j10_d17_a_tab_goes_with_age_unless_it_is_connected_or_a_key_is_open_with_it() {
    let world = World::new().await;
    let idle = Tab::open(&world).await;
    let idle_id = idle.who.tab_id;
    leaves(&world, idle).await;
    let mut holds = Tab::open(&world).await;
    let patch = holds.applies(&world, &Edit::append("k", "x")).await;
    let holds_id = holds.who.tab_id;
    let (who, held) = (holds.who.clone(), holds.incarnation);
    leaves(&world, holds).await;
    let connected = Tab::hello(&world, Identity::new(), open_doc("d2", incarnation())).await;
    world.server.purge().await.unwrap();
    assert_eq!([rows(&world, idle_id), rows(&world, holds_id), rows(&world, connected.who.tab_id)], [[1, 1]; 3]);
    world.advance(MONTH_MS).await;
    world.server.purge().await.unwrap();
    let left = [rows(&world, idle_id), rows(&world, holds_id), rows(&world, connected.who.tab_id)];
    assert_eq!(left, [[0, 0], [1, 1], [1, 1]]);
    // The save of the one that was spared settles its key; then it goes as well.
    let body = who.save(held, 1, "a\nx", &[patch.patch_id]);
    assert_eq!(world.put("d1", TOKEN, &body).await.unwrap().status, 200);
    world.advance(MONTH_MS).await;
    world.server.purge().await.unwrap();
    assert_eq!(rows(&world, holds_id), [0, 0]);
}

#[tokio::test]
async fn w01_d17_a_fence_stays_while_what_it_keeps_out_could_still_be_saved() {
    let world = World::new().await;
    let mut old = Tab::open(&world).await;
    let sending = world.sending(&Edit::append("k", "x"));
    let patch = old.socket.patch().await;
    world.pass_deadline().await;
    sending.await.unwrap().unwrap();
    // The next load proves it absent (R7), and the key is released: the old content must never be saved.
    let mut new = Tab::hello(&world, old.who.reloaded(), open_doc("d1", incarnation())).await;
    new.socket.confirmed(patch.patch_id, ConfirmedAs::Refused).await;
    let tab_id = new.who.tab_id;
    leaves(&world, new).await;
    for _ in 0..2 {
        world.advance(MONTH_MS).await;
        world.server.purge().await.unwrap();
    }
    assert_eq!((world.state("k").as_str(), rows(&world, tab_id)), ("", [1, 1]), "its key is gone, and it is not");
    assert_eq!(old.save(&world, 1, "a\nx", &[]).await.code(), "save_fenced");
    // Once the document has moved on, its base keeps it out.
    assert_eq!(world.send(&Edit::append("k2", "y").first_at(world.now())).await.status, 200);
    world.server.purge().await.unwrap();
    assert_eq!(rows(&world, tab_id), [0, 0]);
    assert_eq!(old.save(&world, 1, "a\nx", &[]).await.code(), "save_conflict");
}

#[tokio::test]
async fn d17_documents_that_were_opened_for_nothing_leave_nothing() {
    let world = World::with(|c| c.max_open_docs = 10).await;
    let mut tab = Tab::open(&world).await;
    for n in 0..100 {
        let open = open_doc(&format!("none/{n}"), incarnation());
        tab.socket.send(&TabFrame::Open(open.clone())).await;
        assert_eq!(tab.socket.opened().await.0, open.incarnation);
        tab.socket.send(&TabFrame::Close { doc: open.doc, incarnation: open.incarnation }).await;
    }
    tab.socket.quiet().await;
    assert_eq!(rows(&world, tab.who.tab_id), [1, 1]);
    // Nor what the next connection does not have open any more.
    let back = Tab::hello(&world, tab.who, open_doc("d2", incarnation())).await;
    assert_eq!(rows(&world, back.who.tab_id), [1, 1]);
}

#[tokio::test]
async fn d17_a_socket_has_so_many_documents_open_and_no_more() {
    let world = World::with(|c| c.max_open_docs = 2).await;
    let mut tab = Tab::open(&world).await;
    for doc in ["d2", "d2", "d1"] {
        // Another incarnation of what is open takes no more room.
        let open = open_doc(doc, incarnation());
        tab.socket.send(&TabFrame::Open(open.clone())).await;
        assert_eq!(tab.socket.opened().await.0, open.incarnation);
    }
    tab.socket.send(&TabFrame::Open(open_doc("d3", incarnation()))).await;
    assert_eq!(tab.socket.closed().await, Some(1008));
    let docs = ["d1", "d2", "d3"].map(|doc| open_doc(doc, incarnation())).to_vec();
    let mut socket = Socket::connect(&world, TOKEN).await;
    socket.send(&TabFrame::Hello(tab.who.hello(docs))).await;
    assert_eq!(socket.closed().await, Some(1008));
    assert_eq!(world.post("/api/tickets", TOKEN, &json!({})).await.status, 200);
}
