//! One limit, merged from all that was said of it.

use std::cmp::Reverse;

use tidegate_core::{Amount, MAX_AMOUNT, Span, Standing, Timestamp};

use super::charged::Charged;
use super::granted::{Came, Granted, Order, used};
use super::room::Room;
use super::search::Search;
use super::seen::Seen;

/// What a gateway knows of one limit of one account. See the [module](super).
#[derive(Clone, Debug)]
pub struct Learnt {
    capacity: Amount,
    /// Of the newest call whose answer said the limit, here or at another gateway.
    limit_by: Option<Order>,
    /// Of the newest call whose answer said what is left.
    remaining_by: Option<Order>,
    /// The newest that was said.
    seen: Seen,
    /// Whether an answer has ever said a limit: then there is nothing to search.
    is_said: bool,
    search: Search,
    charged: Charged,
    period: Span,
    /// The newest grant of those that were sent.
    sent: Option<Order>,
    room: Room,
}

/// What others have used of the account, and nobody has charged yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elsewhere {
    /// So much.
    pub amount: Amount,
    /// What is charged for others in all, ever, once that is. Whoever finds that much charged
    /// already, by another gateway, charges nothing.
    pub total: Amount,
}

impl Learnt {
    /// A limit of which nothing has been said, over `period`; `start` is what counts until then.
    #[must_use]
    pub fn new(start: Amount, period: Span) -> Self {
        let start = start.clamp(1, MAX_AMOUNT);
        Self {
            capacity: start,
            limit_by: None,
            remaining_by: None,
            seen: Seen::default(),
            is_said: false,
            search: Search::new(start, period),
            charged: Charged::default(),
            period,
            sent: None,
            room: Room::default(),
        }
    }

    /// What the limit set is to grant.
    #[must_use]
    pub const fn capacity(&self) -> Amount {
        self.capacity
    }

    /// The newest that the provider said.
    #[must_use]
    pub const fn seen(&self) -> &Seen {
        &self.seen
    }

    /// The most that it may come to, as far as is known: what the provider says, or the start once it
    /// has not said so for a period; or what is tried at most where it says nothing.
    #[must_use]
    pub fn most(&self) -> Amount {
        match self.is_said {
            true => self.search.start.max(self.capacity),
            false => self.search.most().max(self.capacity),
        }
    }

    /// A call of `amount` was granted, and this is where the limit stood then.
    #[must_use]
    pub fn granted(&self, order: Order, amount: Amount, standing: &Standing) -> Granted {
        Granted {
            order,
            amount,
            capacity: standing.limit,
            used: used(standing),
            charged: self.charged,
            until: standing.full_at.unwrap_or(order.at),
            sent: None,
            is_overtaken: false,
        }
    }

    /// A call that was granted is to be sent at `now`: until when it waits, to be asked again then, since
    /// the provider may count what the limit set does not. Nothing if it does not wait: then it
    /// [is sent](Self::sends), unless another limit holds it up.
    pub fn waits(&mut self, call: &Granted, now: Timestamp) -> Option<Timestamp> {
        let limit = (self.capacity, self.period);
        self.room.waits(limit, call.amount, now)
    }

    /// A call that was granted and does not [wait](Self::waits) is sent at `now`.
    pub fn sends(&mut self, call: &mut Granted, now: Timestamp) {
        let limit = (self.capacity, self.period);
        call.sent = Some(self.room.sends(limit, call.amount, now));
        call.is_overtaken = self.sent > Some(call.order);
        self.sent = self.sent.max(Some(call.order));
    }

    /// A call counts as [sent](Self::sends) no longer: the provider has refused or failed it, or it did
    /// not go there after all. Whoever gives back what it took says so.
    pub fn cancelled(&mut self, call: &Granted) {
        if let Some(sent) = call.sent {
            self.room.cancelled(sent);
        }
    }

    /// The answer to a call came, and said that.
    pub fn answered(
        &mut self,
        call: &Granted,
        seen: Seen,
        came: Came,
        now: Timestamp,
    ) -> Option<Elsewhere> {
        let place = call.place();
        self.adopt(place, seen.limit);
        if !self.is_said {
            self.search(call, came, now);
        }
        if came == Came::Refused {
            self.room.doubt();
        }
        let remaining = seen.remaining?;
        self.tells_room(call, &seen, now);
        if self.remaining_by.is_some_and(|newest| place < newest) {
            return None;
        }
        (self.seen.remaining, self.seen.reset_at) = (seen.remaining, seen.reset_at);
        if call.is_overtaken {
            return None;
        }
        self.remaining_by = Some(place);
        if now >= call.until || seen.reset_at.is_some_and(|reset_at| reset_at <= now) {
            return None;
        }
        let own = match came {
            Came::Accepted | Came::Lost => call.used,
            Came::Refused | Came::Failed => call.used.saturating_sub(call.amount),
        };
        let limit = seen.limit.unwrap_or(self.capacity);
        let more = limit.saturating_sub(remaining).saturating_sub(own);
        let before = call.charged.at(now);
        let since = self.charged.at(now).saturating_sub(before);
        (more > since).then(|| Elsewhere {
            amount: more - since,
            total: before.saturating_add(more).min(MAX_AMOUNT),
        })
    }

