//! J1, J11, J12: storage that is missing, full, evicted, damaged, relaxed or newer. Nothing is applied twice, and the tab
//! says how it stands.

use patchkeep_e2e::browser::{Browser, Setup};
use patchkeep_e2e::engine::Cell;
use patchkeep_e2e::frames::{Patch, patch_id};
use patchkeep_e2e::page::{TestPage, with_raw_server};
use patchkeep_e2e::raw::{RawServer, RawSocket};
use patchkeep_e2e::site::Site;
use serde_json::{Value, json};

patchkeep_e2e::on_each_engine!(
    b33_a_connection_that_dies_is_opened_again_once,
    b33_a_journal_deleted_under_an_open_tab_is_another_journal,
    b35_storage_that_refuses_leaves_a_memory_journal_and_says_why,
    b35_quota_exceeded_at_every_write_applies_nothing_twice,
    b36_every_intent_and_epoch_is_asked_to_be_strict_and_read_back,
    b36_after_a_power_cut_a_relaxed_journal_proves_nothing,
    b37_a_journal_of_newer_code_is_left_as_it_is,
    j11_a_damaged_record_is_left_in_place_and_said,
    j11_b61_a_damaged_journal_is_reset_on_request_and_read_out_before,
    j11_b61_an_empty_database_of_the_right_version_is_made_whole,
    j11_d19_an_open_that_is_held_up_for_ever_goes_on_in_memory,
    j11_d19_an_open_that_is_blocked_is_told_at_once_and_waited_for,
    j11_in_private_mode_the_journal_says_what_it_promises,
    j11_persistence_is_asked_for_on_request_alone,
);

/// Where the session stands with its storage.
async fn standing(page: &TestPage) -> (String, Value) {
    let told =
        page.eval("({ durability: pk.session.durability, fault: pk.session.getSnapshot().fault ?? null })").await;
    (told["durability"].as_str().expect("a word").to_owned(), told["fault"].clone())
}

/// What is said when the n-th patch is asked about under this journal's id.
async fn asked(socket: &mut RawSocket, journal_id: &str, n: u32, delivery: u64) -> Value {
    let question = json!({ "patch_id": patch_id(n), "delivery": delivery, "journal_id": journal_id });
    socket.send(json!({ "type": "patch_query", "patches": [question] })).await;
    let told = socket.answer(n, delivery).await;
    if told["type"] == "patch_unknown" { json!("unknown") } else { told["state"].clone() }
}

/// Notes every database that is opened.
const WATCH_OPENS: &str = "
    const plain = IDBFactory.prototype.open;
    window.opened = [];
    IDBFactory.prototype.open = function (...args) {
      const request = plain.apply(this, args);
      request.addEventListener('success', () => opened.push(request.result));
      return request;
    };";

async fn b33_a_connection_that_dies_is_opened_again_once() {
    with_raw_server(async |page, server| {
        page.run(WATCH_OPENS, json!({})).await;
        page.start_on(&server.url(), &["d1"]).await;
        let (mut socket, hello) = server.welcome().await;
        socket.applies(&hello, 1, "X").await;
        page.until("pk.session.records()[0].state === 'applied'").await;
        // From here on `transaction()` throws InvalidStateError.
        page.run("opened.at(-1).close()", json!({})).await;
        socket.applies(&hello, 2, "Y").await;
        assert_eq!(asked(&mut socket, hello.journal_id(), 1, 9).await, "applied");
        assert_eq!(standing(page).await, ("strict".into(), Value::Null));
        assert_eq!(page.eval("pk.session.journalId").await, hello.journal_id());
        assert_eq!(page.eval("opened.length").await, 2, "one reopening");
        assert_eq!(page.text("d1").await, "XY");
    })
    .await;
}

