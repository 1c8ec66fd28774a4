//! One socket at a time, and when to try the next.
//!
//! ```text
//!            due                opened              welcome
//!  Waiting ───────► Connecting ────────► Greeting ─────────► Live
//!     ▲                 │ closed, too slow   │ closed, too slow │ closed, silent
//!     └─────────────────┴────────────────────┴──────────────────┘
//!  reject ─► Held (until the host asks) or Ended · pagehide, freeze ─► Suspended
//! ```
//!
//! `welcome` alone does not reset the back-off: only a connection that has lived for [`STABLE_MS`] does, so that a
//! server that resets right after it is not stormed (B16e).

use std::collections::VecDeque;

use super::backoff::full_jitter;
use crate::frame::{DEFAULT_MAX_FRAME_BYTES, RejectCode};
use crate::time::Now;

/// Where the connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The next attempt is due then, by the monotonic clock.
    Waiting {
        /// When.
        until_ms: u64,
    },
    /// A socket is opening.
    Connecting {
        /// When it began.
        since_ms: u64,
    },
    /// `hello` is out, `welcome` is not in.
    Greeting {
        /// When `hello` went out.
        hello: Now,
    },
    /// Welcomed.
    Live {
        /// When `welcome` came.
        since_ms: u64,
    },
    /// Refused with this word: no attempt until the host asks for one.
    Held(RejectCode),
    /// The page is suspended (T4).
    Suspended,
    /// No more attempts.
    Ended,
}

/// The connection's state between attempts and within one.
#[derive(Debug)]
pub struct Connection {
    /// Where it is.
    pub phase: Phase,
    /// The largest frame the server takes, in bytes, as the last `welcome` said.
    pub max_frame_bytes: usize,
    /// The last close was 1009: lists are left out until a connection proves stable (B17).
    pub shrunk: bool,
    number: u64,
    heartbeat_ms: u64,
    heard: bool,
    ping: Option<Now>,
    next_ping_ms: u64,
    missed: u32,
    failures: u32,
    attempts: VecDeque<u64>,
}

/// What the passing of time asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Open a socket.
    Connect,
    /// Send a ping with this `t`.
    Ping(u64),
    /// Give the socket up: it is too slow, or silent.
    GiveUp,
}

/// The first ceiling of the back-off.
const BASE_MS: u64 = 500;
/// Its last.
const CAP_MS: u64 = 60_000;
/// A connection that has lived this long after `welcome` resets the back-off.
const STABLE_MS: u64 = 10_000;
/// How long a socket may take to open.
const OPEN_TIMEOUT_MS: u64 = 30_000;
/// How long `welcome` may take.
const WELCOME_TIMEOUT_MS: u64 = 20_000;
/// At most [`MOST_ATTEMPTS`] within this time, whatever encourages them.
const ATTEMPTS_WINDOW_MS: u64 = 600_000;
const MOST_ATTEMPTS: usize = 30;
/// `online` and its like bring an attempt forward, but not closer than this to the one before.
const ENCOURAGED_GAP_MS: u64 = 1_000;
/// The host is told once that many attempts in a row have failed.
const FAILING_AFTER: u32 = 5;
/// Silence over this many heartbeats ends a connection; one more than needed, as a frozen page finds its answers late.
const MISSED_HEARTBEATS: u32 = 2;
const HEARTBEAT_RANGE_MS: (u64, u64) = (1_000, 300_000);
/// Smaller limits than this leave no room for the protocol's own fields.
const LEAST_MAX_FRAME_BYTES: u64 = 1_024;

impl Connection {
    /// A first attempt is due at once.
    pub const fn new(now: Now) -> Self {
        Self {
            phase: Phase::Waiting { until_ms: now.mono_ms },
            max_frame_bytes: DEFAULT_MAX_FRAME_BYTES,
            shrunk: false,
            number: 0,
            heartbeat_ms: 15_000,
            heard: false,
            ping: None,
            next_ping_ms: 0,
            missed: 0,
            failures: 0,
            attempts: VecDeque::new(),
        }
    }

    /// The number of the socket that exists, if any.
    pub const fn socket(&self) -> Option<u64> {
        match self.phase {
            Phase::Connecting { .. } | Phase::Greeting { .. } | Phase::Live { .. } => Some(self.number),
            _ => None,
        }
    }

