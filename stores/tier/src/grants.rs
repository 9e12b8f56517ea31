//! What a node holds of one key, and what it does next. No I/O, no clock: what happens is
//! an argument, and so is when. Instants are the node's own, by a clock that never steps
//! back.

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_store::core::{Amount, Rule, Span, Timestamp, Units, Verdict, sure_until};
use tidegate_store::{Decision, Partial, Plan};

/// The most grants of a key that are kept. A further one is kept in place of the oldest of its kind.
const MOST_KEPT: usize = 4;

pub(crate) type Amounts = SmallVec<[Amount; 3]>;

/// Units that the store granted, as a lease.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The lease.
    pub id: u128,
    /// What is left, and until when.
    pub units: Units,
    /// The limits by which it was granted.
    pub plan: Arc<Plan>,
    /// What the store said, with where every limit stood after it.
    pub told: Decision,
    /// Others may wait for what its lease holds: it is ended also where all of it is spent, as
    /// soon as the store is asked for the next one of its key.
    pub is_scarce: bool,
    /// What the store's lease holds: with what bounds how much is out, which is not spent.
    pub(crate) taken: Amounts,
    /// Until when the store's lease is surely there.
    pub(crate) sure_until: Timestamp,
    /// It has slots, which leases of callers hold and give back: so it is kept also where nothing
    /// is left of it.
    pub(crate) has_slots: bool,
}

impl Grant {
    /// What the store granted as the lease `id` to a request that was `sent` at this instant
    /// of the node's clock, or later. `has_own_clock` says whether another clock measures it
    /// at the store: then it is spent a thousandth less long.
    #[must_use]
    pub fn new(
        id: u128,
        plan: &Arc<Plan>,
        partial: Partial,
        (sent, has_own_clock): (Timestamp, bool),
    ) -> Self {
        let sure = |until: Timestamp| match has_own_clock {
            true => sure_until(until, until.since(sent)),
            false => until,
        };
        let lease = partial.decision.lease;
        Self {
            id,
            units: Units::new(&partial.amounts, sure(partial.good_until)),
            plan: Arc::clone(plan),
            taken: partial.amounts,
            sure_until: sure(lease.map_or(partial.good_until, |lease| lease.expires_at)),
            told: partial.decision,
            is_scarce: false,
            has_slots: false,
        }
    }

    /// The same, of which the slots are given out until `end`, and so is all else.
    pub(crate) fn of_slots(mut self, end: Timestamp) -> Self {
        let end = end.min(self.units.end());
        self.units = Units::new(self.units.granted(), end);
        (self.has_slots, self.is_scarce) = (true, true);
        self
    }

    /// Until when the store's lease may be there, if nobody ends it.
    pub(crate) fn may_last_until(&self) -> Timestamp {
        let lease = self.told.lease;
        lease.map_or(self.sure_until, |lease| lease.expires_at)
    }

    /// Whether nothing of it will be spent any more, but for what comes back to it.
    fn is_used_up(&self) -> bool {
        self.units.is_spent() && !self.has_slots
    }

    /// Whether it was granted less than this of a limit. Of one that the key does not reach nothing
    /// is wished, nor granted.
    fn has_less_than(&self, wished: &[Amount]) -> bool {
        let granted = self.units.granted();
        let mut wished = wished.iter().enumerate();
        wished.any(|(position, &wished)| granted.get(position).is_none_or(|&got| got < wished))
    }

    /// Whether nothing of this limit is left. Slots are lacking only where it had some: most requests
    /// take none.
    fn lacks(&self, position: usize) -> bool {
        let granted = self.units.granted().get(position).copied().unwrap_or(0);
        let mut limits = self.plan.limits().iter();
        let is_held = limits
            .nth(position)
            .is_some_and(|limit| limit.rule.is_held());
        self.units.left(position) == 0 && (granted > 0 || !is_held)
    }

