//! What a user may have open, what a page of another origin may do, how problems are told, and what is not logged.

use std::process::Stdio;

use futures_util::{SinkExt, StreamExt};
use patchkeep_core::frame::{ConfirmedAs, TabFrame};
use reqwest::Method;
use serde_json::json;
use tokio::process::Command;
use tokio_tungstenite::tungstenite::Message;

use crate::place::Place;
use crate::tab::{Identity, Socket, Tab};
use crate::world::{Edit, OTHER_TOKEN, PATIENCE, TOKEN, World, read};

#[tokio::test]
async fn open_keys_are_limited_by_user_and_settled_ones_make_room() {
    let world = World::with(|c| c.max_open_keys = 2).await;
    let mut tab = Tab::open(&world).await;
    let mut patches = Vec::new();
    for key in ["a", "b"] {
        let sending = world.sending(&Edit::append(key, "x"));
        let patch = tab.socket.patch().await;
        tab.socket.ack(&patch, false).await;
        assert_eq!(sending.await.unwrap().unwrap().status, 200);
        tab.socket.confirmed(patch.patch_id, ConfirmedAs::Acked).await;
        patches.push(patch.patch_id);
    }
    let refused = world.send(&Edit::append("c", "x").doc("d2")).await;
    assert_eq!((refused.status, refused.code()), (429, "not_processed"));
    assert_eq!(refused.body["error"]["details"]["reason"], json!("too_many_open_keys"));
    assert_eq!(
        (&refused.body["not_processed"], &refused.headers["retry-after"]),
        (&json!(true), &"1".parse().unwrap())
    );
    assert_eq!(world.state("c"), "");
    // Keys that are known are served as before, and other users have their own room.
    assert!(world.send(&Edit::append("a", "x").attempt(2)).await.replayed());
    assert_eq!(world.send(&Edit::append("c", "x").doc("d2").token(OTHER_TOKEN)).await.status, 200);
    tab.save(&world, 1, "a\nxx", &patches).await;
    assert_eq!(world.send(&Edit::append("c", "x").doc("d2")).await.status, 200);
}

#[tokio::test]
async fn sockets_are_limited_by_user() {
    let world = World::with(|c| c.max_sockets = 2).await;
    let spare = world.post("/api/tickets", TOKEN, &json!({})).await.body["ticket"].as_str().unwrap().to_owned();
    let first = Socket::connect(&world, TOKEN).await;
    let mut second = Socket::connect(&world, TOKEN).await;
    let refused = world.post("/api/tickets", TOKEN, &json!({})).await;
    assert_eq!((refused.status, refused.code()), (429, "not_processed"));
    assert_eq!(refused.body["error"]["details"]["reason"], json!("too_many_sockets"));
    let url = format!("ws://{}/api/socket?ticket={spare}", world.server.addr());
    assert!(tokio_tungstenite::connect_async(url).await.is_err(), "a ticket from before is no way around");
    let _others = Socket::connect(&world, OTHER_TOKEN).await;
    // A socket that goes makes room.
    first.drop_dead();
    let room = async { while world.post("/api/tickets", TOKEN, &json!({})).await.status != 200 {} };
    tokio::time::timeout(PATIENCE, room).await.unwrap();
    second.send(&TabFrame::Hello(Identity::new().hello(vec![]))).await;
    second.welcome().await;
}

