//! What an agent does after an answer: a pure function over K5's reading of it.

use std::process::ExitCode;

use patchkeep_core::outbox::{Outcome, Reading, Retry};

use super::client::Reply;

/// How one invocation stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The next attempt's number, from 1.
    pub number: u64,
    /// The key was given by a person, for an op of an earlier invocation.
    pub explicit_key: bool,
    /// The one retry after an ambiguous answer was made.
    pub retried: bool,
    /// An attempt ended ambiguous.
    pub ambiguous: bool,
    /// A released key was taken up again.
    pub taken_up: bool,
    /// Since the start, in ms.
    pub elapsed_ms: u64,
    /// How long it may take until saved, in ms.
    pub wait_ms: u64,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another attempt with the same key.
    Send {
        /// After so long, in ms.
        wait_ms: u64,
    },
    /// A question.
    Ask {
        /// After so long, in ms.
        wait_ms: u64,
    },
    /// Nothing.
    Stop(End),
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// In the stored document.
    Done,
    /// No effect.
    Refused,
    /// Nobody can tell.
    Unknown,
    /// Applied, and died unsaved.
    Lost,
    /// The key is bound to another request.
    Conflict,
    /// Applied, and not saved in time.
    Unsaved,
    /// Anything else: nothing was sent.
    Other,
}

impl End {
    /// The process's exit code.
    pub fn exit_code(self) -> ExitCode {
        ExitCode::from(match self {
            Self::Done => 0,
            Self::Other => 1,
            Self::Refused => 2,
            Self::Unknown | Self::Lost => 3,
            Self::Conflict => 4,
            Self::Unsaved => 5,
        })
    }
}

/// How often it is asked whether the effect is saved, in ms.
const ASK_EVERY_MS: u64 = 300;
/// The least wait before the retry, in ms: what lost the answer may still be going on.
const RETRY_AFTER_MS: u64 = 200;
/// The longest single wait, in ms, whatever `Retry-After` says.
const LONGEST_WAIT_MS: u64 = 10_000;

/// Decides what comes next, and keeps count of it.
pub fn next(reading: &Reading, reply: &Reply, asking: bool, progress: &mut Progress) -> Next {
    let wait = |least: u64| reading.min_wait_ms.max(least).min(LONGEST_WAIT_MS);
    let in_time = |wait_ms: u64| progress.elapsed_ms.saturating_add(wait_ms) < progress.wait_ms;
    if asking {
        // A question changes nothing: whatever happens to it, it may be asked again in time.
        return match reading.outcome {
            Outcome::Applied | Outcome::Pending | Outcome::Ambiguous if in_time(wait(ASK_EVERY_MS)) => {
                Next::Ask { wait_ms: wait(ASK_EVERY_MS) }
            }
            Outcome::Applied | Outcome::Pending | Outcome::Ambiguous => Next::Stop(End::Unsaved),
            outcome => Next::Stop(end_of(outcome)),
        };
    }
    if let Some(number) = released_at(reading, reply).filter(|n| *n >= progress.number)
        && progress.explicit_key
        && !progress.taken_up
    {
        // A person took this key up again, and the server says that the attempt it knows of left nothing behind.
        progress.taken_up = true;
        progress.number = number + 1;
        return Next::Send { wait_ms: 0 };
    }
    match (reading.outcome, reading.retry) {
        (Outcome::Applied, _) if in_time(ASK_EVERY_MS) => Next::Ask { wait_ms: ASK_EVERY_MS },
        (Outcome::Applied, _) => Next::Stop(End::Unsaved),
        (Outcome::Ambiguous, Retry::SameKey) if !progress.retried => {
            progress.retried = true;
            progress.ambiguous |= !reply.never_sent;
            progress.number += 1;
            Next::Send { wait_ms: wait(RETRY_AFTER_MS) }
        }
        (Outcome::Ambiguous | Outcome::Unknown, _) if reply.never_sent && !progress.ambiguous => Next::Stop(End::Other),
        (Outcome::Pending, Retry::SameKey) if in_time(wait(RETRY_AFTER_MS)) => {
            progress.number += 1;
            Next::Send { wait_ms: wait(RETRY_AFTER_MS) }
        }
        (Outcome::Pending, Retry::AfterCredentials) => Next::Stop(End::Other),
        (outcome, _) => Next::Stop(end_of(outcome)),
    }
}

/// How a person's word was taken (S10). Where no answer came, the same word may be given again.
pub(super) fn settled(reply: &Reply) -> End {
    match (reply.status, reply.code().as_deref()) {
        (200, _) => End::Done,
        (409, Some("already_settled")) => End::Conflict,
        (404 | 409, Some(_)) => End::Refused,
        (400..500, _) => End::Other,
        _ if reply.never_sent => End::Other,
        _ => End::Unknown,
    }
}

/// How it ends with this outcome.
pub(super) const fn end_of(outcome: Outcome) -> End {
    match outcome {
        Outcome::Done => End::Done,
        Outcome::Refused => End::Refused,
        Outcome::Conflict => End::Conflict,
        Outcome::Lost => End::Lost,
        Outcome::Applied => End::Unsaved,
        // Bounded waiting ends here too: the key is kept, and may be asked about (K6).
        Outcome::Pending | Outcome::Ambiguous | Outcome::Unknown => End::Unknown,
    }
}

