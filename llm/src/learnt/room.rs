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

/// A reset that is further away than so many periods is none of the limit's, and for longer nobody
/// waits after a call was sent: nothing would be heard of the provider any more.
const FARTHEST: Amount = 16;

/// So many calls are kept apart that were sent after the one that was answered. Of more the oldest are
/// counted in what the bucket holds, where each is drained from the instant at which it was sent.
const MOST: usize = 256;

/// The sending of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Sent {
    /// By its store's clock.
    pub(super) at: Timestamp,
    /// Which it is, of all that this gateway has sent.
    nth: u64,
    amount: Amount,
    /// The most that was sent until then in all, ever.
    total: u128,
}

/// What a bucket holds at an instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Level {
    at: Timestamp,
    /// In units of the limit, times microseconds of its period.
    held: u128,
}

/// A bucket that drains all the time.
#[derive(Clone, Copy)]
struct Bucket {
    limit: Amount,
    period: Span,
}

impl Bucket {
    fn new((limit, period): (Amount, Span)) -> Self {
        Self {
            limit: limit.max(1),
            period,
        }
    }

    fn of(self, amount: Amount) -> u128 {
        u128::from(amount) * u128::from(self.period.as_micros())
    }

    /// What it held when a call was sent, by its answer; nothing if that does not tell what was left.
    fn told(self, call: Sent, seen: &Seen) -> Option<Level> {
        let remaining = seen.remaining?;
        let mut held = self.of(self.limit.saturating_sub(remaining));
        if let Some(reset_at) = seen.reset_at.filter(|_| remaining == 0) {
            // How much more than the limit is counted, its reset alone tells.
            let micros = u128::from(reset_at.since(call.at).as_micros());
            let drained = micros * u128::from(self.limit);
            held = held.max(drained.min(self.of(self.most())));
        }
        Some(Level { at: call.at, held })
    }

    /// What it holds then, of what it holds.
    fn drained(self, level: Level, at: Timestamp) -> Level {
        let micros = u128::from(at.since(level.at).as_micros());
        Level {
            at: at.max(level.at),
            held: level.held.saturating_sub(micros * u128::from(self.limit)),
        }
    }

    /// With so much more, of which no more is counted than it holds `most`.
    fn filled(self, level: Level, amount: Amount, most: Amount) -> Level {
        let held = level.held.saturating_add(self.of(amount));
        Level {
            held: held.min(self.of(most).max(level.held)),
            ..level
        }
    }

    /// When it is empty.
    fn empty_at(self, level: Level) -> Timestamp {
        level
            .at
            .after_micros(level.held.div_ceil(self.limit.into()))
    }

    /// The most that it is taken to hold.
    const fn most(self) -> Amount {
        self.limit.saturating_mul(FARTHEST)
    }
}

/// The newest answer that told what is left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Told {
    /// To which call it was.
    nth: u64,
    /// The limit then.
    limit: Amount,
    /// Nothing of what the bucket holds is counted any more from then on.
    reset_at: Option<Timestamp>,
}

/// What is known of a provider's room.
#[derive(Clone, Debug, Default)]
pub(super) struct Room {
    /// The newest that was sent ever.
    sent: Sent,
    told: Option<Told>,
    /// What the provider's bucket held once the newest call was sent that this counts: the one that
    /// was answered, or one since that is not kept apart any more.
    level: Level,
    counted: Sent,
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

    /// A call of `amount` is sent at `now`, under that limit.
    pub(super) fn sends(&mut self, limit: (Amount, Span), amount: Amount, now: Timestamp) -> Sent {
        self.sent = Sent {
            at: now,
            nth: self.sent.nth + 1,
            amount,
            total: self.sent.total + u128::from(at_most(amount)),
        };
        if self.since.len() == MOST
            && let Some(oldest) = self.since.pop_front()
        {
            self.counts(Bucket::new(limit), oldest, at_most(oldest.amount));
            // What was forgotten at the reset is not told apart from it any more.
            if let Some(told) = &mut self.told {
                told.reset_at = None;
            }
        }
        self.since.push_back(self.sent);
        self.sent
    }

    /// The bucket held as much more once a call was sent. A provider counts no call that has no room.
    fn counts(&mut self, bucket: Bucket, sent: Sent, amount: Amount) {
        let level = bucket.drained(self.level, sent.at);
        self.level = bucket.filled(level, amount, bucket.limit);
        self.counted = sent;
    }

    /// The provider has not counted that call. One that is not kept apart any more drains.
    pub(super) fn cancelled(&mut self, call: Sent) {
        if let Ok(which) = self.since.binary_search_by_key(&call.nth, |sent| sent.nth) {
            self.since.remove(which);
        }
    }

