//! Amounts by limit, of an estimate and of what was used.

use smallvec::SmallVec;
use tidegate::internal::{LimitInternals, SetInternals};
use tidegate::{Limit, LimitSet, MAX_AMOUNT, Unit};
use tidegate_llm::price::in_units;
use tidegate_llm::{Cost, Costs, Counts, Price, Provider, Reserved, Usage, Weight};
use tidegate_policy::{Config, ModelPrice, ModelWeight, Policy};
use tidegate_service::{ActivePolicy, Amounts, Number};

use crate::settings::{BadSettings, Settings};

/// What tokens cost by a file, and how much they count.
#[must_use]
pub fn file_costs(file: &Config) -> Costs {
    let price = |one: &ModelPrice| Price {
        input: one.input,
        cache_read: one.cached_input,
        cache_write: one.cache_write,
        output: one.output,
    };
    let weight = |one: &ModelWeight| Weight {
        input: one.input,
        cache_read: one.cached_input,
        cache_write: one.cache_write,
        output: one.output,
    };
    let prices = file.prices.iter();
    let weights = file.weights.iter();
    Costs {
        prices: prices.map(|one| (one.model.clone(), price(one))).collect(),
        weights: weights
            .map(|one| (one.model.clone(), weight(one)))
            .collect(),
    }
}

impl Settings {
    /// What a limit counts, if its name or the settings tell.
    pub(crate) fn counts(&self, limit: &str) -> Option<Counts> {
        let told = self.counts.iter().find(|(name, _)| name == limit);
        told.map(|(_, counts)| *counts)
            .or_else(|| Counts::named(limit))
    }

    /// The limits of a policy that want an amount, each name once; of a pool those that grant the
    /// most.
    fn charged<'a>(&self, policy: &'a Policy) -> SmallVec<[(&'a Limit, Counts); 4]> {
        let mut charged: SmallVec<[(&Limit, Counts); 4]> = SmallVec::new();
        for limit in policy.limit_lists().flatten() {
            let counts = self.counts(limit.name()).filter(|_| is_measured(limit));
            let Some(counts) = counts else {
                continue;
            };
            let mut known = charged.iter_mut();
            match known.find(|(known, _)| known.name() == limit.name()) {
                Some((known, _)) if known.at_most() < limit.at_most() => *known = limit,
                Some(_) => {}
                None => charged.push((limit, counts)),
            }
        }
        charged
    }

    /// Whether each member of a pool has every limit that a call names an amount of: one that lacks
    /// one could serve no call.
    pub(crate) fn check_members(&self, policy: &Policy) -> Result<(), BadSettings> {
        for (limit, _) in self.charged(policy) {
            let has = |limits: &[Limit]| limits.iter().any(|one| one.name() == limit.name());
            let without = policy.members.iter().find(|member| !has(&member.limits));
            if let Some(member) = without {
                return Err(BadSettings::Uneven {
                    policy: policy.name.clone(),
                    member: member.name.to_string(),
                    limit: limit.name().to_owned(),
                });
            }
        }
        Ok(())
    }

    /// Whether it is clear what each limit of a policy counts.
    pub(crate) fn check_limits(&self, policy: &Policy) -> Result<(), BadSettings> {
        let mut measured = policy
            .limit_lists()
            .flatten()
            .filter(|one| is_measured(one));
        match measured.find(|limit| self.counts(limit.name()).is_none()) {
            None => Ok(()),
            Some(limit) => Err(BadSettings::Unclear {
                policy: policy.name.clone(),
                limit: limit.name().to_owned(),
            }),
        }
    }

    /// Whether a policy counts money: then a model without a price cannot be admitted.
    pub(crate) fn counts_money(&self, policy: &Policy) -> bool {
        let charged = self.charged(policy);
        charged.iter().any(|(_, counts)| *counts == Counts::Money)
    }

    /// Whether each limit on money counts parts of it: else every call costs 1 at least.
    pub(crate) fn check_money(&self, policy: &Policy) -> Result<(), BadSettings> {
        let charged = self.charged(policy);
        let mut money = charged
            .iter()
            .filter(|(_, counts)| *counts == Counts::Money);
        match money.find(|(limit, _)| limit.amounts() == Unit::ONE) {
            None => Ok(()),
            Some((limit, _)) => Err(BadSettings::WholeMoney {
                policy: policy.name.clone(),
                limit: limit.name().to_owned(),
            }),
        }
    }

    /// What to reserve for a call of `key` that goes to one of these sets.
    pub(crate) fn reserve<'a>(
        &self,
        (policy, key): (&'a Policy, &[u8]),
        sets: &[&LimitSet],
        reserved: Reserved,
        cost: &Cost,
    ) -> Amounts<'a> {
        self.amounts(policy, |limit, counts| {
            let amount = |usage: &Usage| estimated(limit, counts, usage, cost);
            reserved.within(at_most(sets, key, limit), amount)
        })
    }

    /// How many tokens of the answer are paid for by what was taken of each limit: fewer than were
    /// estimated, where a limit grants no more.
    pub(crate) fn covered(
        &self,
        policy: &Policy,
        taken: &[(String, u64)],
        reserved: Reserved,
        cost: &Cost,
    ) -> u64 {
        let charged = self.charged(policy);
        let covered = charged.iter().filter_map(|(limit, counts)| {
            let (_, taken) = taken.iter().find(|(name, _)| name == limit.name())?;
            let amount = |usage: &Usage| estimated(limit, *counts, usage, cost);
            Some(reserved.covered(*taken, amount))
        });
        covered.min().unwrap_or(reserved.output)
    }

    /// What was used; of a learnt limit, what the provider counts of a call with that bound.
    pub(crate) fn used<'a>(
        &self,
        policy: &'a Policy,
        (provider, bound): (Provider, Option<u64>),
        usage: &Usage,
        cost: &Cost,
    ) -> Amounts<'a> {
        self.amounts(policy, |limit, counts| {
            used(limit, counts, (provider, bound), usage, cost)
        })
    }

    /// What was used by an answer that may not say it: `usage` says what it is, of what was taken of a limit.
    pub(crate) fn used_of_taken<'a>(
        &self,
        policy: &'a Policy,
        by: (Provider, Option<u64>),
        (taken, reserved): (&[(String, u64)], Reserved),
        usage: impl Fn(Reserved) -> Usage,
        cost: &Cost,
    ) -> Amounts<'a> {
        self.amounts(policy, |limit, counts| {
            let mut all = taken.iter();
            let taken = all.find(|(name, _)| name == limit.name());
            let output = taken.map_or(reserved.output, |(_, taken)| {
                reserved.covered(*taken, |usage| estimated(limit, counts, usage, cost))
            });
            let usage = usage(Reserved { output, ..reserved });
            used(limit, counts, by, &usage, cost)
        })
    }

    /// An amount of each limit that wants one, in its unit.
    fn amounts<'a>(
        &self,
        policy: &'a Policy,
        amount: impl Fn(&Limit, Counts) -> u64,
    ) -> Amounts<'a> {
        let charged = self.charged(policy);
        let charged = charged.iter();
        let amounts = charged.map(|(limit, counts)| {
            let units = amount(limit, *counts);
            (limit.name(), Number::Units(units))
        });
        amounts.collect()
    }
}

