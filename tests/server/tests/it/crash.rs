//! `kill -9` of the server's own process, and what is left.

use std::collections::HashMap;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::place::Place;
use crate::world::{PATIENCE, read};

pub const SECRET: &str = "a-secret-that-must-not-be-logged";

pub async fn start(db: &Place) -> (Child, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_patchkeep-server"))
        .args(["serve", "--demo", "--faults", "--lease-ms", "50", "--patch-timeout-ms", "3000"])
        .args(db.args())
        .env("PATCHKEEP_SERVER_TOKENS", format!("{SECRET}=ws/user"))
        .env("RUST_LOG", "trace")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = tokio::time::timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap().unwrap();
    let url = line.strip_prefix("listening on ").expect("the line it promises").to_owned();
    (child, url)
}

pub async fn append(http: &reqwest::Client, url: &str, n: usize, attempt: u64) -> Option<u16> {
    let request = http
        .patch(format!("{url}/api/docs/notes/second"))
        .bearer_auth(SECRET)
        .header("idempotency-key", format!("key-{n}"))
        .header("idempotency-attempt", attempt)
        .body(format!(r#"{{"edit":{{"kind":"text.append","text":"<{n}>"}}}}"#));
    Some(read(request.send().await.ok()?).await?.status)
}

#[tokio::test]
async fn b26_killed_in_the_middle_each_write_lands_once() {
    const WRITES: usize = 40;
    let db = Place::new();
    let http = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).build().unwrap();
    let (mut child, url) = start(&db).await;
    let mut log = child.stderr.take().unwrap();
    let logged = tokio::spawn(async move {
        let mut text = String::new();
        log.read_to_string(&mut text).await.unwrap();
        text
    });
    let sent: Vec<_> = (0..WRITES)
        .map(|n| {
            let (http, url) = (http.clone(), url.clone());
            tokio::spawn(async move { append(&http, &url, n, 1).await })
        })
        .collect();
    // It dies with some answers told, and some writes anywhere between their claim and their answer.
    let mut answered = HashMap::new();
    for (n, task) in sent.into_iter().enumerate() {
        if n == WRITES / 4 {
            child.start_kill().unwrap();
        }
        answered.insert(n, task.await.unwrap());
    }
    child.wait().await.unwrap();
    let log = logged.await.unwrap();
    assert!(!log.contains(SECRET), "no secret in the log");

    let (_child, url) = start(&db).await;
    for n in 0..WRITES {
        // A claim the dead process held is taken over once its lease is over.
        let settled = async {
            let mut attempt = 2;
            while append(&http, &url, n, attempt).await != Some(200) {
                attempt += 1;
            }
        };
        tokio::time::timeout(PATIENCE, settled).await.unwrap();
    }
    let text = http.get(format!("{url}/api/docs/notes/second")).bearer_auth(SECRET).send().await.unwrap();
    let text = text.text().await.unwrap();
    for n in 0..WRITES {
        assert_eq!(text.matches(&format!("<{n}>")).count(), 1, "write {n}, told {:?}", answered[&n]);
    }
}

#[tokio::test]
async fn s02_killed_at_each_point_between_claim_and_answer() {
    // What is stored where it died, and whether the retry finds the answer there.
    for (point, stored, replayed) in [("claimed", false, false), ("writing", false, false), ("committed", true, true)] {
        let db = Place::new();
        let http = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).build().unwrap();
        let (mut child, url) = start(&db).await;
        let faults = format!("{url}/faults");
        let json = format!(r#"{{"hold_at":"{point}"}}"#);
        let armed = http
            .post(&faults)
            .bearer_auth(SECRET)
            .header("content-type", "application/json")
            .body(json)
            .send()
            .await
            .unwrap();
        assert_eq!(armed.status(), 200);
        let (http2, url2) = (http.clone(), url.clone());
        let first = tokio::spawn(async move { append(&http2, &url2, 1, 1).await });
        let held = async {
            let mut again = tokio::time::interval(std::time::Duration::from_millis(5));
            while read(http.get(&faults).bearer_auth(SECRET).send().await.unwrap()).await.unwrap().body["held_at"]
                != point
            {
                again.tick().await;
            }
        };
        tokio::time::timeout(PATIENCE, held).await.unwrap();
        child.kill().await.unwrap();
        assert_eq!(first.await.unwrap(), None, "{point}: it died without an answer");

        let text = |url: String| {
            let http = http.clone();
            async move {
                let reply = http.get(format!("{url}/api/docs/notes/second")).bearer_auth(SECRET).send().await.unwrap();
                read(reply).await.unwrap().body["text"].as_str().unwrap().matches("<1>").count()
            }
        };
        let (_child, url) = start(&db).await;
        assert_eq!(text(url.clone()).await, usize::from(stored), "{point}");
        let known = http.get(format!("{url}/api/keys/key-1")).bearer_auth(SECRET).send().await.unwrap();
        let known = read(known).await.unwrap();
        assert_eq!(known.status == 200, replayed, "{point}: never done without the effect: {known:?}");
        let settled = async {
            let mut attempt = 2;
            while append(&http, &url, 1, attempt).await != Some(200) {
                attempt += 1;
            }
        };
        tokio::time::timeout(PATIENCE, settled).await.unwrap();
        assert_eq!(text(url).await, 1, "{point}");
    }
}

#[tokio::test]
async fn the_server_ends_when_asked() {
    let db = Place::new();
    let (mut child, url) = start(&db).await;
    assert!(reqwest::get(format!("{url}/healthz")).await.unwrap().status().is_success());
    let pid = child.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().await.unwrap().success());
    let status = tokio::time::timeout(PATIENCE, child.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn a_token_is_needed() {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_patchkeep-server"))
        .args(["serve", "--db"])
        .arg(dir.path().join("server.db"))
        .env_remove("PATCHKEEP_SERVER_TOKENS")
        .output()
        .await
        .unwrap();
    assert!(!output.status.success());
}
