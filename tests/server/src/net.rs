//! Connections that can be lost on purpose: an answer that must not arrive closes its connection instead.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

/// Who is at the other end, and the switch that loses the connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its address.
    pub addr: SocketAddr,
    lost: Arc<AtomicBool>,
}

impl Peer {
    /// Nothing is written to the connection any more: the next write fails, and the connection closes.
    pub fn lose(&self) {
        self.lost.store(true, Ordering::SeqCst);
    }
}

/// Accepts [`Losable`] connections.
#[derive(Debug)]
pub struct LosableListener(pub TcpListener);

/// A TCP stream with that switch.
#[derive(Debug)]
pub struct Losable {
    stream: TcpStream,
    peer: Peer,
}

impl Listener for LosableListener {
    type Io = Losable;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Losable, SocketAddr) {
        let (stream, addr) = Listener::accept(&mut self.0).await;
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "nodelay");
        }
        let peer = Peer { addr, lost: Arc::default() };
        (Losable { stream, peer }, addr)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

impl Losable {
    /// Who is at the other end.
    pub const fn peer(&self) -> &Peer {
        &self.peer
    }
}

impl AsyncRead for Losable {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Losable {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.peer.lost.load(Ordering::SeqCst) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
