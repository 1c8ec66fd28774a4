//! The tabs' socket (§3).

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Query, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use patchkeep_core::frame::{Hello, MAX_HELLO_BYTES, MAX_UNCONFIRMED, OpenDoc, RejectCode, ServerFrame, TabFrame, cut};
use patchkeep_core::ids::{ConnId, DocId};
use serde::Deserialize;

use super::extras::{MANY_SOCKETS, RETRY_MS};
use crate::app::{App, Boot};
use crate::decide::{Answer, too_many};
use crate::hub::CLOSE_POLICY;
use crate::principal::Principal;
use crate::service::{self, Session};
use crate::store::{Store, StoreError, fresh_id};
use crate::way_out::{Outgoing, Queue, way_out};

/// How long a socket may stay open without a word about who it is.
const HELLO_WITHIN: Duration = Duration::from_secs(10);
/// What is read off a socket at most, in bytes, before it is closed: more than a frame's limit, so that a frame over
/// the limit is refused and the socket kept.
const READ_FACTOR: usize = 8;

/// How many heartbeats may stay out before a socket is given up.
const MISSED_HEARTBEATS: u64 = 3;

/// How much of what a stranger wrote goes into a line of the log.
const LOGGED_BYTES: usize = 64;

/// Who the socket is for.
#[derive(Deserialize)]
pub(super) struct Admission {
    #[serde(default)]
    ticket: String,
}

/// `GET /api/socket?ticket=…`.
pub(super) async fn socket<S: Store>(
    State(app): State<Arc<App<S>>>,
    Query(admission): Query<Admission>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    if !origin_allowed(&app.config.origins, &headers) {
        return Answer::error(403, "origin_not_allowed", "pages of this origin may not connect").into_response();
    }
    let boot = app.boot();
    // A bad ticket is told on the socket: a close code before the handshake never reaches a page (B16).
    let principal = boot.tickets.redeem(&admission.ticket);
    let place = principal.as_ref().map(|principal| boot.sockets.enter(principal, app.config.max_sockets));
    let Some(place) = place.map_or(Some(None), |place| place.map(Some)) else {
        return too_many("too_many_sockets", MANY_SOCKETS, RETRY_MS).into_response();
    };
    let most = app.config.max_frame_bytes.saturating_mul(READ_FACTOR);
    upgrade.max_message_size(most).max_frame_size(most).on_upgrade(move |socket| async move {
        let _held_until_it_closes = place;
        tokio::select! {
            () = serve(&app, &boot, principal, socket) => {}
            () = boot.over() => {}
        }
    })
}

fn origin_allowed(origins: &[String], headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else { return true };
    let own = headers.get(header::HOST).is_some_and(|host| {
        let host = host.as_bytes();
        origin.as_bytes().strip_prefix(b"http://").or_else(|| origin.as_bytes().strip_prefix(b"https://")) == Some(host)
    });
    own || origins.iter().any(|allowed| allowed.as_bytes() == origin.as_bytes())
}

async fn serve<S: Store>(app: &Arc<App<S>>, boot: &Arc<Boot>, principal: Option<Principal>, socket: WebSocket) {
    let (mut sink, mut frames) = socket.split();
    let Some(principal) = principal else { return reject(&mut sink, RejectCode::Unauthorized).await };
    let first = tokio::time::timeout(HELLO_WITHIN, first_hello(app, &mut frames)).await;
    let Ok(Some(hello)) = first else { return };
    if hello.docs.len() > app.config.max_open_docs {
        tracing::warn!(docs = hello.docs.len(), "more documents than a socket may have open");
        return end(&mut sink, CLOSE_POLICY).await;
    }
    let (out, queue) = way_out(app.config.max_queue_bytes);
    let mut is_cut = queue.is_cut();
    let session = match service::hello(app, boot, principal, ConnId(fresh_id()), hello, out).await {
        Ok(Ok(session)) => session,
        Ok(Err(code)) => return reject(&mut sink, code).await,
        Err(error) => return tracing::error!(%error, "a hello failed"),
    };
    tracing::info!(conn = %session.conn, tab = %session.tab_id, principal = %session.principal, "a tab is here");
    tokio::select! {
        () = write(app, sink, queue) => {}
        () = read(app, boot, &session, &mut frames) => {}
        // An error means that nobody writes to it any more: it was replaced, and its last word is on its way.
        Ok(_) = is_cut.wait_for(|cut| *cut) => {}
    }
    service::gone(app, boot, &session).await;
    tracing::info!(conn = %session.conn, tab = %session.tab_id, "a tab is gone");
}

