//! For whom it is asked next.

use std::str::FromStr;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1, Zipf};

/// How asks are spread over the keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spread {
    /// Each as often as any other.
    Uniform,
    /// The nth as often as `n^-exponent`.
    Zipf(f64),
    /// The first alone.
    Hot,
    /// One after the other.
    Each,
}

/// Draws keys, and distances in time, from one seed.
pub struct Rng {
    random: SmallRng,
    keys: u32,
    zipf: Option<Zipf<f64>>,
    hot: bool,
    /// The next key, where they come in order.
    next: Option<u32>,
}

impl Rng {
    pub fn new(seed: u64, keys: u32, spread: Spread) -> Self {
        let zipf = match spread {
            Spread::Zipf(exponent) => Zipf::new(f64::from(keys), exponent).ok(),
            _ => None,
        };
        Self {
            random: SmallRng::seed_from_u64(seed),
            keys,
            zipf,
            hot: spread == Spread::Hot,
            next: (spread == Spread::Each).then_some(0),
        }
    }

    /// A key, from 0.
    pub fn key(&mut self) -> u32 {
        if let Some(next) = &mut self.next {
            let key = *next;
            *next = (key + 1) % self.keys;
            return key;
        }
        match &self.zipf {
            _ if self.hot => 0,
            Some(zipf) => (zipf.sample(&mut self.random) as u32).clamp(1, self.keys) - 1,
            None => self.random.random_range(0..self.keys),
        }
    }

    /// A distance between arrivals that know nothing of each other, of mean 1.
    pub fn distance(&mut self) -> f64 {
        Exp1.sample(&mut self.random)
    }
}

impl FromStr for Spread {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help = || format!("`{text}` is not uniform, each, hot or zipf:1.1 (0.1 to 10)");
        match text.split_once(':') {
            None if text == "uniform" => Ok(Self::Uniform),
            None if text == "each" => Ok(Self::Each),
            None if text == "hot" => Ok(Self::Hot),
            Some(("zipf", exponent)) => {
                let exponent = exponent.parse().ok();
                let exponent = exponent.filter(|e: &f64| (0.1..=10.0).contains(e));
                exponent.map(Self::Zipf).ok_or_else(help)
            }
            _ => Err(help()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Rng, Spread};

    fn drawn(spread: Spread) -> Vec<u32> {
        let mut rng = Rng::new(7, 1_000, spread);
        (0..20_000).map(|_| rng.key()).collect()
    }

    #[test]
    fn keys_are_spread_as_they_are_told() {
        let of_first = |keys: &[u32]| keys.iter().filter(|key| **key == 0).count();
        let uniform = drawn(Spread::Uniform);
        assert!(
            (5..60).contains(&of_first(&uniform)),
            "{}",
            of_first(&uniform)
        );
        let zipf = drawn("zipf:1.1".parse().unwrap());
        assert!(
            (2_000..6_000).contains(&of_first(&zipf)),
            "{}",
            of_first(&zipf)
        );
        assert!(uniform.iter().chain(&zipf).all(|key| *key < 1_000));
        assert_eq!(of_first(&drawn(Spread::Hot)), 20_000);
        assert_eq!(drawn(Spread::Each)[998..1_002], [998, 999, 0, 1]);
        assert_eq!(uniform, drawn(Spread::Uniform));
        assert!("zipf:0".parse::<Spread>().is_err() && "even".parse::<Spread>().is_err());
    }
}
