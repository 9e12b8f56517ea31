//! How a pool is made.

use std::sync::Arc;

use super::balance::{Balance, Balancer};
use super::ledger::Ledger;
use super::member::Member;
use super::verbs::LimitPool;
use crate::error::BuildError;
use crate::set::LimitSet;

/// Makes a [`LimitPool`]; [`LimitPool::builder`] begins one.
#[derive(Default)]
#[must_use = "a pool is made by build"]
pub struct LimitPoolBuilder {
    members: Vec<(String, LimitSet, u32)>,
    balance: Option<Balance>,
    balancer: Option<Box<dyn Balancer>>,
    seed: Option<u64>,
    before: Option<LimitPool>,
}

impl LimitPool {
    /// Begins a pool.
    pub fn builder() -> LimitPoolBuilder {
        LimitPoolBuilder::default()
    }
}

impl LimitPoolBuilder {
    /// Adds a set of weight 1, under a name that its leases will tell.
    pub fn member(self, name: impl Into<String>, set: LimitSet) -> Self {
        self.weighted(name, set, 1)
    }

    /// Adds a set that can take `weight` times (1 to 2^32 - 1) as much as one
    /// of weight 1. It does, unless another [balance](Self::balance) is said that does not
    /// weigh.
    pub fn weighted(mut self, name: impl Into<String>, set: LimitSet, weight: u32) -> Self {
        self.members.push((name.into(), set, weight));
        self
    }

    /// Who is tried first. If not said, members are tried in turn, and by weight
    /// ([`Balance::Weighted`]) where their weights differ.
    pub fn balance(mut self, balance: Balance) -> Self {
        self.balance = Some(balance);
        self.balancer = None;
        self
    }

    /// Who is tried first, by a balancer of your own.
    pub fn balancer(mut self, balancer: impl Balancer + 'static) -> Self {
        self.balancer = Some(Box::new(balancer));
        self
    }

    /// What [`Balance::Random`] draws from: the same for the same seed. Drawn
    /// itself if not said.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Goes on where `pool` stands: members of the same name and set keep their
    /// load and their cool-down, and what the pool has counted stays.
    pub(crate) fn after(mut self, pool: &LimitPool) -> Self {
        self.before = Some(pool.clone());
        self
    }

    /// The pool.
    ///
    /// # Errors
    /// [`BuildError::Nothing`] without members, [`BuildError::DuplicateMember`],
    /// [`BuildError::ZeroWeight`].
    pub fn build(self) -> Result<LimitPool, BuildError> {
        check(&self.members)?;
        let before = self.before;
        let known = before.as_ref().map(|pool| Arc::clone(pool.ledger()));
        let ledger = known.unwrap_or_else(|| Arc::new(Ledger::default()));
        let seed = self.seed.unwrap_or_else(rand::random);
        let weights = self.members.iter().map(|(.., weight)| *weight);
        let balance = self.balance.unwrap_or_else(|| Balance::of_weights(weights));
        let built_in = || balance.balancer(self.members.len(), seed);
        let balancer = self.balancer.unwrap_or_else(built_in);
        let members = self.members.into_iter().enumerate();
        let members = members.map(|(position, given)| {
            let before = before.as_ref().and_then(|pool| pool.member(&given.0));
            Member::new(position, given, &ledger, before)
        });
        Ok(LimitPool::new(members.collect(), balancer, ledger))
    }
}

fn check(members: &[(String, LimitSet, u32)]) -> Result<(), BuildError> {
    if members.is_empty() {
        return Err(BuildError::Nothing("member"));
    }
    for (index, (name, _, weight)) in members.iter().enumerate() {
        if *weight == 0 {
            return Err(BuildError::ZeroWeight(name.clone()));
        }
        if members[..index].iter().any(|(earlier, ..)| earlier == name) {
            return Err(BuildError::DuplicateMember(name.clone()));
        }
    }
    Ok(())
}

impl std::fmt::Debug for LimitPoolBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LimitPoolBuilder")
            .field("members", &self.members)
            .field("balance", &self.balance)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}
