//! Namespaces at the service: who may create, delete, restore, purge and see them.

use std::time::Duration;

use tidegate_core::Span;
use tidegate_store::{Change, Defined, Definition, Page, Store as _, StoreError};

use super::error::NamespaceError;
use super::record::{Namespace, OWNER, Purge, check_name, stored_name};
use super::state::NamespaceState;
use crate::access::Caller;
use crate::audit::{self, Action, EventDraft};
use crate::bounds;
use crate::error::{ServiceError, cut};
use crate::overrides::OverrideTarget;
use crate::service::Service;
use tidegate_policy::Scope;
use tidegate_store::NamespacedStore;

/// Every server of a store has heard of a deletion within five seconds; what a server had begun
/// by then has come to an end within as long again.
const SETTLED: Duration = Duration::from_secs(10);

/// So many steps of a clear one call makes.
const MOST_STEPS: usize = 64;

/// So often a change is tried on what somebody else has just left there.
const MOST_TRIES: usize = 64;

impl Service {
    /// Has the store keep a new namespace, which every server of the store serves from then on.
    /// An audit event is kept in the same step.
    ///
    /// # Errors
    /// [`ServiceError::Forbidden`], [`ServiceError::OtherNamespace`]: it takes a token for every
    /// namespace with the scope to administer all policies; what is out of its bounds;
    /// [`NamespaceError::Exists`], [`NamespaceError::TooMany`]; a store that cannot tell.
    pub async fn create_namespace(
        &self,
        caller: &Caller,
        name: &str,
        reason: Option<&str>,
    ) -> Result<Namespace, ServiceError> {
        caller.check_every_namespace(Scope::Administer)?;
        check_name(name)?;
        bounds::reason(reason)?;
        let exists = |there: Namespace| NamespaceError::Exists {
            name: there.name,
            state: there.state,
        };
        if let Some(there) = self.namespace_there(name).await? {
            return Err(exists(there).into());
        }
        self.registry()?.has_room()?;
        let now = self.clock().now();
        let new = Namespace {
            name: name.to_owned(),
            version: 0,
            state: NamespaceState::Active,
            created_at: Some(now),
            changed_at: Some(now),
            by: Some(caller.name().to_owned()),
            id: rand::random(),
        };
        let put = self.put_namespace(caller, (Action::CreateNamespace, reason), new);
        match put.await? {
            Ok(created) => Ok(created),
            Err(Some(there)) => Err(exists(there).into()),
            Err(None) => Err(outrun(name)),
        }
    }

    /// Has a namespace answer nobody from then on, on every server of the store; it keeps all
    /// that it has. One that is deleted already stays so. An audit event is kept in the same
    /// step.
    ///
    /// # Errors
    /// As [`create_namespace`](Self::create_namespace); [`NamespaceError::Unknown`],
    /// [`NamespaceError::Purging`].
    pub async fn delete_namespace(
        &self,
        caller: &Caller,
        name: &str,
        reason: Option<&str>,
    ) -> Result<Namespace, ServiceError> {
        let to = (NamespaceState::Deleted, Action::DeleteNamespace);
        self.turn_namespace(caller, name, to, reason).await
    }

    /// Has a namespace that was deleted answer again, with all that it had. One that is in use
    /// stays so. An audit event is kept in the same step.
    ///
    /// # Errors
    /// As [`delete_namespace`](Self::delete_namespace).
    pub async fn restore_namespace(
        &self,
        caller: &Caller,
        name: &str,
        reason: Option<&str>,
    ) -> Result<Namespace, ServiceError> {
        let to = (NamespaceState::Active, Action::RestoreNamespace);
        self.turn_namespace(caller, name, to, reason).await
    }

    async fn turn_namespace(
        &self,
        caller: &Caller,
        name: &str,
        (state, action): (NamespaceState, Action),
        reason: Option<&str>,
    ) -> Result<Namespace, ServiceError> {
        caller.check_every_namespace(Scope::Administer)?;
        check_name(name)?;
        bounds::reason(reason)?;
        for _ in 0..MOST_TRIES {
            let there = self.namespace_or_unknown(name).await?;
            if there.state == state {
                return Ok(there);
            }
            if there.state == NamespaceState::Purging {
                return Err(NamespaceError::Purging(there.name).into());
            }
            let turned = self.turned(there, state, caller);
            let put = self.put_namespace(caller, (action, reason), turned);
            if let Ok(turned) = put.await? {
                return Ok(turned);
            }
        }
        Err(outrun(name))
    }

    /// Removes all that a deleted namespace has, and then itself: some of it in each call, which
    /// begins again wherever the one before it was cut short. The first of these calls is told of
    /// by an audit event, before it removes anything; from then on nothing is restored.
    ///
    /// # Errors
    /// As [`create_namespace`](Self::create_namespace); [`NamespaceError::Unknown`],
    /// [`NamespaceError::NotDeleted`], [`NamespaceError::TooSoon`]; a store that
    /// [cannot](StoreError::CannotClear).
    pub async fn purge_namespace(
        &self,
        caller: &Caller,
        name: &str,
        reason: Option<&str>,
    ) -> Result<Purge, ServiceError> {
        caller.check_every_namespace(Scope::Administer)?;
        check_name(name)?;
        bounds::reason(reason)?;
        let purging = self.begin_purge(caller, name, reason).await?;
        let mut purge = Purge {
            removed: 0,
            is_done: false,
        };
        let store = self.registry()?.store.clone();
        let store = NamespacedStore::new(store, &purging.stored_name());
        let mut after = None::<Vec<u8>>;
        for _ in 0..MOST_STEPS {
            let cleared = store.clear("", after.as_deref()).await?;
            purge.removed += cleared.removed;
            after = cleared.next;
            if after.is_none() {
                break;
            }
        }
        if after.is_none() {
            // Whoever was faster has purged it, too.
            let gone = Change::from(Definition::none(name)).expecting(purging.version);
            self.tell(OWNER, gone).await?;
            purge.is_done = true;
        }
        Ok(purge)
    }

