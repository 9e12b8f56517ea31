//! What a journal needs of a table: which rows and leases changed, what they
//! are now, and how they come back.
//!
//! A watched shard notes keys, never bytes: what changes often between two
//! groups is read once. Rows and leases that one command changed are noted
//! under one lock and collected under one lock, so a group holds all of a
//! command or none of it. A table that nobody watches keeps no notes.

use std::collections::HashSet;
use std::sync::Arc;

use foldhash::fast::RandomState;
pub use tidegate_store::Adopted;
use tidegate_store::core::kernel::slots;
use tidegate_store::core::{Rule, Span, State, Timestamp};
use tidegate_store::decide::{self, Row};
use tidegate_store::key::level_of_row;
use tidegate_store::ledger::Record;
use tidegate_store::{KeyCommand, KeyPath, OwnedKey, Plan, PlanLimit, Reply, Verb};

pub use crate::usage::UsagePlace;

/// What a row is, and by which limits.
#[derive(Clone, Copy, Debug)]
pub struct RowView<'a> {
    /// Its states.
    pub states: &'a [State],
    /// The limits of its level, if they are the key's own and not the plan's.
    pub own: Option<&'a [PlanLimit]>,
}

/// Is told what changed rows and leases are now.
pub trait Sink {
    /// A row; `None`: it equals "never seen".
    fn row(&mut self, key: &[u8], row: Option<RowView<'_>>);
    /// A lease's record; `None`: it is forgotten.
    fn lease(&mut self, id: u128, record: Option<&Record<OwnedKey>>);
    /// What was used of a row and a limit in an hour, and for how long that is kept; `None`: it is
    /// forgotten.
    fn usage(&mut self, place: &UsagePlace, kept: Option<(u64, Span)>);
}

/// What was collected of a shard, and by which plan it is to be read.
#[derive(Debug)]
pub struct Collected {
    /// The plan that the shard's rows go by.
    pub plan: Arc<Plan>,
    /// Since when.
    pub adopted: Adopted,
    /// The latest instant that the shard was told.
    pub latest: Timestamp,
    /// The keys of the rows.
    pub rows: HashSet<OwnedKey, RandomState>,
    /// The ids of the leases.
    pub leases: Vec<u128>,
    /// The records of usage.
    pub usage: HashSet<UsagePlace, RandomState>,
}

/// A row as it was journalled, on its way back into a table.
#[derive(Debug)]
pub struct Journalled<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// Its states.
    pub row: Row,
    /// The plan that wrote it: the key's own, if it had one.
    pub plan: &'a Plan,
}

/// The notes of one shard.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) rows: HashSet<OwnedKey, RandomState>,
    pub(crate) adopted: Adopted,
    pub(crate) latest: Timestamp,
    /// No fence that was ever granted is larger.
    fence_floor: u64,
}

impl Watch {
    pub(crate) fn new(adopted: Adopted, fence_floor: u64) -> Self {
        Self {
            rows: HashSet::default(),
            adopted,
            latest: Timestamp::MIN,
            fence_floor,
        }
    }

    /// Notes the latest instant.
    #[inline(never)]
    pub(crate) fn follow_clock(&mut self, now: Timestamp) {
        self.latest = self.latest.max(now);
    }

    /// Notes the row of `key`.
    #[inline(never)]
    pub(crate) fn note(&mut self, key: &[u8]) {
        self.rows.insert(OwnedKey::new(key));
    }

    /// Notes the rows of a key and its ancestors.
    pub(crate) fn note_path(&mut self, path: &KeyPath<'_>) {
        path.rows().for_each(|key| self.note(&key));
    }

    /// Notes what a command that was answered changed: a refusal and a look
    /// change nothing.
    #[inline(never)]
    pub(crate) fn note_command(&mut self, command: &KeyCommand<'_>, reply: &Reply) {
        let refused = match (command.verb, reply) {
            (Verb::Peek { .. }, _) => true,
            (Verb::Take { .. }, Reply::Decision(decision)) => !decision.verdict.admitted(),
            _ => false,
        };
        if !refused {
            self.note_path(&command.key);
        }
    }

    /// The fence that a fresh row starts from at `now`: none, unless the clock
    /// stands before an instant from which fences were granted.
    #[inline(never)]
    pub(crate) fn floor_at(&self, now: Timestamp) -> u64 {
        let clock = u64::try_from(now.as_micros()).unwrap_or(0);
        if clock > self.fence_floor {
            0
        } else {
            self.fence_floor
        }
    }

    /// A journalled row as `plan` has it, its fences beyond every earlier one;
    /// `None` if it equals "never seen" by now, or `plan` has no such level.
    pub(crate) fn revive(&self, plan: &Plan, from: Journalled<'_>) -> Option<Row> {
        let level = level_of_row(from.key, from.plan.levels());
        if !crate::rows::keeps_level(from.key, from.plan, plan) {
            return None;
        }
        let mut row = from.row;
        if !plan.has_limits_of(from.plan) {
            let Adopted { at, calendars } = &self.adopted;
            row = decide::adopt_row(plan, from.plan, level, &mut row, *at, calendars);
        }
        if forget_at(plan, level, &row) <= self.latest {
            return None;
        }
        raise_fences(plan, level, &mut row, self.fence_floor);
        Some(row)
    }
}

/// A row in which nothing was ever seen, whose fences start from `floor`.
pub(crate) fn fresh_row(plan: &Plan, level: usize, floor: u64) -> Row {
    let mut row = decide::fresh_row(plan, level);
    if floor > 0 {
        raise_fences(plan, level, &mut row, floor);
    }
    row
}

/// Whether nothing was seen in a row that was [fresh](fresh_row), with fences from
/// `floor`: a grant raises them.
pub(crate) fn is_unseen(row: &[State], floor: u64) -> bool {
    row.iter().all(|state| match state {
        State::Slots(state) => state.fence() <= floor,
        state => state.is_fresh(),
    })
}

/// From when a row of `level` equals "never seen".
pub(crate) fn forget_at(plan: &Plan, level: usize, row: &[State]) -> Timestamp {
    let limits = &plan.limits()[plan.range(level)];
    let states = limits.iter().zip(row);
    let instants = states.map(|(limit, state)| limit.rule.forget_at(state));
    instants.max().unwrap_or(Timestamp::MIN)
}

fn raise_fences(plan: &Plan, level: usize, row: &mut [State], floor: u64) {
    let limits = &plan.limits()[plan.range(level)];
    for (limit, state) in limits.iter().zip(row) {
        raise_fence(&limit.rule, state, floor);
    }
}

fn raise_fence(rule: &Rule, state: &mut State, floor: u64) {
    if !rule.is_held() {
        return;
    }
    if let State::Fresh = state {
        *state = State::Slots(Box::<slots::State>::default());
    }
    if let State::Slots(state) = state {
        state.raise_fence(floor);
    }
}
