//! The run loop: hands in what happened, does what the core says, sets one timer. It decides nothing.
//!
//! No borrow is held while JavaScript runs. What happens meanwhile (a handler that answers at once, or calls into the
//! session) is queued, and the outermost loop drains it in the same task: nothing of the core runs inside itself (B39).

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use patchkeep_core::error::CallError;
use patchkeep_core::ids::{DocId, Incarnation, TabId};
use patchkeep_core::session::{
    Event, Input, Mark, Notice, OpenDocument, Output, SaveAnswer, SaveOutcome, Session, SocketEvent, Status,
};
use patchkeep_core::storage::{Transaction, TransactionOutcome, Write};
use patchkeep_core::time::Now;
use wasm_bindgen::JsValue;
use web_sys::{BinaryType, Headers};

use crate::host::Host;
use crate::idb::database_name;
use crate::identity::Place;
use crate::lifecycle::Lifecycle;
use crate::oneshot::{Receiver, Sender, oneshot};
use crate::socket::{self, Socket};
use crate::store::Store;
use crate::timers::Timer;
use crate::{clock, fetch, random};

/// One running session.
pub struct Driver {
    session: RefCell<Session>,
    principal: String,
    inbox: RefCell<VecDeque<Event>>,
    is_draining: Cell<bool>,
    host: Rc<dyn Host>,
    store: Rc<dyn Store>,
    binary_type: BinaryType,
    socket: RefCell<Option<Socket>>,
    timer: Timer,
    /// Given up when the session has ended.
    life: RefCell<Option<Life>>,
    under_way: Cell<u32>,
    idle: RefCell<Vec<Sender<()>>>,
}

/// What a session holds of the page while it lives.
struct Life {
    place: Place,
    _lifecycle: Lifecycle,
}

/// What a driver is made of.
pub struct Parts {
    /// The machine, just made.
    pub session: Session,
    /// Whose it is.
    pub principal: String,
    /// The embedding program.
    pub host: Rc<dyn Host>,
    /// The journal's storage.
    pub store: Rc<dyn Store>,
    /// The tab id it runs under.
    pub place: Place,
    /// How binary frames are handed over.
    pub binary_type: BinaryType,
}

impl Driver {
    /// Starts a session: its first outputs connect it.
    pub fn start(parts: Parts) -> Rc<Self> {
        let Parts { session, principal, host, store, mut place, binary_type } = parts;
        let driver = Rc::new_cyclic(|own: &Weak<Self>| {
            let deliver = |own: &Weak<Self>| {
                let own = own.clone();
                move |event| {
                    if let Some(driver) = own.upgrade() {
                        driver.deliver(event);
                    }
                }
            };
            let (wake, lost, lives, gone) = (deliver(own), deliver(own), deliver(own), deliver(own));
            place.on_lost(move || lost(Event::LockLost));
            store.on_lost(Box::new(move |fault| gone(Event::StorageLost(fault))));
            Self {
                session: RefCell::new(session),
                principal,
                inbox: RefCell::default(),
                is_draining: Cell::new(false),
                host,
                store,
                binary_type,
                socket: RefCell::default(),
                timer: Timer::new(move || wake(Event::Timer)),
                life: RefCell::new(Some(Life { place, _lifecycle: Lifecycle::new(lives) })),
                under_way: Cell::new(0),
                idle: RefCell::default(),
            }
        });
        driver.drain();
        driver
    }

    /// Reads from the session. Nothing may call into JavaScript meanwhile.
    pub fn read<T>(&self, read: impl FnOnce(&Session) -> T) -> T {
        read(&self.session.borrow())
    }

    /// The database of this principal's journals, whether this session's is there or in memory.
    pub fn database_name(&self) -> String {
        database_name(&self.principal)
    }

    /// Hands in what happened, and does what follows from it, unless that is being done already.
    pub fn deliver(self: &Rc<Self>, event: Event) {
        self.inbox.borrow_mut().push_back(event);
        self.drain();
    }

    /// Opens a document.
    ///
    /// # Errors
    /// As [`Session::open_document`].
    pub fn open_document(self: &Rc<Self>, open: OpenDocument) -> Result<Incarnation, CallError> {
        let generation = self.next_generation(&open.doc);
        self.call(|session, now| session.open_document(now, random::pair(), generation, open))
    }

