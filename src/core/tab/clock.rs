//! What time the server has, as far as the tab can tell (J2).

use std::collections::VecDeque;

use crate::json::MAX_SAFE_INTEGER;
use crate::time::Now;

/// An estimate of the server's clock from request and answer pairs.
///
/// The sample with the lowest round trip among the newest counts. Since then the larger of the two local clocks'
/// deltas has passed: a wall clock set forward or a monotonic clock that slept both make a deadline come earlier,
/// never later.
#[derive(Debug, Default)]
pub struct ServerClock {
    samples: VecDeque<Sample>,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    received: Now,
    server_ms: u64,
    round_trip_ms: u64,
}

impl Sample {
    /// The latest that the server's clock may read that long afterwards: it was read at the latest when the request
    /// arrived, a whole round trip before the answer did.
    const fn latest(&self, elapsed_ms: u64) -> u64 {
        self.server_ms.saturating_add(self.round_trip_ms).saturating_add(elapsed_ms)
    }
}

/// Where a deadline is (J2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// It has not passed.
    Ahead,
    /// It has passed, or may have.
    Past,
    /// The local clocks disagree about it: the server must be asked.
    Disputed,
}

/// How many samples are remembered: an old one with a short round trip outweighs newer ones only for so long.
const NEWEST: usize = 8;
/// Local clocks that disagree by more than this since a sample was taken have jumped or slept: older samples go.
const DISAGREEMENT_MS: u64 = 2_000;

impl ServerClock {
    /// Takes in that the server's clock read `server_ms` somewhere between `sent` and `received`.
    pub fn sample(&mut self, sent: Now, received: Now, server_ms: u64) {
        self.samples.retain(|s| {
            let mono = received.mono_ms.saturating_sub(s.received.mono_ms);
            let wall = received.wall_ms.abs_diff(s.received.wall_ms);
            mono.abs_diff(wall) <= DISAGREEMENT_MS
        });
        if self.samples.len() == NEWEST {
            self.samples.pop_front();
        }
        let round_trip_ms = received.elapsed_since(sent);
        self.samples.push_back(Sample { received, server_ms, round_trip_ms });
    }

    /// Where a deadline is. An error bound that straddles it counts as past, and so does not knowing the server's time at
    /// all. Where the local clocks disagree by more than that bound, and the deadline is between what the one and what
    /// the other says, neither is believed (J2).
    pub fn judge(&self, now: Now, deadline_ms: u64) -> Deadline {
        let Some(sample) = self.best() else { return Deadline::Past };
        let mono = now.mono_ms.saturating_sub(sample.received.mono_ms);
        let wall = now.wall_ms.saturating_sub(sample.received.wall_ms);
        if sample.latest(mono.max(wall)) < deadline_ms {
            Deadline::Ahead
        } else if sample.latest(mono.min(wall)) < deadline_ms && mono.abs_diff(wall) > sample.round_trip_ms {
            Deadline::Disputed
        } else {
            Deadline::Past
        }
    }

    /// Whether the deadline has passed by the newest sample, which has just come.
    pub fn is_past_by_newest(&self, now: Now, deadline_ms: u64) -> bool {
        self.samples.back().is_none_or(|s| s.latest(now.elapsed_since(s.received)) >= deadline_ms)
    }

    /// The server's time, in ms since the epoch; the tab's own where there is no sample. For display and records only.
    pub fn estimate(&self, now: Now) -> u64 {
        let estimate = self.best().map_or(now.wall_ms, |s| {
            s.server_ms.saturating_add(s.round_trip_ms / 2).saturating_add(now.elapsed_since(s.received))
        });
        estimate.min(MAX_SAFE_INTEGER)
    }

    fn best(&self) -> Option<&Sample> {
        self.samples.iter().rev().min_by_key(|s| s.round_trip_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(mono_ms: u64, wall_ms: u64) -> Now {
        Now { mono_ms, wall_ms }
    }

    #[test]
    fn j02_the_error_bound_counts_as_past() {
        let mut clock = ServerClock::default();
        assert_eq!(clock.judge(at(0, 0), u64::MAX), Deadline::Past, "no sample, no patch");
        clock.sample(at(0, 0), at(100, 100), 5_000);
        assert_eq!(clock.judge(at(100, 100), 5_101), Deadline::Ahead);
        assert_eq!(clock.judge(at(100, 100), 5_100), Deadline::Past, "it may be 5100 there now");
        assert_eq!(clock.estimate(at(100, 100)), 5_050);
    }

    #[test]
    fn j02_b79_where_the_clocks_disagree_neither_is_believed() {
        let mut clock = ServerClock::default();
        clock.sample(at(0, 0), at(0, 0), 1_000);
        assert_eq!(clock.judge(at(10, 600_000), 2_000), Deadline::Disputed, "one slept, or the other was set");
        assert_eq!(clock.judge(at(600_000, 10), 2_000), Deadline::Disputed);
        assert_eq!(clock.judge(at(10, 600_000), 700_000), Deadline::Ahead, "it is ahead by either");
        assert_eq!(clock.judge(at(5_000, 600_000), 2_000), Deadline::Past, "it is past by either");
        // The answer judges, by itself.
        clock.sample(at(10, 600_000), at(12, 600_002), 1_010);
        assert!(!clock.is_past_by_newest(at(12, 600_002), 2_000));
        assert!(clock.is_past_by_newest(at(12, 600_002), 1_012));
    }

    #[test]
    fn j02_the_lowest_round_trip_wins_until_the_clocks_jump() {
        let mut clock = ServerClock::default();
        clock.sample(at(0, 0), at(2, 2), 1_000);
        clock.sample(at(100, 100), at(600, 600), 1_100);
        assert_eq!(clock.estimate(at(600, 600)), 1_599);
        // The wall clock is set an hour forward: the next answer replaces what was known.
        clock.sample(at(700, 3_600_700), at(710, 3_600_710), 1_705);
        assert_eq!(clock.estimate(at(710, 3_600_710)), 1_710);
    }

    #[test]
    fn an_absurd_server_clock_never_makes_a_number_that_cannot_be_read_back() {
        let mut clock = ServerClock::default();
        clock.sample(at(0, 0), at(1_000, 1_000), MAX_SAFE_INTEGER);
        assert_eq!(clock.estimate(at(5_000, 5_000)), MAX_SAFE_INTEGER);
    }
}
