//! A tab by script: it says what a test has it say, and shows what it is told.

use futures_util::{SinkExt, StreamExt};
use patchkeep_core::frame::{
    AckFrame, ConfirmedAs, Hello, Homed, OpenDoc, PatchFrame, QueryEntry, Reason, RejectCode, ReportedState,
    ServerFrame, TabFrame, UnconfirmedEntry, Welcome,
};
use patchkeep_core::ids::{ContextId, DocId, Incarnation, JournalId, PatchId, TabId};
use patchkeep_server::Server;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::world::{Edit, PATIENCE, Reply, TOKEN, World, fresh};

type Sink = futures_util::stream::SplitSink<WebSocketStream<MaybeTlsStream<TcpStream>>, Message>;

/// What comes out of a socket.
#[derive(Debug)]
pub enum Heard {
    Frame(ServerFrame),
    Closed(Option<u16>),
}

/// Who a tab is; outlives its sockets.
#[derive(Clone, Debug)]
pub struct Identity {
    pub token: &'static str,
    pub principal: String,
    pub tab_id: TabId,
    pub epoch: u64,
    pub context_id: ContextId,
    pub journal_id: JournalId,
}

impl Identity {
    pub fn new() -> Self {
        Self {
            token: TOKEN,
            principal: "ws/user".into(),
            tab_id: TabId(fresh()),
            epoch: 1,
            context_id: ContextId(fresh()),
            journal_id: JournalId(fresh()),
        }
    }

    /// The same tab after a reload: the next epoch, another load of the page.
    pub fn reloaded(&self) -> Self {
        Self { epoch: self.epoch + 1, context_id: ContextId(fresh()), ..self.clone() }
    }

    /// What a tab saves (W1).
    pub fn save(&self, incarnation: Incarnation, base_seq: u64, text: &str, patch_ids: &[PatchId]) -> Value {
        json!({
            "text": text,
            "tab_id": self.tab_id.to_string(),
            "epoch": self.epoch,
            "incarnation": incarnation.to_string(),
            "base_seq": base_seq,
            "patch_ids": patch_ids.iter().map(ToString::to_string).collect::<Vec<_>>(),
        })
    }

    pub fn hello(&self, docs: Vec<OpenDoc>) -> Hello {
        Hello {
            protocol: 1,
            principal: self.principal.clone(),
            tab_id: self.tab_id,
            epoch: self.epoch,
            context_id: self.context_id,
            journal_id: self.journal_id,
            docs,
            adopted: Vec::new(),
            visible: true,
            features: Vec::new(),
        }
    }
}

/// A document as a tab has it open, at home on the server, with nothing to report.
pub fn open_doc(doc: &str, incarnation: Incarnation) -> OpenDoc {
    let doc = DocId::new(doc).unwrap();
    OpenDoc { doc, incarnation, generation: 0, homed: Homed::Server, base_seq: 1, unconfirmed: Vec::new() }
}

/// The same with a local draft.
pub fn elsewhere(doc: &str, incarnation: Incarnation) -> OpenDoc {
    OpenDoc { homed: Homed::Elsewhere, ..open_doc(doc, incarnation) }
}

pub fn listed(mut open: OpenDoc, patch: &PatchFrame, state: ReportedState) -> OpenDoc {
    let entry = UnconfirmedEntry { patch_id: patch.patch_id, digest: patch.digest, state, reason: None };
    open.unconfirmed.push(entry);
    open
}

pub fn incarnation() -> Incarnation {
    Incarnation(fresh())
}

/// One socket.
pub struct Socket {
    /// What its pings say.
    pub visible: bool,
    sink: Sink,
    heard: mpsc::UnboundedReceiver<Heard>,
    reading: tokio::task::JoinHandle<()>,
}

impl Socket {
    pub async fn connect(world: &World, token: &str) -> Self {
        let ticket = world.post("/api/tickets", token, &json!({})).await.body["ticket"].as_str().unwrap().to_owned();
        Self::with_ticket(world, &ticket).await
    }

    /// Connects to a server beside the world's own.
    pub async fn at(world: &World, server: &Server, token: &str) -> Self {
        let ticket = world.post_to(server, "/api/tickets", token, &json!({})).await.body["ticket"].clone();
        Self::dial(&format!("ws://{}/api/socket?ticket={}", server.addr(), ticket.as_str().unwrap())).await
    }

    pub async fn with_ticket(world: &World, ticket: &str) -> Self {
        Self::dial(&format!("ws://{}/api/socket?ticket={ticket}", world.server.addr())).await
    }

    /// Connects to a server of whatever process, with a ticket in the URL.
    pub async fn dial(url: &str) -> Self {
        let (stream, _) = tokio_tungstenite::connect_async(url).await.unwrap();
        let (sink, mut stream) = stream.split();
        let (tell, heard) = mpsc::unbounded_channel();
        let reading = tokio::spawn(async move {
            loop {
                let heard = match stream.next().await {
                    Some(Ok(Message::Text(text))) => Heard::Frame(ServerFrame::decode(&text).unwrap()),
                    Some(Ok(Message::Close(frame))) => Heard::Closed(frame.map(|f| f.code.into())),
                    Some(Ok(_)) => continue,
                    Some(Err(_)) | None => Heard::Closed(None),
                };
                let over = matches!(heard, Heard::Closed(_));
                if tell.send(heard).is_err() || over {
                    return;
                }
            }
        });
        Self { visible: true, sink, heard, reading }
    }

    pub async fn send(&mut self, frame: &TabFrame) {
        self.send_text(&frame.encode()).await;
    }

    /// Says something on a socket that may be closed by now.
    pub async fn try_send(&mut self, frame: &TabFrame) {
        let _closed = self.sink.send(Message::Text(frame.encode().into())).await;
    }

