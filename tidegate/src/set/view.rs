//! A set's limits at one version: what names mean, what a request amounts to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use smallvec::SmallVec;
use tidegate_core::{Amount, Bounds, MAX_AMOUNT, Payment, Rule, Span, Timestamp};
use tidegate_store::sync::Mutex;
use tidegate_store::{Adaptive, KeyMap, KeyPath, Overrides, Plan, PlanLimit};
use tidegate_tier::Tier;

use super::kept::Kept;
use super::variant::Variant;
use crate::error::{BuildError, RequestError};
use crate::limit::{Calendar, Called, Limit, LimitId, LimitName, NamedAmounts, OnFailure};
use crate::request::Request;

/// Amounts in the order of the plan's limits.
pub(crate) type Amounts = SmallVec<[Amount; 4]>;
/// Calendar boundaries in the order of the plan's limits; empty without calendars.
pub(crate) type Calendars = SmallVec<[Option<Bounds>; 1]>;

/// How long a lease lasts that holds no slots, unless the request says otherwise.
const RATE_LEASE: Span = Span::from_secs(600);
/// How long an ended or expired lease is remembered at least, unless the set says
/// how long.
const KEEP: Span = Span::from_secs(60);

/// The limits of a set at one version, or of a key that has some of its own.
#[derive(Debug)]
pub(crate) struct View {
    /// What decides.
    pub(crate) plan: Arc<Plan>,
    /// The plan that the table goes by: the same, unless this is a key's view.
    pub(crate) whole: Arc<Plan>,
    /// In the plan's order.
    pub(crate) limits: Arc<[Limit]>,
    calendars: Arc<[Option<CachedCalendar>]>,
    measures: Arc<[Measure]>,
    /// The keys that have limits of their own.
    pub(super) variants: KeyMap<Arc<Variant>>,
    /// The names of the levels of keys, outermost first, if they have names.
    levels: Arc<[String]>,
    /// The set: a number that no other one of this process ever has.
    set: u64,
    /// One limit without ancestors, calendar or lease: the fast path serves it.
    pub(crate) lone: bool,
    /// Some limit is not every key's.
    has_added: bool,
    /// Units of its limits are taken from the store in advance.
    tier: Option<Arc<Tier>>,
    /// How long a lease lasts whose request does not say.
    pub(super) lease_ttl: Span,
}

/// How many limits there have been in all sets of this process.
static LIMITS: AtomicU64 = AtomicU64::new(0);

/// How a limit is asked.
#[derive(Clone, Copy, Debug)]
struct Measure {
    /// Which limit it is, whatever its uid: that is made of its name, and two names may
    /// have had the same.
    number: u64,
    /// It counts calls, or what is held.
    is_counted: bool,
    is_concurrency: bool,
    /// Only the keys have it that are given it.
    is_added: bool,
    /// The key at hand has no such limit.
    is_absent: bool,
    /// It is added, and a rate of another unit than one of the set's own: no cost is of it.
    is_uncosted: bool,
}

impl Measure {
    /// Of `limit`, which is one of `all`.
    fn of(limit: &Limit, all: &[Limit], number: u64) -> Self {
        let is_other =
            |own: &Limit| !own.is_added() && !own.is_counted() && own.amounts() != limit.amounts();
        Self {
            number,
            is_counted: limit.is_counted(),
            is_concurrency: limit.is_concurrency(),
            is_added: limit.is_added(),
            is_absent: limit.is_absent(),
            is_uncosted: limit.is_added() && !limit.is_counted() && all.iter().any(is_other),
        }
    }
}

/// A calendar, and the window it was last asked about.
#[derive(Debug)]
struct CachedCalendar {
    calendar: Calendar,
    latest: Mutex<Option<Bounds>>,
}

impl CachedCalendar {
    fn bounds(&self, now: Timestamp) -> Option<Bounds> {
        let mut latest = self.latest.lock();
        let holds = |bounds: &Bounds| bounds.start <= now && now < bounds.end;
        if latest.as_ref().is_none_or(|bounds| !holds(bounds)) {
            *latest = self.calendar.bounds(now);
        }
        *latest
    }
}

