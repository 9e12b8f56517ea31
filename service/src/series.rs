//! Which names have a label of their own.
//!
//! A series is never dropped, and names come from others: whoever administers a namespace
//! applies policies in it, and an override adds limits. So only so many names of each sort
//! have series of their own in one process, however many come and go, and the rest
//! share a label. Each namespace has its own part, which another cannot fill.

use std::collections::{BTreeMap, BTreeSet};

use metrics::Label;
use tidegate_store::sync::Mutex;

/// So many namespaces have a label of their own.
const MOST_NAMESPACES: usize = 1_000;

/// So many policies of each namespace.
const MOST_POLICIES: usize = 1_000;

/// So many limits of all policies of each namespace.
const MOST_LIMITS: usize = 10_000;

/// The label of every other.
const OTHER: &str = "other";

static NAMES: Mutex<Names> = Mutex::new(Names::new());

/// What the series of one policy are called by.
pub(super) struct Series {
    policy: String,
    namespace: Option<String>,
    is_shared: bool,
}

impl Series {
    /// Those of `policy`, in a namespace if it is of one.
    pub(super) fn of(policy: &str, namespace: Option<&str>) -> Self {
        NAMES.lock().series(policy, namespace)
    }

    /// Whether other policies may have the same: then a gauge says nothing of any of them.
    pub(super) const fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// The policy, and the namespace if it is of one.
    pub(super) fn labels(&self) -> Vec<Label> {
        let label = |name: &'static str, value: &String| Label::new(name, value.clone());
        let namespace = self.namespace.as_ref();
        let namespace = namespace.map(|name| label("namespace", name));
        let policy = label("policy", &self.policy);
        [Some(policy), namespace].into_iter().flatten().collect()
    }

    /// What one of its limits is called by.
    pub(super) fn limit<'a>(&self, limit: &'a str) -> &'a str {
        let is_named = NAMES.lock().has_limit(self, limit);
        if is_named { limit } else { OTHER }
    }
}

/// The names that have a label of their own.
struct Names {
    namespaces: BTreeSet<String>,
    /// By the label of their namespace.
    of: BTreeMap<Option<String>, OfNamespace>,
}

#[derive(Default)]
struct OfNamespace {
    /// The limits of each policy.
    policies: BTreeMap<String, BTreeSet<String>>,
    /// How many those are of all.
    limits: usize,
}

impl Names {
    const fn new() -> Self {
        Self {
            namespaces: BTreeSet::new(),
            of: BTreeMap::new(),
        }
    }

    fn series(&mut self, policy: &str, namespace: Option<&str>) -> Series {
        let has_own = namespace.is_none_or(|name| self.has_namespace(name));
        let namespace = namespace.map(|name| if has_own { name } else { OTHER }.to_owned());
        let part = self.of.entry(namespace.clone()).or_default();
        let is_named = part.has_policy(policy);
        Series {
            policy: if is_named { policy } else { OTHER }.to_owned(),
            namespace,
            is_shared: !has_own || !is_named,
        }
    }

    fn has_namespace(&mut self, name: &str) -> bool {
        if self.namespaces.contains(name) {
            return true;
        }
        let fits = self.namespaces.len() < MOST_NAMESPACES;
        fits && self.namespaces.insert(name.to_owned())
    }

    fn has_limit(&mut self, series: &Series, limit: &str) -> bool {
        let part = self.of.get_mut(&series.namespace);
        part.is_some_and(|part| part.has_limit(&series.policy, limit))
    }
}

impl OfNamespace {
    fn has_policy(&mut self, name: &str) -> bool {
        if self.policies.contains_key(name) {
            return true;
        }
        let fits = self.policies.len() < MOST_POLICIES;
        if fits {
            self.policies.insert(name.to_owned(), BTreeSet::new());
        }
        fits
    }

    /// The limits of a policy without a label of its own have none either.
    fn has_limit(&mut self, policy: &str, limit: &str) -> bool {
        let Some(limits) = self.policies.get_mut(policy) else {
            return false;
        };
        if limits.contains(limit) {
            return true;
        }
        let fits = self.limits < MOST_LIMITS;
        if fits {
            self.limits += 1;
            limits.insert(limit.to_owned());
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_namespaces_have_series_of_their_own_and_the_rest_share_one() {
        let mut names = Names::new();
        // One may be called as the rest are.
        assert!(!names.series("p", Some(OTHER)).is_shared());
        for nth in 1..2 * MOST_NAMESPACES {
            let series = names.series("p", Some(&format!("n{nth}")));
            assert_eq!(series.is_shared(), nth >= MOST_NAMESPACES);
        }
        assert_eq!(names.of.len(), MOST_NAMESPACES);
        let named = |names: &mut Names, name| names.series("p", Some(name)).namespace;
        assert_eq!(named(&mut names, "n1").as_deref(), Some("n1"));
        assert_eq!(named(&mut names, "one-more").as_deref(), Some(OTHER));
    }

    /// Policies of new names, applied again and again in one namespace, left some ten series
    /// each for as long as the server ran.
    #[test]
    fn policies_that_come_and_go_in_a_namespace_leave_so_many_series_and_no_more() {
        let mut names = Names::new();
        let mut labels = BTreeSet::new();
        for application in 0..50 {
            for nth in 0..100 {
                let name = format!("p{application}-{nth}");
                let series = names.series(&name, Some("a"));
                assert_eq!(series.is_shared(), series.policy == OTHER);
                labels.insert(series.policy);
            }
        }
        assert_eq!(labels.len(), MOST_POLICIES + 1);
        assert!(labels.contains("p0-0") && labels.contains(OTHER));
        assert_eq!(names.series("p0-0", Some("a")).policy, "p0-0");
        for another in [Some("b"), None] {
            assert_eq!(names.series("new", another).policy, "new");
        }
    }

    #[test]
    fn limits_that_overrides_add_leave_so_many_series_and_no_more() {
        let mut names = Names::new();
        let series = names.series("p", Some("a"));
        let limit = |nth: usize| format!("limit {nth}");
        let mut own = 0;
        for nth in 0..2 * MOST_LIMITS {
            own += usize::from(names.has_limit(&series, &limit(nth)));
        }
        assert_eq!(own, MOST_LIMITS);
        assert!(names.has_limit(&series, &limit(0)));
        let another = names.series("p", Some("b"));
        assert!(names.has_limit(&another, &limit(2 * MOST_LIMITS)));
    }
}
