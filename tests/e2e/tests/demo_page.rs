//! The demo page: it saves by itself, merges what others saved (W3), and asks where it must not decide.

use patchkeep_e2e::reference::{colour_to_color, with_demo_page};
use patchkeep_e2e::wait::until;
use serde_json::json;

const DOC: &str = "notes/welcome";
const SECOND: &str = "notes/second";
const BEFORE: &str = "The colour of the text.\n\nAnother paragraph.\n";
const AFTER: &str = "The color of the text.\n\nAnother paragraph.\n";
const DOCS: &[(&str, &str)] = &[(DOC, BEFORE), (SECOND, "Second.\n")];

const SAVE_STATE: &str = "document.querySelector('#save-state').dataset.state";

#[tokio::test]
async fn typing_is_saved_after_two_quiet_seconds() {
    with_demo_page(DOCS, async |page, reference| {
        page.type_at_the_end("typed by a person").await;
        page.until(&format!("{SAVE_STATE} !== 'clean'")).await;
        page.saved().await;
        assert_eq!(reference.read(DOC).await, (format!("{BEFORE}typed by a person"), 2));
    })
    .await;
}

#[tokio::test]
async fn a_lost_answer_to_a_save_is_found_out_and_nothing_is_stored_twice() {
    with_demo_page(DOCS, async |page, reference| {
        page.press_switch("Lose the next answer to a save").await;
        reference.patch(DOC, "k", 1, &colour_to_color()).await.expect("an answer");
        until("the save", async || (reference.read(DOC).await.1 == 2).then_some(())).await;
        page.saved().await;
        assert_eq!(reference.read(DOC).await.0, AFTER);
        assert_eq!(page.editor_text().await, AFTER);
        let (status, body) = reference.patch(DOC, "k", 2, &colour_to_color()).await.expect("an answer");
        assert_eq!((status, body.get("applied_pending_flush")), (200, None), "{body}");
        page.until("document.querySelector('.cm-patch') === null").await;
    })
    .await;
}

#[tokio::test]
async fn w04_what_others_saved_is_taken_over_where_nothing_is_lost_by_it() {
    with_demo_page(DOCS, async |page, reference| {
        reference.save_elsewhere(DOC, "Quite another text.\n").await;
        until("the new text", async || (page.editor_text().await == "Quite another text.\n").then_some(())).await;
        page.saved().await;
        // A patch goes to the new incarnation.
        let edit = json!({ "kind": "text.append", "text": "More.\n" });
        let (status, body) = reference.patch(DOC, "k", 1, &edit).await.expect("an answer");
        assert_eq!(status, 200, "{body}");
        assert_eq!(page.editor_text().await, "Quite another text.\nMore.\n");
    })
    .await;
}

#[tokio::test]
async fn w03_a_merge_carries_patches_and_typing_over() {
    with_demo_page(DOCS, async |page, reference| {
        page.hold_saves().await;
        reference.patch(DOC, "k", 1, &colour_to_color()).await.expect("an answer");
        page.type_at_the_end("typed by a person").await;
        reference.save_elsewhere(DOC, &BEFORE.replace("Another", "Quite another")).await;
        page.release_saves().await;
        let merged = format!("{}typed by a person", AFTER.replace("Another", "Quite another"));
        until("the merge to be stored", async || (reference.read(DOC).await.0 == merged).then_some(())).await;
        page.saved().await;
        assert_eq!(page.editor_text().await, merged);
        let (status, body) = reference.patch(DOC, "k", 2, &colour_to_color()).await.expect("an answer");
        assert_eq!((status, body.get("applied_pending_flush")), (200, None), "W2: it is done: {body}");
    })
    .await;
}

#[tokio::test]
async fn w03_where_both_changed_the_same_words_a_person_decides() {
    with_demo_page(DOCS, async |page, reference| {
        for (button, expected) in [("Keep mine", "mine"), ("Take seq 4", "theirs")] {
            page.hold_saves().await;
            page.type_at_the_end("\nmine").await;
            let (stored, _) = reference.read(DOC).await;
            reference.save_elsewhere(DOC, &format!("{stored}\ntheirs")).await;
            page.release_saves().await;
            page.until("document.querySelector('.notice .sides') !== null").await;
            assert_eq!(page.eval(SAVE_STATE).await, "held", "nothing is saved until then");
            page.press(button).await;
            page.saved().await;
            assert_eq!(page.eval("document.querySelector('.notice') === null").await, true);
            assert!(reference.read(DOC).await.0.ends_with(expected));
            assert!(page.editor_text().await.ends_with(expected));
        }
    })
    .await;
}

#[tokio::test]
async fn two_documents_are_open_side_by_side() {
    with_demo_page(DOCS, async |page, reference| {
        let edit = json!({ "kind": "text.append", "text": "More.\n" });
        let (status, body) = reference.patch(SECOND, "k", 1, &edit).await.expect("an answer");
        assert_eq!(status, 200, "{body}");
        assert_eq!(page.editor_text().await, BEFORE, "the one in view is untouched");
        page.choose(SECOND).await;
        assert_eq!(page.editor_text().await, "Second.\nMore.\n");
        page.saved().await;
        assert_eq!(reference.read(SECOND).await, ("Second.\nMore.\n".into(), 2));
        assert_eq!(reference.read(DOC).await.1, 1);
    })
    .await;
}

#[tokio::test]
async fn the_page_can_be_read_at_360_pixels_and_worked_by_keyboard_and_by_name() {
    with_demo_page(DOCS, async |page, reference| {
        reference.patch(DOC, "k", 1, &colour_to_color()).await.expect("an answer");
        page.until("document.querySelector('#journal tr[data-state=applied]') !== null").await;
        let narrow = json!({ "width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": true });
        page.cdp("Emulation.setDeviceMetricsOverride", narrow).await;
        page.until("innerWidth <= 360 && document.documentElement.scrollWidth <= 360").await;

        let unnamed = "[...document.querySelectorAll('button, input, select, [role=textbox], [role=tabpanel]')].filter((each) =>
            !each.getAttribute('aria-label') && !each.getAttribute('aria-labelledby') && !each.labels?.length && !each.textContent.trim()).length";
        assert_eq!(page.eval(unnamed).await, 0, "every control has a name");
        let arrow = "const tab = document.querySelector('[role=tab][aria-selected=true]');
            tab.focus();
            tab.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight', bubbles: true }));
            return document.activeElement.dataset.doc;";
        assert_eq!(page.run(arrow, json!({})).await, SECOND);
        assert_eq!(page.eval("document.querySelectorAll('script:not([src])').length").await, 0, "no inline script");
    })
    .await;
}
