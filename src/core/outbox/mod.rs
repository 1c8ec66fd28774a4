//! The tab's own writes (§8): for now, how an HTTP answer to one of them is read.

mod answer;
mod retry_after;

pub use answer::{Answer, Outcome, Reading, Retry, Standing, read};
pub use retry_after::retry_after_ms;
