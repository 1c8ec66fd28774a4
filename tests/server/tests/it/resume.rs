//! What a tab says when it comes back, and what that proves (R1–R4, R7, T3, T5).

use patchkeep_core::frame::{
    Adopted, ConfirmedAs, Homed, PatchFrame, RejectCode, ReportedState, TabFrame, UnconfirmedEntry,
};
use patchkeep_core::ids::JournalId;
use serde_json::json;

use crate::tab::{Identity, Socket, Tab, elsewhere, incarnation, listed, open_doc};
use crate::world::{Edit, Reply, World, fresh};

/// A key that is out with a tab, at home where it says; the tab's socket is gone.
struct Out {
    world: World,
    who: Identity,
    first: Tab,
    patch: PatchFrame,
    sending: tokio::task::JoinHandle<Option<Reply>>,
}

async fn delivered(homed: Homed) -> Out {
    let world = World::new().await;
    let open = patchkeep_core::frame::OpenDoc { homed, ..open_doc("d1", incarnation()) };
    let mut first = Tab::hello(&world, Identity::new(), open).await;
    let sending = world.sending(&Edit::append("k", "x"));
    let patch = first.socket.patch().await;
    Out { world, who: first.who.clone(), first, patch, sending }
}

async fn acked(homed: Homed) -> Out {
    let mut out = delivered(homed).await;
    out.first.socket.ack(&out.patch, false).await;
    out.first.socket.confirmed(out.patch.patch_id, ConfirmedAs::Acked).await;
    out
}

#[tokio::test]
async fn r02_what_is_listed_settles() {
    for (state, confirmed, row) in [
        (ReportedState::Applied, ConfirmedAs::Acked, "acked"),
        (ReportedState::Refused, ConfirmedAs::Refused, "refused"),
        (ReportedState::Unknown, ConfirmedAs::Unknown, "unknown"),
    ] {
        let out = delivered(Homed::Server).await;
        let open = listed(open_doc("d1", out.first.incarnation), &out.patch, state);
        let mut back = Tab::hello(&out.world, out.who.clone(), open).await;
        back.socket.confirmed(out.patch.patch_id, confirmed).await;
        assert_eq!(out.world.state("k"), row);
        assert!(out.sending.await.unwrap().is_some(), "the waiting caller is answered");
    }
}

#[tokio::test]
async fn r02_the_same_incarnation_is_asked_about_what_it_does_not_list() {
    let out = delivered(Homed::Server).await;
    let mut back = Tab::hello(&out.world, out.who.clone(), open_doc("d1", out.first.incarnation)).await;
    let query = back.socket.query().await;
    assert_eq!((query.patch_id, query.delivery, query.journal_id), (out.patch.patch_id, 2, out.who.journal_id));
    back.socket.answer(query, ReportedState::NotSeen).await;
    let again = back.socket.patch().await;
    assert_eq!((again.patch_id, again.delivery), (out.patch.patch_id, 3));
    // The answer to the question, once more: older than the newest hand-out by now.
    back.socket.answer(query, ReportedState::NotSeen).await;
    back.socket.quiet().await;
    back.socket.ack(&again, false).await;
    assert_eq!(out.sending.await.unwrap().unwrap().status, 200);
}

#[tokio::test]
async fn r02_not_seen_after_the_deadline_releases_the_key() {
    let out = delivered(Homed::Elsewhere).await;
    out.world.pass_deadline().await;
    let mut back = Tab::hello(&out.world, out.who.reloaded(), elsewhere("d1", incarnation())).await;
    let query = back.socket.query().await;
    back.socket.answer(query, ReportedState::NotSeen).await;
    back.socket.confirmed(out.patch.patch_id, ConfirmedAs::Refused).await;
    let released = out.world.send(&Edit::append("k", "x")).await;
    assert_eq!((released.code(), released.released(), released.replayed()), ("expired", true, true));
    let retry = out.world.sending(&Edit::append("k", "x").attempt(2));
    let planned = back.socket.patch().await;
    assert_ne!(planned.patch_id, out.patch.patch_id);
    back.socket.ack(&planned, false).await;
    assert_eq!(retry.await.unwrap().unwrap().status, 200);
}

