//! How an invocation ends, and the exit code that says so.

use std::process::ExitCode;

use patchkeep_core::outbox::{Op, OpState, Outcome};

use super::web::Reply;

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
    /// It goes on when it is taken up again: sent, and not decided.
    Open,
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
            Self::Unknown | Self::Lost | Self::Open => 3,
            Self::Conflict => 4,
            Self::Unsaved => 5,
        })
    }

    /// How it ends with an op in this state.
    pub fn of(op: &Op) -> Self {
        match op.state {
            OpState::Done => Self::Done,
            OpState::Refused => Self::Refused,
            OpState::Conflict => Self::Conflict,
            OpState::Unknown => Self::Unknown,
            OpState::Lost => Self::Lost,
            OpState::Applied => Self::Unsaved,
            // Its first answer was "who are you": it did nothing.
            OpState::Held if !op.ambiguous => Self::Other,
            OpState::Queued | OpState::Sending | OpState::Waiting | OpState::Held => Self::Open,
        }
    }

    /// How it ends with this outcome of a question.
    pub const fn of_outcome(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Done => Self::Done,
            Outcome::Refused => Self::Refused,
            Outcome::Conflict => Self::Conflict,
            Outcome::Lost => Self::Lost,
            Outcome::Applied => Self::Unsaved,
            Outcome::Pending | Outcome::Ambiguous | Outcome::Unknown => Self::Unknown,
        }
    }

    /// How a person's word was taken (S10). Where no answer came, the same word may be given again.
    pub fn of_settling(reply: &Reply) -> Self {
        match (reply.status, reply.code().as_deref()) {
            (200, _) => Self::Done,
            (409, Some("already_settled")) => Self::Conflict,
            (404 | 409, Some(_)) => Self::Refused,
            (400..500, _) => Self::Other,
            _ if reply.never_sent => Self::Other,
            _ => Self::Unknown,
        }
    }
}

/// The attempt that left nothing behind, where the server says so: a recorded refusal (S4), or a loss (S6).
pub fn released_at(op: &Op) -> Option<u64> {
    let answer = Reply::kept(op);
    let number = |path: &[&str]| answer.find(path, |v| v.as_integer());
    match op.state {
        OpState::Refused => {
            answer.find(&["key"], |v| v.as_str().map(|key| key == "released")).filter(|released| *released)?;
            number(&["attempt"])
        }
        OpState::Lost => number(&["error", "details", "attempt"]),
        _ => None,
    }
}
