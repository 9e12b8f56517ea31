//! What serves one namespace: a service of its own on a part of the store.

use std::sync::Arc;

use tidegate_store::{NamespacedStore, Store};

use super::error::NamespaceError;
use super::policies::Policies;
use super::record::stored_name;
use super::registry::{Registry, Space};
use super::said::NamespacePolicies;
use crate::access::Caller;
use crate::answer::Answer;
use crate::call::Call;
use crate::change::Change;
use crate::error::{ServiceError, is_store_away};
use crate::service::{Service, Tenant};
use tidegate_policy::{PolicyFile, Scope};

impl Service {
    /// The namespaces of its store.
    pub(super) fn registry(&self) -> Result<&Arc<Registry<Tenant>>, NamespaceError> {
        self.namespaces().ok_or(NamespaceError::Unkept)
    }

    /// What serves the namespace that `caller` is in.
    ///
    /// # Errors
    /// It is deleted, or there is none; a store that cannot tell.
    async fn tenant(&self, name: &str) -> Result<(Arc<Space<Tenant>>, Arc<Tenant>), ServiceError> {
        let registry = self.registry()?;
        let space = registry.find(name).await?;
        if let Some(tenant) = space.serves() {
            return Ok((space, tenant));
        }
        let store = NamespacedStore::new(Arc::clone(&registry.store), &stored_name(space.id));
        let store: Arc<dyn Store> = Arc::new(store);
        let of_file = registry.policies.load().of(name).clone();
        let said = of_file.clone();
        let builder = self.builder_for(&space.name, Arc::clone(&store));
        let make = move || {
            let begun = Policies::begin(&store, &of_file, |policies| builder.build(policies));
            let policies = begun?;
            Ok(Tenant::new(policies.service().clone(), policies))
        };
        let tenant = registry.serving(&space, make).await?;
        space.check()?;
        let now = registry.policies.load_full();
        if *now.of(&space.name) != said {
            // The file was read again while it was made.
            let (late, name) = (Arc::clone(&tenant), Arc::clone(&space.name));
            let reload = move || reload(&late, &now, &name);
            drop(tokio::task::spawn_blocking(reload).await);
        }
        Ok((space, tenant))
    }

    /// Answers `call` in the namespace that `caller` is in.
    pub(crate) async fn answer_away(
        &self,
        caller: &Caller,
        call: Call<'_>,
    ) -> Result<Answer, ServiceError> {
        let name = caller.namespace().unwrap_or_default();
        let (space, tenant) = self.tenant(name).await?;
        let answer = tenant.service().call_here(caller, call).await;
        match (answer, space.check()) {
            // Whoever waited was sent away by the deletion.
            (Err(_), Err(gone)) => Err(gone.into()),
            (answer, _) => answer,
        }
    }

    /// What its file says of the policies of namespaces from now on: those that are in use go
    /// over to it, unless policies were applied in them. One that cannot keeps its own, and the
    /// log says so. The calling thread waits for the store. Whether that has answered to all.
    pub fn exchange_namespaces(&self, policies: NamespacePolicies) -> bool {
        let Some(registry) = self.namespaces() else {
            return true;
        };
        registry.policies.store(Arc::new(policies));
        let mut is_whole = true;
        for space in registry.all() {
            if let Some(tenant) = space.serves() {
                is_whole &= reload(&tenant, &registry.policies.load(), &space.name);
            }
        }
        is_whole
    }

    /// Goes over to `policies` in the namespace that `caller` is in, on all servers of the store,
    /// wholly or not at all; an audit event of the namespace tells of it. What they are called
    /// (which tells their language) and their text are kept.
    ///
    /// # Errors
    /// [`ServiceError::Forbidden`]: it takes the scope to administer all policies; a namespace that
    /// is deleted; a store that cannot tell. Inside is what it came to.
    pub async fn apply_in_namespace(
        &self,
        caller: &Caller,
        (name, text): (&str, &str),
        policies: PolicyFile,
    ) -> Result<Result<Vec<Change>, String>, ServiceError> {
        caller.check(Scope::Administer, None)?;
        let (_, tenant) = self.tenant(caller.namespace().unwrap_or_default()).await?;
        let changes = tenant.service().compare(&policies);
        let (by, name, text) = (caller.name().to_owned(), name.to_owned(), text.to_owned());
        let applies = Arc::clone(&tenant);
        let apply = async move {
            let apply = move || applies.policies().apply(&by, (&name, &text), &policies);
            let applied = tokio::task::spawn_blocking(apply).await;
            applied.unwrap_or_else(|_| Err("the server is stopping".to_owned()))
        };
        let service = tenant.service();
        service.apply_policies(caller, &changes, apply).await
    }
}

/// The file says other policies, perhaps: one that cannot switch keeps its own. Whether the store has answered.
fn reload(tenant: &Tenant, policies: &NamespacePolicies, name: &str) -> bool {
    let reloaded = tenant.policies().reload("the file", policies.of(name));
    if let Err(error) = &reloaded {
        tracing::error!(
            namespace = name, %error,
            "a namespace cannot switch to the file's policies; still serving the previous ones"
        );
    }
    !reloaded.is_err_and(|error| is_store_away(&error))
}
