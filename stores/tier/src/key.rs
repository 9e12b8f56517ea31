//! A key's grants, and the requests that wait for the next.

use std::collections::VecDeque;
use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_store::core::{Amount, Bounds, Span, Timestamp};
use tidegate_store::sync::atomic::Ordering;
use tidegate_store::{Detail, KeyPath, OwnedPath, Plan, Reply, Responder, StoreError, Wake};

use crate::answers;
use crate::calendars::Calendars;
use crate::counters::{Counters, count};
use crate::grants::{Amounts, Grant, Grants, Wish};
use crate::leases::Leases;
use crate::outstanding::Outstanding;
use crate::queued::Queued;
use crate::returns::Return;
use crate::settings::Tier;
use crate::slot_lease::{given_for, length_for};

/// So often a grant may come too late before the requests that wait for it are told.
const MOST_LATE: u8 = 3;

/// What the store is to be told of grants that are given of no more.
#[derive(Debug, Default)]
pub(crate) struct Closing {
    /// What is ended now.
    pub(crate) ends: Vec<Return>,
    /// How many had something left.
    pub(crate) returned: u64,
    /// Leases that were given of one may be held: the store is told how much that is.
    pub(crate) has_slots: bool,
}

impl Closing {
    /// All that `other` has, too.
    pub(crate) fn extend(&mut self, other: Self) {
        self.ends.extend(other.ends);
        self.returned += other.returned;
        self.has_slots |= other.has_slots;
    }
}

/// A request that waits for a grant.
pub(crate) struct Waiter {
    pub(crate) responder: Responder,
    pub(crate) plan: Arc<Plan>,
    pub(crate) calendars: Box<[Option<Bounds>]>,
    pub(crate) amounts: Amounts,
    pub(crate) detail: Detail,
    /// It takes a lease, that lasts as long.
    pub(crate) ttl: Option<Span>,
    /// How many grants came too late for it.
    pub(crate) late: u8,
}

impl Waiter {
    /// It takes no lease of a grant: the store is to be asked.
    pub(crate) fn goes_to_the_store(self) -> Wake {
        // No take is answered so: the future that waits asks the store then.
        self.responder.answer(Ok(Reply::Done))
    }
}

/// See the [module](self).
pub(crate) struct Key {
    pub(crate) path: OwnedPath,
    pub(crate) plan: Arc<Plan>,
    pub(crate) calendars: Calendars,
    /// What is asked for of each limit, and the most that may be.
    pub(crate) batch: Amounts,
    /// The same for requests that take no slots: none of those.
    without_slots: Amounts,
    pub(crate) most: Amounts,
    /// The limits of which no more than so much may be out.
    pub(crate) outstanding: Outstanding,
    pub(crate) grants: Grants,
    /// The limits that are slots which this node gives out.
    slots: SmallVec<[usize; 1]>,
    pub(crate) leases: Leases,
    /// For how long the last lease was asked for.
    ttl: Span,
    /// Before this instant leases are the store's: it had no slot for this node.
    pub(crate) strict_until: Timestamp,
    /// Requests of this node that wait for slots at the store.
    pub(crate) queued: Queued,
    pub(crate) waiters: VecDeque<Waiter>,
    /// Requests that were admitted by handles, which the [counters](Counters) have not.
    uncounted: u64,
}

impl Key {
    pub(crate) fn new(path: &KeyPath<'_>, plan: &Arc<Plan>, tier: &Tier) -> Self {
        let mut key = Self {
            path: OwnedPath::of(path),
            plan: Arc::clone(plan),
            calendars: Calendars::default(),
            batch: Amounts::new(),
            without_slots: Amounts::new(),
            most: Amounts::new(),
            outstanding: Outstanding::default(),
            grants: Grants::default(),
            slots: SmallVec::new(),
            leases: Leases::default(),
            ttl: Span::ZERO,
            strict_until: Timestamp::MIN,
            queued: Queued::default(),
            waiters: VecDeque::new(),
            uncounted: 0,
        };
        key.measure(tier);
        key
    }