    /// Replaces the content of an open document.
    ///
    /// # Errors
    /// As [`Session::replace_document`].
    pub fn replace_document(self: &Rc<Self>, open: OpenDocument) -> Result<Incarnation, CallError> {
        let generation = self.next_generation(&open.doc);
        self.call(|session, now| session.replace_document(now, random::pair(), generation, open))
    }

    /// Closes a document.
    ///
    /// # Errors
    /// As [`Session::close_document`].
    pub fn close_document(self: &Rc<Self>, doc: &DocId, incarnation: Incarnation) -> Result<(), CallError> {
        self.call(|session, now| session.close_document(now, doc, incarnation))
    }

    /// Counted where the identity is held: a session opened anew in this page goes on counting. An ended session has
    /// given that up, and begins no content any more.
    fn next_generation(&self, doc: &DocId) -> u64 {
        self.life.borrow().as_ref().map_or(0, |life| life.place.next_generation(doc))
    }

    /// Takes a mark.
    ///
    /// # Errors
    /// As [`Session::mark`].
    pub fn mark(self: &Rc<Self>, doc: &DocId, incarnation: Incarnation) -> Result<Mark, CallError> {
        self.call(|session, now| session.mark(now, doc, incarnation))
    }

    /// A local store keeps what the mark names.
    ///
    /// # Errors
    /// As [`Session::kept`].
    pub fn kept(self: &Rc<Self>, mark: &Mark) -> Result<(), CallError> {
        self.call(|session, now| session.kept(now, mark))
    }

    /// The host's own save of what the mark names was confirmed.
    ///
    /// # Errors
    /// As [`Session::flushed`].
    pub fn flushed(self: &Rc<Self>, mark: &Mark, seq: u64) -> Result<(), CallError> {
        self.call(|session, now| session.flushed(now, mark, seq))
    }

    /// Sends a save of `text`, in this task. The outcome comes from the future; it is recorded before it comes.
    ///
    /// # Errors
    /// As [`Session::save_request`]; [`CallError::InvalidArgument`] where the document's id has no address.
    pub fn save(
        self: &Rc<Self>,
        mark: Mark,
        text: &str,
        base_url: &str,
        headers: Headers,
    ) -> Result<impl Future<Output = SaveOutcome> + use<>, CallError> {
        let request = self.read(|session| session.save_request(&mark, text))?;
        let url = fetch::document_url(base_url, &request.doc).ok_or(CallError::InvalidArgument("id"))?;
        let driver = Rc::clone(self);
        Ok(async move {
            let answer = fetch::put(&url, &driver.principal, &headers, &request.body).await;
            driver.save_answered(&mark, &answer)
        })
    }

    fn save_answered(self: &Rc<Self>, mark: &Mark, answer: &SaveAnswer) -> SaveOutcome {
        self.call(|session, now| session.save_answered(now, mark, answer))
    }

    /// Closes the session and waits until what was to be written is written. Then the tab id is left to the next one.
    pub async fn close(self: &Rc<Self>) {
        self.deliver(Event::Close);
        // What was queued behind a transaction goes out when that one has ended.
        while let Some(written) = self.until_idle() {
            written.await;
        }
        self.store.close();
        let life = self.life.borrow_mut().take();
        if let Some(Life { place, .. }) = life {
            place.leave();
        }
    }

    fn until_idle(&self) -> Option<Receiver<()>> {
        (self.under_way.get() > 0).then(|| {
            let (sender, receiver) = oneshot();
            self.idle.borrow_mut().push(sender);
            receiver
        })
    }

    fn call<T>(self: &Rc<Self>, call: impl FnOnce(&mut Session, Now) -> T) -> T {
        let now = clock::now();
        let answer = call(&mut self.session.borrow_mut(), now);
        self.drain();
        answer
    }

    fn drain(self: &Rc<Self>) {
        if self.is_draining.replace(true) {
            return;
        }
        loop {
            while let Some(output) = self.poll() {
                self.execute(output);
            }
            let Some(event) = self.next_event() else { break };
            let input = Input { now: clock::now(), random: random::pair(), event };
            self.session.borrow_mut().handle(input);
        }
        self.is_draining.set(false);
        self.timer.set(self.read(Session::next_wake));
    }

    // Functions of their own, so that their borrows end with them.
    fn poll(&self) -> Option<Output> {
        self.session.borrow_mut().poll()
    }

    fn next_event(&self) -> Option<Event> {
        self.inbox.borrow_mut().pop_front()
    }

