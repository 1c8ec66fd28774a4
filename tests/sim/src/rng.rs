//! Randomness from one seed: the same seed draws the same numbers in every run and on every machine.

/// SplitMix64: small, fast, and good enough to choose among events.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The generator of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bf0_3635_d0c4_a1e9)
    }

    /// 64 random bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 128 random bits, for ids.
    pub const fn wide(&mut self) -> u128 {
        let high = self.bits() as u128;
        (high << 64) | self.bits() as u128
    }

    /// Two times 128 bits, as an input of the tab's core takes them.
    pub const fn pair(&mut self) -> [u128; 2] {
        [self.wide(), self.wide()]
    }

    /// A number from `low` to `high`, both included.
    pub const fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.bits() % (high - low + 1)
    }

    /// Whether something happens that happens `permille` times in a thousand.
    pub const fn chance(&mut self, permille: u64) -> bool {
        permille > 0 && self.bits() % 1000 < permille
    }

    /// One of a slice's places; 0 for an empty one.
    pub const fn place(&mut self, len: usize) -> usize {
        if len == 0 { 0 } else { (self.bits() % len as u64) as usize }
    }
}