    /// The number of the socket that frames may be sent on: `hello` has gone out.
    pub const fn talking(&self) -> Option<u64> {
        match self.phase {
            Phase::Greeting { .. } | Phase::Live { .. } => Some(self.number),
            _ => None,
        }
    }

    /// What is due now, if anything; ask again until it is `None`.
    pub fn due(&mut self, now: Now) -> Option<Due> {
        match self.phase {
            Phase::Waiting { until_ms } if now.mono_ms >= until_ms => {
                self.number += 1;
                self.attempts.push_back(now.mono_ms);
                if self.attempts.len() > MOST_ATTEMPTS {
                    self.attempts.pop_front();
                }
                self.phase = Phase::Connecting { since_ms: now.mono_ms };
                Some(Due::Connect)
            }
            Phase::Connecting { since_ms } if now.mono_ms >= since_ms + OPEN_TIMEOUT_MS => Some(Due::GiveUp),
            Phase::Greeting { hello } if now.mono_ms >= hello.mono_ms + WELCOME_TIMEOUT_MS => Some(Due::GiveUp),
            Phase::Live { .. } if now.mono_ms >= self.next_ping_ms => self.heartbeat(now),
            _ => None,
        }
    }

    fn heartbeat(&mut self, now: Now) -> Option<Due> {
        self.missed = if self.heard { 0 } else { self.missed + 1 };
        if self.missed > MISSED_HEARTBEATS {
            return Some(Due::GiveUp);
        }
        self.heard = false;
        self.ping = Some(now);
        self.next_ping_ms = now.mono_ms + self.heartbeat_ms;
        Some(Due::Ping(now.mono_ms))
    }

    /// How long the server and this tab may be silent, in ms.
    pub const fn heartbeat_ms(&self) -> u64 {
        self.heartbeat_ms
    }

    /// A ping out of turn, where there is somebody to hear it; the heartbeat goes on as it was.
    pub const fn ping_now(&mut self, now: Now) -> Option<u64> {
        if !matches!(self.phase, Phase::Live { .. }) {
            return None;
        }
        self.ping = Some(now);
        Some(now.mono_ms)
    }

    /// When [`Connection::due`] may have something.
    pub const fn next_wake(&self) -> Option<u64> {
        match self.phase {
            Phase::Waiting { until_ms } => Some(until_ms),
            Phase::Connecting { since_ms } => Some(since_ms + OPEN_TIMEOUT_MS),
            Phase::Greeting { hello } => Some(hello.mono_ms + WELCOME_TIMEOUT_MS),
            Phase::Live { .. } => Some(self.next_ping_ms),
            Phase::Held(_) | Phase::Suspended | Phase::Ended => None,
        }
    }

    /// The socket is open and `hello` goes out.
    pub const fn greeted(&mut self, now: Now) {
        self.phase = Phase::Greeting { hello: now };
    }

    /// `welcome` came; returns when its `hello` had gone out, or `None` where none was waited for.
    pub fn welcomed(&mut self, now: Now, heartbeat_ms: u64, max_frame_bytes: u64) -> Option<Now> {
        let Phase::Greeting { hello } = self.phase else { return None };
        self.phase = Phase::Live { since_ms: now.mono_ms };
        let (least, most) = HEARTBEAT_RANGE_MS;
        self.heartbeat_ms = heartbeat_ms.clamp(least, most);
        self.next_ping_ms = now.mono_ms + self.heartbeat_ms;
        self.heard = true;
        self.missed = 0;
        self.ping = None;
        self.max_frame_bytes =
            max_frame_bytes.clamp(LEAST_MAX_FRAME_BYTES, DEFAULT_MAX_FRAME_BYTES as u64 * 16) as usize;
        Some(hello)
    }

    /// A frame came in.
    pub const fn heard(&mut self) {
        self.heard = true;
    }

    /// A pong came; returns when its ping had gone out, if it is the newest one's.
    pub fn ponged(&mut self, t: u64) -> Option<Now> {
        self.ping.take_if(|ping| ping.mono_ms == t)
    }

