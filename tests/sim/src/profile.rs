//! What goes wrong in a run, and how often: data, drawn from the seed.

use patchkeep_core::frame::Homed;
use patchkeep_core::storage::Durability;

use crate::rng::Rng;

/// A mixture of faults. Chances are per thousand, weights are relative to each other.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Its name.
    pub name: &'static str,
    /// The longest ordinary delay of anything that travels or is written, in ms.
    pub delay_ms: u64,
    /// The longest that the disk takes for a transaction beyond that, in ms.
    pub disk_ms: u64,
    /// How often something is delayed by seconds instead.
    pub late: u64,
    /// How often the context dies between two outputs.
    pub crash: u64,
    /// How often a request or its answer is lost.
    pub lose: u64,
    /// How often a gateway answers instead of the server.
    pub gateway: u64,
    /// How often a handler is slow.
    pub slow: u64,
    /// How often it throws, before or after its effect.
    pub throw: u64,
    /// How often it refuses.
    pub refuse: u64,
    /// How often a call of the host's code never settles.
    pub never: u64,
    /// How often a page whose tab id was taken hears of that late.
    pub deaf: u64,
    /// How often the user types between two ticks of the host.
    pub typing: u64,
    /// How often callers go on with a key that was refused, lost or unknown, with a higher attempt.
    pub eager: u64,
    /// The mean time between faults, in ms; 0: none.
    pub fault_every_ms: u64,
    /// Which faults, by weight.
    pub faults: &'static [(Fault, u64)],
    /// What the journal's storage promises, where that is what this is about.
    pub durability: Option<Durability>,
    /// Where the documents' content lives, where that is.
    pub homed: Option<Homed>,
}

/// One thing that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A socket is cut; what is under way on it may be lost.
    Cut,
    /// The server process dies and comes back (S8).
    Restart,
    /// The page is reloaded.
    Reload,
    /// The context dies without a word.
    Crash,
    /// The page is frozen, with or without being told (T4).
    Freeze,
    /// The browser evicts the profile's storage.
    Evict,
    /// The journal's database alone disappears; local drafts stay.
    EvictJournal,
    /// The power fails: every context dies, and writes that were not strict are lost.
    PowerLoss,
    /// Another context takes the tab id though this one lives.
    Steal,
    /// The tab's wall clock jumps.
    ClockJump,
    /// Somebody else commits to a document.
    ForeignWrite,
    /// The host throws its content away and loads what is stored.
    Refresh,
}

use Fault::{
    ClockJump, Crash, Cut, Evict, EvictJournal, ForeignWrite, Freeze, PowerLoss, Refresh, Reload, Restart, Steal,
};

const CALM: Profile = Profile {
    name: "calm",
    delay_ms: 40,
    disk_ms: 0,
    late: 0,
    crash: 0,
    lose: 0,
    gateway: 0,
    slow: 0,
    throw: 0,
    refuse: 0,
    never: 0,
    deaf: 0,
    typing: 100,
    eager: 0,
    fault_every_ms: 0,
    faults: &[],
    durability: None,
    homed: None,
};

