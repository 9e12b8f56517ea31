//! A request: amounts by limit name, a deadline, a priority.

use std::fmt;
use std::time::Duration;

use tidegate_core::Amount;

use crate::error::RequestError;
use crate::key::MAX_IDEMPOTENCY_KEY;
use crate::limit::{LimitId, NamedAmounts};

/// How long `acquire` waits for a request that says nothing else, of a set, a pool or a
/// leased lock.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(30);

/// What is asked for. Built from a cost, from named amounts, or from nothing:
///
/// ```
/// use tidegate::Request;
/// use std::time::Duration;
///
/// let one_of_each = Request::from(());
/// let four_thousand_tokens = Request::from(4_000);
/// let named = Request::named(&[("tpm", 4_000)]).within(Duration::from_secs(2)).priority(3);
/// # let _ = (one_of_each, four_thousand_tokens, named);
/// ```
///
/// Limits of calls and concurrency that are not named are taken at 1. A rate or budget
/// that is not named is taken at the cost. **Without a cost it is not charged** once any
/// other limit is named; if nothing at all is named, that is an error. Amount 0 leaves a
/// limit out.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Request<'a> {
    pub(crate) cost: Option<Amount>,
    pub(crate) named: NamedAmounts<'a>,
    pub(crate) within: Option<Duration>,
    pub(crate) for_refunds: bool,
    pub(crate) priority: u8,
    pub(crate) idempotency: Option<&'a [u8]>,
    /// Who asks again by it may be another than this caller.
    pub(crate) retried: bool,
    pub(crate) ttl: Option<Duration>,
    pub(crate) standings: bool,
    /// Members of a pool that are not asked.
    pub(crate) passed_over: &'a [&'a str],
}

impl<'a> Request<'a> {
    /// Amounts by limit: by its name, or by what [found it](crate::LimitSet::limit).
    ///
    /// **A rate or budget that is not named is not charged**: add [`cost`](Self::cost) to
    /// charge every one that is not named. Limits of calls and concurrency that are not
    /// named are taken at 1.
    #[must_use]
    pub fn named<N>(named: &'a [(N, Amount)]) -> Self
    where
        &'a [(N, Amount)]: Into<Self>,
    {
        named.into()
    }

    fn of(named: NamedAmounts<'a>) -> Self {
        Self {
            named,
            ..Self::default()
        }
    }

    /// `cost` units of every rate and budget that is not named.
    #[must_use]
    pub fn cost(mut self, cost: Amount) -> Self {
        self.cost = Some(cost);
        self
    }

    /// Wait at most this long: [`DEFAULT_WAIT`] if not said, for ever with
    /// [`Duration::MAX`]. (`try_acquire` and `check` never wait.) A request that its rates and
    /// budgets cannot admit in that time is refused at once, unless it [waits for
    /// refunds](Self::wait_for_refunds).
    #[must_use]
    pub fn within(mut self, longest_wait: Duration) -> Self {
        self.within = Some(longest_wait);
        self
    }

    /// Wait also where the rates and budgets cannot admit it in time by themselves: a lease
    /// that is settled for less than it took, or cancelled, may give back enough.
    #[must_use]
    pub fn wait_for_refunds(mut self) -> Self {
        self.for_refunds = true;
        self
    }

    /// How urgent it is: each step counts as having come a second earlier, so
    /// that the urgent go first and nobody starves. 0 if not said.
    #[must_use]
    pub fn priority(mut self, priority: u8) -> Self {
        self.priority = priority;
        self
    }

    /// The same bytes on the same key again give the same lease for as long as it
    /// is held, whoever waits: nothing more is taken, and the answer says that it is
    /// repeated. Once the lease was settled, released or cancelled, or has expired,
    /// they ask anew. 1 to [`MAX_IDEMPOTENCY_KEY`] bytes; hash a longer key. Any other
    /// length is [`RequestError::IdempotencyKey`].
    ///
    /// A lease whose caller goes away before it is told of it stays held until it
    /// expires, for the retry to find.
    #[must_use]
    pub fn idempotency(mut self, key: &'a [u8]) -> Self {
        self.idempotency = Some(key);
        self.retried = true;
        self
    }

    /// An idempotency key that nobody but this caller knows: when it goes away, nobody
    /// asks again, and nothing stays for a retry.
    pub(crate) fn own_word(mut self, word: &'a [u8]) -> Self {
        self.idempotency = Some(word);
        self
    }

    /// That what is remembered of it is bounded.
    ///
    /// # Errors
    /// [`RequestError::IdempotencyKey`].
    pub(crate) fn check_idempotency(&self) -> Result<(), RequestError> {
        match self.idempotency.map(<[u8]>::len) {
            None | Some(1..=MAX_IDEMPOTENCY_KEY) => Ok(()),
            Some(length) => Err(RequestError::IdempotencyKey(length)),
        }
    }

    /// `ttl`, unless it says one itself.
    pub(crate) fn ttl_or(mut self, ttl: Option<Duration>) -> Self {
        self.ttl = self.ttl.or(ttl);
        self
    }

    /// How long it waits at most; `None`: for ever.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let longest = self.within.unwrap_or(DEFAULT_WAIT);
        (longest < Duration::MAX).then_some(longest)
    }

    /// Whether it waits at all.
    pub(crate) fn is_patient(&self) -> bool {
        self.within.is_none_or(|longest| !longest.is_zero())
    }

    /// A lease that is granted says where the limits stand with it:
    /// [`Lease::decision`](crate::Lease::decision). (A refusal does so in any case.)
    #[must_use]
    pub fn standings(mut self) -> Self {
        self.standings = true;
        self
    }

    /// How long the lease lasts unless renewed: 1 ms to 400 days.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }
}

/// Without the idempotency key, by which a lease is found.
impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("cost", &self.cost)
            .field("named", &self.named)
            .field("within", &self.within)
            .field("for_refunds", &self.for_refunds)
            .field("priority", &self.priority)
            .field("idempotency", &self.idempotency.map(|_| ".."))
            .field("ttl", &self.ttl)
            .finish_non_exhaustive()
    }
}

impl From<()> for Request<'_> {
    fn from((): ()) -> Self {
        Self::default()
    }
}

impl From<Amount> for Request<'_> {
    fn from(cost: Amount) -> Self {
        Self::default().cost(cost)
    }
}

impl<'a> From<&'a [(&'a str, Amount)]> for Request<'a> {
    #[inline]
    fn from(named: &'a [(&'a str, Amount)]) -> Self {
        Self::of(NamedAmounts::Named(named))
    }
}

impl<'a> From<&'a [(LimitId, Amount)]> for Request<'a> {
    #[inline]
    fn from(found: &'a [(LimitId, Amount)]) -> Self {
        Self::of(NamedAmounts::Found(found))
    }
}

impl<'a, N, const M: usize> From<&'a [(N, Amount); M]> for Request<'a>
where
    &'a [(N, Amount)]: Into<Self>,
{
    #[inline]
    fn from(named: &'a [(N, Amount); M]) -> Self {
        named.as_slice().into()
    }
}

impl<'a, N> From<&'a Vec<(N, Amount)>> for Request<'a>
where
    &'a [(N, Amount)]: Into<Self>,
{
    #[inline]
    fn from(named: &'a Vec<(N, Amount)>) -> Self {
        named.as_slice().into()
    }
}