impl View {
    /// `limits` with their uids, over `levels`, as version `version`; ended leases
    /// are remembered for as long as is said, or for as long as they last. Those that have the names
    /// of limits of `before` are these.
    ///
    /// # Errors
    /// [`BuildError`]: a limit that makes no sense, or two of one name.
    pub(crate) fn new(
        (set, version): (u64, u64),
        levels: &[String],
        limits: Vec<(u32, Limit)>,
        (kept, tier): (Kept, Option<&Arc<Tier>>),
        before: Option<&Self>,
    ) -> Result<Self, BuildError> {
        check_names(&limits)?;
        let mut planned: Vec<(PlanLimit, Limit)> = Vec::with_capacity(limits.len());
        for (uid, limit) in limits {
            planned.push((plan_in(tier, &limit, uid, levels)?, limit));
        }
        planned.sort_by_key(|(plan, _)| plan.level);
        let (plans, limits): (Vec<PlanLimit>, Vec<Limit>) = planned.into_iter().unzip();
        let measure = |limit: &Limit| {
            let known = before.and_then(|before| before.number(limit.name()));
            let number = known.unwrap_or_else(|| LIMITS.fetch_add(1, Ordering::Relaxed));
            Measure::of(limit, &limits, number)
        };
        let measures = limits.iter().map(measure).collect();
        Ok(Self::of(
            (set, version),
            levels,
            plans,
            (limits, measures),
            (kept, tier.cloned()),
        ))
    }

    /// What the store decides about `limit` by, which may be a key's own.
    ///
    /// # Errors
    /// A limit that makes no sense, or none in the set's tier.
    pub(super) fn planned(
        &self,
        limit: &Limit,
        uid: u32,
        levels: &[String],
    ) -> Result<PlanLimit, BuildError> {
        plan_in(self.tier.as_ref(), limit, uid, levels)
    }

    fn of(
        (set, version): (u64, u64),
        names: &[String],
        plans: Vec<PlanLimit>,
        (limits, measures): (Vec<Limit>, Arc<[Measure]>),
        (kept, tier): (Kept, Option<Arc<Tier>>),
    ) -> Self {
        let calendar = |limit: &Limit| {
            let calendar = limit
                .period()
                .and_then(|period| period.calendar().ok().flatten());
            calendar.map(|calendar| CachedCalendar {
                calendar,
                latest: Mutex::new(None),
            })
        };
        let mut calendars: Vec<_> = limits.iter().map(calendar).collect();
        if calendars.iter().all(Option::is_none) {
            calendars.clear();
        }
        let lease_ttl = ttl_of(&plans, &limits);
        let levels = names.len().max(1);
        let lone = levels == 1 && limits.len() == 1 && calendars.is_empty();
        let keep = kept.remember.unwrap_or(lease_ttl.max(KEEP));
        let plan = Plan::new(version, levels, plans, keep).counting_usage(kept.usage);
        let plan = Arc::new(plan);
        Self {
            lone: lone && !limits[0].is_concurrency() && !limits[0].is_added(),
            has_added: limits.iter().any(Limit::is_added),
            levels: names.into(),
            set,
            whole: Arc::clone(&plan),
            plan,
            limits: limits.into(),
            measures,
            calendars: calendars.into(),
            variants: KeyMap::default(),
            tier,
            lease_ttl,
        }
    }

    /// The same limits as version `version`, where these keys have their own.
    pub(super) fn with_variants(&self, version: u64, variants: KeyMap<Arc<Variant>>) -> Self {
        let entries = variants.iter();
        let overrides = entries.map(|(key, variant)| (key.clone(), Arc::clone(&variant.plan)));
        let overrides = overrides.collect();
        self.with_plan(version, overrides, variants)
    }

    /// The same limits as version `version`, where one key has its own, or none.
    pub(super) fn with_variant(
        &self,
        version: u64,
        key: &[u8],
        variant: Option<Arc<Variant>>,
    ) -> Self {
        let plan = variant.as_ref().map(|variant| Arc::clone(&variant.plan));
        let overrides = self.plan.overrides().with(key, plan);
        let variants = self.variants.with(key, variant);
        self.with_plan(version, overrides, variants)
    }