async fn b33_a_journal_deleted_under_an_open_tab_is_another_journal() {
    with_raw_server(async |page, server| {
        page.run(WATCH_OPENS, json!({})).await;
        page.start_on(&server.url(), &["d1"]).await;
        let (mut socket, hello) = server.welcome().await;
        socket.applies(&hello, 1, "X").await;
        let delete = "const request = indexedDB.deleteDatabase('patchkeep:ws/tester');
            await new Promise((done, failed) => { request.onsuccess = done; request.onerror = failed; });";
        page.run(delete, json!({})).await;
        while socket.next().await.is_some() {}
        let (mut socket, again) = server.welcome().await;
        assert_ne!(again.journal_id(), hello.journal_id());
        assert_eq!(standing(page).await, ("memory".into(), json!("storage_evicted")));
        assert_eq!(page.eval("pk.eventsOf('durabilitychange').length").await, 1);
        // The server hands it out again under the new name: this instance still knows that it has it (P5).
        socket.send(again.frame(&Patch::append(1, "d1", "X").delivery(2))).await;
        let told = socket.answer(1, 2).await;
        assert_eq!((&told["type"], &told["replayed"]), (&json!("patch_ack"), &json!(true)), "{told}");
        assert_eq!((page.text("d1").await.as_str(), page.calls("d1").await), ("X", 1));
        assert!(page.eval("opened.length").await.as_u64() <= Some(2), "no storm of openings");

        // The next instance knows nothing, and silence is no proof.
        page.load_again().await;
        page.start_on(&server.url(), &["d1"]).await;
        let (mut socket, _) = server.welcome().await;
        assert_eq!(asked(&mut socket, hello.journal_id(), 1, 3).await, "unknown");
        assert_eq!(page.calls("d1").await, 0);
    })
    .await;
}

async fn b35_storage_that_refuses_leaves_a_memory_journal_and_says_why() {
    let failing = |name: &str| {
        format!(
            "IDBFactory.prototype.open = () => {{
               const request = new EventTarget();
               Object.assign(request, {{ result: undefined, error: new DOMException('backing store', '{name}') }});
               setTimeout(() => {{ request.onerror?.(new Event('error')); }});
               return request;
             }}"
        )
    };
    let ways = [
        (failing("InvalidStateError"), "storage_unavailable"),
        (failing("UnknownError"), "storage_corrupt"),
        (
            "Object.defineProperty(globalThis.window, 'indexedDB', { value: undefined, configurable: true })".into(),
            "storage_unavailable",
        ),
        (
            "IDBFactory.prototype.open = () => { throw new DOMException('no', 'SecurityError'); }".into(),
            "storage_unavailable",
        ),
        (
            "IDBObjectStore.prototype.put = () => { throw new DOMException('no', 'QuotaExceededError'); }".into(),
            "storage_full",
        ),
    ];
    with_raw_server(async |page, server| {
        for (break_it, code) in &ways {
            page.load_again().await;
            page.run(break_it, json!({})).await;
            page.start_on(&server.url(), &["d1"]).await;
            assert_eq!(standing(page).await, ("memory".into(), json!(code)), "readable before anything is sent");
            let (mut socket, hello) = server.welcome().await;
            socket.applies(&hello, 1, "X").await;
            assert_eq!((page.text("d1").await.as_str(), page.calls("d1").await), ("X", 1));
            let events = page.until("pk.eventsOf('durabilitychange').length && pk.eventsOf('durabilitychange')").await;
            assert_eq!(events.as_array().map(Vec::len), Some(1), "{events}");
            assert_eq!(page.eval("localStorage.length").await, 0);
            page.run("await pk.session.close()", json!({})).await;
            page.check().await;
        }
    })
    .await;
}

