//! B16: refused for good is not retried for ever; anything else backs off (§3, K6). Ten minutes of the page's clock each.

use patchkeep_e2e::page::{TestPage, with_browser};
use patchkeep_e2e::raw::{Knock, RawServer};
use patchkeep_e2e::site::Site;
use serde_json::{Value, json};

/// What the server does with every connection.
#[derive(Clone, Copy, Debug)]
enum Manners {
    Reject(&'static str, u16),
    Forbid,
    CloseUnexplained,
    ResetAfterWelcome,
}

impl Manners {
    async fn treat(self, knock: Knock) {
        match self {
            Self::Reject(code, close) => {
                let mut socket = knock.accept().await;
                socket.expect("hello").await;
                socket.send(json!({ "type": "reject", "code": code })).await;
                socket.close(close).await;
            }
            Self::Forbid => knock.refuse(403).await,
            Self::CloseUnexplained => {
                let mut socket = knock.accept().await;
                socket.expect("hello").await;
                socket.close(4499).await;
            }
            Self::ResetAfterWelcome => {
                let mut socket = knock.accept().await;
                socket.welcome().await;
                socket.reset();
            }
        }
    }
}

/// Ten minutes: from timer to timer, and after each until the connection has come to rest.
const TEN_MINUTES: &str = "
    const rest = ['waiting', 'held', 'ended'];
    const end = fakeClock.elapsed + 600_000;
    for (;;) {
      while (!rest.includes(pk.session.connection.state)) await fakeClock.realTask();
      const next = Math.max(fakeClock.next ?? end, fakeClock.elapsed);
      if (next >= end) break;
      // Chromium delays sockets for real once more of them failed than opened.
      await new Promise((done) => {
        const friendly = new pkPlainWebSocket(pk.friendly);
        friendly.onopen = () => (friendly.close(), done());
      });
      await fakeClock.advance(next - fakeClock.elapsed);
    }
    return { attempts: pkSockets.length, state: pk.session.connection, status: pk.session.status };";

async fn ten_minutes(manners: Manners, then: impl AsyncFnOnce(&TestPage, Value)) {
    with_browser(async |driver| {
        let site = Site::start().await;
        let page = TestPage::load_with_fake_clock(driver, &site).await;
        let mut server = RawServer::start().await;
        page.start(json!({ "socket": server.url() })).await;
        page.open("d1", json!({})).await;
        let serving = tokio::spawn(async move {
            loop {
                manners.treat(server.knock_whenever().await).await;
            }
        });
        let mut friendly = RawServer::start().await;
        page.run("pk.friendly = args", json!(friendly.url())).await;
        let greeting = tokio::spawn(async move {
            loop {
                let socket = friendly.knock_whenever().await.accept().await;
                socket.close(1000).await;
            }
        });
        let outcome = page.run(TEN_MINUTES, json!({})).await;
        then(&page, outcome).await;
        serving.abort();
        greeting.abort();
        page.check().await;
    })
    .await;
}

fn attempts(outcome: &Value) -> u64 {
    outcome["attempts"].as_u64().expect("a count")
}

#[tokio::test]
async fn b16a_unauthorized_is_tried_again_when_the_host_says_so() {
    ten_minutes(Manners::Reject("unauthorized", 4402), async |page, outcome| {
        assert_eq!(attempts(&outcome), 1, "no attempt by itself");
        assert_eq!(outcome["state"], json!({ "state": "held", "code": "unauthorized" }));
        assert_eq!(outcome["status"], "live");
        page.run("pk.session.reconnect()", json!({})).await;
        let outcome = page.run(TEN_MINUTES, json!({})).await;
        assert_eq!(attempts(&outcome), 2, "one attempt per new credentials");
    })
    .await;
}

#[tokio::test]
async fn b16b_a_forbidden_handshake_backs_off() {
    ten_minutes(Manners::Forbid, backs_off).await;
}

#[tokio::test]
async fn b16c_an_unsupported_protocol_ends_the_attempts() {
    ten_minutes(Manners::Reject("unsupported_protocol", 4401), async |page, outcome| {
        assert_eq!(attempts(&outcome), 1);
        assert!(["held", "ended"].contains(&outcome["state"]["state"].as_str().expect("a word")), "{outcome}");
        let said = page.eval("pk.eventsOf('connectionchange').length + pk.eventsOf('statuschange').length").await;
        assert!(said.as_u64() > Some(0), "the host is told");
    })
    .await;
}

#[tokio::test]
async fn b16d_a_close_without_a_reason_backs_off() {
    ten_minutes(Manners::CloseUnexplained, backs_off).await;
}

#[tokio::test]
async fn b16e_a_welcome_alone_does_not_end_the_back_off() {
    ten_minutes(Manners::ResetAfterWelcome, backs_off).await;
}

async fn backs_off(page: &TestPage, outcome: Value) {
    let attempts = attempts(&outcome);
    assert!((4..=30).contains(&attempts), "{attempts} attempts in ten minutes");
    assert_eq!(outcome["state"]["state"], "waiting");
    assert_eq!(page.eval("pkSocketsAtOnce").await, 1);
    page.problem("connection_failing").await;
}
