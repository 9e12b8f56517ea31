//! How many calls hold a reservation, and since when the oldest does.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use metrics::{Gauge, describe_gauge, gauge};
use tidegate::Timestamp;

const HELD: &str = "tidegate_gateway_reserved_calls";
const OLDEST: &str = "tidegate_gateway_oldest_reservation_timestamp_seconds";

/// The reservations that are held now.
#[derive(Clone)]
pub struct Reservations(Arc<Shared>);

struct Shared {
    held: Mutex<Held>,
    many: Gauge,
    oldest: Gauge,
}

/// Each reservation by its number, which grows.
#[derive(Default)]
struct Held {
    next: u64,
    since: BTreeMap<u64, Timestamp>,
}

/// One of them, until it is dropped.
pub struct Reservation {
    all: Reservations,
    number: u64,
}

impl Reservations {
    pub fn new() -> Self {
        describe_gauge!(HELD, "Calls that hold a reservation now");
        describe_gauge!(
            OLDEST,
            "Since when the oldest of them is held (Unix time); 0 if none is"
        );
        let shared = Shared {
            held: Mutex::default(),
            many: gauge!(HELD),
            oldest: gauge!(OLDEST),
        };
        shared.tell(&Held::default());
        Self(Arc::new(shared))
    }

    /// A call holds what it was granted then.
    pub fn begin(&self, granted_at: Timestamp) -> Reservation {
        let mut held = self.0.lock();
        let number = held.next;
        held.next += 1;
        held.since.insert(number, granted_at);
        self.0.tell(&held);
        Reservation {
            all: self.clone(),
            number,
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
    fn tell(&self, held: &Held) {
        self.many.set(held.since.len() as f64);
        let oldest = held.since.first_key_value();
        let since = oldest.map_or(0, |(_, since)| since.as_micros());
        self.oldest.set(since as f64 / 1e6);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let shared = &self.all.0;
        let mut held = shared.lock();
        held.since.remove(&self.number);
        shared.tell(&held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_that_is_held_is_told_in_whatever_order_they_end() {
        let all = Reservations::new();
        let at = Timestamp::from_micros;
        let [one, two, three] = [1, 2, 3].map(|micros| all.begin(at(micros)));
        let since = |one: &Reservation| all.0.lock().since[&one.number];
        let oldest = || {
            all.0
                .lock()
                .since
                .first_key_value()
                .map(|(_, since)| *since)
        };
        assert_eq!(oldest(), Some(since(&one)));
        drop(two);
        assert_eq!(oldest(), Some(since(&one)));
        drop(one);
        assert_eq!(oldest(), Some(since(&three)));
        drop(three);
        assert_eq!(oldest(), None);
    }
}
