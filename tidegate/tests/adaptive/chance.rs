//! Numbers that are the same for the same seed: SplitMix64.

pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed << 32)
    }

    /// In [0, 1).
    pub fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Of mean 0 and deviation 1, near enough: the sum of twelve uniform ones.
    pub fn normal(&mut self) -> f64 {
        let uniform = (0..12).map(|_| self.uniform());
        uniform.sum::<f64>() - 6.0
    }
}
