//! Shorthands: one document, patches by number, and what was sent.

use patchkeep_core::digest;
use patchkeep_core::frame::{Homed, PatchFrame, QueryEntry, ServerFrame, TabFrame};
use patchkeep_core::ids::{DocId, Incarnation, PatchId, Uuid};
use patchkeep_core::storage::Durability;
use patchkeep_rules::world::World;

/// A strict journal, one document open and connected.
pub fn world(homed: Homed) -> World {
    world_with(homed, Durability::Strict, false)
}

pub fn world_with(homed: Homed, durability: Durability, reconciles: bool) -> World {
    let mut world = World::new(durability, 0);
    world.open_document(&doc(), homed, None, reconciles);
    world.connect(false);
    world.sent.clear();
    world
}

pub fn doc() -> DocId {
    DocId::new("d1").unwrap()
}

pub fn id(n: u128) -> PatchId {
    PatchId(Uuid::from_u128(0x0189_0000_0000_7000_8000_0000_0000_0000 + n))
}

/// A patch that appends its own id.
pub fn patch(world: &World, n: u128, delivery: u64) -> PatchFrame {
    let body = format!(r#"{{"kind":"text.append","text":"{}"}}"#, id(n));
    PatchFrame {
        patch_id: id(n),
        delivery,
        journal_id: world.journal_id().unwrap(),
        doc: doc(),
        incarnation: world.open.get(&doc()).map_or(Incarnation(Uuid::v4(9)), |o| o.incarnation),
        digest: digest::patch(&doc(), &body).unwrap(),
        body: body.into(),
        expires_at: world.server_now() + 60_000,
        guarded: false,
        base_seq: None,
    }
}

pub fn deliver(world: &mut World, n: u128, delivery: u64) {
    let frame = patch(world, n, delivery);
    world.receive(ServerFrame::Patch(frame).encode());
}

pub fn query(world: &mut World, n: u128, delivery: u64) {
    let journal_id = world.journal_id().unwrap();
    world.receive(ServerFrame::PatchQuery(vec![QueryEntry { patch_id: id(n), delivery, journal_id }]).encode());
}

/// What was sent since the last call, in words; `hello`, `open`, pings and starts left out.
pub fn told(world: &mut World) -> Vec<String> {
    let word = |frame: TabFrame| {
        Some(match frame {
            TabFrame::PatchAck(a) => format!("ack {} {}", a.delivery, if a.replayed { "replayed" } else { "new" }),
            TabFrame::PatchRefuse { delivery, reason, .. } => format!("refuse {delivery} {reason}"),
            TabFrame::PatchUnknown { delivery, .. } => format!("unknown {delivery}"),
            TabFrame::PatchState { delivery, state, .. } => format!("state {delivery} {state}"),
            TabFrame::Close { .. } => "close".into(),
            _ => return None,
        })
    };
    std::mem::take(&mut world.sent).into_iter().filter_map(word).collect()
}

pub fn text(world: &World) -> &str {
    world.open.get(&doc()).map_or("", |o| &o.text)
}
