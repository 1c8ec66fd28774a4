//! The main job: a patch delivered twice lands once, whatever is lost on the way.

use patchkeep_e2e::page::TestPage;
use patchkeep_e2e::reference::{Reference, colour_to_color, with_reference};
use serde_json::json;

patchkeep_e2e::on_each_engine!(
    p02_applied_is_told_before_the_save_and_done_after_it,
    s07_a_lost_acknowledgement_is_given_again_by_the_same_recipient,
    s03_a_lost_answer_is_given_again,
    s07_with_the_tab_closed_the_outcome_is_unknown_and_nothing_is_planned_anew,
    r07_reloaded_between_apply_and_save_the_next_try_applies_it_once,
    j07_reloaded_where_the_content_has_another_home_the_outcome_is_unknown,
    s07_two_documents_of_one_tab_are_served_at_once,
);

const DOC: &str = "notes/welcome";
const BEFORE: &str = "The colour of the text.\n";
const AFTER: &str = "The color of the text.\n";

async fn save(page: &TestPage) -> serde_json::Value {
    page.run("return await pk.save(args)", json!(DOC)).await
}

async fn p02_applied_is_told_before_the_save_and_done_after_it() {
    with_reference(&[(DOC, BEFORE)], async |page, reference| {
        reference.open(page, DOC, "server").await;
        let (status, body) = reference.patch(DOC, "k", 1, &colour_to_color()).await.expect("an answer");
        assert_eq!((status, &body["applied_pending_flush"]), (200, &json!(true)), "{body}");
        assert_eq!(page.text(DOC).await, AFTER);
        assert_eq!(reference.read(DOC).await.0, BEFORE, "it is in memory only");

        assert_eq!(save(page).await["status"], "saved");
        let (text, seq) = reference.read(DOC).await;
        assert_eq!(text, AFTER);
        let (status, body) = reference.patch(DOC, "k", 2, &colour_to_color()).await.expect("an answer");
        assert_eq!((status, &body["seq"], &body["replayed"]), (200, &json!(seq), &json!(true)), "{body}");
        assert_eq!(page.calls(DOC).await, 1);
        page.until("pk.session.records()[0].flushed").await;
    })
    .await;
}

async fn s07_a_lost_acknowledgement_is_given_again_by_the_same_recipient() {
    with_reference(&[(DOC, BEFORE)], async |page, reference| {
        reference.open(page, DOC, "server").await;
        reference.server.faults().lose_next_ack(1);
        assert_eq!(reference.patch(DOC, "k", 1, &colour_to_color()).await, None, "the connection is lost with it");
        assert_eq!(page.text(DOC).await, AFTER);
        let (status, body) = reference.patch(DOC, "k", 2, &colour_to_color()).await.expect("an answer");
        assert_eq!((status, &body["applied_pending_flush"]), (200, &json!(true)), "{body}");
        assert_eq!(page.text(DOC).await, AFTER, "once");
        assert_eq!(page.calls(DOC).await, 1);
        page.until("pk.session.records()[0].replays === 1").await;
        assert_eq!(save(page).await["status"], "saved");
        assert_eq!(reference.read(DOC).await.0, AFTER);
    })
    .await;
}

async fn s03_a_lost_answer_is_given_again() {
    with_reference(&[(DOC, BEFORE)], async |page, reference| {
        reference.open(page, DOC, "server").await;
        reference.server.faults().lose_next_answer(1);
        assert_eq!(reference.patch(DOC, "k", 1, &colour_to_color()).await, None);
        let (status, body) = reference.patch(DOC, "k", 2, &colour_to_color()).await.expect("an answer");
        assert_eq!((status, &body["applied_pending_flush"]), (200, &json!(true)), "{body}");
        assert_eq!((page.text(DOC).await.as_str(), page.calls(DOC).await), (AFTER, 1));
    })
    .await;
}

async fn s07_with_the_tab_closed_the_outcome_is_unknown_and_nothing_is_planned_anew() {
    with_reference(&[(DOC, BEFORE)], async |page, reference| {
        reference.open(page, DOC, "server").await;
        reference.server.faults().lose_next_ack(1);
        assert_eq!(reference.patch(DOC, "k", 1, &colour_to_color()).await, None);
        page.goto("about:blank").await;
        unknown_with_a_diff(reference).await;
        assert_eq!(reference.read(DOC).await.0, BEFORE, "nothing was written");
        // The page's own checks want it back.
        page.load_again().await;
    })
    .await;
}

async fn r07_reloaded_between_apply_and_save_the_next_try_applies_it_once() {
    with_reference(&[(DOC, BEFORE)], async |page, reference| {
        reference.open(page, DOC, "server").await;
        reference.server.faults().lose_next_ack(1);
        assert_eq!(reference.patch(DOC, "k", 1, &colour_to_color()).await, None);
        assert_eq!(page.text(DOC).await, AFTER);

        let before = page.eval("[pk.session.tabId, pk.session.epoch]").await;
        page.load_again().await;
        reference.open(page, DOC, "server").await;
        let after = page.eval("[pk.session.tabId, pk.session.epoch]").await;
        assert_eq!(before[0], after[0], "T1: the tab is the same");
        assert!(after[1].as_u64() > before[1].as_u64(), "T3: with a higher epoch");
        // The effect died with the content. The server has its proof and may hand the patch out before it is asked.
        let (status, body) = reference.patch(DOC, "k", 2, &colour_to_color()).await.expect("an answer");
        assert_eq!((status, &body["applied_pending_flush"]), (200, &json!(true)), "{body}");
        assert_eq!((page.text(DOC).await.as_str(), page.calls(DOC).await), (AFTER, 1));
        assert_eq!(save(page).await["status"], "saved");
        assert_eq!(reference.read(DOC).await.0, AFTER);
    })
    .await;
}

async fn j07_reloaded_where_the_content_has_another_home_the_outcome_is_unknown() {
    with_reference(&[(DOC, BEFORE)], async |page, reference| {
        reference.open(page, DOC, "elsewhere").await;
        reference.server.faults().lose_next_ack(1);
        assert_eq!(reference.patch(DOC, "k", 1, &colour_to_color()).await, None);
        page.load_again().await;
        reference.open(page, DOC, "elsewhere").await;
        unknown_with_a_diff(reference).await;
        assert_eq!((page.text(DOC).await.as_str(), page.calls(DOC).await), (BEFORE, 0), "no handler was called");
    })
    .await;
}

async fn s07_two_documents_of_one_tab_are_served_at_once() {
    with_reference(&[(DOC, BEFORE), ("notes/second", BEFORE)], async |page, reference| {
        reference.open(page, DOC, "server").await;
        reference.open_document(page, "notes/second", "server").await;
        let edit = colour_to_color();
        let (first, second) =
            tokio::join!(reference.patch(DOC, "a", 1, &edit), reference.patch("notes/second", "b", 1, &edit));
        for answer in [first, second] {
            let (status, body) = answer.expect("an answer");
            assert_eq!((status, &body["applied_pending_flush"]), (200, &json!(true)), "{body}");
        }
        assert_eq!(page.text(DOC).await, AFTER);
        assert_eq!(page.text("notes/second").await, AFTER);
    })
    .await;
}

async fn unknown_with_a_diff(reference: &Reference) {
    let (status, body) = reference.patch(DOC, "k", 2, &colour_to_color()).await.expect("an answer");
    assert_eq!((status, &body["error"]["code"]), (409, &json!("patch_outcome_unknown")), "{body}");
    assert!(body.to_string().contains("\"diff\""), "what a person needs to decide is there: {body}");
}
