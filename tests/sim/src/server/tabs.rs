//! What the frames of a tab do (R1–R7, T3).

use std::collections::BTreeMap;

use patchkeep_core::frame::{
    Hello, OpenDoc, PROTOCOL, Reason, ReportedState, ServerFrame, TabFrame, UnconfirmedEntry, Welcome,
};
use patchkeep_core::ids::{BootId, ConnId, DocId, PatchId, TabId, Uuid};
use patchkeep_server::decide::{
    Announced, KeyRow, KeyState, Place, Settled, Speaker, acknowledged, admit, expired, not_seen, place, refused,
    resume, unknown,
};
use patchkeep_server::store::Guard;

use super::say::Say;
use super::{CLOCK_OFFSET, Greeted, HubTab};
use crate::mutants::Mutant;
use crate::network::Message;
use crate::world::{Event, Sim};

impl Sim {
    /// A frame arrives on a socket.
    pub(crate) fn server_frame(&mut self, socket: u64, text: &str) {
        let frame = match TabFrame::decode(text) {
            Ok(frame) => frame,
            Err(error) => return self.violated(format!("the tab sent what is no frame: {error}")),
        };
        let Some(session) = self.server.sessions.get(&socket).cloned() else {
            if let TabFrame::Hello(hello) = frame {
                self.hello(socket, &hello);
            }
            return;
        };
        match frame {
            TabFrame::Open(open) => self.opened(&session, &open),
            TabFrame::Close { doc, incarnation } => {
                if let Some(tab) = self.hub_tab(&session)
                    && tab.open.get(&doc).is_some_and(|(open, _)| *open == incarnation)
                {
                    tab.open.remove(&doc);
                }
            }
            TabFrame::Ping { t, .. } => {
                let pong = ServerFrame::Pong { t, now: self.server_now() };
                self.send_frame(session.tab_id, Some(&session.conn), &pong);
            }
            TabFrame::PatchAck(_)
            | TabFrame::PatchRefuse { .. }
            | TabFrame::PatchUnknown { .. }
            | TabFrame::PatchState { .. } => self.reported(&session, &frame),
            TabFrame::Hello(_) | TabFrame::PatchStart { .. } | TabFrame::Unknown => {}
        }
    }

    fn hub_tab(&mut self, session: &Greeted) -> Option<&mut HubTab> {
        self.server.hub.get_mut(&session.tab_id).filter(|t| t.conn == session.conn)
    }

    fn hello(&mut self, socket: u64, hello: &Hello) {
        let conn_id = ConnId(Uuid::v4(self.rng.wide()));
        let conn = format!("{}/{conn_id}", self.server.boot);
        let owner = admit(self.server.rows.tabs.get(&hello.tab_id), hello, &self.server.principal, &conn);
        let owner = match owner {
            Ok(owner) => owner,
            Err(code) => {
                self.down(socket, Message::Text(ServerFrame::Reject(code).encode()));
                self.down(socket, Message::Closed(code.close_code()));
                return;
            }
        };
        self.server.rows.tabs.insert(hello.tab_id, owner);
        self.oracle.dirty = true;
        let session =
            Greeted { conn: conn.clone(), tab_id: hello.tab_id, epoch: hello.epoch, journal_id: hello.journal_id };
        let mut say = Say::default();
        let mut opened = Vec::new();
        for open in &hello.docs {
            if let Some(seq) = self.announce(&mut say, &session, open) {
                opened.push((open.doc.clone(), open.incarnation, open.homed, seq));
            }
        }
        self.server.connections += 1;
        let tab = HubTab {
            conn: conn.clone(),
            socket,
            journal_id: hello.journal_id,
            since: self.server.connections,
            open: opened.iter().map(|(doc, incarnation, homed, _)| (doc.clone(), (*incarnation, *homed))).collect(),
        };
        self.server.sessions.insert(socket, session);
        if let Some(old) = self.server.hub.insert(hello.tab_id, tab) {
            if !self.is(Mutant::OldConnection) {
                self.server.sessions.remove(&old.socket);
            }
            self.down(old.socket, Message::Closed(1000));
        }
        let welcome = ServerFrame::Welcome(Welcome {
            protocol: PROTOCOL,
            boot_id: self.server.boot,
            conn_id,
            now: self.server_now(),
            heartbeat_ms: 15_000,
            max_frame_bytes: 1 << 20,
            docs: opened.into_iter().map(|(doc, incarnation, _, seq)| (doc, incarnation, seq)).collect(),
            features: Vec::new(),
        });
        self.send_frame(hello.tab_id, Some(&conn), &welcome);
        self.say(say, hello.tab_id, Some(&conn));
    }

