//! A value that a callback gives and a future waits for.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Both ends of a new one.
pub fn oneshot<T>() -> (Sender<T>, Receiver<T>) {
    let state = Rc::new(RefCell::new(State { value: None, waker: None }));
    (Sender(Rc::clone(&state)), Receiver(state))
}

/// Gives the value. Cloned, so that several callbacks may hold it; the first value counts.
pub struct Sender<T>(Rc<RefCell<State<T>>>);

/// Waits for the value: for ever, if none is given.
pub struct Receiver<T>(Rc<RefCell<State<T>>>);

struct State<T> {
    value: Option<T>,
    waker: Option<Waker>,
}

impl<T> Sender<T> {
    /// Gives the value.
    pub fn send(&self, value: T) {
        let waker = {
            let mut state = self.0.borrow_mut();
            state.value.get_or_insert(value);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<T> Future for Receiver<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut state = self.0.borrow_mut();
        match state.value.take() {
            Some(value) => Poll::Ready(value),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}
