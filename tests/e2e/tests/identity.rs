//! T1–T4, T6: who a tab is, whatever browsers copy, restore, freeze or lack. Each ends with one owner per tab id.

use patchkeep_e2e::browser::{Browser, Setup};
use patchkeep_e2e::engine::Cell;
use patchkeep_e2e::frames::Patch;
use patchkeep_e2e::page::{TestPage, with_browser, with_raw_server};
use patchkeep_e2e::raw::RawServer;
use patchkeep_e2e::site::{Site, own_address};
use patchkeep_e2e::wait::until;
use serde_json::{Value, json};

patchkeep_e2e::on_each_engine!(
    b06_a_duplicated_tab_is_another_tab,
    b07_without_a_secure_context_no_stored_id_is_believed,
    b07_without_web_locks_no_stored_id_is_believed,
    b08_while_the_owner_lives_nobody_else_speaks_for_it,
    b09_a_page_back_from_the_cache_that_was_fenced_meanwhile_stops,
    b09_what_arrives_between_pagehide_and_pageshow_belongs_to_the_old_life,
    t01_a_sandboxed_frame_has_neither_storage_nor_an_identity_that_lasts,
    t02_a_session_restored_after_a_kill_resumes_its_tab,
    t02_two_sessions_and_two_copies_are_one_tab,
    t06_two_origins_are_two_tabs,
);

/// Another window as `window.open` makes it, with a copy of sessionStorage; its page is loaded.
async fn duplicate(page: &TestPage) {
    let open = "window.other = window.open(location.href);
        if (other === null) throw new Error('no window was opened');
        await new Promise((done) => other.addEventListener('load', done));
        while (other.pk === undefined) await new Promise((done) => setTimeout(done, 10));
        if (other.sessionStorage.length === 0) throw new Error('nothing was copied');";
    page.run(open, json!({})).await;
}

async fn b06_a_duplicated_tab_is_another_tab() {
    with_raw_server(async |page, server| {
        page.start_on(&server.url(), &["d1"]).await;
        let (_first, t1) = server.welcome().await;
        duplicate(page).await;
        page.run("await other.pk.start(args)", json!({ "socket": server.url() })).await;
        let (_second, t2) = server.welcome().await;
        assert_ne!(t2.tab_id(), t1.tab_id(), "the copy minted another id at once");

        // The owner reloads: it keeps its id, one epoch on.
        page.load_again().await;
        page.start_on(&server.url(), &["d1"]).await;
        let (_again, t1_again) = server.welcome().await;
        assert_eq!((t1_again.tab_id(), t1_again.epoch()), (t1.tab_id(), t1.epoch() + 1));

        // It goes, and the copy reloads: that keeps the id it minted.
        let copy = until("the other window", async || {
            let driver = page.driver();
            let own = driver.window().await.ok()?;
            driver.windows().await.ok()?.into_iter().find(|handle| *handle != own)
        })
        .await;
        page.driver().close_window().await.expect("a window can be closed");
        page.driver().switch_to_window(copy).await.expect("the other can be looked at");
        page.load_again().await;
        page.start_on(&server.url(), &["d1"]).await;
        let (_socket, t2_again) = server.welcome().await;
        assert_eq!((t2_again.tab_id(), t2_again.epoch()), (t2.tab_id(), t2.epoch() + 1));
    })
    .await;
}

async fn b07_without_a_secure_context_no_stored_id_is_believed() -> Cell {
    let Some(address) = own_address() else {
        return Cell::Lacks("this machine has only loopback addresses, and those are secure".into());
    };
    with_browser(async |driver| {
        let site = Site::start_at(address).await;
        let page = TestPage::load(driver, &site).await;
        let mut server = RawServer::start_at(address).await;
        let here = "({ secure: isSecureContext, locks: typeof navigator.locks, uuid: typeof crypto.randomUUID })";
        let here = page.eval(here).await;
        if here["secure"] != false {
            return Cell::Lacks(format!("plain http at {address} counts as secure: {here}"));
        }
        assert_eq!((&here["locks"], &here["uuid"]), (&json!("undefined"), &json!("undefined")), "{here}");
        weak_and_new_with_each_load(&page, &mut server).await;
        page.check().await;
        Cell::Passed
    })
    .await
}