    /// The namespace that is to be purged, of which nothing is restored any more.
    async fn begin_purge(
        &self,
        caller: &Caller,
        name: &str,
        reason: Option<&str>,
    ) -> Result<Namespace, ServiceError> {
        for _ in 0..MOST_TRIES {
            let there = self.namespace_or_unknown(name).await?;
            match there.state {
                NamespaceState::Purging => return Ok(there),
                NamespaceState::Active => {
                    return Err(NamespaceError::NotDeleted(there.name).into());
                }
                NamespaceState::Deleted => {}
            }
            self.has_settled(&there)?;
            self.can_clear().await?;
            let purging = self.turned(there, NamespaceState::Purging, caller);
            let put = self.put_namespace(caller, (Action::PurgeNamespace, reason), purging);
            if let Ok(purging) = put.await? {
                return Ok(purging);
            }
        }
        Err(outrun(name))
    }

    /// That every server has heard of the deletion. It is counted from when this one has: no
    /// clocks of two servers are compared.
    fn has_settled(&self, deleted: &Namespace) -> Result<(), NamespaceError> {
        let (heard, now) = (self.registry()?.deleted_since(deleted), self.clock().now());
        let left = (heard.unwrap_or(now) + Span::from(SETTLED)).since(now);
        match left.as_duration().as_millis() {
            0 => Ok(()),
            left => Err(NamespaceError::TooSoon {
                name: deleted.name.clone(),
                left_ms: u64::try_from(left).unwrap_or(u64::MAX),
            }),
        }
    }

    /// That the store clears anything at all: one that does not is told before a namespace cannot
    /// be restored any more.
    async fn can_clear(&self) -> Result<(), ServiceError> {
        // None is called so: ids are drawn at random.
        let nobody = stored_name(0) + " of nobody";
        let store = NamespacedStore::new(self.registry()?.store.clone(), &nobody);
        match store.clear("", None).await {
            Err(error @ StoreError::CannotClear) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// One namespace, as the store has it.
    ///
    /// # Errors
    /// As [`create_namespace`](Self::create_namespace), with the scope to observe;
    /// [`NamespaceError::Unknown`].
    pub async fn namespace(&self, caller: &Caller, name: &str) -> Result<Namespace, ServiceError> {
        caller.check_every_namespace(Scope::Observe)?;
        check_name(name)?;
        self.namespace_or_unknown(name).await
    }

    /// A page of namespaces, by name.
    ///
    /// # Errors
    /// As [`namespace`](Self::namespace); an end that no page has had.
    pub(crate) async fn list_namespaces(
        &self,
        caller: &Caller,
        after: Option<&[u8]>,
        most: usize,
    ) -> Result<Page<Namespace>, ServiceError> {
        caller.check_every_namespace(Scope::Observe)?;
        self.registry()?;
        let page = self.stored_page(OWNER, b"", after, most).await?;
        let read = page
            .items
            .iter()
            .filter_map(|kept| match Namespace::read(kept) {
                Ok(read) => read.map(Ok),
                Err(error) => Some(Err(StoreError::from(error))),
            });
        Ok(Page {
            items: read.collect::<Result<_, _>>()?,
            next: page.next,
        })
    }

    fn turned(&self, there: Namespace, state: NamespaceState, caller: &Caller) -> Namespace {
        Namespace {
            state,
            changed_at: Some(self.clock().now()),
            by: Some(caller.name().to_owned()),
            ..there
        }
    }

    async fn namespace_there(&self, name: &str) -> Result<Option<Namespace>, ServiceError> {
        self.registry()?;
        let kept = self.stored_at(OWNER, name.as_bytes()).await?;
        let read = kept.as_ref().map(Namespace::read).transpose();
        Ok(read.map_err(StoreError::from)?.flatten())
    }

    async fn namespace_or_unknown(&self, name: &str) -> Result<Namespace, ServiceError> {
        let there = self.namespace_there(name).await?;
        let unknown = || NamespaceError::Unknown(cut(name).into_owned());
        Ok(there.ok_or_else(unknown)?)
    }

    /// Has the store keep `new` in place of what was there at its version; or what is there
    /// instead.
    async fn put_namespace(
        &self,
        caller: &Caller,
        (action, reason): (Action, Option<&str>),
        new: Namespace,
    ) -> Result<Result<Namespace, Option<Namespace>>, ServiceError> {
        let details = [new.name.clone()];
        let draft = EventDraft {
            reason,
            details: &details,
            ..EventDraft::of(action)
        };
        let subject = OverrideTarget::everything().encode();
        let event = self.event(caller, subject, &draft);
        let definition = Definition::new(new.name.as_str(), new.encode());
        let change = Change::from(definition);
        let change = change.expecting(new.version).telling(event);
        let answer = self.tell(OWNER, change.clone()).await;
        match self.made(OWNER, answer, &change).await? {
            Defined::Done { version, .. } => {
                audit::note(None, caller.name(), action.name(), &new.name);
                Ok(Ok(Namespace { version, ..new }))
            }
            Defined::Conflict(there) => {
                let there = there.as_ref().map(Namespace::read).transpose();
                Ok(Err(there.map_err(StoreError::from)?.flatten()))
            }
        }
    }
}

fn outrun(name: &str) -> ServiceError {
    ServiceError::Outrun {
        what: format!("the namespace `{name}`"),
    }
}
