//! Events kept with what they tell of, and listed in pages.

use std::fmt;

use tidegate_core::Timestamp;
use tidegate_store::{Change, Definition, Event, Page};

use super::event::{Action, AuditEvent, EventDraft};
use super::sorts::{OF_KEYS, OF_POLICIES};
use crate::access::Caller;
use crate::entities::subject_of;
use crate::error::ServiceError;
use crate::overrides::OverrideTarget;
use crate::service::Service;
use tidegate::Key;
use tidegate_policy::Scope;

/// The one key of a sort that is told of no definition.
const KEY: &[u8] = b"event";

impl Service {
    /// What is told of a change by `caller`.
    pub(crate) fn event(&self, caller: &Caller, subject: Vec<u8>, draft: &EventDraft<'_>) -> Event {
        let retention = self.retention();
        Event {
            subject,
            body: draft.encode(caller),
            at: self.clock().now(),
            lasts: retention.lasts,
            most: retention.most,
            version: 0,
        }
    }

    /// Has the store keep that `caller` is about to do `draft` to a key of a policy, and then
    /// does it.
    ///
    /// # Errors
    /// As [`audited`](Self::audited).
    pub(crate) async fn audited_key<T, E: fmt::Display>(
        &self,
        caller: &Caller,
        (policy, key): (&str, Key<'_>),
        draft: &EventDraft<'_>,
        change: impl Future<Output = Result<T, E>>,
    ) -> Result<Result<T, E>, ServiceError> {
        let target = OverrideTarget::everything().of_policy(policy);
        let target = target.of_key(key.bytes());
        self.audited(caller, (OF_KEYS, &target), draft, change)
            .await
    }

    /// Has the store keep among the events of `sort` what `caller` is about to do to `target`,
    /// and then does it: nothing is done that no event tells of, whoever hangs up and whatever
    /// fails in between. What has failed is told by a second event.
    ///
    /// # Errors
    /// A store that cannot tell: then nothing is done. Inside is what became of it.
    async fn audited<T, E: fmt::Display>(
        &self,
        caller: &Caller,
        (sort, target): (&str, &OverrideTarget),
        draft: &EventDraft<'_>,
        change: impl Future<Output = Result<T, E>>,
    ) -> Result<Result<T, E>, ServiceError> {
        self.keep_event(caller, (sort, target), draft).await?;
        let done = change.await;
        if let Err(error) = &done {
            let mut details = vec![draft.action.name().to_owned(), error.to_string()];
            details.extend_from_slice(draft.details);
            let failed = EventDraft {
                details: &details,
                ..EventDraft::of(Action::Failed)
            };
            // The caller is told why it failed; that this is not kept says less.
            self.keep_event(caller, (sort, target), &failed).await.ok();
        }
        Ok(done)
    }

    async fn keep_event(
        &self,
        caller: &Caller,
        (sort, target): (&str, &OverrideTarget),
        draft: &EventDraft<'_>,
    ) -> Result<(), ServiceError> {
        let event = self.event(caller, target.encode(), draft);
        let change = Change::from(Definition::new(KEY, [1])).telling(event);
        self.tell(sort, change).await?;
        Ok(())
    }

    /// Has the store keep that `caller` changes this of the policies, and then does it by
    /// `apply`.
    ///
    /// # Errors
    /// A store that cannot tell: then `apply` is not begun. Inside is what it came to.
    pub async fn apply_policies<T, E: fmt::Display>(
        &self,
        caller: &Caller,
        changes: &[crate::Change],
        apply: impl Future<Output = Result<T, E>>,
    ) -> Result<Result<T, E>, ServiceError> {
        let details: Vec<_> = changes.iter().map(ToString::to_string).collect();
        let draft = EventDraft {
            details: &details,
            ..EventDraft::of(Action::ApplyPolicies)
        };
        let everything = OverrideTarget::everything();
        let of_policies = (OF_POLICIES, &everything);
        self.audited(caller, of_policies, &draft, apply).await
    }

    /// A page of the events that `caller` may observe, in the order of time: of this
    /// policy (also of all policies, where one says that it changed this) and of this key, as far
    /// as `of` names them, or of this entity, since one instant and before another.
    /// A page may have fewer than it is asked for, or none, and not be the last.
    ///
    /// # Errors
    /// [`ServiceError::Forbidden`], of a policy that the caller may not observe, or where that is
    /// none; what is out of its bounds; an end that no page has had; a store that cannot tell.
    pub(crate) async fn audit(
        &self,
        caller: &Caller,
        (of, entity): (&OverrideTarget, Option<&str>),
        within: [Option<Timestamp>; 2],
        (after, most): (Option<&[u8]>, usize),
    ) -> Result<Page<AuditEvent>, ServiceError> {
        match &of.policy {
            Some(policy) => caller.check(Scope::Observe, Some(policy))?,
            None => caller.check_some(Scope::Observe)?,
        }
        let subject = match entity {
            Some(id) => Some(subject_of(id)),
            None if of.policy.is_some() && of.key.is_some() => Some(of.encode()),
            None => None,
        };
        let [since, until] = within;
        let page = self.events_of_all_sorts(subject.as_deref(), after, most);
        let page = page.await?;
        let wanted = |event: &AuditEvent| {
            let target = &event.target;
            let names = |policy: &String| event.names(policy);
            let policy = of.policy.is_none()
                || of.policy == target.policy
                || of.policy.as_ref().is_some_and(names);
            let key = of.key.is_none() || of.key == target.key;
            let is_late = since.is_none_or(|since| event.at >= since);
            let is_early = until.is_none_or(|until| event.at < until);
            let may = caller.check(Scope::Observe, target.policy.as_deref());
            // A token of one namespace is told of no other.
            let may = may.is_ok()
                && (!event.action.is_of_namespaces() || caller.is_for_every_namespace());
            policy && key && is_late && is_early && may
        };
        let read = page.items.iter().map(AuditEvent::read);
        Ok(Page {
            items: read.filter(wanted).collect(),
            next: page.next,
        })
    }
}
