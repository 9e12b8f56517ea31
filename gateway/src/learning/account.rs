//! Which limits are learnt, and under which key they count: the account's, which all callers share.

use std::sync::Arc;

use tidegate::internal::LimitInternals;
use tidegate::{Limit, LimitSet};
use tidegate_llm::Counts;
use tidegate_policy::Policy;
use tidegate_service::ActivePolicy;

use crate::settings::{BadSettings, Settings};

/// The first segment of the keys of policies with learnt limits.
const ACCOUNT: &[u8] = b"account/";

/// Whether a policy has a limit that is learnt.
pub fn learns(policy: &Policy) -> bool {
    policy.limit_lists().flatten().any(Limit::is_adaptive)
}

/// The key of a call of `caller`.
pub fn key(policy: &Policy, caller: Arc<[u8]>) -> Arc<[u8]> {
    match learns(policy) {
        true => [ACCOUNT, &caller].concat().into(),
        false => caller,
    }
}

/// The limits of a policy that its provider says: of which member, in which set.
pub(super) fn said(active: &ActivePolicy) -> impl Iterator<Item = (&str, &LimitSet, &Limit)> {
    learnt(active).filter(|(_, _, limit)| !limit.is_concurrency())
}

/// The concurrency limits of a policy that are learnt, likewise.
pub(super) fn concurrencies(
    active: &ActivePolicy,
) -> impl Iterator<Item = (&str, &LimitSet, &Limit)> {
    learnt(active).filter(|(_, _, limit)| limit.is_concurrency())
}

fn learnt(active: &ActivePolicy) -> impl Iterator<Item = (&str, &LimitSet, &Limit)> {
    let policy = active.policy();
    let names = policy.members.iter().map(|member| member.name.as_str());
    let names = names.chain(std::iter::repeat(""));
    let parts = active.sets().zip(policy.limit_lists()).zip(names);
    parts.flat_map(|((set, limits), member)| {
        let learnt = limits.iter().filter(|limit| limit.is_adaptive());
        learnt.map(move |limit| (member, set, limit))
    })
}

/// Whether the learnt limits of a policy are of one account each.
///
/// # Errors
/// [`BadSettings`]: money, which no provider says; a limit that each caller has for itself; an
/// upstream that callers bring accounts of their own to.
pub fn check(policy: &Policy, settings: &Settings) -> Result<(), BadSettings> {
    let learnt = || {
        policy
            .limit_lists()
            .flatten()
            .filter(|limit| limit.is_adaptive())
    };
    let wrong = |limit: &Limit| (policy.name.clone(), limit.name().to_owned());
    let is_money = |limit: &&Limit| settings.counts(limit.name()) == Some(Counts::Money);
    if let Some((policy, limit)) = learnt().find(is_money).map(wrong) {
        return Err(BadSettings::LearntMoney { policy, limit });
    }
    let of_caller = |limit: &&Limit| {
        let level = limit.level_in(&policy.levels);
        policy.levels.len() < 2 || level.is_ok_and(|level| level > 0)
    };
    if let Some((policy, limit)) = learnt().find(of_caller).map(wrong) {
        return Err(BadSettings::LearntByCaller { policy, limit });
    }
    // How much an upstream can serve at once is its own, whoever's account it serves.
    let is_said = learnt().any(|limit| !limit.is_concurrency());
    let mut upstreams = settings.upstreams.iter();
    match upstreams.find(|upstream| upstream.secret.is_none()) {
        Some(upstream) if is_said => Err(BadSettings::LearntOfCallers(upstream.name.clone())),
        _ => Ok(()),
    }
}
