//! Random numbers from a seed: the same on every machine and in every version.
//!
//! Splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
//! generators", 2014).

/// See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to `count` - 1.
    pub(crate) fn below(&mut self, count: u64) -> u64 {
        self.next() % count.max(1)
    }

    /// From `least` to `most`, both included.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// True `times` in 100.
    pub(crate) fn percent(&mut self, times: u64) -> bool {
        self.below(100) < times
    }

    /// One of `choices`.
    pub(crate) fn pick<'c, T>(&mut self, choices: &'c [T]) -> &'c T {
        &choices[self.below(choices.len() as u64) as usize]
    }
}
