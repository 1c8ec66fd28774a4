//! J4: a context whose epoch was overtaken is dead; T1, T3: what identity survives.

use patchkeep_e2e::frames::Patch;
use patchkeep_e2e::page::with_raw_server;
use serde_json::json;

patchkeep_e2e::on_each_engine!(
    j04_an_overtaken_session_is_fenced_before_any_handler_is_called,
    t01_two_windows_never_share_a_tab_id_and_a_reload_keeps_it,
);

/// What another context that takes the tab id does to the journal.
const TAKE_THE_TAB: &str = "
    const database = await new Promise((done, failed) => {
      const request = indexedDB.open('patchkeep:ws/tester');
      request.onsuccess = () => done(request.result);
      request.onerror = () => failed(request.error);
    });
    await new Promise((done) => {
      const transaction = database.transaction('tabs', 'readwrite', { durability: 'strict' });
      transaction.objectStore('tabs').put(pk.session.epoch + 1, pk.session.tabId);
      transaction.oncomplete = done;
    });
    database.close();";

async fn j04_an_overtaken_session_is_fenced_before_any_handler_is_called() {
    with_raw_server(async |page, server| {
        page.start_on(&server.url(), &["d1"]).await;
        let (mut socket, hello) = server.welcome().await;
        page.live().await;
        page.run(TAKE_THE_TAB, json!({})).await;
        socket.send(hello.frame(&Patch::append(1, "d1", "X"))).await;
        page.until("pk.session.status === 'fenced'").await;
        assert_eq!(page.eval("pk.eventsOf('statuschange')").await, json!(["fenced"]));
        assert_eq!((page.text("d1").await.as_str(), page.calls("d1").await), ("", 0));
        let refused = page.attempt("pk.docs.get('d1').handle.mark()", json!({})).await;
        assert!(refused["thrown"].as_str().is_some_and(|code| code.starts_with("fenced")), "{refused}");
        while let Some(frame) = socket.next().await {
            assert!(frame["type"] != "patch_ack" && frame["type"] != "patch_start", "{frame}");
        }
        assert!(server.waiting().is_none(), "a fenced session does not come back");
    })
    .await;
}

async fn t01_two_windows_never_share_a_tab_id_and_a_reload_keeps_it() {
    with_raw_server(async |page, server| {
        page.start_on(&server.url(), &["d1"]).await;
        let (_socket, first) = server.welcome().await;
        // `window.open` copies sessionStorage, and with it the tab id.
        let script = "const other = window.open(location.href);
            await new Promise((done) => other.addEventListener('load', done));
            while (other.pk === undefined) await new Promise((done) => setTimeout(done, 10));
            await other.pk.start(args);
            return { stored: [...Array(other.sessionStorage.length).keys()].length, tabId: other.pk.session.tabId };";
        let other = page.run(script, json!({ "socket": server.url() })).await;
        let (_other_socket, second) = server.welcome().await;
        assert!(other["stored"].as_u64() > Some(0), "the copy is what this is about");
        assert_eq!(other["tabId"], second.tab_id());
        assert_ne!(first.tab_id(), second.tab_id());

        page.load_again().await;
        page.start_on(&server.url(), &["d1"]).await;
        let (_socket, again) = server.welcome().await;
        assert_eq!(again.tab_id(), first.tab_id());
        assert_eq!(again.journal_id(), first.journal_id());
        assert!(again.0["epoch"].as_u64() > first.0["epoch"].as_u64());
        assert_ne!(again.0["context_id"], first.0["context_id"]);
    })
    .await;
}
