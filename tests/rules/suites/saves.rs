//! Saves, the tab's side (W1–W3), and marks (J6).

use patchkeep_core::error::CallError;
use patchkeep_core::frame::Homed;
use patchkeep_core::json::{self, Value};
use patchkeep_core::session::{Event, Mark, Notice, OpenDocument, SaveAnswer, SaveOutcome, Session, SocketEvent};
use patchkeep_rules::world::{HandlerMode, World};

use crate::support::{deliver, doc, id, text, told, world};

fn session(w: &mut World) -> &mut Session {
    w.session.as_mut().unwrap()
}

fn mark(w: &mut World) -> Result<Mark, CallError> {
    let (now, incarnation) = (w.now(), w.open[&doc()].incarnation);
    session(w).mark(now, &doc(), incarnation)
}

fn answered(w: &mut World, mark: &Mark, status: u16, body: &str) -> SaveOutcome {
    let now = w.now();
    let content_type = Some("application/json; charset=utf-8".into());
    session(w).save_answered(now, mark, &SaveAnswer::Answered { status, content_type, body: body.into() })
}

#[test]
fn w01_a_save_names_what_its_text_holds() {
    let mut w = world(Homed::Server);
    deliver(&mut w, 1, 1);
    deliver(&mut w, 2, 1);
    let first = mark(&mut w).unwrap();
    deliver(&mut w, 3, 1);
    let request = session(&mut w).save_request(&first, "é\"").unwrap();
    let body = json::parse(&request.body).unwrap();
    let ids: Vec<_> =
        body.field("patch_ids").and_then(Value::as_array).unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(ids, [id(1).to_string(), id(2).to_string()]);
    assert_eq!(body.field("text").and_then(Value::as_str), Some("é\""));
    assert_eq!(body.field("base_seq").and_then(Value::as_integer), Some(0));
    assert_eq!(body.field("epoch").and_then(Value::as_integer), Some(1));
    assert_eq!(answered(&mut w, &first, 200, r#"{"seq":1}"#), SaveOutcome::Saved { seq: 1 });
    assert!(w.record(id(1)).unwrap().flushed && w.record(id(2)).unwrap().flushed);
    assert!(!w.record(id(3)).unwrap().flushed, "it came after the mark");
    assert_eq!(mark(&mut w).unwrap().base_seq, 1);
    assert_eq!(mark(&mut w).unwrap().patch_ids, [id(3)]);
}

#[test]
fn w01_no_mark_while_a_handler_may_have_changed_the_text() {
    let mut w = world(Homed::Server);
    w.handler = HandlerMode::Later;
    deliver(&mut w, 1, 1);
    assert_eq!(mark(&mut w), Err(CallError::HandlerRunning));
    w.settle(id(1), &HandlerMode::Ok);
    assert_eq!(mark(&mut w).unwrap().patch_ids, [id(1)]);
}

#[test]
fn w01_r07_what_may_be_in_the_text_is_named_as_in_doubt() {
    let mut w = world(Homed::Server);
    w.handler = HandlerMode::Throw;
    deliver(&mut w, 1, 1);
    w.handler = HandlerMode::Later;
    deliver(&mut w, 2, 1);
    assert_eq!(mark(&mut w), Err(CallError::HandlerRunning));
    w.advance(30_000);
    let m = mark(&mut w).unwrap();
    assert_eq!(m.patch_ids, []);
    assert_eq!(m.in_doubt, [id(2), id(1)], "a handler that never settles holds no save up");
    let request = session(&mut w).save_request(&m, "").unwrap();
    let body = json::parse(&request.body).unwrap();
    assert_eq!(body.field("in_doubt").and_then(Value::as_array).map(<[_]>::len), Some(2));
}

#[test]
fn w01_a_handler_of_an_earlier_incarnation_is_in_doubt_too() {
    let mut w = world(Homed::Server);
    w.handler = HandlerMode::Later;
    deliver(&mut w, 1, 1);
    w.open_document(&doc(), Homed::Server, None, false);
    assert_eq!(mark(&mut w).unwrap().in_doubt, [id(1)], "it may have reached into the new text");
    w.settle(id(1), &HandlerMode::Ok);
    assert_eq!(mark(&mut w).unwrap().in_doubt, [id(1)]);
}

#[test]
fn w01_a_mark_waits_for_what_the_hook_says_of_the_dead() {
    use patchkeep_core::frame::ReportedState;
    use patchkeep_rules::world::ReconcileMode;
    let mut w = world(Homed::Elsewhere);
    deliver(&mut w, 1, 1);
    w.keep(&doc());
    w.die();
    w.load();
    w.reconcile = ReconcileMode::Never;
    w.stored.get_mut(&doc()).unwrap().text = id(1).to_string();
    w.stored.get_mut(&doc()).unwrap().kept = None;
    w.open_document(&doc(), Homed::Elsewhere, None, true);
    let conn = w.wanted.take().unwrap();
    w.happen(Event::Socket { conn, event: SocketEvent::Closed { code: 1006 } });
    assert_eq!(mark(&mut w).unwrap().in_doubt, [id(1)], "without a connection nobody is asked: it may be in the text");
    w.connect(false);
    assert!(w.sent.iter().any(|f| f.encode().contains(ReportedState::Applying.as_str())));
    assert_eq!(mark(&mut w), Err(CallError::NotAnnounced));
    w.advance(30_000);
    assert_eq!(mark(&mut w).unwrap().in_doubt, [id(1)], "a hook that never answers holds no save up");
}

#[test]
fn j09_d9_whoever_waits_for_a_mark_is_told_that_the_handler_is_overdue() {
    let mut w = world(Homed::Server);
    w.handler = HandlerMode::Later;
    deliver(&mut w, 1, 1);
    w.advance(29_999);
    w.notices.clear();
    assert_eq!(mark(&mut w), Err(CallError::HandlerRunning));
    w.advance(1);
    assert!(w.notices.contains(&Notice::Settled { doc: doc() }), "{:?}", w.notices);
    assert_eq!(mark(&mut w).unwrap().in_doubt, [id(1)]);
}

#[test]
fn w02_only_a_readable_answer_counts_as_committed() {
    let mut w = world(Homed::Server);
    deliver(&mut w, 1, 1);
    let m = mark(&mut w).unwrap();
    for (status, body) in [(200, ""), (200, "<html>"), (200, "{}"), (200, r#"{"seq":0}"#), (502, ""), (429, "{}")] {
        assert!(matches!(answered(&mut w, &m, status, body), SaveOutcome::Unknown { .. }), "{status} {body}");
    }
    let now = w.now();
    let failed = SaveAnswer::Failed { detail: "reset".into() };
    assert!(matches!(session(&mut w).save_answered(now, &m, &failed), SaveOutcome::Unknown { .. }));
    assert_eq!(answered(&mut w, &m, 302, ""), SaveOutcome::Refused { status: 302, code: None });
    assert!(!w.record(id(1)).unwrap().flushed);
}

#[test]
fn k05_what_is_no_json_by_its_type_says_nothing_of_a_save() {
    let mut w = world(Homed::Server);
    deliver(&mut w, 1, 1);
    let m = mark(&mut w).unwrap();
    let now = w.now();
    let mut page = |status, content_type: Option<&str>, body: &str| {
        let content_type = content_type.map(Into::into);
        session(&mut w).save_answered(now, &m, &SaveAnswer::Answered { status, content_type, body: body.into() })
    };
    for content_type in [None, Some("text/plain"), Some("text/html; charset=utf-8")] {
        assert!(matches!(page(200, content_type, r#"{"seq":9}"#), SaveOutcome::Unknown { .. }), "{content_type:?}");
        let fenced = page(409, content_type, r#"{"error":{"code":"save_fenced"}}"#);
        assert_eq!(fenced, SaveOutcome::Refused { status: 409, code: None }, "{content_type:?}");
    }
    let problem = page(409, Some("application/problem+json"), r#"{"error":{"code":"save_fenced"}}"#);
    assert_eq!(problem, SaveOutcome::Fenced);
    assert!(!w.record(id(1)).unwrap().flushed);
}

#[test]
fn w03_after_a_conflict_a_new_incarnation_carries_over_what_the_stored_text_lacks() {
    let mut w = world(Homed::Server);
    deliver(&mut w, 1, 1);
    deliver(&mut w, 2, 1);
    told(&mut w);
    let m = mark(&mut w).unwrap();
    let (held, doubted) = (id(1), id(9));
    let details = format!(r#"{{"seq":7,"patch_ids":["{held}"],"in_doubt":["{doubted}"]}}"#);
    let body = format!(r#"{{"error":{{"code":"save_conflict","details":{details}}}}}"#);
    assert_eq!(
        answered(&mut w, &m, 409, &body),
        SaveOutcome::Conflict { seq: 7, patch_ids: vec![held], in_doubt: vec![doubted] }
    );
    assert!(w.record(id(1)).unwrap().flushed, "the stored text holds it");
    let (now, random) = (w.now(), w.fresh());
    let open = OpenDocument {
        doc: doc(),
        homed: Homed::Server,
        base_seq: 7,
        reconciles: false,
        marks_in_document: false,
        restored: false,
        carried: Some(vec![id(2)]),
    };
    let merged = session(&mut w).replace_document(now, random, 2, open).unwrap();
    assert_eq!(session(&mut w).mark(now, &doc(), m.incarnation), Err(CallError::NotOpen), "the old instance is dead");
    assert_eq!(
        session(&mut w).mark(now, &doc(), merged),
        Err(CallError::NotAnnounced),
        "the server has yet to hear of it"
    );
    w.happen(Event::Timer);
    let next = session(&mut w).mark(now, &doc(), merged).unwrap();
    assert_eq!((next.base_seq, next.patch_ids), (7, vec![id(2)]));
    let carried = w.record(id(2)).unwrap();
    assert!(carried.current && !carried.flushed);
}

#[test]
fn w01_save_fenced_is_said() {
    let mut w = world(Homed::Server);
    let m = mark(&mut w).unwrap();
    assert_eq!(answered(&mut w, &m, 409, r#"{"error":{"code":"save_fenced"}}"#), SaveOutcome::Fenced);
}

#[test]
fn j06_kept_and_brought_back_counts_as_present() {
    let mut w = world(Homed::Elsewhere);
    deliver(&mut w, 1, 1);
    w.keep(&doc());
    deliver(&mut w, 2, 1);
    told(&mut w);
    w.die();
    w.load();
    w.open_document(&doc(), Homed::Elsewhere, None, false);
    w.connect(false);
    assert_eq!(text(&w), id(1).to_string());
    deliver(&mut w, 1, 2);
    deliver(&mut w, 2, 2);
    assert_eq!(told(&mut w), ["ack 2 replayed", "unknown 2"]);
}
