//! Slots, conserved: what is held and what is free are the capacity, whatever comes of
//! the holders.

use std::sync::Arc;

use tidegate_core::{Amount, Rule, Slots, Span, Timestamp};
use tidegate_store::{Detail, Ending, Reply, Store, StoreError, Verb};

use super::key::Key;
use super::kinds::Kind;
use crate::rng::Rng;

const DEEDS: usize = 50;

/// A lease, kept by hand.
struct Lease {
    id: u128,
    weight: Amount,
    fence: u64,
    until: i64,
    ended: bool,
}

/// Slots at a store, and their leases by hand, whether they are live or long gone.
struct Pair {
    key: Key,
    capacity: Amount,
    leases: Vec<Lease>,
    fence: u64,
}

pub(super) fn held_and_free_are_the_capacity_and_fences_grow(
    store: &Arc<dyn Store>,
    rng: &mut Rng,
) {
    let capacity = rng.between(1, 12);
    let slots = Slots::new(capacity, Span::MILLISECOND).expect("sound slots");
    let mut pair = Pair {
        key: Key::of(store, Kind::of(Rule::Slots(slots))),
        capacity,
        leases: Vec::new(),
        fence: 0,
    };
    for _ in 0..DEEDS {
        pair.key.now += rng.below(300) as i64;
        match rng.below(7) {
            0..3 => pair.take(rng.between(1, capacity), rng.between(1, 1_000) as i64),
            3 => pair.renew(rng),
            4 => pair.adjust(rng),
            _ => pair.end(rng),
        }
        let free = pair.key.standing().remaining;
        assert_eq!(pair.held() + free, capacity, "held and free");
    }
    pair.key.now += 1_000;
    assert_eq!(pair.key.standing().remaining, capacity);
}

impl Pair {
    fn is_live(&self, lease: &Lease) -> bool {
        !lease.ended && lease.until > self.key.now
    }

    fn held(&self) -> Amount {
        let live = self.leases.iter().filter(|lease| self.is_live(lease));
        live.map(|lease| lease.weight).sum()
    }

    fn take(&mut self, weight: Amount, micros: i64) {
        let fits = self.held() + weight <= self.capacity;
        let (_, taken) = self.key.take_all(&[weight], micros);
        assert_eq!(taken.is_some(), fits, "{weight} of what is free");
        if let Some(taken) = taken {
            assert!(taken.fence > self.fence, "{taken:?} after {}", self.fence);
            self.fence = taken.fence;
            self.leases.push(Lease {
                id: taken.id,
                weight,
                fence: taken.fence,
                until: self.key.now + micros,
                ended: false,
            });
        }
    }

    fn renew(&mut self, rng: &mut Rng) {
        let until = self.key.now + rng.between(1, 1_000) as i64;
        let Some(nth) = self.pick(rng) else { return };
        let live = self.is_live(&self.leases[nth]);
        let (id, until_then) = (self.leases[nth].id, Timestamp::from_micros(until));
        let reply = self.key.ask(Verb::Renew {
            id,
            until: until_then,
        });
        match reply {
            Ok(Reply::Done) => {
                assert!(live, "it was over");
                self.leases[nth].until = until;
            }
            Err(StoreError::LeaseEnded(_)) => assert!(!live, "it is live"),
            reply => panic!("{reply:?} to a renewal"),
        }
    }

    /// To another number of slots, or to none.
    fn adjust(&mut self, rng: &mut Rng) {
        let weight = rng.below(self.capacity + 2);
        let Some(nth) = self.pick(rng) else { return };
        let (lease, live) = (&self.leases[nth], self.is_live(&self.leases[nth]));
        let others = self.held() - if live { lease.weight } else { 0 };
        let reply = self.key.ask(Verb::Adjust {
            id: lease.id,
            to: &[Some(weight)],
            overdraw: rng.percent(50),
            detail: Detail::Verdict,
        });
        match reply.and_then(Reply::decision) {
            Ok(decision) => {
                assert!(live, "it was over");
                let fits = weight == lease.weight || others + weight <= self.capacity;
                assert_eq!(
                    decision.verdict.admitted(),
                    fits,
                    "{weight} beside {others}"
                );
                if let Some(granted) = decision.lease {
                    assert!(granted.fence >= lease.fence, "{granted:?}");
                    self.fence = self.fence.max(granted.fence);
                    (self.leases[nth].weight, self.leases[nth].fence) = (weight, granted.fence);
                }
            }
            Err(StoreError::LeaseEnded(_)) => assert!(!live, "it is live"),
            reply => panic!("{reply:?} to an adjustment"),
        }
    }

    /// One that may be long gone.
    fn end(&mut self, rng: &mut Rng) {
        let endings = [Ending::Release, Ending::Cancel, Ending::Settle(&[])];
        let ending = *rng.pick(&endings);
        let Some(nth) = self.pick(rng) else { return };
        let lease = &self.leases[nth];
        let expired = lease.until <= self.key.now;
        match self.key.end(lease.id, ending) {
            Ok(Reply::Settled(settlement)) => {
                assert_eq!(settlement.repeated, lease.ended);
                assert!(lease.ended || settlement.expired == expired);
            }
            reply => panic!("{reply:?} to an end"),
        }
        self.leases[nth].ended = true;
    }

    fn pick(&self, rng: &mut Rng) -> Option<usize> {
        let many = self.leases.len() as u64;
        (many > 0).then(|| rng.below(many) as usize)
    }
}
