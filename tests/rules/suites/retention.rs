//! What is kept of matters that are over, and for how long (J10).

use patchkeep_core::frame::{ConfirmedAs, Homed, ServerFrame};
use patchkeep_core::journal::{RecordState, RetentionLimits};
use patchkeep_core::session::{Event, Notice};
use patchkeep_core::storage::Durability;
use patchkeep_rules::world::{HandlerMode, World};

use crate::support::{deliver, doc, id, told, world};

const DAY_MS: u64 = 24 * 3_600_000;
/// Longer than a page has to itself before the first pass.
const BEGUN_MS: u64 = 11_000;

fn confirm(w: &mut World, ids: impl IntoIterator<Item = u128>, as_: ConfirmedAs) {
    w.receive(ServerFrame::PatchConfirmed(ids.into_iter().map(|n| (id(n), as_)).collect()).encode());
}

/// Applied, saved and confirmed.
fn done(w: &mut World, ids: impl IntoIterator<Item = u128> + Clone) {
    for n in ids.clone() {
        deliver(w, n, 1);
    }
    w.flush(&doc());
    confirm(w, ids, ConfirmedAs::Done);
}

fn refused(w: &mut World, n: u128) {
    w.handler = HandlerMode::Refuse("anchor_not_found".into());
    deliver(w, n, 1);
    w.handler = HandlerMode::Ok;
}

fn pass(w: &mut World) {
    w.advance(BEGUN_MS);
    w.connect(false);
    w.sent.clear();
}

/// Loads the page again, later.
fn reload_after(w: &mut World, ms: u64) {
    w.die();
    w.now_ms += ms;
    w.load();
    w.open_document(&doc(), Homed::Elsewhere, None, false);
    w.connect(false);
    w.sent.clear();
}

/// The stored text forms that still say where a patch was applied.
fn whole(w: &World) -> usize {
    w.store.texts(w.tab_id()).iter().filter(|text| text.contains("\"incarnation\"")).count()
}

#[test]
fn j10_what_is_over_shrinks_and_the_rest_stays_whole() {
    let mut w = world(Homed::Elsewhere);
    done(&mut w, [1]);
    refused(&mut w, 2);
    confirm(&mut w, [2], ConfirmedAs::Refused);
    // Refused, but the server has not said that it knows; applied, but in no save; acknowledged, but in no save.
    refused(&mut w, 3);
    deliver(&mut w, 4, 1);
    deliver(&mut w, 5, 1);
    confirm(&mut w, [5], ConfirmedAs::Acked);
    assert_eq!(w.store.texts(w.tab_id()).len(), 5);
    pass(&mut w);
    assert_eq!((w.store.texts(w.tab_id()).len(), whole(&w)), (5, 3));
    for n in 3..=5 {
        assert!(w.record(id(n)).is_some_and(|r| r.incarnation != w.record(id(1)).unwrap().incarnation), "{n}");
    }
}

#[test]
fn j10_what_is_left_still_answers_for_its_patch() {
    let mut w = world(Homed::Elsewhere);
    done(&mut w, [1]);
    refused(&mut w, 2);
    confirm(&mut w, [2], ConfirmedAs::Refused);
    pass(&mut w);
    reload_after(&mut w, 0);
    assert_eq!(whole(&w), 0);
    let handled = w.handled.len();
    deliver(&mut w, 1, 2);
    deliver(&mut w, 2, 2);
    assert_eq!(told(&mut w), ["ack 2 replayed", "refuse 2 anchor_not_found"]);
    assert_eq!(w.handled.len(), handled, "nothing is applied again");
}

#[test]
fn j10_what_is_over_goes_after_thirty_days_and_the_rest_never() {
    let mut w = world(Homed::Elsewhere);
    done(&mut w, [1]);
    deliver(&mut w, 2, 1);
    pass(&mut w);
    reload_after(&mut w, 29 * DAY_MS);
    pass(&mut w);
    assert!(w.record(id(1)).is_some());
    reload_after(&mut w, 2 * DAY_MS);
    pass(&mut w);
    assert_eq!(w.record(id(1)), None);
    assert!(w.notices.contains(&Notice::RecordGone { doc: doc(), patch_id: id(1) }));
    reload_after(&mut w, 1_000 * DAY_MS);
    pass(&mut w);
    assert_eq!(w.record(id(2)).map(|r| r.state), Some(RecordState::Unknown), "nobody knows, and nobody forgets");
    assert_eq!(w.store.texts(w.tab_id()).len(), 1);
}

#[test]
fn j10_the_oldest_go_first_where_there_are_too_many() {
    let mut w = World::new(Durability::Strict, 0);
    w.config.retention = RetentionLimits { most: 10, ..RetentionLimits::default() };
    w.die();
    w.load();
    w.open_document(&doc(), Homed::Elsewhere, None, false);
    w.connect(false);
    for n in 1..=30 {
        w.now_ms += 1;
        done(&mut w, [n]);
    }
    w.now_ms += 1;
    deliver(&mut w, 31, 1);
    pass(&mut w);
    let left: Vec<u128> = (1..=31).filter(|n| w.record(id(*n)).is_some()).collect();
    assert_eq!(left, (21..=31).collect::<Vec<_>>());
}

#[test]
fn j10_a_write_that_somebody_waits_for_waits_for_a_small_transaction_at_most() {
    let mut w = world(Homed::Elsewhere);
    done(&mut w, 1..=200);
    w.hold_store = true;
    w.now_ms += BEGUN_MS;
    w.happen(Event::Encouraged);
    assert_eq!(w.held.len(), 1, "one step is under way");
    assert!(w.held[0].writes.len() <= 64 && !w.held[0].strict);
    w.sent.clear();
    deliver(&mut w, 201, 1);
    w.release_store();
    assert_eq!(told(&mut w), ["ack 1 new"]);
    w.advance(1_000);
    assert_eq!(whole(&w), 1, "and the rest was done after it");
}
