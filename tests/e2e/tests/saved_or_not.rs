//! J5–J7, W2: what a tab may claim of an edit after its document went. Each entry is answered by these rules alone.

use patchkeep_e2e::frames::{Patch, patch_id};
use patchkeep_e2e::page::{TestPage, with_raw_server};
use patchkeep_e2e::raw::{Hello, RawServer, RawSocket};
use patchkeep_e2e::reference::{colour_to_color, with_reference};
use serde_json::{Value, json};

patchkeep_e2e::on_each_engine!(
    b04_reading_the_journal_back_does_not_write_it_again,
    b05_restored_from_one_side_and_replayed_from_the_other_it_lands_once,
    b05_no_answer_about_a_patch_is_an_unknown_in_time,
    j05_every_state_of_a_record_is_answered_by_its_own_rule,
    export_a_journal_leaves_the_browser_whole,
    j06_a_co_committed_effect_comes_back_with_its_draft,
    j06_a_mark_that_comes_too_late_for_its_transaction_is_explained,
    j06_an_effect_that_died_unsaved_is_shown_as_left_behind,
    w01_d3_a_draft_of_a_closed_tab_is_done_once_another_tab_saves_it,
    w02_d6_what_a_save_carried_in_doubt_no_later_load_calls_absent,
);

const DOC: &str = "notes/welcome";

/// The next load: a session, and `d1` opened with these options; the server knows both.
async fn next_load(page: &TestPage, server: &mut RawServer, options: Value) -> (RawSocket, Hello, Value) {
    page.load_again().await;
    page.start_on(&server.url(), &[]).await;
    let (mut socket, hello) = server.welcome().await;
    page.open("d1", options).await;
    let open = socket.opened().await;
    (socket, hello, open)
}

/// Sends a patch to the content that an `open` announced.
async fn send(socket: &mut RawSocket, hello: &Hello, open: &Value, patch: &Patch) {
    socket.send(patch.frame(hello.journal_id(), open["incarnation"].as_str().expect("an id"))).await;
}

async fn b04_reading_the_journal_back_does_not_write_it_again() {
    with_raw_server(async |page, server| {
        page.start_on(&server.url(), &["d1"]).await;
        let (mut socket, hello) = server.welcome().await;
        socket.applies(&hello, 1, "X").await;
        page.run("const { handle } = pk.docs.get('d1'); handle.flushed(handle.mark(), { seq: 2 })", json!({})).await;
        let confirmed = json!({ "type": "patch_confirmed", "patches": [{ "patch_id": patch_id(1), "as": "done" }] });
        socket.send(confirmed).await;
        socket.applies(&hello, 2, "Y").await;
        page.until(
            "pk.session.records().length === 2 && pk.record(pk.session.records()[0].patchId).confirmed === 'done'",
        )
        .await;
        let mut seen: Option<(Value, u64)> = None;
        for _ in 0..10 {
            let options = json!({ "text": "XY", "baseSeq": 2, "reconcile": "present" });
            let (mut socket, hello, _open) = next_load(page, server, options).await;
            let ack = socket.skip_to("patch_ack").await;
            assert_eq!((&ack["patch_id"], &ack["replayed"]), (&json!(patch_id(2)), &json!(true)));
            page.until("pk.session.records().every(({ state }) => state === 'applied')").await;
            assert_eq!(page.calls("d1").await, 0);
            let rows = page.run(STORED, json!({})).await;
            if let Some((before, epoch)) = &seen {
                assert_eq!(&rows, before, "nothing but incarnation and epoch of the open one differs");
                assert_eq!(hello.epoch(), epoch + 1);
            }
            seen = Some((rows, hello.epoch()));
        }
    })
    .await;
}

/// What is stored, once it is written: without what a load may change.
const STORED: &str = "
    await pk.session.close();
    const database = await new Promise((done) => {
      const request = indexedDB.open('patchkeep:ws/tester');
      request.onsuccess = () => done(request.result);
    });
    const request = database.transaction('records').objectStore('records').getAll();
    const texts = await new Promise((done) => (request.onsuccess = () => done(request.result)));
    database.close();
    return texts.map((text) => ({ ...JSON.parse(text.slice(text.indexOf('{'))), incarnation: 0, epoch: 0, settled_at: 0, delivery: 0 }));";

