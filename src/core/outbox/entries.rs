//! The ops, found by their place, by their key and by their lane in less than a walk through all of them: ten thousand
//! queued ops must not cost a hundred million steps.

use std::collections::VecDeque;

use super::OpKey;
use super::op::{OnFailure, Op, OpState};
use crate::ids::TabId;
use crate::map::SmallMap;

/// An op and what this context does about it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) op: Op,
    /// A record of it is in the store.
    pub(super) is_stored: bool,
    /// It lives in memory alone: its record cannot be found by any other context, or there is none.
    pub(super) is_volatile: bool,
    /// It may become volatile.
    pub(super) may_be_volatile: bool,
    /// Its record is where nothing can be written any more: a later context goes on with it, this one must not (K1).
    pub(super) is_parked: bool,
    /// It changed since it was last handed to the store.
    pub(super) is_unwritten: bool,
    /// Another tab's outbox in which its record still is, and the epoch under which it is taken from there (T5).
    pub(super) taken_from: Option<(TabId, u64)>,
    /// Not before, by the monotonic clock; encouragement brings it forward.
    pub(super) due_ms: u64,
    /// Not before, whatever encourages: the server has asked for it.
    pub(super) floor_ms: u64,
    /// It waits to hear what the origin can do.
    pub(super) awaits_capabilities: bool,
    /// The host wants the server asked what became of it (K8).
    pub(super) wants_asking: bool,
    /// When this context made its first attempt, by the monotonic clock, which another context does not share.
    pub(super) first_attempt_mono_ms: Option<u64>,
    /// Failures in a row, for the back-off.
    pub(super) failures: u32,
    pub(super) flight: Option<Flight>,
    /// The host gave it up while an attempt was under way (K10).
    pub(super) is_cancelled: bool,
    /// It is among those that are kept only for a while.
    is_counted_over: bool,
}

/// What is under way for an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flight {
    /// `sending` is being written, in this transaction.
    Writing { transaction: u64 },
    /// A request, until it must have ended.
    Request { request: u64, ask: bool, until_ms: u64 },
    /// The host is asked for credentials, and has until then to answer.
    Refreshing { until_ms: u64 },
}

impl Flight {
    /// When it is given up if nothing is heard of it; a write always ends.
    pub(super) const fn until_ms(&self) -> Option<u64> {
        match *self {
            Self::Writing { .. } => None,
            Self::Request { until_ms, .. } | Self::Refreshing { until_ms } => Some(until_ms),
        }
    }
}

impl Entry {
    pub(super) const fn new(op: Op, due_ms: u64) -> Self {
        Self {
            op,
            is_stored: false,
            is_volatile: false,
            may_be_volatile: false,
            is_parked: false,
            is_unwritten: false,
            taken_from: None,
            due_ms,
            floor_ms: 0,
            awaits_capabilities: false,
            wants_asking: false,
            first_attempt_mono_ms: None,
            failures: 0,
            flight: None,
            is_cancelled: false,
            is_counted_over: false,
        }
    }

    /// Whether its lane waits for it (K9).
    fn holds_lane(&self) -> bool {
        let is_passed = self.op.state.is_settled() && self.op.on_failure == OnFailure::Pass;
        !self.op.state.lets_lane_go_on() && !is_passed
    }

    /// Whether the server is to be asked about it.
    fn is_asked_about(&self) -> bool {
        self.op.state == OpState::Applied || self.wants_asking
    }

    /// Whether nothing can become of it any more, and the host has seen that. An unknown one never is (K8).
    fn is_over(&self) -> bool {
        let is_passed = self.op.on_failure == OnFailure::Pass;
        match self.op.state {
            OpState::Done => true,
            OpState::Refused | OpState::Conflict | OpState::Lost => is_passed && !self.wants_asking,
            _ => false,
        }
    }

    fn is_idle(&self) -> bool {
        self.flight.is_none() && !self.is_parked
    }
}

/// Ops that are over are kept up to this many, for whoever repeats a key; the oldest go first.
const MOST_OVER: usize = 1_000;

/// All of them. After an entry's state or flight was changed, [`Entries::index`] must be told.
#[derive(Debug, Default)]
pub(super) struct Entries {
    /// By place.
    #[allow(clippy::vec_box, reason = "an entry is large, and many are moved at once")]
    all: Vec<Box<Entry>>,
    last_place: u64,
    places: SmallMap<OpKey, u64>,
    /// The places of those that their lane waits for, in order: only the first may go out (K9).
    lanes: SmallMap<String, VecDeque<u64>>,
    /// Those that the server is asked about, beside their lanes.
    asked: Vec<u64>,
    /// Those for which something is under way.
    flying: Vec<u64>,
    over: VecDeque<u64>,
}

impl Entries {
    /// Adds one behind all others, at the place it has where that is behind them. Returns whether it has that place.
    pub(super) fn push(&mut self, mut entry: Entry) -> bool {
        let place = entry.op.order.max(self.last_place + 1);
        let is_its_own = entry.op.order == place;
        self.last_place = place;
        entry.op.order = place;
        self.places.insert(entry.op.key.clone(), place);
        self.all.push(Box::new(entry));
        self.index(place);
        is_its_own
    }

