//! A fixed range of seeds, and the same seed twice.

use patchkeep_sim::Sim;
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