    /// What is left is told of the limit as it is now. An old answer tells it, too: its call may have
    /// reached the provider after newer ones.
    fn tells_room(&mut self, call: &Granted, seen: &Seen, now: Timestamp) {
        let is_of_this = Some(call.place()) >= self.limit_by || seen.limit == Some(self.capacity);
        if let Some(sent) = call.sent.filter(|_| self.is_said && is_of_this) {
            let limit = (self.capacity, self.period);
            self.room.answered(limit, sent, seen, now);
        }
    }

    fn goes_by(&mut self, capacity: Amount) {
        if capacity != self.capacity {
            self.room.doubt();
        }
        self.capacity = capacity;
    }

    /// A call was refused at `now` because it wanted more than there is at all, and not more than
    /// it [may come to](Self::most): when it may come to more. Nothing where the provider has said
    /// the limit within a period. What it said before that gives way to the start: where no call is
    /// sent, no answer puts it right.
    pub fn wanted(&mut self, now: Timestamp) -> Option<Timestamp> {
        if self.is_said {
            let is_old = self
                .limit_by
                .is_none_or(|by| now.since(by.at) >= self.period);
            let start = self.search.start.max(self.capacity);
            return is_old.then(|| {
                self.try_next(start, Order { at: now, nth: 0 });
                now
            });
        }
        let capacity = self.search.wanted(self.capacity, now);
        let is_more = capacity > self.capacity;
        self.try_next(capacity, Order { at: now, nth: 0 });
        Some(match is_more {
            true => now,
            false => self.search.next_at(now),
        })
    }

    fn search(&mut self, call: &Granted, came: Came, now: Timestamp) {
        let capacity = match came {
            Came::Accepted => self.search.passed(call, self.capacity, now),
            Came::Refused => self.search.refused(call, self.capacity, now),
            Came::Failed | Came::Lost => self.capacity,
        };
        self.try_next(capacity, call.place());
    }

    /// Whatever was tried before, here or by another gateway, this is newer.
    fn try_next(&mut self, capacity: Amount, order: Order) {
        if capacity != self.capacity {
            self.goes_by(capacity);
            let newest = self
                .limit_by
                .map_or(order, |newest| newest.next().max(order));
            self.limit_by = Some(newest);
        }
    }

    fn adopt(&mut self, order: Order, limit: Option<Amount>) {
        // What was tried gives way, however new.
        let is_old = self.is_said && self.limit_by.is_some_and(|newest| order < newest);
        let Some(limit) = limit.filter(|limit| *limit > 0 && !is_old) else {
            return;
        };
        self.limit_by = Some(order);
        self.is_said = true;
        self.seen.limit = Some(limit);
        self.goes_by(limit.min(MAX_AMOUNT));
    }

    /// What is charged for others in all, by this gateway or by another, stands so.
    pub fn charged(&mut self, standing: &Standing) {
        self.charged = Charged {
            total: used(standing),
            until: standing.full_at.unwrap_or_default(),
        };
    }

    /// What to tell other gateways; nothing while it is as it was at the start.
    #[must_use]
    pub fn news(&self) -> Option<News> {
        Some(News {
            capacity: self.capacity,
            order: self.limit_by?,
            is_said: self.is_said,
            start: self.search.start,
        })
    }

    /// Another gateway has told that. Whether it is newer than what is known here, and about this
    /// limit: what was tried from another start is not.
    pub fn told(&mut self, news: &News) -> bool {
        let is_newer = self.news().is_none_or(|known| news.is_newer_than(&known));
        let is_about = news.is_said || news.start == self.search.start;
        let holds = is_newer && is_about && (1..=MAX_AMOUNT).contains(&news.capacity);
        if holds {
            self.goes_by(news.capacity);
            self.limit_by = Some(news.order);
            self.is_said = news.is_said;
        }
        holds
    }
}

/// What gateways tell each other of a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct News {
    /// What the limit set is to grant.
    pub capacity: Amount,
    /// By the answer to which call.
    pub order: Order,
    /// Whether the provider said it; else it was tried.
    pub is_said: bool,
    /// What was tried first.
    pub start: Amount,
}

impl News {
    /// Whether this holds in place of `other`: what a provider said in place of what was tried, and
    /// of two of a kind the newer; of two that are equally new always the same one, the lower.
    #[must_use]
    pub fn is_newer_than(&self, other: &Self) -> bool {
        let place = |news: &Self| {
            let lower = Reverse((news.capacity, news.start));
            (news.is_said, news.order, lower)
        };
        place(self) > place(other)
    }
}
