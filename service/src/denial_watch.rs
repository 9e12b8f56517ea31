//! Who is told of which refusals.

use std::sync::Arc;

use tidegate_policy::Scope;

use super::access::Caller;
use super::bounds;
use super::denials::{Denial, Frequent, Watcher};
use super::error::ServiceError;
use super::service::Service;
use super::spans;

/// The refusals of one policy, or of all, that somebody may observe, from now on.
#[derive(Clone, Debug)]
pub struct DenialWatch {
    service: Service,
    caller: Caller,
    policy: Option<String>,
}

impl Service {
    /// The keys refused most often, of `policy` or of all that `caller` may observe.
    pub(super) fn denied(
        &self,
        caller: &Caller,
        policy: Option<&str>,
        most: Option<u64>,
    ) -> Result<Vec<Frequent>, ServiceError> {
        let most = spans::record_error(bounds::most_denied(most))?;
        let watch = self.denial_watch(caller, policy)?;
        let all = self.most_denied(usize::MAX).into_iter();
        let theirs = all.filter(|frequent| watch.is_theirs(caller, &frequent.policy));
        Ok(theirs.take(most).collect())
    }

    /// What `caller` may be told of `policy`, or of all that they may observe.
    pub(super) fn denial_watch(
        &self,
        caller: &Caller,
        policy: Option<&str>,
    ) -> Result<DenialWatch, ServiceError> {
        match policy {
            Some(policy) => _ = self.policy(caller, Scope::Observe, policy)?,
            None => caller.check_some(Scope::Observe)?,
        }
        Ok(DenialWatch {
            service: self.clone(),
            caller: caller.clone(),
            policy: policy.map(str::to_owned),
        })
    }
}

impl DenialWatch {
    /// Tells each of them, for as long as what comes back is kept; in place of the first one
    /// after the caller's token is one no more, that. It is told on the thread that
    /// refuses, and must not block.
    #[must_use]
    pub fn tell(
        self,
        tell: impl Fn(Result<&Denial<'_>, ServiceError>) + Send + Sync + 'static,
    ) -> Arc<Watcher> {
        let service = self.service.clone();
        let watcher: Arc<Watcher> = Arc::new(move |denial: &Denial<'_>| {
            if self.is_meant(denial.policy) {
                // The tokens may have been replaced since.
                match self.service.readmit(&self.caller) {
                    Ok(caller) if !self.is_theirs(&caller, denial.policy) => {}
                    Ok(_) => tell(Ok(denial)),
                    Err(wrong) => tell(Err(wrong)),
                }
            }
        });
        service.watch_denials(&watcher);
        watcher
    }

    fn is_meant(&self, policy: &str) -> bool {
        self.policy.as_deref().is_none_or(|meant| meant == policy)
    }

    fn is_theirs(&self, caller: &Caller, policy: &str) -> bool {
        self.is_meant(policy) && caller.check(Scope::Observe, Some(policy)).is_ok()
    }
}
