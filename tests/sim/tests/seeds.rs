//! A fixed range of seeds, and the same seed twice.

use patchkeep_sim::Sim;
use patchkeep_sim::mutants::Mutant;
use patchkeep_sim::profile::PROFILES;

/// How many seeds each test runs: a few seconds in a debug build.
const SEEDS: u64 = 120;

#[test]
fn a_fixed_range_of_seeds_keeps_every_promise() {
    for seed in 0..SEEDS {
        let report = Sim::run(seed, None, false);
        assert_eq!(report.violation, None, "seed {seed}, profile {}", report.profile);
    }
}

#[test]
fn without_faults_nothing_is_ever_unknown() {
    for seed in 0..SEEDS / 4 {
        let report = Sim::run(seed, Some("calm"), false);
        assert_eq!(report.violation, None, "seed {seed}");
        let [_, _, lost, unknown, applied] = report.ended;
        assert_eq!((lost, unknown, applied), (0, 0, 0), "seed {seed}");
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    for profile in PROFILES {
        let [one, two] = [false, true].map(|trace| Sim::run(7, Some(profile.name), trace));
        assert_eq!((one.steps, one.hash, one.ended), (two.steps, two.hash, two.ended), "{}", profile.name);
        assert!(one.steps > 100, "{} has {} steps", profile.name, one.steps);
    }
}

/// Deliberate bugs that a few seeds kill, and the faults under which they show. `--mutants` runs them all.
const KILLED: [(Mutant, &str); 26] = [
    (Mutant::OlderNegative, "contexts"),
    (Mutant::OldConnection, "contexts"),
    (Mutant::AnyBase, "saves"),
    (Mutant::NamelessSave, "saves"),
    (Mutant::NoDoubt, "hosts"),
    (Mutant::CarriedUntold, "calm"),
    (Mutant::DoneOnAck, "network"),
    (Mutant::ReplanUnknown, "everything"),
    (Mutant::AskClaims, "network"),
    (Mutant::NoToken, "network"),
    (Mutant::DeadlineProves, "network"),
    (Mutant::RefusedDeleted, "everything"),
    (Mutant::AnyAttempt, "everything"),
    (Mutant::JournalIdKept, "drafts"),
    (Mutant::NoIntent, "contexts"),
    (Mutant::NoStoreFence, "drafts"),
    (Mutant::HomedLie, "storage"),
    (Mutant::HookLies, "hosts"),
    (Mutant::KeyPerAttempt, "network"),
    (Mutant::FourxxBelieved, "network"),
    (Mutant::RefusesAfterEffect, "hosts"),
    (Mutant::DoneApart, "calm"),
    (Mutant::RemoveLast, "slow disk"),
    (Mutant::ConfirmedOfAnother, "network"),
    (Mutant::OwnSavesUntold, "hosts"),
    (Mutant::CarriedUnnamed, "everything"),
];

#[test]
fn deliberate_bugs_are_seen() {
    for (mutant, profile) in KILLED {
        // A seed that fails without the bug says nothing about it.
        let fails = |seed, mutant| Sim::run_mutant(seed, Some(profile), false, mutant).violation.is_some();
        let sees = |seed| fails(seed, Some(mutant)) && !fails(seed, None);
        assert!((0..4 * SEEDS).any(sees), "{mutant:?} survives {} seeds of {profile}", 4 * SEEDS);
    }
}

/// Restored drafts with a hook: a save made before the hook has answered names nothing of what it asks about (W1), so
/// that the conflict cannot say that the stored text holds it (W3), and the merge brings it in again.
#[test]
fn a_mark_waits_for_the_hook_or_says_that_it_is_in_doubt() {
    for (seed, profile) in [(10_392, Some("hosts")), (12_175, Some("identity")), (20_932, Some("everything"))] {
        let report = Sim::run(seed, profile, false);
        assert_eq!(report.violation, None, "seed {seed}, profile {}", report.profile);
    }
}