#[tokio::test]
async fn r02_applying_is_followed_up() {
    let out = delivered(Homed::Server).await;
    let open = listed(open_doc("d1", incarnation()), &out.patch, ReportedState::Applying);
    let mut back = Tab::hello(&out.world, out.who.reloaded(), open).await;
    let query = back.socket.query().await;
    back.socket.answer(query, ReportedState::Applying).await;
    back.socket.quiet().await;
    assert_eq!(out.world.state("k"), "delivered", "R7 proves nothing about what is listed");
    back.socket.answer(query, ReportedState::NotSeen).await;
    assert_eq!(back.socket.patch().await.delivery, 3);
}

#[tokio::test]
async fn r03_another_incarnation_is_asked_first() {
    let out = delivered(Homed::Elsewhere).await;
    let mut back = Tab::hello(&out.world, out.who.reloaded(), elsewhere("d1", incarnation())).await;
    let query = back.socket.query().await;
    back.socket.answer(query, ReportedState::NotSeen).await;
    let again = back.socket.patch().await;
    assert_eq!((again.patch_id, again.incarnation, again.delivery), (out.patch.patch_id, back.incarnation, 3));
}

#[tokio::test]
async fn r03_a_retry_asks_another_incarnation_first() {
    let out = delivered(Homed::Elsewhere).await;
    let mut back = Tab::hello(&out.world, out.who.reloaded(), elsewhere("d1", incarnation())).await;
    back.socket.query().await;
    out.sending.abort();
    let retry = out.world.sending(&Edit::append("k", "x").attempt(2));
    let query = back.socket.query().await;
    assert_eq!(query.delivery, 3);
    back.socket.answer(query, ReportedState::Applied).await;
    assert!(retry.await.unwrap().unwrap().replayed());
}

#[tokio::test]
async fn r03_another_journal_is_as_gone() {
    let out = delivered(Homed::Elsewhere).await;
    let evicted = Identity { journal_id: JournalId(fresh()), ..out.who.reloaded() };
    let mut back = Tab::hello(&out.world, evicted, elsewhere("d1", incarnation())).await;
    back.socket.quiet().await;
    // Only what it lists is believed: what it says of itself is not.
    let not_seen =
        TabFrame::PatchState { patch_id: out.patch.patch_id, delivery: 1, state: ReportedState::NotSeen, reason: None };
    back.socket.send(&not_seen).await;
    back.socket.quiet().await;
    assert_eq!(out.world.state("k"), "delivered");
}

#[tokio::test]
async fn r04_what_is_settled_already_is_told_again() {
    let out = acked(Homed::Server).await;
    let saved = out.first.save(&out.world, 1, "a\nx", &[out.patch.patch_id]).await;
    assert_eq!(saved.status, 200);
    let open = listed(open_doc("d1", out.first.incarnation), &out.patch, ReportedState::Applied);
    let mut back = Tab::hello(&out.world, out.who.clone(), open).await;
    back.socket.confirmed(out.patch.patch_id, ConfirmedAs::Done).await;
}

#[tokio::test]
async fn r07_a_reload_proves_it_absent_and_it_is_handed_out_again() {
    for acknowledged in [false, true] {
        let out = if acknowledged { acked(Homed::Server).await } else { delivered(Homed::Server).await };
        let mut back = Tab::hello(&out.world, out.who.reloaded(), open_doc("d1", incarnation())).await;
        let again = back.socket.patch().await;
        assert_eq!((again.patch_id, again.delivery, again.incarnation), (out.patch.patch_id, 2, back.incarnation));
        assert_eq!(out.world.state("k"), "delivered");
        back.socket.ack(&again, false).await;
        back.socket.confirmed(again.patch_id, ConfirmedAs::Acked).await;
        let reply = out.world.send(&Edit::append("k", "x").attempt(2)).await;
        assert_eq!(reply.body["recipient"]["incarnation"], json!(back.incarnation.to_string()));
    }
}