async fn b35_quota_exceeded_at_every_write_applies_nothing_twice() {
    with_raw_server(async |page, _| {
        for write in 1..=8 {
            page.load_again().await;
            // Of this load alone: the one before may have been about to connect anew when it ended.
            let mut server = RawServer::start().await;
            let fail_nth = "let left = args;
                const plain = IDBObjectStore.prototype.put;
                IDBObjectStore.prototype.put = function (...args) {
                  left -= 1;
                  if (left < 0) throw new DOMException('full', 'QuotaExceededError');
                  return plain.apply(this, args);
                };";
            page.run(fail_nth, json!(write - 1)).await;
            page.start(json!({ "socket": server.url(), "principal": format!("ws/quota-{write}") })).await;
            page.open("d1", json!({})).await;
            let (mut socket, mut hello) = server.welcome().await;
            let mut applied = 0;
            for n in 1..=3 {
                socket.send(hello.frame(&Patch::append(n, "d1", "X"))).await;
                applied += 1;
                // The journal may go while the patch waits for its intent: then it is dropped, and comes again to the new one.
                let mut answered = false;
                while let Some(frame) = socket.next().await {
                    let is_ours = frame["patch_id"] == patch_id(n) && frame["type"] != "patch_start";
                    if is_ours {
                        assert_eq!(frame["type"], "patch_ack", "write {write}: {frame}");
                        answered = true;
                        break;
                    }
                }
                if !answered {
                    (socket, hello) = server.welcome().await;
                    socket.send(hello.frame(&Patch::append(n, "d1", "X").delivery(2))).await;
                    if socket.answer(n, 2).await["type"] == "patch_unknown" {
                        applied -= 1;
                    }
                }
                assert_eq!(page.text("d1").await.len(), applied, "write {write}, patch {n}");
                if n == 1 && page.eval("pk.session.connection.state").await == "live" {
                    page.run(
                        "const { handle } = pk.docs.get('d1'); handle.flushed(handle.mark(), { seq: 2 })",
                        json!({}),
                    )
                    .await;
                }
            }
            assert_eq!(page.calls("d1").await, applied as u64);
            let (durability, fault) = standing(page).await;
            let expected = if durability == "memory" { json!("storage_full") } else { Value::Null };
            assert_eq!(fault, expected, "write {write}");
            assert!(durability == "memory" || write > 4, "write {write} failed and was not noticed");
            page.check().await;
        }
    })
    .await;
}

/// Notes the durability that every transaction which writes was asked for and has.
const WATCH_TRANSACTIONS: &str = "
    const plain = IDBDatabase.prototype.transaction;
    window.asked = [];
    IDBDatabase.prototype.transaction = function (...args) {
      const transaction = plain.apply(this, window.dropsOptions ? args.slice(0, 2) : args);
      if (args[1] === 'readwrite') asked.push([args[2]?.durability ?? null, transaction.durability ?? null]);
      return transaction;
    };";

async fn b36_every_intent_and_epoch_is_asked_to_be_strict_and_read_back() {
    with_raw_server(async |page, server| {
        page.run(WATCH_TRANSACTIONS, json!({})).await;
        page.start_on(&server.url(), &["d1"]).await;
        let (mut socket, hello) = server.welcome().await;
        assert_eq!(page.eval("asked").await, json!([["strict", "strict"]]), "the epoch");
        socket.applies(&hello, 1, "X").await;
        assert_eq!(page.eval("asked[1]").await, json!(["strict", "strict"]), "the intent");
        assert_eq!(standing(page).await, ("strict".into(), Value::Null));
    })
    .await;
}

async fn b36_after_a_power_cut_a_relaxed_journal_proves_nothing() {
    with_raw_server(async |page, server| {
        page.run(WATCH_TRANSACTIONS, json!({})).await;
        page.run("window.dropsOptions = true", json!({})).await;
        page.start_on(&server.url(), &["d1"]).await;
        let (mut socket, hello) = server.welcome().await;
        assert_eq!(standing(page).await.0, "relaxed", "the engine did not give what was asked for");
        socket.applies(&hello, 1, "X").await;
        page.run("await pk.session.close()", json!({})).await;
        // The newest writes were reported complete, and are not there after the cut.
        let cut = "const database = await new Promise((done) => {
              const request = indexedDB.open('patchkeep:ws/tester');
              request.onsuccess = () => done(request.result);
            });
            const transaction = database.transaction('records', 'readwrite');
            transaction.objectStore('records').clear();
            await new Promise((done) => transaction.addEventListener('complete', done));
            database.close();";
        page.run(cut, json!({})).await;
        page.load_again().await;
        page.run(WATCH_TRANSACTIONS, json!({})).await;
        page.run("window.dropsOptions = true", json!({})).await;
        page.start_on(&server.url(), &["d1"]).await;
        let (mut socket, hello) = server.welcome().await;
        assert_eq!(asked(&mut socket, hello.journal_id(), 1, 9).await, "unknown", "never `not_seen`");
        socket.send(hello.frame(&Patch::append(1, "d1", "X").delivery(10))).await;
        assert_eq!(socket.answer(1, 10).await["type"], "patch_unknown");
        assert_eq!((page.text("d1").await.as_str(), page.calls("d1").await), ("", 0));
    })
    .await;
}