    /// Whether less than `least` is left of a limit that does not come back, of which it had some.
    fn is_short_of(&self, least: &[Amount]) -> bool {
        let granted = self.units.granted().iter().zip(self.plan.limits());
        let mut all = granted.zip(least).enumerate();
        all.any(|(position, ((&granted, limit), &least))| {
            !limit.rule.is_held() && granted > 0 && self.units.left(position) < least
        })
    }

    /// Whether it has less than was wished of a limit that gives back all the time: then there
    /// will be many of them, of few units each. A window that is used up grants none.
    fn is_of_what_comes_back(&self, wish: &Wish) -> bool {
        let granted = self.units.granted().iter().zip(&wish.amounts);
        let mut limits = granted.zip(self.plan.limits());
        limits.any(|((got, wished), limit)| got < wished && !matches!(limit.rule, Rule::Window(_)))
    }

    /// Whether its lease is to be ended, and not left to expire: others can use what it holds.
    #[must_use]
    pub fn is_to_end(&self) -> bool {
        self.is_scarce || !self.units.is_spent()
    }
}

/// What a grant is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wish {
    /// As much as this of each limit.
    pub amounts: SmallVec<[Amount; 3]>,
    /// And this at least.
    pub least: SmallVec<[Amount; 3]>,
}

/// What came of a wish.
#[derive(Clone, Debug)]
pub enum Landed {
    /// Units.
    Granted(Box<Grant>),
    /// The least is not there.
    Refused(Box<Decision>),
    /// As much is out at nodes as may be: requests are the store's for a while.
    Full,
    /// Nobody knows, or nothing may be made of it.
    Failed,
}

#[derive(Clone, Debug)]
struct Refusal {
    least: Amounts,
    decision: Decision,
    until: Timestamp,
}

/// The grants that a node holds of one key, the one under way, and the refusal it remembers.
#[derive(Clone, Debug)]
pub struct Grants {
    /// The oldest first; behind all others those that have slots.
    kept: SmallVec<[Grant; 2]>,
    asked: Option<Wish>,
    refusal: Option<Refusal>,
    /// Which limits requests have taken of: others are not asked for.
    is_used: SmallVec<[bool; 4]>,
    /// No grant is asked for before, but for a request that needs one.
    refill_from: Timestamp,
    /// Until then no request waits for a grant: as much is out as may be.
    full_until: Timestamp,
    used_at: Timestamp,
}

impl Default for Grants {
    fn default() -> Self {
        Self {
            kept: SmallVec::new(),
            asked: None,
            refusal: None,
            is_used: SmallVec::new(),
            refill_from: Timestamp::MIN,
            full_until: Timestamp::MIN,
            used_at: Timestamp::MIN,
        }
    }
}

impl Grants {
    /// Spends `amounts`, if one of the grants covers them: which.
    pub fn admit(&mut self, amounts: &[Amount], now: Timestamp) -> Option<&Grant> {
        self.note_use(amounts, now);
        let spend = |grant: &mut Grant| grant.units.spend(amounts, now);
        let at = self.kept.iter_mut().position(spend)?;
        self.kept.get(at)
    }

    /// Spends `amounts`, slots among them, for a lease until `until`: if one of the grants covers
    /// them, and the store holds its slots for as long. Which.
    pub(crate) fn lend(
        &mut self,
        amounts: &[Amount],
        until: Timestamp,
        now: Timestamp,
    ) -> Option<&Grant> {
        self.note_use(amounts, now);
        let spend = |grant: &mut Grant| {
            grant.has_slots && until <= grant.sure_until && grant.units.spend(amounts, now)
        };
        let at = self.kept.iter_mut().position(spend)?;
        self.kept.get(at)
    }

    /// Spends `amounts` of the grant `id`, if that is kept and covers them.
    pub(crate) fn spend_of(&mut self, id: u128, amounts: &[Amount], now: Timestamp) -> bool {
        let mut kept = self.kept.iter_mut();
        kept.any(|grant| grant.id == id && grant.units.spend(amounts, now))
    }

