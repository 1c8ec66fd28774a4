//! A WebSocket server that is moved by hand: each connection, each frame, each end of one.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::CloseFrame;

use crate::frames::{Patch, now_ms, patch_id};
use crate::wait::{PATIENCE, within};

/// The server: hands out each TCP connection in the order they come, unanswered.
#[derive(Debug)]
pub struct RawServer {
    address: SocketAddr,
    incoming: mpsc::UnboundedReceiver<Knock>,
    task: JoinHandle<()>,
}

impl RawServer {
    /// Listens on a free port.
    pub async fn start() -> Self {
        Self::start_at(Ipv4Addr::LOCALHOST.into()).await
    }

    /// The same at this address.
    pub async fn start_at(address: IpAddr) -> Self {
        let listener = TcpListener::bind((address, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let (sender, incoming) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // A small frame must not wait for the acknowledgement of the one before.
                stream.set_nodelay(true).expect("a TCP socket can be told not to gather");
                if sender.send(Knock { stream }).is_err() {
                    return;
                }
            }
        });
        Self { address, incoming, task }
    }

    /// Where sockets go.
    pub fn url(&self) -> String {
        format!("ws://{}/", self.address)
    }

    /// The next connection.
    pub async fn knock(&mut self) -> Knock {
        within("a connection", self.incoming.recv()).await.expect("the listener runs")
    }

    /// The next connection, however long it takes to come.
    pub async fn knock_whenever(&mut self) -> Knock {
        self.incoming.recv().await.expect("the listener runs")
    }

    /// A connection that came and was not looked at yet.
    pub fn waiting(&mut self) -> Option<Knock> {
        self.incoming.try_recv().ok()
    }

    /// The next connection, its handshake answered.
    pub async fn accept(&mut self) -> RawSocket {
        self.knock().await.accept().await
    }

    /// The next connection up to the welcome.
    pub async fn welcome(&mut self) -> (RawSocket, Hello) {
        self.accept_with(json!({})).await
    }

    /// The same with other fields in the welcome.
    pub async fn accept_with(&mut self, changes: Value) -> (RawSocket, Hello) {
        let mut socket = self.accept().await;
        let hello = socket.welcome_with(changes).await;
        (socket, hello)
    }
}

impl Drop for RawServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A connection whose handshake was not answered.
#[derive(Debug)]
pub struct Knock {
    stream: TcpStream,
}

impl Knock {
    /// Answers the handshake.
    pub async fn accept(self) -> RawSocket {
        let accepted = within("a handshake", tokio_tungstenite::accept_async(self.stream)).await;
        RawSocket { socket: accepted.expect("the browser speaks WebSocket"), sizes: Vec::new() }
    }

    /// Answers with an HTTP status instead.
    pub async fn refuse(mut self, status: u16) {
        self.read_request().await;
        let answer = format!("HTTP/1.1 {status} No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        // The browser may be gone already; that is what this is for.
        let _sent = self.stream.write_all(answer.as_bytes()).await;
        let _closed = self.stream.shutdown().await;
    }

    async fn read_request(&mut self) {
        let mut seen = Vec::new();
        let mut chunk = [0; 1024];
        while !seen.windows(4).any(|window| window == b"\r\n\r\n") {
            match within("a request", self.stream.read(&mut chunk)).await {
                Ok(n) if n > 0 => seen.extend_from_slice(&chunk[..n]),
                _ => return,
            }
        }
    }
}

/// What a `hello` said.
#[derive(Clone, Debug)]
pub struct Hello(pub Value);

impl Hello {
    /// The tab's journal.
    pub fn journal_id(&self) -> &str {
        self.0["journal_id"].as_str().expect("hello names its journal")
    }

    /// The tab.
    pub fn tab_id(&self) -> &str {
        self.0["tab_id"].as_str().expect("hello names its tab")
    }