    fn opened(&mut self, session: &Greeted, open: &OpenDoc) {
        if !self.is_current(session) {
            return;
        }
        let mut say = Say::default();
        let Some(seq) = self.announce(&mut say, session, open) else { return };
        if let Some(tab) = self.hub_tab(session) {
            tab.open.insert(open.doc.clone(), (open.incarnation, open.homed));
        }
        let frame = ServerFrame::Opened { doc: open.doc.clone(), incarnation: open.incarnation, seq };
        self.send_frame(session.tab_id, Some(&session.conn), &frame);
        self.say(say, session.tab_id, Some(&session.conn));
    }

    fn is_current(&self, session: &Greeted) -> bool {
        self.is(Mutant::OldConnection)
            || self.server.rows.tabs.get(&session.tab_id).is_some_and(|o| o.conn == session.conn)
    }

    /// Everything older of this tab is fenced for the document, and its open patches are settled.
    fn announce(&mut self, say: &mut Say, session: &Greeted, open: &OpenDoc) -> Option<u64> {
        let rows = &mut self.server.rows;
        let announced = Announced { epoch: session.epoch, generation: open.generation, incarnation: open.incarnation };
        let replaced = rows.superseded(session.tab_id, &open.doc, open.incarnation);
        match place(rows.newest(session.tab_id, &open.doc), announced, replaced) {
            Place::Earlier | Place::Settled => return None,
            Place::Newest => {}
            Place::Later | Place::Unordered => rows.announce(session.tab_id, &open.doc, announced),
        }
        self.oracle.dirty = true;
        let mut listed: BTreeMap<PatchId, &UnconfirmedEntry> =
            open.unconfirmed.iter().map(|e| (e.patch_id, e)).collect();
        if self.is(Mutant::ConfirmedOfAnother) {
            let rows = &self.server.rows;
            let is_known = |id: &PatchId| rows.key_of_patch(*id).is_some_and(|r| r.state == KeyState::Acked);
            listed.retain(|id, entry| entry.state != ReportedState::Applied || !is_known(id));
        }
        let rows = &self.server.rows;
        let mut found = rows.open_keys(session.tab_id, &open.doc);
        for patch_id in listed.keys() {
            let row = rows.key_of_patch(*patch_id).filter(|r| !r.state.is_open() && is_own(r, session.tab_id));
            found.extend(row.filter(|r| r.plan.as_ref().is_some_and(|p| p.recipient.doc == open.doc)).cloned());
        }
        let seq = rows.docs.get(&open.doc).map_or(0, |d| d.seq);
        let speaker = Speaker {
            conn: &session.conn,
            journal_id: session.journal_id,
            open: Some((open.incarnation, open.homed)),
            now: self.server_now(),
        };
        for row in &found {
            let entry = row.plan.as_ref().and_then(|p| listed.get(&p.patch_id).copied());
            self.settle(say, row, resume(row, entry, &speaker));
        }
        Some(seq)
    }

    fn reported(&mut self, session: &Greeted, frame: &TabFrame) {
        let patch_id = match frame {
            TabFrame::PatchAck(ack) => ack.patch_id,
            TabFrame::PatchRefuse { patch_id, .. }
            | TabFrame::PatchUnknown { patch_id, .. }
            | TabFrame::PatchState { patch_id, .. } => *patch_id,
            _ => return,
        };
        if !self.is_current(session) {
            return;
        }
        let row = self.server.rows.key_of_patch(patch_id).filter(|r| is_own(r, session.tab_id)).cloned();
        let Some(mut row) = row else { return };
        let Some(doc) = row.plan.as_ref().map(|p| p.recipient.doc.clone()) else { return };
        let here = self.server.here(session.tab_id, &doc).filter(|h| h.conn == session.conn);
        let speaker = Speaker {
            conn: &session.conn,
            journal_id: session.journal_id,
            open: here.and_then(|h| h.open),
            now: self.server_now(),
        };
        if self.is(Mutant::OlderNegative)
            && let (Some(plan), TabFrame::PatchRefuse { delivery, .. } | TabFrame::PatchState { delivery, .. }) =
                (&mut row.plan, frame)
        {
            plan.delivery = *delivery;
        }
        let mut say = Say::default();
        let mut settled = judged(&row, frame, &speaker);
        if self.is(Mutant::DoneOnAck)
            && let Settled::Write { row, .. } = &mut settled
            && row.state == KeyState::Acked
        {
            row.state = KeyState::Done;
        }
        self.settle(&mut say, &row, settled);
        self.say(say, session.tab_id, Some(&session.conn));
    }

