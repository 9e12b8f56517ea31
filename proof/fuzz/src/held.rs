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
    fences: HashMap<Vec<u8>, u64>,
}

impl Held {
    /// Notes a lease on `weight` slots; the same one again is one lease.
    pub fn grant(&mut self, lease: &Lease, weight: u64) {
        if self.holders.contains_key(&lease.id()) {
            return;
        }
        let key = lease.key().to_vec();
        if weight > 0 {
            let last = self.fences.insert(key.clone(), lease.fence());
            assert!(last < Some(lease.fence()), "a fence that does not grow");
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

    /// The key was forgotten: its leases stay, their slots do not.
    pub fn reset(&mut self, key: &[u8]) {
        let held = self.holders.values_mut();
        held.filter(|holder| holder.key == key)
            .for_each(|holder| holder.weight = 0);
    }

    /// What is held of `key` at `now`.
    pub fn sum(&self, key: &[u8], now: Timestamp) -> u64 {
        let held = self.holders.values();
        held.filter(|holder| holder.key == key && holder.expires_at > now)
            .map(|holder| holder.weight)
            .sum()
    }
}
