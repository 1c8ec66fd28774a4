//! The agent's binary against a server in this process: exit codes and words.

use std::process::{ExitStatus, Output, Stdio};

use patchkeep_core::frame::{ConfirmedAs, Reason};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use crate::tab::{Tab, incarnation, open_doc};
use crate::world::{PATIENCE, TOKEN, World};

/// A server, and the folder in which a test's agents keep their ops.
pub struct At {
    pub url: String,
    pub state: TempDir,
}

impl At {
    pub fn of(world: &World) -> Self {
        Self::url(world.server.url())
    }

    pub fn url(url: String) -> Self {
        Self { url, state: tempfile::tempdir().unwrap() }
    }
}

/// A running agent, its news read line by line.
pub struct Agent {
    child: Child,
    lines: tokio::io::Lines<BufReader<ChildStdout>>,
}

fn command(at: &At, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_patchkeep-agent"));
    command.args(args).env("PATCHKEEP_SERVER", &at.url).env("PATCHKEEP_TOKEN", TOKEN);
    command.env("PATCHKEEP_STATE", at.state.path()).env_remove("PATCHKEEP_PRINCIPAL").kill_on_drop(true);
    command
}

impl Agent {
    pub fn start(at: &At, args: &[&str]) -> Self {
        let mut child = command(at, args).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// As the kernel ends a process: it does nothing more.
    pub async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    pub async fn line(&mut self) -> String {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await.expect("the agent says something");
        line.unwrap().expect("the agent is not done")
    }

    pub async fn ends(mut self) -> (Option<i32>, Vec<String>) {
        let mut rest = Vec::new();
        while let Some(line) = tokio::time::timeout(PATIENCE, self.lines.next_line()).await.unwrap().unwrap() {
            rest.push(line);
        }
        let status: ExitStatus = tokio::time::timeout(PATIENCE, self.child.wait()).await.unwrap().unwrap();
        (status.code(), rest)
    }
}

pub async fn run(at: &At, args: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, .. } =
        tokio::time::timeout(PATIENCE, command(at, args).output()).await.unwrap().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap())
}

#[tokio::test]
async fn done_is_0_and_names_the_version() {
    let world = World::new().await;
    let at = At::of(&world);
    let ended = run(&at, &["patch", "d1", "--find", "a", "--replace", "$&"]).await;
    assert_eq!(ended, (Some(0), "done · seq 2\n".into()));
    assert_eq!(run(&at, &["read", "d1"]).await, (Some(0), "$&\n".into()));
}

#[tokio::test]
async fn a_document_id_is_escaped_in_the_path() {
    let world = World::with(|c| c.seed.push(("notes/a b é?".into(), "x".into()))).await;
    let at = At::of(&world);
    assert_eq!(run(&at, &["patch", "notes/a b é?", "--append", "y"]).await.0, Some(0));
    assert_eq!(run(&at, &["read", "notes/a b é?"]).await.1, "xy");
}

#[tokio::test]
async fn applied_is_told_first_and_done_when_it_is_saved() {
    let world = World::new().await;
    let at = At::of(&world);
    let mut tab = Tab::open(&world).await;
    let mut agent = Agent::start(&at, &["patch", "d1", "--append", "x"]);
    let patch = tab.socket.patch().await;
    tab.socket.ack(&patch, false).await;
    assert_eq!(agent.line().await, "applied · pending save");
    assert_eq!(tab.save(&world, 1, "a\nx", &[patch.patch_id]).await.status, 200);
    assert_eq!(agent.ends().await, (Some(0), vec!["done · seq 2".into()]));
}

#[tokio::test]
async fn b18_a_lost_ack_is_retried_with_the_same_key() {
    let world = World::new().await;
    let at = At::of(&world);
    let mut tab = Tab::open(&world).await;
    world.server.faults().lose_next_ack(1);
    let mut agent = Agent::start(&at, &["patch", "d1", "--append", "x"]);
    let first = tab.socket.patch().await;
    tab.socket.ack(&first, false).await;
    let again = tab.socket.patch().await;
    assert_eq!((again.patch_id, again.delivery), (first.patch_id, 2));
    tab.socket.ack(&again, true).await;
    assert_eq!(agent.line().await, "answer lost · retried with the same key · applied once (replayed)");
    assert_eq!(agent.line().await, "applied · pending save");
    tab.save(&world, 1, "a\nx", &[first.patch_id]).await;
    assert_eq!(agent.ends().await, (Some(0), vec!["done · seq 2".into()]));
}

#[tokio::test]
async fn a_lost_answer_of_a_direct_write_is_retried_and_replayed() {
    let world = World::new().await;
    let at = At::of(&world);
    world.server.faults().lose_next_answer(1);
    let (code, said) = run(&at, &["patch", "d1", "--append", "x"]).await;
    assert_eq!(code, Some(0));
    assert_eq!(said, "answer lost · retried with the same key · written once (replayed)\ndone · seq 2\n");
    assert_eq!(world.text("d1").await, "a\nx");
    world.server.faults().lose_next_answer(2);
    assert_eq!(run(&at, &["patch", "d1", "--append", "y"]).await.0, Some(0), "lost twice is written once as well");
    assert_eq!(world.text("d1").await, "a\nxy");
}

