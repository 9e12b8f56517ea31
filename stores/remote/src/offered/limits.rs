//! By which plan a table decides for users whose plans differ: while limits change, some
//! of them have the newer ones and some not yet.
//!
//! The table has one plan: every limit that some user knows, by its number. Who does not know
//! a limit asks for nothing of it, so it is counted through them, and ends when the last has
//! let it go. Where two know a limit by different rules, each request has its rows go by the
//! rules of who asks, as keys that have limits of their own do: what others have used stays
//! used, and no other row is touched.
//!
//! The capacities of the moment are each user's own: it is decided by a plan that has them,
//! of the same version.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_store::core::{Amount, Bounds, Rule, Span, Timestamp};
use tidegate_store::{
    Adaptive, KeyPath, Op, Out, Overrides, OwnedKey, Plan, PlanLimit, StoreError, Table,
};

use super::moved::Places;
use crate::wire::{Client, Digest, Own};

/// So many plans of a table are known by what they are called; of more, those that were
/// used last.
const MOST_PLANS: usize = 64;

/// So many users of a table are told apart; of more, those who asked last.
const MOST_USERS: usize = 1_024;

/// So many rows of a table go by rules of their own; with more, all begin to be found anew.
const MOST_OWN: usize = 100_000;

/// Who has asked for nothing for so long is taken for gone: what no other knows, ends.
const GONE: Span = Span::from_secs(600);

/// What is not decided by.
pub(super) enum NotReady {
    /// The plan is to be sent.
    UnknownPlan,
    /// The user has a newer one.
    StalePlan,
}

impl From<NotReady> for StoreError {
    fn from(_: NotReady) -> Self {
        Self::StalePlan
    }
}

/// By what a command is decided.
pub(super) struct Ready {
    pub(super) plan: Arc<Plan>,
    pub(super) places: Places,
    pub(super) calendars: Vec<Option<Bounds>>,
}

/// See the [module](self).
pub(super) struct Limits {
    /// By which the table decides.
    current: Arc<Plan>,
    plans: HashMap<Digest, Known>,
    users: HashMap<u64, User>,
    /// What was there when the table was opened, as of who asked first since: others may know
    /// it still, and come back.
    inherited: Option<(Arc<Plan>, Option<Timestamp>)>,
    /// The calendars as they were told last, by the limits' numbers.
    calendars: HashMap<u32, Bounds>,
    /// Grows with whatever is used.
    order: u64,
    /// Whether the table was told of the plan since it was opened.
    is_told: bool,
}

struct Known {
    plan: Arc<Plan>,
    used: u64,
}

struct User {
    digest: Digest,
    version: u64,
    asked: u64,
    seen: Timestamp,
    /// Its capacities of the moment, by the limits' numbers.
    capacities: HashMap<u32, Adaptive>,
    /// The table's plan, and that with these capacities.
    adapted: Option<(Arc<Plan>, Arc<Plan>)>,
}

/// Whether two limits are one, by number or name.
pub(super) fn is_one(one: &PlanLimit, other: &PlanLimit) -> bool {
    one.uid == other.uid || one.name == other.name
}

impl Limits {
    /// Of a table that was opened by this plan; `was_there`: it may have limits that others
    /// know.
    pub(super) fn new(current: Arc<Plan>, was_there: bool) -> Self {
        Self {
            inherited: was_there.then(|| (Arc::clone(&current), None)),
            current,
            plans: HashMap::new(),
            users: HashMap::new(),
            calendars: HashMap::new(),
            order: 0,
            is_told: false,
        }
    }

    pub(super) const fn current(&self) -> &Arc<Plan> {
        &self.current
    }

    /// Takes note of a plan that was sent.
    pub(super) fn learn(&mut self, digest: Digest, plan: Plan) {
        if !self.plans.contains_key(&digest) && self.plans.len() >= MOST_PLANS {
            let oldest = self.plans.iter().min_by_key(|(_, known)| known.used);
            let oldest = oldest.map(|(digest, _)| *digest);
            oldest.and_then(|oldest| self.plans.remove(&oldest));
        }
        let (plan, used) = (Arc::new(plan), self.next());
        self.plans.insert(digest, Known { plan, used });
    }

