//! A session whose socket and host are JavaScript of the test's own.
//!
//! The host is an object `host` with the functions of `Sink`; a test overrides some of them. `host.engine` is the
//! session, `host.log` what it was told, `host.sent` what went out. A function that throws is logged as `thrown: …`, unless
//! `host.raw` is set.

use js_sys::{Array, Function, Promise, Reflect};
use patchkeep_core::digest;
use patchkeep_core::frame::{PatchFrame, ServerFrame, Welcome};
use patchkeep_core::ids::{BootId, ConnId, DocId, PatchId, Uuid};
use patchkeep_core::json;
use patchkeep_wasm::session::{EngineSession, open_session};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;

/// A session under test.
pub struct Tab {
    host: JsValue,
}

const HOST: &str = "
    class Socket extends EventTarget {
      constructor(url) { super(); this.url = url; this.readyState = 0; host.socket = this; host.sockets += 1; }
      send(text) { host.sent.push(text); }
      close(code) { this.readyState = 3; host.closed.push(code); }
    }
    const host = {
      sockets: 0, sent: [], closed: [], log: [], binaries: [], text: '',
      Socket,
      guarded(name) {
        const own = (...args) => this[name](...args);
        if (this.raw) return own;
        return (...args) => {
          try { return own(...args); } catch (error) { host.log.push('thrown: ' + error); }
        };
      },
      sink() {
        return Object.fromEntries(
          ['apply', 'unconfirmedEdits', 'reconcile', 'notice', 'binary', 'url'].map((n) => [n, this.guarded(n)]));
      },
      apply(call, id, doc, incarnation, delivery, body) {
        this.during?.(call, doc, incarnation);
        this.text += JSON.parse(body).text;
        this.engine.handlerAnswered(call, 1);
      },
      unconfirmedEdits() { return false; },
      reconcile(call) { this.engine.reconcileAnswered(call, 3); },
      notice(kind, json) { this.log.push(kind + ' ' + json); this.onNotice?.(kind, json); },
      binary(data) { this.binaries.push(data); },
      url() { return Promise.resolve('ws://127.0.0.1/socket'); },
      tick() { return new Promise((done) => setTimeout(done)); },
    };
    return host";

impl Tab {
    /// Opens a session whose journal is in memory, connects it, and opens the document `d`.
    pub async fn live(script: &str) -> Self {
        let tab = Self::open("memory", script).await;
        tab.welcome().await;
        tab.run("host.doc = host.engine.openDocument('d', 1, false, false, false, false)").await;
        tab.opened("host.doc", "d").await;
        tab
    }

    /// The server has heard of the document that `handle` holds.
    pub async fn opened(&self, handle: &str, doc: &str) {
        let incarnation = self.run(&("return ".to_owned() + handle + ".incarnation()")).await.as_string();
        let incarnation = incarnation.and_then(|id| id.parse().ok()).expect("the document is open");
        self.receive(&ServerFrame::Opened { doc: DocId::new(doc).expect("an id"), incarnation, seq: 1 }).await;
    }

    /// Opens a session; `script` changes `host` before.
    pub async fn open(durability: &str, script: &str) -> Self {
        let principal = "test/".to_owned() + &patchkeep_web::random::uuid().to_string();
        Self::open_as(durability, script, &principal).await
    }

    /// Opens a session of a principal, which is `host.principal`.
    pub async fn open_as(durability: &str, script: &str, principal: &str) -> Self {
        let host = Function::new_no_args(HOST).call0(&JsValue::NULL).expect("the host's script runs");
        let tab = Self { host };
        tab.run(script).await;
        let socket = Reflect::get(&tab.host, &"Socket".into()).expect("the host has a socket");
        Reflect::set(&js_sys::global(), &"WebSocket".into(), &socket).expect("WebSocket can be replaced");
        let sink = tab.run("return host.sink()").await;
        Reflect::set(&tab.host, &"principal".into(), &principal.into()).expect("the host takes it");
        let session =
            open_session(sink.unchecked_into(), principal.into(), durability.into(), 5_000.0, 30_000.0, "blob".into());
        let session: EngineSession = session.await.expect("the session opens");
        Reflect::set(&tab.host, &"engine".into(), &session.into()).expect("the host takes it");
        tab.run("return host.tick()").await;
        tab
    }