    fn execute(self: &Rc<Self>, output: Output) {
        match output {
            Output::Connect { conn } => self.connect(conn),
            Output::CloseSocket { conn, code } => self.close_socket(conn, code),
            Output::Send { conn, text } => self.send(conn, &text),
            Output::Transact(transaction) => self.transact(transaction),
            Output::ReadEpoch => self.read_epoch(),
            Output::CheckGuard { call, doc } => {
                let unconfirmed = self.host.unconfirmed_edits(&doc);
                self.deliver(Event::Guard { call, unconfirmed });
            }
            Output::CallHandler(call) => self.host.apply(&call),
            Output::CallReconcile(call) => self.host.reconcile(&call),
            Output::ForgetIdentity { journal_id } => self.forget_identity(Write::JournalId(journal_id)),
            Output::Notify(notice) => self.notify(&notice),
        }
    }

    fn connect(self: &Rc<Self>, conn: u64) {
        let url = self.host.url();
        let ear = Rc::new(Ear(Rc::downgrade(self)));
        let socket = Socket::connect(conn, url, self.binary_type, ear);
        // The host may have closed the session while it was asked for the address.
        let is_over = self.read(|session| session.status() != Status::Live);
        let before = if is_over { Some(socket) } else { self.socket.replace(Some(socket)) };
        drop(before);
    }

    fn close_socket(&self, conn: u64, code: u16) {
        let closed = self.socket.borrow_mut().take_if(|socket| socket.conn == conn);
        if let Some(socket) = closed {
            socket.close(code);
        }
    }

    fn send(&self, conn: u64, text: &str) {
        if let Some(socket) = self.socket.borrow().as_ref().filter(|socket| socket.conn == conn) {
            socket.send(text);
        }
    }

    fn transact(self: &Rc<Self>, transaction: Transaction) {
        let id = transaction.id;
        let driver = Rc::clone(self);
        self.write(transaction, move |outcome| driver.deliver(Event::Transaction { id, outcome }));
    }

    fn write(self: &Rc<Self>, transaction: Transaction, done: impl FnOnce(TransactionOutcome) + 'static) {
        self.under_way.set(self.under_way.get() + 1);
        let driver = Rc::clone(self);
        let done = move |outcome| {
            done(outcome);
            driver.under_way.set(driver.under_way.get() - 1);
            if driver.under_way.get() == 0 {
                driver.idle.take().iter().for_each(|sender| sender.send(()));
            }
        };
        self.store.transact(transaction, Box::new(done));
    }

    fn read_epoch(self: &Rc<Self>) {
        let driver = Rc::clone(self);
        let tab_id = self.tab_id();
        self.store.read_epoch(tab_id, Box::new(move |stored| driver.deliver(Event::EpochRead(stored))));
    }

    /// T3: neither this tab id nor this journal's id is used by a later load.
    fn forget_identity(self: &Rc<Self>, journal_id: Write) {
        if let Some(life) = &*self.life.borrow() {
            life.place.forget();
        }
        let epoch = self.read(|session| session.identity().epoch);
        let transaction = Transaction { id: 0, tab_id: self.tab_id(), epoch, strict: true, writes: vec![journal_id] };
        // The session is over; what became of it is nobody's business any more.
        self.write(transaction, |_| {});
    }

    fn notify(&self, notice: &Notice) {
        // A tab id that another context has taken is not handed on (J4).
        if matches!(notice, Notice::Status(Status::Fenced))
            && let Some(life) = &*self.life.borrow()
        {
            life.place.forget();
        }
        self.host.notice(notice);
    }

    fn tab_id(&self) -> TabId {
        self.read(|session| session.identity().tab_id)
    }
}

/// What a socket reports to: it does not keep the driver alive.
struct Ear(Weak<Driver>);

impl socket::Listener for Ear {
    fn socket_event(&self, conn: u64, event: SocketEvent) {
        if let Some(driver) = self.0.upgrade() {
            driver.deliver(Event::Socket { conn, event });
        }
    }

    fn binary(&self, data: &JsValue) {
        if let Some(driver) = self.0.upgrade() {
            driver.host.binary(data);
        }
    }

    /// A frame over the limit is told from one that is a little over it, which the core names in its refusal.
    fn longest_text(&self) -> u64 {
        self.0.upgrade().map_or(0, |driver| driver.read(Session::max_frame_bytes) as u64 * TOO_LONG_FACTOR)
    }
}

/// Frames longer than that many times the limit are not even copied in.
const TOO_LONG_FACTOR: u64 = 4;
