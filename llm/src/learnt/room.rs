//! Whether a provider has room for a call, by its newest answer and by what was sent since.
//!
//! A bucket that was filled under a higher limit drains at the pace of the lower one: for longer than
//! the period after which a limit set counts a call no more. So once a limit has changed, a set may
//! grant what the provider has no room for yet. Such a call waits until a bucket has room for it that
//! held, when the answered call was sent, what the newest answer counted, and was sent since then
//! what the provider was. A provider that counts by windows forgets at the reset that it told.
//!
//! A call that waits is counted later by the provider than by the set, which counts it for up to two
//! periods. So this holds on until for two periods no call has had to wait.

use std::collections::VecDeque;

use tidegate_core::{Amount, MAX_AMOUNT, Span, Timestamp};

use super::seen::Seen;

/// Of what was sent, so many parts may be a part more than was estimated.
const MARGIN: Amount = 16;

/// A reset that is further away than so many periods is none of the limit's.
const FARTHEST: u64 = 16;

/// So many calls are kept apart that were sent after the one that was answered. Of more the oldest
/// two count as one, sent with the later: the provider has drained no less by then.
const MOST: usize = 256;

/// The sending of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sent {
    /// By its store's clock.
    pub(super) at: Timestamp,
    /// Which it is, of all that this gateway has sent.
    nth: u64,
    amount: Amount,
}

/// What the newest answer told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Told {
    /// The call that was answered.
    call: Sent,
    /// The limit then.
    limit: Amount,
    /// What was counted when the call was.
    counted: Amount,
    /// Nothing of that is counted any more from then on.
    reset_at: Option<Timestamp>,
}

impl Told {
    /// When a bucket is empty that held as much then.
    fn empty_at(&self, bucket: Bucket) -> Timestamp {
        bucket.drains(self.call.at, self.counted)
    }
}

/// A bucket that drains all the time.
#[derive(Clone, Copy)]
struct Bucket {
    limit: Amount,
    period: Span,
}

impl Bucket {
    /// When so much has drained that begins to then.
    fn drains(self, from: Timestamp, amount: Amount) -> Timestamp {
        let micros = u128::from(amount) * u128::from(self.period.as_micros());
        from.after_micros(micros.div_ceil(u128::from(self.limit.max(1))))
    }
}

/// What is known of a provider's room.
#[derive(Clone, Debug, Default)]
pub(super) struct Room {
    /// How many calls were sent ever.
    sent: u64,
    told: Option<Told>,
    /// What was sent after that call, the oldest first.
    since: VecDeque<Sent>,
    /// Whether something was told since that tells of more than the set counts.
    is_doubted: bool,
    /// From then on the set alone decides.
    until: Timestamp,
}

impl Room {
    /// A set may grant what the provider has no room for: the limit is another, or a call was refused.
    pub(super) const fn doubt(&mut self) {
        self.is_doubted = true;
    }

    /// A call of `amount` is sent at `now`.
    pub(super) fn sends(&mut self, amount: Amount, now: Timestamp) -> Sent {
        self.sent += 1;
        let sent = Sent {
            at: now,
            nth: self.sent,
            amount,
        };
        if self.since.len() == MOST
            && let Some(oldest) = self.since.pop_front()
            && let Some(next) = self.since.front_mut()
        {
            next.amount = next.amount.saturating_add(oldest.amount).min(MAX_AMOUNT);
        }
        self.since.push_back(sent);
        sent
    }