    /// The socket is gone, or is being given up. Returns whether the host should hear that attempts keep failing.
    pub fn lost(&mut self, now: Now, random: u128) -> bool {
        let was_stable = matches!(self.phase, Phase::Live { since_ms } if now.mono_ms >= since_ms + STABLE_MS);
        if was_stable {
            self.failures = 0;
            self.shrunk = false;
        }
        let wait = full_jitter(self.failures, BASE_MS, CAP_MS, random);
        self.failures = self.failures.saturating_add(1);
        self.phase = Phase::Waiting { until_ms: self.not_before(now.mono_ms + wait) };
        self.failures == FAILING_AFTER
    }

    /// The rate limit: where the window is full, the next attempt waits until its oldest one has left it.
    fn not_before(&self, at_ms: u64) -> u64 {
        match self.attempts.front() {
            Some(oldest) if self.attempts.len() == MOST_ATTEMPTS => at_ms.max(oldest + ATTEMPTS_WINDOW_MS),
            _ => at_ms,
        }
    }

    /// `online` or visible again: a waiting attempt comes forward, within the rate limit.
    pub fn encouraged(&mut self, now: Now) {
        if let Phase::Waiting { until_ms } = self.phase {
            let gap = self.attempts.back().map_or(0, |last| last + ENCOURAGED_GAP_MS);
            self.phase = Phase::Waiting { until_ms: until_ms.min(self.not_before(now.mono_ms.max(gap))) };
        }
    }

    /// The host asks, or the page is back, or the journal changed: an attempt is due at once and the count begins anew.
    pub fn reconnect_now(&mut self, now: Now) {
        if !matches!(self.phase, Phase::Ended) && self.socket().is_none() {
            self.failures = 0;
            self.phase = Phase::Waiting { until_ms: now.mono_ms };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Now {
        Now { mono_ms: ms, wall_ms: ms }
    }

    /// Counts the attempts of ten minutes in which every socket ends the same way.
    fn attempts_in_ten_minutes(random: u128, mut fail: impl FnMut(&mut Connection, Now)) -> usize {
        let mut connection = Connection::new(at(0));
        let mut attempts = 0;
        let mut ms = 0;
        while ms < 600_000 {
            while let Some(due) = connection.due(at(ms)) {
                assert_eq!(due, Due::Connect);
                attempts += 1;
                fail(&mut connection, at(ms));
                connection.lost(at(ms), random);
            }
            ms = connection.next_wake().unwrap().max(ms + 1);
        }
        attempts
    }

    #[test]
    fn b16_at_most_thirty_attempts_in_ten_minutes() {
        for random in [0, 1, 7_919, u128::MAX / 3, u128::MAX] {
            assert!(attempts_in_ten_minutes(random, |_, _| {}) <= 30);
        }
    }

    #[test]
    fn b16e_welcome_alone_does_not_reset_the_back_off() {
        let attempts = attempts_in_ten_minutes(u128::MAX, |connection, now| {
            connection.greeted(now);
            connection.welcomed(now, 15_000, 1 << 20);
        });
        assert!(attempts <= 30, "{attempts}");
    }

    #[test]
    fn b15_encouragement_never_opens_a_second_socket() {
        let mut connection = Connection::new(at(0));
        assert_eq!(connection.due(at(0)), Some(Due::Connect));
        for _ in 0..5 {
            connection.encouraged(at(10));
            connection.reconnect_now(at(10));
            assert_eq!(connection.due(at(10)), None);
        }
        assert_eq!(connection.socket(), Some(1));
    }

    #[test]
    fn a_silent_connection_is_given_up_and_a_late_answer_saves_it() {
        let mut connection = Connection::new(at(0));
        connection.due(at(0));
        connection.greeted(at(0));
        connection.welcomed(at(0), 1_000, 1 << 20);
        assert_eq!(connection.due(at(1_000)), Some(Due::Ping(1_000)));
        assert_eq!(connection.due(at(2_000)), Some(Due::Ping(2_000)));
        connection.heard();
        assert_eq!(connection.due(at(60_000)), Some(Due::Ping(60_000)));
        assert_eq!(connection.due(at(61_000)), Some(Due::Ping(61_000)));
        assert_eq!(connection.due(at(62_000)), Some(Due::Ping(62_000)));
        assert_eq!(connection.due(at(63_000)), Some(Due::GiveUp));
    }
}
