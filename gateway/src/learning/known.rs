//! What is known of learnt limits: a few, those of the policies that were asked.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use tidegate::Limit;
use tidegate_service::ActivePolicy;

/// Something of each limit that was asked for.
pub(super) struct Known<T>(RwLock<Vec<Entry<T>>>);

/// One limit, as a file has it, and what is known of it.
struct Entry<T> {
    policy: String,
    member: String,
    limit: Limit,
    /// The policies that it is of, before and after a file was changed: while one is in use, so is
    /// this.
    of: Mutex<Vec<Weak<ActivePolicy>>>,
    known: Arc<T>,
}

impl<T> Default for Known<T> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<T> Known<T> {
    /// What is known of a limit of that policy and member; `new` makes it beside all others that are
    /// in use, if it was never asked for as it is now in the file.
    pub(super) fn of(
        &self,
        active: &Arc<ActivePolicy>,
        member: &str,
        limit: &Limit,
        new: impl FnOnce(&[Arc<T>]) -> T,
    ) -> Arc<T> {
        let policy = &*active.policy().name;
        let find = |all: &Vec<Entry<T>>| {
            let mut all = all.iter();
            let entry = all.find(|entry| entry.is(policy, member, limit))?;
            entry.is_of(active);
            Some(Arc::clone(&entry.known))
        };
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = find(&all) {
            return known;
        }
        drop(all);
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = find(&all) {
            return known;
        }
        // Of a file that was changed, once no call goes by that any more.
        let has = |limit: &Limit| {
            active
                .policy()
                .limit_lists()
                .flatten()
                .any(|one| one == limit)
        };
        let stays = |entry: &Entry<T>| entry.policy == *policy && has(&entry.limit);
        all.retain(|entry| stays(entry) || !entry.in_use().is_empty());
        let others: Vec<_> = all.iter().map(|entry| Arc::clone(&entry.known)).collect();
        let known = Arc::new(new(&others));
        all.push(Entry {
            policy: policy.to_owned(),
            member: member.to_owned(),
            limit: limit.clone(),
            of: Mutex::new(vec![Arc::downgrade(active)]),
            known: Arc::clone(&known),
        });
        known
    }

    /// The policies that a call or the service goes by.
    pub(super) fn in_use(&self) -> Vec<Arc<ActivePolicy>> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        all.iter().flat_map(Entry::in_use).collect()
    }
}

impl<T> Entry<T> {
    fn is(&self, policy: &str, member: &str, limit: &Limit) -> bool {
        self.policy == policy && self.member == member && self.limit == *limit
    }

    fn of(&self) -> MutexGuard<'_, Vec<Weak<ActivePolicy>>> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It is a limit of that policy.
    fn is_of(&self, active: &Arc<ActivePolicy>) {
        let mut of = self.of();
        if of.iter().all(|known| known.as_ptr() != Arc::as_ptr(active)) {
            of.retain(|known| known.strong_count() > 0);
            of.push(Arc::downgrade(active));
        }
    }

    fn in_use(&self) -> Vec<Arc<ActivePolicy>> {
        self.of().iter().filter_map(Weak::upgrade).collect()
    }
}

#[cfg(test)]
mod tests {
    use tidegate::internal::LimitInternals;
    use tidegate_service::{Scope, Service};

    use super::*;

    /// A limit stays while a policy that it is of is in use; each reload that changed another limit of
    /// the policy left something for good.
    #[test]
    fn of_policies_that_are_gone_nothing_is_kept() {
        let file = |tokens: u64, calls: u64| {
            let text = format!(
                "[policy.llm]\nkey = 'account/caller'\n[policy.llm.limits]\n\
                 tokens = {{ rate = {tokens}, per = '1m', level = 'account', learnt = true }}\n\
                 calls = {{ calls = {calls}, per = '1m' }}\n"
            );
            tidegate_policy::parse("p.toml", &text).expect("a sound file")
        };
        let service = Service::builder().build(&file(100, 1)).expect("it begins");
        let active = || {
            let caller = service.enter(None).expect("it is open");
            let active = service.policy(&caller, Scope::Decide, "llm");
            active.expect("it is there")
        };
        let known = Known::<usize>::default();
        // How many others there were when it was made.
        let of = |active: &Arc<ActivePolicy>| {
            let mut limits = active.policy().limit_lists().flatten();
            let limit = limits.find(|limit| limit.is_adaptive()).expect("tokens");
            *known.of(active, "", limit, |others| others.len())
        };
        assert_eq!(of(&active()), 0);
        for calls in 2..20 {
            let changed = service.exchange("test", &file(100, calls));
            changed.expect("a sound file");
            of(&active());
        }
        let kept = || {
            let all = known.0.read().expect("nobody panicked");
            all.iter()
                .map(|entry| entry.of().len())
                .collect::<Vec<usize>>()
        };
        assert!(kept()[0] <= 2, "{:?}", kept());
        let before = active();
        let is_there = Arc::downgrade(&before);
        service
            .exchange("test", &file(200, 1))
            .expect("a sound file");
        assert_eq!(of(&active()), 1, "a call goes by the one before");
        drop(before);
        assert_eq!(is_there.strong_count(), 0);
        service
            .exchange("test", &file(300, 1))
            .expect("a sound file");
        assert_eq!(of(&active()), 0, "nobody goes by either");
        assert_eq!(kept().len(), 1);
    }
}
