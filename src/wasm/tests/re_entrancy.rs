//! Handlers, hooks and listeners that call back into the session that is calling them (B39).

use wasm_bindgen_test::wasm_bindgen_test;

use crate::support::Tab;

#[wasm_bindgen_test]
async fn b39_a_handler_reads_marks_and_opens() {
    let tab = Tab::live(
        "host.during = (call) => {
           host.seen = [JSON.parse(host.engine.info()).status, JSON.parse(host.engine.records()).length,
                        host.engine.stillWanted(call), host.doc.baseSeq()];
           try { host.doc.mark(); } catch (code) { host.seen.push(code); }
           host.engine.openDocument('other', 5, false, false, false, false);
           host.engine.reconnect();
         }",
    )
    .await;
    tab.patch(1, "x", false).await;
    assert_eq!(tab.json("return host.seen").await, r#"["live",1,true,1,"handler_running"]"#);
    assert_eq!(tab.answers().await, ["start", "ack"]);
    assert_eq!(tab.json("return host.text").await, "\"x\"");
    let opens = tab.json("return host.sent.filter((text) => JSON.parse(text).type === 'open').length").await;
    assert_eq!(opens, "2");
    tab.assert_calm().await;
    tab.close().await;
}

#[wasm_bindgen_test]
async fn b39_a_handler_that_answers_at_once_is_acknowledged_in_the_same_task() {
    let tab = Tab::live("").await;
    let before = tab.answers().await.len();
    tab.patch(1, "x", false).await;
    // `patch` hands the frame in and returns: no task has passed since.
    assert_eq!(tab.answers().await[before..], ["start", "ack"]);
    tab.close().await;
}

#[wasm_bindgen_test]
async fn b39_a_handler_closes_its_own_document() {
    let tab = Tab::live("host.during = () => host.doc.close()").await;
    tab.patch(1, "x", false).await;
    assert_eq!(tab.answers().await, ["start", "unknown"], "one answer: its content is gone with the document");
    tab.assert_calm().await;
    tab.close().await;
}

#[wasm_bindgen_test]
async fn b39_a_handler_replaces_its_own_content() {
    let tab = Tab::live(
        "host.during = () => {
           host.doc.replaceContent(2, false, false, false, false, '');
         }",
    )
    .await;
    tab.patch(1, "x", false).await;
    let answers = tab.answers().await;
    assert_eq!(answers.iter().filter(|answer| *answer != "start").count(), 1, "{answers:?}");
    tab.assert_calm().await;
    tab.close().await;
}

#[wasm_bindgen_test]
async fn b39_a_handler_closes_the_session() {
    let tab = Tab::live("host.during = () => { host.closing = host.engine.close(); }").await;
    tab.patch(1, "x", false).await;
    tab.run("return host.closing").await;
    assert_eq!(tab.json("return JSON.parse(host.engine.info()).status").await, "\"closed\"");
    assert_eq!(tab.json("return host.closed").await, "[1000]");
    tab.assert_calm().await;
}

#[wasm_bindgen_test]
async fn b39_a_listener_opens_and_closes_documents() {
    let tab = Tab::live("").await;
    tab.run(
        "let left = 3;
         host.onNotice = (kind) => {
           if (kind !== 'record' || left === 0) return;
           left -= 1;
           const other = host.engine.openDocument('other' + left, 0, false, false, false, false);
           host.engine.records(); host.engine.info();
           other.close();
         }",
    )
    .await;
    tab.patch(1, "x", false).await;
    tab.patch(2, "y", false).await;
    assert_eq!(tab.json("return host.text").await, "\"xy\"");
    assert_eq!(tab.answers().await, ["start", "ack", "start", "ack"]);
    tab.assert_calm().await;
    tab.close().await;
}

#[wasm_bindgen_test]
async fn b39_the_guard_calls_back() {
    let tab = Tab::live(
        "host.unconfirmedEdits = () => {
           host.engine.records();
           host.engine.openDocument('other', 0, false, false, false, false);
           return false;
         }",
    )
    .await;
    tab.patch(1, "x", true).await;
    assert_eq!(tab.answers().await, ["start", "ack"]);
    tab.assert_calm().await;
    tab.close().await;
}

#[wasm_bindgen_test]
async fn b39_what_a_guard_throws_does_not_get_into_the_module() {
    let tab = Tab::live("host.raw = true; host.unconfirmedEdits = () => { throw new Error('no'); }").await;
    tab.patch(1, "x", true).await;
    assert_eq!(tab.answers().await, ["refuse"], "a host that cannot tell may have such edits");
    tab.patch(2, "x", false).await;
    assert_eq!(tab.answers().await, ["refuse", "start", "ack"]);
    tab.close().await;
}

#[wasm_bindgen_test]
async fn b39_the_question_for_the_address_closes_the_session() {
    let tab = Tab::open(
        "memory",
        "host.url = () => {
           if (host.engine) host.closing = host.engine.close();
           return Promise.resolve('ws://127.0.0.1/socket');
         }",
    )
    .await;
    tab.run("host.socket.onclose({ code: 1006 }); host.engine.reconnect(); return host.tick()").await;
    tab.run("return host.closing").await;
    assert_eq!(tab.json("return host.sockets").await, "1", "no socket is opened for a session that is closed");
    tab.assert_calm().await;
}

#[wasm_bindgen_test]
async fn b39_binary_frames_reach_a_host_that_calls_back() {
    let tab = Tab::live("host.binary = (data) => { host.engine.records(); host.binaries.push(data); }").await;
    let same = tab
        .json(
            "const blobs = [new Blob(['1']), new Blob(['2'])];
             for (const data of blobs) host.socket.onmessage({ data });
             return host.binaries.every((data, i) => data === blobs[i]) && host.binaries.length === 2",
        )
        .await;
    assert_eq!(same, "true");
    tab.assert_calm().await;
    tab.close().await;
}
