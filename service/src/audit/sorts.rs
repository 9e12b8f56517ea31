//! The five sorts of events as one list.
//!
//! A store bounds the events of each owner, so that many of one sort push none of another out:
//! a token for one policy resets keys as often as it likes, and what was done to overrides and
//! to all policies is still told. With the overrides there is nothing but overrides: servers of
//! every version read those.

use std::array;

use tidegate_store::definitions::{event_cursor, event_of_cursor};
use tidegate_store::{Event, Page, StoreError};

use crate::entities;
use crate::namespaces;
use crate::overrides::OWNER;
use crate::service::Service;

/// As whom the store knows events of policies that are applied.
pub(super) const OF_POLICIES: &str = "audit of policies";

/// And of keys: resets and revocations.
pub(super) const OF_KEYS: &str = "audit of keys";

/// Each sort. Those of overrides, of entities and of namespaces are kept with these, in the same step.
const SORTS: [&str; 5] = [
    OWNER,
    OF_POLICIES,
    OF_KEYS,
    entities::OWNER,
    namespaces::OWNER,
];

/// Of each sort the version that the list has come to.
type Ends = [u64; SORTS.len()];

impl Service {
    /// A page of all events, or of those of `subject`, in the order of time; those of one sort
    /// in the order of their versions.
    ///
    /// # Errors
    /// An end that no page has had; a store that cannot tell.
    pub(super) async fn events_of_all_sorts(
        &self,
        subject: Option<&[u8]>,
        after: Option<&[u8]>,
        most: usize,
    ) -> Result<Page<Event>, StoreError> {
        let ends = after.map_or(Ok(Ends::default()), read)?;
        let pages: [_; SORTS.len()] = array::from_fn(|sort| {
            let after = event_cursor(ends[sort]);
            self.events(SORTS[sort], subject, Some(&after), most)
        });
        let mut of_sorts = Vec::with_capacity(SORTS.len());
        for page in pages {
            of_sorts.push(page.await?);
        }
        merged(ends, of_sorts, most)
    }
}

/// The next `most` of pages that go on at `ends`.
fn merged(mut ends: Ends, pages: Vec<Page<Event>>, most: usize) -> Result<Page<Event>, StoreError> {
    let pages = pages.into_iter();
    let mut pages: Vec<_> = pages
        .map(|page| (page.items.into_iter().peekable(), page.next))
        .collect();
    let mut items = Vec::new();
    while items.len() < most {
        let mut heads = Vec::with_capacity(pages.len());
        let mut is_known = true;
        for (sort, (left, next)) in pages.iter_mut().enumerate() {
            match left.peek() {
                Some(event) => heads.push((event.at, sort)),
                None => is_known &= next.is_none(),
            }
        }
        // What follows on another page may come first.
        let Some((_, sort)) = heads.into_iter().min().filter(|_| is_known) else {
            break;
        };
        if let Some(event) = pages[sort].0.next() {
            ends[sort] = event.version;
            items.push(event);
        }
    }
    let mut is_last = true;
    for (end, (left, next)) in ends.iter_mut().zip(&mut pages) {
        let is_told = left.peek().is_none();
        is_last &= is_told && next.is_none();
        if is_told && next.is_some() {
            *end = event_of_cursor(next.as_deref())?;
        }
    }
    let next = (!is_last).then(|| ends.map(u64::to_be_bytes).concat());
    Ok(Page { items, next })
}

/// Where a page has ended.
fn read(cursor: &[u8]) -> Result<Ends, StoreError> {
    let (ends, rest) = cursor.as_chunks::<8>();
    let ends = <&[[u8; 8]; SORTS.len()]>::try_from(ends);
    let ends = ends.ok().filter(|_| rest.is_empty());
    let ends = ends.ok_or(StoreError::UnknownPage)?;
    Ok(ends.map(u64::from_be_bytes))
}
