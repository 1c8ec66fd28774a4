//! A team's own service: its routes and its table beside Patchkeep's, on one database.
//!
//! ```sh
//! cargo run -p patchkeep-server --example own_write -- shop.db
//! curl -X POST http://127.0.0.1:4400/api/orders -H 'authorization: Bearer secret' \
//!      -H 'idempotency-key: order-1' -d '{"item":"tea","pieces":2}'
//! ```
//!
//! The same order twice is one row, and one answer; so it is when the server is killed in between.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Method};
use axum::routing::post;
use patchkeep_server::decide::Answer;
use patchkeep_server::http::router;
use patchkeep_server::store::{AnyStore, Cell, Store, StoreError, Tx};
use patchkeep_server::{App, Config, KeyedRequest, Token, keyed};
use serde_json::{Value, json};

const PATH: &str = "/api/orders";

/// Patchkeep's routes and the team's.
pub fn service<S: Store>(app: Arc<App<S>>) -> Router {
    Router::new().route(PATH, post(order)).with_state(app.clone()).merge(router(app))
}

/// The team's own table, in the same database.
///
/// # Errors
/// A database that does not answer.
pub async fn make_table<S: Store>(app: &App<S>) -> Result<(), StoreError> {
    let sql = "CREATE TABLE IF NOT EXISTS shop_order (id TEXT PRIMARY KEY, item TEXT NOT NULL, pieces BIGINT NOT NULL)";
    app.transact(|tx| tx.execute(sql, &[]).map(|_| ())).await
}

async fn order<S: Store>(State(app): State<Arc<App<S>>>, headers: HeaderMap, body: String) -> Result<Answer, Answer> {
    let principal = app.authenticate(&headers)?;
    let request = KeyedRequest::read(principal, &Method::POST, PATH, &headers, &body)?;
    let work = async |claimed: patchkeep_server::Claimed| {
        // Here it may ask another service, for as long as that takes: the key stays this attempt's.
        let order: Value = serde_json::from_str(&body).map_err(|_| Answer::error(400, "malformed", "no JSON"))?;
        let (Some(item), Some(pieces)) = (order["item"].as_str(), order["pieces"].as_i64()) else {
            return Err(Answer::error(422, "malformed", "an order has an item and pieces"));
        };
        let (id, item) = (claimed.token.to_string(), item.to_owned());
        Ok(move |tx: &dyn Tx| insert(tx, &id, &item, pieces))
    };
    let failed = |error: StoreError| Answer::error(500, "internal", &error.to_string());
    keyed(&app, request, work).await.map_err(failed)
}

/// Runs in the transaction that records its answer.
fn insert(tx: &dyn Tx, id: &str, item: &str, pieces: i64) -> Result<Answer, StoreError> {
    let sql = "INSERT INTO shop_order (id, item, pieces) VALUES (?1, ?2, ?3)";
    tx.execute(sql, &[id.into(), item.into(), Cell::Integer(pieces)])?;
    let ordered = tx.query("SELECT CAST(SUM(pieces) AS BIGINT) FROM shop_order WHERE item = ?1", &[item.into()])?;
    let total = match ordered.first().and_then(|row| row.first()) {
        Some(Cell::Integer(total)) => *total,
        _ => 0,
    };
    if total > 100 {
        // A refusal takes the row with it (S4).
        return Ok(Answer::error(409, "sold_out", "there are no more than a hundred"));
    }
    Ok(Answer::new(201, json!({"order": id, "total": total})))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut config = Config::new(std::env::args().nth(1).unwrap_or_else(|| "shop.db".into()));
    config.database_url = std::env::var("DATABASE_URL").ok();
    config.tokens = vec![(Token::new("secret"), "shop/anna".parse()?)];
    let opening = config.clone();
    let store = tokio::task::spawn_blocking(move || AnyStore::open(&opening)).await??;
    let app = App::start(store, config).await?;
    make_table(&app).await?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:4400").await?;
    Ok(axum::serve(listener, service(app)).await?)
}