/// The attempt that left nothing behind, where the server says so: a recorded refusal (S4), or a loss (S6).
fn released_at(reading: &Reading, reply: &Reply) -> Option<u64> {
    let number = |path: &[&str]| reply.find(path, |v| v.as_integer());
    match reading.outcome {
        Outcome::Refused if reading.replayed => {
            reply.find(&["key"], |v| v.as_str().map(|key| key == "released")).filter(|released| *released)?;
            number(&["attempt"])
        }
        Outcome::Lost => number(&["error", "details", "attempt"]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use patchkeep_core::outbox::{Standing, read};

    fn reply(status: u16, body: &str) -> Reply {
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Reply { status, headers, body: body.to_owned(), never_sent: false }
    }

    fn after(reply: &Reply, keys_listed: bool, asking: bool, progress: &mut Progress) -> Next {
        let standing = Standing { keys_listed, earlier_ambiguous: progress.ambiguous, ..Standing::default() };
        next(&read(&reply.answer(), standing), reply, asking, progress)
    }

    fn fresh() -> Progress {
        Progress { number: 1, wait_ms: 30_000, ..Progress::default() }
    }

    #[test]
    fn k04_one_retry_and_only_with_the_capability() {
        let lost = Reply::default();
        assert_eq!(after(&lost, false, false, &mut fresh()), Next::Stop(End::Unknown));
        let mut progress = fresh();
        assert_eq!(after(&lost, true, false, &mut progress), Next::Send { wait_ms: 200 });
        assert_eq!((progress.number, progress.ambiguous), (2, true));
        assert_eq!(after(&lost, true, false, &mut progress), Next::Stop(End::Unknown));
        let failed = reply(502, "");
        assert!(matches!(after(&failed, true, false, &mut fresh()), Next::Send { .. }));
        assert_eq!(after(&failed, false, false, &mut fresh()), Next::Stop(End::Unknown));
    }

    #[test]
    fn k05_a_refusal_after_a_lost_answer_is_unknown_unless_released() {
        let mut progress = Progress { ambiguous: true, retried: true, ..fresh() };
        assert_eq!(after(&reply(403, "{}"), true, false, &mut progress), Next::Stop(End::Unknown));
        let released = reply(422, r#"{"error":{"code":"anchor_not_found"},"key":"released"}"#);
        assert_eq!(after(&released, true, false, &mut progress), Next::Stop(End::Refused));
    }

    #[test]
    fn applied_is_asked_about_until_the_time_is_over() {
        let applied = reply(200, r#"{"applied_pending_flush":true}"#);
        assert_eq!(after(&applied, true, false, &mut fresh()), Next::Ask { wait_ms: 300 });
        assert_eq!(after(&applied, true, true, &mut fresh()), Next::Ask { wait_ms: 300 });
        assert_eq!(after(&Reply::default(), true, true, &mut fresh()), Next::Ask { wait_ms: 300 });
        let mut late = Progress { elapsed_ms: 29_900, ..fresh() };
        assert_eq!(after(&applied, true, true, &mut late), Next::Stop(End::Unsaved));
        assert_eq!(after(&applied, true, false, &mut Progress { wait_ms: 0, ..fresh() }), Next::Stop(End::Unsaved));
    }

    #[test]
    fn b26_in_flight_is_bounded() {
        let busy = reply(409, r#"{"error":{"code":"idempotency_in_flight"},"retry_after_ms":3000}"#);
        let mut progress = fresh();
        assert_eq!(after(&busy, true, false, &mut progress), Next::Send { wait_ms: 3000 });
        progress.elapsed_ms = 28_000;
        assert_eq!(after(&busy, true, false, &mut progress), Next::Stop(End::Unknown));
    }

    #[test]
    fn s04_a_released_key_is_taken_up_by_a_person_alone() {
        let refused = reply(409, r#"{"error":{"code":"expired"},"key":"released","attempt":2,"replayed":true}"#);
        assert_eq!(after(&refused, true, false, &mut fresh()), Next::Stop(End::Refused));
        let mut progress = Progress { explicit_key: true, ..fresh() };
        assert_eq!(after(&refused, true, false, &mut progress), Next::Send { wait_ms: 0 });
        assert_eq!(progress.number, 3);
        assert_eq!(after(&refused, true, false, &mut progress), Next::Stop(End::Refused));
        let lost = reply(409, r#"{"error":{"code":"patch_lost","details":{"attempt":1}}}"#);
        assert_eq!(after(&lost, true, false, &mut fresh()), Next::Stop(End::Lost));
        let mut progress = Progress { explicit_key: true, ..fresh() };
        assert_eq!(after(&lost, true, false, &mut progress), Next::Send { wait_ms: 0 });
    }

    #[test]
    fn a_server_that_is_not_there_is_not_unknown() {
        let nobody = Reply { never_sent: true, ..Reply::default() };
        assert_eq!(after(&nobody, false, false, &mut fresh()), Next::Stop(End::Other));
        let mut progress = fresh();
        assert_eq!(after(&nobody, true, false, &mut progress), Next::Send { wait_ms: 200 });
        assert_eq!(after(&nobody, true, false, &mut progress), Next::Stop(End::Other));
        let mut progress = Progress { ambiguous: true, retried: true, ..fresh() };
        assert_eq!(after(&nobody, true, false, &mut progress), Next::Stop(End::Unknown));
    }

    #[test]
    fn other_ends() {
        let reused = reply(422, r#"{"error":{"code":"idempotency_key_reused"}}"#);
        assert_eq!(after(&reused, true, false, &mut fresh()), Next::Stop(End::Conflict));
        let unknown = reply(409, r#"{"error":{"code":"patch_outcome_unknown"}}"#);
        assert_eq!(after(&unknown, true, false, &mut fresh()), Next::Stop(End::Unknown));
        assert_eq!(after(&reply(200, r#"{"seq":7}"#), true, true, &mut fresh()), Next::Stop(End::Done));
    }
}