#[tokio::test]
async fn r07_needs_no_journal() {
    let out = delivered(Homed::Server).await;
    let evicted = Identity { journal_id: JournalId(fresh()), ..out.who.reloaded() };
    let mut back = Tab::hello(&out.world, evicted.clone(), open_doc("d1", incarnation())).await;
    let again = back.socket.patch().await;
    assert_eq!((again.patch_id, again.journal_id), (out.patch.patch_id, evicted.journal_id));
}

#[tokio::test]
async fn r07_after_the_deadline_it_is_released_or_lost() {
    let out = delivered(Homed::Server).await;
    out.world.pass_deadline().await;
    let mut back = Tab::hello(&out.world, out.who.reloaded(), open_doc("d1", incarnation())).await;
    back.socket.confirmed(out.patch.patch_id, ConfirmedAs::Refused).await;
    assert_eq!(out.world.state("k"), "refused");
    assert!(out.world.send(&Edit::append("k", "x")).await.released());

    let out = acked(Homed::Server).await;
    out.world.pass_deadline().await;
    let mut back = Tab::hello(&out.world, out.who.reloaded(), open_doc("d1", incarnation())).await;
    back.socket.confirmed(out.patch.patch_id, ConfirmedAs::Unknown).await;
    assert_eq!(out.world.state("k"), "lost");
    // Whoever has it after all is told how it stands, as often as it says so (R4).
    for _ in 0..2 {
        back.socket.ack(&out.patch, true).await;
        back.socket.confirmed(out.patch.patch_id, ConfirmedAs::Unknown).await;
    }
    assert_eq!(out.world.row("k", "contradicted").as_deref(), Some("1"));
    for edit in [Edit::append("k", "x").ask(), Edit::append("k", "x"), Edit::append("k", "x").attempt(9).ask()] {
        let lost = out.world.send(&edit).await;
        assert_eq!((lost.status, lost.code()), (409, "patch_lost"));
    }
    // A retry may be planned afresh (S6).
    let retry = out.world.sending(&Edit::append("k", "x").attempt(2));
    let planned = back.socket.patch().await;
    assert_ne!(planned.patch_id, out.patch.patch_id);
    back.socket.ack(&planned, false).await;
    assert_eq!(retry.await.unwrap().unwrap().status, 200);
}

#[tokio::test]
async fn r07_needs_both_at_home_on_the_server() {
    for (first, second) in [(Homed::Elsewhere, Homed::Server), (Homed::Server, Homed::Elsewhere)] {
        let out = delivered(first).await;
        let open = patchkeep_core::frame::OpenDoc { homed: second, ..open_doc("d1", incarnation()) };
        let mut back = Tab::hello(&out.world, out.who.reloaded(), open).await;
        assert_eq!(back.socket.query().await.patch_id, out.patch.patch_id, "{first:?} {second:?}");
    }
}

#[tokio::test]
async fn r07_a_replaced_content_on_the_same_connection_proves_it_too() {
    let mut out = delivered(Homed::Server).await;
    let next = incarnation();
    out.first.socket.send(&TabFrame::Open(open_doc("d1", next))).await;
    assert_eq!(out.first.socket.opened().await, (next, 1));
    let again = out.first.socket.patch().await;
    assert_eq!((again.patch_id, again.incarnation), (out.patch.patch_id, next));
    // The replaced one comes back from the dead: nothing is opened, nothing believed.
    let late = listed(open_doc("d1", out.first.incarnation), &out.patch, ReportedState::Applied);
    out.first.socket.send(&TabFrame::Open(late.clone())).await;
    assert_eq!(out.first.socket.rejected().await.0, RejectCode::SettledElsewhere);
    assert_eq!(out.world.state("k"), "delivered");
    // The same in a hello.
    let mut socket = crate::tab::Socket::connect(&out.world, out.who.token).await;
    socket.send(&TabFrame::Hello(out.who.hello(vec![late]))).await;
    assert_eq!(socket.rejected().await.0, RejectCode::SettledElsewhere);
    assert_eq!(out.world.send(&Edit::append("direct", "y")).await.body["seq"], json!(2));
}