    /// What is asked for, by the limits at hand. A level that the key does not reach has
    /// none of it.
    fn measure(&mut self, tier: &Tier) {
        let path = self.path.lend();
        let own = self.plan.at(&path);
        let plan = own.as_ref().unwrap_or(&self.plan);
        let limits = || {
            plan.limits()
                .iter()
                .filter(|limit| limit.level < path.depth())
        };
        self.batch = limits().map(|limit| tier.batch_for(limit)).collect();
        self.most = limits().map(|limit| tier.most_for(limit)).collect();
        let slots = limits().enumerate();
        let slots = slots.filter(|(_, limit)| tier.leases_slots(limit));
        self.slots = slots.map(|(position, _)| position).collect();
        self.without_slots = self.batch.clone();
        for &position in &self.slots {
            self.without_slots[position] = 0;
        }
        self.outstanding = Outstanding::of(plan);
    }

    /// What to ask for, so that it covers `amounts`; `None` where a grant is on its way.
    pub(crate) fn ask(&mut self, amounts: &[u64]) -> Option<Wish> {
        let waiting = self.waiting();
        // Whoever waits is served of the same grant.
        let takes_slots = self.takes_slots(amounts) || self.takes_slots(&waiting);
        let batch = self.batch_where(takes_slots).clone();
        let of = (&batch[..], &self.most[..]);
        let mut wish = self.grants.ask(amounts, &waiting, of)?;
        self.outstanding.put_into(&mut wish);
        Some(wish)
    }

    /// Whether little is left of what a request like this, which was admitted, takes.
    pub(crate) fn is_low(&self, amounts: &[u64], low_water: u8, now: Timestamp) -> bool {
        let takes_slots = self.takes_slots(amounts);
        let of = (&self.batch_where(takes_slots)[..], takes_slots);
        self.grants.is_low_of(of, low_water, &[], now)
    }

    /// What is asked for: slots only where a request takes some.
    const fn batch_where(&self, takes_slots: bool) -> &Amounts {
        match takes_slots {
            true => &self.batch,
            false => &self.without_slots,
        }
    }

    /// Whether so much takes of slots that this node gives out.
    pub(crate) fn takes_slots(&self, amounts: &[Amount]) -> bool {
        let mut slots = self.slots.iter();
        slots.any(|&position| amounts.get(position).is_some_and(|&amount| amount > 0))
    }

    /// These are given of no more. It is to be called under the lock under which they were taken:
    /// what is released in between would find neither a grant nor a lease to come back to.
    pub(crate) fn close(&mut self, grants: impl IntoIterator<Item = Grant>) -> Closing {
        let mut closing = Closing::default();
        for grant in grants {
            closing.returned += u64::from(!grant.units.is_spent());
            closing.has_slots |= grant.has_slots;
            let of = (&self.path, &self.calendars);
            closing.ends.extend(self.leases.close(&grant, of));
        }
        closing
    }

    /// For how long a grant of so much is to be held at the store, and for how long it is spent,
    /// which is no longer than `hold`. Leases of its slots end while it is held: so what it is held
    /// for goes by their length alone, and a killed node's are back by that.
    pub(crate) fn lengths_for(&self, wish: &Wish, hold: Span) -> (Span, Span) {
        if !self.takes_slots(&wish.amounts) {
            return (hold, hold);
        }
        let waiting = self.waiters.iter().filter_map(|waiter| waiter.ttl);
        let longest = waiting.fold(self.ttl, Span::max);
        (length_for(longest), hold.min(given_for(longest)))
    }

    /// Whether leases are given by this node now: none of its requests waits at the store, which
    /// has had slots for it lately.
    pub(crate) fn gives_leases(&self, now: Timestamp) -> bool {
        now >= self.strict_until && self.queued.is_none() && self.leases.has_room()
    }