    /// A socket is gone.
    pub(crate) fn server_closed(&mut self, socket: u64) {
        if let Some(session) = self.server.sessions.remove(&socket)
            && self.server.hub.get(&session.tab_id).is_some_and(|t| t.conn == session.conn)
        {
            self.server.hub.remove(&session.tab_id);
        }
    }

    /// A patch's deadline: a deadline alone proves nothing (S6).
    pub(crate) fn deadline(&mut self, boot: u64, patch_id: PatchId) {
        let row = self.server.rows.key_of_patch(patch_id).and_then(|r| expired(r, self.server_now()));
        let row =
            row.map(|r| if self.is(Mutant::DeadlineProves) { KeyRow { state: KeyState::Refused, ..r } } else { r });
        if let Some(row) = row.filter(|_| boot == self.server.life)
            && self.write_row(&row, Guard::Patch(patch_id, KeyState::Delivered))
        {
            self.patch_changed(patch_id);
        }
    }

    /// The process dies and comes back on the same rows (S8).
    pub(crate) fn restart_server(&mut self) {
        let sockets: Vec<u64> = self.server.sessions.keys().copied().collect();
        self.server.sessions.clear();
        self.server.hub.clear();
        for socket in sockets {
            self.down(socket, Message::Closed(1001));
        }
        let tasks = std::mem::take(&mut self.server.tasks);
        for task in tasks.into_values() {
            self.lose_answer(&task.request);
        }
        self.server.life += 1;
        self.server.boot = BootId(Uuid::v4(self.rng.wide()));
        let open = self.server.rows.keys.values().filter(|r| r.state == KeyState::Delivered);
        let plans: Vec<_> = open.filter_map(|r| r.plan.as_ref()).map(|p| (p.patch_id, p.expires_at)).collect();
        for (patch_id, expires_at) in plans {
            self.at(expires_at - CLOCK_OFFSET, Event::Deadline { boot: self.server.life, patch_id });
        }
    }

    /// Tells every tab that has the document open, but one, that somebody committed (W4).
    pub(crate) fn doc_changed(&mut self, doc: &DocId, seq: u64, but: Option<TabId>) {
        let has_it = self.server.hub.iter().filter(|(id, t)| Some(**id) != but && t.open.contains_key(doc));
        for tab_id in has_it.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.send_frame(tab_id, None, &ServerFrame::DocChanged { doc: doc.clone(), seq });
        }
    }
}

fn is_own(row: &KeyRow, tab_id: TabId) -> bool {
    row.plan.as_ref().is_some_and(|p| p.recipient.tab_id == tab_id)
}

fn judged(row: &KeyRow, frame: &TabFrame, speaker: &Speaker<'_>) -> Settled {
    match frame {
        TabFrame::PatchAck(_) => acknowledged(row, speaker),
        TabFrame::PatchRefuse { delivery, reason, detail, .. } => {
            refused(row, Some(*delivery), *reason, detail.as_deref(), speaker)
        }
        TabFrame::PatchUnknown { delivery, .. } => unknown(row, Some(*delivery), speaker),
        TabFrame::PatchState { delivery, state, reason, .. } => match state {
            ReportedState::Applied => acknowledged(row, speaker),
            ReportedState::Refused => {
                refused(row, Some(*delivery), reason.unwrap_or(Reason::HandlerRefused), None, speaker)
            }
            ReportedState::Unknown => unknown(row, Some(*delivery), speaker),
            ReportedState::NotSeen => not_seen(row, *delivery, speaker),
            ReportedState::Applying => Settled::Ignore("under way"),
        },
        _ => Settled::Ignore("not about a patch"),
    }
}
