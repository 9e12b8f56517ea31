//! A plan as the server knows it, compiled when it is told of it.

use std::sync::Arc;

use tidegate_store::core::Rule;
use tidegate_store::{Plan, PlanLimit};

/// All numbers of a limit are below it, so that the functions compute with 64 bits.
const BOUND: u128 = 1 << 61;

/// See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    /// The number of its revision.
    pub(crate) revision: i64,
    /// What the functions of `sql/plain.sql` are told of the limits, six numbers of each;
    /// `None` unless all of them are plain buckets and slots of one level.
    pub(crate) plain: Option<Arc<[i64]>>,
    /// Whether usage is counted.
    pub(crate) counts_usage: bool,
}

impl Compiled {
    pub(crate) fn new(revision: i64, plan: &Plan) -> Self {
        let is_flat = plan.levels() <= 1;
        let limits = plan.limits().iter().filter(|_| is_flat);
        let numbers: Option<Vec<_>> = limits.map(numbers).collect();
        let plain = numbers.filter(|numbers| !numbers.is_empty());
        Self {
            revision,
            plain: plain.map(|numbers| numbers.concat().into()),
            counts_usage: plan.usage().is_some(),
        }
    }
}

/// Kind, uid and capacity; drain, weight and brim. `None` for what is neither a plain
/// bucket nor plain slots.
fn numbers(limit: &PlanLimit) -> Option<[i64; 6]> {
    let capacity = u128::from(limit.rule.capacity());
    let (kind, [drain, weight, brim]) = match &limit.rule {
        Rule::Bucket(bucket) => {
            let numbers = [bucket.drain().into(), bucket.weight().into(), bucket.brim()];
            (1, numbers)
        }
        Rule::Slots(_) => (5, [0, 1, capacity]),
        _ => return None,
    };
    let numbers = [kind, limit.uid.into(), capacity, drain, weight, brim];
    let fits = limit.is_simple() && numbers.iter().all(|&number| number < BOUND);
    fits.then(|| numbers.map(|number| number as i64))
}