async fn b05_restored_from_one_side_and_replayed_from_the_other_it_lands_once() {
    for (hook, answer) in [(Some("present"), "patch_ack"), (None, "patch_unknown"), (Some("unknown"), "patch_unknown")]
    {
        with_raw_server(async |page, server| {
            page.start_on(&server.url(), &[]).await;
            let (mut socket, hello) = server.welcome().await;
            page.open("d1", json!({ "text": "a" })).await;
            let open = socket.opened().await;
            send(&mut socket, &hello, &open, &Patch::append(1, "d1", "X")).await;
            socket.skip_to("patch_ack").await;
            page.until("pk.session.records()[0].state === 'applied'").await;

            // The save landed and its answer did not: the host loads what is stored.
            let options = json!({ "text": "aX", "baseSeq": 2, "reconcile": hook });
            let (mut socket, hello, open) = next_load(page, server, options).await;
            send(&mut socket, &hello, &open, &Patch::append(1, "d1", "X").delivery(2)).await;
            let told = loop {
                let frame = socket.frame().await;
                if frame["delivery"] == 2 {
                    break frame;
                }
            };
            assert_eq!(told["type"], answer, "{hook:?}: {told}");
            assert_eq!((page.text("d1").await.as_str(), page.calls("d1").await), ("aX", 0));
        })
        .await;
    }
}

async fn b05_no_answer_about_a_patch_is_an_unknown_in_time() {
    with_raw_server(async |page, server| {
        page.start_on(&server.url(), &["d1"]).await;
        let (mut socket, hello) = server.welcome().await;
        socket.applies(&hello, 1, "X").await;
        page.until("pk.session.records()[0].state === 'applied'").await;
        page.load_again().await;
        page.start(json!({ "socket": server.url(), "handlerTimeoutMs": 300 })).await;
        let (mut socket, hello) = server.welcome().await;
        page.run("pk.never = new Promise(() => undefined); await pk.open('d1', { text: 'X', baseSeq: 2, reconcile: pk.never })", json!({})).await;
        // Until the predecessors are fenced nothing is asked: the record is listed as open.
        let open = socket.expect("open").await;
        assert_eq!(open["unconfirmed"][0]["state"], "applying", "{open}");
        assert_eq!(page.eval("pk.docs.get('d1').asked").await, json!([]));
        socket.send(json!({ "type": "opened", "doc": "d1", "incarnation": open["incarnation"], "seq": 2 })).await;
        let unknown = socket.skip_to("patch_unknown").await;
        assert_eq!(unknown["patch_id"], patch_id(1));
        send(&mut socket, &hello, &open, &Patch::append(2, "d1", "Y")).await;
        let busy = socket.skip_to("patch_refuse").await;
        assert_eq!((&busy["patch_id"], &busy["reason"]), (&json!(patch_id(2)), &json!("busy")));
        assert_eq!((page.text("d1").await.as_str(), page.calls("d1").await), ("X", 0));
    })
    .await;
}

async fn j05_every_state_of_a_record_is_answered_by_its_own_rule() {
    with_raw_server(async |page, server| {
        page.start_on(&server.url(), &["d1"]).await;
        let (mut socket, hello) = server.welcome().await;
        // 1 is saved, 2 refused, 3 applied and not saved, 4 left open by its handler.
        socket.applies(&hello, 1, "X").await;
        page.run("const { handle } = pk.docs.get('d1'); handle.flushed(handle.mark(), { seq: 2 })", json!({})).await;
        page.handle("d1", "throw refuse('anchor_not_found')").await;
        socket.send(hello.frame(&Patch::append(2, "d1", "Y"))).await;
        socket.skip_to("patch_refuse").await;
        page.handle("d1", "doc.effect(patch)").await;
        socket.applies(&hello, 3, "Z").await;
        page.handle_async("d1", "await gate('never')").await;
        socket.send(hello.frame(&Patch::append(4, "d1", "W"))).await;
        page.at_gate("never").await;
        page.until("pk.session.records().length === 4 && pk.session.records()[2].state === 'applied'").await;

        let (mut socket, hello, open) = next_load(page, server, json!({ "text": "X", "baseSeq": 2 })).await;
        let expected = [
            ("patch_ack", Value::Null),
            ("patch_refuse", json!("anchor_not_found")),
            ("patch_unknown", Value::Null),
            ("patch_unknown", Value::Null),
        ];
        for (n, (kind, reason)) in (1..).zip(expected) {
            send(&mut socket, &hello, &open, &Patch::append(n, "d1", ["X", "Y", "Z", "W"][n as usize - 1]).delivery(2))
                .await;
            let told = loop {
                let frame = socket.frame().await;
                if frame["delivery"] == 2 && frame["patch_id"] == patch_id(n) {
                    break frame;
                }
            };
            assert_eq!((&told["type"], &told["reason"]), (&json!(kind), &reason), "{n}: {told}");
        }
        assert_eq!((page.text("d1").await.as_str(), page.calls("d1").await), ("X", 0));
    })
    .await;
}

