//! What crosses the border, and in which form.

use patchkeep_core::frame::ServerFrame;
use patchkeep_core::ids::DocId;
use wasm_bindgen_test::wasm_bindgen_test;

use crate::support::Tab;

#[wasm_bindgen_test]
async fn a_durable_session_writes_the_intent_before_it_calls() {
    let tab = Tab::open("strict", "host.during = () => host.order = host.log.length").await;
    tab.welcome().await;
    tab.run("host.doc = host.engine.openDocument('d', 1, false, false, false, false)").await;
    tab.patch(1, "x", false).await;
    assert!(tab.answers().await.is_empty(), "the intent is not durable in this task");
    tab.run(
        "return new Promise((done) => {
           host.onNotice = (kind, json) => { if (json.includes('\"applied\"')) done(); };
         })",
    )
    .await;
    tab.run("return host.tick()").await;
    assert_eq!(tab.answers().await, ["start", "ack"]);
    assert_eq!(tab.json("return JSON.parse(host.engine.info()).durability").await, "\"strict\"");
    tab.assert_calm().await;
    tab.close().await;
}

#[wasm_bindgen_test]
async fn a_second_session_of_the_principal_is_told() {
    use patchkeep_wasm::session::open_session;
    let first = patchkeep_web::identity::Place::take("test/twice").expect("the place is free");
    let sink = js_sys::Object::new();
    let second = open_session(
        wasm_bindgen::JsCast::unchecked_into(sink),
        "test/twice".into(),
        "memory".into(),
        5_000.0,
        1.0,
        "blob".into(),
    );
    assert_eq!(second.await.err().and_then(|error| error.as_string()).as_deref(), Some("session_exists"));
    first.leave();
}

#[wasm_bindgen_test]
async fn errors_are_codes_with_the_arguments_name() {
    let tab = Tab::live("").await;
    tab.run("host.odd = host.engine.openDocument('a/../b', 1, false, false, false, false)").await;
    tab.opened("host.odd", "a/../b").await;
    let thrown = tab
        .json(
            "const thrown = [];
             const tries = [
               (e) => e.openDocument('d', 1, false, false, false, false),
               (e) => e.openDocument('x'.repeat(513), 1, false, false, false, false),
               (e) => e.openDocument('e', 2 ** 53, false, false, false, false),
               (e) => host.doc.flushed(host.doc.mark(), 1),
               (e) => host.doc.save(host.odd.mark(), 'x', '', new Headers()),
               (e) => { host.doc.close(); host.doc.close(); },
               (e) => host.doc.mark(),
             ];
             for (const attempt of tries) {
               try { attempt(host.engine); thrown.push('nothing'); } catch (code) { thrown.push(code); }
             }
             return thrown",
        )
        .await;
    assert_eq!(
        thrown,
        r#"["already_open","invalid_argument id","invalid_argument baseSeq","invalid_argument seq","invalid_argument id","not_open","not_open"]"#
    );
    tab.close().await;
}

#[wasm_bindgen_test]
async fn a_mark_names_what_is_in_the_text() {
    let tab = Tab::live("").await;
    tab.patch(7, "x", false).await;
    let mark = tab.run("return host.doc.mark().text()").await.as_string().expect("a text");
    assert_eq!(mark, "1 1 00000000-0000-4000-8000-000000000007 ?");
    tab.run("host.doc.flushed(host.doc.mark(), 2)").await;
    let mark = tab.run("return host.doc.mark().text()").await.as_string().expect("a text");
    assert_eq!(mark, "2 1 ?");
    tab.close().await;
}

#[wasm_bindgen_test]
async fn b14_frames_are_taken_in_their_order_whatever_their_kind() {
    let tab = Tab::live("host.binary = () => { host.text += '|'; }").await;
    tab.patch(1, "1", false).await;
    tab.run("host.socket.onmessage({ data: new Blob(['x'.repeat(5000000)]) })").await;
    tab.patch(2, "2", false).await;
    tab.run("host.socket.onmessage({ data: new Blob(['abc']) })").await;
    tab.patch(3, "3", false).await;
    assert_eq!(tab.json("return host.text").await, "\"1|2|3\"");
    tab.close().await;
}

#[wasm_bindgen_test]
async fn too_long_a_frame_is_not_copied_in_and_stops_nothing() {
    let tab = Tab::live("").await;
    tab.run("host.socket.onmessage({ data: 'x'.repeat(5 * 2 ** 20) })").await;
    let problems = tab.json("return host.log.filter((entry) => entry.includes('frame_too_large')).length").await;
    assert_eq!(problems, "1");
    tab.patch(1, "x", false).await;
    assert_eq!(tab.answers().await, ["start", "ack"]);
    tab.close().await;
}

#[wasm_bindgen_test]
async fn after_a_close_no_event_of_the_old_socket_counts() {
    let tab = Tab::live("").await;
    let handlers = tab
        .json(
            "const old = host.socket;
             dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }));
             return [old.onmessage ?? null, old.onopen ?? null, old.onclose ?? null, host.closed.length]",
        )
        .await;
    assert_eq!(handlers, "[null,null,null,1]");
    tab.run("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true })); return host.tick()").await;
    assert_eq!(tab.json("return host.sockets").await, "2", "and it connects again");
    tab.close().await;
}

#[wasm_bindgen_test]
async fn notices_are_json_in_the_protocols_spelling() {
    let tab = Tab::live("").await;
    tab.receive(&ServerFrame::DocChanged { doc: DocId::new("d").unwrap(), seq: 9 }).await;
    let last = tab.json("return host.log.at(-1)").await;
    assert_eq!(last, r#""changed {\"doc\":\"d\",\"seq\":9}""#);
    tab.close().await;
}

#[wasm_bindgen_test]
async fn an_address_that_cannot_be_had_is_a_failed_attempt() {
    let tab = Tab::open("memory", "host.url = () => Promise.reject(new Error('offline'))").await;
    let info = tab.run("return host.engine.info()").await.as_string().expect("a text");
    assert!(info.contains("\"waiting\""), "{info}");
    assert_eq!(tab.json("return host.sockets").await, "0");
    tab.close().await;
}
