//! Random lives of one tab against an oracle that sees every text: P1, P3 and P4 hold after each step, the same life
//! runs twice to the same frames, and the hook tells the truth.

use patchkeep_core::frame::{Homed, OpenDoc, QueryEntry, Reason, ReportedState, ServerFrame, TabFrame};
use patchkeep_core::ids::{Incarnation, JournalId, PatchId};
use patchkeep_core::session::{Event, Status};
use patchkeep_core::storage::Durability;
use patchkeep_rules::world::{CrashPoint, HandlerMode, ReconcileMode, World};
use proptest::prelude::*;

use crate::support::{deliver, doc, id};

const PATCHES: u128 = 3;

#[derive(Clone, Debug)]
enum Step {
    Deliver(u128),
    Query(u128),
    Cut,
    Connect,
    ConnectSilently,
    Reload,
    Replace,
    Keep,
    Flush,
    Handler(HandlerMode),
    Settle(u128, HandlerMode),
    Hook(bool),
    HoldStore,
    ReleaseStore,
    Evict,
    PowerCut,
    Crash(CrashPoint),
    Typing(bool),
    Advance(u64),
    Suspend,
    Resume,
}

fn handler_mode() -> impl Strategy<Value = HandlerMode> {
    prop_oneof![
        4 => Just(HandlerMode::Ok),
        1 => Just(HandlerMode::Refuse("anchor_not_found".into())),
        1 => Just(HandlerMode::Throw),
        2 => Just(HandlerMode::Later),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let patch = 0..PATCHES;
    let crash = prop_oneof![Just(CrashPoint::Intent), Just(CrashPoint::Effect), Just(CrashPoint::Ack)];
    prop_oneof![
        12 => patch.clone().prop_map(Step::Deliver),
        4 => patch.clone().prop_map(Step::Query),
        3 => Just(Step::Cut),
        6 => Just(Step::Connect),
        1 => Just(Step::ConnectSilently),
        3 => Just(Step::Reload),
        2 => Just(Step::Replace),
        2 => Just(Step::Keep),
        3 => Just(Step::Flush),
        2 => handler_mode().prop_map(Step::Handler),
        3 => (patch, handler_mode()).prop_map(|(n, mode)| Step::Settle(n, mode)),
        1 => any::<bool>().prop_map(Step::Hook),
        2 => Just(Step::HoldStore),
        3 => Just(Step::ReleaseStore),
        1 => Just(Step::Evict),
        1 => Just(Step::PowerCut),
        2 => crash.prop_map(Step::Crash),
        1 => any::<bool>().prop_map(Step::Typing),
        2 => prop_oneof![Just(100u64), Just(5_000), Just(31_000), Just(120_000)].prop_map(Step::Advance),
        1 => Just(Step::Suspend),
        1 => Just(Step::Resume),
    ]
}

/// What the server knows of one patch.
#[derive(Clone, Debug, Default)]
struct Row {
    /// Counts every hand-out and question.
    delivery: u64,
    /// Who it was handed to last.
    recipient: Option<(JournalId, Incarnation)>,
    /// The newest question was answered `not_seen`.
    not_seen: bool,
    /// Done by a save (W2) or refused: never handed out again (S7).
    is_final: bool,
}

/// One life. The server of this world hands patches out in any order and as often as it likes, within R3, R7 and S7.
struct Life {
    world: World,
    homed: Homed,
    hook: bool,
    rows: Vec<Row>,
    /// What the tab listed of its current incarnation, where that is fenced (R7).
    listed: Option<(Incarnation, Vec<PatchId>)>,
    log: Vec<String>,
}

impl Life {
    fn new(homed: Homed, durability: Durability, hook: bool) -> Self {
        let mut world = World::new(durability, 0);
        world.reconcile = ReconcileMode::Truth;
        let mut life =
            Self { world, homed, hook, rows: vec![Row::default(); PATCHES as usize], listed: None, log: Vec::new() };
        life.open();
        life.world.connect(false);
        life
    }

    fn open(&mut self) {
        // In-memory content of the old incarnation is replaced by what is stored: what it held unsaved dies with it.
        self.world.open_document(&doc(), self.homed, None, self.hook);
    }

    fn reborn(&mut self) {
        self.world.load();
        self.open();
    }

    /// The recipient as it is now, if a connected tab has the document open.
    fn current(&self) -> Option<(JournalId, Incarnation)> {
        self.world.connected?;
        Some((self.world.journal_id()?, self.world.open.get(&doc())?.incarnation))
    }

    /// R3 and R7: the same incarnation again; another one of the same journal after `not_seen`; another journal only
    /// where the document is at home here, the newer incarnation is fenced, and the patch is not listed.
    fn may_hand_out(&self, n: u128) -> bool {
        let row = &self.rows[n as usize];
        let Some(current) = self.current() else { return false };
        let proven_by_fence = || {
            let fenced = self.listed.as_ref().filter(|(incarnation, _)| *incarnation == current.1);
            self.homed == Homed::Server && fenced.is_some_and(|(_, listed)| !listed.contains(&id(n)))
        };
        !row.is_final
            && match row.recipient {
                None => true,
                Some(recipient) if recipient == current => true,
                Some((journal, _)) if journal == current.0 => row.not_seen || proven_by_fence(),
                Some(_) => proven_by_fence(),
            }
    }

    fn hand_out(&mut self, n: u128) {
        let recipient = self.current();
        let row = &mut self.rows[n as usize];
        row.delivery += 1;
        row.recipient = recipient;
        row.not_seen = false;
        let delivery = row.delivery;
        deliver(&mut self.world, n, delivery);
    }

    fn ask(&mut self, n: u128) {
        let row = &mut self.rows[n as usize];
        let Some((journal_id, _)) = row.recipient else { return };
        row.delivery += 1;
        row.not_seen = false;
        let entry = QueryEntry { patch_id: id(n), delivery: row.delivery, journal_id };
        self.world.receive(ServerFrame::PatchQuery(vec![entry]).encode());
    }

    fn row_mut(&mut self, patch_id: PatchId) -> Option<&mut Row> {
        let n = (0..PATCHES).find(|n| id(*n) == patch_id)?;
        self.rows.get_mut(n as usize)
    }

    fn step(&mut self, step: &Step) {
        if self.world.session.is_none() || self.world.status() != Some(Status::Live) {
            self.world.die();
            self.reborn();
        }
        match step {
            Step::Deliver(n) if self.may_hand_out(*n) => self.hand_out(*n),
            Step::Query(n) if self.world.connected.is_some() => self.ask(*n),
            Step::Deliver(_) | Step::Query(_) => {}
            Step::Cut => self.world.cut(),
            Step::Connect => self.world.connect(false),
            Step::ConnectSilently => self.world.connect(true),
            Step::Reload => {
                self.world.die();
                self.reborn();
            }
            Step::Replace => self.open(),
            // A document at home on the server has no local draft, by its host's own word (R7).
            Step::Keep if self.homed == Homed::Server => {}
            Step::Keep => self.world.keep(&doc()),
            Step::Flush => self.flush(),
            Step::Handler(mode) => self.world.handler = mode.clone(),
            Step::Settle(n, mode) if *mode != HandlerMode::Later => self.world.settle(id(*n), mode),
            Step::Settle(..) => {}
            Step::Hook(hook) => self.hook = *hook,
            Step::HoldStore => self.world.hold_store = true,
            Step::ReleaseStore => self.world.release_store(),
            Step::Evict => self.world.store.evict(),
            Step::PowerCut => {
                self.world.die();
                self.world.store.power_cut();
                self.reborn();
            }
            Step::Crash(point) => self.world.crash_at = Some(*point),
            Step::Typing(typing) => self.world.unsaved_typing = *typing,
            Step::Advance(ms) => self.world.advance(*ms),
            Step::Suspend => self.world.happen(Event::Suspend),
            Step::Resume => self.world.happen(Event::Resume),
        }
    }

    /// W2: the server's commit of a save makes the patches it names done, whatever the tab hears of it.
    fn flush(&mut self) {
        if let Some(mark) = self.world.mark(&doc()) {
            for patch_id in mark.patch_ids {
                if let Some(row) = self.row_mut(patch_id) {
                    row.is_final = true;
                }
            }
            self.world.flush(&doc());
        }
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        for n in 0..PATCHES {
            let token = id(n).to_string();
            let texts = self.world.open.values().map(|o| &o.text);
            let stored = self.world.stored.values().flat_map(|s| [Some(&s.text), s.kept.as_ref()]).flatten();
            for text in texts.chain(stored) {
                prop_assert!(text.matches(&token).count() <= 1, "P1: {n} is in a text twice: {text}");
            }
        }
        for frame in std::mem::take(&mut self.world.sent) {
            self.log.push(frame.encode());
            self.check_frame(&frame)?;
        }
        Ok(())
    }

    fn note_list(&mut self, open: &OpenDoc) {
        let home = open.homed == Homed::Server;
        let listed = open.unconfirmed.iter().map(|e| e.patch_id).collect();
        self.listed = home.then_some((open.incarnation, listed));
    }

    fn check_frame(&mut self, frame: &TabFrame) -> Result<(), TestCaseError> {
        let present = |patch_id: PatchId| self.world.holds_anywhere(&doc(), patch_id);
        match frame {
            TabFrame::Hello(hello) => hello.docs.iter().for_each(|open| self.note_list(open)),
            TabFrame::Open(open) => self.note_list(open),
            TabFrame::PatchAck(ack) => {
                prop_assert!(present(ack.patch_id) || self.world.session.is_none(), "P2: ack without the effect");
            }
            TabFrame::PatchState { patch_id, state: ReportedState::Applied, .. } => {
                prop_assert!(present(*patch_id), "P2: applied without the effect");
            }
            TabFrame::PatchRefuse { reason: Reason::PatchIdReused, .. } => prop_assert!(false, "no id is reused here"),
            TabFrame::PatchRefuse { patch_id, reason, .. } => {
                prop_assert!(!present(*patch_id), "P4: refused, and the effect is there");
                let is_recorded = !matches!(reason, Reason::NotOpen | Reason::WrongIncarnation | Reason::Busy);
                if let Some(row) = self.row_mut(*patch_id) {
                    row.is_final |= is_recorded;
                }
            }
            TabFrame::PatchState { patch_id, state: ReportedState::NotSeen, delivery, .. } => {
                let is_there = present(*patch_id);
                // R7 is about what died unflushed. What a save stored the server knows, though the tab's record of that
                // may have died with it; such a row hears no word of a tab any more (S7).
                if let Some(row) = self.row_mut(*patch_id) {
                    prop_assert!(!is_there || row.is_final, "P4: not seen, and the effect is there");
                    row.not_seen = row.delivery == *delivery;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn run(homed: Homed, durability: Durability, hook: bool, steps: &[Step]) -> Result<Vec<String>, TestCaseError> {
    let mut life = Life::new(homed, durability, hook);
    life.check()?;
    for step in steps {
        life.step(step);
        life.check()?;
        let session = life.world.session.as_ref();
        let idle = session
            .is_none_or(|s| s.status() != Status::Live || s.next_wake().is_some() || life.world.connected.is_none());
        prop_assert!(idle, "a connected session has a time to wake up");
    }
    Ok(life.log)
}

fn durability() -> impl Strategy<Value = Durability> {
    prop_oneof![3 => Just(Durability::Strict), 1 => Just(Durability::Relaxed), 1 => Just(Durability::Memory)]
}

fn homed() -> impl Strategy<Value = Homed> {
    prop_oneof![Just(Homed::Server), Just(Homed::Elsewhere)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn p1_p2_p4_hold_over_random_lives(
        homed in homed(),
        durability in durability(),
        hook: bool,
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let first = run(homed, durability, hook, &steps)?;
        let second = run(homed, durability, hook, &steps)?;
        prop_assert_eq!(first, second, "the same inputs give the same outputs");
    }
}