    pub async fn send_text(&mut self, text: &str) {
        self.send_message(Message::Text(text.into())).await;
    }

    pub async fn send_message(&mut self, message: Message) {
        self.sink.send(message).await.unwrap();
    }

    pub async fn next(&mut self) -> Heard {
        let next = tokio::time::timeout(PATIENCE, self.heard.recv()).await.expect("the server says something");
        next.unwrap_or(Heard::Closed(None))
    }

    pub async fn frame(&mut self) -> ServerFrame {
        match self.next().await {
            Heard::Frame(frame) => frame,
            Heard::Closed(code) => panic!("the socket was closed: {code:?}"),
        }
    }

    pub async fn closed(&mut self) -> Option<u16> {
        loop {
            if let Heard::Closed(code) = self.next().await {
                return code;
            }
        }
    }

    pub async fn welcome(&mut self) -> Welcome {
        match self.frame().await {
            ServerFrame::Welcome(welcome) => welcome,
            other => panic!("not a welcome: {other:?}"),
        }
    }

    /// The server refuses the connection, and closes it.
    pub async fn rejected(&mut self) -> (RejectCode, Option<u16>) {
        match self.frame().await {
            ServerFrame::Reject(code) => (code, self.closed().await),
            other => panic!("a reject was due: {other:?}"),
        }
    }

    pub async fn patch(&mut self) -> PatchFrame {
        match self.frame().await {
            ServerFrame::Patch(patch) => patch,
            other => panic!("not a patch: {other:?}"),
        }
    }

    pub async fn query(&mut self) -> QueryEntry {
        match self.frame().await {
            ServerFrame::PatchQuery(entries) if entries.len() == 1 => entries[0],
            other => panic!("not one question: {other:?}"),
        }
    }

    pub async fn confirmed(&mut self, patch_id: PatchId, as_: ConfirmedAs) {
        assert_eq!(self.frame().await, ServerFrame::PatchConfirmed(vec![(patch_id, as_)]));
    }

    pub async fn opened(&mut self) -> (Incarnation, u64) {
        match self.frame().await {
            ServerFrame::Opened { incarnation, seq, .. } => (incarnation, seq),
            other => panic!("not opened: {other:?}"),
        }
    }

    /// Everything said before this was handled, and nothing came of it that the tab would have been told.
    pub async fn quiet(&mut self) {
        let t = self.ping().await;
        match self.frame().await {
            ServerFrame::Pong { t: back, .. } if back == t => {}
            other => panic!("the server said something: {other:?}"),
        }
    }

    async fn ping(&mut self) -> u64 {
        let t = u64::from(uuid::Uuid::new_v4().as_fields().0);
        self.send(&TabFrame::Ping { t, visible: self.visible }).await;
        t
    }

    pub async fn ack(&mut self, patch: &PatchFrame, replayed: bool) {
        let PatchFrame { patch_id, delivery, .. } = *patch;
        self.send(&TabFrame::PatchAck(AckFrame { patch_id, delivery, replayed, applied_at: 1, result: None })).await;
    }

    pub async fn refuse(&mut self, patch: &PatchFrame, reason: Reason) {
        let PatchFrame { patch_id, delivery, .. } = *patch;
        self.send(&TabFrame::PatchRefuse { patch_id, delivery, reason, detail: None }).await;
    }

    pub async fn unknown(&mut self, patch: &PatchFrame) {
        let PatchFrame { patch_id, delivery, .. } = *patch;
        self.send(&TabFrame::PatchUnknown { patch_id, delivery, detail: None }).await;
    }

    pub async fn answer(&mut self, query: QueryEntry, state: ReportedState) {
        let QueryEntry { patch_id, delivery, .. } = query;
        self.send(&TabFrame::PatchState { patch_id, delivery, state, reason: None }).await;
    }

    /// The connection is gone, without a word.
    pub fn drop_dead(self) {
        self.reading.abort();
    }
}

/// A tab that said hello and has one document open.
pub struct Tab {
    pub who: Identity,
    pub incarnation: Incarnation,
    pub socket: Socket,
}

impl Tab {
    /// Opens d1, at home on the server.
    pub async fn open(world: &World) -> Self {
        let incarnation = incarnation();
        Self::hello(world, Identity::new(), open_doc("d1", incarnation)).await
    }

    pub async fn hello(world: &World, who: Identity, open: OpenDoc) -> Self {
        Self::hello_at(world, &world.server, who, open).await
    }

    pub async fn hello_at(world: &World, server: &Server, who: Identity, open: OpenDoc) -> Self {
        let mut socket = Socket::at(world, server, who.token).await;
        let incarnation = open.incarnation;
        socket.send(&TabFrame::Hello(who.hello(vec![open]))).await;
        let welcome = socket.welcome().await;
        assert_eq!(welcome.docs.first().map(|(_, opened, _)| *opened), Some(incarnation));
        Self { who, incarnation, socket }
    }

    /// Takes what this edit is handed out as, and acknowledges it; its caller hears that it is applied.
    pub async fn applies(&mut self, world: &World, edit: &Edit) -> PatchFrame {
        let sending = world.sending(edit);
        let patch = self.socket.patch().await;
        self.socket.ack(&patch, false).await;
        self.socket.confirmed(patch.patch_id, ConfirmedAs::Acked).await;
        assert_eq!(sending.await.unwrap().unwrap().body["applied_pending_flush"], json!(true));
        patch
    }

    pub async fn save(&self, world: &World, base_seq: u64, text: &str, patch_ids: &[PatchId]) -> Reply {
        let body = self.who.save(self.incarnation, base_seq, text, patch_ids);
        world.put("d1", self.who.token, &body).await.expect("an answer")
    }
}
