//! The network: sockets that keep the order of each direction and can be cut, with some of what is under way lost.

use patchkeep_core::session::{Event as TabEvent, SocketEvent};

use crate::world::{Event, Sim};

/// One socket between a context and the server.
#[derive(Debug)]
pub struct Socket {
    /// Whose.
    pub context: u64,
    /// Its number in that context.
    pub conn: u64,
    /// What arrives later than this in either direction is lost.
    cut: bool,
    last_up: u64,
    last_down: u64,
}

/// What travels on a socket.
#[derive(Debug)]
pub enum Message {
    /// It is open; only towards the tab.
    Opened,
    /// A text frame.
    Text(String),
    /// The other side closed it, or the network did.
    Closed(u16),
}

impl Sim {
    /// A context asks for a socket.
    pub(crate) fn connect(&mut self, context: u64, conn: u64) {
        self.last_socket += 1;
        let id = self.last_socket;
        let now = self.now;
        self.sockets.insert(id, Socket { context, conn, cut: false, last_up: now, last_down: now });
        if let Some(c) = self.contexts.get_mut(&context) {
            c.sockets.insert(conn, id);
        }
        if self.fails(self.setup.profile.lose) {
            self.down(id, Message::Closed(1006));
        } else {
            self.down(id, Message::Opened);
        }
    }

    /// Something towards the server.
    pub(crate) fn up(&mut self, socket: u64, message: Message) {
        let delay = self.delay();
        let now = self.now;
        let Some(s) = self.sockets.get_mut(&socket).filter(|s| !s.cut) else { return };
        s.last_up = s.last_up.max(now + delay);
        let at = s.last_up;
        self.at(at, Event::ToServer { socket, message });
    }

    /// Something towards the tab.
    pub(crate) fn down(&mut self, socket: u64, message: Message) {
        let delay = self.delay();
        let now = self.now;
        let Some(s) = self.sockets.get_mut(&socket).filter(|s| !s.cut) else { return };
        s.last_down = s.last_down.max(now + delay);
        let at = s.last_down;
        self.at(at, Event::ToTab { socket, message });
    }

    /// The network cuts a socket. What is under way may still arrive before either side notices, or be lost.
    pub(crate) fn cut(&mut self, socket: u64) {
        let (lose_up, lose_down) = (self.rng.chance(500), self.rng.chance(500));
        if !lose_up {
            self.up(socket, Message::Closed(1006));
        }
        if !lose_down {
            self.down(socket, Message::Closed(1006));
        }
        let Some(s) = self.sockets.get_mut(&socket).filter(|s| !s.cut) else { return };
        s.cut = true;
        if lose_up {
            self.lost.insert((socket, true));
            let noticed = self.delay();
            self.at(self.now + noticed, Event::ServerClosed { socket });
        }
        if lose_down {
            self.lost.insert((socket, false));
            let noticed = self.delay();
            self.at(self.now + noticed, Event::TabClosed { socket });
        }
    }

    /// The tab stops reading a socket and closes it.
    pub(crate) fn closed_by_tab(&mut self, context: u64, conn: u64) {
        let socket = self.contexts.get_mut(&context).and_then(|c| c.sockets.remove(&conn));
        if let Some(socket) = socket {
            self.up(socket, Message::Closed(1000));
        }
    }

    /// Something arrives at the server.
    pub(crate) fn at_server(&mut self, socket: u64, message: Message) {
        if self.lost.contains(&(socket, true)) {
            return;
        }
        match message {
            Message::Text(text) => self.server_frame(socket, &text),
            Message::Closed(_) => self.server_closed(socket),
            Message::Opened => {}
        }
    }

    /// Something arrives at a tab.
    pub(crate) fn at_tab(&mut self, socket: u64, message: Message) {
        if !self.lost.contains(&(socket, false)) {
            self.heard(socket, message);
        }
    }

    /// The tab hears of something on a socket that it still reads.
    pub(crate) fn heard(&mut self, socket: u64, message: Message) {
        let Some(s) = self.sockets.get(&socket) else { return };
        let (context, conn) = (s.context, s.conn);
        let reads = self.contexts.get(&context).is_some_and(|c| c.sockets.get(&conn) == Some(&socket));
        if !reads {
            return;
        }
        let event = match message {
            Message::Opened => SocketEvent::Opened,
            Message::Text(text) => SocketEvent::Text(text),
            Message::Closed(code) => {
                if let Some(c) = self.contexts.get_mut(&context) {
                    c.sockets.remove(&conn);
                }
                SocketEvent::Closed { code }
            }
        };
        self.deliver(context, TabEvent::Socket { conn, event });
    }
}
