//! The socket: when to connect, what the end of one means, and how frames go out within the server's limit.

use super::document::{CallKind, Lane, Owed, Running};
use super::{ConnectionState, Notice, Output, Session, SocketEvent, Status};
use crate::error::ProblemCode;
use crate::frame::{MAX_DETAIL_BYTES, RejectCode, TabFrame, cut};
use crate::ids::{JournalId, Uuid};
use crate::storage::{Durability, StorageFault};
use crate::tab::{Due, Phase};
use crate::time::Now;

/// Whether the page sleeps, and what waits for it to be awake again (T4).
#[derive(Debug, Default)]
pub(super) struct Sleep {
    is_asleep: bool,
    /// Epochs being read: what an earlier one says of a later sleep is nothing.
    reads: u32,
    is_reconnect_wanted: bool,
}

impl Sleep {
    const fn is_over(&self) -> bool {
        !self.is_asleep && self.reads == 0
    }
}

/// The socket is not needed any more.
pub(super) const CLOSE_NORMAL: u16 = 1000;
/// The socket is too slow or silent.
const CLOSE_SILENT: u16 = 4408;
/// The peer found a frame too large (RFC 6455).
const CLOSED_TOO_LARGE: u16 = 1009;

impl Session {
    pub(super) fn run_connection(&mut self, now: Now, random: [u128; 2]) {
        if self.status != Status::Live {
            return;
        }
        while let Some(due) = self.connection.due(now) {
            match due {
                Due::Connect => {
                    if let Some(conn) = self.connection.socket() {
                        self.outputs.push_back(Output::Connect { conn });
                        self.notify(Notice::Connection(ConnectionState::Connecting));
                    }
                }
                Due::Ping(t) => self.ping(t),
                Due::GiveUp => {
                    self.close_socket(CLOSE_SILENT);
                    self.connection_lost(now, random[1]);
                }
            }
        }
    }

    pub(super) fn on_socket(&mut self, now: Now, random: [u128; 2], conn: u64, event: SocketEvent) {
        // Events of an earlier socket, or of an earlier life of the page, are nothing (T4).
        if self.connection.socket() != Some(conn) {
            if event == SocketEvent::Opened {
                self.outputs.push_back(Output::CloseSocket { conn, code: CLOSE_NORMAL });
            }
            return;
        }
        match event {
            SocketEvent::Opened if matches!(self.connection.phase, Phase::Connecting { .. }) => {
                self.connection.greeted(now);
                self.say_hello();
            }
            SocketEvent::Opened => {}
            SocketEvent::Text(text) => {
                self.connection.heard();
                self.on_frame(now, random, conn, &text);
            }
            SocketEvent::TooLong(units) => {
                self.connection.heard();
                let detail = units.to_string() + " UTF-16 units, far over the limit: not read";
                self.problem(ProblemCode::FrameTooLarge, None, detail);
            }
            SocketEvent::Closed { code } => self.on_closed(now, random, code),
        }
    }

    pub(super) fn ping(&mut self, t: u64) {
        let visible = self.visible;
        self.send(TabFrame::Ping { t, visible });
    }

    /// The server hears of it at once: the election prefers pages that can be seen (S5). One that can be looked at again
    /// does not wait for its next attempt.
    pub(super) fn on_visible(&mut self, now: Now, visible: bool) {
        if std::mem::replace(&mut self.visible, visible) == visible {
            return;
        }
        if let Some(t) = self.connection.ping_now(now) {
            self.ping(t);
        }
        if visible {
            self.connection.encouraged(now);
        }
    }

    /// A close code alone refuses nothing: other software uses the same numbers. The frame before it counts (§3).
    fn on_closed(&mut self, now: Now, random: [u128; 2], code: u16) {
        if code == CLOSED_TOO_LARGE {
            self.connection.shrunk = true;
        }
        self.connection_lost(now, random[1]);
    }