async fn b37_a_journal_of_newer_code_is_left_as_it_is() {
    with_raw_server(async |page, server| {
        let newer = "const database = await new Promise((done) => {
              const request = indexedDB.open('patchkeep:ws/tester', 99);
              request.onupgradeneeded = () => {
                for (const name of ['meta', 'tabs', 'records', 'future']) request.result.createObjectStore(name);
                request.transaction.objectStore('records').put('what only newer code reads', 'key');
              };
              request.onsuccess = () => done(request.result);
            });
            database.close();";
        page.run(newer, json!({})).await;
        for _ in 0..2 {
            page.start_on(&server.url(), &["d1"]).await;
            assert_eq!(standing(page).await, ("memory".into(), json!("storage_newer_than_code")));
            let (mut socket, hello) = server.welcome().await;
            socket.applies(&hello, 1, "X").await;
            assert_eq!(page.calls("d1").await, 1);
            page.load_again().await;
        }
        let left = "const database = await new Promise((done) => {
              const request = indexedDB.open('patchkeep:ws/tester');
              request.onsuccess = () => done(request.result);
            });
            const stores = [...database.objectStoreNames];
            const transaction = database.transaction(stores);
            const all = {};
            for (const name of stores) {
              const request = transaction.objectStore(name).getAll();
              all[name] = await new Promise((done) => (request.onsuccess = () => done(request.result)));
            }
            const { version } = database;
            database.close();
            return { version, all };";
        let expected = json!({ "version": 99, "all": { "future": [], "meta": [], "records": ["what only newer code reads"], "tabs": [] } });
        assert_eq!(page.run(left, json!({})).await, expected, "nothing was written or deleted");
    })
    .await;
}

async fn j11_a_damaged_record_is_left_in_place_and_said() {
    with_raw_server(async |page, server| {
        page.start_on(&server.url(), &["d1"]).await;
        let (mut socket, hello) = server.welcome().await;
        socket.applies(&hello, 1, "X").await;
        page.run("await pk.session.close()", json!({})).await;
        let damage = "const database = await new Promise((done) => {
              const request = indexedDB.open('patchkeep:ws/tester');
              request.onsuccess = () => done(request.result);
            });
            const transaction = database.transaction('records', 'readwrite');
            const store = transaction.objectStore('records');
            const request = store.openCursor();
            request.onsuccess = () => request.result?.update(request.result.value.replace(args.from, args.to));
            await new Promise((done) => transaction.addEventListener('complete', done));
            const [left] = await new Promise((done) => {
              const request = database.transaction('records').objectStore('records').getAll();
              request.onsuccess = () => done(request.result);
            });
            database.close();
            return left;";
        // One word for another: still a record by its form, and not what was written.
        let left = page.run(damage, json!({ "from": "\"state\":\"applied\"", "to": "\"state\":\"unknown\"" })).await;
        page.load_again().await;
        page.start_on(&server.url(), &["d1"]).await;
        assert_eq!(standing(page).await, ("memory".into(), json!("storage_corrupt")));
        page.problem("corrupt_record").await;
        let (mut socket, again) = server.welcome().await;
        assert_ne!(again.journal_id(), hello.journal_id());
        assert_eq!(asked(&mut socket, hello.journal_id(), 1, 9).await, "unknown");
        assert_eq!(page.calls("d1").await, 0);
        page.run("await pk.session.close()", json!({})).await;
        assert_eq!(page.run(damage, json!({ "from": "nothing", "to": "" })).await, left, "it is left in place");
    })
    .await;
}

