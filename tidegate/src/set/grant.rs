//! Units that are granted to be spent elsewhere, without asking: by a client of a server, say.

use std::future::Future;
use std::time::Duration;

use tidegate_core::{Amount, Span, Timestamp, Verdict};
use tidegate_store::{
    Decision as Told, Detail, Execution, Partial, Reply, StoreError, Terms, Verb,
};
use tidegate_tier::{Outstanding, Tier, Wish, cannot_lease};

use super::commands::{Answered, Asking};
use super::ending::How;
use super::inner::{Inner, LimitSet};
use super::view::{Amounts, View};
use crate::admission::Admission;
use crate::decision::Decision;
use crate::error::{DecisionError, LeaseError, RequestError};
use crate::key::Key;
use crate::lease::Settlement;
use crate::lease_id::LeaseId;
use crate::limit::Limit;
use crate::pending::Pending;
use crate::request::Request;

/// Units of a key's limits that were granted, together and as a lease, to be spent without
/// asking until it is over. What is not spent goes back with [`LimitSet::return_grant`].
///
/// ```
/// use std::time::Duration;
/// use tidegate::{Admission, LeaseId, Limit, LimitSet};
///
/// let set = LimitSet::new([Limit::calls("rpm", 60, Duration::from_secs(60))])?;
/// let id: LeaseId = "00112233445566778899aabbccddeeff".parse()?;
/// let hold = Duration::from_secs(1);
/// let Admission::Granted(grant) = set.grant("acme", id, &[("rpm", 100)], (), hold).wait()? else {
///     panic!("there are 60");
/// };
/// assert!(grant.amounts().eq([("rpm", 60)]));
/// // ... 40 of them are spent:
/// set.return_grant("acme", id, &[("rpm", 40)]).wait()?;
/// assert_eq!(set.peek("acme", 1).wait()?.remaining("rpm"), Some(20));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "what is not spent is to be returned"]
pub struct Grant {
    id: LeaseId,
    amounts: Vec<(usize, Amount)>,
    granted_at: Timestamp,
    expires_at: Timestamp,
    good_until: Timestamp,
    good_for: Span,
    decision: Decision,
}

impl Grant {
    /// The lease that it is.
    #[must_use]
    pub const fn id(&self) -> LeaseId {
        self.id
    }

    /// How much was granted of each limit that the key has, by name: 0 of one that was not asked
    /// for.
    pub fn amounts(&self) -> impl Iterator<Item = (&str, Amount)> {
        self.limits().map(|(limit, amount)| (limit.name(), amount))
    }

    /// The same, with the limits.
    pub(crate) fn limits(&self) -> impl Iterator<Item = (&Limit, Amount)> {
        let amounts = self.amounts.iter();
        amounts.map(|&(position, amount)| (self.decision.limit_at(position), amount))
    }

    /// When it was granted, by the store's clock.
    #[must_use]
    pub const fn granted_at(&self) -> Timestamp {
        self.granted_at
    }

    /// When its lease expires, by the store's clock.
    #[must_use]
    pub const fn expires_at(&self) -> Timestamp {
        self.expires_at
    }

    /// Until when it is good, by the store's clock: the end of the first of the windows that were
    /// charged, or its hold, whichever comes first.
    #[must_use]
    pub const fn good_until(&self) -> Timestamp {
        self.good_until
    }

    /// For how long that is from before it was asked for. Who counts it by a clock that is not the
    /// store's spends nothing in its last thousandth.
    #[must_use]
    pub const fn good_for(&self) -> Duration {
        self.good_for.as_duration()
    }

    /// That it was admitted, and where every limit stands with it.
    #[must_use]
    pub const fn decision(&self) -> &Decision {
        &self.decision
    }