    fn with_plan(
        &self,
        version: u64,
        overrides: Overrides,
        variants: KeyMap<Arc<Variant>>,
    ) -> Self {
        let plan = Arc::new(self.plan.going_on(version, overrides));
        Self {
            levels: Arc::clone(&self.levels),
            set: self.set,
            whole: Arc::clone(&plan),
            plan,
            limits: Arc::clone(&self.limits),
            measures: Arc::clone(&self.measures),
            calendars: Arc::clone(&self.calendars),
            variants,
            lone: self.lone,
            has_added: self.has_added,
            tier: self.tier.clone(),
            lease_ttl: self.lease_ttl,
        }
    }

    /// That of the plan that its table goes by.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.whole.version()
    }

    /// Whether any key has limits of its own.
    #[inline]
    pub(crate) fn has_own_limits(&self) -> bool {
        !self.variants.is_empty()
    }

    /// Whether it decides about every key: none has limits of its own.
    #[inline]
    pub(crate) fn is_of_any_key(&self) -> bool {
        self.variants.is_empty() && Arc::ptr_eq(&self.plan, &self.whole)
    }

    /// What decides about `path`, if it has limits of its own.
    #[inline]
    pub(crate) fn at(&self, path: &KeyPath<'_>) -> Option<Arc<Self>> {
        if self.variants.is_empty() {
            return None;
        }
        self.of_key(path)
    }

    #[cold]
    fn of_key(&self, path: &KeyPath<'_>) -> Option<Arc<Self>> {
        let plan = self.whole.at(path)?;
        let levels = (0..path.depth()).filter_map(|level| {
            let variant = self.variants.get(&path.row(level))?;
            Some((plan.range(level), variant))
        });
        let mut limits: Option<Arc<[Limit]>> = None;
        for (range, variant) in levels {
            match &mut limits {
                None => limits = Some(Arc::clone(&variant.limits)),
                Some(limits) => {
                    let own = &variant.limits[range.clone()];
                    Arc::make_mut(limits)[range].clone_from_slice(own);
                }
            }
        }
        let limits = limits.unwrap_or_else(|| Arc::clone(&self.limits));
        let own = limits.iter().zip(self.measures.iter());
        let measures = own.map(|(limit, base)| Measure::of(limit, &limits, base.number));
        Some(Arc::new(Self {
            lease_ttl: ttl_of(plan.limits(), &limits),
            has_added: self.has_added,
            tier: self.tier.clone(),
            measures: measures.collect(),
            levels: Arc::clone(&self.levels),
            set: self.set,
            plan,
            whole: Arc::clone(&self.whole),
            limits,
            calendars: Arc::clone(&self.calendars),
            variants: KeyMap::default(),
            // The fast path knows the whole plan's limit only.
            lone: false,
        }))
    }

    /// How long a request's lease lasts.
    ///
    /// # Errors
    /// [`RequestError::LeaseLength`].
    #[inline]
    pub(crate) fn ttl(&self, request: &Request<'_>) -> Result<Span, RequestError> {
        match request.ttl {
            None => Ok(self.lease_ttl),
            Some(ttl) => lease_length(ttl),
        }
    }

    /// Checks that `amounts` take something where `key` has a level.
    ///
    /// # Errors
    /// [`RequestError::KeyTooShort`].
    #[inline]
    pub(crate) fn check_reach(
        &self,
        key: &KeyPath<'_>,
        amounts: &[Amount],
    ) -> Result<(), RequestError> {
        match key.depth() == self.plan.levels() {
            true => Ok(()),
            false => self.check_short(key, amounts),
        }
    }

    fn check_short(&self, key: &KeyPath<'_>, amounts: &[Amount]) -> Result<(), RequestError> {
        let (depth, levels) = (key.depth(), self.plan.levels());
        let mut taken = self.plan.limits().iter().zip(amounts);
        match taken.any(|(limit, &amount)| limit.level < depth && amount > 0) {
            true => Ok(()),
            // It asks for what other keys have.
            false if self.has_added && amounts.iter().all(|&amount| amount == 0) => Ok(()),
            false => Err(RequestError::KeyTooShort { depth, levels }),
        }
    }

    /// Checks that nothing is to be taken of what `key` does not reach.
    ///
    /// # Errors
    /// [`RequestError::KeyTooShort`].
    pub(crate) fn check_targets(
        &self,
        key: &KeyPath<'_>,
        to: &[Option<Amount>],
    ) -> Result<(), RequestError> {
        let (depth, levels) = (key.depth(), self.plan.levels());
        let mut targets = self.plan.limits().iter().zip(to);
        match targets.any(|(limit, to)| limit.level >= depth && to.is_some_and(|to| to > 0)) {
            true => Err(RequestError::KeyTooShort { depth, levels }),
            false => Ok(()),
        }
    }

    /// The calendars' boundaries around `now`.
    #[inline(always)]
    pub(crate) fn calendars(&self, now: Timestamp) -> Calendars {
        match self.calendars.is_empty() {
            true => Calendars::new(),
            false => self.calendars_at(now),
        }
    }

    #[inline(never)]
    fn calendars_at(&self, now: Timestamp) -> Calendars {
        let bounds = |calendar: &Option<CachedCalendar>| calendar.as_ref()?.bounds(now);
        self.calendars.iter().map(bounds).collect()
    }

    /// Where the limit stands that is called so.
    ///
    /// # Errors
    /// [`RequestError::UnknownLimit`], [`RequestError::OtherSet`],
    /// [`RequestError::LimitRemoved`].
    #[inline]
    pub(crate) fn position<'n>(
        &self,
        name: impl Into<LimitName<'n>>,
    ) -> Result<usize, RequestError> {
        let name = name.into();
        self.find(name).ok_or_else(|| self.unknown(name))
    }

    /// The same, if there is one.
    #[inline]
    pub(crate) fn find<'n>(&self, name: impl Into<LimitName<'n>>) -> Option<usize> {
        match name.into().0 {
            Called::Name(name) => {
                let is_its = |limit: &Limit| is_same(limit.name(), name);
                self.limits.iter().position(is_its)
            }
            Called::Id(id) if id.set == self.set => self.numbered(id.number, usize::from(id.near)),
            Called::Id(_) => None,
        }
    }

    /// Where the limit of this number stands, which stood at `near`.
    #[inline]
    fn numbered(&self, number: u64, near: usize) -> Option<usize> {
        let is_it = |measure: &Measure| measure.number == number;
        match self.measures.get(near) {
            Some(measure) if is_it(measure) => Some(near),
            _ => self.measures.iter().position(is_it),
        }
    }

    /// The number of the limit called `name`, if there is one.
    fn number(&self, name: &str) -> Option<u64> {
        Some(self.measures[self.find(name)?].number)
    }

    /// The limit called `name`, to be found again without its name.
    ///
    /// # Errors
    /// [`RequestError::UnknownLimit`].
    pub(super) fn id(&self, name: &str) -> Result<LimitId, RequestError> {
        let position = self.position(name)?;
        Ok(LimitId {
            set: self.set,
            number: self.measures[position].number,
            near: u16::try_from(position).unwrap_or(u16::MAX),
        })
    }

    /// Where the limit stands that `own`, which a key is given, is in place of.
    ///
    /// # Errors
    /// [`BuildError::UnknownLimit`].
    pub(super) fn to_change(&self, own: &Limit) -> Result<usize, BuildError> {
        let found = self.find(own.name());
        let found = found.filter(|&at| own.is_added() || !self.limits[at].is_added());
        found.ok_or_else(|| self.has_none(own.name()))
    }

    /// Where the limit called `name` stands, which every key has.
    ///
    /// # Errors
    /// [`BuildError::UnknownLimit`].
    pub(super) fn its_own(&self, name: &str) -> Result<usize, BuildError> {
        let found = self.find(name).filter(|&at| !self.limits[at].is_added());
        found.ok_or_else(|| self.has_none(name))
    }

    fn has_none(&self, name: &str) -> BuildError {
        BuildError::UnknownLimit {
            name: name.into(),
            known: self.known(),
        }
    }

    /// The limits that every key has.
    pub(super) fn own(&self) -> impl Iterator<Item = &Limit> {
        self.limits.iter().filter(|limit| !limit.is_added())
    }

    /// The limits that only some keys have.
    pub(super) fn added(&self) -> impl Iterator<Item = &Limit> {
        self.limits.iter().filter(|limit| limit.is_added())
    }

    /// Whether only some keys have the limit called `name`.
    pub(super) fn has_added(&self, name: &str) -> bool {
        self.added().any(|limit| limit.name() == name)
    }

    /// Whether `absent` is what stands for one that only some keys have.
    pub(super) fn stands_for(&self, absent: &Limit) -> bool {
        self.added().any(|limit| limit == absent)
    }

    /// Whether the key at hand has no such limit.
    #[inline]
    pub(crate) fn is_absent(&self, position: usize) -> bool {
        self.has_added && self.measures[position].is_absent
    }

    /// The positions of those that it does not have.
    pub(crate) fn absent(&self) -> impl Iterator<Item = usize> {
        let all = if self.has_added {
            self.measures.len()
        } else {
            0
        };
        (0..all).filter(|&position| self.measures[position].is_absent)
    }

    #[cold]
    fn unknown(&self, name: LimitName<'_>) -> RequestError {
        let known = self.known();
        match name.0 {
            Called::Name(name) => RequestError::UnknownLimit {
                name: name.into(),
                known,
            },
            Called::Id(id) if id.set == self.set => RequestError::LimitRemoved { known },
            Called::Id(_) => RequestError::OtherSet,
        }
    }

    /// The names there are, as a message tells them.
    fn known(&self) -> String {
        let present = self.limits.iter().filter(|limit| !limit.is_absent());
        let names = present.map(|l| format!("`{}`", l.name()));
        names.collect::<Vec<_>>().join(", ")
    }

    /// The name of the level that the limit at `position` is about, if it has one.
    pub(crate) fn level_name(&self, position: usize) -> Option<&str> {
        let name = self.levels.get(self.plan.limits()[position].level)?;
        Some(name)
    }

    /// The most that the limit at `position` grants at once, as of now.
    pub(crate) fn capacity(&self, position: usize) -> Amount {
        let limit = &self.plan.limits()[position];
        let set = limit.adaptive.as_ref().and_then(Adaptive::capacity);
        set.unwrap_or(limit.rule.capacity())
    }

    /// By which units of its limits are taken from the store in advance.
    pub(super) fn tier(&self) -> Option<&Tier> {
        self.tier.as_deref()
    }

    /// What `request` takes of each limit.
    ///
    /// # Errors
    /// [`RequestError`]: unknown or repeated names, a rate without an amount, nothing
    /// at all, or too large an amount; an idempotency key of no length or too much of it.
    #[inline(always)]
    pub(crate) fn amounts(&self, request: &Request<'_>) -> Result<Amounts, RequestError> {
        if request.idempotency.is_some() {
            request.check_idempotency()?;
        }
        let mut amounts = few(self.rest(request)?, self.measures.len());
        self.put(request, &mut amounts)?;
        Ok(amounts)
    }

    /// Puts in what calls are counted at and what `request` names, and checks it all.
    fn put(&self, request: &Request<'_>, amounts: &mut [Amount]) -> Result<(), RequestError> {
        if self.is_unlimited() {
            amounts.fill(0);
            return Ok(());
        }
        self.leave_out_uncosted(amounts);
        self.put_counted(1, amounts);
        self.put_named(request.named, amounts)?;
        self.leave_out_absent(amounts);
        // Below the largest amount every bit may be set, above it none.
        let bits = amounts.iter().fold(0, |bits, amount| bits | amount);
        match bits {
            1..=MAX_AMOUNT => Ok(()),
            0 if self.may_take_nothing(request) => Ok(()),
            _ => Err(self.wrong(amounts)),
        }
    }

    /// Whether nothing limits the key at hand: only others have what limits there are.
    #[inline]
    fn is_unlimited(&self) -> bool {
        match self.has_added {
            true => self.measures.iter().all(|measure| measure.is_absent),
            false => self.measures.is_empty(),
        }
    }

    /// Whether a request makes sense that takes nothing: it names what other keys have, or
    /// the set would admit anything but for what was added to the key at hand.
    #[cold]
    fn may_take_nothing(&self, request: &Request<'_>) -> bool {
        if !self.has_added {
            return false;
        }
        let named = self.named_amounts(request.named);
        let mut named = named.iter().filter(|(_, amount)| *amount > 0);
        self.own().next().is_none() || named.any(|(at, _)| self.measures[*at].is_absent)
    }

    /// Takes nothing, unless it is named, of a rate that is added and of another unit than
    /// the set's own: the cost is so many of theirs.
    #[inline]
    fn leave_out_uncosted(&self, amounts: &mut [Amount]) {
        if self.has_added {
            let limits = amounts.iter_mut().zip(self.measures.iter());
            let uncosted = limits.filter(|(_, measure)| measure.is_uncosted);
            uncosted.for_each(|(amount, _)| *amount = 0);
        }
    }

    /// Takes nothing of what the key at hand does not have.
    #[inline]
    fn leave_out_absent(&self, amounts: &mut [Amount]) {
        if self.has_added {
            let limits = amounts.iter_mut().zip(self.measures.iter());
            let absent = limits.filter(|(_, measure)| measure.is_absent);
            absent.for_each(|(amount, _)| *amount = 0);
        }
    }

    /// Takes nothing without a lease of a limit that is held, was added to this key, and that
    /// the request does not name: it was made for the limits of every key.
    ///
    /// # Errors
    /// [`RequestError::NothingRequested`], if nothing is left.
    pub(crate) fn leave_out_held(
        &self,
        request: &Request<'_>,
        amounts: &mut [Amount],
    ) -> Result<(), RequestError> {
        if !self.has_added {
            return Ok(());
        }
        let named = self.named_amounts(request.named);
        for (position, limit) in self.limits.iter().enumerate() {
            let is_named = named.iter().any(|(at, _)| *at == position);
            if limit.is_added_concurrency() && !is_named {
                amounts[position] = 0;
            }
        }
        let takes_nothing = amounts.iter().all(|&amount| amount == 0);
        match takes_nothing && !self.is_unlimited() && !self.may_take_nothing(request) {
            true => Err(RequestError::NothingRequested),
            false => Ok(()),
        }
    }

    /// What is named of the limits that there are, by their positions.
    fn named_amounts(&self, named: NamedAmounts<'_>) -> SmallVec<[(usize, Amount); 4]> {
        match named {
            NamedAmounts::Named(all) => self.amounts_of(all).collect(),
            NamedAmounts::Found(all) => self.amounts_of(all).collect(),
        }
    }

    fn amounts_of<'n, N: Copy + Into<LimitName<'n>>>(
        &self,
        all: &[(N, Amount)],
    ) -> impl Iterator<Item = (usize, Amount)> {
        let found = |&(name, amount): &(N, Amount)| Some((self.find(name)?, amount));
        all.iter().filter_map(found)
    }

    /// What is wrong with amounts that are all 0, or one of them too large.
    #[cold]
    fn wrong(&self, amounts: &[Amount]) -> RequestError {
        match self.check_sizes(amounts) {
            Ok(()) => RequestError::NothingRequested,
            Err(error) => error,
        }
    }

    /// Checks that each of `amounts` can be one.
    fn check_sizes(&self, amounts: &[Amount]) -> Result<(), RequestError> {
        match amounts.iter().position(|&amount| amount > MAX_AMOUNT) {
            Some(position) => Err(self.too_large(position, amounts[position])),
            None => Ok(()),
        }
    }

    /// What `request` takes of a [lone](Self::lone) limit that it does not name; `None` where
    /// more is to be looked at.
    #[inline]
    pub(crate) fn lone_amount(&self, request: &Request<'_>) -> Option<Amount> {
        let measure = self.measures.first().filter(|_| self.lone)?;
        if !request.named.is_empty() || request.idempotency.is_some() {
            return None;
        }
        let amount = match measure.is_counted {
            true => 1,
            false => request.cost?,
        };
        (1..=MAX_AMOUNT).contains(&amount).then_some(amount)
    }

    /// What no key on `path` is ever granted; `None` if there is no such thing: every limit
    /// that it reaches refuses nobody, or lets through whatever the size.
    pub(crate) fn too_much(&self, path: &KeyPath<'_>) -> Option<Amounts> {
        let limits = self.plan.limits();
        let refuses = |(position, limit): (usize, &PlanLimit)| {
            limit.level < path.depth()
                && limit.payment == Payment::Prepaid
                && !limit.shadow
                && !self.is_absent(position)
                && self.capacity(position) < MAX_AMOUNT
        };
        let at = limits.iter().enumerate().position(refuses)?;
        let amount = |position| if position == at { MAX_AMOUNT } else { 0 };
        Some((0..limits.len()).map(amount).collect())
    }

    /// Puts in what a request names.
    #[inline(always)]
    pub(super) fn put_named(
        &self,
        named: NamedAmounts<'_>,
        amounts: &mut [Amount],
    ) -> Result<(), RequestError> {
        match named {
            NamedAmounts::Named(all) => self.put_each(all, amounts),
            NamedAmounts::Found(all) => self.put_each(all, amounts),
        }
    }

    #[inline(always)]
    fn put_each<'n, N: Copy + PartialEq + Into<LimitName<'n>>>(
        &self,
        all: &[(N, Amount)],
        amounts: &mut [Amount],
    ) -> Result<(), RequestError> {
        for (index, &(name, amount)) in all.iter().enumerate() {
            let position = self.position(name)?;
            let mut earlier = all[..index].iter();
            if earlier.any(|(earlier, _)| *earlier == name) {
                return Err(self.named_twice(position));
            }
            amounts[position] = amount;
        }
        Ok(())
    }

    /// Puts in what the limits that are counted are taken at.
    #[inline]
    fn put_counted(&self, counted: Amount, amounts: &mut [Amount]) {
        for (amount, one) in amounts.iter_mut().zip(self.measures.iter()) {
            if one.is_counted {
                *amount = counted;
            }
        }
    }

    /// What a limit is taken at that is neither named nor counted.
    #[inline]
    fn rest(&self, request: &Request<'_>) -> Result<Amount, RequestError> {
        match request.cost {
            Some(cost) => Ok(cost),
            None if !request.named.is_empty() => Ok(0),
            None => self.no_rest(),
        }
    }

    /// A request that says nothing may be of limits that are counted.
    fn no_rest(&self) -> Result<Amount, RequestError> {
        let is_needed = |one: &Measure| !one.is_counted && !one.is_added;
        match self.measures.iter().position(is_needed) {
            Some(position) => Err(self.no_amount(position)),
            None => Ok(0),
        }
    }

    #[cold]
    fn named_twice(&self, position: usize) -> RequestError {
        RequestError::NamedTwice(self.limits[position].name().into())
    }

    #[cold]
    fn no_amount(&self, position: usize) -> RequestError {
        RequestError::NoAmount(self.limits[position].name().into())
    }

    #[cold]
    fn too_large(&self, position: usize, amount: Amount) -> RequestError {
        let limit = &self.limits[position];
        let unit = limit.amounts();
        RequestError::Amount {
            limit: limit.name().into(),
            source: unit.too_large(unit.show(amount).to_string()),
        }
    }

    /// What a debit takes of each limit: like a request, but no slots (they are
    /// held, not used) and of any size.
    pub(crate) fn debits(&self, request: &Request<'_>) -> Result<Amounts, RequestError> {
        if self.is_unlimited() {
            return Ok(few(0, self.measures.len()));
        }
        let mut amounts = few(self.rest(request)?, self.measures.len());
        self.leave_out_uncosted(&mut amounts);
        self.put_counted(0, &mut amounts);
        self.put_named(request.named, &mut amounts)?;
        self.leave_out_absent(&mut amounts);
        self.check_unheld(&amounts)?;
        self.check_sizes(&amounts)?;
        let takes_nothing = amounts.iter().all(|&amount| amount == 0);
        match takes_nothing && !self.may_take_nothing(request) {
            true => Err(RequestError::NothingRequested),
            false => Ok(amounts),
        }
    }

    /// Nothing said of any limit.
    #[inline]
    pub(crate) fn no_uses(&self) -> SmallVec<[Option<Amount>; 4]> {
        few(None, self.limits.len())
    }

    /// Puts in what was used of each limit: as it is named, else a rate or budget that a
    /// key of so many levels reaches as much as the cost says.
    pub(crate) fn put_uses(
        &self,
        used: &Request<'_>,
        depth: usize,
        uses: &mut [Option<Amount>],
    ) -> Result<(), RequestError> {
        if self.is_unlimited() {
            return Ok(());
        }
        match used.named {
            NamedAmounts::Named(all) => self.use_each(all, uses)?,
            NamedAmounts::Found(all) => self.use_each(all, uses)?,
        }
        if let Some(cost) = used.cost {
            self.put_cost(cost, depth, uses)?;
        }
        // Of what the key does not have any more, what was taken stays.
        if self.has_added {
            let limits = uses.iter_mut().zip(self.measures.iter());
            let absent = limits.filter(|(_, measure)| measure.is_absent);
            absent.for_each(|(used, _)| *used = None);
        }
        Ok(())
    }

    /// Puts in what was used of each limit that is reached and not named.
    fn put_cost(
        &self,
        cost: Amount,
        depth: usize,
        uses: &mut [Option<Amount>],
    ) -> Result<(), RequestError> {
        for (position, limit) in self.limits.iter().enumerate() {
            let is_reached = self.plan.limits()[position].level < depth;
            let is_costed = !limit.is_counted() && !self.measures[position].is_uncosted;
            if is_reached && is_costed && uses[position].is_none() {
                if cost > MAX_AMOUNT {
                    return Err(self.too_large(position, cost));
                }
                uses[position] = Some(cost);
            }
        }
        Ok(())
    }

    #[inline]
    fn use_each<'n, N: Copy + Into<LimitName<'n>>>(
        &self,
        all: &[(N, Amount)],
        uses: &mut [Option<Amount>],
    ) -> Result<(), RequestError> {
        for &(name, amount) in all {
            let position = self.position(name)?;
            if uses[position].replace(amount).is_some() {
                return Err(self.named_twice(position));
            }
            if amount > MAX_AMOUNT {
                return Err(self.too_large(position, amount));
            }
        }
        Ok(())
    }

    /// For each limit, whether its amount is given back when the work fails.
    pub(crate) fn refunds_on_failure(&self) -> SmallVec<[bool; 4]> {
        let refunds = |limit: &Limit| limit.failure() == OnFailure::Refund;
        self.limits.iter().map(refunds).collect()
    }

    /// The limit that is held while in use and was asked without a lease.
    pub(crate) fn check_unheld(&self, amounts: &[Amount]) -> Result<(), RequestError> {
        let mut held = self.measures.iter().zip(amounts);
        match held.position(|(one, amount)| one.is_concurrency && *amount > 0) {
            Some(position) => Err(RequestError::NeedsLease(
                self.limits[position].name().into(),
            )),
            None => Ok(()),
        }
    }
}

