//! Which priority is next.

use tidegate_core::Amount;

use super::account::{Account, Period, Virtual, virtual_cost};
use super::bounds::{MAX_WEIGHT, PRIORITIES};
use crate::error::FairError;

/// How priorities share what is started. Flows share within each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Priorities {
    /// By weight, as flows do: each has at least its part while it has requests, and what one
    /// does not need is the others'. 1 to [`MAX_WEIGHT`] each.
    Weighted([u32; PRIORITIES]),
    /// The most urgent first. One that waits while requests that cost so much together
    /// have started is next all the same; of several, the one that waits longest.
    Strict {
        /// So much cost may pass over one that waits.
        starve_for: Amount,
    },
}

/// Each has twice the part of the one below it.
impl Default for Priorities {
    fn default() -> Self {
        Self::Weighted([1, 2, 4, 8, 16, 32, 64, 128])
    }
}

/// Where each priority stands.
#[derive(Debug)]
pub(super) struct Standing {
    rule: Priorities,
    accounts: [Account; PRIORITIES],
    /// What had started when one of each did last, or it came with nothing waiting.
    served_at: [u128; PRIORITIES],
    /// What has started, in all.
    started: u128,
    now: Virtual,
    latest: Virtual,
}

impl Standing {
    /// # Errors
    /// [`FairError::Weight`].
    pub(super) fn new(rule: Priorities) -> Result<Self, FairError> {
        if let Priorities::Weighted(weights) = rule {
            let mut weights = weights.iter();
            if let Some(&weight) = weights.find(|weight| !(1..=MAX_WEIGHT).contains(*weight)) {
                return Err(FairError::Weight(weight));
            }
        }
        Ok(Self {
            rule,
            accounts: Default::default(),
            served_at: Default::default(),
            started: 0,
            now: 0,
            latest: 0,
        })
    }

    fn weight(&self, priority: usize) -> u32 {
        match &self.rule {
            Priorities::Weighted(weights) => weights[priority],
            Priorities::Strict { .. } => 1,
        }
    }

    /// It has requests that may start again, and had none.
    pub(super) fn activate(&mut self, priority: usize) {
        self.accounts[priority].activate(self.now);
        self.served_at[priority] = self.started;
    }

    /// Of those that have requests, the one whose turn it is. One that has some at the limits does
    /// not starve.
    pub(super) fn next(
        &self,
        has_requests: impl Fn(usize) -> bool,
        is_at_limits: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let ready = (0..PRIORITIES)
            .rev()
            .filter(|&priority| has_requests(priority));
        match self.rule {
            Priorities::Weighted(_) => {
                ready.min_by_key(|&priority| self.accounts[priority].start())
            }
            Priorities::Strict { starve_for } => {
                let most_urgent = ready.clone().next()?;
                let starves = |&priority: &usize| {
                    let passed = self.started - self.served_at[priority];
                    passed >= u128::from(starve_for) && !is_at_limits(priority)
                };
                let starved = ready.filter(starves);
                let longest = starved.min_by_key(|&priority| self.served_at[priority]);
                Some(longest.unwrap_or(most_urgent))
            }
        }
    }

    /// One of its requests goes to the limits; the period that it is charged in.
    pub(super) fn charge(&mut self, priority: usize, cost: Amount) -> Period {
        let weight = self.weight(priority);
        let account = &mut self.accounts[priority];
        self.now = self.now.max(account.start());
        account.charge(virtual_cost(cost, weight));
        self.latest = self.latest.max(account.start());
        account.period()
    }

    /// The limits have admitted one of its requests.
    pub(super) fn started(&mut self, priority: usize, cost: Amount) {
        self.started = self.started.saturating_add(u128::from(cost));
        self.served_at[priority] = self.started;
    }

    pub(super) fn correct(
        &mut self,
        (priority, period): (usize, Period),
        (from, to): (Amount, Amount),
    ) {
        let weight = self.weight(priority);
        let account = &mut self.accounts[priority];
        let (from, to) = (virtual_cost(from, weight), virtual_cost(to, weight));
        account.correct(period, from, to);
        self.latest = self.latest.max(account.start());
    }

    /// Nobody waits: nobody owes anybody anything.
    pub(super) fn rest(&mut self) {
        self.now = self.now.max(self.latest);
    }
}
