//! The leases that a pool's members have outstanding with people elsewhere.
//!
//! A lease that is held here ends where its guard is dropped. One whose id was
//! given away ends by that id, or by expiring, which nobody reports: so it is
//! noted when, and a member's load is right for as long as this process runs.
//! (Leases of an earlier process are found by asking every member.)

use std::collections::{BTreeSet, HashMap};

use tidegate_core::Timestamp;
use tidegate_store::sync::Mutex;

use tidegate::internal::MemberInternals;
use tidegate::{LeaseId, Member, Outcome};

/// How many are noted; a lease beyond is no load.
const MOST: usize = 1 << 20;

/// Which member has given which lease, and until when.
#[derive(Default)]
pub(super) struct Held(Mutex<Book>);

#[derive(Default)]
struct Book {
    by_lease: HashMap<LeaseId, (Member, Timestamp), foldhash::fast::RandomState>,
    by_end: BTreeSet<(Timestamp, LeaseId)>,
}

impl Held {
    /// `member` has given `lease`, which lasts until `until`.
    pub(super) fn begin(&self, lease: LeaseId, member: &Member, until: Timestamp, now: Timestamp) {
        let mut ledger = self.0.lock();
        ledger.expire(now);
        if ledger.by_lease.len() >= MOST {
            drop(ledger);
            member.ended(Outcome::Ignored);
            return;
        }
        ledger.by_lease.insert(lease, (member.clone(), until));
        ledger.by_end.insert((until, lease));
    }

    /// Who gave `lease`.
    pub(super) fn member(&self, lease: LeaseId) -> Option<Member> {
        let ledger = self.0.lock();
        ledger
            .by_lease
            .get(&lease)
            .map(|(member, _)| member.clone())
    }

    /// `lease` lasts until `until`.
    pub(super) fn renew(&self, lease: LeaseId, until: Timestamp) {
        let mut ledger = self.0.lock();
        let Some((member, end)) = ledger.by_lease.get_mut(&lease) else {
            return;
        };
        member.renewed(lease, until);
        let before = std::mem::replace(end, until);
        ledger.by_end.remove(&(before, lease));
        ledger.by_end.insert((until, lease));
    }

    /// `lease` has ended.
    pub(super) fn end(&self, lease: LeaseId, outcome: Outcome) {
        let ended = self.0.lock().take(lease);
        if let Some(member) = ended {
            member.forgets(lease);
            member.ended(outcome);
        }
    }

    /// Takes out what has expired by `now`.
    pub(super) fn expire(&self, now: Timestamp) {
        self.0.lock().expire(now);
    }
}

impl Book {
    fn take(&mut self, lease: LeaseId) -> Option<Member> {
        let (member, until) = self.by_lease.remove(&lease)?;
        self.by_end.remove(&(until, lease));
        Some(member)
    }

    fn expire(&mut self, now: Timestamp) {
        while let Some(&(until, lease)) = self.by_end.first()
            && until <= now
        {
            self.by_end.pop_first();
            if let Some((member, _)) = self.by_lease.remove(&lease) {
                member.ended(Outcome::Ignored);
            }
        }
    }
}
