//! What all keys of a policy may use, have left and owe, added up page by page.

use std::future::Future;

use tidegate::internal::{LimitInternals, pending};
use tidegate::{ListedKey, PageOf, Pending};
use tidegate_store::{Page, key};

use super::active_policy::ActivePolicy;
use super::error::{ServiceError, cut};

/// What the keys of a page come to: the sums of what a peek of each of them tells.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Capacity {
    /// How many keys were looked at: at most a page of them.
    pub keys: u64,
    /// What each limit comes to, in the order in which they were met.
    pub limits: Vec<LimitCapacity>,
}

/// What one limit comes to, over the keys of its level. Amounts are in the limit's unit.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LimitCapacity {
    /// The limit's name.
    pub limit: String,
    /// The level of keys that it is about; nothing where levels have no names.
    pub level: Option<String>,
    /// How many keys are added up.
    pub keys: u64,
    /// The most that could ever be granted at once.
    pub capacity: u64,
    /// What could be granted now.
    pub available: u64,
    /// What was used beyond the limit and is not paid back.
    pub debt: u64,
}

impl ActivePolicy {
    /// The sums of a page of the keys that have used something: of each key those limits that
    /// are about it, and not about an ancestor, which is a key of its own; of the limits of
    /// `level` alone, if it is said. Nobody is held up: each key is looked at by itself, as it
    /// stands at that moment.
    ///
    /// # Errors
    /// A level that the policy does not have; as [`list_keys`](Self::list_keys).
    pub fn capacity<'a>(
        &'a self,
        level: Option<&'a str>,
        page: PageOf<'a>,
    ) -> Pending<impl Future<Output = Result<Page<Capacity>, ServiceError>> + Send> {
        pending(async move {
            let only = level.map(|level| self.level(level)).transpose()?;
            let Page { items, next } = self.list_keys(page).await?;
            let mut sum = Capacity::default();
            for listed in &items {
                self.add(&mut sum, listed, only);
            }
            Ok(Page {
                items: vec![sum],
                next,
            })
        })
    }

    fn level(&self, name: &str) -> Result<usize, ServiceError> {
        let levels = &self.policy().levels;
        let found = levels.iter().position(|level| level == name);
        found.ok_or_else(|| ServiceError::UnknownLevel {
            name: cut(name).into_owned(),
            known: match levels.is_empty() {
                true => "none: they are of one level, which has no name".to_owned(),
                false => format!("`{}`", levels.join("`, `")),
            },
        })
    }

    fn add(&self, sum: &mut Capacity, listed: &ListedKey, only: Option<usize>) {
        let levels = &self.policy().levels;
        let level = key::level_of_row(&listed.key, levels.len());
        sum.keys += 1;
        if only.is_some_and(|only| only != level) {
            return;
        }
        for (name, standing) in listed.decision.standings() {
            let limit = listed.decision.limit(name);
            if limit.is_none_or(|limit| limit.level_in(levels) != Ok(level)) {
                continue;
            }
            let limits = &mut sum.limits;
            let at = limits.iter().position(|one| one.limit == name);
            let at = at.unwrap_or_else(|| {
                limits.push(LimitCapacity {
                    limit: name.to_owned(),
                    level: levels.get(level).cloned(),
                    keys: 0,
                    capacity: 0,
                    available: 0,
                    debt: 0,
                });
                limits.len() - 1
            });
            let one = &mut limits[at];
            one.keys += 1;
            // A page of the largest amounts fits.
            one.capacity = one.capacity.saturating_add(standing.limit);
            one.available = one.available.saturating_add(standing.remaining);
            one.debt = one.debt.saturating_add(standing.debt);
        }
    }
}
