//! Events kept with what they tell of, and listed in pages.

use tidegate_core::Timestamp;
use tidegate_store::{Change, Definition, Event, Page};

use super::event::{AuditEvent, EventDraft, KEY};
use crate::access::Caller;
use crate::error::ServiceError;
use crate::overrides::OverrideTarget;
use crate::service::Service;
use tidegate::Key;
use tidegate_policy::Scope;

impl Service {
    /// What is told of a change by `caller`.
    pub(crate) fn event(
        &self,
        caller: &Caller,
        target: &OverrideTarget,
        draft: &EventDraft<'_>,
    ) -> Event {
        let retention = self.retention();
        Event {
            subject: target.encode(),
            body: draft.encode(caller),
            at: self.clock().now(),
            lasts: retention.lasts,
            most: retention.most,
            version: 0,
        }
    }

    /// Keeps what is told of something that is no definition, once it is done.
    ///
    /// # Errors
    /// A store that cannot tell: it is done all the same.
    pub(crate) async fn keep_event(
        &self,
        caller: &Caller,
        target: &OverrideTarget,
        draft: &EventDraft<'_>,
    ) -> Result<(), ServiceError> {
        let event = self.event(caller, target, draft);
        let change = Change::from(Definition::new(KEY, [1])).telling(event);
        self.tell(change).await?;
        Ok(())
    }

    /// Keeps that `caller` has changed what the policies say.
    ///
    /// # Errors
    /// A store that cannot tell: they are changed all the same.
    pub async fn note_policies(
        &self,
        caller: &Caller,
        changes: &[crate::Change],
    ) -> Result<(), ServiceError> {
        let details: Vec<_> = changes.iter().map(ToString::to_string).collect();
        let draft = EventDraft {
            details: &details,
            ..EventDraft::of(super::Action::ApplyPolicies)
        };
        self.keep_event(caller, &OverrideTarget::system(), &draft)
            .await
    }

    /// Keeps that `caller` has done `draft` to a key of a policy.
    pub(crate) async fn note_key(
        &self,
        caller: &Caller,
        (policy, key): (&str, Key<'_>),
        draft: &EventDraft<'_>,
    ) -> Result<(), ServiceError> {
        let target = OverrideTarget::system().of_resource(policy);
        let target = target.of_entity(key.bytes());
        self.keep_event(caller, &target, draft).await
    }

    /// A page of the events that `caller` may observe, in the order in which they happened: of
    /// this policy and of this key, as far as `of` names them, since one instant and before
    /// another. A
    /// page may have fewer than it is asked for, or none, and not be the last.
    ///
    /// # Errors
    /// [`ServiceError::Forbidden`], of a policy that the caller may not observe; what is out
    /// of its bounds; an end that no page has had; a store that cannot tell.
    pub(crate) async fn audit(
        &self,
        caller: &Caller,
        of: &OverrideTarget,
        within: [Option<Timestamp>; 2],
        (after, most): (Option<&[u8]>, usize),
    ) -> Result<Page<AuditEvent>, ServiceError> {
        if let Some(policy) = &of.resource {
            caller.check(Scope::Observe, Some(policy))?;
        }
        let subject = of.resource.is_some() && of.entity.is_some();
        let subject = subject.then(|| of.encode());
        let [since, until] = within;
        let page = self.events(subject.as_deref(), after, most).await?;
        let wanted = |event: &AuditEvent| {
            let target = &event.target;
            let resource = of.resource.is_none() || of.resource == target.resource;
            let entity = of.entity.is_none() || of.entity == target.entity;
            let is_late = since.is_none_or(|since| event.at >= since);
            let is_early = until.is_none_or(|until| event.at < until);
            let may = caller.check(Scope::Observe, target.resource.as_deref());
            resource && entity && is_late && is_early && may.is_ok()
        };
        let read = page.items.iter().map(AuditEvent::read);
        Ok(Page {
            items: read.filter(wanted).collect(),
            next: page.next,
        })
    }
}