    /// How often the tab's id has been taken.
    pub fn epoch(&self) -> u64 {
        self.0["epoch"].as_u64().expect("hello names its epoch")
    }

    /// The open document's entry.
    pub fn doc(&self, doc: &str) -> &Value {
        let docs = self.0["docs"].as_array().expect("hello lists its documents");
        docs.iter().find(|entry| entry["doc"] == doc).unwrap_or_else(|| panic!("hello does not list {doc}: {}", self.0))
    }

    /// The open document's incarnation.
    pub fn incarnation(&self, doc: &str) -> &str {
        self.doc(doc)["incarnation"].as_str().expect("an open document names its incarnation")
    }

    /// A patch for this tab.
    pub fn frame(&self, patch: &Patch) -> Value {
        patch.frame(self.journal_id(), self.incarnation(&patch.doc))
    }

    /// A question about the n-th patch.
    pub fn query(&self, n: u32, delivery: u64) -> Value {
        json!({ "type": "patch_query", "patches": [{ "patch_id": patch_id(n), "delivery": delivery, "journal_id": self.journal_id() }] })
    }
}

/// One WebSocket, from the server's side.
#[derive(Debug)]
pub struct RawSocket {
    socket: WebSocketStream<TcpStream>,
    /// The bytes of each text frame that came.
    sizes: Vec<usize>,
}

impl RawSocket {
    /// The bytes of the largest text frame that came.
    pub fn largest(&self) -> usize {
        self.sizes.iter().copied().max().unwrap_or(0)
    }

    /// The same without the first, which is `hello`.
    pub fn largest_after_hello(&self) -> usize {
        self.sizes.iter().skip(1).copied().max().unwrap_or(0)
    }

    /// Sends a frame.
    pub async fn send(&mut self, frame: Value) {
        self.send_text(frame.to_string()).await;
    }

    /// Sends text as it is.
    pub async fn send_text(&mut self, text: impl Into<String>) {
        self.socket.send(Message::text(text.into())).await.expect("the socket is open");
    }

    /// Sends a binary frame.
    pub async fn send_binary(&mut self, bytes: Vec<u8>) {
        self.socket.send(Message::binary(bytes)).await.expect("the socket is open");
    }

    /// Queues frames and sends them in one go.
    pub async fn send_all(&mut self, messages: Vec<Message>) {
        for message in messages {
            self.socket.feed(message).await.expect("the socket is open");
        }
        self.socket.flush().await.expect("the socket is open");
    }

    /// The next text frame; nothing once the tab has closed the socket.
    pub async fn next(&mut self) -> Option<Value> {
        Some(serde_json::from_str(&self.next_text().await?).expect("the tab sends JSON"))
    }