/// The most that a limit grants `key` at once as of now, overridden or learnt, at any of these sets.
fn at_most(sets: &[&LimitSet], key: &[u8], limit: &Limit) -> u64 {
    let sets = sets.iter();
    let capacities = sets.filter_map(|set| set.capacity_for(key, limit.name()));
    capacities.max().unwrap_or_else(|| limit.at_most())
}

/// What each limit of a policy grants `key` at once as of now.
pub fn capacities(active: &ActivePolicy, key: &[u8]) -> SmallVec<[Option<u64>; 4]> {
    let parts = active.sets().zip(active.policy().limit_lists());
    let capacities = parts.flat_map(|(set, limits)| {
        limits
            .iter()
            .map(|limit| set.capacity_for(key, limit.name()))
    });
    capacities.collect()
}

/// Whether a request has to name an amount of it.
fn is_measured(limit: &Limit) -> bool {
    !limit.is_counted() && !limit.is_concurrency()
}

/// What a limit counts of an estimate: nothing of that is cached, whoever the provider is.
fn estimated(limit: &Limit, counts: Counts, usage: &Usage, cost: &Cost) -> u64 {
    amount(limit, counts, (Provider::Generic, usage), cost)
}

/// What a limit counts of what was used; a learnt one, what the provider counts of a call with that bound.
fn used(
    limit: &Limit,
    counts: Counts,
    (provider, bound): (Provider, Option<u64>),
    usage: &Usage,
    cost: &Cost,
) -> u64 {
    match limit.is_adaptive() {
        true => {
            let counted = provider.counts(usage, bound);
            amount(limit, counts, (provider, &counted), cost)
        }
        false => amount(limit, counts, (provider, usage), cost),
    }
}

/// What a limit counts of that use, in its unit.
fn amount(
    limit: &Limit,
    counts: Counts,
    (provider, usage): (Provider, &Usage),
    cost: &Cost,
) -> u64 {
    let amount = counts.of(provider, usage, cost);
    match counts {
        Counts::Money => in_units(amount, limit.amounts().places()),
        _ => limit.amounts().ones(amount).unwrap_or(MAX_AMOUNT),
    }
}
