//! The way out to one tab, bounded in frames and in bytes.
//!
//! Nothing is dropped on its own: a tab that does not read loses its socket, and what it was not told is settled when
//! it says hello (R2).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{mpsc, watch};

/// What leaves on a socket.
#[derive(Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// A text frame.
    Frame(String),
    /// The end, with a close code.
    Close(u16),
}

/// How many frames wait for a slow socket at most.
const FRAMES: usize = 4096;

/// The end that is written to.
#[derive(Debug)]
pub struct WayOut {
    queue: mpsc::Sender<Outgoing>,
    bytes: Arc<AtomicUsize>,
    most_bytes: usize,
    cut: watch::Sender<bool>,
}

/// The socket's end.
#[derive(Debug)]
pub struct Queue {
    queue: mpsc::Receiver<Outgoing>,
    bytes: Arc<AtomicUsize>,
    cut: watch::Receiver<bool>,
}

/// A way out for so many bytes.
pub fn way_out(most_bytes: usize) -> (WayOut, Queue) {
    let (sender, receiver) = mpsc::channel(FRAMES);
    let (cut, is_cut) = watch::channel(false);
    let bytes = Arc::new(AtomicUsize::new(0));
    let way_out = WayOut { queue: sender, bytes: bytes.clone(), most_bytes, cut };
    (way_out, Queue { queue: receiver, bytes, cut: is_cut })
}

impl WayOut {
    /// Puts something on its way. False where the socket is gone, or is cut because it does not read.
    pub fn push(&self, outgoing: Outgoing) -> bool {
        if *self.cut.borrow() {
            return false;
        }
        let size = size(&outgoing);
        let waiting = self.bytes.fetch_add(size, Ordering::SeqCst);
        // One frame always fits: it is under a limit of its own.
        let fits = waiting == 0 || waiting.saturating_add(size) <= self.most_bytes;
        let pushed = fits && self.queue.try_send(outgoing).is_ok();
        if !pushed {
            self.cut.send_replace(true);
        }
        pushed
    }
}

impl Queue {
    /// The next thing to send. It counts until [`Self::sent`].
    pub async fn next(&mut self) -> Option<Outgoing> {
        self.queue.recv().await
    }

    /// So much of it has left, in bytes.
    pub fn sent(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::SeqCst);
    }

    /// The word that the socket is cut.
    pub fn is_cut(&self) -> watch::Receiver<bool> {
        self.cut.clone()
    }
}

fn size(outgoing: &Outgoing) -> usize {
    match outgoing {
        Outgoing::Frame(text) => text.len(),
        Outgoing::Close(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(bytes: usize) -> Outgoing {
        Outgoing::Frame("x".repeat(bytes))
    }

    #[tokio::test]
    async fn b17_a_socket_that_does_not_read_is_cut_by_bytes_and_nothing_is_dropped_alone() {
        let (out, mut queue) = way_out(100);
        assert!(out.push(frame(200)), "one always fits");
        assert_eq!(queue.next().await, Some(frame(200)));
        assert!(!out.push(frame(1)), "it was taken, and has not left");
        assert!(*queue.is_cut().borrow());
        assert!(!out.push(Outgoing::Close(1000)), "nothing follows what was left out");

        let (out, mut queue) = way_out(100);
        for _ in 0..3 {
            assert!(out.push(frame(50)) && out.push(frame(50)));
            for _ in 0..2 {
                queue.next().await.unwrap();
                queue.sent(50);
            }
        }
        assert!(!*queue.is_cut().borrow());
    }

    #[tokio::test]
    async fn a_socket_is_cut_by_frames_too() {
        let (out, queue) = way_out(usize::MAX);
        assert!((0..FRAMES).all(|_| out.push(frame(1))));
        assert!(!out.push(frame(1)));
        assert!(*queue.is_cut().borrow());
    }
}
