//! Whether policies can be served on these terms.

use std::collections::HashSet;

use tidegate_policy::{Policy, PolicyFile};

use crate::fair;
use crate::learning;
use crate::settings::{BadSettings, Settings};

impl Settings {
    /// Whether a gateway on these terms can serve these policies; `is_open` if it lets in whoever
    /// comes, without a token.
    ///
    /// # Errors
    /// [`BadSettings`]: each says what to write instead.
    pub fn check(&self, policies: &PolicyFile, is_open: bool) -> Result<(), BadSettings> {
        if self.upstreams.is_empty() {
            return Err(BadSettings::NoUpstream);
        }
        let mut names = HashSet::new();
        for upstream in &self.upstreams {
            upstream.check()?;
            if !names.insert(&upstream.name) {
                return Err(BadSettings::Twice(upstream.name.clone()));
            }
            if upstream.secret.is_none() && !is_open {
                return Err(BadSettings::NoSecret(upstream.name.clone()));
            }
        }
        self.check_callers()?;
        let models = self.models.iter().map(|(_, policy)| policy);
        let mut names = models.chain([&self.policy]);
        names.try_for_each(|name| {
            let policy = policies.get(name).ok_or_else(|| {
                let known = policies.names().map(|name| format!("`{name}`"));
                BadSettings::NoPolicy {
                    name: name.clone(),
                    known: known.collect::<Vec<_>>().join(", "),
                }
            });
            check_policy(policy?, self)
        })
    }
}

/// Whether keys have the levels that limits are of, and callers that queue something to queue for.
fn check_shared(policy: &Policy, settings: &Settings) -> Result<(), BadSettings> {
    if settings.key_root.is_some() && policy.levels.len() < 2 {
        return Err(BadSettings::FlatKeys(policy.name.clone()));
    }
    let is_one_callers =
        settings.key_root.is_none() && !settings.names_callers() && !learning::learns(policy);
    let mut limits = policy.limit_lists().flatten();
    let shares_some = limits.any(|limit| fair::is_shared(policy, limit));
    if settings.fair && (is_one_callers || !shares_some) {
        return Err(BadSettings::NothingShared(policy.name.clone()));
    }
    check_levels(policy, settings)
}

/// Whether keys made of credentials have every level. What a header or a path says may have any.
fn check_levels(policy: &Policy, settings: &Settings) -> Result<(), BadSettings> {
    let has_root = settings.key_root.is_some() || learning::learns(policy);
    let made = 1 + usize::from(has_root);
    if settings.names_callers() || policy.partial_keys || policy.levels.len() <= made {
        return Ok(());
    }
    Err(BadSettings::MoreLevels {
        policy: policy.name.clone(),
        levels: policy.levels.len(),
        has_root,
    })
}

fn check_policy(policy: &Policy, settings: &Settings) -> Result<(), BadSettings> {
    settings.check_limits(policy)?;
    settings.check_members(policy)?;
    learning::check(policy, settings)?;
    check_shared(policy, settings)?;
    if !policy.is_pool() && settings.upstreams.len() > 1 {
        return Err(BadSettings::NoPool(policy.name.clone()));
    }
    let has_no_prices = settings.prices.is_empty() && settings.file_costs.prices.is_empty();
    if has_no_prices && settings.counts_money(policy) {
        return Err(BadSettings::NoPrices(policy.name.clone()));
    }
    settings.check_money(policy)?;
    let mut members = policy.members.iter().map(|member| &*member.name);
    match members.find(|member| settings.upstream(Some(member)).is_none()) {
        None => Ok(()),
        Some(member) => Err(BadSettings::NoUpstreamOf {
            policy: policy.name.clone(),
            member: member.to_owned(),
        }),
    }
}
