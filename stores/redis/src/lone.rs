//! The plainest takes, of one bucket without levels: a script of their own
//! (`lua/lone.lua`), since a server defines anew for every call what a script has.

use std::sync::Arc;

use tidegate_contract::core::{Amount, Payment, Rule};
use tidegate_contract::{Command, Detail, Plan, Verb};

/// Below this, everything that is computed of a bucket fits a double.
const PLAIN: u128 = 1 << 52;

/// A bucket as the script is told of it: its edition's number, drain, weight,
/// brim, capacity.
#[derive(Debug)]
pub(crate) struct Lone {
    edition: Arc<[u8]>,
    numbers: [Arc<[u8]>; 4],
}

/// A take that the script may do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Take {
    amount: Amount,
    detail: Detail,
}

impl Lone {
    /// `None` for a plan that is more than one plain bucket.
    pub(crate) fn of(plan: &Plan, edition: i64) -> Option<Self> {
        let [limit] = plan.limits() else { return None };
        let Rule::Bucket(bucket) = &limit.rule else {
            return None;
        };
        let plain = limit.payment == Payment::Prepaid && !limit.shadow && !limit.refund_on_expiry;
        let (drain, weight) = (bucket.drain(), bucket.weight());
        let most = bucket.brim() + u128::from(weight);
        if !plain || plan.levels() > 1 || most.max(u128::from(drain)) >= PLAIN {
            return None;
        }
        let capacity = limit.rule.capacity();
        Some(Self {
            edition: text(edition),
            numbers: [
                text(drain),
                text(weight),
                text(bucket.brim()),
                text(capacity),
            ],
        })
    }

    /// What the script is told of `take`, made at `now`, if the caller's clock
    /// decides.
    pub(crate) fn arguments(&self, take: Take, now: Option<i64>) -> [Arc<[u8]>; 8] {
        let [drain, weight, brim, capacity] = self.numbers.clone();
        let detail = match take.detail {
            Detail::Verdict => 0,
            Detail::OnRefusal => 1,
            Detail::Always => 2,
        };
        [
            Arc::clone(&self.edition),
            now.map_or_else(|| Arc::from([]), text),
            text(take.amount),
            drain,
            weight,
            brim,
            capacity,
            text(detail),
        ]
    }
}

impl Take {
    pub(crate) fn of(command: &Command<'_>) -> Option<Self> {
        match command.verb {
            Verb::Take {
                amounts: &[amount],
                lease: None,
                detail,
            } if amount > 0 => Some(Self { amount, detail }),
            _ => None,
        }
    }
}

fn text(number: impl ToString) -> Arc<[u8]> {
    number.to_string().into_bytes().into()
}
