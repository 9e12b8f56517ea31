//! What is defined for an owner, at a server.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_net::following::{Following, Hearing, Source};
use tidegate_store::bytes::Reader;
use tidegate_store::bytes::definition::{
    DEFINITION, EVENT, decode_defined, decode_definition, decode_definitions, decode_event,
};
use tidegate_store::bytes::reply::decode_page;
use tidegate_store::core::DecodeError;
use tidegate_store::definitions::event_cursor;
use tidegate_store::{Change, Defined, Definition, Definitions, Event, Page, StoreError};
use tokio::sync::Notify;

use crate::link::Link;
use crate::wire::Request;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct DefinedThere {
    link: Arc<Link>,
    following: Following,
}

impl DefinedThere {
    pub(crate) fn new(link: &Arc<Link>) -> Self {
        Self {
            link: Arc::clone(link),
            following: Following::default(),
        }
    }

    /// What is under a key, and its ancestors, in one trip.
    pub(crate) async fn with_ancestors(
        &self,
        owner: &str,
        key: &[u8],
        parent_offset: u8,
    ) -> Result<Vec<Definition>, StoreError> {
        let request = Request::WithAncestors(owner, key, parent_offset);
        let all = |reader: &mut Reader<'_>| reader.list(DEFINITION, decode_definition);
        self.ask(&request, all).await
    }

    async fn ask<T>(
        &self,
        request: &Request<'_>,
        read: impl FnOnce(&mut Reader<'_>) -> Result<T, DecodeError>,
    ) -> Result<T, StoreError> {
        self.link.told(request, read).await
    }
}

impl Source for DefinedThere {
    /// How often those who follow look whether there is news of which the server did not tell:
    /// it came by way of another server of its store.
    const LOOK: Duration = Duration::from_secs(2);

    async fn change(&self, owner: &str, change: &Change) -> Result<Defined, StoreError> {
        let request = Request::Change(owner, change.clone());
        self.ask(&request, decode_defined).await
    }

    async fn one(&self, owner: &str, key: &[u8]) -> Result<Option<Definition>, StoreError> {
        let one = |reader: &mut Reader<'_>| reader.option("definition", decode_definition);
        self.ask(&Request::One(owner, key), one).await
    }

    async fn page(
        &self,
        owner: &str,
        prefix: &[u8],
        after: Option<&[u8]>,
        most: usize,
    ) -> Result<Page<Definition>, StoreError> {
        let request = Request::Page(owner, prefix, after, most);
        let page = |reader: &mut Reader<'_>| decode_page(reader, DEFINITION, decode_definition);
        self.ask(&request, page).await
    }

    async fn events(
        &self,
        owner: &str,
        subject: Option<&[u8]>,
        after: u64,
        most: usize,
    ) -> Result<Page<Event>, StoreError> {
        let after = (after > 0).then(|| event_cursor(after));
        let request = Request::Events(owner, subject, after.as_deref(), most);
        let page = |reader: &mut Reader<'_>| decode_page(reader, EVENT, decode_event);
        self.ask(&request, page).await
    }

    async fn versions(&self, owners: &[String]) -> Result<Vec<u64>, StoreError> {
        let mut versions = Vec::with_capacity(owners.len());
        // As many at once as a server takes.
        for owners in owners.chunks(1_000) {
            let owners = owners.iter().map(String::as_str).collect();
            let read = |reader: &mut Reader<'_>| reader.list(8, Reader::u64);
            versions.extend(self.ask(&Request::Versions(owners), read).await?);
        }
        Ok(versions)
    }

    async fn changes(&self, owner: &str, newer_than: u64) -> Result<Definitions, StoreError> {
        let request = Request::Changes(owner, newer_than, false);
        self.ask(&request, decode_definitions).await
    }

    async fn changed_keys(&self, owner: &str, newer_than: u64) -> Result<Definitions, StoreError> {
        let request = Request::Changes(owner, newer_than, true);
        self.ask(&request, decode_definitions).await
    }

    fn deadline(&self) -> Duration {
        self.link.deadline()
    }

    fn hear(&self, bell: Arc<Notify>) -> Option<Hearing> {
        let link = Arc::downgrade(&self.link);
        Some(Box::pin(hear(link, bell)))
    }

    fn following(&self) -> &Following {
        &self.following
    }
}

async fn hear(link: Weak<Link>, bell: Arc<Notify>) {
    let stream = match link.upgrade() {
        Some(link) => link.follow().await,
        None => return,
    };
    if let Ok(mut stream) = stream {
        while let Ok(Some(_)) = stream.message().await {
            bell.notify_one();
        }
    }
}
