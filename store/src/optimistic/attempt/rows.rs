//! The rows that were loaded.

use std::borrow::Cow;

use smallvec::SmallVec;
use tidegate_core::{Bounds, DecodeError, Rule, State, Timestamp};

use crate::decide::{self, Row};
use crate::error::StoreError;
use crate::key::{self, KeyPath};
use crate::optimistic::clock::Clock;
use crate::optimistic::revision::PlanRevision;
use crate::optimistic::root_at_hand::forget_states_at;
use crate::optimistic::stored_row::{self, RootHeader, StoredRow};
use crate::plan::{Plan, PlanLimit};
use crate::retained;
use crate::retained::Retained;

/// A row, and what it was when it was loaded.
#[derive(Debug)]
pub(super) struct LoadedRow {
    pub(super) key: Box<[u8]>,
    pub(super) level: usize,
    /// As it was kept, if it was.
    pub(super) was: Option<StoredRow>,
    /// The revision its states go by; `None`: nothing was ever seen.
    pub(super) revision: Option<u32>,
    /// What it has of limits that its revision does not know.
    pub(super) retained: Vec<Retained>,
    /// The rules they go by, if they are not the revision's.
    own: Option<Vec<Rule>>,
    pub(super) states: Row,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) all: Vec<LoadedRow>,
    /// The keys of those that are under way.
    expected: Vec<Box<[u8]>>,
}

impl Rows {
    /// These keys are being loaded.
    pub(super) fn expect(&mut self, keys: &[Box<[u8]>]) {
        self.expected = keys.to_vec();
    }

    /// What was found of the keys that were expected; answers what a root's row
    /// among them says of all.
    pub(super) fn take_in(
        &mut self,
        found: Vec<Option<Vec<u8>>>,
        plan: &Plan,
    ) -> Result<Option<RootHeader>, StoreError> {
        let mut head = None;
        for (key, bytes) in std::mem::take(&mut self.expected).into_iter().zip(found) {
            let row = LoadedRow::new(key, bytes.as_deref(), plan)?;
            head = row.was.as_ref().and_then(|stored| stored.head).or(head);
            self.all.push(row);
        }
        Ok(head)
    }

    pub(super) fn find(&self, key: &[u8]) -> Option<&LoadedRow> {
        self.all.iter().find(|row| *row.key == *key)
    }

    fn find_mut(&mut self, key: &[u8]) -> Option<&mut LoadedRow> {
        self.all.iter_mut().find(|row| *row.key == *key)
    }

    pub(super) fn was_there(&self, key: &[u8]) -> bool {
        self.find(key).is_some_and(|row| row.was.is_some())
    }

    /// When the latest of them was written.
    pub(super) fn latest(&self) -> Timestamp {
        let written = self.all.iter().filter_map(|row| row.was.as_ref());
        let latest = written.map(|stored| stored.latest).max();
        latest.unwrap_or(Timestamp::MIN)
    }

    /// The revisions that wrote what is here.
    pub(super) fn revisions(&self) -> SmallVec<[u32; 8]> {
        self.all.iter().filter_map(|row| row.revision).collect()
    }

