//! The page's life: hidden away, frozen, back, online, visible (T4, K6).

use std::cell::Cell;
use std::rc::Rc;

use patchkeep_core::session::Event as CoreEvent;
use wasm_bindgen::closure::Closure;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{Event, EventTarget};

use crate::globals::{global, property};

/// The listeners. Dropping it removes them.
pub struct Lifecycle {
    _listeners: Vec<Listener>,
}

impl Lifecycle {
    /// Listens. In a worker most of these events do not exist, and none is missed.
    pub fn new(deliver: impl Fn(CoreEvent) + 'static) -> Self {
        let page = Rc::new(Page { is_suspended: Cell::new(false), deliver: Box::new(deliver) });
        let window: EventTarget = js_sys::global().unchecked_into();
        let mut listeners = vec![
            Listener::new(&window, "online", &page, |page, _| page.encourage()),
            Listener::new(&window, "pagehide", &page, |page, _| page.suspend()),
            Listener::new(&window, "pageshow", &page, |page, _| page.resume()),
        ];
        if let Some(document) = global("document") {
            let document: EventTarget = document.unchecked_into();
            listeners.push(Listener::new(&document, "freeze", &page, |page, _| page.suspend()));
            listeners.push(Listener::new(&document, "resume", &page, |page, _| page.resume()));
            listeners.push(Listener::new(&document, "visibilitychange", &page, |page, event| {
                let visible = event.target().is_none_or(|document| is_visible(&document));
                (page.deliver)(CoreEvent::Visible(visible));
            }));
        }
        Self { _listeners: listeners }
    }
}

/// Whether the page can be seen. A worker has none, and what it does may be looked at all the time.
pub fn page_is_visible() -> bool {
    global("document").is_none_or(|document| is_visible(&document))
}

fn is_visible(document: &JsValue) -> bool {
    property(document, "visibilityState").is_none_or(|state| state == "visible")
}

struct Page {
    is_suspended: Cell<bool>,
    deliver: Box<dyn Fn(CoreEvent)>,
}

impl Page {
    /// Both `pagehide` and `freeze` may come; the core hears of one.
    fn suspend(&self) {
        if !self.is_suspended.replace(true) {
            (self.deliver)(CoreEvent::Suspend);
        }
    }

    /// So may both `resume` and `pageshow`. A `pageshow` without a `pagehide` is the first of a load.
    fn resume(&self) {
        if self.is_suspended.replace(false) {
            (self.deliver)(CoreEvent::Resume);
        }
    }

    fn encourage(&self) {
        if !self.is_suspended.get() {
            (self.deliver)(CoreEvent::Encouraged);
        }
    }
}

struct Listener {
    target: EventTarget,
    name: &'static str,
    callback: Closure<dyn FnMut(Event)>,
}

impl Listener {
    fn new(target: &EventTarget, name: &'static str, page: &Rc<Page>, react: fn(&Page, &Event)) -> Self {
        let page = Rc::clone(page);
        let callback = Closure::<dyn FnMut(Event)>::new(move |event| react(&page, &event));
        // Adding a listener throws for no argument that can be given here.
        let _ = target.add_event_listener_with_callback(name, callback.as_ref().unchecked_ref());
        Self { target: target.clone(), name, callback }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.target.remove_event_listener_with_callback(self.name, self.callback.as_ref().unchecked_ref());
    }
}
