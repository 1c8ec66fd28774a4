//! The machines one tab is made of, each for itself: who it is, where its connection stands, what time the server has.

mod backoff;
mod clock;
mod connection;
mod identity;

pub use backoff::full_jitter;
pub use clock::{Deadline, ServerClock};
pub use connection::{Connection, Due, Phase};
pub use identity::{Claim, ClaimStep, Identity};