    /// What those of a path's rows go by that are `revision`'s.
    pub(super) fn plan_of<'p>(
        &self,
        path: &KeyPath<'_>,
        revision: &'p PlanRevision,
    ) -> Cow<'p, Plan> {
        let rows = path.rows().filter_map(|key| self.find(&key));
        let own = rows.filter(|row| row.revision == Some(revision.number) && row.own.is_some());
        own.fold(Cow::Borrowed(&*revision.plan), |plan, row| {
            Cow::Owned(row.plan(&plan).into_owned())
        })
    }

    /// The states of those of a path's rows that go by `revision`, or will; fresh
    /// ones for the others, of which it knows nothing.
    pub(super) fn take_out(&mut self, path: &KeyPath<'_>, revision: &PlanRevision) -> Vec<Row> {
        let states = |level: usize| match self.find_mut(&path.row(level)) {
            Some(row) if row.revision == Some(revision.number) => std::mem::take(&mut row.states),
            _ => decide::fresh_row(&revision.plan, level),
        };
        (0..path.depth()).map(states).collect()
    }

    /// What a path's rows retain; nothing of those that are not there.
    pub(super) fn take_retained(&mut self, path: &KeyPath<'_>) -> Vec<Vec<Retained>> {
        let retained = |level: usize| {
            let row = self.find_mut(&path.row(level));
            row.map_or_else(Vec::new, |row| std::mem::take(&mut row.retained))
        };
        (0..path.depth()).map(retained).collect()
    }

    /// Puts it back.
    pub(super) fn put_retained_back(&mut self, path: &KeyPath<'_>, all: Vec<Vec<Retained>>) {
        for (level, retained) in all.into_iter().enumerate() {
            if let Some(row) = self.find_mut(&path.row(level)) {
                row.retained = retained;
            }
        }
    }

    /// Puts them back.
    pub(super) fn put_back(&mut self, path: &KeyPath<'_>, rows: Vec<Row>, revision: &PlanRevision) {
        for (level, states) in rows.into_iter().enumerate() {
            let number = revision.number;
            let Some(row) = self.find_mut(&path.row(level)) else {
                continue;
            };
            match row.revision {
                Some(other) if other != number => continue,
                Some(_) => {}
                None => row.goes_by(revision),
            }
            row.states = states;
        }
    }
}

impl LoadedRow {
    /// What was found of a key, if anything was.
    pub(super) fn new(
        key: Box<[u8]>,
        found: Option<&[u8]>,
        plan: &Plan,
    ) -> Result<Self, DecodeError> {
        let was = found.map(stored_row::decode).transpose()?;
        let level = key::level_of_row(&key, plan.levels());
        Ok(Self {
            level,
            revision: was.as_ref().map(|stored| stored.revision),
            retained: was
                .as_ref()
                .map_or_else(Vec::new, |stored| stored.retained.clone()),
            own: was.as_ref().and_then(|stored| stored.own.clone()),
            states: match &was {
                Some(stored) => stored.states.clone(),
                None => decide::fresh_row(plan, level),
            },
            was,
            key,
        })
    }

    /// Carries it over from its revision, `old`, if it is that, to the one that followed. What
    /// a change removes is forgotten, unless the row was written since (as it may have been
    /// where the clock stands before the change again): then another server goes on by it.
    pub(super) fn carry_over(&mut self, old: &PlanRevision, new: &PlanRevision, now: Timestamp) {
        if self.revision != Some(old.number) {
            return;
        }
        let at = Clock::follows(new.adopted.at, self.latest(), now);
        let is_carried = self.adopt((old, new), (at, &new.adopted.calendars));
        if is_carried && (self.latest()..=now).contains(&new.adopted.at) {
            self.retained.clear();
        }
    }

    /// From when on it equals "never seen", if `plan` is its revision's.
    pub(super) fn forget_at(&self, plan: &Plan) -> Timestamp {
        let plan = self.plan(plan);
        let states = forget_states_at(&plan.limits()[plan.range(self.level)], &self.states);
        let retained = self.retained.iter().map(Retained::forget_at);
        retained.fold(states, Timestamp::max)
    }

    /// Carries it over from its revision, `old`, to `new`. What its key has for
    /// itself in a revision that was read from the backend, nobody knows: it goes
    /// on by what it has, and the answer is `false`. Where the limits are others, what it
    /// has says nothing of them: then it goes on by what all keys have.
    pub(super) fn adopt(
        &mut self,
        (old, new): (&PlanRevision, &PlanRevision),
        (at, calendars): (Timestamp, &[Option<Bounds>]),
    ) -> bool {
        if self.own.is_some() && !new.knows_keys && self.has_same_limits(old, new) {
            self.revision = Some(new.number);
            return false;
        }
        if !self.stays_as_it_is(old, new) {
            let (mut states, mut beside) =
                (self.states.clone(), std::mem::take(&mut self.retained));
            let plans = (new.plan.of_row(&self.key), &*self.plan(&old.plan));
            self.states =
                retained::carry_row(plans, self.level, &mut states, &mut beside, at, calendars);
            self.retained = beside;
        }
        self.goes_by(new);
        true
    }

