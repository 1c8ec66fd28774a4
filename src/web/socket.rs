//! One WebSocket, from the question for its address to its end.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use js_sys::{JsString, Promise};
use patchkeep_core::session::SocketEvent;
use wasm_bindgen::closure::Closure;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::{JsFuture, spawn_local};
use web_sys::{BinaryType, CloseEvent, MessageEvent, WebSocket};

/// What a socket reports to.
pub trait Listener {
    /// Something happened. Not called any more once [`Socket::close`] was, or after `Closed`.
    fn socket_event(&self, conn: u64, event: SocketEvent);
    /// A binary frame, untouched.
    fn binary(&self, data: &JsValue);
    /// Text frames longer than this many UTF-16 units are not copied in.
    fn longest_text(&self) -> u64;
}

/// A socket. Dropping it closes it without a word.
pub struct Socket {
    /// The number under which it reports.
    pub conn: u64,
    state: Rc<State>,
}

#[derive(Default)]
struct State {
    is_closed: Cell<bool>,
    open: RefCell<Option<Open>>,
}

/// The platform's socket and what it calls.
struct Open {
    socket: WebSocket,
    _opened: Closure<dyn FnMut()>,
    _message: Closure<dyn FnMut(MessageEvent)>,
    _close: Closure<dyn FnMut(CloseEvent)>,
}

impl Socket {
    /// Opens a socket to the address that `url` will give.
    pub fn connect(
        conn: u64,
        url: Result<Promise, JsValue>,
        binary_type: BinaryType,
        listener: Rc<dyn Listener>,
    ) -> Self {
        let state = Rc::new(State::default());
        let socket = Self { conn, state: Rc::clone(&state) };
        spawn_local(async move {
            let url = match url {
                Ok(promise) => JsFuture::from(promise).await,
                Err(thrown) => Err(thrown),
            };
            if state.is_closed.get() {
                return;
            }
            let opened = url.and_then(|url| open(conn, &url, binary_type, &state, &listener));
            match opened {
                Ok(open) => *state.open.borrow_mut() = Some(open),
                Err(_) => {
                    state.is_closed.set(true);
                    listener.socket_event(conn, SocketEvent::Closed { code: CLOSED_ABNORMALLY });
                }
            }
        });
        socket
    }

    /// Sends a text frame. One that is closing already takes no more: its end is on the way and says the rest.
    pub fn send(&self, text: &str) {
        if let Some(open) = &*self.state.open.borrow() {
            let _ = open.socket.send_with_str(text);
        }
    }

    /// Stops reading at once, then closes.
    pub fn close(&self, code: u16) {
        self.state.end(code);
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.state.end(CLOSED_NORMALLY);
    }
}

impl State {
    fn end(&self, code: u16) {
        self.is_closed.set(true);
        let open = self.open.borrow_mut().take();
        if let Some(open) = open {
            open.end(code);
        }
    }
}

impl Open {
    fn end(self, code: u16) {
        self.socket.set_onopen(None);
        self.socket.set_onmessage(None);
        self.socket.set_onclose(None);
        // Scripts may close with 1000 and 3000 to 4999 only.
        if self.socket.close_with_code(code).is_err() {
            let _ = self.socket.close();
        }
    }
}

fn open(
    conn: u64,
    url: &JsValue,
    binary_type: BinaryType,
    state: &Rc<State>,
    listener: &Rc<dyn Listener>,
) -> Result<Open, JsValue> {
    let socket = WebSocket::new(&url.as_string().unwrap_or_default())?;
    socket.set_binary_type(binary_type);
    let opened = {
        let listener = Rc::clone(listener);
        Closure::<dyn FnMut()>::new(move || listener.socket_event(conn, SocketEvent::Opened))
    };
    let message = {
        let listener = Rc::clone(listener);
        Closure::<dyn FnMut(MessageEvent)>::new(move |event: MessageEvent| on_message(conn, &event.data(), &*listener))
    };
    let close = {
        let (listener, state) = (Rc::clone(listener), Rc::downgrade(state));
        Closure::<dyn FnMut(CloseEvent)>::new(move |event: CloseEvent| {
            // Its callbacks, this one included, are not needed any more; they live until this call has ended.
            let ended = state.upgrade().and_then(|state| {
                state.is_closed.set(true);
                state.open.borrow_mut().take()
            });
            listener.socket_event(conn, SocketEvent::Closed { code: event.code() });
            drop(ended);
        })
    };
    socket.set_onopen(Some(opened.as_ref().unchecked_ref()));
    socket.set_onmessage(Some(message.as_ref().unchecked_ref()));
    socket.set_onclose(Some(close.as_ref().unchecked_ref()));
    Ok(Open { socket, _opened: opened, _message: message, _close: close })
}

/// Binary frames go on in the order they came, and before anything behind them is read: nothing is decoded (B14).
fn on_message(conn: u64, data: &JsValue, listener: &dyn Listener) {
    let Some(text) = data.dyn_ref::<JsString>() else {
        listener.binary(data);
        return;
    };
    let length = u64::from(text.length());
    if length > listener.longest_text() {
        listener.socket_event(conn, SocketEvent::TooLong(length));
    } else {
        listener.socket_event(conn, SocketEvent::Text(text.into()));
    }
}

/// What browsers say where there was no close frame.
const CLOSED_ABNORMALLY: u16 = 1006;
const CLOSED_NORMALLY: u16 = 1000;