    fn new(partial: &mut Partial, answered: Answered<'_>, depth: usize) -> Option<Self> {
        let lease = partial.decision.lease?;
        let (now, good_until) = (answered.now, partial.good_until);
        let view = &answered.view;
        let has = |position: &usize| {
            view.plan.limits()[*position].level < depth && !view.is_absent(*position)
        };
        let positions = (0..partial.amounts.len()).filter(has);
        let amounts = positions.map(|position| (position, partial.amounts[position]));
        let amounts = amounts.collect();
        let told = Told::bare(partial.decision.verdict, None);
        let told = std::mem::replace(&mut partial.decision, told);
        Some(Self {
            id: LeaseId(lease.id),
            amounts,
            granted_at: lease.granted_at,
            expires_at: lease.expires_at,
            good_until,
            good_for: good_until.since(now),
            decision: answered.decided(&mut Reply::Decision(told)).ok()?,
        })
    }
}

impl LimitSet {
    /// Grants units of the key's limits to be spent elsewhere without asking: of each as much of
    /// `wished` as is there, and `least` at least (what it does not name: one unit, or nothing of
    /// what is not wished); else nothing. It is held for `hold` at most, from 10 ms to 60 s, and
    /// never beyond the window that it was charged in: [`Grant::good_until`].
    ///
    /// In a set with a [tier](crate::LimitSetBuilder::tier) that takes units in advance, it is a
    /// grant as the tier's own are: held for no longer than those, and of no more than may be
    /// [out](Tier::outstanding). Where as much is out already, the refusal names no limit that
    /// [binds](crate::Decision::binding): a check of the set may be admitted all the same.
    ///
    /// `id` is the caller's choice, at random: a caller that has lost the answer, or whose store
    /// did not [answer](StoreError::Unavailable), [returns](Self::return_grant) it by that. A
    /// grant of an id that there is already fails, and changes nothing.
    ///
    /// # Errors
    /// [`DecisionError`]; nothing was changed, unless the store did not answer.
    /// [`RequestError::CannotGrant`]: a limit of the key holds slots, is adaptive, or gives back
    /// what an expired lease has taken; [`RequestError::Hold`].
    pub fn grant<'k, 'a>(
        &self,
        key: impl Into<Key<'k>>,
        id: LeaseId,
        wished: impl Into<Request<'a>>,
        least: impl Into<Request<'a>>,
        hold: Duration,
    ) -> Pending<impl Future<Output = Result<Admission<Grant>, DecisionError>> + Send> {
        let key = key.into().bytes();
        let (wished, least) = (wished.into(), least.into());
        Pending::new(async move {
            let granted = self.inner().grant_units(key, id, (&wished, &least), hold);
            let granted = granted.await;
            match &granted {
                Ok(Admission::Granted(_)) => self.inner().counters.admitted(),
                Ok(Admission::Refused(refusal)) => self.inner().counters.refused(refusal),
                // It may have been granted all the same: now, or before by the same id.
                Err(_) => {}
            }
            granted
        })
    }

    /// Ends a grant, of which so much was used: nothing of what `used` does not name. The rest
    /// goes back where it was charged; more than was granted becomes debt. A retry gets the first
    /// answer, and changes nothing.
    ///
    /// # Errors
    /// As [`LimitSet::settle`].
    pub fn return_grant<'k, 'u>(
        &self,
        key: impl Into<Key<'k>>,
        id: LeaseId,
        used: impl Into<Request<'u>>,
    ) -> Pending<impl Future<Output = Result<Settlement, LeaseError>> + Send> {
        let (key, used) = (key.into().bytes(), used.into());
        Pending::new(self.inner().end_by_id(key, id.0, How::Return(used)))
    }
}

