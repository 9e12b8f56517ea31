//! Sequences of keys, made before the clock starts.
//!
//! The strings of a sequence are allocated in the order in which they are used,
//! so that walking it streams through memory and the look-up under test is the
//! only random access.

use std::cell::Cell;

/// How requests are spread over keys.
#[derive(Clone, Copy, Debug)]
pub enum Spread {
    Uniform,
    /// The k-th most popular key is asked for in proportion to `1 / k^0.99`.
    Zipf,
}

/// Keys in the order of asking, walked round and round.
pub struct Sequence {
    keys: Vec<String>,
    next: Cell<usize>,
}

const LENGTH: usize = 2_000_000;

impl Sequence {
    pub fn new(population: u32, spread: Spread) -> Sequence {
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        let ranks = match spread {
            Spread::Uniform => uniform(population, &mut random),
            Spread::Zipf => zipf(population, &mut random),
        };
        let names = shuffled(population, &mut random);
        let keys = ranks
            .into_iter()
            .map(|rank| key(names[rank as usize]))
            .collect();
        Sequence {
            keys,
            next: Cell::new(0),
        }
    }

    /// The next `n` keys.
    pub fn take(&self, n: u64) -> impl Iterator<Item = &String> {
        let start = self.next.get();
        let n = usize::try_from(n).expect("a lap fits an address space");
        self.next.set((start + n) % self.keys.len());
        self.keys[start..]
            .iter()
            .chain(self.keys.iter().cycle())
            .take(n)
    }
}

/// Every key of a population once, in no particular order.
pub fn population(population: u32) -> impl Iterator<Item = String> {
    shuffled(population, &mut Random(7)).into_iter().map(key)
}

fn key(number: u32) -> String {
    format!("user:{number}")
}

fn uniform(population: u32, random: &mut Random) -> Vec<u32> {
    (0..LENGTH).map(|_| random.below(population)).collect()
}

fn zipf(population: u32, random: &mut Random) -> Vec<u32> {
    let mut total = 0.0;
    let cumulative: Vec<f64> = (1..=population)
        .map(|rank| {
            total += f64::from(rank).powf(-0.99);
            total
        })
        .collect();
    let draw = |random: &mut Random| {
        let point = random.unit() * total;
        let rank = cumulative.partition_point(|sum| *sum <= point);
        u32::try_from(rank)
            .expect("a rank below the population")
            .min(population - 1)
    };
    (0..LENGTH).map(|_| draw(random)).collect()
}

/// The popular keys must not be neighbours by name.
fn shuffled(population: u32, random: &mut Random) -> Vec<u32> {
    let mut names: Vec<u32> = (0..population).collect();
    for last in (1..population).rev() {
        names.swap(last as usize, random.below(last + 1) as usize);
    }
    names
}

/// Xorshift64*: the same sequence on every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, bound: u32) -> u32 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u32
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