    /// The server refuses this connection. `random` names the journal's next life where this one is over (T3).
    pub(super) fn rejected(&mut self, now: Now, code: RejectCode, random: [u128; 2]) {
        self.close_socket(code.close_code());
        match code {
            RejectCode::StaleEpoch | RejectCode::TabNotYours => {
                let journal_id = JournalId(Uuid::v4(random[0]));
                self.outputs.push_back(Output::ForgetIdentity { journal_id });
                self.fence();
            }
            // What this content was fenced for is settled: it is dead, and the next instance is like any other (S10).
            RejectCode::SettledElsewhere => self.fence(),
            RejectCode::UnsupportedProtocol => self.enter(Phase::Ended),
            RejectCode::Unauthorized | RejectCode::PrincipalMismatch => self.enter(Phase::Held(code)),
            RejectCode::TooManySockets => {
                self.problem(ProblemCode::ConnectionRefused, None, "the server does not take this connection now");
                self.connection_lost(now, random[1]);
            }
        }
    }

    fn enter(&mut self, phase: Phase) {
        self.drop_uncalled();
        self.connection.phase = phase;
        self.notify(Notice::Connection(self.connection()));
    }

    fn connection_lost(&mut self, now: Now, random: u128) {
        self.drop_uncalled();
        if self.connection.lost(now, random) {
            self.problem(ProblemCode::ConnectionFailing, None, "several connection attempts in a row have failed");
        }
        self.notify(Notice::Connection(self.connection()));
    }

    fn close_socket(&mut self, code: u16) {
        if let Some(conn) = self.connection.socket() {
            self.outputs.push_back(Output::CloseSocket { conn, code });
        }
    }

    /// The socket is gone: what was not handed to the host yet is dropped (J3), and nobody is owed an answer there.
    fn drop_uncalled(&mut self) {
        let mut dropped = Vec::new();
        for document in self.documents.values_mut() {
            document.announced_on = None;
            document.lane.queue.clear();
            if let Some(running) = document.lane.running.take_if(|r| r.uncalled().is_some()) {
                dropped.extend(running.uncalled().map(|d| d.frame.patch_id));
            }
        }
        let called = |d: &super::Document| match d.lane.running {
            Some(Running::Handler { call }) => Some((d.id.clone(), call)),
            _ => None,
        };
        for (doc, call) in self.documents.values().filter_map(called).collect::<Vec<_>>() {
            if let Some((patch_id, _)) = self.take_back(call) {
                self.set_running(&doc, None);
                dropped.push(patch_id);
            }
        }
        for patch_id in dropped {
            self.forget_record(patch_id);
        }
        // Whoever waits to take a mark has nothing to wait for on this connection any more.
        for doc in self.documents.keys().cloned().collect::<Vec<_>>() {
            self.notify(Notice::Settled { doc });
        }
        for call in self.calls.values_mut() {
            if let CallKind::Reconcile(question) = &mut call.kind
                && !matches!(question.owed, Owed::Throw)
            {
                question.owed = Owed::Nothing;
            }
        }
    }

    /// The page goes to sleep: every connection is dead and every uncalled intent dropped, in this task (T4).
    pub(super) fn suspend(&mut self) {
        self.store.hurry();
        self.sleep.is_asleep = true;
        // One that waits for the host's credentials goes on waiting for them.
        if !matches!(self.connection.phase, Phase::Ended | Phase::Held(_)) {
            self.close_socket(CLOSE_NORMAL);
            self.enter(Phase::Suspended);
        }
    }

    /// The page is back: the epoch is read before anything else (T4).
    pub(super) fn resume(&mut self, now: Now) {
        if !std::mem::take(&mut self.sleep.is_asleep) {
            return;
        }
        if self.journal.durability == Durability::Memory {
            self.awake(now);
        } else {
            self.sleep.reads += 1;
            self.outputs.push_back(Output::ReadEpoch);
        }
    }

    /// The host asks for an attempt. While the page sleeps, or its epoch is being read, that waits.
    pub(super) fn on_reconnect(&mut self, now: Now) {
        if self.sleep.is_over() {
            self.connection.reconnect_now(now);
        } else {
            self.sleep.is_reconnect_wanted = true;
        }
    }