#[tokio::test]
async fn r07_a_save_in_doubt_takes_the_proof_away() {
    let out = delivered(Homed::Server).await;
    let mut body = out.who.save(out.first.incarnation, 1, "a\nx?", &[]);
    body["in_doubt"] = json!([out.patch.patch_id.to_string()]);
    assert_eq!(out.world.put("d1", out.who.token, &body).await.unwrap().status, 200);
    let mut back = Tab::hello(&out.world, out.who.reloaded(), open_doc("d1", incarnation())).await;
    assert_eq!(back.socket.query().await.patch_id, out.patch.patch_id, "it is asked, not taken for absent");
}

#[tokio::test]
async fn r07_the_doubt_outlives_a_late_acknowledgement() {
    let mut out = delivered(Homed::Server).await;
    let mut body = out.who.save(out.first.incarnation, 1, "a\nx", &[]);
    body["in_doubt"] = json!([out.patch.patch_id.to_string()]);
    assert_eq!(out.world.put("d1", out.who.token, &body).await.unwrap().status, 200);
    out.first.socket.ack(&out.patch, false).await;
    out.first.socket.confirmed(out.patch.patch_id, ConfirmedAs::Acked).await;
    let mut back = Tab::hello(&out.world, out.who.reloaded(), open_doc("d1", incarnation())).await;
    assert_eq!(back.socket.query().await.patch_id, out.patch.patch_id, "the stored text may hold it: it is asked");
}

#[tokio::test]
async fn w02_d06_what_a_save_may_hold_stays_unknown_though_nobody_has_seen_it() {
    for acknowledged in [false, true] {
        for late in [false, true] {
            let out = if acknowledged { acked(Homed::Server).await } else { delivered(Homed::Server).await };
            let mut body = out.who.save(out.first.incarnation, 1, "a\nx", &[]);
            body["in_doubt"] = json!([out.patch.patch_id.to_string()]);
            assert_eq!(out.world.put("d1", out.who.token, &body).await.unwrap().status, 200);
            if late {
                out.world.pass_deadline().await;
            }
            let mut back = Tab::hello(&out.world, out.who.reloaded(), open_doc("d1", incarnation())).await;
            let query = back.socket.query().await;
            back.socket.answer(query, ReportedState::NotSeen).await;
            back.socket.confirmed(out.patch.patch_id, ConfirmedAs::Unknown).await;
            assert_eq!(out.world.state("k"), "unknown");
            let asked = out.world.send(&Edit::append("k", "x").ask()).await;
            assert_eq!((asked.status, asked.code(), asked.released()), (409, "patch_outcome_unknown", false));
            // And so through every further load, until a save names it.
            let mut next = Tab::hello(&out.world, back.who.reloaded(), open_doc("d1", incarnation())).await;
            let query = next.socket.query().await;
            next.socket.answer(query, ReportedState::NotSeen).await;
            next.socket.confirmed(out.patch.patch_id, ConfirmedAs::Unknown).await;
            assert_eq!(next.save(&out.world, 2, "a\nx", &[out.patch.patch_id]).await.status, 200);
            assert_eq!(out.world.state("k"), "done");
        }
    }
}

