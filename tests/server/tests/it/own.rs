//! A team's own write behind a key, mounted beside the router (S1–S4): the example as it stands, and its corners.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::{HeaderMap, Method};
use patchkeep_server::decide::Answer;
use patchkeep_server::store::{AnyStore, Cell, StoreError, Tx};
use patchkeep_server::{App, Claimed, Config, KeyedRequest, Token, keyed};
use serde_json::json;
use tokio::sync::Notify;

use crate::place::Place;
use crate::world::{PATIENCE, Reply, read};

#[path = "../../examples/own_write.rs"]
#[allow(dead_code, reason = "its main")]
mod own_write;

const TOKEN: &str = "secret";
const LEASE_MS: u64 = 60_000;

struct Shop {
    place: Place,
    app: Arc<App<AnyStore>>,
    url: String,
}

impl Shop {
    async fn open(place: Place) -> Self {
        let config = Config {
            tokens: vec![(Token::new(TOKEN), "shop/anna".parse().unwrap())],
            seed: vec![("d1".into(), "a\n".into())],
            lease_ms: LEASE_MS,
            ..place.config()
        };
        let app = App::start(place.store().await.unwrap(), config).await.unwrap();
        own_write::make_table(&app).await.unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let service = own_write::service(app.clone());
        tokio::spawn(async move { axum::serve(listener, service).await });
        Self { place, app, url }
    }

    async fn order(&self, key: &str, attempt: u64, body: &str) -> Reply {
        let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
        let request = http.post(format!("{}/api/orders", self.url)).bearer_auth(TOKEN).body(body.to_owned());
        let request = request.header("idempotency-key", key).header("idempotency-attempt", attempt);
        read(request.send().await.unwrap()).await.unwrap()
    }

    fn orders(&self) -> usize {
        self.place.texts("SELECT id FROM shop_order").len()
    }

    fn request(&self, key: &str, attempt: u64) -> KeyedRequest {
        let mut headers = HeaderMap::new();
        headers.insert("idempotency-key", key.parse().unwrap());
        headers.insert("idempotency-attempt", attempt.into());
        KeyedRequest::read("shop/anna".parse().unwrap(), &Method::POST, "/own", &headers, "{}").unwrap()
    }

    /// An attempt that works until it is told to go on, and says when it has begun.
    fn slow(&self, key: &str, began: &Arc<Notify>, go: &Arc<Notify>) -> tokio::task::JoinHandle<Answer> {
        let (app, request, began, go) = (self.app.clone(), self.request(key, 1), began.clone(), go.clone());
        tokio::spawn(async move {
            let work = async |claimed: Claimed| {
                began.notify_one();
                go.notified().await;
                Ok(write(claimed.token.to_string()))
            };
            keyed(&app, request, work).await.unwrap()
        })
    }

    async fn quick(&self, key: &str, attempt: u64) -> Answer {
        let work = async |claimed: Claimed| Ok(write(claimed.token.to_string()));
        keyed(&self.app, self.request(key, attempt), work).await.unwrap()
    }
}

fn write(id: String) -> impl FnOnce(&dyn Tx) -> Result<Answer, StoreError> + Send + 'static {
    move |tx| {
        let values = [id.as_str().into(), Cell::Integer(1)];
        tx.execute("INSERT INTO shop_order (id, item, pieces) VALUES (?1, 'own', ?2)", &values)?;
        Ok(Answer::new(201, json!({"order": id})))
    }
}

