//! The static files of the tests: the test page at `/`, the package under `/pkg`.

use std::net::SocketAddr;
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

    async fn serve(router: Router) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
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
        .nest_service("/pkg", ServeDir::new(package))
        .fallback_service(ServeDir::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("page")))
}

/// The repository's root.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
