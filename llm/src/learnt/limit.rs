//! One limit, merged from all that was said of it.

use tidegate_core::{Amount, MAX_AMOUNT, Span, Standing, Timestamp};

use super::charged::Charged;
use super::granted::{Came, Granted, Order, used};
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
}

/// What others have used of the account, and nobody has charged yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elsewhere {
    /// So much.
    pub amount: Amount,
    /// What is charged for others in all, once that is. Whoever finds that much charged
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

    /// A call of `amount` was granted, and this is where the limit stood then.
    #[must_use]
    pub fn granted(&self, order: Order, amount: Amount, standing: &Standing) -> Granted {
        Granted {
            order,
            amount,
            used: used(standing),
            charged: self.charged.at(order.at),
            until: standing.full_at.unwrap_or(order.at),
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
        self.adopt(call.order, seen.limit);
        if !self.is_said {
            self.search(call, came, now);
        }
        let remaining = seen.remaining?;
        let is_old = self.remaining_by.is_some_and(|newest| call.order < newest);
        let is_over = now >= call.until || seen.reset_at.is_some_and(|reset_at| reset_at <= now);
        if is_old {
            return None;
        }
        self.remaining_by = Some(call.order);
        (self.seen.remaining, self.seen.reset_at) = (seen.remaining, seen.reset_at);
        if is_over {
            return None;
        }
        let own = match came {
            Came::Accepted => call.used,
            Came::Refused | Came::Failed => call.used.saturating_sub(call.amount),
        };
        let limit = seen.limit.unwrap_or(self.capacity);
        let more = limit.saturating_sub(remaining).saturating_sub(own);
        let since = self.charged.at(now).saturating_sub(call.charged);
        (more > since).then(|| Elsewhere {
            amount: more - since,
            total: call.charged.saturating_add(more).min(MAX_AMOUNT),
        })
    }

    fn search(&mut self, call: &Granted, came: Came, now: Timestamp) {
        let capacity = match came {
            Came::Accepted => self.search.passed(call, self.capacity, now),
            Came::Refused => self.search.refused(call, self.capacity, now),
            Came::Failed => self.capacity,
        };
        if capacity != self.capacity {
            self.capacity = capacity.min(MAX_AMOUNT);
            self.limit_by = Some(call.order);
        }
    }

    fn adopt(&mut self, order: Order, limit: Option<Amount>) {
        let is_old = self.limit_by.is_some_and(|newest| order < newest);
        let Some(limit) = limit.filter(|limit| *limit > 0 && !is_old) else {
            return;
        };
        self.limit_by = Some(order);
        self.is_said = true;
        self.seen.limit = Some(limit);
        self.capacity = limit.min(MAX_AMOUNT);
    }

    /// What is charged for others in all, by this gateway or by another, stands so at `now`.
    pub fn charged(&mut self, standing: &Standing, now: Timestamp) {
        let until = standing.full_at.unwrap_or(now);
        self.charged.is(used(standing), until, now);
    }

    /// What to tell other gateways; nothing while it is as it was at the start.
    #[must_use]
    pub fn news(&self) -> Option<News> {
        Some(News {
            capacity: self.capacity,
            order: self.limit_by?,
            is_said: self.is_said,
        })
    }

    /// Another gateway has told that. Whether it is newer than what is known here.
    pub fn told(&mut self, news: &News) -> bool {
        let is_newer = self.limit_by.is_none_or(|newest| news.order > newest);
        if is_newer && (1..=MAX_AMOUNT).contains(&news.capacity) {
            (self.capacity, self.limit_by) = (news.capacity, Some(news.order));
            self.is_said |= news.is_said;
        }
        is_newer
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
}
