//! Waiting for what has to become true.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

/// How long anything may take before it counts as not happening at all. Generous: it bounds failures, not runs.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How often a condition that cannot be awaited is looked at.
const LOOK: Duration = Duration::from_millis(15);

/// Looks again and again until there is something.
///
/// # Panics
/// When there is nothing within [`PATIENCE`]; the message says what was waited for.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    let mut ticks = interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
    }
}

/// Awaits something.
///
/// # Panics
/// When it does not come within [`PATIENCE`]; the message says what was waited for.
pub async fn within<T>(what: &str, coming: impl Future<Output = T>) -> T {
    match timeout(PATIENCE, coming).await {
        Ok(came) => came,
        Err(_elapsed) => panic!("waited in vain for {what}"),
    }
}
