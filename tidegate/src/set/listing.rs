//! What a set holds, a page at a time.

use std::borrow::Cow;
use std::future::Future;
use std::sync::Arc;

use tidegate_core::{Amount, Timestamp};
use tidegate_store::key::row_name;
use tidegate_store::{HeldLease, Hour, Hours, Listing, Op, Page, Reply, Select, StoreError, Table};

use super::inner::LimitSet;
use super::view::View;
use crate::decision::Decision;
use crate::error::DecisionError;
use crate::lease_id::LeaseId;
use crate::pending::Pending;

/// The most items of one page.
pub const LONGEST_PAGE: usize = 1_000;

/// How often the table is asked for one page: it looks at a bounded number of
/// its keys each time, and may find none.
const ASKED: usize = 16;

/// Which page of a listing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageOf<'a> {
    /// Of which keys.
    pub select: Select<'a>,
    /// Where the page before has ended: its [`next`](Page::next).
    pub after: Option<&'a [u8]>,
    /// How many items it has at most: from 1 to [`LONGEST_PAGE`], and taken for
    /// that if it is less or more.
    pub most: usize,
}

/// A key that is in use.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListedKey {
    /// The key, or the ancestor of keys.
    pub key: Vec<u8>,
    /// Where it stands. The verdict is on a request for nothing.
    pub decision: Decision,
}

/// A lease that is held.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ListedLease {
    /// Whose it is.
    pub key: Vec<u8>,
    /// Its id: a secret of its holder.
    pub id: LeaseId,
    /// When it was granted, by the store's clock.
    pub granted_at: Timestamp,
    /// When it expires unless renewed.
    pub expires_at: Timestamp,
    /// Larger than that of every earlier lease on the same slots; `None` without.
    pub fence: Option<u64>,
    /// What was taken, by limit.
    pub taken: Vec<(String, Amount)>,
}

/// What was used of one limit in one hour.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ListedUsage {
    /// The key, or the ancestor of keys.
    pub key: Vec<u8>,
    /// The limit's name: also one that is gone.
    pub limit: String,
    /// When the hour begins, in UTC, by the clock that decided: of what a lease used, that in
    /// which it was granted.
    pub starts_at: Timestamp,
    /// How much: at most 2^63 - 1.
    pub amount: Amount,
}

impl LimitSet {
    /// A page of the keys that are in use, and where they stand: as of the
    /// moment of each, for a listing takes no lock for long.
    ///
    /// # Errors
    /// A store that cannot list, or a page that is no longer known.
    #[expect(
        clippy::redundant_closure,
        reason = "the variant itself has one lifetime, not each"
    )]
    pub fn list_keys<'a>(
        &'a self,
        page: PageOf<'a>,
    ) -> Pending<impl Future<Output = Result<Page<ListedKey>, DecisionError>> + Send> {
        Pending::new(async move {
            let read = |reply| match reply {
                Reply::Keys(page) => Ok(page),
                _ => Err(StoreError::Mismatch),
            };
            let keys = self
                .pages(
                    &self.inner().table,
                    page,
                    |listing| Op::ListKeys(listing),
                    read,
                )
                .await?;
            let mut items = Vec::with_capacity(keys.items.len());
            for key in keys.items {
                let decision = self.inner().standing(key.bytes()).await?;
                let key = key.bytes().to_vec();
                items.push(ListedKey { key, decision });
            }
            let next = keys.next;
            Ok(Page { items, next })
        })
    }

    /// A page of the leases that are held.
    ///
    /// # Errors
    /// As [`list_keys`](Self::list_keys).
    #[expect(
        clippy::redundant_closure,
        reason = "the variant itself has one lifetime, not each"
    )]
    pub fn list_leases<'a>(
        &'a self,
        page: PageOf<'a>,
    ) -> Pending<impl Future<Output = Result<Page<ListedLease>, StoreError>> + Send> {
        Pending::new(async move {
            let read = |reply| match reply {
                Reply::Leases(page) => Ok(page),
                _ => Err(StoreError::Mismatch),
            };
            let leases = self
                .pages(
                    &self.inner().table,
                    page,
                    |listing| Op::ListLeases(listing),
                    read,
                )
                .await?;
            let view = self.inner().view.load_full();
            let items = leases.items.into_iter();
            Ok(Page {
                items: items.map(|lease| named(lease, &view)).collect(),
                next: leases.next,
            })
        })
    }

    /// A page of what was used, in the hours from that of `from` on to before `to`, where it is
    /// [counted](crate::LimitSetBuilder::keep_usage). Days and months are sums of hours.
    ///
    /// # Errors
    /// As [`list_keys`](Self::list_keys); a store that does not count usage.
    pub fn list_usage<'a>(
        &'a self,
        page: PageOf<'a>,
        from: Timestamp,
        to: Timestamp,
    ) -> Pending<impl Future<Output = Result<Page<ListedUsage>, StoreError>> + Send> {
        Pending::new(async move {
            let read = |reply| match reply {
                Reply::Usage(page) => Ok(page),
                _ => Err(StoreError::Mismatch),
            };
            let first = Hour::of(from);
            let last = Hour::of(to);
            let hours = Hours {
                from: first,
                to: if last.starts_at() < to {
                    last.next()
                } else {
                    last
                },
            };
            let used = self
                .pages(
                    &self.inner().table,
                    page,
                    |listing| Op::ListUsage(listing, hours),
                    read,
                )
                .await?;
            let items = used.items.into_iter().map(|used| ListedUsage {
                key: used.key.bytes().to_vec(),
                limit: used.limit.to_string(),
                starts_at: used.hour.starts_at(),
                amount: used.amount,
            });
            Ok(Page {
                items: items.collect(),
                next: used.next,
            })
        })
    }

    /// A page that is full, or the last, or as far as it was looked.
    pub(super) async fn pages<T>(
        &self,
        table: &Arc<dyn Table>,
        page: PageOf<'_>,
        op: impl for<'l> Fn(Listing<'l>) -> Op<'l> + Send + Sync,
        read: fn(Reply) -> Result<Page<T>, StoreError>,
    ) -> Result<Page<T>, StoreError> {
        let most = page.most.clamp(1, LONGEST_PAGE);
        let levels = self.inner().view.load().plan.levels();
        let row = match page.select {
            Select::Key(key) => row_name(key, levels),
            _ => Cow::default(),
        };
        let select = match page.select {
            Select::Key(_) => Select::Key(&row),
            select => select,
        };
        let mut full = Page {
            items: Vec::new(),
            next: page.after.map(<[u8]>::to_vec),
        };
        for _ in 0..ASKED {
            let listing = Listing {
                select,
                after: full.next.as_deref(),
                most: most - full.items.len(),
                now: self.now(),
                levels,
            };
            let more = read(self.inner().about_at(table, op(listing)).await?)?;
            full.items.extend(more.items);
            full.next = more.next;
            if full.next.is_none() || full.items.len() >= most {
                break;
            }
        }
        Ok(full)
    }
}

/// The lease with its limits' names; a limit that is gone has none.
pub(super) fn named(lease: HeldLease, view: &View) -> ListedLease {
    let name = |&(uid, amount): &(u32, Amount)| {
        let position = view.plan.position(uid)?;
        Some((view.plan.limits()[position].name.to_string(), amount))
    };
    ListedLease {
        key: lease.key.bytes().to_vec(),
        id: LeaseId(lease.id),
        granted_at: lease.granted_at,
        expires_at: lease.expires_at,
        fence: (lease.fence > 0).then_some(lease.fence),
        taken: lease.taken.iter().filter_map(name).collect(),
    }
}