    /// Leases that have expired give their slots back.
    pub(crate) fn expire(&mut self, now: Timestamp) {
        for back in self.leases.expire(now) {
            self.grants.refund(back.grant, &back.amounts);
        }
    }

    /// Gives a lease, if a grant covers it; counted.
    pub(crate) fn lend(
        &mut self,
        amounts: &[Amount],
        detail: Detail,
        (now, ttl): (Timestamp, Span),
        counters: &Counters,
    ) -> Option<Reply> {
        let until = now + ttl;
        self.ttl = ttl;
        self.expire(now);
        if !self.leases.has_room() {
            return None;
        }
        let grant = self.grants.lend(amounts, until, now)?;
        let granted = self.leases.give(grant, amounts, (now, until));
        count(&counters.admitted);
        let detail = if detail == Detail::Verdict {
            Detail::OnRefusal
        } else {
            detail
        };
        let mut reply = answers::admitted(grant, detail);
        if let Reply::Decision(decision) = &mut reply {
            decision.lease = Some(granted);
        }
        Some(reply)
    }

    /// Whether `grant` has fewer slots of some limit than a batch: the store has no more.
    pub(crate) fn has_fewer_slots(&self, grant: &Grant) -> bool {
        let mut slots = self.slots.iter();
        slots.any(|&position| {
            let granted = grant.units.granted().get(position).copied().unwrap_or(0);
            granted > 0 && granted < self.batch[position]
        })
    }

    /// Those who wait for a lease, and are to ask the store.
    pub(crate) fn take_those_for_leases(&mut self) -> Vec<Waiter> {
        let all = std::mem::take(&mut self.waiters);
        let (leases, rest): (VecDeque<_>, _) = all.into_iter().partition(|one| one.ttl.is_some());
        self.waiters = rest;
        leases.into()
    }

    /// Whether a request for so much can be covered by a grant: something, and no more than a
    /// batch.
    #[inline]
    pub(crate) fn fits(&self, amounts: &[u64]) -> bool {
        let (mut takes, mut fits) = (false, true);
        for (&amount, &batch) in amounts.iter().zip(&self.batch) {
            takes |= amount > 0;
            fits &= amount <= batch;
        }
        takes && fits
    }