impl Inner {
    async fn grant_units(
        &self,
        key: &[u8],
        LeaseId(id): LeaseId,
        (wished, least): (&Request<'_>, &Request<'_>),
        hold: Duration,
    ) -> Result<Admission<Grant>, DecisionError> {
        if !Tier::TIMES.contains(&hold) {
            return Err(RequestError::Hold(hold).into());
        }
        let levels = self.view.load().plan.levels();
        let depth = super::commands::path_of(key, levels)?.depth();
        let begin = |view: &View, asking: Asking<'_>| {
            view.check_grantable(depth)?;
            let wished = view.amounts(wished)?;
            asking.check_reach(&wished)?;
            let least = view.least(&wished, least)?;
            let wish = view.wish(wished, least);
            Ok::<Execution, DecisionError>(asking.grant(id, &wish, view.held_for(hold)))
        };
        let read = |mut answered: Answered<'_>| {
            let Some(mut partial) = answered.partial() else {
                answered.name_no_slots();
                return Ok(Admission::Refused(answered.decision()?));
            };
            if let Some(outstanding) = answered.view.outstanding() {
                outstanding.bound(&mut partial);
            }
            let grant = Grant::new(&mut partial, answered, depth);
            Ok(Admission::Granted(grant.ok_or(StoreError::Mismatch)?))
        };
        self.ask(key.into(), None, (begin, read)).await
    }
}

impl Asking<'_> {
    /// Begins a take of what is there, as a lease.
    fn grant(self, id: u128, wish: &Wish, hold: Span) -> Execution {
        let terms = Terms {
            id,
            expires_at: self.now + hold,
            idempotency: None,
            least: Some(&wish.least),
        };
        self.verb(Verb::Take {
            amounts: &wish.amounts,
            lease: Some(terms),
            detail: Detail::Always,
        })
    }
}

impl Answered<'_> {
    /// Of a refusal since as much is out as may be, no limit of the key binds.
    fn name_no_slots(&mut self) {
        let Some(outstanding) = self.view.outstanding() else {
            return;
        };
        if let Reply::Decision(refusal) = &mut *self.reply
            && matches!(refusal.verdict, Verdict::NotUntil(_))
            && outstanding.is_full(refusal)
        {
            refusal.binding = None;
        }
    }
}

impl View {
    /// What bounds how much may be out, where that is bounded.
    fn outstanding(&self) -> Option<Outstanding> {
        self.tier().map(|_| Outstanding::of(&self.plan))
    }

    /// For how long a grant is held whose caller would like `hold`: no longer than its tier's.
    fn held_for(&self, hold: Duration) -> Span {
        let longest = self.tier().map_or(hold, Tier::longest_hold);
        hold.min(longest).into()
    }

    /// What is asked for: no more than may be out, with the slots that say so.
    fn wish(&self, wished: Amounts, least: Amounts) -> Wish {
        let mut wish = Wish {
            amounts: wished.into_iter().collect(),
            least: least.into_iter().collect(),
        };
        if let (Some(tier), Some(outstanding)) = (self.tier(), self.outstanding()) {
            let limits = self.limits.iter().zip(&wish.least);
            for (amount, (limit, &least)) in wish.amounts.iter_mut().zip(limits) {
                let most = tier.outstanding_for(limit.name()).unwrap_or(*amount);
                *amount = (*amount).min(most.max(least));
            }
            outstanding.put_into(&mut wish);
        }
        wish
    }

    /// Checks that units can be granted of all limits of a key of so many levels.
    ///
    /// # Errors
    /// [`RequestError::CannotGrant`].
    fn check_grantable(&self, depth: usize) -> Result<(), RequestError> {
        let limits = self.plan.limits().iter().enumerate();
        let mut limits = limits
            .filter(|(position, limit)| limit.level < depth && !self.is_absent(*position))
            .filter_map(|(_, limit)| Some((limit, cannot_lease(limit)?)));
        match limits.next() {
            Some((limit, why)) => Err(RequestError::CannotGrant {
                limit: limit.name.to_string(),
                why,
            }),
            None => Ok(()),
        }
    }

    /// The least of each limit that makes sense, where `wished` is asked for.
    ///
    /// # Errors
    /// [`RequestError::UnknownLimit`], [`RequestError::NamedTwice`].
    fn least(&self, wished: &[Amount], least: &Request<'_>) -> Result<Amounts, RequestError> {
        let mut all: Amounts = wished.iter().map(|&amount| amount.min(1)).collect();
        self.put_named(least.named, &mut all)?;
        let all = all.into_iter().zip(wished);
        Ok(all.map(|(least, &wished)| least.min(wished)).collect())
    }
}
