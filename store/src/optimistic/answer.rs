//! A reply by the caller's clock.

use tidegate_core::{Timestamp, Verdict};

use crate::error::StoreError;
use crate::optimistic::owned_key_command::moved;
use crate::reply::{Answer, Decision, Reply};

/// What was answered at `now` by the deciding clock, for a caller whose own stood
/// at `asked`: he waits as long, whatever his clock says. When a lease was granted stays
/// as it was noted: it is the same for all who ask.
pub fn by_the_callers_clock(answer: &mut Answer, now: Timestamp, asked: Timestamp) {
    let translate = |at: Timestamp| moved(at, now, asked);
    match answer {
        Ok(Reply::Decision(decision)) => translated(decision, translate),
        Ok(Reply::Partial(partial)) => {
            partial.good_until = translate(partial.good_until);
            translated(&mut partial.decision, translate);
        }
        Err(StoreError::LeaseEnded(at)) => *at = translate(*at),
        _ => {}
    }
}

fn translated(decision: &mut Decision, translate: impl Fn(Timestamp) -> Timestamp) {
    if let Verdict::NotUntil(at) = &mut decision.verdict {
        *at = translate(*at);
    }
    decision.refund_at = decision.refund_at.map(&translate);
    if let Some(lease) = &mut decision.lease {
        lease.expires_at = translate(lease.expires_at);
    }
    for standing in decision.standings.iter_mut().flatten() {
        standing.replenish_at = standing.replenish_at.map(&translate);
        standing.full_at = standing.full_at.map(&translate);
    }
}
