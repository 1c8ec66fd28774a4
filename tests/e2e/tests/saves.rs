//! W1–W3: saves that are lost, that conflict, and that come from a dead instance.

use patchkeep_e2e::page::TestPage;
use patchkeep_e2e::reference::{colour_to_color, with_reference};
use serde_json::{Value, json};

patchkeep_e2e::on_each_engine!(
    w03_a_save_whose_answer_was_lost_is_found_again_with_its_patches,
    w03_a_save_that_the_browser_repeats_by_itself_is_stored_once,
    w01_a_save_on_an_old_version_conflicts_and_a_merge_carries_the_patch_over,
    w01_a_save_of_an_earlier_incarnation_is_fenced_and_writes_nothing,
    w01_a_save_of_an_earlier_epoch_is_fenced_and_writes_nothing,
);

const DOC: &str = "notes/welcome";
const BEFORE: &str = "The colour of the text.\n";
const AFTER: &str = "The color of the text.\n";

async fn save(page: &TestPage) -> Value {
    page.run("return await pk.save(args)", json!(DOC)).await
}

/// The fields of a save by this page as it stands.
async fn own_save(page: &TestPage) -> Value {
    let names = "const doc = pk.docs.get(args).handle; const mark = doc.mark();
        return { tab_id: pk.session.tabId, epoch: pk.session.epoch, incarnation: mark.incarnation,
                 base_seq: mark.baseSeq, patch_ids: mark.patchIds, text: pk.docs.get(args).text };";
    page.run(names, json!(DOC)).await
}

async fn w03_a_save_whose_answer_was_lost_is_found_again_with_its_patches() {
    with_reference(&[(DOC, BEFORE)], async |page, reference| {
        reference.open(page, DOC, "server").await;
        reference.patch(DOC, "k", 1, &colour_to_color()).await.expect("an answer");
        page.run("pk.loseNextAnswer()", json!({})).await;
        assert_eq!(save(page).await["status"], "unknown");
        let (text, seq) = reference.read(DOC).await;
        assert_eq!(text, AFTER, "it had been stored");

        // P5: the confirmation on the socket settles the patch though the save's own answer never came.
        page.until("pk.session.records()[0].flushed").await;
        // W3: the stored text holds the patch, so a merge that lays this page's changes over it must leave it out. The
        // server was not told of it again (W1) and does not name it; the tab knows by itself.
        let patch = page.run("return pk.session.records()[0].patchId", json!({})).await;
        assert_eq!(save(page).await, json!({ "status": "conflict", "seq": seq, "patchIds": [patch], "inDoubt": [] }));
        page.run(
            "pk.docs.get(args.doc).handle.replaceContent({ baseSeq: args.seq })",
            json!({ "doc": DOC, "seq": seq }),
        )
        .await;
        assert_eq!(save(page).await["status"], "saved");
        assert_eq!(reference.read(DOC).await.0, AFTER);
        let (_, body) = reference.patch(DOC, "k", 2, &colour_to_color()).await.expect("an answer");
        assert_eq!(body.get("applied_pending_flush"), None, "W2: it is done: {body}");
        assert_eq!(page.calls(DOC).await, 1);
    })
    .await;
}

async fn w03_a_save_that_the_browser_repeats_by_itself_is_stored_once() {
    with_reference(&[(DOC, BEFORE)], async |page, reference| {
        reference.open(page, DOC, "server").await;
        reference.patch(DOC, "k", 1, &colour_to_color()).await.expect("an answer");
        reference.server.faults().lose_next_save_answer(1);
        // Where a connection it had used before is closed under it, a browser sends the request once more, and the
        // save meets itself; otherwise the page hears that nobody knows.
        let first = save(page).await;
        let second = if first["status"] == "unknown" { save(page).await } else { first };
        assert_eq!(second["status"], "conflict", "{second}");
        assert_eq!(second["patchIds"].as_array().map(Vec::len), Some(1), "the stored text holds the patch: {second}");
        assert_eq!(reference.read(DOC).await, (AFTER.into(), 2), "stored once");
    })
    .await;
}

async fn w01_a_save_on_an_old_version_conflicts_and_a_merge_carries_the_patch_over() {
    with_reference(&[(DOC, BEFORE)], async |page, reference| {
        reference.open(page, DOC, "server").await;
        reference.patch(DOC, "k", 1, &colour_to_color()).await.expect("an answer");
        reference.save_elsewhere(DOC, &format!("{BEFORE}A line from elsewhere.\n")).await;
        page.until("pk.eventsOf('docchanged').length > 0").await;

        let conflict = save(page).await;
        assert_eq!((&conflict["status"], &conflict["patchIds"]), (&json!("conflict"), &json!([])), "{conflict}");
        assert!(!reference.read(DOC).await.0.contains("color of"), "nothing was written");
        let merge = "const doc = pk.docs.get(args.doc);
            const carried = doc.handle.mark().patchIds;
            doc.text = args.text;
            doc.handle.replaceContent({ baseSeq: args.seq, carried });
            return carried.length;";
        let merged = format!("{AFTER}A line from elsewhere.\n");
        let arguments = json!({ "doc": DOC, "text": merged, "seq": conflict["seq"] });
        assert_eq!(page.run(merge, arguments).await, 1);
        assert_eq!(save(page).await["status"], "saved");
        assert_eq!(reference.read(DOC).await.0, merged);
        let (status, body) = reference.patch(DOC, "k", 2, &colour_to_color()).await.expect("an answer");
        assert_eq!((status, body.get("applied_pending_flush")), (200, None), "W2: {body}");
        assert_eq!(page.calls(DOC).await, 1);
    })
    .await;
}

async fn w01_a_save_of_an_earlier_incarnation_is_fenced_and_writes_nothing() {
    with_reference(&[(DOC, BEFORE)], async |page, reference| {
        reference.open(page, DOC, "server").await;
        let mut dead = own_save(page).await;
        dead["text"] = "from the grave".into();
        page.run("pk.docs.get(args).handle.replaceContent({ baseSeq: pk.docs.get(args).handle.baseSeq })", json!(DOC))
            .await;
        page.until("pk.eventsOf('opened').length === 2").await;
        let (status, body) = reference.put(DOC, &dead).await.expect("an answer");
        assert_eq!((status, &body["error"]["code"]), (409, &json!("save_fenced")), "{body}");
        assert_eq!(reference.read(DOC).await.0, BEFORE);
    })
    .await;
}

async fn w01_a_save_of_an_earlier_epoch_is_fenced_and_writes_nothing() {
    with_reference(&[(DOC, BEFORE)], async |page, reference| {
        reference.open(page, DOC, "server").await;
        let mut dead = own_save(page).await;
        dead["text"] = "from the grave".into();
        page.load_again().await;
        reference.open(page, DOC, "server").await;
        let (status, body) = reference.put(DOC, &dead).await.expect("an answer");
        assert_eq!((status, &body["error"]["code"]), (409, &json!("save_fenced")), "{body}");
        assert_eq!(reference.read(DOC).await.0, BEFORE);
        assert_eq!(save(page).await["status"], "saved", "the living instance saves");
    })
    .await;
}