    /// The grant `id`, which is to be ended.
    pub(crate) fn take_one(&mut self, id: u128) -> Vec<Grant> {
        self.take_those(|grant| grant.id == id)
    }

    /// What was spent of the grant `id` and not used comes back to it, if it is kept.
    pub(crate) fn refund(&mut self, id: u128, amounts: &[Amount]) {
        if let Some(grant) = self.kept.iter_mut().find(|grant| grant.id == id) {
            grant.units.refund(amounts);
        }
    }

    /// The grants that have slots, which are to be ended.
    pub(crate) fn take_slots(&mut self) -> Vec<Grant> {
        self.take_those(|grant| grant.has_slots)
    }

    fn take_those(&mut self, which: impl Fn(&Grant) -> bool) -> Vec<Grant> {
        let all = std::mem::take(&mut self.kept).into_iter();
        let (taken, kept): (SmallVec<[Grant; 2]>, _) = all.partition(which);
        self.kept = kept;
        to_end(taken)
    }

    /// The refusal that is remembered of as much as `amounts`, or less.
    #[must_use]
    pub fn refusal(&self, amounts: &[Amount], now: Timestamp) -> Option<&Decision> {
        let refusal = self
            .refusal
            .as_ref()
            .filter(|refusal| now < refusal.until)?;
        self.is_at_least(amounts, &refusal.least)
            .then_some(&refusal.decision)
    }

    /// Whether as much is out at nodes as may be, by what the store has said lately.
    #[must_use]
    pub fn is_full(&self, now: Timestamp) -> bool {
        now < self.full_until
    }

    /// Whether a grant is on its way.
    #[must_use]
    pub const fn is_asking(&self) -> bool {
        self.asked.is_some()
    }

    /// Asks for a grant, `amounts` at least and a batch, or `waiting` (what all requests that
    /// wait take together) if that is more; `None` if one is on its way. `most` of each limit
    /// is what one grant may be of.
    pub fn ask(
        &mut self,
        amounts: &[Amount],
        waiting: &[Amount],
        (batch, most): (&[Amount], &[Amount]),
    ) -> Option<Wish> {
        if self.asked.is_some() {
            return None;
        }
        let of = |position: usize| {
            let needed = waiting.get(position).copied().unwrap_or(0);
            match self.is_used.get(position) {
                Some(true) => batch[position].max(needed.min(most[position])),
                _ => 0,
            }
        };
        let least: Amounts = amounts.into();
        let at_least = |position: usize| least.get(position).copied().unwrap_or(0);
        let wished = (0..batch.len()).map(|position| of(position).max(at_least(position)));
        let wish = Wish {
            amounts: wished.collect(),
            least,
        };
        self.asked = Some(wish.clone());
        Some(wish)
    }

    /// Whether less than so many hundredths of `batch` are left of a limit that is used once
    /// `amounts` are spent, and another grant may be asked for before a request needs it.
    #[must_use]
    pub fn is_low(
        &self,
        batch: &[Amount],
        hundredths: u8,
        amounts: &[Amount],
        now: Timestamp,
    ) -> bool {
        self.is_low_of((batch, false), hundredths, amounts, now)
    }

    /// The same of the grants that have slots, as a lease needs one; or, not `of_slots`, of the
    /// others: what is beside slots is for leases.
    pub(crate) fn is_low_of(
        &self,
        (batch, of_slots): (&[Amount], bool),
        hundredths: u8,
        amounts: &[Amount],
        now: Timestamp,
    ) -> bool {
        let is_low = |(position, &batch): (usize, &Amount)| {
            let kept = self.kept.iter();
            let kept = kept.filter(|grant| grant.has_slots == of_slots);
            let good = kept.filter(|grant| grant.units.is_good(now));
            let left = good.map(|grant| grant.units.left(position)).sum::<Amount>();
            let amount = amounts.get(position).copied().unwrap_or(0);
            let is_used = amount > 0 || self.is_used.get(position) == Some(&true);
            is_used && is_below(left.saturating_sub(amount), batch, hundredths)
        };
        self.asked.is_none() && now >= self.refill_from && batch.iter().enumerate().any(is_low)
    }

