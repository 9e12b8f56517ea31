//! Who holds slots, counted by hand beside the set.

use std::collections::HashMap;

use tidegate::{Lease, LeaseId, Timestamp};

/// One lease that holds slots, as long as nothing ends it.
#[derive(Debug)]
struct Holder {
    key: Vec<u8>,
    weight: u64,
    expires_at: Timestamp,
}

/// Every lease that was given, by its id, and the last fence of each key.
#[derive(Debug, Default)]
pub struct Held {
    holders: HashMap<LeaseId, Holder>,
    fences: HashMap<Vec<u8>, Option<u64>>,
}

impl Held {
    /// Notes a lease on `weight` slots; the same one again is one lease, which
    /// may have ended.
    pub fn grant(&mut self, lease: &Lease, weight: u64) {
        if lease.is_repeated() {
            return;
        }
        let key = lease.key().to_vec();
        if weight > 0 {
            let last = self.fences.insert(key.clone(), lease.fence());
            assert!(
                last < Some(lease.fence()) && lease.fence().is_some(),
                "a fence that does not grow"
            );
        }
        let expires_at = lease.expires_at();
        let holder = Holder {
            key,
            weight,
            expires_at,
        };
        self.holders.insert(lease.id(), holder);
    }

    /// Whether a lease of that id was noted and nothing has ended it.
    pub fn knows(&self, id: LeaseId) -> bool {
        self.holders.contains_key(&id)
    }

    /// A guard was dropped, which ends the lease unless it is another's.
    pub fn dropped(&mut self, lease: &Lease) {
        if !lease.is_repeated() {
            self.end(lease.id());
        }
    }

    /// The lease's end.
    pub fn end(&mut self, id: LeaseId) {
        self.holders.remove(&id);
    }

    /// The lease's new expiry.
    pub fn renew(&mut self, id: LeaseId, until: Timestamp) {
        if let Some(holder) = self.holders.get_mut(&id) {
            holder.expires_at = until;
        }
    }

    /// The lease's new weight and fence.
    pub fn adjust(&mut self, id: LeaseId, weight: u64, fence: Option<u64>) {
        if let Some(holder) = self.holders.get_mut(&id) {
            holder.weight = weight;
            let last = self.fences.entry(holder.key.clone()).or_default();
            *last = fence.max(*last);
        }
    }

    /// What is held of `key` at `now`.
    pub fn sum(&self, key: &[u8], now: Timestamp) -> u64 {
        let held = self.holders.values();
        held.filter(|holder| holder.key == key && holder.expires_at > now)
            .map(|holder| holder.weight)
            .sum()
    }
}