    /// An answer that came at `now` tells of a call that was sent before the one that told newest. Where it
    /// tells of more, the provider had the later one first; or has forgotten that since.
    fn overtaken(&mut self, bucket: Bucket, level: Level, seen: &Seen, now: Timestamp) {
        if seen.limit.is_some_and(|limit| limit != bucket.limit) {
            return;
        }
        // An answer may come long after its provider said how long it is until then.
        let forgotten_at = seen.reset_at.map(|reset_at| level.at + reset_at.since(now));
        if forgotten_at.is_some_and(|forgotten_at| forgotten_at <= self.level.at) {
            return;
        }
        let level = bucket.drained(level, self.level.at);
        if level.held > self.level.held {
            self.level.held = level.held;
            if let Some(told) = &mut self.told {
                let later = |reset_at: Timestamp| reset_at.max(seen.reset_at.unwrap_or(reset_at));
                told.reset_at = told.reset_at.map(later);
            }
        }
    }

    /// An answer to a call came at `now`, and tells what is left.
    pub(super) fn answered(
        &mut self,
        limit: (Amount, Span),
        call: Sent,
        seen: &Seen,
        now: Timestamp,
    ) {
        let bucket = Bucket::new(limit);
        let Some(level) = bucket.told(call, seen) else {
            return;
        };
        if self.told.is_some_and(|told| told.nth >= call.nth) {
            return self.overtaken(bucket, level, seen, now);
        }
        let mut reset_at = seen.reset_at;
        let after = self.since.partition_point(|sent| sent.nth <= call.nth);
        for _ in 0..after {
            if let Some(sent) = self.since.pop_front() {
                self.counts(bucket, sent, sent.amount);
            }
        }
        let explained = bucket.drained(self.level, call.at);
        let mut told = bucket.drained(level, explained.at);
        if self.counted.nth > call.nth {
            // Of what was sent after it and is not kept apart, nothing has drained for certain.
            let more = self.counted.total - call.total;
            let more = Amount::try_from(more).unwrap_or(MAX_AMOUNT);
            told = bucket.filled(told, more.min(bucket.limit), bucket.limit);
            reset_at = None;
        } else {
            self.counted = call;
        }
        // What is left is told in whole units.
        self.is_doubted |= told.held > explained.held + bucket.of(2);
        self.level = told;
        self.told = Some(Told {
            nth: call.nth,
            limit: bucket.limit,
            reset_at,
        });
    }

    /// Until when a call of `amount` waits that would be sent at `now`, if it does: no later than 16
    /// periods after the newest call was sent.
    pub(super) fn waits(
        &mut self,
        limit: (Amount, Span),
        amount: Amount,
        now: Timestamp,
    ) -> Option<Timestamp> {
        if now >= self.until && !self.is_doubted {
            return None;
        }
        let told = self.told?;
        let bucket = Bucket::new(limit);
        // A bucket that holds as much has room for the call at the instant that is returned.
        let room_at = |level: Level| {
            let level = self.since.iter().fold(level, |level, sent| {
                let level = bucket.drained(level, sent.at);
                bucket.filled(level, at_most(sent.amount), bucket.most())
            });
            let held = level.held + bucket.of(at_most(amount).min(bucket.limit));
            bucket.empty_at(Level { held, ..level }) - bucket.period
        };
        let level = Level {
            held: self.level.held.min(bucket.of(bucket.most())),
            ..self.level
        };
        let mut at = room_at(level);
        // One that counts by windows has forgotten it all by then, and not a part of it before.
        if let Some(reset_at) = told.reset_at.filter(|_| told.limit == bucket.limit) {
            let micros = u128::from(reset_at.since(level.at).as_micros());
            let held = micros * u128::from(bucket.limit);
            at = at.min(room_at(Level { held, ..level }).max(reset_at));
        }
        if std::mem::take(&mut self.is_doubted) {
            let empty_at = bucket.empty_at(level);
            self.until = self
                .until
                .max(empty_at.max(now) + bucket.period + bucket.period);
        }
        if at <= now {
            return None;
        }
        self.until = self.until.max(at + bucket.period + bucket.period);
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
        let call = sends(&mut room, 1, at(0));
        let seen = Seen {
            limit: Some(600),
            remaining: Some(remaining),
            reset_at: Some(at(0) + reset),
        };
        room.answered((600, MINUTE), call, &seen, at(0));
        room
    }

    fn sends(room: &mut Room, amount: Amount, now: Timestamp) -> Sent {
        room.sends((600, MINUTE), amount, now)
    }

