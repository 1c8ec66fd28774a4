//! The HTTP surface: one router over one [`App`].

mod body;
mod caller;
mod docs;
mod extras;
mod keys;
mod reply;
mod socket;

use std::sync::Arc;

pub(crate) use caller::authenticate;
pub(crate) use docs::read_attempt;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderName, HeaderValue, Method, header};
use axum::routing::{get, post};
use tower_http::cors::{AllowOrigin, CorsLayer};
use tower_http::services::ServeDir;

use crate::app::App;
use crate::store::Store;

/// The routes of the contract. Mount it in a service of your own, or let [`crate::Server`] listen with it.
///
/// Where it is served without [`crate::net::Peer`] as connect info, fault switches cannot lose a connection, and
/// `/demo.json` is not there.
pub fn router<S: Store>(app: Arc<App<S>>) -> Router {
    let config = &app.config;
    let mut routes = Router::new()
        .route("/healthz", get(extras::health))
        .route("/api/server/capabilities", get(extras::capabilities::<S>))
        .route("/api/tickets", post(extras::ticket::<S>))
        .route("/api/socket", get(socket::socket::<S>))
        .route("/api/keys/{key}", get(keys::ask::<S>))
        .route("/api/keys/{key}/settle", post(keys::settle::<S>))
        .route("/api/docs/{*doc}", get(docs::read::<S>).patch(docs::patch::<S>).put(docs::save::<S>));
    if config.faults {
        routes = routes.route("/faults", get(extras::show_faults::<S>).post(extras::set_faults::<S>));
    }
    if config.demo {
        routes = routes.route("/demo.json", get(extras::demo::<S>));
    }
    routes = match &config.www {
        Some(folder) => routes.fallback_service(ServeDir::new(folder)),
        None => routes.fallback(extras::not_found),
    };
    let limit = DefaultBodyLimit::max(config.max_body_bytes());
    routes = routes.layer(limit);
    if !config.origins.is_empty() {
        routes = routes.layer(cors(&config.origins));
    }
    routes.with_state(app)
}

/// Pages of the named origins may use the API with a bearer token; there are no cookies to ride on.
fn cors(origins: &[String]) -> CorsLayer {
    let origins = origins.iter().filter_map(|o| HeaderValue::from_str(o).ok());
    let named = |name| HeaderName::from_static(name);
    CorsLayer::new()
        .allow_origin(AllowOrigin::list(origins))
        .allow_methods([Method::GET, Method::POST, Method::PATCH, Method::PUT])
        .allow_headers([
            header::AUTHORIZATION,
            header::CONTENT_TYPE,
            named("idempotency-key"),
            named("idempotency-attempt"),
            named("idempotency-first-attempt"),
            named("idempotency-ask"),
            named("patchkeep-principal"),
        ])
        .expose_headers([header::RETRY_AFTER, header::DATE, named(reply::REPLAYED)])
}
