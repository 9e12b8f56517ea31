//! What a provider still counts after its limit has fallen.
//!
//! A bucket that was filled under a higher limit drains at the pace of the lower one: for longer than
//! the period after which a limit set counts a call no more. So a set may grant what the provider
//! has no room for yet. Such a call waits until, by the newest answer, what has drained makes room
//! for it and for all that was sent since the call that was answered.
//!
//! A call that waits is counted later by the provider than by the set, which counts it for up to two
//! periods. So this holds on until for two periods no call has had to wait.

use tidegate_core::{Amount, Span, Timestamp};

use super::granted::Sent;
use super::seen::Seen;

/// Of what was sent, so many parts may be a part more than was estimated.
const MARGIN: Amount = 16;

/// What is counted after a fall, by the newest answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Fall {
    /// The most that can be counted: the limit before it fell.
    before: Amount,
    /// From then on the set alone decides.
    until: Timestamp,
    /// The call that was answered.
    call: Sent,
    /// What the provider had counted by then.
    counted: Amount,
    /// Nothing of that is counted any more from then on.
    reset_at: Option<Timestamp>,
}

impl Fall {
    /// The limit fell from `before`, and this is the first answer since that tells what is left.
    pub(super) fn new(
        before: Amount,
        (limit, period): (Amount, Span),
        call: Sent,
        seen: &Seen,
    ) -> Self {
        let mut fall = Self {
            before: before.max(limit),
            until: call.at,
            call,
            counted: 0,
            reset_at: None,
        };
        fall.answered((limit, period), call, seen);
        fall.until = call.at + drains(fall.counted, (limit, period)) + period + period;
        fall
    }

    /// The limit before it fell, where that still matters.
    pub(super) fn before_at(&self, at: Timestamp) -> Option<Amount> {
        (at < self.until).then_some(self.before)
    }

    /// An answer tells what is left, if no call was answered that was sent later.
    pub(super) fn answered(&mut self, (limit, period): (Amount, Span), call: Sent, seen: &Seen) {
        let Some(remaining) = seen.remaining.filter(|_| call.since(&self.call).is_some()) else {
            return;
        };
        self.counted = limit.saturating_sub(remaining);
        if let Some(reset_at) = seen.reset_at.filter(|_| remaining == 0) {
            // How much more than the limit is counted, its reset alone tells.
            let drained = u128::from(reset_at.since(call.at).as_micros()) * u128::from(limit);
            let counted = drained.div_ceil(u128::from(period.as_micros().max(1)));
            let counted = Amount::try_from(counted).unwrap_or(Amount::MAX);
            self.counted = counted.min(self.before).max(self.counted);
        }
        (self.call, self.reset_at) = (call, seen.reset_at);
    }

    /// Until when a call waits that would be sent so, if it does.
    pub(super) fn waits(
        &mut self,
        (limit, period): (Amount, Span),
        call: &Sent,
    ) -> Option<Timestamp> {
        if call.at >= self.until {
            return None;
        }
        let since = call.since(&self.call).unwrap_or(0);
        // Amounts are estimated, and a call that comes a moment too early is refused.
        let since_at_most = since.saturating_add(since / MARGIN);
        let over = self.counted.saturating_add(since_at_most);
        let over = over.saturating_sub(limit);
        let mut at = self.call.at + drains(over, (limit, period));
        if let Some(reset_at) = self.reset_at.filter(|_| since <= limit) {
            at = at.min(reset_at);
        }
        if at <= call.at {
            return None;
        }
        self.until = self.until.max(at + period + period);
        Some(at)
    }
}

/// How long so much takes to drain.
fn drains(amount: Amount, (limit, period): (Amount, Span)) -> Span {
    let micros = u128::from(amount) * u128::from(period.as_micros());
    let micros = micros.div_ceil(u128::from(limit.max(1)));
    Span::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}