    /// Whether its level has the same limits in `old` and in `new`, by whatever rules.
    fn has_same_limits(&self, old: &PlanRevision, new: &PlanRevision) -> bool {
        let before = &old.plan.limits()[old.plan.range(self.level)];
        let after = &new.plan.limits()[new.plan.range(self.level)];
        let uids = |limits: &[PlanLimit]| limits.iter().map(|limit| limit.uid).collect::<Vec<_>>();
        uids(before) == uids(after)
    }

    /// Whether nothing has changed for it from `old` to `new`.
    fn stays_as_it_is(&self, old: &PlanRevision, new: &PlanRevision) -> bool {
        let (before, after) = (old.plan.of_row(&self.key), new.plan.of_row(&self.key));
        old.knows_keys
            && new.knows_keys
            && new.plan.goes_on_from(&old.plan)
            && before.limits() == after.limits()
            && self.is_by(old)
    }

    /// Whether its rules are those that `revision`, its own, says its key goes by.
    pub(super) fn is_by(&self, revision: &PlanRevision) -> bool {
        let limits = |plan: &Plan| plan.range(self.level);
        let plan = self.plan(&revision.plan);
        let expected = revision.plan.of_row(&self.key);
        plan.limits()[limits(&plan)] == expected.limits()[limits(expected)]
    }

    fn goes_by(&mut self, revision: &PlanRevision) {
        self.revision = Some(revision.number);
        self.own = revision.plan.overrides().get(&self.key).and_then(|own| {
            let own = &own.limits()[own.range(self.level)];
            let common = &revision.plan.limits()[revision.plan.range(self.level)];
            (own != common).then(|| own.iter().map(|limit| limit.rule).collect())
        });
    }

    /// The plan its cells go by, if `plan` is its revision's.
    pub(super) fn plan<'p>(&self, plan: &'p Plan) -> Cow<'p, Plan> {
        let Some(own) = &self.own else {
            return Cow::Borrowed(plan);
        };
        let mut rules = own.iter();
        let level = self.level;
        Cow::Owned(plan.variant(|limit| {
            let rule = (limit.level == level).then(|| rules.next());
            rule.flatten().copied()
        }))
    }

    /// The limits it has for itself, if `plan` is its revision's.
    pub(super) fn own_limits(&self, plan: &Plan) -> Option<Vec<PlanLimit>> {
        self.own.as_ref()?;
        let plan = self.plan(plan);
        Some(plan.limits()[plan.range(self.level)].to_vec())
    }

    /// Whether it goes by the rules that `revision` has for all keys, and has nothing beside
    /// its states.
    pub(super) fn is_plain(&self, revision: &PlanRevision) -> bool {
        self.revision == Some(revision.number) && self.own.is_none() && self.retained.is_empty()
    }

    /// Whether it has a state of the right kind for each limit of its level.
    pub(super) fn fits(&self, plan: &Plan) -> bool {
        let plan = self.plan(plan);
        let limits = &plan.limits()[plan.range(self.level)];
        let fits = |(limit, state): (&PlanLimit, &State)| limit.rule.fits(state);
        limits.len() == self.states.len()
            && self
                .own
                .as_ref()
                .is_none_or(|own| own.len() == limits.len())
            && limits.iter().zip(&self.states).all(fits)
    }

    /// Whether nothing is noted in it.
    pub(super) fn is_fresh(&self) -> bool {
        self.states.iter().all(State::is_fresh) && self.retained.is_empty()
    }

    /// When it was written last.
    pub(super) fn latest(&self) -> Timestamp {
        self.was.as_ref().map_or(Timestamp::MIN, |was| was.latest)
    }

    /// Whether it is not as it was loaded.
    pub(super) fn has_changed(&self) -> bool {
        match &self.was {
            None => !self.is_fresh(),
            Some(was) => {
                Some(was.revision) != self.revision
                    || was.own != self.own
                    || was.states != self.states
                    || was.retained != self.retained
            }
        }
    }
}