    /// Of two calls that are sent at once, the second may reach its provider first: its answer counts the
    /// first no more than the first's counts the second.
    #[test]
    fn of_calls_that_overtake_each_other_the_answer_that_counts_more_is_believed() {
        let (mut room, seen) = (Room::default(), |remaining| Seen {
            limit: Some(600),
            remaining: Some(remaining),
            reset_at: Some(at(60)),
        });
        let first = sends(&mut room, 100, at(0));
        let second = sends(&mut room, 200, at(0));
        room.answered((600, MINUTE), second, &seen(400), at(0));
        room.answered((600, MINUTE), first, &seen(300), at(0));
        room.doubt();
        // 300 are held, and 50 more than the limit has room for drain in 5 s.
        assert_eq!(
            room.waits((600, MINUTE), 300, at(0)),
            Some(at(0) + Span::from_micros(1_800_000))
        );
        // What was told of another limit tells nothing of this one.
        let mut room = Room::default();
        let [older, newer] = [0, 1].map(|second| sends(&mut room, 1, at(second)));
        let of_another = Seen {
            limit: Some(900),
            ..seen(0)
        };
        room.answered((600, MINUTE), newer, &seen(599), at(1));
        room.answered((600, MINUTE), older, &of_another, at(1));
        room.doubt();
        assert_eq!(room.waits((600, MINUTE), 500, at(1)), None);
    }

    /// A provider that counts by windows has begun another since: the next call waited for its end.
    #[test]
    fn what_an_old_answer_tells_of_a_window_that_has_ended_holds_nobody_up() {
        let mut room = Room::default();
        let [older, newer] = [50, 61].map(|second| sends(&mut room, 1, at(second)));
        let seen = |remaining, reset_at| Seen {
            limit: Some(600),
            remaining: Some(remaining),
            reset_at: Some(reset_at),
        };
        room.answered((600, MINUTE), newer, &seen(599, at(120)), at(62));
        // It was 10 s until the reset when the call came, and its answer has taken 15 s.
        room.answered((600, MINUTE), older, &seen(0, at(75)), at(65));
        room.doubt();
        assert_eq!(room.waits((600, MINUTE), 500, at(65)), None);
    }

    /// Each of them was counted, though not each was kept.
    #[test]
    fn of_many_calls_since_the_newest_answer_none_is_left_out() {
        let mut room = told(600, Span::ZERO);
        for nth in 0..650 {
            sends(&mut room, 1, at(nth / 65));
        }
        assert_eq!(room.since.len(), MOST);
        room.doubt();
        // 10 a second drain, and the last of them after 65 s.
        assert_eq!(room.waits((600, MINUTE), 600, at(10)), Some(at(65)));
    }

    /// Whatever was sent long ago has drained, though no answer told so.
    #[test]
    fn what_was_sent_without_an_answer_that_tells_counts_no_longer_than_it_drains() {
        let mut room = told(599, Span::ZERO);
        let mut now = at(0);
        for _ in 0..18_000 {
            now = now + Span::from_millis(200);
            sends(&mut room, 1, now);
        }
        room.doubt();
        assert_eq!(room.waits((600, MINUTE), 1, now), None);
    }

    /// Not even of calls that had no room, a bucket counts more than it holds.
    #[test]
    fn what_was_sent_beyond_the_limit_holds_nobody_up_for_longer_than_a_full_bucket() {
        let mut room = told(600, Span::ZERO);
        for nth in 0..18_000 {
            sends(&mut room, 1, at(nth / 50));
        }
        room.doubt();
        let until = room.waits((600, MINUTE), 600, at(360));
        assert!(until < Some(at(360 + 2 * 60)), "{until:?}");
    }

    #[test]
    fn an_answer_tells_of_calls_that_are_not_kept_apart_any_more() {
        let (mut room, mut calls) = (Room::default(), VecDeque::new());
        let seen = Seen {
            limit: Some(600),
            remaining: Some(600),
            reset_at: None,
        };
        let mut now = at(0);
        for _ in 0..3_000 {
            now = now + Span::from_millis(200);
            calls.push_back(sends(&mut room, 1, now));
            if calls.len() > 300 {
                let call = calls.pop_front().expect("there are some");
                room.answered((600, MINUTE), call, &seen, now);
            }
        }
        assert_eq!(now, at(600));
        room.doubt();
        assert_eq!(room.waits((600, MINUTE), 1, now), None);
    }

    /// What was counted under the limit before takes hours to drain by the new one, and as long as no
    /// call is sent, nothing is heard of the provider.
    #[test]
    fn after_a_fall_that_another_gateway_tells_a_call_waits_no_longer_than_16_periods() {
        let mut room = told(0, MINUTE);
        room.doubt();
        let until = room.waits((1, MINUTE), 1, at(1)).expect("it waits");
        assert!(until <= at(16 * 60), "{until}");
        // Nor for what was sent since.
        let mut room = told(600, Span::ZERO);
        for _ in 0..600 {
            sends(&mut room, 1, at(1));
        }
        room.doubt();
        let until = room.waits((1, MINUTE), 1, at(1)).expect("it waits");
        assert!(until <= at(1 + 16 * 60), "{until}");
        assert_eq!(room.waits((1, MINUTE), 1, until), None);
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