async fn b07_without_web_locks_no_stored_id_is_believed() {
    with_raw_server(async |page, server| {
        // An id of a load that had locks lies there, and must not be believed by one that has none.
        page.start_on(&server.url(), &[]).await;
        let (_socket, strong) = server.welcome().await;
        assert_eq!(page.eval("pk.session.identity").await, "strong");
        page.load_again().await;
        page.run("delete Navigator.prototype.locks", json!({})).await;
        let first = weak_and_new_with_each_load(page, server).await;
        assert_ne!(first, strong.tab_id());
    })
    .await;
}

/// Opens a session here, in a duplicate, and in the next load: three ids, none of them sure of itself.
async fn weak_and_new_with_each_load(page: &TestPage, server: &mut RawServer) -> String {
    let no_locks = "if (navigator.locks !== undefined) delete Navigator.prototype.locks;";
    page.start_on(&server.url(), &["d1"]).await;
    let (mut socket, first) = server.welcome().await;
    assert_eq!(page.eval("pk.session.identity").await, "weak");
    socket.send(first.frame(&Patch::append(1, "d1", "X"))).await;
    socket.skip_to("patch_ack").await;

    page.load_again().await;
    page.run(no_locks, json!({})).await;
    page.start_on(&server.url(), &["d1"]).await;
    let (_socket, second) = server.welcome().await;
    assert_eq!(page.eval("pk.session.identity").await, "weak");
    assert_ne!(second.tab_id(), first.tab_id(), "nothing is resumed on faith");
    assert_eq!(second.0["adopted"].as_array().map_or(0, Vec::len), 0, "and nothing adopted");
    assert_eq!(page.eval("pk.session.records()").await, json!([]));
    first.tab_id().to_owned()
}

async fn b08_while_the_owner_lives_nobody_else_speaks_for_it() {
    with_raw_server(async |page, server| {
        page.start_on(&server.url(), &["d1"]).await;
        let (mut socket, owner) = server.welcome().await;
        duplicate(page).await;
        page.run("await other.pk.start(args)", json!({ "socket": server.url() })).await;
        let (mut other, second) = server.welcome().await;
        // The owner's main thread is busy, and then answers as the owner it still is.
        socket.send(owner.frame(&Patch::append(1, "d1", "X"))).await;
        page.run("const end = performance.now() + 1500; while (performance.now() < end);", json!({})).await;
        socket.skip_to("patch_ack").await;
        other.settle(second.journal_id()).await;
        assert!(server.waiting().is_none(), "nobody has spoken in its place");
        assert_eq!(page.eval("pk.session.status").await, "live");
        assert_eq!(page.text("d1").await, "X");
    })
    .await;
}

async fn b09_a_page_back_from_the_cache_that_was_fenced_meanwhile_stops() -> Cell {
    with_browser(async |driver| {
        let site = Site::start().await;
        let page = TestPage::load(driver, &site).await;
        let mut server = RawServer::start().await;
        page.start_on(&server.url(), &["d1"]).await;
        let (mut socket, hello) = server.welcome().await;
        page.live().await;
        let (tab_id, epoch) = (hello.tab_id().to_owned(), hello.epoch());
        page.run("window.isTheOldPage = true; addEventListener('pageshow', (e) => (window.wasPersisted = e.persisted));", json!({})).await;
        socket.send(hello.frame(&Patch::append(1, "d1", "X"))).await;
        socket.skip_to("patch_ack").await;
        page.until("pk.session.records()[0]?.state === 'applied'").await;
        page.goto(&format!("{}/away.html", site.origin())).await;
        // Another context takes the tab: its lock, and its epoch.
        if page.run(TAKE_OVER, json!({ "tab": tab_id, "epoch": epoch + 1 })).await == false {
            let why = "while the page is cached, no other of its origin gets to its IndexedDB (10 s): none can fence it";
            return Cell::Lacks(why.into());
        }
        page.driver().back().await.expect("there is a page to go back to");
        page.until("globalThis.pk !== undefined").await;
        if page.eval("window.isTheOldPage !== true").await == true {
            let why = "const [entry] = performance.getEntriesByType('navigation');
                return JSON.stringify({ type: entry.type, why: entry.notRestoredReasons?.reasons?.map(({ reason }) => reason) ?? null })";
            let why = page.run(why, json!({})).await;
            return Cell::Lacks(format!("going back loaded the page anew instead of showing the cached one: {why}"));
        }
        assert_eq!(page.eval("window.wasPersisted").await, true);
        page.until("pk.session.status === 'fenced'").await;
        assert_eq!(page.calls("d1").await, 1);
        let refused = page.attempt("pk.docs.get('d1').handle.mark()", json!({})).await;
        assert!(refused["thrown"].as_str().is_some_and(|code| code.starts_with("fenced")), "{refused}");
        assert!(server.waiting().is_none(), "it sends nothing for the tab it was");
        // The host closes the dead session and opens another: a new identity.
        page.run("await pk.session.close()", json!({})).await;
        page.start_on(&server.url(), &["d1"]).await;
        let (mut socket, fresh) = server.welcome().await;
        assert_ne!(fresh.tab_id(), tab_id);
        socket.settle(fresh.journal_id()).await;
        page.check().await;
        Cell::Passed
    })
    .await
}