async fn first_hello<S: Store>(app: &App<S>, frames: &mut SplitStream<WebSocket>) -> Option<Hello> {
    // What comes before `welcome` is told keeps to a limit that nobody had to be told.
    let most = app.config.max_frame_bytes.min(MAX_HELLO_BYTES);
    loop {
        match next_frame(most, frames).await? {
            // The tab would wait for an answer to it; it says less on its next connection.
            Err(Unread::TooLarge) => return None,
            Ok(TabFrame::Hello(mut hello)) => {
                hello.docs.retain(|open| is_named(&open.doc));
                let over = hello.docs.iter().any(lists_too_many);
                return if over { None } else { Some(hello) };
            }
            _ => tracing::warn!("a frame before hello"),
        }
    }
}

/// Why a frame was not read.
enum Unread {
    TooLarge,
    Other,
}

/// The next text frame, or that it could not be read: one that is malformed, too large, binary or unknown costs nothing
/// but itself.
async fn next_frame(most: usize, frames: &mut SplitStream<WebSocket>) -> Option<Result<TabFrame, Unread>> {
    let message = match frames.next().await? {
        Ok(message) => message,
        Err(error) => {
            tracing::debug!(%error, "a socket failed");
            return None;
        }
    };
    Some(match message {
        Message::Text(text) if text.len() > most => {
            tracing::warn!(bytes = text.len(), "a frame over the limit");
            Err(Unread::TooLarge)
        }
        Message::Text(text) => match TabFrame::decode(&text) {
            Ok(frame) => Ok(frame),
            Err(error) => {
                let frame_type = error.frame_type.as_deref().map(|name| cut(name, LOGGED_BYTES));
                tracing::warn!(%error, ?frame_type, "a frame that cannot be read");
                Err(Unread::Other)
            }
        },
        Message::Binary(bytes) => {
            tracing::warn!(bytes = bytes.len(), "a binary frame");
            Err(Unread::Other)
        }
        Message::Close(_) => return None,
        Message::Ping(_) | Message::Pong(_) => Err(Unread::Other),
    })
}

/// What is no id names no document (§1): nothing can be handed to it, and it costs nothing but itself.
fn is_named(doc: &DocId) -> bool {
    let named = service::is_document_id(doc);
    if !named {
        tracing::warn!(doc = ?doc, "not an id of a document");
    }
    named
}

/// A list over the protocol's limit is not read in part: what was left out would be silence, and silence may be taken
/// for proof (R7). The socket that carried it is closed.
fn lists_too_many(open: &OpenDoc) -> bool {
    let many = open.unconfirmed.len() > MAX_UNCONFIRMED;
    if many {
        tracing::warn!(doc = %open.doc, entries = open.unconfirmed.len(), "a list over the limit");
    }
    many
}

async fn read<S: Store>(app: &Arc<App<S>>, boot: &Arc<Boot>, session: &Session, frames: &mut SplitStream<WebSocket>) {
    // A tab pings with each heartbeat; one that is frozen, asleep or unplugged must not be elected any more (S5).
    let silence = Duration::from_millis(app.config.heartbeat_ms.saturating_mul(MISSED_HEARTBEATS));
    loop {
        let frame = match tokio::time::timeout(silence, next_frame(app.config.max_frame_bytes, frames)).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(_))) => continue,
            Ok(None) => return,
            Err(_) => return tracing::info!(conn = %session.conn, "no heartbeat"),
        };
        if matches!(&frame, TabFrame::Open(open) if lists_too_many(open)) {
            return;
        }
        if let Err(error) = handle(app, boot, session, frame).await {
            // What the frame said is lost like the socket; the tab tells it again with its next hello (R1).
            return tracing::error!(%error, conn = %session.conn, "a frame could not be recorded");
        }
    }
}