/// Every profile.
pub const PROFILES: &[Profile] = &[
    CALM,
    Profile {
        name: "network",
        delay_ms: 400,
        late: 40,
        lose: 120,
        gateway: 30,
        fault_every_ms: 900,
        faults: &[(Cut, 10), (Restart, 2), (ForeignWrite, 1)],
        ..CALM
    },
    Profile {
        name: "contexts",
        delay_ms: 200,
        late: 10,
        crash: 4,
        lose: 30,
        slow: 150,
        fault_every_ms: 900,
        faults: &[(Cut, 3), (Reload, 5), (Crash, 5), (Freeze, 4), (Refresh, 2), (Restart, 1)],
        ..CALM
    },
    Profile {
        name: "storage",
        delay_ms: 200,
        crash: 3,
        lose: 30,
        fault_every_ms: 1200,
        faults: &[(Evict, 2), (EvictJournal, 2), (PowerLoss, 4), (Reload, 4), (Crash, 3), (Cut, 3)],
        ..CALM
    },
    Profile {
        name: "hosts",
        delay_ms: 200,
        slow: 300,
        throw: 200,
        refuse: 100,
        never: 20,
        lose: 30,
        fault_every_ms: 1500,
        faults: &[(Cut, 4), (Reload, 3), (Refresh, 3), (ForeignWrite, 3), (Freeze, 2)],
        ..CALM
    },
    Profile {
        name: "saves",
        delay_ms: 500,
        late: 30,
        lose: 200,
        typing: 600,
        fault_every_ms: 700,
        faults: &[(ForeignWrite, 8), (Refresh, 3), (Reload, 3), (Crash, 2), (Cut, 3), (Steal, 1)],
        ..CALM
    },
    Profile {
        name: "identity",
        delay_ms: 300,
        late: 20,
        crash: 2,
        lose: 50,
        fault_every_ms: 800,
        faults: &[(Steal, 6), (Reload, 4), (Crash, 3), (PowerLoss, 2), (Freeze, 4), (Cut, 3), (Restart, 1)],
        ..CALM
    },
    // What a browser keeps and loses apart: drafts outlive the journal that tells of them.
    Profile {
        name: "drafts",
        delay_ms: 200,
        late: 20,
        crash: 2,
        lose: 60,
        slow: 60,
        deaf: 700,
        eager: 300,
        fault_every_ms: 800,
        faults: &[(EvictJournal, 3), (Steal, 8), (Reload, 4), (Crash, 2), (Cut, 3)],
        durability: Some(Durability::Strict),
        homed: Some(Homed::Elsewhere),
        ..CALM
    },
    Profile {
        name: "power",
        delay_ms: 200,
        late: 20,
        crash: 2,
        lose: 200,
        slow: 60,
        eager: 500,
        fault_every_ms: 700,
        faults: &[(PowerLoss, 6), (Cut, 3), (Reload, 1)],
        durability: Some(Durability::Relaxed),
        homed: Some(Homed::Elsewhere),
        ..CALM
    },
    // A disk so slow that sockets come and go while it writes.
    Profile {
        name: "slow disk",
        delay_ms: 60,
        disk_ms: 4_000,
        crash: 3,
        deaf: 300,
        fault_every_ms: 400,
        faults: &[(Cut, 12), (Reload, 2), (Crash, 2)],
        durability: Some(Durability::Strict),
        homed: Some(Homed::Elsewhere),
        ..CALM
    },
    // A server so far away that content comes and goes before it has heard of it.
    Profile {
        name: "far away",
        delay_ms: 60,
        late: 100,
        lose: 600,
        crash: 1,
        typing: 400,
        fault_every_ms: 500,
        faults: &[(Refresh, 6), (Reload, 4), (Cut, 4)],
        homed: Some(Homed::Elsewhere),
        ..CALM
    },
    // Handlers that take longer than the content they were called for lives.
    Profile {
        name: "tardy",
        delay_ms: 100,
        lose: 60,
        slow: 700,
        eager: 500,
        fault_every_ms: 700,
        faults: &[(Refresh, 8), (Cut, 3), (ForeignWrite, 1)],
        ..CALM
    },
    Profile {
        name: "everything",
        delay_ms: 400,
        late: 30,
        crash: 4,
        lose: 80,
        gateway: 15,
        slow: 150,
        throw: 60,
        refuse: 40,
        never: 5,
        typing: 300,
        eager: 300,
        fault_every_ms: 800,
        faults: &[
            (Cut, 8),
            (Restart, 2),
            (Reload, 4),
            (Crash, 3),
            (Freeze, 3),
            (Evict, 1),
            (EvictJournal, 1),
            (PowerLoss, 2),
            (Steal, 2),
            (ClockJump, 1),
            (ForeignWrite, 3),
            (Refresh, 2),
        ],
        ..CALM
    },
];

/// How the page and the server of one run are set up.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What goes wrong.
    pub profile: Profile,
    /// What the journal's storage promises.
    pub durability: Durability,
    /// Where the documents' content lives.
    pub homed: Homed,
    /// Whether there is a reconcile hook; it is truthful.
    pub reconciles: bool,
    /// Whether patch ids live inside the document.
    pub marks_in_document: bool,
    /// Whether drafts are written together with the patches they hold (J6).
    pub co_commits: bool,
    /// Whether the host merges by laying its own changes over the stored text: what it is not told of comes in again (W3).
    pub merges_blindly: bool,
    /// How many windows the browser has.
    pub windows: usize,
    /// How many writes the callers make.
    pub ops: usize,
    /// How long a tab has to answer for a patch, in ms.
    pub patch_timeout_ms: u64,
    /// How long things go wrong, in ms.
    pub faulty_ms: u64,
}

impl Setup {
    /// The setup of a seed.
    pub fn draw(rng: &mut Rng, profile: Option<&str>) -> Self {
        let named = PROFILES.iter().find(|p| Some(p.name) == profile);
        let drawn = rng.place(PROFILES.len());
        let profile = named.or_else(|| PROFILES.get(drawn)).cloned().unwrap_or(CALM);
        let durability = match rng.range(0, 4) {
            0 => Durability::Memory,
            1 => Durability::Relaxed,
            _ => Durability::Strict,
        };
        let durability = profile.durability.unwrap_or(durability);
        let homed = if rng.chance(500) { Homed::Server } else { Homed::Elsewhere };
        let homed = profile.homed.unwrap_or(homed);
        let reconciles = rng.chance(500);
        let marks_in_document = reconciles && rng.chance(500);
        let windows = if rng.chance(350) { 2 } else { 1 };
        let ops = rng.range(2, 7) as usize;
        let patch_timeout_ms = rng.range(1500, 15_000);
        let faulty_ms = rng.range(10_000, 40_000);
        let co_commits = rng.chance(350);
        // Of what a draft holds that outlived the journal's word about it nobody can be told.
        let merges_blindly = rng.chance(500) && (homed == Homed::Server || co_commits);
        Self {
            profile,
            durability,
            homed,
            reconciles,
            marks_in_document,
            co_commits,
            merges_blindly,
            windows,
            ops,
            patch_timeout_ms,
            faulty_ms,
        }
    }
}
