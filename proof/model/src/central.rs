//! The store: the product's decision over a row and leases that can be copied.

use std::sync::Arc;

use tidegate_store::core::{Amount, DecisionTime, Rule, State, Timestamp};
use tidegate_store::decide::{self, Row};
use tidegate_store::ledger::{LeaseStage, Record, Share};
use tidegate_store::{Answer, KeyCommand, KeyPath, LeaseCounts, Ledger, Plan, Verb};

const KEY: &[u8] = b"k";

type Lease = Record<&'static [u8]>;

/// See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct Central {
    row: Row,
    leases: Vec<Lease>,
}

impl Central {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            row: decide::fresh_row(plan, 0),
            leases: Vec::new(),
        }
    }

    /// Decides by the store's clock.
    pub(crate) fn execute(&mut self, plan: &Arc<Plan>, now: Timestamp, verb: Verb<'_>) -> Answer {
        let mut ledger = Ledger::new(Arc::new(LeaseCounts::new(usize::MAX)));
        let mut ids: Vec<u128> = Vec::with_capacity(self.leases.len() + 1);
        for lease in self.leases.drain(..) {
            ids.push(lease.granted.id);
            ledger.restore(lease, KEY);
        }
        if let Verb::Take {
            lease: Some(terms), ..
        } = verb
            && !ids.contains(&terms.id)
        {
            ids.push(terms.id);
        }
        let command = KeyCommand {
            plan,
            key: KeyPath::new(KEY, 1).expect("a key"),
            now,
            calendars: &[],
            verb,
        };
        let answer = decide::apply(
            &command,
            std::slice::from_mut(&mut self.row),
            &mut ledger,
            KEY,
        );
        let kept = ids.into_iter().filter_map(|id| ledger.get(id).cloned());
        self.leases = kept.collect();
        answer
    }

    /// What is due at `now` is done, as a store does it before it decides.
    pub(crate) fn pass(&mut self, plan: &Plan, now: Timestamp) {
        let mut ledger = Ledger::new(Arc::new(LeaseCounts::new(usize::MAX)));
        for lease in &mut self.leases {
            if matches!(lease.stage, LeaseStage::Live) && lease.granted.expires_at <= now {
                let rows = std::slice::from_mut(&mut self.row);
                let again = decide::expire(plan, rows, &mut ledger, lease, now);
                let again = again.unwrap_or(Timestamp::MAX);
                *lease = lease.clone().due(again);
            }
        }
        let limit = &plan.limits()[0];
        limit.rule.observe(&mut self.row[0], &DecisionTime::at(now));
    }

    /// Forgets leases that nobody will end.
    pub(crate) fn keep(&mut self, mut is_wanted: impl FnMut(u128) -> bool) {
        self.leases.retain(|lease| is_wanted(lease.granted.id));
    }

    /// Whether there is such a lease, held or remembered.
    pub(crate) fn has(&self, id: u128) -> bool {
        self.leases.iter().any(|lease| lease.granted.id == id)
    }

    /// What the limit owes: more than was granted by its rule.
    pub(crate) fn debt(&self, plan: &Plan, now: Timestamp) -> Amount {
        let rule = &plan.limits()[0].rule;
        rule.standing(&self.row[0], &DecisionTime::at(now)).debt
    }

    /// What says how the limit goes on, without its leases.
    pub(crate) fn essence(&self, plan: &Plan, now: Timestamp, out: &mut Vec<i64>) {
        out.extend(essence_of(plan, &self.row[0], now));
    }

    /// What comes back when the lease is ended with so much spent, or nothing. Nothing is said
    /// if that is nothing: then it changes no more. (Whether it has expired is no matter: what
    /// these limits take, no expiry gives back.)
    pub(crate) fn essence_of_lease(
        &self,
        plan: &Plan,
        now: Timestamp,
        (id, spent): (u128, Amount),
        out: &mut Vec<i64>,
    ) {
        let Some(lease) = self.leases.iter().find(|lease| lease.granted.id == id) else {
            return;
        };
        let Some(share) = lease.shares.first() else {
            return;
        };
        let before = self.after_return(plan, now, (share, 0));
        let back = share.amount.saturating_sub(spent);
        if self.after_return(plan, now, (share, back)) == before {
            return;
        }
        out.push(back as i64);
        if let Rule::Bucket(bucket) = plan.limits()[0].rule {
            // What drains counts against old leases before it does against younger ones, and
            // so does what they give back.
            let most = bucket.capacity();
            let lives = |share: &&Share| self.after_return(plan, now, (share, most)) != before;
            let others = self.leases.iter().filter_map(|other| other.shares.first());
            let older = others
                .filter(|other| other.reference.as_i64() < share.reference.as_i64())
                .filter(lives);
            out.push(older.count() as i64);
            out.extend(self.after_return(plan, now, (share, most)));
        }
    }

    /// Where the limit stands once so much of a share has come back.
    fn after_return(
        &self,
        plan: &Plan,
        now: Timestamp,
        (share, back): (&Share, Amount),
    ) -> [i64; 4] {
        let mut state = self.row[0].clone();
        let rule = &plan.limits()[0].rule;
        rule.refund(&mut state, back, share.reference, &DecisionTime::at(now));
        essence_of(plan, &state, now)
    }

    /// Whether the end of the lease with so much spent would change something, now or later.
    pub(crate) fn gives_back(
        &self,
        plan: &Plan,
        now: Timestamp,
        (id, spent): (u128, Amount),
    ) -> bool {
        let mut essence = Vec::new();
        self.essence_of_lease(plan, now, (id, spent), &mut essence);
        !essence.is_empty()
    }
}

/// How much there is, and when there is more. That is all of a window, and of a bucket all but its
/// marks of leases: those are in what each would give back.
fn essence_of(plan: &Plan, state: &State, now: Timestamp) -> [i64; 4] {
    let standing = plan.limits()[0]
        .rule
        .standing(state, &DecisionTime::at(now));
    let micros_to = |at: Option<Timestamp>| at.map_or(0, |at| at.since(now).as_micros() as i64);
    [
        standing.remaining as i64,
        standing.debt as i64,
        micros_to(standing.replenish_at),
        micros_to(standing.full_at),
    ]
}