    /// The amounts of the levels that the key reaches.
    pub(crate) fn reached<'a>(&self, amounts: &'a [u64]) -> &'a [u64] {
        &amounts[..amounts.len().min(self.batch.len())]
    }

    /// Goes by `plan` from here on; answers what is to be told of grants by other limits. A refusal holds for the limits that refused alone.
    ///
    /// # Errors
    /// [`StoreError::StalePlan`]: it goes by a newer one already.
    pub(crate) fn follow(
        &mut self,
        plan: &Arc<Plan>,
        tier: &Tier,
    ) -> Result<Option<Closing>, StoreError> {
        if plan.version() == self.plan.version() {
            return Ok(None);
        }
        if plan.version() < self.plan.version() {
            return Err(StoreError::StalePlan);
        }
        let old = std::mem::replace(&mut self.plan, Arc::clone(plan));
        self.grants.forget_refusal();
        self.strict_until = Timestamp::MIN;
        self.measure(tier);
        Ok(match self.is_alike(&old) {
            true => None,
            false => {
                self.grants.forget_use();
                let old = self.grants.take_all();
                (!old.is_empty()).then(|| self.close(old))
            }
        })
    }

    /// Whether `old` has the same limits for this key.
    pub(crate) fn is_alike(&self, old: &Plan) -> bool {
        let of_rows = |row: std::borrow::Cow<'_, [u8]>| {
            self.plan.of_row(&row).limits() == old.of_row(&row).limits()
        };
        self.plan.has_limits_of(old) && self.path.lend().rows().all(of_rows)
    }

    /// Answers those who can be answered now: by the grants that are there, or by the refusal
    /// that is remembered. The others wait for the next grant. The one that came may be
    /// `is_late`; or it `is_granted`, and then is of no use to the first if that waits still.
    pub(crate) fn serve(
        &mut self,
        now: Timestamp,
        (is_granted, is_late): (bool, bool),
        counters: &Counters,
        wakes: &mut Vec<Wake>,
    ) {
        for mut waiter in std::mem::take(&mut self.waiters) {
            if waiter.responder.is_gone() {
                continue;
            }
            if waiter.plan.version() != self.plan.version() {
                wakes.push(waiter.responder.answer(Err(StoreError::StalePlan)));
            } else if let Some(reply) = self.serve_one(&waiter, now, counters) {
                wakes.push(waiter.responder.answer(Ok(reply)));
            } else {
                let is_first = self.waiters.is_empty();
                waiter.late += u8::from(is_late || (is_granted && is_first));
                match waiter.late < MOST_LATE {
                    true => self.waiters.push_back(waiter),
                    false if waiter.ttl.is_some() => wakes.push(waiter.goes_to_the_store()),
                    false => wakes.push(waiter.responder.answer(Err(too_late()))),
                }
            }
        }
    }

    fn serve_one(&mut self, one: &Waiter, now: Timestamp, counters: &Counters) -> Option<Reply> {
        match one.ttl {
            Some(ttl) => self.lend(&one.amounts, one.detail, (now, ttl), counters),
            None => self.decide(&one.amounts, one.detail, now, counters),
        }
    }

    /// Decides by what is here, if that is enough; counted.
    pub(crate) fn decide(
        &mut self,
        amounts: &[u64],
        detail: Detail,
        now: Timestamp,
        counters: &Counters,
    ) -> Option<Reply> {
        if let Some(grant) = self.grants.admit(amounts, now) {
            count(&counters.admitted);
            return Some(answers::admitted(grant, detail));
        }
        let refusal = self.grants.refusal(amounts, now)?;
        count(&counters.refused);
        Some(answers::refused(refusal, detail))
    }

    /// Spends `amounts` if a grant covers them, and if that is all there is to do: the limits are
    /// those of the plan `version`, and no further grant is to be asked for. Which grant.
    #[inline(always)]
    pub(crate) fn spend(
        &mut self,
        version: u64,
        amounts: &[Amount],
        low_water: u8,
        now: Timestamp,
    ) -> Option<usize> {
        if version != self.plan.version() || !self.fits(amounts) {
            return None;
        }
        let of = (&self.without_slots[..], low_water);
        let at = self.grants.admit_plainly(amounts, of, now)?;
        self.uncounted += 1;
        Some(at)
    }

    /// Counts what handles have spent.
    pub(crate) fn count_spent(&mut self, counters: &Counters) {
        let spent = std::mem::take(&mut self.uncounted);
        counters.admitted.fetch_add(spent, Ordering::Relaxed);
    }

    /// Whether something is held, remembered, or waited for.
    pub(crate) fn is_needed(&self, now: Timestamp) -> bool {
        let is_waited_for = !self.waiters.is_empty() || !self.queued.is_none();
        !self.grants.is_empty(now) || is_waited_for || !self.leases.is_empty()
    }

    /// Answers all who wait with this error.
    pub(crate) fn fail(&mut self, error: &StoreError, wakes: &mut Vec<Wake>) {
        for waiter in self.waiters.drain(..) {
            wakes.push(waiter.responder.answer(Err(error.clone())));
        }
    }

    /// What all who wait take together.
    pub(crate) fn waiting(&self) -> Amounts {
        let mut all: Amounts = self.batch.iter().map(|_| 0).collect();
        for waiter in &self.waiters {
            for (all, &amount) in all.iter_mut().zip(&waiter.amounts) {
                *all = all.saturating_add(amount);
            }
        }
        all
    }
}

fn too_late() -> StoreError {
    StoreError::Busy(
        "its grants come when they are over already; raise `hold` of the tier, or look why the \
         store answers so late"
            .to_owned(),
    )
}
