//! `kill -9` of the server while an edit is out with a tab (S5–S8): at each point from the claim to the answer.

use std::time::Duration;

use patchkeep_core::frame::{Homed, OpenDoc, PatchFrame, ReportedState, ServerFrame, TabFrame, UnconfirmedEntry};
use patchkeep_core::ids::{DocId, Incarnation, PatchId};
use serde_json::{Value, json};
use tokio::process::Child;
use tokio::task::JoinHandle;

use crate::crash::{SECRET, append, start};
use crate::place::Place;
use crate::tab::{Heard, Identity, Socket, incarnation};
use crate::world::{PATIENCE, Reply, read};

const DOC: &str = "notes/second";

fn http() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).timeout(PATIENCE).build().unwrap()
}

/// A tab that applies what it is handed, once, and says so; its memory outlives the server.
struct Editor {
    who: Identity,
    incarnation: Incarnation,
    text: String,
    base_seq: u64,
    applied: Vec<PatchFrame>,
    socket: Option<Socket>,
}

impl Editor {
    async fn open(url: &str) -> Self {
        let stored = document(url).await;
        let mut editor = Self {
            who: Identity::new(),
            incarnation: incarnation(),
            text: stored["text"].as_str().unwrap().to_owned(),
            base_seq: stored["seq"].as_u64().unwrap(),
            applied: Vec::new(),
            socket: None,
        };
        editor.connect(url).await;
        editor
    }

    async fn connect(&mut self, url: &str) {
        let ticket = http().post(format!("{url}/api/tickets")).bearer_auth(SECRET).send().await.unwrap();
        let ticket = read(ticket).await.unwrap().body["ticket"].as_str().unwrap().to_owned();
        let mut socket = Socket::dial(&format!("{}/api/socket?ticket={ticket}", url.replace("http", "ws"))).await;
        let entry = |p: &PatchFrame| {
            let (patch_id, digest) = (p.patch_id, p.digest);
            UnconfirmedEntry { patch_id, digest, state: ReportedState::Applied, reason: None }
        };
        let open = OpenDoc {
            doc: DocId::new(DOC).unwrap(),
            incarnation: self.incarnation,
            generation: 0,
            homed: Homed::Server,
            base_seq: self.base_seq,
            unconfirmed: self.applied.iter().map(entry).collect(),
        };
        socket.send(&TabFrame::Hello(self.who.hello(vec![open]))).await;
        socket.welcome().await;
        self.socket = Some(socket);
    }

    /// Takes what comes, until it was handed `n` patches. Questions about what it has not seen are answered so.
    async fn until(&mut self, n: usize) {
        while self.applied.len() < n {
            self.step().await;
        }
    }

    async fn step(&mut self) {
        let socket = self.socket.as_mut().unwrap();
        match socket.next().await {
            Heard::Frame(ServerFrame::Patch(patch)) => {
                let replayed = self.applied.iter().any(|p| p.patch_id == patch.patch_id);
                socket.ack(&patch, replayed).await;
                if !replayed {
                    self.text.push_str("<1>");
                    self.applied.push(patch);
                }
            }
            Heard::Frame(ServerFrame::PatchQuery(queries)) => {
                for query in queries {
                    let seen = self.applied.iter().any(|p| p.patch_id == query.patch_id);
                    let state = if seen { ReportedState::Applied } else { ReportedState::NotSeen };
                    socket.answer(query, state).await;
                }
            }
            Heard::Frame(_) => {}
            Heard::Closed(_) => panic!("the socket closed"),
        }
    }

    async fn save(&self, url: &str) -> Reply {
        let ids: Vec<PatchId> = self.applied.iter().map(|p| p.patch_id).collect();
        let body = self.who.save(self.incarnation, self.base_seq, &self.text, &ids);
        let request = http().put(format!("{url}/api/docs/{DOC}")).bearer_auth(SECRET).body(body.to_string());
        read(request.send().await.unwrap()).await.unwrap()
    }
}

async fn document(url: &str) -> Value {
    let reply = http().get(format!("{url}/api/docs/{DOC}")).bearer_auth(SECRET).send().await.unwrap();
    read(reply).await.unwrap().body
}

async fn known(url: &str) -> Reply {
    let reply = http().get(format!("{url}/api/keys/key-1")).bearer_auth(SECRET).send().await.unwrap();
    read(reply).await.unwrap()
}

async fn arm(url: &str, point: &str) {
    let body = json!({"hold_at": point}).to_string();
    let request =
        http().post(format!("{url}/faults")).bearer_auth(SECRET).header("content-type", "application/json").body(body);
    assert_eq!(request.send().await.unwrap().status(), 200);
}

async fn held(url: &str, point: &str) {
    let held = async {
        let mut again = tokio::time::interval(Duration::from_millis(5));
        let faults = || http().get(format!("{url}/faults")).bearer_auth(SECRET);
        while read(faults().send().await.unwrap()).await.unwrap().body["held_at"] != point {
            again.tick().await;
        }
    };
    tokio::time::timeout(PATIENCE, held).await.unwrap();
}

