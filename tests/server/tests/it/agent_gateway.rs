//! A gateway between agent and server that answers in the server's place (B20, B27): a real one, on a socket of its own.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use serde_json::{Value, json};

use crate::agent::{At, run};
use crate::world::World;

/// What it answers to one write in the server's place.
#[derive(Clone, Debug)]
struct Trick {
    /// Whether the server gets the write all the same.
    forwards: bool,
    status: u16,
    headers: &'static [(&'static str, &'static str)],
    body: &'static str,
}

#[derive(Debug)]
struct Gateway {
    server: String,
    http: reqwest::Client,
    tricks: Mutex<VecDeque<Trick>>,
    /// Path, key and attempt of each write, in order.
    seen: Mutex<Vec<[String; 3]>>,
    /// How much of a long answer was handed on, in bytes.
    handed_on: Arc<AtomicUsize>,
    /// Requests that ask what the server can do are answered by this, if anything.
    capabilities: Option<Value>,
}

impl Gateway {
    async fn before(world: &World, tricks: &[Trick], capabilities: Option<Value>) -> (Arc<Self>, At) {
        let gateway = Arc::new(Self {
            server: world.server.url(),
            http: reqwest::Client::new(),
            tricks: Mutex::new(tricks.iter().cloned().collect()),
            seen: Mutex::new(Vec::new()),
            handed_on: Arc::default(),
            capabilities,
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(pass).with_state(gateway.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (gateway, At::url(url))
    }

    fn seen(&self) -> Vec<[String; 3]> {
        self.seen.lock().unwrap().clone()
    }
}

async fn pass(State(gateway): State<Arc<Gateway>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    if let Some(listed) = gateway.capabilities.as_ref().filter(|_| path.ends_with("/capabilities")) {
        return answer(200, &[("content-type", "application/json")], listed.to_string());
    }
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let header = |name: &str| parts.headers.get(name).map_or("", |v| v.to_str().unwrap()).to_owned();
    let mut trick = None;
    if parts.method == "PATCH" && header("idempotency-ask").is_empty() {
        gateway.seen.lock().unwrap().push([path, header("idempotency-key"), header("idempotency-attempt")]);
        trick = gateway.tricks.lock().unwrap().pop_front();
    }
    let forwarded = match &trick {
        Some(Trick { forwards: false, .. }) => None,
        _ => Some(forward(&gateway, &parts, body).await),
    };
    match (trick, forwarded) {
        (Some(trick), _) if trick.body == LONG => long_answer(&gateway, &trick),
        (Some(trick), _) => answer(trick.status, trick.headers, trick.body.into()),
        (None, Some(answered)) => answered,
        (None, None) => unreachable!("what is not answered here is forwarded"),
    }
}

async fn forward(gateway: &Gateway, parts: &axum::http::request::Parts, body: Bytes) -> Response {
    let url = format!("{}{}", gateway.server, parts.uri);
    let sent = gateway.http.request(parts.method.clone(), url).headers(parts.headers.clone()).body(body);
    let reply = sent.send().await.unwrap();
    let (status, headers) = (reply.status(), reply.headers().clone());
    let mut answered = Response::new(reply.bytes().await.unwrap().into());
    (*answered.status_mut(), *answered.headers_mut()) = (status, headers);
    answered
}

fn answer(status: u16, headers: &[(&str, &str)], body: String) -> Response {
    let built = headers.iter().fold(Response::builder().status(status), |b, (name, value)| b.header(*name, *value));
    built.body(body.into()).unwrap()
}

/// An answer of 256 MiB, in pieces.
fn long_answer(gateway: &Gateway, trick: &Trick) -> Response {
    let handed_on = gateway.handed_on.clone();
    let pieces = (0..4_096).map(move |_| {
        handed_on.fetch_add(64 << 10, Ordering::Relaxed);
        Ok::<_, Infallible>(Bytes::from_static(&[b' '; 64 << 10]))
    });
    let mut long = answer(trick.status, trick.headers, String::new());
    *long.body_mut() = Body::from_stream(futures_util::stream::iter(pieces));
    long
}

const LONG: &str = "and so on";
const HTML: &[(&str, &str)] = &[("content-type", "text/html")];
const LOGIN: Trick = Trick { forwards: false, status: 200, headers: HTML, body: "<form>Log in</form>" };

#[tokio::test]
async fn b20_a_proxys_502_after_the_commit_is_retried_under_the_same_key() {
    let world = World::new().await;
    let bad = Trick { forwards: true, status: 502, headers: HTML, body: "<h1>Bad gateway</h1>" };
    let (gateway, at) = Gateway::before(&world, &[bad.clone(), bad], None).await;
    let (code, said) = run(&at, &["patch", "d1", "--append", "x", "--key", "k"]).await;
    let replayed = "answer lost · retried with the same key · written once (replayed)\ndone · seq 2\n";
    assert_eq!((code, said.as_str()), (Some(0), replayed));
    assert_eq!(world.text("d1").await, "a\nx");
    let attempts = ["1", "2", "3"].map(|n| ["/api/docs/d1".to_owned(), "k".into(), n.into()]);
    assert_eq!(gateway.seen(), attempts);
}

#[tokio::test]
async fn b20_without_the_capability_a_proxys_502_is_unknown_and_not_sent_again() {
    let world = World::new().await;
    let bad = Trick { forwards: true, status: 502, headers: HTML, body: "<h1>Bad gateway</h1>" };
    let (gateway, at) = Gateway::before(&world, &[bad], Some(json!({ "protocol": 1 }))).await;
    let (code, said) = run(&at, &["patch", "d1", "--append", "x", "--key", "k"]).await;
    assert_eq!(code, Some(3), "{said}");
    assert_eq!(gateway.seen().len(), 1);
    assert_eq!(world.text("d1").await, "a\nx", "it had landed, and the agent did not claim otherwise");
}

#[tokio::test]
async fn b27_a_login_page_is_not_success_and_the_write_is_not_lost() {
    let world = World::new().await;
    let empty = Trick { forwards: false, status: 200, headers: &[("content-type", "application/json")], body: "" };
    let (gateway, at) = Gateway::before(&world, &[LOGIN, empty], None).await;
    let (code, said) = run(&at, &["patch", "d1", "--append", "x"]).await;
    assert_eq!((code, said.lines().last()), (Some(0), Some("done · seq 2")), "{said}");
    assert_eq!(world.text("d1").await, "a\nx");
    let seen = gateway.seen();
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|[_, key, _]| *key == seen[0][1]), "{seen:?}");
}

#[tokio::test]
async fn b27_a_redirect_is_not_followed() {
    let world = World::new().await;
    let moved = |to| Trick { forwards: false, status: 307, headers: to, body: "" };
    let to_login = moved(&[("location", "/login")]);
    let (gateway, at) = Gateway::before(&world, std::slice::from_ref(&to_login), None).await;
    assert_eq!(run(&at, &["patch", "d1", "--append", "x"]).await.0, Some(2), "nothing was sent before: refused");
    assert_eq!(gateway.seen().len(), 1, "and nothing was sent to where it points");
    // After an attempt that may have landed, a gateway's word is no proof.
    let bad = Trick { forwards: true, status: 502, headers: HTML, body: "" };
    let (gateway, at) = Gateway::before(&world, &[bad, to_login], None).await;
    assert_eq!(run(&at, &["patch", "d1", "--append", "y"]).await.0, Some(3));
    assert_eq!(gateway.seen().len(), 2);
    assert_eq!(world.text("d1").await, "a\ny");
}

#[tokio::test]
async fn k12_of_an_answer_without_an_end_one_mib_is_read() {
    let world = World::new().await;
    let long = Trick { forwards: true, status: 200, headers: HTML, body: LONG };
    let (gateway, at) = Gateway::before(&world, &[long], None).await;
    let (code, said) = run(&at, &["patch", "d1", "--append", "x", "--key", "k"]).await;
    assert_eq!((code, said.lines().last()), (Some(0), Some("done · seq 2")), "{said}");
    assert_eq!((gateway.seen().len(), world.text("d1").await.as_str()), (2, "a\nx"));
    // What the sockets hold on the way is beyond anybody's bound.
    let handed_on = gateway.handed_on.load(Ordering::Relaxed);
    assert!(handed_on < 64 << 20, "{handed_on} bytes");
}

#[tokio::test]
async fn k12_an_answer_of_the_protocol_is_read_whole_and_64_kib_of_it_are_kept() {
    let world = World::new().await;
    let body =
        format!(r#"{{"error":{{"details":{{"diff":"{}"}},"code":"patch_outcome_unknown"}}}}"#, "+".repeat(900_000));
    let json: &[_] = &[("content-type", "application/problem+json")];
    let conflict = Trick { forwards: false, status: 409, headers: json, body: body.leak() };
    let (_gateway, at) = Gateway::before(&world, &[conflict], None).await;
    let (code, said) = run(&at, &["patch", "d1", "--append", "x", "--key", "k"]).await;
    assert_eq!((code, said.lines().next()), (Some(3), Some("patch_outcome_unknown")), "{said}");
    let db = rusqlite::Connection::open(at.state.path().join("outbox.db")).unwrap();
    let op: String = db.query_row("SELECT op FROM op", [], |row| row.get(0)).unwrap();
    let op: Value = serde_json::from_str(&op).unwrap();
    assert_eq!((op["response"].as_str().unwrap().len(), &op["response_cut"]), (64 << 10, &json!(true)));
}