#[tokio::test]
async fn s02_an_own_write_is_done_with_its_answer_and_told_again() {
    let shop = Shop::open(Place::new()).await;
    let first = shop.order("k", 1, r#"{"item":"tea","pieces":2}"#).await;
    assert_eq!((first.status, first.replayed(), &first.body["total"]), (201, false, &json!(2)));
    let again = shop.order("k", 2, r#"{"pieces":2,"item":"tea"}"#).await;
    assert_eq!((again.status, again.replayed(), &again.body["order"]), (201, true, &first.body["order"]));
    let other = shop.order("k", 2, r#"{"item":"tea","pieces":3}"#).await;
    assert_eq!((other.status, other.code()), (422, "idempotency_key_reused"));
    assert_eq!(shop.orders(), 1);
    // Another process finds it.
    let Shop { place, app, .. } = shop;
    app.end();
    let shop = Shop::open(place).await;
    assert!(shop.order("k", 3, r#"{"item":"tea","pieces":2}"#).await.replayed());
    assert_eq!(shop.orders(), 1);
    // Patchkeep's own routes are there beside it.
    let read = reqwest::Client::new().get(format!("{}/api/docs/d1", shop.url)).bearer_auth(TOKEN).send().await;
    assert_eq!(read.unwrap().status(), 200);
}

#[tokio::test]
async fn s04_a_refused_own_write_leaves_nothing_and_releases_its_key() {
    let shop = Shop::open(Place::new()).await;
    let body = r#"{"item":"tea","pieces":101}"#;
    let refused = shop.order("k", 1, body).await;
    assert_eq!((refused.status, refused.code(), refused.released()), (409, "sold_out", true));
    assert_eq!(shop.orders(), 0);
    assert!(shop.order("k", 1, body).await.replayed());
    assert!(!shop.order("k", 2, body).await.replayed(), "a higher attempt is tried anew");
    let before = shop.order("early", 1, r#"{"item":"tea"}"#).await;
    assert_eq!((before.status, before.released()), (422, true));
}

#[tokio::test]
async fn s03_sixty_four_own_writes_at_once_are_one() {
    let shop = Arc::new(Shop::open(Place::new()).await);
    let sent: Vec<_> = (0..64)
        .map(|_| {
            let shop = shop.clone();
            tokio::spawn(async move { shop.order("k", 1, r#"{"item":"tea","pieces":1}"#).await })
        })
        .collect();
    let mut firsts = 0;
    for task in sent {
        let reply = task.await.unwrap();
        firsts += usize::from(reply.status == 201 && !reply.replayed());
        assert!(reply.status == 201 || reply.code() == "idempotency_in_flight", "{reply:?}");
    }
    assert_eq!((firsts, shop.orders()), (1, 1));
}

#[tokio::test]
async fn k05_a_failure_of_ones_own_is_never_recorded() {
    let shop = Shop::open(Place::new()).await;
    let fails = async |_: Claimed| {
        Ok(|tx: &dyn Tx| {
            tx.execute("INSERT INTO shop_order (id, item, pieces) VALUES ('x', 'own', 1)", &[])?;
            Ok(Answer::error(500, "internal", "the till is open"))
        })
    };
    assert_eq!(keyed(&shop.app, shop.request("k", 1), fails).await.unwrap().status, 500);
    assert_eq!(shop.orders(), 0);
    let again = shop.quick("k", 1).await;
    assert_eq!((again.status, again.replayed, shop.orders()), (201, false, 1));
}

#[tokio::test]
async fn s02_a_slow_holder_that_lives_keeps_its_claim() {
    let shop = Shop::open(Place::new()).await;
    let (began, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let slow = shop.slow("k", &began, &go);
    began.notified().await;
    let lease = || shop.place.row("k", "lease_until").unwrap().parse::<u64>().unwrap();
    let first = lease();
    shop.place.ahead.fetch_add(LEASE_MS * 5 / 6, Ordering::SeqCst);
    let renewed = async {
        let mut again = tokio::time::interval(std::time::Duration::from_millis(20));
        while lease() < first + LEASE_MS / 2 {
            again.tick().await;
        }
    };
    tokio::time::timeout(PATIENCE, renewed).await.expect("it is renewed by the database's clock");
    shop.place.ahead.fetch_add(LEASE_MS / 2, Ordering::SeqCst);
    assert_eq!(shop.quick("k", 2).await.code(), Some("idempotency_in_flight"), "past the lease it began with");
    go.notify_one();
    assert_eq!(slow.await.unwrap().status, 201);
    assert_eq!(shop.orders(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn s02_a_paused_holder_is_overtaken_and_its_own_write_rolls_back() {
    let shop = Shop::open(Place::new()).await;
    let (began, go) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
    let (app, request, began2, go2) = (shop.app.clone(), shop.request("k", 1), began.clone(), go.clone());
    let paused = tokio::spawn(async move {
        let work = async |claimed: Claimed| {
            began2.notify_one();
            // It stands still, as a stopped process does: nothing beside it runs either.
            while !go2.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            Ok(write(claimed.token.to_string()))
        };
        keyed(&app, request, work).await.unwrap()
    });
    began.notified().await;
    shop.place.ahead.fetch_add(LEASE_MS + 1000, Ordering::SeqCst);
    let second = shop.quick("k", 2).await;
    assert_eq!((second.status, second.replayed), (201, false));
    go.store(true, Ordering::SeqCst);
    let late = paused.await.unwrap();
    assert_eq!((late.status, late.code()), (409, Some("idempotency_in_flight")));
    assert_eq!(shop.orders(), 1, "its row went with its claim");
    assert!(shop.quick("k", 3).await.replayed);
}
