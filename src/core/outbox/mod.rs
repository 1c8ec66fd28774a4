//! The tab's own writes (§8): keys, the outbox and how answers are read.
//!
//! The machine is [`Outbox`]: [`Outbox::handle`], then [`Outbox::poll`] until it says nothing, then wait until
//! [`Outbox::next_wake`]. It does no I/O, so that a browser, a command line and a simulation run the same one.
//!
//! | file | concept |
//! | --- | --- |
//! | `key` | op keys (K1, K2) |
//! | `op` | one op and its text form |
//! | `answer`, `retry_after` | how an answer is read (K5) |
//! | `io` | what the machine is told, and what it asks for |
//! | `engine` | the machine's state, and its ways in and out (K11) |
//! | `entries` | the ops by place, key and lane |
//! | `keeping` | ops on their way to the store (K1) |
//! | `servers` | what each server can do (K4) |
//! | `attempts` | which op goes out when (K6, K7, K9) |
//! | `outcome` | what becomes of it (K5, K8, K10) |
//! | `take_up` | another attempt at what had no effect (S4, S6) |

mod answer;
mod attempts;
mod engine;
mod entries;
mod io;
mod keeping;
mod key;
mod op;
mod outcome;
mod retry_after;
mod servers;
mod take_up;

pub use answer::{Answer, Outcome, Reading, Retry, Standing, json_of, read};
pub use engine::{Outbox, OutboxConfig, OutboxStart};
pub use io::{Capabilities, EnqueueError, NewOp, OutboxEvent, OutboxInput, OutboxOutput, OutboxTransaction, Request};
pub use key::{KeyMint, MAX_KEY_CHARS, OpKey};
pub use op::{CorruptOp, MAX_RESPONSE_BYTES, OnFailure, Op, OpState};
pub use retry_after::retry_after_ms;