    /// As [`admit`](Self::admit), if no other grant is to be asked for by that: which of the
    /// [kept](Self::kept).
    #[inline(always)]
    pub(crate) fn admit_plainly(
        &mut self,
        amounts: &[Amount],
        (batch, hundredths): (&[Amount], u8),
        now: Timestamp,
    ) -> Option<usize> {
        // Where the first that covers them is not low by itself, all together are not.
        let mut kept = self.kept.iter().enumerate();
        let (first, grant) = kept.find(|(_, grant)| grant.units.covers(amounts, now))?;
        let mut may_be_low = grant.has_slots;
        for (position, (&amount, &batch)) in amounts.iter().zip(batch).enumerate() {
            let left = grant.units.left(position).saturating_sub(amount);
            may_be_low |= is_below(left, batch, hundredths);
        }
        if may_be_low && self.is_low(batch, hundredths, amounts, now) {
            return None;
        }
        self.note_use(amounts, now);
        let grant = self.kept.get_mut(first)?;
        grant.units.spend(amounts, now).then_some(first)
    }

    /// What was asked for has come to this at `now`. Answers what is to be given back: a
    /// grant that came too late to be spent, or one that there is no room for; and where no
    /// more is granted, grants that lack a limit altogether: others can use the rest. With further slots, of
    /// grants that have slots those that lack the units beside them. None is spent after that, and
    /// neither is it added to another.
    pub fn land(&mut self, landed: Landed, now: Timestamp, idle: Span) -> Vec<Grant> {
        let Some(wish) = self.asked.take() else {
            return Vec::new();
        };
        match landed {
            Landed::Granted(grant) => self.keep(*grant, &wish, now),
            Landed::Refused(decision) => {
                // Whoever waits for it is told in any case, however late it is.
                let soonest = now + Span::from_micros(1);
                let until = match decision.verdict {
                    Verdict::NotUntil(at) => at.min(now + idle).max(soonest),
                    Verdict::Never | Verdict::Admit => now + idle,
                };
                self.refill_from = now + idle;
                self.refusal = Some(Refusal {
                    least: wish.least,
                    decision: *decision,
                    until,
                });
                self.take_lacking()
            }
            Landed::Full => {
                (self.refill_from, self.full_until) = (now + idle, now + idle);
                self.take_lacking()
            }
            Landed::Failed => {
                self.refill_from = now + idle;
                Vec::new()
            }
        }
    }

    fn keep(&mut self, mut grant: Grant, wish: &Wish, now: Timestamp) -> Vec<Grant> {
        self.refusal = None;
        if !grant.units.is_good(now) {
            return vec![grant];
        }
        let is_partial = grant.has_less_than(&wish.amounts);
        grant.is_scarce |= is_partial && grant.is_of_what_comes_back(wish);
        // There is no more: to ask again at once would be told so again.
        self.refill_from = match is_partial {
            true => grant.units.end(),
            false => Timestamp::MIN,
        };
        let mut back = self.take_spent();
        if grant.has_slots {
            let is_short = |older: &Grant| older.has_slots && older.is_short_of(&wish.least);
            back.extend(self.take_those(is_short));
        }
        if self.kept.len() >= MOST_KEPT {
            // The oldest of its kind, so that neither leases nor checks lose all of theirs.
            let mut kept = self.kept.iter();
            let oldest = kept.position(|older| older.has_slots == grant.has_slots);
            back.push(self.kept.remove(oldest.unwrap_or(0)));
        }
        // Those without slots first: what has some is for leases.
        let at = match grant.has_slots {
            true => self.kept.len(),
            false => self.kept.iter().take_while(|one| !one.has_slots).count(),
        };
        self.kept.insert(at, grant);
        back
    }