async fn export_a_journal_leaves_the_browser_whole() {
    with_raw_server(async |page, server| {
        page.start_on(&server.url(), &["d1"]).await;
        let (mut socket, hello) = server.welcome().await;
        for n in 1..=3 {
            socket.send(hello.frame(&Patch::append(n, "d1", "secret text"))).await;
            socket.skip_to("patch_ack").await;
        }
        let text = page.eval("pk.session.exportJournal()").await;
        let text = text.as_str().expect("lines");
        let records = patchkeep_core::journal::verify(text).expect("nothing is wrong with it");
        assert_eq!(
            records.iter().map(|record| record.patch_id.to_string()).collect::<Vec<_>>(),
            [1, 2, 3].map(patch_id)
        );
        assert!(text.starts_with("{\"patchkeep\":\"journal\",\"version\":1,") && text.contains(hello.journal_id()));
        assert!(!text.contains("secret text"));
        assert!(patchkeep_core::journal::verify(&text.replacen("applied", "refused", 1)).is_err());
    })
    .await;
}

async fn j06_a_co_committed_effect_comes_back_with_its_draft() {
    with_raw_server(async |page, server| {
        page.start_on(&server.url(), &["d1"]).await;
        let (mut socket, hello) = server.welcome().await;
        socket.applies(&hello, 1, "X").await;
        page.run("await pk.keep('d1')", json!({})).await;
        page.until("pk.session.records()[0].kept").await;
        // One more, which no draft has seen.
        socket.applies(&hello, 2, "Y").await;
        page.until("pk.session.records().every(({ state }) => state === 'applied')").await;

        page.load_again().await;
        page.start_on(&server.url(), &[]).await;
        let (mut socket, hello) = server.welcome().await;
        let restore = "const { text, carried } = await pk.kept('d1'); await pk.open('d1', { text, carried, restored: true }); return carried;";
        assert_eq!(page.run(restore, json!({})).await, json!([patch_id(1)]));
        let open = socket.opened().await;
        send(&mut socket, &hello, &open, &Patch::append(1, "d1", "X").delivery(2)).await;
        let told = loop {
            let frame = socket.frame().await;
            if frame["patch_id"] == patch_id(1) && frame["delivery"] == 2 {
                break frame;
            }
        };
        assert_eq!((&told["type"], &told["replayed"]), (&json!("patch_ack"), &json!(true)), "{told}");
        assert_eq!((page.text("d1").await.as_str(), page.calls("d1").await), ("X", 0));
        let states = page.eval("Object.fromEntries(pk.session.records().map(({ patchId, state }) => [patchId, state]))").await;
        assert_eq!(states, json!({ patch_id(1): "applied", patch_id(2): "unknown" }));
    })
    .await;
}

async fn j06_a_mark_that_comes_too_late_for_its_transaction_is_explained() {
    with_raw_server(async |page, server| {
        page.start_on(&server.url(), &["d1"]).await;
        let (_socket, _hello) = server.welcome().await;
        page.live().await;
        let late = "const database = await pk.drafts();
            const transaction = database.transaction(['drafts', 'patchkeep'], 'readwrite');
            transaction.objectStore('drafts').put('text', 'd1');
            await fetch('away.html');
            const { handle } = pk.docs.get('d1');
            handle.putIn(transaction, handle.mark());";
        let thrown = page.attempt(late, json!({})).await;
        assert!(thrown["thrown"].as_str().is_some_and(|code| code.starts_with("transaction_over")), "{thrown}");
        let narrow = "const database = await pk.drafts();
            const { handle } = pk.docs.get('d1');
            handle.putIn(database.transaction('drafts', 'readwrite'), handle.mark());";
        let thrown = page.attempt(narrow, json!({})).await;
        assert!(thrown["thrown"].as_str().is_some_and(|code| code.starts_with("store_missing")), "{thrown}");
        let read_only = narrow.replace("'drafts', 'readwrite'", "['drafts', 'patchkeep']");
        let thrown = page.attempt(&read_only, json!({})).await;
        assert!(thrown["thrown"].as_str().is_some_and(|code| code.starts_with("store_missing")), "{thrown}");
    })
    .await;
}

