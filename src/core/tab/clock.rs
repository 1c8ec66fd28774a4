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

    /// Whether the deadline has passed, or may have: an error bound that straddles it counts as past, and so does not
    /// knowing the server's time at all (J2).
    pub fn is_past(&self, now: Now, deadline_ms: u64) -> bool {
        // The server read its clock at the latest when the request arrived, a whole round trip before the answer did.
        self.best().is_none_or(|s| {
            let latest = s.server_ms.saturating_add(s.round_trip_ms).saturating_add(now.elapsed_since(s.received));
            latest >= deadline_ms
        })
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
        assert!(clock.is_past(at(0, 0), u64::MAX), "no sample, no patch");
        clock.sample(at(0, 0), at(100, 100), 5_000);
        assert!(!clock.is_past(at(100, 100), 5_101));
        assert!(clock.is_past(at(100, 100), 5_100), "it may be 5100 there now");
        assert_eq!(clock.estimate(at(100, 100)), 5_050);
    }

    #[test]
    fn j02_the_larger_delta_counts() {
        let mut clock = ServerClock::default();
        clock.sample(at(0, 0), at(0, 0), 1_000);
        assert!(clock.is_past(at(10, 600_000), 2_000), "the monotonic clock slept");
        assert!(clock.is_past(at(600_000, 10), 2_000), "the wall clock was set back");
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