    /// Those of which all is spent: nothing of them is kept. Answers what is to be ended.
    fn take_spent(&mut self) -> Vec<Grant> {
        let all = std::mem::take(&mut self.kept).into_iter();
        let (spent, kept): (SmallVec<[Grant; 2]>, _) = all.partition(Grant::is_used_up);
        self.kept = kept;
        to_end(spent)
    }

    /// Grants of which nothing is left of a limit that requests take.
    fn take_lacking(&mut self) -> Vec<Grant> {
        let is_used = std::mem::take(&mut self.is_used);
        let lacks = |grant: &Grant| {
            let mut used = is_used.iter().enumerate().filter(|(_, is_used)| **is_used);
            used.any(|(position, _)| grant.lacks(position))
        };
        let all = std::mem::take(&mut self.kept).into_iter();
        let (lacking, kept): (SmallVec<[Grant; 2]>, _) = all.partition(lacks);
        (self.kept, self.is_used) = (kept, is_used);
        to_end(lacking)
    }

    /// The refusal that is remembered is of other limits.
    pub fn forget_refusal(&mut self) {
        self.refusal = None;
        (self.refill_from, self.full_until) = (Timestamp::MIN, Timestamp::MIN);
    }

    /// The limits are others: which of them requests take of is not known yet.
    pub fn forget_use(&mut self) {
        self.is_used.clear();
    }

    /// What is over at `now`, or has lain idle for so long, and is to be ended.
    pub fn take_over(&mut self, now: Timestamp, idle: Span) -> Vec<Grant> {
        if self.used_at + idle <= now {
            return self.take_all();
        }
        self.take_ended(now)
    }

    /// What is over at `now`, or spent, and is to be ended.
    pub fn take_ended(&mut self, now: Timestamp) -> Vec<Grant> {
        let all = std::mem::take(&mut self.kept).into_iter();
        let (good, ended): (SmallVec<_>, SmallVec<[Grant; 2]>) =
            all.partition(|grant| grant.units.is_good(now) && !grant.is_used_up());
        self.kept = good;
        to_end(ended)
    }

    /// All that is kept and is to be ended.
    pub fn take_all(&mut self) -> Vec<Grant> {
        to_end(std::mem::take(&mut self.kept))
    }

    /// What is kept.
    #[must_use]
    pub fn kept(&self) -> &[Grant] {
        &self.kept
    }

    /// Whether there is nothing to remember at `now`.
    #[must_use]
    pub fn is_empty(&self, now: Timestamp) -> bool {
        let remembers = self
            .refusal
            .as_ref()
            .is_some_and(|refusal| now < refusal.until);
        let is_full = self.is_full(now);
        self.kept.is_empty() && self.asked.is_none() && !remembers && !is_full
    }

    #[inline(always)]
    fn note_use(&mut self, amounts: &[Amount], now: Timestamp) {
        self.used_at = self.used_at.max(now);
        if self.is_used.len() < amounts.len() {
            self.is_used.resize(amounts.len(), false);
        }
        for (is_used, &amount) in self.is_used.iter_mut().zip(amounts) {
            *is_used |= amount > 0;
        }
    }

    /// Whether nobody who lacks `least` has `amounts`.
    fn is_at_least(&self, amounts: &[Amount], least: &[Amount]) -> bool {
        let mut least = least.iter().enumerate();
        least.all(|(position, &least)| amounts.get(position).copied().unwrap_or(0) >= least)
    }
}

fn to_end(grants: SmallVec<[Grant; 2]>) -> Vec<Grant> {
    grants.into_iter().filter(Grant::is_to_end).collect()
}

/// Whether `left` is less than so many hundredths of `batch`. No amount goes beyond 2^53 - 1, and
/// few are added: this does not overflow.
#[inline(always)]
fn is_below(left: Amount, batch: Amount, hundredths: u8) -> bool {
    left * 100 < batch * Amount::from(hundredths)
}