/// The same with the events alone, which every engine has: the intent's end and a second patch come between `pagehide`
/// and `pageshow`, and belong to the old life.
async fn b09_what_arrives_between_pagehide_and_pageshow_belongs_to_the_old_life() {
    with_raw_server(async |page, server| {
        page.start_on(&server.url(), &["d1"]).await;
        let (mut socket, hello) = server.welcome().await;
        page.live().await;
        // The end of the intent's transaction is delivered when the test says so.
        let hold = "const plain = IDBDatabase.prototype.transaction;
            window.held = [];
            IDBDatabase.prototype.transaction = function (...args) {
              const transaction = plain.apply(this, args);
              if (args[1] === 'readwrite') {
                let complete;
                Object.defineProperty(transaction, 'oncomplete', { set: (callback) => (complete = callback) });
                transaction.addEventListener('complete', (event) => held.push(() => complete(event)));
              }
              return transaction;
            };";
        page.run(hold, json!({})).await;
        socket.send(hello.frame(&Patch::append(1, "d1", "X"))).await;
        page.until("held.length === 1").await;
        page.run("dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }))", json!({})).await;
        let taken = page.run(TAKE_OVER, json!({ "tab": hello.tab_id(), "epoch": hello.epoch() + 1 })).await;
        assert_eq!(taken, true);
        page.run("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true })); held.shift()();", json!({}))
            .await;
        page.until("pk.session.status === 'fenced'").await;
        assert_eq!((page.calls("d1").await, page.text("d1").await.as_str()), (0, ""));
        assert_eq!(page.eval("pk.eventsOf('statuschange')").await, json!(["fenced"]));
        let refused = page.attempt("pk.docs.get('d1').handle.mark()", json!({})).await;
        assert!(refused["thrown"].as_str().is_some_and(|code| code.starts_with("fenced")), "{refused}");
        while let Some(frame) = socket.next().await {
            assert!(frame["type"] != "patch_start" && frame["type"] != "patch_ack", "{frame}");
        }
        assert!(server.waiting().is_none(), "nothing more is sent for that tab");
        page.load_again().await;
        page.start_on(&server.url(), &["d1"]).await;
        let (_socket, next) = server.welcome().await;
        assert_ne!(next.tab_id(), hello.tab_id());
    })
    .await;
}

/// Raises a tab's epoch in the journal, and takes its lock from whoever has it.
const TAKE_OVER: &str = "
    const take = async () => {
      const database = await new Promise((done, failed) => {
        const request = indexedDB.open('patchkeep:ws/tester');
        request.onsuccess = () => done(request.result);
        request.onerror = () => failed(request.error);
      });
      const transaction = database.transaction('tabs', 'readwrite', { durability: 'strict' });
      transaction.objectStore('tabs').put(args.epoch, args.tab);
      await new Promise((done) => transaction.addEventListener('complete', done));
      database.close();
      // Engines differ in whether a cached page keeps its locks; the epoch is what counts.
      navigator.locks?.request(`patchkeep:tab:${args.tab}`, { steal: true }, () => new Promise(() => undefined)).catch(() => undefined);
      return true;
    };
    return Promise.race([take(), new Promise((done) => setTimeout(done, 10000, false))]);";