/// What the store decides about `limit` by.
fn plan_in(
    tier: Option<&Arc<Tier>>,
    limit: &Limit,
    uid: u32,
    levels: &[String],
) -> Result<PlanLimit, BuildError> {
    let planned = limit.plan(uid, levels);
    let mut planned = planned.map_err(|source| BuildError::Limit {
        limit: limit.name().into(),
        source,
    })?;
    if let Some(tier) = tier {
        planned.rule = tier.store_rule(limit.name(), planned.rule)?;
    }
    Ok(planned)
}

/// So many of `one`: mostly few.
#[inline]
fn few<T: Copy>(one: T, length: usize) -> SmallVec<[T; 4]> {
    match length <= 4 {
        true => SmallVec::from_buf_and_len([one; 4], length),
        false => SmallVec::from_elem(one, length),
    }
}

/// Whether two names are the same. Most that differ do so in their first letter.
#[inline]
fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    one.len() == other.len() && one.first() == other.first() && one == other
}

/// How long a lease lasts unless its request says otherwise.
fn ttl_of(plans: &[PlanLimit], limits: &[Limit]) -> Span {
    let present = plans.iter().zip(limits).filter(|(_, l)| !l.is_absent());
    let ttls = present.filter_map(|(plan, _)| match &plan.rule {
        Rule::Slots(slots) => Some(slots.ttl()),
        _ => None,
    });
    ttls.min().unwrap_or(RATE_LEASE)
}

/// A lease's length, if it can be one.
///
/// # Errors
/// [`RequestError::LeaseLength`].
pub(crate) fn lease_length(length: Duration) -> Result<Span, RequestError> {
    lease_span(length).ok_or(RequestError::LeaseLength(length))
}

/// A length that a lease can have.
pub(crate) fn lease_span(length: Duration) -> Option<Span> {
    let span = Span::from(length);
    (Span::MILLISECOND..=Span::LONGEST_PERIOD)
        .contains(&span)
        .then_some(span)
}

fn check_names(limits: &[(u32, Limit)]) -> Result<(), BuildError> {
    for (index, (_, limit)) in limits.iter().enumerate() {
        let earlier = limits[..index].iter();
        if earlier.into_iter().any(|(_, l)| l.name() == limit.name()) {
            return Err(BuildError::DuplicateLimit(limit.name().into()));
        }
    }
    Ok(())
}
