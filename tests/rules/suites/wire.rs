//! The socket and hostile frames (§3).

use patchkeep_core::error::ProblemCode;
use patchkeep_core::frame::{ConfirmedAs, Homed, Reason, RejectCode, ReportedState, ServerFrame, TabFrame};
use patchkeep_core::session::{ConnectionState, Event, Notice, SocketEvent, Status};
use patchkeep_rules::world::World;

use crate::support::{deliver, id, patch, text, told, world};

fn problems(w: &World) -> Vec<ProblemCode> {
    w.notices.iter().filter_map(|n| if let Notice::Problem { code, .. } = n { Some(*code) } else { None }).collect()
}

#[test]
fn s03_malformed_frames_are_events_and_refused_by_name() {
    let mut w = world(Homed::Elsewhere);
    let good = ServerFrame::Patch(patch(&w, 1, 1)).encode();
    let cases = [
        (good.replace("\"guarded\":false", "\"guarded\":0"), "refuse 1 malformed"),
        (good.replace("\"expires_at\":60000", "\"expires_at\":1e300"), "refuse 1 malformed"),
        (good.replace("\"expires_at\":60000", "\"expires_at\":-1"), "refuse 1 malformed"),
        (good.replace("\"text\":\"", "\"text\":\"\\ud83d"), "refuse 1 malformed"),
        (good.replace("\"body\":{", "\"body\":{\"kind\":1,"), "refuse 1 malformed"),
        (good.replace("\"text\":\"", "\"text\":\"x"), "refuse 1 digest_mismatch"),
    ];
    for (frame, answer) in cases {
        assert_ne!(frame, good);
        w.receive(frame.clone());
        assert_eq!(told(&mut w), [answer], "{frame}");
    }
    assert_eq!(problems(&w).len(), 6);
    w.receive(good);
    assert_eq!(told(&mut w), ["ack 1 new"], "none of that was recorded");
}

#[test]
fn s03_a_garbled_frame_about_an_applied_patch_claims_no_absence() {
    let mut w = world(Homed::Elsewhere);
    deliver(&mut w, 1, 1);
    told(&mut w);
    let garbled = ServerFrame::Patch(patch(&w, 1, 2)).encode().replace("\"guarded\":false", "\"guarded\":0");
    w.receive(garbled);
    assert_eq!(told(&mut w), ["ack 2 replayed"]);
}