async fn t01_a_sandboxed_frame_has_neither_storage_nor_an_identity_that_lasts() {
    with_browser(async |driver| {
        let site = Site::start().await;
        let page = TestPage::load(driver, &site).await;
        let mut server = RawServer::start().await;
        let frame = "const frame = document.createElement('iframe');
            frame.sandbox = 'allow-scripts';
            frame.src = location.href;
            const loaded = new Promise((done) => (frame.onload = done));
            document.body.append(frame);
            await loaded;";
        let mut ids = Vec::new();
        for _ in 0..2 {
            page.run(frame, json!({})).await;
            page.driver().enter_frame(0).await.expect("the frame can be looked at");
            page.until("globalThis.pk !== undefined").await;
            let blocked =
                "(() => { try { return typeof sessionStorage.length; } catch (error) { return error.name; } })()";
            assert_eq!(page.eval(blocked).await, "SecurityError");
            page.start_on(&server.url(), &["d1"]).await;
            let (mut socket, hello) = server.welcome().await;
            let told =
                page.eval("({ durability: pk.session.durability, fault: pk.session.getSnapshot().fault })").await;
            assert_eq!(told, json!({ "durability": "memory", "fault": "storage_unavailable" }));
            socket.send(hello.frame(&Patch::append(1, "d1", "X"))).await;
            socket.skip_to("patch_ack").await;
            assert_eq!((page.text("d1").await.as_str(), page.calls("d1").await), ("X", 1));
            page.check().await;
            ids.push((hello.tab_id().to_owned(), hello.journal_id().to_owned()));
            page.driver().enter_default_frame().await.expect("the page is still there");
            page.load_again().await;
        }
        assert_ne!(ids[0].0, ids[1].0);
        assert_ne!(ids[0].1, ids[1].1, "a journal that begins empty is another one");
    })
    .await;
}

async fn t02_a_session_restored_after_a_kill_resumes_its_tab() -> Cell {
    let setup = Setup::new();
    let site = Site::start().await;
    let mut server = RawServer::start().await;
    let browser = Browser::start(&setup).await;
    let page = TestPage::load(browser.driver(), &site).await;
    page.start_on(&server.url(), &["d1"]).await;
    let (mut socket, before) = server.welcome().await;
    socket.send(before.frame(&Patch::append(1, "d1", "X"))).await;
    socket.skip_to("patch_ack").await;
    // What a browser writes of its tabs it writes now and then; another page of the same tab makes it do so.
    page.until("pk.session.records()[0]?.state === 'applied'").await;
    page.goto(&format!("{}/?again", site.origin())).await;
    page.until("globalThis.pk !== undefined").await;
    let written = page.run(SETTLED, json!({})).await;
    browser.kill().await;
    let browser = Browser::start(&setup.restoring()).await;
    let driver = browser.driver();
    let mut urls = Vec::new();
    let mut restored = None;
    for handle in driver.windows().await.expect("a browser has windows") {
        driver.switch_to_window(handle.clone()).await.expect("a window can be looked at");
        let url = driver.current_url().await.expect("a window shows something").to_string();
        if url.starts_with(&site.origin()) {
            restored = Some(handle);
        }
        urls.push(url);
    }
    let Some(_handle) = restored else {
        // Not restored: the profile's journal is there, and the tab is another one.
        let page = TestPage::load(driver, &site).await;
        page.start_on(&server.url(), &["d1"]).await;
        let (_socket, after) = server.welcome().await;
        assert!(after.tab_id() != before.tab_id() || after.epoch() > before.epoch());
        browser.quit().await;
        return Cell::Lacks(format!(
            "a browser started by its driver on the profile of a killed one shows {urls:?}, {written}"
        ));
    };
    let page = TestPage::shown(driver, &site).await;
    let copied = page.eval("sessionStorage.length").await;
    page.start_on(&server.url(), &["d1"]).await;
    let (_socket, after) = server.welcome().await;
    if copied == json!(0) {
        assert_ne!(after.tab_id(), before.tab_id());
        browser.quit().await;
        return Cell::Lacks("the restored tab came back with an empty sessionStorage".into());
    }
    assert_eq!((after.tab_id(), after.journal_id()), (before.tab_id(), before.journal_id()));
    assert!(after.epoch() > before.epoch());
    assert_ne!(after.0["context_id"], before.0["context_id"]);
    let record = page.eval("pk.session.records()[0]").await;
    assert_eq!(record["state"], "unknown", "J7: no hook, nobody knows");
    browser.quit().await;
    Cell::Passed
}