async fn j11_b61_a_damaged_journal_is_reset_on_request_and_read_out_before() {
    with_raw_server(async |page, server| {
        page.start_on(&server.url(), &["d1"]).await;
        let (mut socket, hello) = server.welcome().await;
        socket.applies(&hello, 1, "X").await;
        let sound = page.attempt("await pk.session.resetStorage()", json!({})).await;
        assert!(sound["thrown"].as_str().is_some_and(|code| code.starts_with("storage_sound")), "{sound}");
        page.run("await pk.session.close()", json!({})).await;
        let damage = "await new Promise((done) => {
            const request = indexedDB.open('patchkeep:ws/tester');
            request.onsuccess = () => {
              const transaction = request.result.transaction('records', 'readwrite');
              transaction.objectStore('records').openCursor().onsuccess = ({ target }) => {
                target.result?.update('damaged');
                target.result?.continue();
              };
              transaction.oncomplete = () => (request.result.close(), done());
            };
          });";
        page.run(damage, json!({})).await;

        page.load_again().await;
        page.start_on(&server.url(), &["d1"]).await;
        assert_eq!(standing(page).await, ("memory".into(), json!("storage_corrupt")));
        let (_socket, _) = server.welcome().await;
        let lines = page.run("return await pk.session.resetStorage()", json!({})).await;
        let lines: Vec<Value> =
            lines.as_str().expect("text").lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(lines[0]["database"], "patchkeep:ws/tester");
        let read = |store: &str| lines.iter().filter(|line| line["store"] == store).count();
        assert_eq!((read("meta"), read("tabs"), read("records")), (1, 1, 1), "{lines:?}");
        assert_eq!(standing(page).await, ("memory".into(), json!("storage_evicted")), "this session goes on");
        let again = page.attempt("await pk.session.resetStorage()", json!({})).await;
        assert!(again["thrown"].as_str().is_some_and(|code| code.starts_with("storage_sound")), "{again}");

        page.load_again().await;
        page.start_on(&server.url(), &["d1"]).await;
        let (mut socket, anew) = server.welcome().await;
        assert_eq!(standing(page).await, ("strict".into(), Value::Null));
        assert_ne!(anew.journal_id(), hello.journal_id());
        assert_eq!(asked(&mut socket, hello.journal_id(), 1, 9).await, "unknown", "what only it knew is not known");
    })
    .await;
}

/// Holds a connection to the journal's database, of version 1 with these stores, with no ear for anybody who wants it.
const OPEN_RAW: &str = "window.database = await new Promise((done, failed) => {
      const request = indexedDB.open('patchkeep:ws/tester');
      request.onupgradeneeded = () => args.stores.forEach((name) => request.result.createObjectStore(name));
      request.onsuccess = () => done(request.result);
      request.onerror = () => failed(request.error);
    });";

async fn j11_b61_an_empty_database_of_the_right_version_is_made_whole() {
    for stores in [json!([]), json!(["meta", "tabs"]), json!(["records"])] {
        with_raw_server(async |page, server| {
            page.run(OPEN_RAW, json!({ "stores": stores })).await;
            page.run("database.close()", json!({})).await;
            page.start_on(&server.url(), &["d1"]).await;
            let (mut socket, hello) = server.welcome().await;
            assert_eq!(standing(page).await, ("strict".into(), json!("storage_evicted")), "{stores}");
            socket.applies(&hello, 1, "X").await;
            page.run("await pk.session.close()", json!({})).await;
            // From here on it is a journal like any other.
            page.load_again().await;
            page.start_on(&server.url(), &["d1"]).await;
            let (_socket, again) = server.welcome().await;
            assert_eq!(standing(page).await, ("strict".into(), Value::Null), "{stores}");
            assert_eq!((again.journal_id(), again.tab_id()), (hello.journal_id(), hello.tab_id()));
        })
        .await;
    }
}