    /// Runs a script on `host`, and waits where it returns a promise.
    pub async fn run(&self, script: &str) -> JsValue {
        let run = Function::new_with_args("host", script);
        let returned = run.call1(&JsValue::NULL, &self.host);
        let returned = returned.unwrap_or_else(|error| panic!("{script}: {error:?}"));
        match returned.dyn_into::<Promise>() {
            Ok(promise) => JsFuture::from(promise).await.unwrap_or_else(|error| panic!("{script}: {error:?}")),
            Err(value) => value,
        }
    }

    /// What a script returns, as JSON text.
    pub async fn json(&self, script: &str) -> String {
        let value = self.run(script).await;
        js_sys::JSON::stringify(&value).ok().and_then(|text| text.as_string()).unwrap_or_default()
    }

    /// The socket opens and the server says `welcome`.
    pub async fn welcome(&self) {
        self.run("host.socket.readyState = 1; host.socket.onopen()").await;
        self.receive(&ServerFrame::Welcome(Welcome {
            protocol: 1,
            boot_id: BootId(Uuid::v4(1)),
            conn_id: ConnId(Uuid::v4(2)),
            now: js_sys::Date::now() as u64,
            heartbeat_ms: 15_000,
            max_frame_bytes: 1 << 20,
            docs: Vec::new(),
            features: Vec::new(),
        }))
        .await;
    }

    /// The server hands out a patch that appends `text` to the document `d`.
    pub async fn patch(&self, n: u128, text: &str, guarded: bool) {
        let info = self.run("return host.engine.info()").await.as_string().expect("a text");
        let info = json::parse(&info).expect("JSON");
        let journal_id = info.field("journal_id").and_then(|id| id.as_str()?.parse().ok()).expect("a journal id");
        let incarnation = self.run("return host.doc.incarnation()").await.as_string().expect("the document is open");
        let doc = DocId::new("d").expect("an id");
        let mut body = String::from("{\"kind\":\"text.append\",\"text\":");
        json::write_string(&mut body, text);
        body.push('}');
        self.receive(&ServerFrame::Patch(PatchFrame {
            patch_id: PatchId(Uuid::v4(n)),
            delivery: 1,
            journal_id,
            incarnation: incarnation.parse().expect("an incarnation"),
            digest: digest::patch(&doc, &body).expect("a digest"),
            doc,
            body: body.into(),
            expires_at: js_sys::Date::now() as u64 + 60_000,
            guarded,
            base_seq: None,
        }))
        .await;
    }

    /// A frame arrives, in a task of its own.
    pub async fn receive(&self, frame: &ServerFrame) {
        let socket = self.run("return host.socket").await;
        let event = js_sys::Object::new();
        Reflect::set(&event, &"data".into(), &frame.encode().into()).expect("a plain object");
        let on_message = Reflect::get(&socket, &"onmessage".into()).expect("the socket is read");
        if let Some(on_message) = on_message.dyn_ref::<Function>() {
            on_message.call1(&socket, &event).expect("the frame is taken in");
        }
    }

    /// The types of what was sent about patches, `patch_` left out.
    pub async fn answers(&self) -> Vec<String> {
        let sent = self.run("return host.sent.map((text) => JSON.parse(text).type)").await;
        let types = Array::from(&sent).iter().filter_map(|name| name.as_string()).collect::<Vec<_>>();
        types.iter().filter_map(|name| name.strip_prefix("patch_").map(Into::into)).collect()
    }

    /// Nothing threw, here or inside the module.
    pub async fn assert_calm(&self) {
        let thrown = self.json("return host.log.filter((entry) => entry.startsWith('thrown'))").await;
        assert_eq!(thrown, "[]");
    }

    pub async fn close(self) {
        self.run("return host.engine.close()").await;
    }
}