    /// Where the epoch has been read since the last sleep, connections go on; one that is held is for the host alone.
    fn awake(&mut self, now: Now) {
        if self.sleep.is_over() {
            let wanted = std::mem::take(&mut self.sleep.is_reconnect_wanted);
            if wanted || self.connection.phase == Phase::Suspended {
                self.connection.reconnect_now(now);
            }
        }
    }

    pub(super) fn on_epoch_read(&mut self, now: Now, random: [u128; 2], stored: Result<u64, StorageFault>) {
        self.sleep.reads = self.sleep.reads.saturating_sub(1);
        match stored {
            Ok(stored) if stored > self.identity.epoch => self.fence(),
            Ok(stored) if stored < self.identity.epoch => self.storage_failed(now, random, StorageFault::Evicted),
            Ok(_) => {}
            Err(fault) => self.storage_failed(now, random, fault),
        }
        if self.status == Status::Live {
            self.awake(now);
        }
    }

    /// Another context holds the tab id: this session is over, and its document instances are dead (J4).
    pub(super) fn fence(&mut self) {
        self.end(Status::Fenced);
    }

    pub(super) fn close(&mut self, now: Now) {
        self.end(Status::Closed);
        self.store.hurry();
        self.run_store(now);
    }

    fn end(&mut self, status: Status) {
        if status == Status::Closed {
            self.drop_uncalled();
        }
        // What was queued for the host or the server in this very step is not done any more: no handler is called again.
        self.outputs
            .retain(|o| matches!(o, Output::Notify(_) | Output::ForgetIdentity { .. } | Output::CloseSocket { .. }));
        self.close_socket(CLOSE_NORMAL);
        for document in self.documents.values_mut() {
            document.lane = Lane::default();
        }
        self.status = status;
        self.connection.phase = Phase::Ended;
        self.notify(Notice::Connection(ConnectionState::Ended));
        self.notify(Notice::Status(status));
    }

    /// Moves the journal to memory under a new id (J11): the connection is closed, and `hello` is said anew before
    /// another patch is handled. What this context knows it keeps; what only the store knew is no longer vouched for.
    pub(super) fn storage_failed(&mut self, now: Now, random: [u128; 2], fault: StorageFault) {
        if self.journal.durability == Durability::Memory {
            return;
        }
        self.store.abandon();
        let no_longer = self.documents.values_mut().filter_map(|d| d.taking_back.take().map(|_| d.id.clone()));
        for doc in no_longer.collect::<Vec<_>>() {
            self.settled(&doc);
        }
        self.journal.durability = Durability::Memory;
        self.journal.id = JournalId(Uuid::v4(random[0]));
        self.identity.journal_id = self.journal.id;
        self.notify_durability(Some(fault));
        if self.connection.socket().is_some() {
            self.close_socket(CLOSE_NORMAL);
            self.drop_uncalled();
            self.connection.phase = Phase::Waiting { until_ms: now.mono_ms };
            self.notify(Notice::Connection(self.connection()));
        }
    }

    /// Sends a frame on the current connection, if there is one. What is over the server's limit goes without its
    /// optional parts; if even that is too much it does not go at all, and the host hears of it.
    pub(super) fn send(&mut self, frame: TabFrame) {
        let Some(conn) = self.connection.talking() else { return };
        let limit = self.connection.max_frame_bytes;
        let mut text = frame.encode();
        if text.len() > limit {
            text = without_optional_parts(frame).encode();
            if text.len() > limit {
                self.problem(ProblemCode::FrameNotSent, None, "a frame was over the server's limit");
                return;
            }
        }
        self.outputs.push_back(Output::Send { conn, text });
    }
}

/// A detail as it may go on the wire.
pub(super) fn bounded(detail: Option<String>) -> Option<String> {
    detail.map(|d| if d.len() > MAX_DETAIL_BYTES { cut(&d, MAX_DETAIL_BYTES).into() } else { d })
}

fn without_optional_parts(mut frame: TabFrame) -> TabFrame {
    match &mut frame {
        TabFrame::PatchAck(ack) => ack.result = None,
        TabFrame::PatchRefuse { detail, .. } | TabFrame::PatchUnknown { detail, .. } => *detail = None,
        _ => {}
    }
    frame
}