    /// The next text frame as it came.
    pub async fn next_text(&mut self) -> Option<String> {
        loop {
            match within("a frame", self.socket.next()).await {
                Some(Ok(Message::Text(text))) => {
                    self.sizes.push(text.len());
                    return Some(text.as_str().to_owned());
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                Some(Ok(_)) => {}
            }
        }
    }

    /// The next frame that is no ping.
    ///
    /// # Panics
    /// Where the socket ends instead.
    pub async fn frame(&mut self) -> Value {
        loop {
            let frame = self.next().await.expect("the tab keeps the socket open");
            if frame["type"] != "ping" {
                return frame;
            }
            let pong = json!({ "type": "pong", "t": frame["t"], "now": now_ms() });
            self.send(pong).await;
        }
    }

    /// The next frame that is no ping, which must be of this type.
    ///
    /// # Panics
    /// Where it is another.
    pub async fn expect(&mut self, kind: &str) -> Value {
        let frame = self.frame().await;
        assert_eq!(frame["type"], kind, "in {frame}");
        frame
    }

    /// What is said of this patch and delivery, the start of its effect left out.
    pub async fn answer(&mut self, n: u32, delivery: u64) -> Value {
        let told = async {
            loop {
                let frame = self.frame().await;
                let is_answer = frame["delivery"] == delivery && frame["patch_id"] == patch_id(n);
                if is_answer && frame["type"] != "patch_start" {
                    return frame;
                }
            }
        };
        within("an answer", told).await
    }

    /// The n-th patch appends this to `d1`, and is acknowledged.
    ///
    /// # Panics
    /// Where it is answered otherwise, or acknowledged again.
    pub async fn applies(&mut self, hello: &Hello, n: u32, text: &str) {
        self.send(hello.frame(&Patch::append(n, "d1", text))).await;
        let ack = self.answer(n, 1).await;
        assert_eq!((&ack["type"], &ack["replayed"]), (&json!("patch_ack"), &json!(false)), "{ack}");
    }

    /// Passes over frames until one of this type.
    pub async fn skip_to(&mut self, kind: &str) -> Value {
        loop {
            let frame = self.frame().await;
            if frame["type"] == kind {
                return frame;
            }
        }
    }

    /// Reads `hello` and answers with `welcome`: every document is at version 1.
    pub async fn welcome(&mut self) -> Hello {
        self.welcome_with(json!({})).await
    }

    /// The same with other fields in the welcome.
    pub async fn welcome_with(&mut self, changes: Value) -> Hello {
        let hello = Hello(self.expect("hello").await);
        let opened: Vec<Value> = hello.0["docs"].as_array().into_iter().flatten().map(opened).collect();
        let mut welcome = json!({
            "type": "welcome", "protocol": 1, "boot_id": patch_id(0xb007), "conn_id": patch_id(0xc0), "now": now_ms(),
            "heartbeat_ms": 15_000, "max_frame_bytes": 1 << 20, "docs": opened, "features": [],
        });
        for (name, value) in changes.as_object().into_iter().flatten() {
            welcome[name] = value.clone();
        }
        self.send(welcome).await;
        hello
    }

    /// Reads an `open` and answers with `opened`.
    pub async fn opened(&mut self) -> Value {
        let open = self.expect("open").await;
        let mut answer = opened(&open);
        answer["type"] = "opened".into();
        self.send(answer).await;
        open
    }

    /// Asks about a patch that never was and waits for the answer: everything sent before has been read by the tab.
    pub async fn settle(&mut self, journal_id: &str) {
        let id = patch_id(0xffff_ffff);
        let query =
            json!({ "type": "patch_query", "patches": [{ "patch_id": id, "delivery": 1, "journal_id": journal_id }] });
        self.send(query).await;
        let state = self.expect("patch_state").await;
        assert_eq!(state["patch_id"], id, "nothing else was left to be answered: {state}");
    }

    /// The same where a handler was started before.
    pub async fn settle_after_start(&mut self, journal_id: &str) {
        self.expect("patch_start").await;
        self.settle(journal_id).await;
    }

    /// Closes with a code and waits for the tab's end of it.
    pub async fn close(mut self, code: u16) {
        let frame = CloseFrame { code: code.into(), reason: "".into() };
        let _sent = self.socket.close(Some(frame)).await;
        while let Some(Ok(_)) = within("the close to be answered", self.socket.next()).await {}
    }

    /// Ends the TCP connection with a reset, as a crash of either end does.
    pub fn reset(self) {
        // A linger of nothing makes the close a reset.
        self.socket.get_ref().set_zero_linger().expect("a TCP socket can be told not to linger");
    }

    /// Waits until the tab has closed the socket; says with which code.
    pub async fn closed(&mut self) -> Option<u16> {
        loop {
            match tokio::time::timeout(PATIENCE, self.socket.next()).await.expect("the tab closes the socket") {
                Some(Ok(Message::Close(frame))) => return frame.map(|frame| frame.code.into()),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return None,
            }
        }
    }
}

fn opened(open: &Value) -> Value {
    json!({ "doc": open["doc"], "incarnation": open["incarnation"], "seq": open["base_seq"] })
}
