//! The callers: they send keyed writes, read answers by K5, and go on as it says.

use patchkeep_core::digest;
use patchkeep_core::ids::DocId;
use patchkeep_core::outbox::{Answer, Outcome, Retry, Standing, read};

use crate::mutants::Mutant;
use crate::server::Request;
use crate::world::{Event, Sim};

/// What the caller knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpState {
    /// Not sent yet, or to be sent again.
    Waiting,
    /// In a tab's memory (P2).
    Applied,
    /// Stored.
    Done,
    /// No effect.
    Refused,
    /// Applied and died unsaved.
    Lost,
    /// Nobody can tell.
    Unknown,
}

/// One write.
#[derive(Clone, Debug)]
pub struct Op {
    /// Its key.
    pub key: String,
    /// What its effect leaves in the text, and nothing else does.
    pub token: String,
    /// The document.
    pub doc: DocId,
    /// The edit, JSON text.
    pub edit: String,
    /// Whether unconfirmed local edits forbid it.
    pub guarded: bool,
    /// What the caller knows.
    pub state: OpState,
    attempts: u64,
    first_at: u64,
    ambiguous: bool,
    /// The request that is out, and whether it only asks.
    flight: Option<(u64, bool)>,
    requests: u64,
    failures: u32,
}

impl Op {
    /// Whether nothing more is to come by itself.
    pub(crate) const fn is_settled(&self) -> bool {
        self.flight.is_none() && matches!(self.state, OpState::Done | OpState::Refused | OpState::Lost)
    }
}

impl Sim {
    /// Makes the writes of this run, and when they begin.
    pub(crate) fn make_ops(&mut self) {
        for at in 0..self.setup.ops {
            let token = format!("<{at}>");
            let edit = match self.rng.range(0, 5) {
                0 => format!("{{\"kind\":\"text.prepend\",\"text\":\"{token}\"}}"),
                1 => format!("{{\"kind\":\"text.insert\",\"anchor\":\"@\",\"where\":\"after\",\"text\":\"{token}\"}}"),
                2 if self.rng.chance(200) => {
                    format!("{{\"kind\":\"text.insert\",\"anchor\":\"#\",\"where\":\"after\",\"text\":\"{token}\"}}")
                }
                _ => format!("{{\"kind\":\"text.append\",\"text\":\"{token}\"}}"),
            };
            let place = self.rng.place(crate::server::DOCS.len());
            self.ops.push(Op {
                key: format!("key-{at}"),
                token,
                doc: crate::server::doc(place),
                edit,
                guarded: self.rng.chance(100),
                state: OpState::Waiting,
                attempts: 0,
                first_at: 0,
                ambiguous: false,
                flight: None,
                requests: 0,
                failures: 0,
            });
            let begins = self.now + self.rng.range(0, self.setup.faulty_ms * 3 / 4);
            self.at(begins, Event::Caller { op: at });
        }
    }

    /// A caller sends, or asks.
    pub(crate) fn caller_acts(&mut self, at: usize) {
        let now = self.server_now();
        let Some(op) = self.ops.get_mut(at).filter(|op| op.flight.is_none()) else { return };
        let ask = match op.state {
            OpState::Waiting => false,
            OpState::Applied | OpState::Unknown => true,
            OpState::Done | OpState::Refused | OpState::Lost => return,
        };
        if !ask {
            op.attempts += 1;
            if op.attempts == 1 {
                op.first_at = now;
            }
        }
        op.requests += 1;
        op.flight = Some((op.requests, ask));
        let id = op.requests;
        let body = format!("{{\"edit\":{},\"guarded\":{}}}", op.edit, op.guarded);
        let Ok(fingerprint) = digest::fingerprint("PATCH", "/api/docs/x", &body) else { return };
        let request = Request { op: at, id, number: op.attempts, ask, first_at: op.first_at, fingerprint };
        self.note(|_| format!("  caller {request:?}"));
        // However it goes, the caller waits only so long.
        let patience = self.rng.range(2_000, 2 * self.setup.patch_timeout_ms + 4_000);
        self.at(self.now + patience, Event::Answered { op: at, request: id, answer: Answer::Failed });
        if self.fails(self.setup.profile.gateway) {
            return self.gateway(request);
        }
        if self.fails(self.setup.profile.lose) {
            self.lose_answer(&request);
            if self.rng.chance(500) {
                return;
            }
        }
        self.later(Event::Arrives { request });
    }

    /// A gateway answers for the server: a 5xx whether or not the request went on, a 4xx only where it did not.
    fn gateway(&mut self, request: Request) {
        let (op, id) = (request.op, request.id);
        let status = match self.rng.range(0, 3) {
            0 => 403,
            1 => 404,
            2 => 502,
            _ => 504,
        };
        if status >= 500 && self.rng.chance(700) {
            self.later(Event::Arrives { request });
        }
        let answer = Answer::Answered { status, headers: Vec::new(), body: "<html>gateway</html>".into() };
        self.later(Event::Answered { op, request: id, answer });
    }

    /// An answer reaches a caller.
    pub(crate) fn caller_hears(&mut self, at: usize, request: u64, answer: &Answer) {
        let eager = self.setup.profile.eager;
        let now = self.server_now();
        let believes = self.is(Mutant::FourxxBelieved);
        let Some(op) = self.ops.get_mut(at) else { return };
        let Some((_, ask)) = op.flight.take_if(|(id, _)| *id == request) else { return };
        let standing = Standing {
            keys_listed: true,
            earlier_ambiguous: (op.ambiguous || ask) && !believes,
            expects_other_type: false,
            server_now_ms: Some(now),
        };
        let reading = read(answer, standing);
        let heard = match (reading.outcome, reading.retry) {
            (Outcome::Done, _) => Some(OpState::Done),
            (Outcome::Applied, _) => Some(OpState::Applied),
            (Outcome::Lost, _) => Some(OpState::Lost),
            (Outcome::Refused, Retry::Never) => Some(OpState::Refused),
            (Outcome::Unknown, Retry::AskAgain) => Some(OpState::Unknown),
            // Only the server's own word counts as news of a question.
            _ if ask => None,
            (Outcome::Unknown | Outcome::Conflict, _) => Some(OpState::Unknown),
            _ => Some(OpState::Waiting),
        };
        op.ambiguous |= !ask && matches!(reading.outcome, Outcome::Ambiguous | Outcome::Unknown);
        op.state = heard.unwrap_or(op.state);
        op.failures += 1;
        let (state, failures) = (op.state, op.failures);
        self.oracle.dirty = true;
        self.note(|_| format!("  caller {at} is {state:?} after {answer:?}"));
        self.told(at);
        let goes_on = matches!(state, OpState::Refused | OpState::Lost | OpState::Unknown) && failures < 12;
        if goes_on && self.fails(eager) {
            // The host decides to go on with the same key and a higher attempt (S4, S6, S7).
            if let Some(op) = self.ops.get_mut(at) {
                op.state = OpState::Waiting;
            }
        }
        let most = if self.is_calm { 3_000 } else { 500 << failures.min(4) };
        let wait = reading.min_wait_ms + self.rng.range(100, most);
        self.at(self.now + wait, Event::Caller { op: at });
    }
}
