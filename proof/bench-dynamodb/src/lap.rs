//! Clients that ask as fast as they are answered, and what that came to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Runtime;

use crate::asks::Asks;

/// Who asks, about how many keys, and for how long; without that, about each key once.
#[derive(Clone, Copy, Debug)]
pub struct Lap {
    clients: u32,
    keys: u32,
    lasts: Option<Duration>,
}

impl Lap {
    /// As it stands in a line of the input.
    pub fn read(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let mut number = || {
            words
                .next()?
                .parse::<u32>()
                .ok()
                .filter(|number| *number > 0)
        };
        let (clients, keys) = (number()?, number()?);
        let lasts = match words.next()? {
            "fill" => None,
            seconds => Some(Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?),
        };
        Some(Self {
            clients,
            keys,
            lasts,
        })
    }

    /// Drives it; answers what it came to, as JSON.
    ///
    /// # Errors
    /// The first ask that failed, or was refused.
    pub fn drive(self, runtime: &Runtime, asks: &Asks) -> Result<String, String> {
        let (begun, spent) = (now(), cpu_us());
        let next = Arc::new(AtomicU32::new(0));
        let clients = (0..self.clients).map(|_| {
            let (asks, next) = (asks.clone(), Arc::clone(&next));
            runtime.spawn(async move {
                let mut took = Vec::new();
                while let Some(key) = self.key(begun, &next) {
                    let asked = now();
                    asks.one(key).await?;
                    took.push((now() - asked).as_secs_f64() * 1e6);
                }
                Ok::<_, String>(took)
            })
        });
        let clients: Vec<_> = clients.collect();
        let mut took = Vec::new();
        for client in clients {
            let told = runtime.block_on(client);
            took.extend(told.map_err(|error| error.to_string())??);
        }
        let (spent, seconds) = (cpu_us() - spent, (now() - begun).as_secs_f64());
        took.sort_by(f64::total_cmp);
        let at = |part: f64| took.get((took.len() as f64 * part) as usize);
        let (Some(p50), Some(p99)) = (at(0.5), at(0.99)) else {
            return Err("nothing was asked".to_owned());
        };
        let decisions = took.len();
        let cpu = spent / decisions as f64;
        Ok(format!(
            "{{\"decisions\": {decisions}, \"seconds\": {seconds}, \"cpu_us\": {cpu}, \
             \"p50_us\": {p50}, \"p99_us\": {p99}}}"
        ))
    }

    /// Which key is asked about next, if any is.
    fn key(self, begun: Instant, next: &AtomicU32) -> Option<u32> {
        match self.lasts {
            Some(lasts) => (now() - begun < lasts).then(|| fastrand::u32(0..self.keys)),
            None => Some(next.fetch_add(1, Ordering::Relaxed)).filter(|key| *key < self.keys),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "it measures")]
fn now() -> Instant {
    Instant::now()
}

/// The CPU time of this process so far, in microseconds.
fn cpu_us() -> f64 {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    spent.tv_sec as f64 * 1e6 + spent.tv_nsec as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lap_is_read_and_what_is_none_is_not() {
        let lap = Lap::read("50 10000 1.5").expect("a lap");
        assert_eq!((lap.clients, lap.keys), (50, 10_000));
        assert_eq!(lap.lasts, Some(Duration::from_millis(1_500)));
        assert_eq!(Lap::read("1 9 fill").expect("a lap").lasts, None);
        for wrong in ["", "1", "1 1", "0 1 1", "1 0 1", "1 1 -1", "1 1 soon"] {
            assert!(Lap::read(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn each_key_is_filled_once() {
        let lap = Lap::read("1 3 fill").expect("a lap");
        let next = AtomicU32::new(0);
        let keys: Vec<_> = std::iter::from_fn(|| lap.key(now(), &next)).collect();
        assert_eq!(keys, [0, 1, 2]);
    }
}
