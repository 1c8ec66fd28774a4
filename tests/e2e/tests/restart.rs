//! S8, R1, R2: the server dies and comes back with another `boot_id`; the tab resumes, nothing is applied twice.

use patchkeep_e2e::reference::{colour_to_color, with_reference};
use serde_json::json;

const DOC: &str = "notes/welcome";
const BEFORE: &str = "The colour of the text.\n";
const AFTER: &str = "The color of the text.\n";

#[tokio::test]
async fn s08_a_restart_after_the_acknowledgement_loses_nothing() {
    with_reference(&[(DOC, BEFORE)], async |page, reference| {
        reference.open(page, DOC, "server").await;
        reference.patch(DOC, "k", 1, &colour_to_color()).await.expect("an answer");
        reference.server.restart().await.expect("the database answers");
        page.until("pk.eventsOf('opened').length === 2").await;
        let (status, body) = reference.patch(DOC, "k", 2, &colour_to_color()).await.expect("an answer");
        assert_eq!((status, &body["applied_pending_flush"]), (200, &json!(true)), "{body}");
        assert_eq!((page.text(DOC).await.as_str(), page.calls(DOC).await), (AFTER, 1));
        assert_eq!(page.run("return await pk.save(args)", json!(DOC)).await["status"], "saved");
        let (_, body) = reference.patch(DOC, "k", 3, &colour_to_color()).await.expect("an answer");
        assert_eq!(body["seq"], json!(reference.read(DOC).await.1), "{body}");
    })
    .await;
}

#[tokio::test]
async fn s08_a_restart_while_the_handler_runs_gets_its_answer_from_the_next_connection() {
    with_reference(&[(DOC, BEFORE)], async |page, reference| {
        reference.open(page, DOC, "server").await;
        page.handle_async(DOC, "await gate('slow'); doc.effect(patch);").await;
        let edit = colour_to_color();
        let (lost, ()) = tokio::join!(reference.patch(DOC, "k", 1, &edit), async {
            page.at_gate("slow").await;
            reference.server.restart().await.expect("the database answers");
        });
        assert_eq!(lost, None, "the caller's connection went with the server");
        page.until("pk.eventsOf('opened').length === 2").await;
        let (answer, ()) = tokio::join!(reference.patch(DOC, "k", 2, &edit), page.open_gate("slow"));
        let (status, body) = answer.expect("an answer");
        assert_eq!((status, &body["applied_pending_flush"]), (200, &json!(true)), "{body}");
        assert_eq!((page.text(DOC).await.as_str(), page.calls(DOC).await), (AFTER, 1));
    })
    .await;
}

#[tokio::test]
async fn r01_cut_sockets_are_resumed() {
    with_reference(&[(DOC, BEFORE)], async |page, reference| {
        reference.open(page, DOC, "server").await;
        for n in 2..=4 {
            reference.server.cut();
            page.until(&format!("pk.eventsOf('opened').length === {n}")).await;
        }
        reference.patch(DOC, "k", 1, &colour_to_color()).await.expect("an answer");
        assert_eq!((page.text(DOC).await.as_str(), page.calls(DOC).await), (AFTER, 1));
        assert_eq!(page.eval("pkSocketsAtOnce").await, 1);
    })
    .await;
}
