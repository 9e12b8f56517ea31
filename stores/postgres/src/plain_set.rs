//! Takes, leases and their ends, of a set of plain buckets and slots without levels:
//! functions of their own (`sql/plain.sql`), which answer as
//! `tidegate.decide` does.

use tidegate_store::PlanLimit;
use tidegate_store::StoreError;
use tidegate_store::core::Rule;

use crate::connection::Argument;
use crate::inner::Calls;
use crate::request::{END, LEASE, Request, TAKE};

const TAKE_SET: &str = "SELECT tidegate.take_set($1, $2, $3, $4, $5, $6, $7, $8,
    $9::text::numeric, $10, $11)";

const TAKE_SET_IN_TURN: &str = "SELECT tidegate.take_set($1, $2, $3, $4, $5, $6, $7, $8,
    $9::text::numeric, $10, $11, $12::text::numeric, $13, $14, $15)";

const END_SET: &str = "SELECT tidegate.end_set($1, $2, $3, $4, $5, $6, $7::text::numeric,
    $8::text::numeric, $9, $10, $11)";

/// All numbers of a limit are below it, so that the functions compute with 64 bits.
const BOUND: u128 = 1 << 61;

/// What the functions are told of the limits: six numbers of each.
#[derive(Clone, Debug)]
pub(crate) struct PlainSet(Vec<i64>);

impl PlainSet {
    /// The limits that `request` is about; `None` if any is more than that, or it is no
    /// take and no end of a lease.
    pub(crate) fn of(request: &Request) -> Option<Self> {
        let limits = request.plan.limits();
        let is_common = request.rules.is_none() && request.plan.levels() <= 1;
        if !is_common || !request.is_indexed() {
            return None;
        }
        let fits = |(limit, &amount): (&PlanLimit, &i64)| {
            let capacity = limit.rule.capacity();
            u64::try_from(amount).is_ok_and(|amount| amount <= capacity)
        };
        let is_asked = match request.verb {
            TAKE | LEASE => {
                let amounts = &request.amounts;
                amounts.len() == limits.len() && limits.iter().zip(amounts).all(fits)
            }
            END => true,
            _ => false,
        };
        if !is_asked {
            return None;
        }
        let numbers: Option<Vec<_>> = limits.iter().map(numbers).collect();
        Some(Self(numbers?.concat()))
    }
}

/// Kind, uid and capacity; of a bucket drain, weight and brim. `None` for what is neither
/// a plain bucket nor plain slots.
fn numbers(limit: &PlanLimit) -> Option<[i64; 6]> {
    let (kind, [drain, weight, brim]) = match &limit.rule {
        Rule::Bucket(bucket) => {
            let numbers = [bucket.drain().into(), bucket.weight().into(), bucket.brim()];
            (1, numbers)
        }
        Rule::Slots(_) => (5, [0; 3]),
        _ => return None,
    };
    let capacity = u128::from(limit.rule.capacity());
    let numbers = [kind, limit.uid.into(), capacity, drain, weight, brim];
    let fits = limit.is_simple() && numbers.iter().all(|&number| number < BOUND);
    fits.then(|| numbers.map(|number| number as i64))
}

impl Calls {
    pub(crate) async fn take_set(
        &self,
        revision: i64,
        request: &Request,
        set: &PlainSet,
        turn: Option<[Argument<'_>; 4]>,
    ) -> Result<String, StoreError> {
        let now = request.now.as_micros();
        let arguments: [Argument<'_>; 11] = [
            &self.tab,
            &revision,
            &now,
            &self.is_callers(),
            &request.key,
            &set.0,
            &request.amounts,
            &request.detail,
            &request.id,
            &request.until,
            &request.ask,
        ];
        match turn {
            None => self.answer(TAKE_SET, &arguments).await,
            Some(turn) => {
                let arguments = [&arguments[..], &turn[..]].concat();
                self.answer(TAKE_SET_IN_TURN, &arguments).await
            }
        }
    }

    pub(crate) async fn end_set(
        &self,
        revision: i64,
        request: &Request,
        set: &PlainSet,
    ) -> Result<String, StoreError> {
        let now = request.now.as_micros();
        let keep = request.plan.keep().as_micros().to_string();
        let arguments: [Argument<'_>; 11] = [
            &self.tab,
            &revision,
            &now,
            &self.is_callers(),
            &request.key,
            &set.0,
            &keep,
            &request.id,
            &request.ending,
            &request.used,
            &request.remember,
        ];
        self.answer(END_SET, &arguments).await
    }
}
