//! Time as it reaches the core: two clocks of the tab, read at the moment of the input.

/// One reading of both of the tab's clocks, in whole milliseconds.
///
/// Neither is trusted alone (J2): the wall clock jumps, the monotonic one may stop while the machine sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Now {
    /// Milliseconds since the context began (`performance.now()`); never goes back.
    pub mono_ms: u64,
    /// Milliseconds since the Unix epoch by the tab's own wall clock (`Date.now()`).
    pub wall_ms: u64,
}

impl Now {
    /// How much time has passed since `earlier`: the larger of the two clocks' deltas (J2).
    pub fn elapsed_since(self, earlier: Self) -> u64 {
        let mono = self.mono_ms.saturating_sub(earlier.mono_ms);
        let wall = self.wall_ms.saturating_sub(earlier.wall_ms);
        mono.max(wall)
    }
}
