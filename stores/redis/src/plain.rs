//! The plainest takes, of buckets without levels: a script of their own
//! (`lua/plain.lua`), since a server defines anew for every call what a script has.

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_contract::core::{Amount, Payment, Rule};
use tidegate_contract::{Command, Detail, Plan, PlanLimit, Verb};

use crate::wire::pack::Pack;

/// Below this, everything that is computed of a bucket fits a double.
const PLAIN: u128 = 1 << 52;

/// Buckets as the script is told of them.
#[derive(Debug)]
pub(crate) struct Plain {
    edition: i64,
    /// Drain, weight, brim and capacity of each.
    buckets: Box<[[i64; 4]]>,
}

/// A take that the script may do.
#[derive(Clone, Debug)]
pub(crate) struct Take {
    amounts: SmallVec<[Amount; 4]>,
    detail: Detail,
}

impl Plain {
    /// `None` for a plan that is more than plain buckets.
    pub(crate) fn of(plan: &Plan, edition: i64) -> Option<Self> {
        let buckets: Option<Box<_>> = plan.limits().iter().map(numbers).collect();
        let buckets = buckets.filter(|_| plan.levels() <= 1)?;
        Some(Self { edition, buckets })
    }

    /// What the script is told of `take`, made at `now`, if the caller's clock
    /// decides.
    pub(crate) fn argument(&self, take: &Take, now: Option<i64>) -> Arc<[u8]> {
        let mut pack = Pack::default();
        pack.array(3 + 5 * self.buckets.len());
        match now {
            Some(now) => pack.int(now),
            None => pack.bool(false),
        };
        pack.int(match take.detail {
            Detail::Verdict => 0,
            Detail::OnRefusal => 1,
            Detail::Always => 2,
        });
        pack.int(self.edition);
        for (bucket, &amount) in self.buckets.iter().zip(&take.amounts) {
            for &number in bucket {
                pack.int(number);
            }
            pack.amount(amount);
        }
        pack.done().into()
    }
}

/// `None` for what is no plain bucket, or has numbers that are not.
fn numbers(limit: &PlanLimit) -> Option<[i64; 4]> {
    let Rule::Bucket(bucket) = &limit.rule else {
        return None;
    };
    let plain = limit.payment == Payment::Prepaid && !limit.shadow && !limit.refund_on_expiry;
    let (drain, weight, brim) = (bucket.drain(), bucket.weight(), bucket.brim());
    let most = brim + u128::from(weight);
    if !plain || most.max(u128::from(drain)) >= PLAIN {
        return None;
    }
    let capacity = limit.rule.capacity();
    Some([drain as i64, weight as i64, brim as i64, capacity as i64])
}

impl Take {
    pub(crate) fn of(command: &Command<'_>) -> Option<Self> {
        let Verb::Take {
            amounts,
            lease: None,
            detail,
        } = command.verb
        else {
            return None;
        };
        let some = amounts.iter().any(|&amount| amount > 0);
        some.then(|| Self {
            amounts: amounts.into(),
            detail,
        })
    }
}
