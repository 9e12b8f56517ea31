//! The store: one connection, tables by name.

use std::sync::{Arc, Weak};

use tidegate_net::{Finish, Notifier, following};
use tidegate_store::core::Timestamp;
use tidegate_store::{
    Abilities, Change, Cleared, Defined, Definition, Definitions, Event, Follower, Page, Plan,
    Store, StoreError, StoreFuture, Table,
};

use crate::clear::clear;
use crate::definitions::DefinedKeys;
use crate::error::RedisError;
use crate::keys::Names;
use crate::link::Link;
use crate::options::{Clock, Options};
use crate::registry::Registry;
use crate::script::Scripts;
use crate::shared::Shared;
use crate::table::RedisTable;
use crate::wakes;

/// State in a Redis or Valkey server, shared by all who use the same prefix. See
/// the [crate].
///
/// When it is dropped, and every set on it, the last of them waits for what is under
/// way, at most for the deadline or a second: what was let go of just before is given
/// back.
#[derive(Debug)]
pub struct RedisStore {
    // Declared first, dropped first: what drives the work is there until it is done.
    finish: Finish,
    shared: Arc<Shared>,
    defined: Arc<DefinedKeys>,
    prefix: String,
}

impl RedisStore {
    /// The store at `address`: `redis://[user:password@]host[:port][/database]`;
    /// `redis+cluster://[user:password@]host[:port],...`, any of the cluster's
    /// nodes; `redis+sentinel://[user:password@]host[:port],.../service[/database]`,
    /// the master of a service. With the feature `tls`, `rediss` for `redis`. The
    /// server is greeted once, so that an address that is wrong is told at once.
    ///
    /// # Errors
    /// [`RedisError`]; a password is in none of its messages.
    pub fn open(address: &str, options: Options) -> Result<Self, RedisError> {
        if options.deadline.is_zero() {
            return Err(RedisError::Option(
                "the deadline of a Redis store is zero; give it a second",
            ));
        }
        let link = Link::new(address, options.deadline)?;
        let shared = Arc::new(Shared {
            link,
            scripts: Scripts::new(options.functions),
            clock: options.clock,
            notifier: Arc::new(Notifier::new(wakes::PREFIX)),
        });
        let greeter = Arc::clone(&shared);
        let greeting = async move { greeter.link.greet().await };
        let answer = shared.link.driver().block_on(greeting);
        answer.map_err(|error| RedisError::Server(error.to_string()))?;
        let finish = shared.link.driver().finish();
        Ok(Self {
            defined: Arc::new(DefinedKeys::new(&shared, &options.prefix)),
            shared,
            finish,
            prefix: options.prefix,
        })
    }

    /// The plan that was adopted last by anyone, if there is any.
    fn newest(&self, name: &str) -> Result<Option<Plan>, StoreError> {
        let names = Names::new(&self.prefix, name);
        let registry = Registry::new(names.plans(), self.shared.clock);
        let shared = Arc::clone(&self.shared);
        let newest = async move { registry.newest(&shared.link).await };
        self.shared.link.driver().block_on(newest)
    }
}

impl Store for RedisStore {
    /// What survives is up to the server; see the [crate].
    fn abilities(&self) -> Abilities {
        Abilities {
            durable: true,
            shared: true,
            own_clock: self.shared.clock == Clock::Server,
            answers_can_be_lost: true,
            counts_usage: true,
        }
    }

    fn last_plan(&self, name: &str) -> Result<Option<Arc<Plan>>, StoreError> {
        Ok(self.newest(name)?.map(Arc::new))
    }

    fn definitions(&self, owner: &str, newer_than: u64) -> StoreFuture<Definitions> {
        following::definitions(self.shared.link.driver(), &self.defined, owner, newer_than)
    }

    /// Others know within a second.
    fn change(&self, owner: &str, change: Change) -> StoreFuture<Defined> {
        following::change(self.shared.link.driver(), &self.defined, owner, change)
    }

    fn definition(&self, owner: &str, key: &[u8]) -> StoreFuture<Option<Definition>> {
        following::definition(self.shared.link.driver(), &self.defined, owner, key)
    }

    fn definition_with_ancestors(
        &self,
        owner: &str,
        key: &[u8],
        parent_offset: u8,
    ) -> StoreFuture<Vec<Definition>> {
        let (defined, owner) = (Arc::clone(&self.defined), owner.to_owned());
        let (driver, key) = (self.shared.link.driver(), key.to_vec());
        driver.later(async move { defined.with_ancestors(&owner, &key, parent_offset).await })
    }

    fn definitions_page(
        &self,
        owner: &str,
        prefix: &[u8],
        after: Option<&[u8]>,
        most: usize,
    ) -> StoreFuture<Page<Definition>> {
        following::page(
            self.shared.link.driver(),
            &self.defined,
            owner,
            (prefix, after),
            most,
        )
    }

    fn events(
        &self,
        owner: &str,
        subject: Option<&[u8]>,
        after: Option<&[u8]>,
        most: usize,
        _: Timestamp,
    ) -> StoreFuture<Page<Event>> {
        following::events(
            self.shared.link.driver(),
            &self.defined,
            owner,
            (subject, after),
            most,
        )
    }

    fn follow(&self, owner: &str, follower: Weak<dyn Follower>) {
        following::follow(self.shared.link.driver(), &self.defined, owner, follower);
    }

    fn clear(&self, prefix: &str, after: Option<&[u8]>) -> StoreFuture<Cleared> {
        let names = Names::new(&self.prefix, prefix);
        let (shared, after) = (Arc::clone(&self.shared), after.map(<[u8]>::to_vec));
        let work = async move { clear(&shared.link, &names, after.as_deref()).await };
        self.shared.link.driver().later(work)
    }

    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        match self.newest(name)?.map(|kept| kept.levels()) {
            Some(kept) if kept != plan.levels() => Err(StoreError::OtherLevels {
                name: name.to_owned(),
                kept,
                wanted: plan.levels(),
            }),
            _ => {
                let names = Names::new(&self.prefix, name);
                let (shared, finish) = (Arc::clone(&self.shared), self.finish.clone());
                Ok(Arc::new(RedisTable::new(shared, finish, names)))
            }
        }
    }
}