/// Long enough for a browser to have noted its tabs: half a second more than Chromium waits before it writes them.
const SETTLED: &str = "await new Promise((done) => setTimeout(done, 3000)); return 'three seconds after its last page'";

async fn t02_two_sessions_and_two_copies_are_one_tab() {
    with_raw_server(async |page, server| {
        page.start_on(&server.url(), &["d1"]).await;
        let (mut socket, hello) = server.welcome().await;
        let open = "const copy = await import('/copy/dist/index.js');
            const options = { principal: 'ws/tester', socket: { url: () => args } };
            window.second = await openSessionHere(options);
            window.third = await copy.openSession(options);
            window.texts = { d2: '', d3: '' };
            const document = (doc) => ({ baseSeq: 1, apply: (patch) => void (texts[doc] += patch.body.text) });
            window.thirdDoc = await third.openDocument('d3', document('d3'));
            await second.openDocument('d2', document('d2'));
            return [pk.session, second, third].map(({ tabId, epoch, contextId }) => `${tabId} ${epoch} ${contextId}`);";
        let who = page.run(open, json!(server.url())).await;
        assert_eq!((&who[0], &who[0]), (&who[1], &who[2]));
        let mut incarnations = std::collections::BTreeMap::new();
        for _ in 0..2 {
            let open = socket.opened().await;
            incarnations.insert(open["doc"].as_str().expect("a document").to_owned(), open["incarnation"].clone());
        }
        for (n, doc) in [(1, "d1"), (2, "d2"), (3, "d3")] {
            let incarnation = incarnations.get(doc).and_then(Value::as_str).unwrap_or_else(|| hello.incarnation(doc));
            socket.send(Patch::append(n, doc, "X").frame(hello.journal_id(), incarnation)).await;
            socket.skip_to("patch_ack").await;
        }
        assert_eq!(page.text("d1").await, "X");
        assert_eq!(page.eval("texts").await, json!({ "d2": "X", "d3": "X" }));
        assert!(server.waiting().is_none() && page.eval("pkSockets.length").await == 1, "one tab, one socket");

        // The first to open closes: the tab goes on in the hands of the others.
        page.run("await pk.session.close()", json!({})).await;
        assert_eq!(
            page.eval("[pk.session.status, second.status, third.status]").await,
            json!(["closed", "live", "live"])
        );
        let incarnation = incarnations["d3"].as_str().expect("an id").to_owned();
        socket.send(Patch::append(4, "d3", "Y").frame(hello.journal_id(), &incarnation)).await;
        socket.skip_to("patch_ack").await;
        assert_eq!(page.eval("texts.d3").await, "XY");
        page.run("await second.close(); await third.close();", json!({})).await;
        assert!(socket.closed().await.is_some(), "the last one ends it");
        page.start_on(&server.url(), &[]).await;
        let (_socket, next) = server.welcome().await;
        assert_eq!((next.tab_id(), next.epoch()), (hello.tab_id(), hello.epoch() + 1));
    })
    .await;
}

async fn t06_two_origins_are_two_tabs() {
    with_raw_server(async |page, server| {
        let elsewhere = Site::start().await;
        page.start_on(&server.url(), &[]).await;
        let (_socket, here) = server.welcome().await;
        let there_page = TestPage::load(page.driver().clone(), &elsewhere).await;
        there_page.start_on(&server.url(), &[]).await;
        let (_socket, there) = server.welcome().await;
        assert_ne!(there.tab_id(), here.tab_id());
        assert_ne!(there.journal_id(), here.journal_id());
        page.load_again().await;
        page.start_on(&server.url(), &[]).await;
        let (_socket, back) = server.welcome().await;
        assert_eq!((back.tab_id(), back.epoch()), (here.tab_id(), here.epoch() + 1));
    })
    .await;
}
