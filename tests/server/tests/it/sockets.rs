//! The socket itself: who may connect, and what bad frames cost (§3, B16, B17).

use patchkeep_core::frame::{Hello, RejectCode, ServerFrame, TabFrame};
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::tab::{Identity, Socket, Tab, incarnation, open_doc};
use crate::world::{Edit, OTHER_TOKEN, TOKEN, World};

#[tokio::test]
async fn capabilities_say_what_callers_may_rely_on() {
    let world = World::new().await;
    let reply = world.get("/api/server/capabilities").await;
    assert_eq!(
        reply.body,
        json!({
            "protocol": 1, "idempotency_keys": true, "idempotency_key_ttl_ms": 86_400_000,
            "max_frame_bytes": 1_048_576, "key_format": "raw", "features": ["attempts"],
            // Whom the token is of.
            "principal": "ws/user",
        })
    );
    assert_eq!(world.get("/healthz").await.status, 200);
    assert_eq!(world.get("/nowhere").await.code(), "not_found");
}

#[tokio::test]
async fn b16_a_bad_ticket_is_told_on_the_socket() {
    let world = World::new().await;
    let ticket = world.post("/api/tickets", TOKEN, &json!({})).await.body["ticket"].as_str().unwrap().to_owned();
    let _used = Socket::with_ticket(&world, &ticket).await;
    for bad in [ticket.as_str(), "", "guess"] {
        let mut socket = Socket::with_ticket(&world, bad).await;
        assert_eq!(socket.frame().await, ServerFrame::Reject(RejectCode::Unauthorized));
        assert_eq!(socket.closed().await, Some(4402));
    }
    assert_eq!(world.post("/api/tickets", "guess", &json!({})).await.status, 401);
}

#[tokio::test]
async fn hello_is_refused_with_a_code_and_a_close() {
    let world = World::new().await;
    let taken = Tab::open(&world).await;
    let reject = async |token: &'static str, hello: Hello| {
        let mut socket = Socket::connect(&world, token).await;
        socket.send(&TabFrame::Hello(hello)).await;
        let ServerFrame::Reject(code) = socket.frame().await else { panic!("not rejected") };
        (code, socket.closed().await)
    };
    let who = Identity::new();
    let version = Hello { protocol: 2, ..who.hello(vec![]) };
    assert_eq!(reject(TOKEN, version).await, (RejectCode::UnsupportedProtocol, Some(4401)));
    let other = Hello { principal: "ws/other".into(), ..who.hello(vec![]) };
    assert_eq!(reject(TOKEN, other).await, (RejectCode::PrincipalMismatch, Some(4404)));
    let stolen = Hello { principal: "ws/other".into(), epoch: 9, ..taken.who.hello(vec![]) };
    assert_eq!(reject(OTHER_TOKEN, stolen).await, (RejectCode::TabNotYours, Some(4403)));
}