#[tokio::test]
async fn not_saved_in_time_is_5() {
    let world = World::new().await;
    let at = At::of(&world);
    let mut tab = Tab::open(&world).await;
    let mut agent = Agent::start(&at, &["patch", "d1", "--append", "x", "--wait", "1"]);
    let patch = tab.socket.patch().await;
    tab.socket.ack(&patch, false).await;
    assert_eq!(agent.line().await, "applied · pending save");
    assert_eq!(agent.ends().await.0, Some(5));
}

#[tokio::test]
async fn refused_is_2() {
    let world = World::new().await;
    let at = At::of(&world);
    let (code, said) = run(&at, &["patch", "d1", "--find", "z", "--replace", ""]).await;
    assert_eq!((code, said.as_str()), (Some(2), "refused · anchor_not_found · the text to look for is not there\n"));
    let mut tab = Tab::open(&world).await;
    let agent = Agent::start(&at, &["patch", "d1", "--append", "x", "--guarded"]);
    let patch = tab.socket.patch().await;
    assert!(patch.guarded);
    tab.socket.refuse(&patch, Reason::UnconfirmedEdits).await;
    assert_eq!(agent.ends().await.0, Some(2));
}

#[tokio::test]
async fn unknown_is_3_with_the_diff_and_the_next_try_applies_it_once() {
    let world = World::new().await;
    let at = At::of(&world);
    let mut tab = Tab::open(&world).await;
    world.server.faults().next_patch_expires_in_ms(200);
    let agent = Agent::start(&at, &["patch", "d1", "--append", "x", "--key", "mine"]);
    let patch = tab.socket.patch().await;
    assert_eq!(tab.save(&world, 1, "a\nb\n", &[]).await.status, 200);
    let who = tab.who.clone();
    tab.socket.drop_dead();
    let (code, said) = agent.ends().await;
    assert_eq!((code, said[0].as_str()), (Some(3), "patch_outcome_unknown"));
    assert!(said.contains(&"+b".to_owned()), "{said:?}");
    // The tab was reloaded: the server knows that the edit died with it (R7), and the key is free.
    let mut back = Tab::hello(&world, who.reloaded(), open_doc("d1", incarnation())).await;
    back.socket.confirmed(patch.patch_id, ConfirmedAs::Refused).await;
    let mut agent = Agent::start(&at, &["patch", "d1", "--append", "x", "--key", "mine"]);
    let planned = back.socket.patch().await;
    assert_ne!(planned.patch_id, patch.patch_id);
    back.socket.ack(&planned, false).await;
    assert_eq!(agent.line().await, "applied · pending save");
    assert_eq!(back.save(&world, 2, "a\nb\nx", &[planned.patch_id]).await.status, 200);
    assert_eq!(agent.ends().await, (Some(0), vec!["done · seq 3".into()]));
}

#[tokio::test]
async fn s10_a_person_asks_and_settles() {
    let world = World::new().await;
    let at = At::of(&world);
    let mut tab = Tab::open(&world).await;
    let agent = Agent::start(&at, &["patch", "d1", "--append", "x", "--key", "a/b"]);
    let patch = tab.socket.patch().await;
    assert_eq!(
        run(&at, &["settle", "a/b", "--as", "applied"]).await,
        (Some(2), "refused · not_unknown · only an unknown outcome is settled by a person\n".into())
    );
    tab.socket.unknown(&patch).await;
    assert_eq!(agent.ends().await.0, Some(3));
    let (code, said) = run(&at, &["ask", "a/b"]).await;
    assert_eq!((code, said.lines().next()), (Some(3), Some("patch_outcome_unknown")));
    let settled = "settled · not_applied · by ws/user\n".to_owned();
    for _ in 0..2 {
        assert_eq!(run(&at, &["settle", "a/b", "--as", "not-applied"]).await, (Some(0), settled.clone()));
    }
    let (code, said) = run(&at, &["settle", "a/b", "--as", "applied"]).await;
    assert_eq!((code, said.starts_with("conflict · already_settled")), (Some(4), true), "{said}");
    let (code, said) = run(&at, &["ask", "a/b"]).await;
    assert_eq!((code, said.starts_with("refused · settled_not_applied")), (Some(2), true), "{said}");
    assert_eq!(run(&at, &["ask", "never"]).await.0, Some(3), "not known is not refused");
}

#[tokio::test]
async fn ask_tells_applied_and_done() {
    let world = World::new().await;
    let at = At::of(&world);
    let mut tab = Tab::open(&world).await;
    let mut agent = Agent::start(&at, &["patch", "d1", "--append", "x", "--key", "k"]);
    let patch = tab.socket.patch().await;
    tab.socket.ack(&patch, false).await;
    assert_eq!(agent.line().await, "applied · pending save");
    assert_eq!(run(&at, &["ask", "k"]).await, (Some(5), "applied · pending save\n".into()));
    tab.save(&world, 1, "a\nx", &[patch.patch_id]).await;
    assert_eq!(run(&at, &["ask", "k"]).await, (Some(0), "done · seq 2\n".into()));
}