#[test]
fn s03_too_large_is_refused_and_the_socket_kept() {
    let mut w = world(Homed::Elsewhere);
    let mut large = patch(&w, 1, 1);
    large.body = format!(r#"{{"kind":"text.append","text":"{}"}}"#, "x".repeat(1 << 20)).into();
    w.receive(ServerFrame::Patch(large).encode());
    assert_eq!(told(&mut w), ["refuse 1 too_large"]);
    assert_eq!(problems(&w), [ProblemCode::FrameTooLarge]);
    assert_eq!(text(&w), "");
    deliver(&mut w, 2, 1);
    assert_eq!(told(&mut w), ["ack 1 new"]);
}

#[test]
fn b32_a_number_past_2_53_is_an_error_and_never_rounded() {
    let mut w = world(Homed::Elsewhere);
    w.notices.clear();
    w.receive(r#"{"type":"doc_changed","doc":"d1","seq":9007199254740991}"#.into());
    w.receive(r#"{"type":"doc_changed","doc":"d1","seq":9007199254740993}"#.into());
    assert!(matches!(w.notices[0], Notice::DocChanged { seq: 9_007_199_254_740_991, .. }));
    assert!(matches!(w.notices[1], Notice::Problem { code: ProblemCode::MalformedFrame, .. }));
    assert_eq!(w.notices.len(), 2);
}

#[test]
fn b16_what_a_rejection_means() {
    let reject = |code| {
        let mut w = world(Homed::Elsewhere);
        w.receive(ServerFrame::Reject(code).encode());
        w.advance(600_000);
        let attempted = w.wanted.is_some();
        (w.session.as_ref().unwrap().connection(), w.status().unwrap(), attempted)
    };
    let held = |code| (ConnectionState::Held(code), Status::Live, false);
    assert_eq!(reject(RejectCode::Unauthorized), held(RejectCode::Unauthorized));
    assert_eq!(reject(RejectCode::PrincipalMismatch), held(RejectCode::PrincipalMismatch));
    assert_eq!(reject(RejectCode::UnsupportedProtocol), (ConnectionState::Ended, Status::Live, false));
    assert_eq!(reject(RejectCode::StaleEpoch), (ConnectionState::Ended, Status::Fenced, false));
    assert_eq!(reject(RejectCode::SettledElsewhere), (ConnectionState::Ended, Status::Fenced, false));
    let mut w = world(Homed::Elsewhere);
    w.receive(ServerFrame::Reject(RejectCode::TooManySockets).encode());
    let connection = w.session.as_ref().unwrap().connection();
    assert!(matches!(connection, ConnectionState::Waiting { .. }), "later there may be room: {connection:?}");
}

#[test]
fn s03_a_close_code_without_its_frame_refuses_nothing() {
    for code in RejectCode::ALL.iter().map(|r| r.close_code()) {
        let mut w = world(Homed::Elsewhere);
        let conn = w.connected.take().unwrap();
        w.happen(Event::Socket { conn, event: SocketEvent::Closed { code } });
        w.advance(60_000);
        assert_eq!((w.status(), w.wanted.is_some()), (Some(Status::Live), true), "{code}: other software uses it too");
    }
}

#[test]
fn s03_words_of_a_newer_server_read_as_the_weakest_of_their_kind() {
    let mut w = world(Homed::Elsewhere);
    deliver(&mut w, 1, 1);
    let confirmed = ServerFrame::PatchConfirmed(vec![(id(1), ConfirmedAs::Done)]).encode();
    w.receive(confirmed.replace("done", "engraved"));
    let record = w.record(id(1)).unwrap();
    assert_eq!((record.confirmed, record.flushed), (Some(ConfirmedAs::Unknown), false));
    w.receive(ServerFrame::Reject(RejectCode::StaleEpoch).encode().replace("stale_epoch", "full_moon"));
    w.advance(60_000);
    assert_eq!((w.status(), w.wanted.is_some()), (Some(Status::Live), true));
    assert!(problems(&w).contains(&ProblemCode::ConnectionRefused));
}

#[test]
fn s03_words_of_a_newer_tab_read_as_the_weakest_of_their_kind() {
    let refusal =
        r#"{"type":"patch_refuse","patch_id":"018900000000700080000000000000ff","delivery":2,"reason":"too_shy"}"#;
    let refusal = refusal.replace("018900000000700080000000000000ff", &id(1).to_string());
    let expected = TabFrame::PatchRefuse { patch_id: id(1), delivery: 2, reason: Reason::HandlerRefused, detail: None };
    assert_eq!(TabFrame::decode(&refusal), Ok(expected), "a refusal is a refusal");
    let state = refusal.replace("patch_refuse", "patch_state").replace("\"reason\"", "\"state\"");
    let expected = TabFrame::PatchState { patch_id: id(1), delivery: 2, state: ReportedState::Unknown, reason: None };
    assert_eq!(TabFrame::decode(&state), Ok(expected));
}

#[test]
fn s05_the_server_hears_at_once_whether_the_page_can_be_seen() {
    let mut w = world(Homed::Elsewhere);
    let heard = |w: &mut World| {
        let seen = std::mem::take(&mut w.sent).into_iter().filter_map(|frame| match frame {
            TabFrame::Ping { visible, .. } => Some(visible),
            TabFrame::Hello(hello) => Some(hello.visible),
            _ => None,
        });
        seen.collect::<Vec<_>>()
    };
    w.happen(Event::Visible(true));
    assert!(heard(&mut w).is_empty(), "no news");
    w.happen(Event::Visible(false));
    assert_eq!(heard(&mut w), [false]);
    w.cut();
    w.connect(false);
    assert_eq!(heard(&mut w), [false], "hello says it too");
    w.happen(Event::Visible(true));
    assert_eq!(heard(&mut w), [true]);
    w.advance(15_000);
    assert_eq!(heard(&mut w), [true], "and every heartbeat");
}

#[test]
fn b16a_an_attempt_follows_when_the_host_supplies_credentials() {
    let mut w = world(Homed::Elsewhere);
    w.receive(ServerFrame::Reject(RejectCode::Unauthorized).encode());
    assert_eq!(w.wanted, None);
    w.happen(Event::Reconnect);
    assert!(w.wanted.is_some());
}

#[test]
fn b15_events_of_an_earlier_socket_are_nothing() {
    let mut w = world(Homed::Elsewhere);
    let old = w.connected.unwrap();
    w.cut();
    w.connect(false);
    told(&mut w);
    let frame = ServerFrame::Patch(patch(&w, 1, 1)).encode();
    w.happen(Event::Socket { conn: old, event: SocketEvent::Text(frame) });
    assert_eq!(text(&w), "");
    w.happen(Event::Socket { conn: old, event: SocketEvent::Closed { code: 1006 } });
    assert!(w.connected.is_some());
    assert_eq!(w.session.as_ref().unwrap().connection(), ConnectionState::Live);
}

#[test]
fn b17_after_1009_the_same_hello_is_not_sent_again() {
    let mut w = world(Homed::Server);
    deliver(&mut w, 1, 1);
    let conn = w.connected.take().unwrap();
    w.happen(Event::Socket { conn, event: SocketEvent::Closed { code: 1009 } });
    w.sent.clear();
    w.connect(false);
    let Some(TabFrame::Hello(hello)) = w.sent.first() else { panic!("hello is first") };
    assert!(hello.docs[0].unconfirmed.is_empty());
    assert_eq!(hello.docs[0].homed, Homed::Elsewhere, "its silence proves nothing");
}

#[test]
fn b17_no_frame_is_over_the_servers_limit() {
    use patchkeep_rules::world::HandlerMode;
    const LIMIT: usize = 4096;
    let mut w = World::new(patchkeep_core::storage::Durability::Strict, 0);
    w.max_frame_bytes = LIMIT as u64;
    w.open_document(&crate::support::doc(), Homed::Server, None, false);
    w.connect(false);
    for n in 0..600 {
        deliver(&mut w, n, 1);
    }
    w.handler = HandlerMode::Refuse("é".repeat(3_000));
    deliver(&mut w, 600, 1);
    w.cut();
    w.connect(false);
    w.open_document(&crate::support::doc(), Homed::Server, None, false);
    let longest = w.sent.iter().map(|f| f.encode().len()).max().unwrap();
    assert!(longest <= LIMIT, "{longest}");
    assert!(!problems(&w).contains(&ProblemCode::FrameNotSent));
    assert_eq!(told(&mut w).len(), 601, "every patch was answered");
}

#[test]
fn a_closed_session_still_writes_what_it_had_to_write() {
    let mut w = world(Homed::Elsewhere);
    deliver(&mut w, 1, 1);
    w.hold_store = true;
    deliver(&mut w, 2, 1);
    w.happen(Event::Close);
    assert!(w.session.as_ref().unwrap().is_writing());
    w.release_store();
    assert!(!w.session.as_ref().unwrap().is_writing());
    w.die();
    w.load();
    assert_eq!(w.record(crate::support::id(2)), None, "the uncalled intent was dropped");
    assert!(w.record(crate::support::id(1)).is_some());
}