    fn next(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    /// The user's plan, which is its newest.
    fn plan_of(
        &mut self,
        client: &Client<'_>,
        seen: Timestamp,
    ) -> Result<(Arc<Plan>, bool), NotReady> {
        let asked = self.next();
        let known = self.plans.get_mut(&client.digest);
        let known = known.ok_or(NotReady::UnknownPlan)?;
        known.used = asked;
        let plan = Arc::clone(&known.plan);
        let is_there = |limit: &PlanLimit| place(&self.current, limit).is_some();
        let mut is_new = !plan.limits().iter().all(is_there);
        if let Some(user) = self.users.get_mut(&client.user) {
            if client.version < user.version {
                return Err(NotReady::StalePlan);
            }
            is_new |= user.digest != client.digest;
            (user.digest, user.version) = (client.digest, client.version);
            (user.asked, user.seen) = (asked, seen);
            return Ok((plan, is_new));
        }
        if self.users.len() >= MOST_USERS {
            let oldest = self.users.iter().min_by_key(|(_, user)| user.asked);
            let oldest = oldest.map(|(user, _)| *user);
            oldest.and_then(|oldest| self.users.remove(&oldest));
        }
        let user = User {
            digest: client.digest,
            version: client.version,
            asked,
            seen,
            capacities: HashMap::new(),
            adapted: None,
        };
        self.users.insert(client.user, user);
        Ok((plan, true))
    }

    /// The user goes by this plan from `now` on, in which the rows of `touched` have other
    /// limits of their own than before: so does the table.
    pub(super) fn adopt(
        &mut self,
        table: &dyn Table,
        client: &Client<'_>,
        (now, calendars): (Timestamp, &[Option<Bounds>]),
        touched: &[(&[u8], Own)],
    ) -> Result<(), NotReady> {
        let (plan, is_new) = self.plan_of(client, now)?;
        self.note_calendars(&plan, calendars);
        let before = Arc::clone(&self.current);
        if is_new {
            self.merge(&plan, client.version, now);
        }
        for (row, own) in touched {
            if let Ok(path) = KeyPath::of_row(row, self.current.levels()) {
                self.agree(&plan, &path, path.depth() - 1, (own.as_deref(), &[]));
            }
        }
        if !self.is_told || !Arc::ptr_eq(&before, &self.current) {
            self.tell(table, now);
        }
        Ok(())
    }

    /// Has the table go over to the plan, whoever waits there included.
    fn tell(&mut self, table: &dyn Table, now: Timestamp) {
        self.is_told = true;
        let calendars = self.known_calendars();
        let mut answer = Ok(tidegate_store::Reply::Done);
        let command = tidegate_store::Command {
            plan: &self.current,
            now,
            calendars: &calendars,
            op: Op::Adopt,
            patience: None,
        };
        // What cannot be done now is before the next command.
        drop(table.execute(&command, Out::new(&mut answer)).pending());
    }

    /// By what a command of `client` about `paths` is decided at `now`. `own` says what the
    /// rows of each have for themselves.
    pub(super) fn ready(
        &mut self,
        table: &dyn Table,
        client: &Client<'_>,
        (now, calendars): (Timestamp, &[Option<Bounds>]),
        paths: &[(KeyPath<'_>, &[Own])],
        capacities: &[Amount],
    ) -> Result<Ready, NotReady> {
        let (plan, is_new) = self.plan_of(client, now)?;
        self.note_calendars(&plan, calendars);
        let before = Arc::clone(&self.current);
        if is_new {
            self.merge(&plan, client.version, now);
        }
        if !self.is_told || !Arc::ptr_eq(&before, &self.current) {
            self.tell(table, now);
        }
        let of_the_moment = self.set_capacities(client.user, &plan, capacities);
        for (path, own) in paths {
            for level in 0..path.depth().min(self.current.levels()) {
                let own = own.get(level).and_then(Option::as_deref);
                self.agree(&plan, path, level, (own, &of_the_moment));
            }
        }
        let places = self.places(&plan)?;
        let calendars = match calendars.is_empty() && self.calendars.is_empty() {
            true => Vec::new(),
            false => self.calendars_for(&places, calendars, now),
        };
        Ok(Ready {
            plan: self.adapted(client.user),
            places,
            calendars,
        })
    }

    fn places(&self, plan: &Plan) -> Result<Places, NotReady> {
        let (ours, theirs) = (self.current.limits(), plan.limits());
        let uid = |limit: &PlanLimit| limit.uid;
        if ours.iter().map(uid).eq(theirs.iter().map(uid)) {
            return Ok(Places::same(ours.len()));
        }
        let places: Option<_> = theirs.iter().map(|own| place(&self.current, own)).collect();
        let places = places.ok_or(NotReady::StalePlan)?;
        Ok(Places::new(places, ours.len()))
    }

    fn calendars_for(
        &self,
        places: &Places,
        told: &[Option<Bounds>],
        now: Timestamp,
    ) -> Vec<Option<Bounds>> {
        let mut calendars = places.calendars(told);
        for (calendar, known) in calendars.iter_mut().zip(self.known_calendars()) {
            // Of a limit that who asks does not know; one that is over says nothing of today.
            *calendar = calendar.or(known.filter(|known| known.next_end > now));
        }
        calendars
    }

    fn known_calendars(&self) -> Vec<Option<Bounds>> {
        if self.calendars.is_empty() {
            return Vec::new();
        }
        let limits = self.current.limits().iter();
        let known = limits.map(|limit| self.calendars.get(&limit.uid).copied());
        known.collect()
    }

    fn note_calendars(&mut self, plan: &Plan, calendars: &[Option<Bounds>]) {
        for (limit, calendar) in plan.limits().iter().zip(calendars) {
            if let Some(bounds) = calendar {
                self.calendars.insert(limit.uid, *bounds);
            }
        }
    }

    /// The capacities of the moment of a user, by the limits' numbers: those that came.
    fn set_capacities(
        &mut self,
        user: u64,
        plan: &Plan,
        capacities: &[Amount],
    ) -> Vec<(u32, Amount)> {
        let limits = plan.limits().iter();
        let adaptive = limits.filter(|limit| limit.adaptive.is_some());
        let came = adaptive
            .map(|limit| limit.uid)
            .zip(capacities.iter().copied());
        let came: Vec<_> = came.collect();
        let Some(user) = self.users.get_mut(&user) else {
            return came;
        };
        for (uid, capacity) in &came {
            user.capacities.entry(*uid).or_default().set(*capacity);
        }
        for (uid, capacity) in &user.capacities {
            if !came.iter().any(|(came, _)| came == uid) {
                // It is its rule's.
                capacity.set(0);
            }
        }
        came
    }

    /// The plan that decides, with the capacities of the moment of this user.
    fn adapted(&mut self, user: u64) -> Arc<Plan> {
        let mut limits = self.current.limits().iter();
        let adapts = limits.any(|limit| limit.adaptive.is_some());
        let Some(user) = self.users.get_mut(&user).filter(|_| adapts) else {
            return Arc::clone(&self.current);
        };
        match &user.adapted {
            Some((of, adapted)) if Arc::ptr_eq(of, &self.current) => Arc::clone(adapted),
            _ => {
                let capacities = &mut user.capacities;
                capacities.retain(|uid, _| self.current.position(*uid).is_some());
                let adapted = self.current.with_capacities(|limit| {
                    let mut cell = || capacities.entry(limit.uid).or_default().clone();
                    limit.adaptive.as_ref().map(|_| cell())
                });
                let adapted = Arc::new(adapted);
                user.adapted = Some((Arc::clone(&self.current), Arc::clone(&adapted)));
                adapted
            }
        }
    }

    /// All limits that some user knows, by the rules of `latest` where that knows them.
    fn merge(&mut self, latest: &Arc<Plan>, version: u64, now: Timestamp) {
        self.users.retain(|_, user| now.since(user.seen) < GONE);
        let mut limits = latest.limits().to_vec();
        let mut users: Vec<_> = self.users.values().collect();
        users.sort_by_key(|user| std::cmp::Reverse(user.asked));
        let theirs = users.iter().filter_map(|user| self.plans.get(&user.digest));
        let mut theirs: Vec<_> = theirs.map(|known| Arc::clone(&known.plan)).collect();
        theirs.extend(self.inherited_at(now));
        for limit in theirs.iter().flat_map(|plan| plan.limits()) {
            if limit.level < latest.levels() && !limits.iter().any(|known| is_one(known, limit)) {
                limits.push(limit.clone());
            }
        }
        for limit in &mut limits {
            // Each user's are put there when it asks.
            let mut known = theirs.iter().flat_map(|plan| plan.limits());
            let adapts = |known: &PlanLimit| known.uid == limit.uid && known.adaptive.is_some();
            let adapts = limit.adaptive.is_some() || known.any(adapts);
            limit.adaptive = adapts.then(Adaptive::default);
        }
        let is_there = |uid: &u32| limits.iter().any(|limit| limit.uid == *uid);
        self.calendars.retain(|uid, _| is_there(uid));
        let version = version.max(self.current.version() + 1);
        let merged = Plan::new(version, latest.levels(), limits, latest.keep());
        let merged = merged.counting_usage(latest.usage());
        let adapts = |plan: &Plan| {
            let limits = plan.limits().iter();
            let adaptive = limits.map(|limit| limit.adaptive.is_some());
            adaptive.collect::<Vec<_>>()
        };
        if merged.has_limits_of(&self.current) && adapts(&merged) == adapts(&self.current) {
            return;
        }
        let own = self.own_limits_in(&merged);
        self.current = Arc::new(merged.with_overrides(own));
    }

    /// What was there when the table was opened, until those who may know it had time to come
    /// back.
    fn inherited_at(&mut self, now: Timestamp) -> Option<Arc<Plan>> {
        let (plan, since) = self.inherited.as_mut()?;
        if now.since(*since.get_or_insert(now)) < GONE {
            return Some(Arc::clone(plan));
        }
        self.inherited = None;
        None
    }

    /// What rows have for themselves, as variants of `merged`.
    fn own_limits_in(&self, merged: &Plan) -> Overrides {
        let rules = |own: &Plan, limit: &PlanLimit| {
            let at = own.position(limit.uid)?;
            let (rule, common) = (own.limits()[at].rule, self.current.limits().get(at)?.rule);
            (rule != common).then_some(rule)
        };
        let variant = |(key, own): (&OwnedKey, &Arc<Plan>)| {
            let own = merged.variant(|limit| rules(own, limit));
            (own.limits() != merged.limits()).then(|| (key.clone(), Arc::new(own)))
        };
        self.current
            .overrides()
            .iter()
            .filter_map(variant)
            .collect()
    }

    /// Has the row of `path` at `level` go by the rules that `plan` has for it: `own`, or
    /// those of all rows, with the capacities of the moment.
    fn agree(
        &mut self,
        plan: &Plan,
        path: &KeyPath<'_>,
        level: usize,
        (own, capacities): (Option<&[Rule]>, &[(u32, Amount)]),
    ) {
        if level >= plan.levels() {
            return;
        }
        let row = path.row(level);
        let common = &self.current.limits()[self.current.range(level)];
        let there = self.current.of_row(&row);
        let there = &there.limits()[there.range(level)];
        let theirs = &plan.limits()[plan.range(level)];
        let adapted = |limit: &PlanLimit, rule: Rule| {
            let capacity = capacities.iter().find(|(uid, _)| *uid == limit.uid);
            let adapted = capacity.and_then(|(_, capacity)| rule.with_capacity(*capacity).ok());
            adapted.unwrap_or(rule)
        };
        let rule = |at: usize, limit: &PlanLimit| {
            let known = theirs.iter().position(|known| known.uid == limit.uid);
            let wanted = known.map(|known| {
                let own = own.and_then(|own| own.get(known)).copied();
                own.unwrap_or_else(|| adapted(limit, theirs[known].rule))
            });
            wanted.unwrap_or(there[at].rule)
        };
        // A row that has nothing of its own goes by the capacities of the moment.
        let is_own = there != common;
        let goes_by = |at: usize, limit: &PlanLimit| match is_own {
            true => there[at].rule,
            false => adapted(limit, limit.rule),
        };
        let limits = common.iter().enumerate();
        if limits
            .clone()
            .all(|(at, limit)| rule(at, limit) == goes_by(at, limit))
        {
            return;
        }
        let wanted: HashMap<u32, Rule> = limits
            .map(|(at, limit)| (limit.uid, rule(at, limit)))
            .collect();
        let is_common = common
            .iter()
            .all(|limit| wanted.get(&limit.uid) == Some(&adapted(limit, limit.rule)));
        let own = (!is_common).then(|| {
            let variant = self
                .current
                .variant(|limit| wanted.get(&limit.uid).copied());
            Arc::new(variant)
        });
        let version = self.current.version() + 1;
        let overrides = match self.current.overrides().len() < MOST_OWN {
            true => self.current.overrides().with(&row, own),
            false => Overrides::default().with(&row, own),
        };
        self.current = Arc::new(self.current.going_on(version, overrides));
    }
}

/// Where the table's plan has a user's limit: under its number, or else its name.
fn place(current: &Plan, limit: &PlanLimit) -> Option<usize> {
    let by_name = |ours: &PlanLimit| ours.name == limit.name;
    let named = || current.limits().iter().position(by_name);
    current.position(limit.uid).or_else(named)
}