#[tokio::test]
async fn conflict_is_4() {
    let world = World::new().await;
    let at = At::of(&world);
    assert_eq!(run(&at, &["patch", "d1", "--append", "x", "--key", "k"]).await.0, Some(0));
    let (code, said) = run(&at, &["patch", "d1", "--append", "y", "--key", "k"]).await;
    assert_eq!(code, Some(4));
    assert!(said.starts_with("conflict · idempotency_key_reused"), "{said}");
}

#[tokio::test]
async fn other_is_1() {
    let world = World::new().await;
    let at = At::of(&world);
    assert_eq!(run(&at, &["patch", "d1"]).await.0, Some(1), "wrong usage is not `refused`");
    assert_eq!(run(&at, &["read", "nowhere"]).await.0, Some(1));
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let (code, said) = run(&At::url(format!("http://{free}")), &["patch", "d1", "--append", "x"]).await;
    assert_eq!((code, said.as_str()), (Some(1), "the server cannot be reached · nothing was sent\n"));
}

#[tokio::test]
async fn json_is_one_object_for_each_line() {
    let world = World::new().await;
    let at = At::of(&world);
    let mut tab = Tab::open(&world).await;
    let mut agent = Agent::start(&at, &["patch", "d1", "--append", "x", "--json", "--key", "k"]);
    let patch = tab.socket.patch().await;
    tab.socket.ack(&patch, false).await;
    let applied: Value = serde_json::from_str(&agent.line().await).unwrap();
    assert_eq!((&applied["news"], &applied["key"], &applied["status"]), (&json!("applied"), &json!("k"), &json!(200)));
    assert_eq!(applied["answer"]["patch_id"], json!(patch.patch_id.to_string()));
    tab.save(&world, 1, "a\nx", &[patch.patch_id]).await;
    let done: Value = serde_json::from_str(&agent.line().await).unwrap();
    assert_eq!((&done["news"], &done["answer"]["seq"]), (&json!("done"), &json!(2)));
    assert_eq!(agent.ends().await, (Some(0), vec![]));
}

/// A server by script: it answers each connection with the next text, and shows what was asked.
async fn scripted(answers: Vec<&'static str>) -> (At, tokio::task::JoinHandle<Vec<String>>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        let mut asked = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            // Head and body: every request with one ends it with a brace, the others with an empty line.
            let end = |request: &[u8]| if request.starts_with(b"GET") { &b"\r\n\r\n"[..] } else { b"}" };
            while !request.ends_with(end(&request)) {
                let n = stream.read(&mut buffer).await.unwrap();
                assert_ne!(n, 0, "the agent hung up");
                request.extend_from_slice(&buffer[..n]);
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
            asked.push(String::from_utf8(request).unwrap());
        }
        asked
    });
    (At::url(url), serving)
}

const NO_KEYS: &str = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
const KEYS: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 49\r\nconnection: close\r\n\
                    date: Tue, 01 Dec 2026 12:00:00 GMT\r\n\r\n\
                    {\"idempotency_keys\":true,\"features\":[\"attempts\"]}";
const FAILED: &str = "HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
const DONE: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\nconnection: close\r\n\r\n\
                    {\"seq\":7}";

#[tokio::test]
async fn k04_without_the_capability_nothing_is_retried() {
    let (at, serving) = scripted(vec![NO_KEYS, FAILED]).await;
    assert_eq!(run(&at, &["patch", "d1", "--append", "x"]).await.0, Some(3));
    assert_eq!(serving.await.unwrap().len(), 2);
}

#[tokio::test]
async fn b18_the_retry_has_the_same_key_and_bytes_and_the_next_number() {
    let (at, serving) = scripted(vec![KEYS, FAILED, KEYS, DONE]).await;
    assert_eq!(run(&at, &["patch", "d1", "--append", "x"]).await, (Some(0), "done · seq 7\n".into()));
    let asked = serving.await.unwrap();
    let header = |request: &str, name: &str| {
        let line = request.lines().find(|l| l.to_ascii_lowercase().starts_with(&format!("{name}:"))).unwrap();
        line[name.len() + 1..].trim().to_owned()
    };
    let (first, second) = (&asked[1], &asked[3]);
    let key = header(first, "idempotency-key");
    assert_eq!(uuid::Uuid::parse_str(&key).unwrap().get_version_num(), 7);
    assert_eq!(header(second, "idempotency-key"), key);
    assert_eq!(
        (header(first, "idempotency-attempt").as_str(), header(second, "idempotency-attempt").as_str()),
        ("1", "2")
    );
    let first_at = header(first, "idempotency-first-attempt");
    assert!(first_at.starts_with("17961264"), "server time: {first_at}");
    assert_eq!(header(second, "idempotency-first-attempt"), first_at);
    assert_eq!(first.rsplit("\r\n\r\n").next(), second.rsplit("\r\n\r\n").next());
}
