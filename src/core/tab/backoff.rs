//! Exponential back-off with full jitter, as a pure function.

/// The longest wait before attempt number `attempt` (from 0), of which the wait itself is a random part.
fn ceiling(attempt: u32, base_ms: u64, cap_ms: u64) -> u64 {
    let factor = 1u64.checked_shl(attempt).unwrap_or(u64::MAX);
    base_ms.saturating_mul(factor).min(cap_ms)
}

/// A wait drawn evenly from 0 to the exponential ceiling, so that many clients cut at once do not return at once.
pub fn full_jitter(attempt: u32, base_ms: u64, cap_ms: u64, random: u128) -> u64 {
    let range = u128::from(ceiling(attempt, base_ms, cap_ms)) + 1;
    // 128 random bits over a range below 2⁶⁵: the modulo's bias is below 2⁻⁶³.
    (random % range) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ceiling_doubles_up_to_the_cap() {
        let ceilings: Vec<_> = [0, 1, 2, 6, 7, 63, 64, u32::MAX].map(|n| ceiling(n, 500, 60_000)).into();
        assert_eq!(ceilings, [500, 1000, 2000, 32_000, 60_000, 60_000, 60_000, 60_000]);
    }

    #[test]
    fn the_wait_covers_the_whole_range() {
        assert_eq!(full_jitter(0, 500, 60_000, 0), 0);
        assert_eq!(full_jitter(0, 500, 60_000, 500), 500);
        assert!((0..1000).all(|i| full_jitter(3, 500, 60_000, u128::MAX / 1000 * i) <= 4000));
    }
}
