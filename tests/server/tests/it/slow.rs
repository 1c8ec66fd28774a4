//! Requests that do not come to an end, tabs that say too much, pages under a strange name.

use patchkeep_core::frame::{MAX_HELLO_BYTES, TabFrame};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::tab::{Identity, Socket, Tab, incarnation, listed, open_doc};
use crate::world::{Edit, PATIENCE, TOKEN, World};

const HALF_A_HEAD: &str = "PATCH /api/docs/d1 HTTP/1.1\r\nHost: here\r\n";

fn half_a_body() -> String {
    format!(
        "PATCH /api/docs/d1 HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {TOKEN}\r\nIdempotency-Key: k\r\n\
         Content-Length: 100\r\n\r\n{{\"edit\":"
    )
}

async fn say(world: &World, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(world.server.addr()).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

async fn rest(mut stream: TcpStream) -> String {
    let mut text = String::new();
    tokio::time::timeout(PATIENCE, stream.read_to_string(&mut text)).await.unwrap().unwrap();
    text
}

#[tokio::test]
async fn half_a_request_is_given_up() {
    let world = World::with(|c| (c.head_timeout_ms, c.body_timeout_ms) = (50, 50)).await;
    rest(say(&world, HALF_A_HEAD).await).await;
    rest(say(&world, "").await).await;
    let answer = rest(say(&world, &half_a_body()).await).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert_eq!(world.row("k", "state"), None, "nothing was claimed");
}

#[tokio::test]
async fn half_requests_do_not_keep_the_server_from_ending() {
    let world = World::with(|c| c.drain_ms = 50).await;
    let _head = say(&world, HALF_A_HEAD).await;
    let _body = say(&world, &half_a_body()).await;
    let _tab = Tab::open(&world).await;
    assert_eq!(world.get("/healthz").await.status, 200, "it has taken them by now");
    tokio::time::timeout(PATIENCE, world.server.stop()).await.unwrap();
}

#[tokio::test]
async fn no_more_connections_than_there_are_places() {
    let world = World::with(|c| (c.max_connections, c.head_timeout_ms) = (2, 50)).await;
    let _idle = (say(&world, "").await, say(&world, "").await);
    assert_eq!(world.send(&Edit::append("k", "x")).await.status, 200, "its turn comes");
}

#[tokio::test]
async fn r07_a_list_over_the_limit_is_not_read_in_part() {
    let world = World::new().await;
    let mut tab = Tab::open(&world).await;
    let sending = world.sending(&Edit::append("k", "x"));
    let patch = tab.socket.patch().await;
    let mut long = open_doc("d1", incarnation());
    for _ in 0..501 {
        long = listed(long, &patch, patchkeep_core::frame::ReportedState::Applied);
    }
    // Each entry is of its own patch, as far as the server can tell.
    for entry in &mut long.unconfirmed {
        entry.patch_id = patchkeep_core::ids::PatchId(crate::world::fresh());
    }
    let state = |key: &str| world.state(key);
    tab.socket.send(&TabFrame::Open(long.clone())).await;
    assert_eq!(tab.socket.closed().await, None);
    assert_eq!(state("k"), "delivered", "silence beyond the limit proved nothing");
    let mut socket = Socket::connect(&world, TOKEN).await;
    socket.send(&TabFrame::Hello(Identity { epoch: 2, ..tab.who.clone() }.hello(vec![long]))).await;
    assert_eq!(socket.closed().await, None);
    assert_eq!(state("k"), "delivered");
    sending.abort();
}

#[tokio::test]
async fn d16_a_hello_over_its_limit_is_refused() {
    let world = World::new().await;
    let who = Identity::new();
    let docs = |n: usize| (0..n).map(|n| open_doc(&format!("{}{n}", "d".repeat(400)), incarnation())).collect();
    let long = who.hello(docs(140));
    assert!(TabFrame::Hello(long.clone()).encode().len() > MAX_HELLO_BYTES);
    let mut socket = Socket::connect(&world, TOKEN).await;
    socket.send(&TabFrame::Hello(long)).await;
    assert_eq!(socket.closed().await, None);
    assert!(world.place.texts("SELECT tab_id FROM tab_owner").is_empty(), "nothing of it was taken");
    let fits = who.hello(docs(100));
    assert!(TabFrame::Hello(fits.clone()).encode().len() <= MAX_HELLO_BYTES);
    let mut socket = Socket::connect(&world, TOKEN).await;
    socket.send(&TabFrame::Hello(fits)).await;
    socket.welcome().await;
}

#[tokio::test]
async fn demo_json_is_not_for_pages_under_a_strange_name() {
    let world = World::with(|c| c.demo = true).await;
    let port = world.server.addr().port();
    for (host, status) in [
        (format!("127.0.0.1:{port}"), 200),
        (format!("localhost:{port}"), 200),
        (format!("[::1]:{port}"), 200),
        (format!("rebound.test:{port}"), 404),
        ("127.0.0.1.rebound.test".into(), 404),
        ("user@localhost.rebound.test".into(), 404),
    ] {
        let reply = world.http.get(world.url("/demo.json")).header("host", &host).send().await.unwrap();
        assert_eq!(reply.status().as_u16(), status, "{host}");
    }
    assert_eq!(world.get("/demo.json").await.body["principal"], json!("ws/user"));
}