    pub(super) fn place(&self, key: &OpKey) -> Option<u64> {
        self.places.get(key).copied()
    }

    pub(super) fn at(&self, place: u64) -> Option<&Entry> {
        self.find(place).and_then(|at| self.all.get(at)).map(|entry| &**entry)
    }

    pub(super) fn at_mut(&mut self, place: u64) -> Option<&mut Entry> {
        let at = self.find(place)?;
        self.all.get_mut(at).map(|entry| &mut **entry)
    }

    pub(super) fn get(&self, key: &OpKey) -> Option<&Entry> {
        self.at(self.place(key)?)
    }

    pub(super) fn get_mut(&mut self, key: &OpKey) -> Option<&mut Entry> {
        self.at_mut(self.place(key)?)
    }

    /// Something begins for an op.
    pub(super) fn take_off(&mut self, key: &OpKey, flight: Flight) {
        let Some(entry) = self.get_mut(key) else { return };
        entry.flight = Some(flight);
        let place = entry.op.order;
        self.index(place);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.all.iter().map(|entry| &**entry)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.all.iter_mut().map(|entry| &mut **entry)
    }

    /// Takes one out.
    pub(super) fn remove(&mut self, key: &OpKey) -> Option<Box<Entry>> {
        let place = self.places.remove(key)?;
        let entry = self.all.remove(self.find(place)?);
        self.set_in_lane(place, &entry.op.lane, false);
        set_member(&mut self.asked, place, false);
        set_member(&mut self.flying, place, false);
        Some(entry)
    }

    /// Two of one lane change places.
    pub(super) fn swap(&mut self, one: &OpKey, other: &OpKey) {
        let (Some(a), Some(b)) = (self.place(one), self.place(other)) else { return };
        let (Some(at_a), Some(at_b)) = (self.find(a), self.find(b)) else { return };
        self.all.swap(at_a, at_b);
        for (at, place, key) in [(at_a, a, other), (at_b, b, one)] {
            if let Some(entry) = self.all.get_mut(at) {
                entry.op.order = place;
            }
            self.places.insert(key.clone(), place);
        }
        self.index(a);
        self.index(b);
    }

    /// Keeps lists in step with one entry.
    pub(super) fn index(&mut self, place: u64) {
        let Some(at) = self.find(place) else { return };
        let Some(entry) = self.all.get_mut(at) else { return };
        let (holds, asked, flies) = (entry.holds_lane(), entry.is_asked_about(), entry.flight.is_some());
        if entry.is_over() && !std::mem::replace(&mut entry.is_counted_over, true) {
            self.over.push_back(place);
        }
        // A name is copied only where it is needed.
        let lane = std::mem::take(&mut entry.op.lane);
        self.set_in_lane(place, &lane, holds);
        if let Some(entry) = self.all.get_mut(at) {
            entry.op.lane = lane;
        }
        set_member(&mut self.asked, place, asked);
        set_member(&mut self.flying, place, flies);
    }

    /// Those that go on as soon as they are due: one a lane, in order, and those that are asked about (K9).
    pub(super) fn candidates(&self) -> impl Iterator<Item = &Entry> {
        let heads = self.lanes.values().filter_map(|lane| self.at(*lane.front()?));
        let heads = heads.filter(|e| matches!(e.op.state, OpState::Queued | OpState::Waiting));
        let asked = self.asked.iter().filter_map(|place| self.at(*place));
        heads.chain(asked).filter(|e| e.is_idle())
    }

    /// Those for which something is under way.
    pub(super) fn flying(&self) -> impl Iterator<Item = &Entry> {
        self.flying.iter().filter_map(|place| self.at(*place))
    }

    /// The oldest of those that are over, where there are more than are kept.
    pub(super) fn too_many(&mut self) -> Option<OpKey> {
        while self.over.len() > MOST_OVER {
            let place = self.over.pop_front()?;
            // A late answer may have told more of it since.
            if let Some(entry) = self.at_mut(place) {
                entry.is_counted_over = false;
                if entry.is_over() && entry.flight.is_none() {
                    return Some(entry.op.key.clone());
                }
            }
        }
        None
    }

    fn find(&self, place: u64) -> Option<usize> {
        self.all.binary_search_by_key(&place, |entry| entry.op.order).ok()
    }

    fn set_in_lane(&mut self, place: u64, lane: &str, holds: bool) {
        let name = lane.to_owned();
        if holds && !self.lanes.contains_key(&name) {
            self.lanes.insert(name.clone(), VecDeque::new());
        }
        let Some(places) = self.lanes.get_mut(&name) else { return };
        match (places.binary_search(&place), holds) {
            (Err(at), true) => places.insert(at, place),
            (Ok(at), false) => drop(places.remove(at)),
            _ => {}
        }
        if places.is_empty() {
            self.lanes.remove(&name);
        }
    }
}

fn set_member(places: &mut Vec<u64>, place: u64, is_member: bool) {
    match (places.binary_search(&place), is_member) {
        (Err(at), true) => places.insert(at, place),
        (Ok(at), false) => drop(places.remove(at)),
        _ => {}
    }
}
