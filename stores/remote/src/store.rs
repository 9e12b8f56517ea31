//! The store: a server that offers its own, tables by name.

use std::sync::{Arc, Weak};

use tidegate_net::{Finish, following};
use tidegate_store::bytes::Reader;
use tidegate_store::core::Timestamp;
use tidegate_store::{
    Abilities, Change, Cleared, Defined, Definition, Definitions, Event, Follower, NamespacedStore,
    Page, Plan, Store, StoreError, StoreFuture, Table,
};

use crate::address::Address;
use crate::definitions::DefinedThere;
use crate::error::RemoteError;
use crate::link::Link;
use crate::options::Options;
use crate::table::RemoteTable;
use crate::wire::{Request, SentPlan, abilities};

/// State in the store of a server, shared by all who use the same server and prefix.
/// See the [crate].
///
/// When it is dropped, and every set on it, the last of them waits for what is under
/// way, at most for the deadline or a second: what was let go of just before is given
/// back.
#[derive(Debug)]
pub struct RemoteStore {
    // Declared first, dropped first: what drives the work is there until it is done.
    finish: Finish,
    link: Arc<Link>,
    defined: Arc<DefinedThere>,
    abilities: Abilities,
}

impl RemoteStore {
    /// The store at `address`: `tidegate://[TOKEN@]HOST[:PORT]`, port 7401 unless it is said,
    /// or `tidegates://` for TLS. The server is asked once, so that what is wrong is told at
    /// once.
    ///
    /// # Errors
    /// [`RemoteError`]; a token is in none of its messages.
    pub fn open(address: &str, options: Options) -> Result<Arc<dyn Store>, RemoteError> {
        let address = Address::read(address)?;
        let link = Arc::new(Link::new(&address, &options)?);
        let asking = Arc::clone(&link);
        let asked = async move { asking.told(&Request::Abilities, abilities).await };
        let abilities = link.driver().block_on(asked);
        let abilities = abilities.map_err(|error| RemoteError::Server(error.to_string()))?;
        let store = Arc::new(Self {
            finish: link.driver().finish(),
            defined: Arc::new(DefinedThere::new(&link)),
            link,
            abilities,
        });
        Ok(match options.prefix {
            Some(prefix) => Arc::new(NamespacedStore::new(store, &prefix)),
            None => store,
        })
    }

    /// Checks an address, and asks nobody.
    ///
    /// # Errors
    /// [`RemoteError::Address`].
    pub fn check(address: &str) -> Result<(), RemoteError> {
        Address::read(address).map(drop)
    }

    /// Asks while a set is opened; the calling thread waits.
    fn wait_for<T: Send + 'static>(
        &self,
        request: &Request<'_>,
        read: impl FnOnce(&mut Reader<'_>) -> Result<T, tidegate_store::core::DecodeError>
        + Send
        + 'static,
    ) -> Result<T, StoreError> {
        let (link, body) = (Arc::clone(&self.link), request.written());
        let work = async move { link.told_of(body, read).await };
        self.link.driver().block_on(work)
    }
}

impl Store for RemoteStore {
    /// Those of the server's store, which others share.
    fn abilities(&self) -> Abilities {
        self.abilities
    }

    fn last_plan(&self, name: &str) -> Result<Option<Arc<Plan>>, StoreError> {
        let read = |reader: &mut Reader<'_>| {
            reader.option("plan", |reader| {
                let version = reader.u64()?;
                SentPlan::read(reader.bytes()?, version)
            })
        };
        let last = self.wait_for(&Request::LastPlan(name), read)?;
        Ok(last.map(Arc::new))
    }

    fn definitions(&self, owner: &str, newer_than: u64) -> StoreFuture<Definitions> {
        following::definitions(self.link.driver(), &self.defined, owner, newer_than)
    }

    /// Others know as soon as the server tells them, or within five seconds where the change
    /// was made by way of another server of its store.
    fn change(&self, owner: &str, change: Change) -> StoreFuture<Defined> {
        following::change(self.link.driver(), &self.defined, owner, change)
    }

    fn definition(&self, owner: &str, key: &[u8]) -> StoreFuture<Option<Definition>> {
        following::definition(self.link.driver(), &self.defined, owner, key)
    }

    fn definition_with_ancestors(
        &self,
        owner: &str,
        key: &[u8],
        parent_offset: u8,
    ) -> StoreFuture<Vec<Definition>> {
        let (defined, owner) = (Arc::clone(&self.defined), owner.to_owned());
        let (driver, key) = (self.link.driver(), key.to_vec());
        driver.later(async move { defined.with_ancestors(&owner, &key, parent_offset).await })
    }

    fn definitions_page(
        &self,
        owner: &str,
        prefix: &[u8],
        after: Option<&[u8]>,
        most: usize,
    ) -> StoreFuture<Page<Definition>> {
        let (driver, where_at) = (self.link.driver(), (prefix, after));
        following::page(driver, &self.defined, owner, where_at, most)
    }

    fn events(
        &self,
        owner: &str,
        subject: Option<&[u8]>,
        after: Option<&[u8]>,
        most: usize,
        _: Timestamp,
    ) -> StoreFuture<Page<Event>> {
        let (driver, where_at) = (self.link.driver(), (subject, after));
        following::events(driver, &self.defined, owner, where_at, most)
    }

    fn follow(&self, owner: &str, follower: Weak<dyn Follower>) {
        following::follow(self.link.driver(), &self.defined, owner, follower);
    }

    fn clear(&self, prefix: &str, after: Option<&[u8]>) -> StoreFuture<Cleared> {
        let body = Request::Clear(prefix, after).written();
        let link = Arc::clone(&self.link);
        self.link.driver().later(async move {
            let read = |reader: &mut Reader<'_>| {
                Ok(Cleared {
                    removed: reader.u64()?,
                    next: reader.option("next", Reader::bytes)?.map(<[u8]>::to_vec),
                })
            };
            link.told_of(body, read).await
        })
    }

    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        let sent = SentPlan::of(plan);
        let open = Request::Open(name, plan.version(), &sent.bytes);
        self.wait_for(&open, |reader| {
            tidegate_store::bytes::reply::decode_answer(reader)
        })??;
        let (link, finish) = (Arc::clone(&self.link), self.finish.clone());
        let table = RemoteTable::new(link, finish, name, Arc::clone(plan));
        Ok(Arc::new(table))
    }
}