#[tokio::test]
async fn s06_unflushed_is_possible_while_content_that_holds_it_could_still_be_saved() {
    let possible = async |world: &World| {
        let asked = world.send(&Edit::append("k", "x").ask()).await;
        assert_eq!(asked.code(), "patch_outcome_unknown");
        asked.body["error"]["details"]["unflushed_possible"].clone()
    };
    let mut out = delivered(Homed::Server).await;
    out.first.socket.unknown(&out.patch).await;
    out.first.socket.confirmed(out.patch.patch_id, ConfirmedAs::Unknown).await;
    assert_eq!(possible(&out.world).await, json!(true));
    // A load of which the home is elsewhere proves nothing, and fences the content all the same.
    let back = Tab::hello(&out.world, out.who.reloaded(), elsewhere("d1", incarnation())).await;
    assert_eq!((out.world.state("k").as_str(), possible(&out.world).await), ("unknown", json!(false)));
    drop(back);
    // A local draft brings it back from the dead.
    let mut out = delivered(Homed::Elsewhere).await;
    out.first.socket.unknown(&out.patch).await;
    out.first.socket.confirmed(out.patch.patch_id, ConfirmedAs::Unknown).await;
    let _back = Tab::hello(&out.world, out.who.reloaded(), elsewhere("d1", incarnation())).await;
    assert_eq!(possible(&out.world).await, json!(true));
}

#[tokio::test]
async fn s10_contradiction_is_recorded_and_applies_nothing() {
    let out = delivered(Homed::Server).await;
    out.world.pass_deadline().await;
    let mut back = Tab::hello(&out.world, out.who.reloaded(), open_doc("d1", incarnation())).await;
    back.socket.confirmed(out.patch.patch_id, ConfirmedAs::Refused).await;
    back.socket.ack(&out.patch, true).await;
    back.socket.confirmed(out.patch.patch_id, ConfirmedAs::Refused).await;
    assert_eq!((out.world.state("k").as_str(), out.world.row("k", "contradicted").as_deref()), ("refused", Some("1")));
    // A save that holds it makes it done, whatever it was (W2).
    assert_eq!(back.save(&out.world, 1, "a\nx", &[out.patch.patch_id]).await.status, 200);
    assert_eq!(out.world.state("k"), "done");
}

#[tokio::test]
async fn t03_a_stale_epoch_is_rejected() {
    let world = World::new().await;
    let tab = Tab::open(&world).await;
    let newer = tab.who.reloaded();
    let _newer = Tab::hello(&world, newer.clone(), open_doc("d1", incarnation())).await;
    let other_context = Identity { context_id: Identity::new().context_id, ..newer.clone() };
    for stale in [tab.who.clone(), other_context] {
        let mut socket = Socket::connect(&world, stale.token).await;
        socket.send(&TabFrame::Hello(stale.hello(vec![]))).await;
        let rejected = patchkeep_core::frame::ServerFrame::Reject(patchkeep_core::frame::RejectCode::StaleEpoch);
        assert_eq!(socket.frame().await, rejected);
        assert_eq!(socket.closed().await, Some(4400));
    }
}

#[tokio::test]
async fn t05_an_adopter_says_applied_or_refused_and_nothing_else() {
    for (says, row) in [
        (ReportedState::Applied, "acked"),
        (ReportedState::Refused, "refused"),
        (ReportedState::NotSeen, "unknown"),
        (ReportedState::Unknown, "unknown"),
    ] {
        let mut out = delivered(Homed::Server).await;
        let heir = Identity::new();
        let mut hello = heir.hello(vec![]);
        let entry =
            UnconfirmedEntry { patch_id: out.patch.patch_id, digest: out.patch.digest, state: says, reason: None };
        hello.adopted = vec![Adopted { tab_id: out.who.tab_id, epoch: out.who.epoch + 1, unconfirmed: vec![entry] }];
        let mut socket = Socket::connect(&out.world, heir.token).await;
        socket.send(&TabFrame::Hello(hello)).await;
        socket.welcome().await;
        out.world.until_state("k", row).await;
        // The dead tab's own context is fenced from here on.
        assert_eq!(out.first.socket.closed().await, Some(4400));
        let saved = out.first.save(&out.world, 1, "zombie", &[]).await;
        assert_eq!(saved.code(), "save_fenced");
    }
}