async fn j11_d19_an_open_that_is_held_up_for_ever_goes_on_in_memory() {
    with_raw_server(async |page, server| {
        page.run(OPEN_RAW, json!({ "stores": ["meta", "tabs", "records"] })).await;
        page.run("indexedDB.deleteDatabase('patchkeep:ws/tester')", json!({})).await;
        page.start(json!({ "socket": server.url(), "storageTimeoutMs": 300 })).await;
        let (_socket, _) = server.welcome().await;
        assert_eq!(standing(page).await, ("memory".into(), json!("storage_blocked")));
        page.open("d1", json!({})).await;
        // Whoever held it goes; what opens after all is closed again, so that nobody is in the way of the next load.
        page.run("database.close()", json!({})).await;
        page.load_again().await;
        page.start_on(&server.url(), &["d1"]).await;
        let (_socket, _) = server.welcome().await;
        assert_eq!(standing(page).await, ("strict".into(), Value::Null));
    })
    .await;
}

async fn j11_d19_an_open_that_is_blocked_is_told_at_once_and_waited_for() {
    with_raw_server(async |page, server| {
        page.run(OPEN_RAW, json!({ "stores": ["meta", "tabs", "records"] })).await;
        let start = "window.starting = pk.start(args); window.starting.then(() => (window.isStarted = true));";
        page.run(start, json!({ "socket": server.url(), "storageTimeoutMs": 60_000 })).await;
        page.until("pk.blocked === 1").await;
        assert_eq!(page.eval("window.isStarted === true").await, false);
        page.run("database.close(); await starting;", json!({})).await;
        let (_socket, _) = server.welcome().await;
        assert_eq!(standing(page).await, ("strict".into(), Value::Null));
    })
    .await;
}

async fn j11_in_private_mode_the_journal_says_what_it_promises() {
    let site = Site::start().await;
    let mut server = RawServer::start().await;
    let browser = Browser::start(&Setup::new().private()).await;
    let page = TestPage::load(browser.driver(), &site).await;
    page.start_on(&server.url(), &["d1"]).await;
    let (mut socket, hello) = server.welcome().await;
    socket.applies(&hello, 1, "X").await;
    let (durability, fault) = standing(&page).await;
    assert!(durability != "memory" || fault != Value::Null, "less than was asked for, and no reason");
    socket.send(hello.frame(&Patch::append(1, "d1", "X").delivery(2))).await;
    assert_eq!(socket.answer(1, 2).await["replayed"], true);
    assert_eq!((page.text("d1").await.as_str(), page.calls("d1").await), ("X", 1));
    page.check().await;
    browser.quit().await;
}

async fn j11_persistence_is_asked_for_on_request_alone() -> Cell {
    let mut cell = Cell::Passed;
    with_raw_server(async |page, server| {
        let here = page.eval("`${typeof navigator.storage} ${typeof globalThis.StorageManager}`").await;
        if here != "object function" {
            assert_eq!(page.run("return await pk.persistStorage()", json!({})).await, false);
            cell = Cell::Lacks(format!("navigator.storage and StorageManager are {here}"));
            return;
        }
        let watch = "window.persists = 0;
            StorageManager.prototype.persist = async () => { window.persists += 1; return true; };";
        page.run(watch, json!({})).await;
        page.start_on(&server.url(), &["d1"]).await;
        let (mut socket, hello) = server.welcome().await;
        socket.applies(&hello, 1, "X").await;
        assert_eq!(page.eval("persists").await, 0);
        assert_eq!(page.run("return await pk.persistStorage()", json!({})).await, true);
        assert_eq!(page.eval("persists").await, 1);
        page.run("StorageManager.prototype.persist = undefined", json!({})).await;
        assert_eq!(
            page.run("return await pk.persistStorage()", json!({})).await,
            false,
            "where there is no such thing"
        );
    })
    .await;
    cell
}