/// A write that is out with the editor's tab, of a server that stands still at the point.
async fn stopped_at(db: &Place, point: &str) -> (Child, String, Editor, JoinHandle<Option<u16>>) {
    let (child, url) = start(db).await;
    let mut editor = Editor::open(&url).await;
    arm(&url, point).await;
    let url2 = url.clone();
    let sending = tokio::spawn(async move { append(&http(), &url2, 1, 1).await });
    if point == "settled" {
        editor.until(1).await;
    }
    held(&url, point).await;
    (child, url, editor, sending)
}

/// Retries until the write is done or applied, with the tab beside it.
async fn retried(url: &str, editor: &mut Editor) {
    let url = url.to_owned();
    let mut retry = tokio::spawn(async move {
        let mut attempt = 2;
        while append(&http(), &url, 1, attempt).await != Some(200) {
            attempt += 1;
        }
    });
    let settled = async {
        loop {
            tokio::select! {
                done = &mut retry => return done.unwrap(),
                () = editor.step() => {}
            }
        }
    };
    tokio::time::timeout(PATIENCE, settled).await.expect("the retry ends");
}

#[tokio::test]
async fn s05_killed_at_each_point_between_claim_and_answer_of_what_a_tab_is_handed() {
    for (point, state) in
        [("claimed", "claimed"), ("writing", "claimed"), ("committed", "delivered"), ("settled", "acked")]
    {
        let db = Place::new();
        let (mut child, _, mut editor, sending) = stopped_at(&db, point).await;
        child.kill().await.unwrap();
        assert_eq!(sending.await.unwrap(), None, "{point}: it died without an answer");
        assert_eq!(db.row("key-1", "state").as_deref(), Some(state), "{point}");
        // What the dead server handed out is still in the tab's ear.
        if point == "committed" {
            editor.socket.as_mut().unwrap().patch().await;
        }

        let (_child, url) = start(&db).await;
        let before = known(&url).await;
        assert_ne!(before.body.get("seq"), Some(&json!(2)), "{point}: never done without the effect: {before:?}");
        editor.connect(&url).await;
        retried(&url, &mut editor).await;
        assert_eq!(editor.applied.len(), 1, "{point}: one patch, once");
        assert_eq!(db.row("key-1", "state").as_deref(), Some("acked"), "{point}: in memory alone (P2)");
        assert_eq!(editor.save(&url).await.status, 200, "{point}");
        let done = known(&url).await;
        assert_eq!((done.status, &done.body["seq"]), (200, &json!(2)), "{point}");
        let text = document(&url).await["text"].as_str().unwrap().matches("<1>").count();
        assert_eq!(text, 1, "{point}");
    }
}

#[tokio::test]
async fn s07_a_retry_at_another_process_whose_sibling_was_killed_is_told_unknown_until_the_tab_comes() {
    let db = Place::new();
    let (mut child, _, mut editor, sending) = stopped_at(&db, "committed").await;
    // Both were there all along; the tab's socket is the first one's.
    let (_other, url) = start(&db).await;
    child.kill().await.unwrap();
    assert_eq!(sending.await.unwrap(), None);
    let patch = editor.socket.as_mut().unwrap().patch().await;
    let asked = async {
        let mut again = tokio::time::interval(Duration::from_millis(20));
        while known(&url).await.code() != "patch_outcome_unknown" {
            again.tick().await;
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.unwrap();
    assert_eq!(append(&http(), &url, 1, 2).await, Some(409), "never planned again");
    assert_eq!(document(&url).await["seq"], json!(1));
    // It had applied the patch, and its word had no one to go to.
    editor.text.push_str("<1>");
    editor.applied.push(patch);
    editor.connect(&url).await;
    retried(&url, &mut editor).await;
    assert_eq!(editor.save(&url).await.status, 200);
    assert_eq!(document(&url).await["text"].as_str().unwrap().matches("<1>").count(), 1);
}

#[tokio::test]
async fn s07_a_retry_at_another_process_is_forwarded_to_the_one_with_the_socket() {
    let db = Place::new();
    if !db.is_served() {
        // One process owns an embedded database's sockets; the suite runs against a server as well.
        return;
    }
    let (_first, url) = start(&db).await;
    let (_second, other) = start(&db).await;
    let mut editor = Editor::open(&url).await;
    let (url2, other2) = (url.clone(), other.clone());
    let sending = tokio::spawn(async move { append(&http(), &url2, 1, 1).await });
    // It hears of the patch, and does not answer.
    let patch = editor.socket.as_mut().unwrap().patch().await;
    let retry = tokio::spawn(async move { append(&http(), &other2, 1, 2).await });
    let again = editor.socket.as_mut().unwrap().patch().await;
    assert_eq!((again.patch_id, again.delivery), (patch.patch_id, 2), "the same patch, to the same recipient");
    editor.text.push_str("<1>");
    editor.socket.as_mut().unwrap().ack(&again, false).await;
    editor.applied.push(again);
    assert_eq!((sending.await.unwrap(), retry.await.unwrap()), (Some(200), Some(200)), "both hear of it");
    assert_eq!(editor.save(&url).await.status, 200);
    assert_eq!(document(&other).await["text"].as_str().unwrap().matches("<1>").count(), 1);
}
