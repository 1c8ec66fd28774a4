//! Storage and identity that fail under a session: what the host is told, and what goes on (J4, J11, T1).

use wasm_bindgen_test::wasm_bindgen_test;

use crate::support::Tab;

#[wasm_bindgen_test]
async fn j11_without_storage_a_session_opens_in_memory_and_says_why_first() {
    let tab = Tab::open(
        "strict",
        "const own = Object.getOwnPropertyDescriptor(window, 'indexedDB');
         Object.defineProperty(window, 'indexedDB', {
           configurable: true,
           get() { throw new DOMException('blocked', 'SecurityError'); },
         });
         host.onNotice = () => { Object.defineProperty(window, 'indexedDB', own); host.onNotice = undefined; };",
    )
    .await;
    let first = tab.json("return host.log[0]").await;
    assert!(
        first.contains("durability") && first.contains("memory") && first.contains("storage_unavailable"),
        "{first}"
    );
    tab.welcome().await;
    tab.run("host.doc = host.engine.openDocument('d', 1, false, false, false, false)").await;
    tab.patch(1, "x", false).await;
    assert_eq!(tab.answers().await, ["start", "ack"]);
    tab.close().await;
}

#[wasm_bindgen_test]
async fn j11_a_store_that_goes_away_leaves_a_memory_journal_of_another_id() {
    let tab = Tab::open("strict", "").await;
    tab.welcome().await;
    let before = tab.json("return JSON.parse(host.engine.info()).journal_id").await;
    tab.run(
        "return indexedDB.databases().then((all) => Promise.all(all
           .filter(({ name }) => name === 'patchkeep:' + host.principal)
           .map(({ name }) => new Promise((done) => { indexedDB.deleteDatabase(name).onsuccess = done; }))))",
    )
    .await;
    tab.run("return host.tick()").await;
    let notices = tab.json("return host.log.filter((entry) => entry.startsWith('durability'))").await;
    assert!(notices.contains("memory") && notices.contains("storage_evicted"), "{notices}");
    assert_ne!(tab.json("return JSON.parse(host.engine.info()).journal_id").await, before);
    assert_eq!(tab.json("return host.sockets").await, "2", "it says hello anew before another patch");
    tab.close().await;
}

#[wasm_bindgen_test]
async fn t01_a_stolen_lock_fences_the_session_and_calls_no_handler_again() {
    let tab = Tab::open("strict", "").await;
    tab.welcome().await;
    tab.run("host.doc = host.engine.openDocument('d', 1, false, false, false, false)").await;
    tab.run(
        "const id = JSON.parse(host.engine.info()).tab_id;
         return new Promise((done) => {
           host.onNotice = (kind) => { if (kind === 'status') done(); };
           navigator.locks.request('patchkeep:tab:' + id, { steal: true }, () => undefined);
         })",
    )
    .await;
    assert_eq!(tab.json("return JSON.parse(host.engine.info()).status").await, "\"fenced\"");
    let thrown = tab.json("try { host.doc.mark(); } catch (code) { return code; }").await;
    assert_eq!(thrown, "\"fenced\"");
    assert_eq!(tab.json("return host.closed.length").await, "1");
    tab.close().await;
}

#[wasm_bindgen_test]
async fn j04_a_higher_epoch_in_the_store_fences_the_session_before_the_handler() {
    let tab = Tab::open("strict", "").await;
    tab.welcome().await;
    tab.run("host.doc = host.engine.openDocument('d', 1, false, false, false, false)").await;
    tab.run(
        "const { tab_id, epoch } = JSON.parse(host.engine.info());
         return new Promise((done) => {
           const open = indexedDB.open('patchkeep:' + host.principal);
           open.onsuccess = () => {
             const tx = open.result.transaction('tabs', 'readwrite');
             tx.objectStore('tabs').put(epoch + 1, tab_id);
             tx.oncomplete = () => { open.result.close(); done(); };
           };
         })",
    )
    .await;
    tab.run("host.fenced = new Promise((done) => { host.onNotice = (kind) => { if (kind === 'status') done(); }; })")
        .await;
    tab.patch(1, "x", false).await;
    tab.run("return host.fenced").await;
    assert_eq!(tab.json("return host.text").await, "\"\"");
    assert!(tab.answers().await.is_empty());
    tab.close().await;
}

#[wasm_bindgen_test]
async fn t02_the_next_session_of_the_page_goes_on_with_tab_and_records() {
    let tab = Tab::open("strict", "").await;
    tab.welcome().await;
    tab.run("host.doc = host.engine.openDocument('d', 1, false, false, false, false)").await;
    tab.run("host.applied = new Promise((done) => { host.onNotice = (kind, json) => { if (json.includes('\"applied\"')) done(); }; })").await;
    tab.patch(1, "x", false).await;
    tab.run("return host.applied").await;
    let before = tab.run("return host.engine.info()").await.as_string().unwrap();
    let principal = tab.run("return host.principal").await.as_string().unwrap();
    // The `applied` record is still on its way to the store: closing waits for it.
    tab.close().await;
    let next = Tab::open_as("strict", "", &principal).await;
    let after = next.run("return host.engine.info()").await.as_string().unwrap();
    let field = |info: &str, name: &str| {
        let value = patchkeep_core::json::parse(info).unwrap();
        value.member(name).map(|member| member.raw.to_owned()).unwrap_or_default()
    };
    for same in ["tab_id", "context_id", "journal_id"] {
        assert_eq!(field(&before, same), field(&after, same), "{same}");
    }
    assert_eq!((field(&before, "epoch").as_str(), field(&after, "epoch").as_str()), ("1", "2"));
    let states = next.json("return JSON.parse(host.engine.records()).map((record) => record.state)").await;
    assert_eq!(states, r#"["applied"]"#);
    next.close().await;
}