    /// An answer to a call tells what is left, if no call was answered that was sent later.
    pub(super) fn answered(&mut self, (limit, period): (Amount, Span), call: Sent, seen: &Seen) {
        let is_new = self.told.is_none_or(|told| told.call.nth < call.nth);
        let Some(remaining) = seen.remaining.filter(|_| is_new) else {
            return;
        };
        let mut counted = limit.saturating_sub(remaining);
        if let Some(reset_at) = seen.reset_at.filter(|_| remaining == 0) {
            // How much more than the limit is counted, its reset alone tells.
            let micros = u128::from(reset_at.since(call.at).as_micros());
            let drained = (micros * u128::from(limit)).div_ceil(period.as_micros().max(1).into());
            let most = u128::from(limit) * u128::from(FARTHEST);
            counted = counted.max(Amount::try_from(drained.min(most)).unwrap_or(MAX_AMOUNT));
        }
        let after = self.since.partition_point(|sent| sent.nth <= call.nth);
        let bucket = Bucket { limit, period };
        // Of an empty bucket, as long as nothing was told.
        let empty_at = self.told.map(|told| told.empty_at(bucket));
        let before = self.since.drain(..after);
        let explained = before.fold(empty_at.unwrap_or(Timestamp::MIN), |empty_at, sent| {
            bucket.drains(empty_at.max(sent.at), sent.amount)
        });
        let told = Told {
            call,
            limit,
            counted,
            reset_at: seen.reset_at,
        };
        // What is left is told in whole units.
        self.is_doubted |= told.empty_at(bucket) > bucket.drains(explained.max(call.at), 2);
        self.told = Some(told);
    }

    /// Until when a call of `amount` waits that would be sent at `now`, if it does.
    pub(super) fn waits(
        &mut self,
        (limit, period): (Amount, Span),
        amount: Amount,
        now: Timestamp,
    ) -> Option<Timestamp> {
        if now >= self.until && !self.is_doubted {
            return None;
        }
        let told = self.told?;
        let bucket = Bucket { limit, period };
        // A bucket that is empty then has room for the call at the instant that is returned.
        let room_at = |empty_at: Timestamp| {
            let filled = self.since.iter().fold(empty_at, |empty_at, sent| {
                bucket.drains(empty_at.max(sent.at), at_most(sent.amount))
            });
            bucket.drains(filled, at_most(amount).min(limit)) - period
        };
        let empty_at = told.empty_at(bucket);
        let mut at = room_at(empty_at);
        // One that counts by windows has forgotten it all by then, and not a part of it before.
        if let Some(reset_at) = told.reset_at.filter(|_| told.limit == limit) {
            at = at.min(room_at(reset_at).max(reset_at));
        }
        if std::mem::take(&mut self.is_doubted) {
            self.until = self.until.max(empty_at.max(now) + period + period);
        }
        if at <= now {
            return None;
        }
        self.until = self.until.max(at + period + period);
        Some(at)
    }
}

/// The most that an amount may be, which was estimated: a call that comes a moment too early is refused.
const fn at_most(amount: Amount) -> Amount {
    amount.saturating_add(amount / MARGIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Span = Span::from_secs(60);

    fn at(seconds: u64) -> Timestamp {
        Timestamp::default() + Span::from_secs(seconds)
    }

    /// A call is sent at the beginning, and answered so.
    fn told(remaining: Amount, reset: Span) -> Room {
        let mut room = Room::default();
        let call = room.sends(1, at(0));
        let seen = Seen {
            limit: Some(600),
            remaining: Some(remaining),
            reset_at: Some(at(0) + reset),
        };
        room.answered((600, MINUTE), call, &seen);
        room
    }

    /// Each of them was counted, though not each was kept.
    #[test]
    fn of_many_calls_since_the_newest_answer_none_is_left_out() {
        let mut room = told(600, Span::ZERO);
        for nth in 0..1_200 {
            room.sends(1, at(nth / 120));
        }
        assert_eq!(room.since.len(), MOST);
        room.doubt();
        // 10 a second drain, and the last of them after 120 s. A sixteenth more is allowed for, and that
        // the oldest were sent with the later ones.
        let until = room.waits((600, MINUTE), 1, at(10)).expect("it waits");
        assert!(at(60) < until && until < at(80), "{until}");
    }

    #[test]
    fn a_reset_that_is_none_of_the_limits_holds_nobody_up_for_longer_than_16_periods() {
        let mut room = told(0, Span::from_secs(86_400 * 365));
        let until = room.waits((600, MINUTE), 600, at(1));
        assert_eq!(until, Some(at(16 * 60)));
    }

    /// What a window counted is forgotten at its reset, and none of it before.
    #[test]
    fn a_call_waits_for_a_reset_that_is_sooner_than_what_drains() {
        let mut room = told(0, Span::from_secs(7));
        assert_eq!(room.waits((600, MINUTE), 500, at(1)), Some(at(7)));
        assert_eq!(room.waits((600, MINUTE), 500, at(7)), None);
    }
}
