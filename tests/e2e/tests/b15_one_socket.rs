//! B15: however often the page is told that it is online, there is one socket (§3, R5).

use patchkeep_e2e::frames::Patch;
use patchkeep_e2e::page::{TestPage, with_raw_server};
use serde_json::json;

const ENCOURAGE: &str = "
    for (let i = 0; i < 5; i += 1) dispatchEvent(new Event('online'));
    for (let i = 0; i < 3; i += 1) document.dispatchEvent(new Event('visibilitychange'));
    dispatchEvent(new PageTransitionEvent('pageshow', { persisted: false }));";

async fn encourage(page: &TestPage) {
    page.run(ENCOURAGE, json!({})).await;
    // Whatever those events set off has begun once a task of each kind has passed.
    page.run("await new Promise((done) => setTimeout(done)); await fetch('/');", json!({})).await;
}

#[tokio::test]
async fn b15_a_slow_handshake_is_waited_for() {
    with_raw_server(async |page, server| {
        page.start_on(&server.url(), &["d1"]).await;
        let knock = server.knock().await;
        encourage(page).await;
        assert!(server.waiting().is_none(), "no second connection while the first is being made");

        let mut socket = knock.accept().await;
        let hello = socket.welcome().await;
        encourage(page).await;
        socket.send(hello.frame(&Patch::append(1, "d1", "X"))).await;
        socket.expect("patch_start").await;
        socket.expect("patch_ack").await;
        socket.settle(hello.journal_id()).await;
        assert!(server.waiting().is_none(), "none while it is open either");
        assert_eq!(page.text("d1").await, "X");
        assert_eq!(page.eval("[pkSockets.length, pkSocketsAtOnce]").await, json!([1, 1]));
    })
    .await;
}

#[tokio::test]
async fn b15_a_back_off_is_cut_short_by_one_attempt() {
    with_raw_server(async |page, server| {
        page.start_on(&server.url(), &["d1"]).await;
        let (socket, _) = server.welcome().await;
        page.live().await;
        socket.reset();
        page.until("pk.session.connection.state !== 'live'").await;
        encourage(page).await;
        let (mut socket, hello) = server.welcome().await;
        encourage(page).await;
        socket.settle(hello.journal_id()).await;
        assert!(server.waiting().is_none());
        assert_eq!(page.eval("pkSocketsAtOnce").await, 1);
    })
    .await;
}