async fn handle<S: Store>(
    app: &Arc<App<S>>,
    boot: &Arc<Boot>,
    session: &Session,
    frame: TabFrame,
) -> Result<(), StoreError> {
    match &frame {
        TabFrame::Open(OpenDoc { doc, .. }) | TabFrame::Close { doc, .. } if !is_named(doc) => return Ok(()),
        // These ask the database themselves whether they count.
        TabFrame::Open(_)
        | TabFrame::Close { .. }
        | TabFrame::PatchAck(_)
        | TabFrame::PatchRefuse { .. }
        | TabFrame::PatchUnknown { .. }
        | TabFrame::PatchState { .. } => {}
        TabFrame::Ping { t, visible } => {
            // At once: a tab judges deadlines by it (J2), and that it may be deaf it learns after it.
            boot.hub.send(session.tab_id, &session.conn, &ServerFrame::Pong { t: *t, now: app.now() });
            check_current(app, boot, session, Some(*visible)).await;
        }
        _ => check_current(app, boot, session, None).await,
    }
    match frame {
        TabFrame::Hello(_) => tracing::warn!(conn = %session.conn, "a second hello"),
        TabFrame::Open(open) => service::open(app, boot, session, open).await?,
        TabFrame::Close { doc, incarnation } => service::close(app, boot, session, doc, incarnation).await?,
        TabFrame::Ping { .. } => {}
        TabFrame::PatchStart { patch_id, delivery } => tracing::debug!(%patch_id, delivery, "started"),
        TabFrame::PatchAck(ack) if app.faults.take_ack() => {
            tracing::info!(patch_id = %ack.patch_id, "fault switch: this acknowledgement is lost");
            boot.waiters.lose(ack.patch_id);
        }
        TabFrame::PatchAck(_)
        | TabFrame::PatchRefuse { .. }
        | TabFrame::PatchUnknown { .. }
        | TabFrame::PatchState { .. } => service::report(app, boot, session, frame).await?,
        TabFrame::Unknown => tracing::debug!(conn = %session.conn, "an unknown frame type"),
    }
    Ok(())
}

/// R5. A database that does not answer says nothing about a connection; the next frame asks again.
async fn check_current<S: Store>(app: &Arc<App<S>>, boot: &Arc<Boot>, session: &Session, shown: Option<bool>) {
    if let Err(error) = service::check_current(app, boot, session, shown).await {
        tracing::warn!(%error, conn = %session.conn, "whether this connection counts is not known");
    }
}

async fn write<S: Store>(app: &App<S>, mut sink: SplitSink<WebSocket, Message>, mut queue: Queue) {
    while let Some(outgoing) = queue.next().await {
        match outgoing {
            Outgoing::Frame(text) => {
                let delay = app.faults.show().delay_ms;
                if delay > 0 {
                    tokio::time::sleep(Duration::from_millis(delay)).await;
                }
                let bytes = text.len();
                if sink.send(Message::Text(text.into())).await.is_err() {
                    return;
                }
                queue.sent(bytes);
            }
            Outgoing::Close(code) => return end(&mut sink, code).await,
        }
    }
}

async fn reject(sink: &mut SplitSink<WebSocket, Message>, code: RejectCode) {
    tracing::warn!(code = code.as_str(), "a connection is refused");
    let frame = ServerFrame::Reject(code).encode();
    if sink.send(Message::Text(frame.into())).await.is_ok() {
        end(sink, code.close_code()).await;
    }
}

async fn end(sink: &mut SplitSink<WebSocket, Message>, code: u16) {
    let close = CloseFrame { code, reason: "".into() };
    // The other side may be gone first; there is nobody left to tell.
    let _gone = sink.send(Message::Close(Some(close))).await;
}
