//! Leases of a set of slots alone, as semaphores and mutexes are: functions of their own
//! (`migrations/021-lone-slots.sql`), which answer as `tidegate.decide` does.

use tidegate_contract::StoreError;
use tidegate_contract::core::Rule;

use crate::calls::Calls;
use crate::link::Argument;
use crate::request::{END, LEASE, Request};

const LEASE_SLOTS: &str =
    "SELECT tidegate.lease_slots($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::text::numeric, $11)";

const LEASE_SLOTS_IN_TURN: &str = "SELECT tidegate.lease_slots($1, $2, $3, $4, $5, $6, $7, $8,
    $9, $10::text::numeric, $11, $12::text::numeric, $13, $14, $15)";

const END_SLOTS: &str = "SELECT tidegate.end_slots($1, $2, $3, $4, $5, $6, $7::text::numeric,
    $8::text::numeric, $9, $10, $11)";

/// What the functions are told of the limit.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    uid: i64,
    capacity: i64,
    /// How long what has ended is remembered, in microseconds.
    keep: String,
}

impl Slots {
    /// The slots that `request` is all about; `None` if it is about more, or is neither a
    /// lease of some nor its end.
    pub(crate) fn of(request: &Request) -> Option<Self> {
        let [limit] = request.plan.limits() else {
            return None;
        };
        let is_slots = matches!(limit.rule, Rule::Slots(_)) && limit.is_plain();
        let is_common = request.rules.is_none() && request.plan.levels() <= 1;
        if !is_slots || !is_common || !request.is_indexed() {
            return None;
        }
        let capacity = limit.rule.capacity() as i64;
        let is_asked = match (request.verb, &*request.amounts) {
            (LEASE, [amount]) => request.ask.is_none() && (1..=capacity).contains(amount),
            (END, _) => true,
            _ => false,
        };
        is_asked.then(|| Self {
            uid: i64::from(limit.uid),
            capacity,
            keep: request.plan.keep().as_micros().to_string(),
        })
    }
}

impl Calls {
    pub(crate) async fn lease_slots(
        &self,
        edition: i64,
        request: &Request,
        slots: &Slots,
        turn: Option<[Argument<'_>; 4]>,
    ) -> Result<String, StoreError> {
        let now = request.now.as_micros();
        let arguments: [Argument<'_>; 11] = [
            &self.tab,
            &edition,
            &now,
            &self.is_callers(),
            &request.key,
            &slots.uid,
            &slots.capacity,
            &request.amounts[0],
            &request.detail,
            &request.id,
            &request.until,
        ];
        match turn {
            None => self.answer(LEASE_SLOTS, &arguments).await,
            Some(turn) => {
                let arguments = [&arguments[..], &turn[..]].concat();
                self.answer(LEASE_SLOTS_IN_TURN, &arguments).await
            }
        }
    }

    pub(crate) async fn end_slots(
        &self,
        edition: i64,
        request: &Request,
        slots: &Slots,
    ) -> Result<String, StoreError> {
        let now = request.now.as_micros();
        let arguments: [Argument<'_>; 11] = [
            &self.tab,
            &edition,
            &now,
            &self.is_callers(),
            &request.key,
            &slots.uid,
            &slots.keep,
            &request.id,
            &request.ending,
            &request.used,
            &request.remember,
        ];
        self.answer(END_SLOTS, &arguments).await
    }
}
