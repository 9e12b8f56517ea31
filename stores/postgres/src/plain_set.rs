//! Takes, leases and their ends, of a set of plain buckets and slots without levels (which
//! is known since its plan was [compiled](crate::compiled)): functions of their own
//! (`sql/plain.sql`), which answer as `tidegate.decide` does.

use tidegate_store::PlanLimit;
use tidegate_store::StoreError;

use crate::compiled::Compiled;
use crate::connection::Argument;
use crate::inner::Calls;
use crate::request::{END, LEASE, Request, TAKE};

const TAKE_SET: &str = "SELECT tidegate.take_set($1, $2, $3, $4, $5, $6, $7, $8,
    $9::text::numeric, $10, $11, p_counted => $12, p_least => $13)";

const TAKE_SET_IN_TURN: &str = "SELECT tidegate.take_set($1, $2, $3, $4, $5, $6, $7, $8,
    $9::text::numeric, $10, $11, $14::text::numeric, $15, $16, $17, $12, $13)";

const END_SET: &str = "SELECT tidegate.end_set($1, $2, $3, $4, $5, $6, $7::text::numeric,
    $8::text::numeric, $9, $10, $11, $12)";

/// Whether those functions decide `request`, if its plan is theirs: a take, or the end of a
/// lease, of a key without limits of its own.
pub(crate) fn is_plain(request: &Request) -> bool {
    let fits = |(limit, &amount): (&PlanLimit, &i64)| {
        let capacity = limit.rule.capacity();
        u64::try_from(amount).is_ok_and(|amount| amount <= capacity)
    };
    let (limits, amounts) = (request.plan.limits(), &request.amounts);
    let is_asked = match request.verb {
        TAKE | LEASE => amounts.len() == limits.len() && limits.iter().zip(amounts).all(fits),
        END => true,
        _ => false,
    };
    is_asked && request.rules.is_none() && request.is_indexed()
}

impl Calls {
    pub(crate) async fn take_set(
        &self,
        plan: &Compiled,
        request: &Request,
        limits: &[i64],
        turn: Option<[Argument<'_>; 4]>,
    ) -> Result<String, StoreError> {
        let now = request.now.as_micros();
        let least = (!request.used.is_empty()).then_some(&request.used);
        let arguments: [Argument<'_>; 13] = [
            &self.tab,
            &plan.revision,
            &now,
            &self.is_callers(),
            &request.key,
            &limits,
            &request.amounts,
            &request.detail,
            &request.id,
            &request.until,
            &request.idempotency,
            &plan.counts_usage,
            &least,
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
        plan: &Compiled,
        request: &Request,
        limits: &[i64],
    ) -> Result<String, StoreError> {
        let now = request.now.as_micros();
        let keep = request.plan.keep().as_micros().to_string();
        let arguments: [Argument<'_>; 12] = [
            &self.tab,
            &plan.revision,
            &now,
            &self.is_callers(),
            &request.key,
            &limits,
            &keep,
            &request.id,
            &request.ending,
            &request.used,
            &request.remember,
            &plan.counts_usage,
        ];
        self.answer(END_SET, &arguments).await
    }
}