#[tokio::test]
async fn b17_bad_frames_cost_nothing_but_themselves() {
    let world = World::with(|c| c.max_frame_bytes = 8192).await;
    let mut socket = Socket::connect(&world, TOKEN).await;
    socket.send_text("before hello").await;
    socket.send(&TabFrame::Ping { t: 1, visible: true }).await;
    let who = Identity::new();
    let inc = incarnation();
    socket.send(&TabFrame::Hello(who.hello(vec![open_doc("d1", inc)]))).await;
    let welcome = socket.welcome().await;
    assert_eq!((welcome.max_frame_bytes, welcome.heartbeat_ms), (8192, 15_000));
    for text in [
        "",
        "{",
        "[]",
        r#"{"type":1}"#,
        r#"{"type":"patch_ack"}"#,
        r#"{"type":"patch_ack","patch_id":"x","delivery":1,"replayed":false,"applied_at":1}"#,
        r#"{"type":"from_the_future","x":1}"#,
        r#"{"type":"ping","t":"\ud800"}"#,
    ] {
        socket.send_text(text).await;
    }
    socket.send_text(&format!(r#"{{"type":"ping","t":1,"x":"{}"}}"#, "é".repeat(8000))).await;
    socket.send_text(&"[".repeat(5000)).await;
    socket.send_message(Message::Binary(vec![0, 159, 146].into())).await;
    socket.send(&TabFrame::Hello(who.hello(vec![]))).await;
    socket.quiet().await;
    let sending = world.sending(&Edit::append("k", "x"));
    let patch = socket.patch().await;
    socket.ack(&patch, false).await;
    assert_eq!(sending.await.unwrap().unwrap().status, 200);
}

#[tokio::test]
async fn b17_no_frame_over_the_limit_is_sent() {
    let world = World::with(|c| c.max_frame_bytes = 4096).await;
    let who = Identity::new();
    let docs: Vec<_> = (0..40).map(|n| open_doc(&format!("{}{n}", "é".repeat(200)), incarnation())).collect();
    let mut socket = Socket::connect(&world, TOKEN).await;
    // The limit is the server's for what it reads as well: the first hello is over it, so documents come one by one.
    socket.send(&TabFrame::Hello(who.hello(vec![docs[0].clone(), docs[1].clone(), docs[2].clone()]))).await;
    let welcome = socket.welcome().await;
    assert!(ServerFrame::Welcome(welcome).encode().len() <= 4096);
    for _ in 0..2 {
        socket.opened().await;
    }
    for open in &docs[3..] {
        socket.send(&TabFrame::Open(open.clone())).await;
        assert_eq!(socket.opened().await.0, open.incarnation);
    }
}

#[tokio::test]
async fn a_silent_socket_is_given_up() {
    let world = World::with(|c| c.heartbeat_ms = 50).await;
    let mut tab = Tab::open(&world).await;
    tab.socket.quiet().await;
    assert_eq!(tab.socket.closed().await, None);
    assert_eq!(world.send(&Edit::append("k", "x")).await.body["seq"], json!(2), "it is written directly");
}

#[tokio::test]
async fn one_socket_per_tab() {
    let world = World::new().await;
    let mut old = Tab::open(&world).await;
    let mut new = Tab::hello(&world, old.who.clone(), open_doc("d1", old.incarnation)).await;
    assert_eq!(old.socket.closed().await, Some(1000));
    new.socket.quiet().await;
}

/// Whether a page of this origin may connect.
async fn may_connect(world: &World, origin: Option<&str>) -> bool {
    use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
    let url = format!("ws://{}/api/socket?ticket=x", world.server.addr());
    let mut request = url.into_client_request().unwrap();
    if let Some(origin) = origin {
        request.headers_mut().insert("origin", origin.parse().unwrap());
    }
    tokio_tungstenite::connect_async(request).await.is_ok()
}

#[tokio::test]
async fn without_origins_only_the_servers_own_page_may_connect() {
    let world = World::new().await;
    assert!(may_connect(&world, None).await);
    assert!(may_connect(&world, Some(&world.server.url())).await);
    for strange in ["http://evil.test", "null", &format!("{}0", world.server.url())] {
        assert!(!may_connect(&world, Some(strange)).await, "{strange}");
    }
}

#[tokio::test]
async fn origins_are_checked_where_they_are_given() {
    let world = World::with(|c| c.origins = vec!["http://page.test".into()]).await;
    assert!(may_connect(&world, Some("http://page.test")).await);
    assert!(may_connect(&world, None).await);
    assert!(may_connect(&world, Some(&world.server.url())).await);
    assert!(!may_connect(&world, Some("http://evil.test")).await);
    let preflight = world
        .http
        .request(reqwest::Method::OPTIONS, world.url("/api/docs/d1"))
        .header("origin", "http://page.test")
        .header("access-control-request-method", "PATCH")
        .header("access-control-request-headers", "idempotency-key,idempotency-attempt");
    let headers = preflight.send().await.unwrap().headers().clone();
    assert_eq!(headers["access-control-allow-origin"], "http://page.test");
    assert!(headers["access-control-allow-headers"].to_str().unwrap().contains("idempotency-attempt"));
}

#[tokio::test]
async fn demo_json_is_there_only_where_asked_for() {
    let without = World::new().await;
    assert_eq!(without.get("/demo.json").await.status, 404);
    let with = World::with(|c| c.demo = true).await;
    let reply = with.get("/demo.json").await;
    assert_eq!(reply.body, json!({"token": TOKEN, "principal": "ws/user", "docs": ["d1", "d2"]}));
}

#[tokio::test]
async fn static_files_are_served_at_the_root() {
    let www = tempfile::tempdir().unwrap();
    std::fs::write(www.path().join("index.html"), "<p>page").unwrap();
    std::fs::write(www.path().join("core.wasm"), b"\0asm").unwrap();
    let world = World::with(|c| c.www = Some(www.path().into())).await;
    assert_eq!(world.get("/").await.body, json!("<p>page"));
    assert_eq!(world.get("/core.wasm").await.headers["content-type"], "application/wasm");
    assert_eq!(world.get("/api/docs/d1").await.status, 200);
    assert_eq!(world.get("/..%2f..%2fetc/passwd").await.status, 404);
}

#[tokio::test]
async fn what_is_no_document_id_is_refused_alike_on_every_database() {
    let world = World::new().await;
    for path in ["%00", "a%00b", "a%0Ab", "%7F", "%C2%85", "%2E%2E", "%2E"] {
        let url = world.url(&format!("/api/docs/x{path}")).replace("/x", "/");
        // Past the client, which would resolve dots by itself.
        let asked = format!(
            "GET /api/docs/{path} HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n"
        );
        assert!(exchange(&world, &asked).await.starts_with("HTTP/1.1 400 "), "{path}");
        if !path.starts_with("%2E") {
            let edit = json!({"edit": {"kind": "text.append", "text": "x"}}).to_string();
            let request = world.http.patch(&url).bearer_auth(TOKEN).header("idempotency-key", "k").body(edit);
            assert_eq!(request.send().await.unwrap().status(), 400, "{path}");
        }
    }
    // A hello that names one, a later `open` and its `close` cost nothing but that document.
    let inc = incarnation();
    let mut socket = Socket::connect(&world, TOKEN).await;
    socket.send(&TabFrame::Hello(Identity::new().hello(vec![open_doc("\0", inc), open_doc("d1", inc)]))).await;
    assert_eq!(socket.welcome().await.docs.iter().map(|(doc, ..)| doc.as_str()).collect::<Vec<_>>(), ["d1"]);
    socket.send(&TabFrame::Open(open_doc("a\0b", inc))).await;
    socket.send(&TabFrame::Close { doc: open_doc("a\0b", inc).doc, incarnation: inc }).await;
    socket.quiet().await;
}

async fn exchange(world: &World, request: &str) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(world.server.addr()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn b43_deep_bodies_are_malformed() {
    let world = World::new().await;
    for depth in [127, 128, 129, 5_000, 200_000] {
        let edit = format!(r#"{{"kind":"text.append","text":"","x":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
        let reply = world.send(&Edit::body(&format!("k{depth}"), &format!(r#"{{"edit":{edit}}}"#))).await;
        assert_eq!(reply.status, 400, "{depth}: {reply:?}");
    }
    let fits = Edit::body(
        "fits",
        &format!(r#"{{"edit":{{"kind":"text.append","text":"","x":{}{}}}}}"#, "[".repeat(120), "]".repeat(120)),
    );
    assert_eq!(world.send(&fits).await.status, 200);
}
