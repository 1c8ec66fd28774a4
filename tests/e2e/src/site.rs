//! The static files of the tests: the test page at `/`, the package under `/pkg`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};

use axum::Router;
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::map_response;
use axum::response::Response;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tower_http::services::ServeDir;

/// A server of static files; it ends when dropped.
#[derive(Debug)]
pub struct Site {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Site {
    /// Serves the test page and the package.
    ///
    /// # Panics
    /// Where the package was not built.
    pub async fn start() -> Self {
        Self::serve(routes()).await
    }

    /// The same, with the headers under which a browser's clock ticks in 5 µs instead of 100.
    ///
    /// # Panics
    /// As [`Site::start`].
    pub async fn start_isolated() -> Self {
        Self::serve(routes().layer(map_response(isolate))).await
    }

    /// Serves the same at this address, which may be one that browsers do not take for secure.
    ///
    /// # Panics
    /// As [`Site::start`].
    pub async fn start_at(address: IpAddr) -> Self {
        Self::serve_at(routes(), address).await
    }

    async fn serve(router: Router) -> Self {
        Self::serve_at(router, Ipv4Addr::LOCALHOST.into()).await
    }

    async fn serve_at(router: Router, address: IpAddr) -> Self {
        let listener = TcpListener::bind((address, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let task = tokio::spawn(async move { axum::serve(listener, router).await.expect("static files are served") });
        Self { address, task }
    }

    /// Its origin: `http://127.0.0.1:PORT`.
    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn isolate(mut response: Response) -> Response {
    for (name, value) in
        [("cross-origin-opener-policy", "same-origin"), ("cross-origin-embedder-policy", "require-corp")]
    {
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}

fn routes() -> Router {
    let package = repository().join("pkg");
    assert!(package.join("dist/index.js").is_file(), "pkg/ is not built: cargo xtask build");
    Router::new()
        .nest_service("/pkg", ServeDir::new(&package))
        // The same files under another address are another copy of the package to a page.
        .nest_service("/copy", ServeDir::new(&package))
        .fallback_service(ServeDir::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("page")))
        // A sandboxed frame is another origin, and loads modules too.
        .layer(map_response(shared))
}

async fn shared(mut response: Response) -> Response {
    response
        .headers_mut()
        .insert(HeaderName::from_static("access-control-allow-origin"), HeaderValue::from_static("*"));
    response
}

/// An address of this machine that is not its loopback, if it has one.
pub fn own_address() -> Option<IpAddr> {
    // Nothing is sent: a socket that is told its peer knows from where it would.
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

/// The repository's root.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
