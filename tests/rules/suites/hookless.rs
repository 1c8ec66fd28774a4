//! J7 and R7 for content of the server alone, whose host has no hook: what died unsaved with an earlier context is
//! absent from it, and nothing else is.

use patchkeep_core::frame::{Homed, TabFrame};
use patchkeep_core::journal::RecordState;
use patchkeep_core::session::OpenDocument;
use patchkeep_core::storage::Durability;
use patchkeep_rules::world::{HandlerMode, World};

use crate::support::{deliver, doc, id, query, told, world};

/// The text as it is stored; `carried` as the host says it.
fn stored(carried: Option<Vec<patchkeep_core::ids::PatchId>>) -> OpenDocument {
    OpenDocument {
        doc: doc(),
        homed: Homed::Server,
        base_seq: 0,
        reconciles: false,
        marks_in_document: false,
        restored: false,
        carried,
    }
}

/// The page is loaded anew, and the text with it.
fn reload(w: &mut World, open: OpenDocument) {
    w.die();
    w.load();
    w.open_as(open, String::new());
    w.connect(false);
}

/// The home that was announced last, by `hello` or `open`.
fn announced(w: &World) -> (Homed, u64) {
    let open = w.sent.iter().rev().find_map(|frame| match frame {
        TabFrame::Hello(hello) => hello.docs.first(),
        TabFrame::Open(open) => Some(open),
        _ => None,
    });
    open.map(|o| (o.homed, o.generation)).expect("an announcement")
}

#[test]
fn j07_d6_what_died_unsaved_with_an_earlier_context_is_absent_without_a_hook() {
    let mut w = world(Homed::Server);
    deliver(&mut w, 1, 1);
    told(&mut w);
    reload(&mut w, stored(None));
    assert_eq!(announced(&w), (Homed::Server, 1));
    assert_eq!(told(&mut w), ["state 1 not_seen"], "it was listed as applying, and the fence is the proof");
    assert!(w.record(id(1)).is_none());
    // The server hands it out again, and it is applied: once in this text.
    deliver(&mut w, 1, 2);
    assert_eq!((told(&mut w), w.handled.len()), (vec!["ack 2 new".to_owned()], 2));
}

#[test]
fn j07_d6_so_is_what_was_being_applied_when_the_context_died() {
    let mut w = world(Homed::Server);
    w.handler = HandlerMode::Later;
    deliver(&mut w, 1, 1);
    assert_eq!(w.record(id(1)).unwrap().state, RecordState::Applying);
    reload(&mut w, stored(Some(vec![])));
    assert_eq!(told(&mut w), ["state 1 not_seen"]);
}

#[test]
fn j07_d6_of_what_a_save_carried_in_doubt_nobody_can_tell() {
    let mut w = world(Homed::Server);
    w.handler = HandlerMode::Throw;
    deliver(&mut w, 1, 1);
    assert_eq!(w.record(id(1)).unwrap().state, RecordState::Unknown);
    assert_eq!((told(&mut w), w.mark(&doc()).unwrap().in_doubt), (vec!["unknown 1".to_owned()], vec![id(1)]));
    reload(&mut w, stored(None));
    assert_eq!(told(&mut w), ["unknown 1"]);
    // Not by any later load either: the stored text may hold it.
    reload(&mut w, stored(None));
    told(&mut w);
    query(&mut w, 1, 2);
    assert_eq!((told(&mut w), w.handled.len()), (vec!["state 2 unknown".to_owned()], 1));
}

#[test]
fn j07_d6_a_handler_that_threw_is_absent_only_once_its_text_is_gone() {
    let mut w = world(Homed::Server);
    w.handler = HandlerMode::Throw;
    deliver(&mut w, 1, 1);
    assert_eq!(told(&mut w), ["unknown 1"], "the effect may be in this very text (J13)");
    query(&mut w, 1, 2);
    assert_eq!(told(&mut w), ["state 2 unknown"]);
    reload(&mut w, stored(None));
    assert_eq!(told(&mut w), ["state 2 not_seen"], "no save carried it");
}

#[test]
fn j07_d6_text_older_than_the_fence_proves_nothing() {
    let mut w = world(Homed::Server);
    deliver(&mut w, 1, 1);
    told(&mut w);
    w.die();
    w.load();
    w.open_as(stored(None), String::new());
    // A save of the old text landed between the load of this one and the fence.
    w.stored.get_mut(&doc()).unwrap().seq = 1;
    w.connect(false);
    assert_eq!(told(&mut w), ["unknown 1"]);
}

#[test]
fn j07_d6_content_that_a_draft_restores_is_not_of_the_server_alone() {
    let mut w = world(Homed::Server);
    deliver(&mut w, 1, 1);
    told(&mut w);
    reload(&mut w, OpenDocument { restored: true, ..stored(None) });
    assert_eq!(announced(&w), (Homed::Elsewhere, 1), "nobody has said what the draft carries");
    query(&mut w, 1, 2);
    assert_eq!(told(&mut w), ["state 2 unknown"]);
}

#[test]
fn r07_d6_in_a_living_context_silence_about_what_is_carried_is_announced_elsewhere() {
    let mut w = world(Homed::Server);
    deliver(&mut w, 1, 1);
    told(&mut w);
    w.open_as(stored(None), String::new());
    assert_eq!(announced(&w), (Homed::Elsewhere, 2));
    query(&mut w, 1, 2);
    assert_eq!(told(&mut w), ["state 2 unknown"]);
    // An empty list is an answer.
    w.open_as(stored(Some(vec![])), String::new());
    assert_eq!(announced(&w), (Homed::Server, 3));
    query(&mut w, 1, 3);
    assert_eq!(told(&mut w), ["state 3 unknown"], "only a new context proves it (J7)");
    // So it is for a document that was closed and is opened again in the same page.
    let (now, incarnation) = (w.now(), w.open[&doc()].incarnation);
    w.session.as_mut().unwrap().close_document(now, &doc(), incarnation).unwrap();
    w.open_as(stored(None), String::new());
    assert_eq!(announced(&w), (Homed::Elsewhere, 4));
}

#[test]
fn r07_d6_what_is_carried_and_cannot_be_listed_is_announced_elsewhere() {
    let mut w = World::new(Durability::Strict, 0);
    w.open_as(stored(Some(vec![id(7)])), id(7).to_string());
    w.connect(false);
    assert_eq!(announced(&w), (Homed::Elsewhere, 1), "it has no record, so no list can name it");
    // Once its digest is known it is listed like any other.
    deliver(&mut w, 7, 1);
    w.cut();
    w.connect(false);
    assert_eq!(announced(&w), (Homed::Server, 1));
}

#[test]
fn w01_a_save_names_its_generation() {
    let mut w = world(Homed::Server);
    w.open_as(stored(Some(vec![])), "text".into());
    let mark = w.mark(&doc()).unwrap();
    let request = w.session.as_ref().unwrap().save_request(&mark, "text").unwrap();
    assert!(request.body.contains(r#""generation":2,"#), "{}", request.body);
}