async fn j06_an_effect_that_died_unsaved_is_shown_as_left_behind() {
    with_reference(&[(DOC, "The colour of the text.\n")], async |page, reference| {
        reference.open(page, DOC, "server").await;
        reference.patch(DOC, "k", 1, &colour_to_color()).await.expect("an answer");
        page.until("pk.session.records()[0].state === 'applied'").await;
        assert_eq!(page.eval("pk.session.records()[0].leftBehind").await, false);
        // A page that goes in good order writes what it knows; the text goes all the same.
        page.run("await pk.session.close()", json!({})).await;
        page.load_again().await;
        page.start(reference.options()).await;
        let record = page.eval("pk.session.records()[0]").await;
        assert_eq!(
            (&record["state"], &record["current"], &record["leftBehind"]),
            (&json!("applied"), &json!(false), &json!(true))
        );
        // P2: nobody was told `done`; the next try applies it to the new content, once.
        reference.open_document(page, DOC, "server").await;
        let (_, body) = reference.patch(DOC, "k", 2, &colour_to_color()).await.expect("an answer");
        assert_eq!(body["applied_pending_flush"], true, "{body}");
        // That may be what the server knew of the dead instance: the edit is here when it is here.
        page.until("pk.docs.get('notes/welcome').text.includes('color ')").await;
        assert_eq!(page.run("return await pk.save(args)", json!(DOC)).await["status"], "saved");
        assert_eq!(reference.read(DOC).await.0, "The color of the text.\n");
        assert_eq!(page.eval("pk.session.records().map(({ leftBehind }) => leftBehind)").await, json!([false]));
    })
    .await;
}

async fn w01_d3_a_draft_of_a_closed_tab_is_done_once_another_tab_saves_it() {
    with_reference(&[(DOC, "The colour of the text.\n")], async |page, reference| {
        reference.open(page, DOC, "elsewhere").await;
        let (_, body) = reference.patch(DOC, "k", 1, &colour_to_color()).await.expect("an answer");
        assert_eq!(body["applied_pending_flush"], true, "{body}");
        page.run("await pk.keep(args)", json!(DOC)).await;
        let first = page.eval("pk.session.tabId").await;

        page.another_tab().await;
        page.start(reference.options()).await;
        let seq = reference.read(DOC).await.1;
        let restore = "const { text, carried } = await pk.kept(args.doc);
            await pk.open(args.doc, { text, carried, restored: true, baseSeq: args.seq });
            return carried.length;";
        assert_eq!(page.run(restore, json!({ "doc": DOC, "seq": seq })).await, 1);
        assert_ne!(page.eval("pk.session.tabId").await, first, "it has no record of that patch");
        assert_eq!(page.run("return await pk.save(args)", json!(DOC)).await["status"], "saved");
        assert_eq!(reference.read(DOC).await.0, "The color of the text.\n");
        let (status, body) = reference.patch(DOC, "k", 2, &colour_to_color()).await.expect("an answer");
        let is_pending = body["applied_pending_flush"] == true;
        assert_eq!(
            (status, &body["seq"], is_pending),
            (200, &json!(seq + 1), false),
            "P5: the caller hears it: {body}"
        );
    })
    .await;
}

async fn w02_d6_what_a_save_carried_in_doubt_no_later_load_calls_absent() {
    with_reference(&[(DOC, "The colour of the text.\n")], async |page, reference| {
        let mut options = reference.options();
        options["handlerTimeoutMs"] = 300.into();
        page.start(options).await;
        reference.open_document(page, DOC, "server").await;
        page.handle_async(DOC, "doc.effect(patch); await gate('never');").await;
        let edit = colour_to_color();
        let (answer, saved) = tokio::join!(reference.patch(DOC, "k", 1, &edit), async {
            page.at_gate("never").await;
            // D9: it waits for the handler, and no longer than the handler may take.
            page.run("return await pk.save(args)", json!(DOC)).await
        });
        assert_eq!(saved["status"], "saved", "{saved}");
        let (status, body) = answer.expect("an answer");
        assert_eq!((status, &body["error"]["code"]), (409, &json!("patch_outcome_unknown")), "{body}");
        assert_eq!(reference.read(DOC).await.0, "The color of the text.\n", "the save did carry it");

        page.load_again().await;
        reference.open(page, DOC, "server").await;
        let (status, body) = reference.patch(DOC, "k", 2, &colour_to_color()).await.expect("an answer");
        assert_eq!((status, &body["error"]["code"]), (409, &json!("patch_outcome_unknown")), "{body}");
        assert_eq!((page.text(DOC).await.as_str(), page.calls(DOC).await), ("The color of the text.\n", 0));
    })
    .await;
}