#[tokio::test]
async fn problems_are_told_as_rfc_9457_beside_the_error() {
    let world = World::new().await;
    let reply = world.send(&Edit::body("k", r#"{"edit":{"kind":"text.replace","find":"z","replace":""}}"#)).await;
    assert_eq!(reply.headers["content-type"], "application/problem+json");
    assert_eq!(reply.body["error"]["code"], json!("anchor_not_found"));
    for (member, value) in [
        ("type", json!("about:blank")),
        ("title", json!("Unprocessable Entity")),
        ("status", json!(422)),
        ("detail", json!("the text to look for is not there")),
        ("key", json!("released")),
    ] {
        assert_eq!(reply.body[member], value, "{member}");
    }
    let again = world.send(&Edit::body("k", r#"{"edit":{"kind":"text.replace","find":"z","replace":""}}"#)).await;
    assert!(again.replayed() && again.body["status"] == json!(422), "a replay is a problem as well");
    let nowhere = world.get("/nowhere").await;
    assert_eq!(
        (&nowhere.headers["content-type"], &nowhere.body["status"]),
        (&"application/problem+json".parse().unwrap(), &json!(404))
    );
    let done = world.send(&Edit::append("done", "x")).await;
    assert_eq!((&done.headers["content-type"], done.body.get("status")), (&"application/json".parse().unwrap(), None));
}

#[tokio::test]
async fn cors_covers_every_header_that_is_used_for_named_origins_alone() {
    const USED: &str = "authorization,content-type,idempotency-key,idempotency-attempt,idempotency-first-attempt,\
                        idempotency-ask,patchkeep-principal";
    let world = World::with(|c| c.origins = vec!["http://page.test".into()]).await;
    let preflight = async |origin: &str, path: &str, method: &str| {
        let request = world.http.request(Method::OPTIONS, world.url(path)).header("origin", origin);
        let request =
            request.header("access-control-request-method", method).header("access-control-request-headers", USED);
        request.send().await.unwrap().headers().clone()
    };
    let routes = [
        ("/api/docs/d1", "PATCH"),
        ("/api/docs/d1", "PUT"),
        ("/api/docs/d1", "GET"),
        ("/api/tickets", "POST"),
        ("/api/keys/k", "GET"),
        ("/api/keys/k/settle", "POST"),
    ];
    for (path, method) in routes {
        let allowed = preflight("http://page.test", path, method).await;
        assert_eq!(allowed["access-control-allow-origin"], "http://page.test", "{method} {path}");
        assert!(allowed["access-control-allow-methods"].to_str().unwrap().contains(method));
        let headers = allowed["access-control-allow-headers"].to_str().unwrap().to_ascii_lowercase();
        assert!(USED.split(',').all(|name| headers.contains(name)), "{headers}");
        assert!(!preflight("http://evil.test", path, method).await.contains_key("access-control-allow-origin"));
    }
    let request = world.http.get(world.url("/api/docs/d1")).bearer_auth(TOKEN).header("origin", "http://page.test");
    let exposed = request.send().await.unwrap().headers()["access-control-expose-headers"].clone();
    for name in ["retry-after", "date", "idempotent-replayed"] {
        assert!(exposed.to_str().unwrap().contains(name), "{exposed:?}");
    }
}

#[tokio::test]
async fn no_token_ticket_or_text_is_logged() {
    const SECRETS: [&str; 4] =
        ["token-that-is-secret", "guess-that-is-secret", "text-that-is-secret", "pass-that-is-secret"];
    let place = Place::new();
    let mut child = Command::new(env!("CARGO_BIN_EXE_patchkeep-server"))
        .args(["serve", "--demo", "--faults"])
        .args(place.args())
        .env("PATCHKEEP_SERVER_TOKENS", format!("{}=ws/user", SECRETS[0]))
        .env("RUST_LOG", "trace,tungstenite=info,tokio_tungstenite=info")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut out = tokio::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    tokio::io::AsyncBufReadExt::read_line(&mut out, &mut line).await.unwrap();
    let url = line.trim().strip_prefix("listening on ").unwrap().to_owned();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    assert_eq!(http.post(format!("{url}/api/tickets")).bearer_auth(SECRETS[1]).send().await.unwrap().status(), 401);
    let ticket = read(http.post(format!("{url}/api/tickets")).bearer_auth(SECRETS[0]).send().await.unwrap()).await;
    let ticket = ticket.unwrap().body["ticket"].as_str().unwrap().to_owned();
    let socket = format!("{}/api/socket?ticket={ticket}", url.replace("http:", "ws:"));
    let (mut socket, _) = tokio_tungstenite::connect_async(socket).await.unwrap();
    let hello = TabFrame::Hello(Identity::new().hello(vec![])).encode();
    socket.send(Message::Text(hello.into())).await.unwrap();
    assert!(socket.next().await.unwrap().unwrap().to_text().unwrap().contains("welcome"));
    for find in ["", SECRETS[2]] {
        let edit = json!({"edit": {"kind": "text.replace", "find": find, "replace": SECRETS[2]}});
        let request = http.patch(format!("{url}/api/docs/notes/second")).bearer_auth(SECRETS[0]);
        request.header("idempotency-key", format!("k{}", find.len())).body(edit.to_string()).send().await.unwrap();
    }
    // What a frame calls itself is told, and not at any length.
    let frame = format!(r#"{{"type":"{}","x":"\ud800"}}"#, "z".repeat(20_000));
    socket.send(Message::Text(frame.into())).await.unwrap();
    socket.send(Message::Text(TabFrame::Ping { t: 1, visible: true }.encode().into())).await.unwrap();
    let pong = async { while !socket.next().await.unwrap().unwrap().to_text().unwrap().contains("pong") {} };
    tokio::time::timeout(PATIENCE, pong).await.unwrap();
    drop(socket);
    child.start_kill().unwrap();
    let log = String::from_utf8(child.wait_with_output().await.unwrap().stderr).unwrap();
    assert!(log.contains("a tab is here"), "something is logged: {log}");
    assert!(log.contains("a frame that cannot be read") && !log.contains(&"z".repeat(100)), "a name is cut");
    for secret in SECRETS.iter().copied().chain([ticket.as_str()]) {
        assert!(!log.contains(secret), "{secret} is in the log");
    }

    // A database that is not there is told without the password that was meant for it.
    let failed = Command::new(env!("CARGO_BIN_EXE_patchkeep-server"))
        .args(["serve", "--token", "t=ws/user", "--database-url"])
        .arg(format!("postgresql://user:{}@127.0.0.1:1/none", SECRETS[3]))
        .env("RUST_LOG", "trace")
        .output()
        .await
        .unwrap();
    let said = [failed.stdout, failed.stderr].concat();
    assert!(!failed.status.success() && !String::from_utf8_lossy(&said).contains(SECRETS[3]));
}
