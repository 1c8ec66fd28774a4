//! Serving connections: so many at once, each with a time for its request's head, and an end that waits for nobody
//! long.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::Request;
use axum::serve::Listener as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::net::{Losable, LosableListener};

/// What bounds a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// How many there are at once; the next ones wait to be accepted.
    pub(crate) connections: usize,
    /// How long a request's head may take, and how long a connection idles between two.
    pub(crate) head: Duration,
    /// How long requests under way may take once the server ends.
    pub(crate) drain: Duration,
}

/// Serves until told to stop; then lets requests under way come to an end, and cuts what takes longer.
pub(crate) async fn serve(mut listener: LosableListener, router: Router, bounds: Bounds, stop: watch::Receiver<bool>) {
    let places = Arc::new(Semaphore::new(bounds.connections));
    let mut connections = JoinSet::new();
    let over = stopped(stop.clone());
    tokio::pin!(over);
    loop {
        let accepted = async {
            // It is never closed.
            let place = places.clone().acquire_owned().await;
            (place, listener.accept().await.0)
        };
        let (place, stream) = tokio::select! {
            accepted = accepted => accepted,
            () = &mut over => break,
        };
        while connections.try_join_next().is_some() {}
        let one = connection(stream, router.clone(), bounds.head, stop.clone());
        connections.spawn(async move {
            one.await;
            drop(place);
        });
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(bounds.drain, ended).await.is_err() {
        tracing::warn!(left = connections.len(), "connections are cut: they did not end in time");
    }
    connections.shutdown().await;
}

async fn connection(stream: Losable, router: Router, head: Duration, stop: watch::Receiver<bool>) {
    let peer = stream.peer().clone();
    let service = TowerToHyperService::new(router);
    let answer = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(peer.clone()));
        service.call(request)
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(head);
    let served = http.serve_connection(TokioIo::new(stream), answer).with_upgrades();
    tokio::pin!(served);
    let ended = tokio::select! {
        ended = &mut served => ended,
        () = stopped(stop) => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection failed");
    }
}

/// Resolves when the server is to end.
pub(crate) async fn stopped(mut stop: watch::Receiver<bool>) {
    // An error means that the server itself is gone, which is a stop as well.
    let _stopped = stop.wait_for(|stop| *stop).await;
}
