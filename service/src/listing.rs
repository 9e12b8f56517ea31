//! What a policy's keys hold, for those who look and those who administer.
//!
//! A lease's id is a secret of its holder: whoever knows it can end the lease.
//! So a listing shows a *handle*, the beginning of the id's SHA-256, by which
//! somebody who administers can end it, too.

use std::fmt;
use std::future::Future;
use std::str::FromStr;

use sha2::{Digest, Sha256};
use tidegate_core::{Amount, Timestamp};
use tidegate_store::{Page, Select, StoreError};

use super::access::Caller;
use super::active_policy::ActivePolicy;
use super::audit;
use super::error::ServiceError;
use super::field::Field;
use super::finish::{Finish, Finished, Report};
use super::usage::{self, UsageBy};
use tidegate::internal::{MemberInternals, pending};
use tidegate::{
    Key, LONGEST_PAGE, LeaseError, LeaseId, LimitSet, ListedKey, ListedLease, ListedUsage, Member,
    PageOf, Pending,
};

/// What a lease is called by those who do not hold it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LeaseHandle(u64);

/// A lease that somebody holds.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PublicLease {
    /// Whose it is.
    pub key: Vec<u8>,
    /// The pool's member that gave it.
    pub member: Option<String>,
    /// What it is called.
    pub handle: LeaseHandle,
    /// When it was granted, by the store's clock.
    pub granted_at: Timestamp,
    /// When it expires unless renewed.
    pub expires_at: Timestamp,
    /// Larger than that of every earlier lease on the same slots; `None` without.
    pub fence: Option<u64>,
    /// What was taken, by limit.
    pub taken: Vec<(String, Amount)>,
}

/// What was used of one limit in one hour, day or month.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PublicUsage {
    /// The pool's member of which it was used.
    pub member: Option<String>,
    /// Of which key and limit, when, and how much, in the limit's own unit.
    pub used: ListedUsage,
}

impl LeaseHandle {
    /// The handle of a lease.
    #[must_use]
    pub fn of(id: LeaseId) -> Self {
        let hash = Sha256::digest(id.to_u128().to_be_bytes());
        let (first, _) = hash.split_at(8);
        Self(
            first
                .iter()
                .fold(0, |bits, byte| bits << 8 | u64::from(*byte)),
        )
    }
}

impl fmt::Display for LeaseHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Not a lease's handle.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a lease's handle has 16 hexadecimal digits")]
pub struct NoHandle;

impl FromStr for LeaseHandle {
    type Err = NoHandle;

    fn from_str(text: &str) -> Result<Self, NoHandle> {
        let hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let bits = u64::from_str_radix(text, 16).ok().filter(|_| hex);
        bits.map(Self).ok_or(NoHandle)
    }
}

impl LeaseHandle {
    /// The handle of a lease, as it was sent.
    ///
    /// # Errors
    /// [`ServiceError::Form`].
    pub fn read(said: &[u8]) -> Result<Self, ServiceError> {
        let handle = std::str::from_utf8(said).ok();
        let handle = handle.and_then(|text| text.parse().ok());
        handle.ok_or(ServiceError::Form {
            field: Field::Handle,
            wrong: "a lease's handle has 16 hexadecimal digits",
        })
    }
}

impl PublicLease {
    fn of(lease: ListedLease, member: Option<&Member>) -> Self {
        Self {
            member: member.map(|member| member.name().to_owned()),
            handle: LeaseHandle::of(lease.id),
            key: lease.key,
            granted_at: lease.granted_at,
            expires_at: lease.expires_at,
            fence: lease.fence,
            taken: lease.taken,
        }
    }
}

impl ActivePolicy {
    /// As [`LimitSet::list_keys`](tidegate::LimitSet::list_keys); of a pool,
    /// member by member.
    ///
    /// # Errors
    /// As there.
    pub fn list_keys(
        &self,
        page: PageOf<'_>,
    ) -> Pending<impl Future<Output = Result<Page<ListedKey>, ServiceError>> + Send> {
        pending(async move {
            let place = self.place(page)?;
            let Page { items, next } = place.set.list_keys(place.page).await?;
            let items = items.into_iter().map(|mut key| {
                if let Some(member) = place.member {
                    key.decision = member.decided(key.decision);
                }
                key
            });
            Ok(Page {
                items: items.collect(),
                next: place.next(next),
            })
        })
    }

    /// The leases that are held, by their handles; of a pool, member by member.
    ///
    /// # Errors
    /// As [`LimitSet::list_leases`](tidegate::LimitSet::list_leases).
    pub fn list_leases(
        &self,
        page: PageOf<'_>,
    ) -> Pending<impl Future<Output = Result<Page<PublicLease>, ServiceError>> + Send> {
        pending(async move {
            let Page { items, next } = self.listed_leases(page).await?;
            let items = items.into_iter();
            let held = items.map(|(lease, member)| PublicLease::of(lease, member.as_ref()));
            Ok(Page {
                items: held.collect(),
                next,
            })
        })
    }

    /// What was used in the hours from that of the first instant on to before the second; of a pool,
    /// member by member. By a day or a month it is the sums of many records; a sum that the next page
    /// goes on with is told in parts.
    ///
    /// # Errors
    /// As [`LimitSet::list_usage`](tidegate::LimitSet::list_usage).
    pub fn list_usage(
        &self,
        page: PageOf<'_>,
        hours: (Timestamp, Timestamp),
        by: UsageBy,
    ) -> Pending<impl Future<Output = Result<Page<PublicUsage>, ServiceError>> + Send> {
        pending(async move {
            let place = self.place(page)?;
            let used = usage::list(place.set, place.page, hours, by).await?;
            let member = place.member.map(|member| member.name().to_owned());
            let items = used.items.into_iter().map(|used| PublicUsage {
                member: member.clone(),
                used,
            });
            Ok(Page {
                items: items.collect(),
                next: place.next(used.next),
            })
        })
    }

    async fn listed_leases(
        &self,
        page: PageOf<'_>,
    ) -> Result<Page<(ListedLease, Option<Member>)>, ServiceError> {
        let place = self.place(page)?;
        let Page { items, next } = place.set.list_leases(place.page).await?;
        let items = items.into_iter();
        Ok(Page {
            items: items.map(|lease| (lease, place.member.cloned())).collect(),
            next: place.next(next),
        })
    }

    /// Which of its sets a page lists. The end of a pool's page begins with the place of
    /// the member that it goes on with.
    pub(super) fn place<'a>(&'a self, page: PageOf<'a>) -> Result<Listed<'a>, ServiceError> {
        let members = self.members();
        if members.is_empty() {
            return Ok(Listed {
                set: self.set(),
                member: None,
                place: 0,
                is_last: true,
                page,
            });
        }
        let end = page.after.map_or(Some((0, None)), split);
        let found = end.and_then(|(place, after)| {
            let member = members.get(usize::from(place))?;
            Some((place, member, after))
        });
        let (place, member, after) = found.ok_or(StoreError::UnknownPage)?;
        Ok(Listed {
            set: member.set(),
            member: Some(member),
            place,
            is_last: usize::from(place) + 1 == members.len(),
            page: PageOf { after, ..page },
        })
    }

    /// Ends a lease of `key`, as its holder's release would; `caller` is noted. The holder is
    /// told so when renewing it.
    ///
    /// # Errors
    /// As [`LimitSet::release`](tidegate::LimitSet::release).
    pub fn revoke(
        &self,
        caller: &Caller,
        key: Key<'_>,
        lease: LeaseId,
    ) -> Pending<impl Future<Output = Result<Finished, ServiceError>> + Send> {
        pending(async move {
            let finished = self
                .finish(key, lease, Finish::Release, &Report::default())
                .await?;
            let key = String::from_utf8_lossy(key.bytes());
            let handle = LeaseHandle::of(lease);
            let subject = format!("{}/{key} {handle}", self.policy().name);
            audit::note(caller.namespace(), caller.name(), "revoke", &subject);
            Ok(finished)
        })
    }

    /// The lease of `key` that has this handle.
    ///
    /// # Errors
    /// [`LeaseError::Unknown`] if the key holds none of that handle; a store that cannot tell.
    pub fn find_lease(
        &self,
        key: Key<'_>,
        handle: LeaseHandle,
    ) -> Pending<impl Future<Output = Result<LeaseId, ServiceError>> + Send> {
        pending(self.find(key, handle))
    }

    async fn find(&self, key: Key<'_>, handle: LeaseHandle) -> Result<LeaseId, ServiceError> {
        let mut after: Option<Vec<u8>> = None;
        loop {
            let of_key = PageOf {
                select: Select::Key(key.bytes()),
                after: after.as_deref(),
                most: LONGEST_PAGE,
            };
            let page = self.listed_leases(of_key).await?;
            let mut ids = page.items.into_iter().map(|(lease, _)| lease.id);
            if let Some(id) = ids.find(|id| LeaseHandle::of(*id) == handle) {
                return Ok(id);
            }
            after = match page.next {
                Some(next) => Some(next),
                None => return Err(LeaseError::Unknown.into()),
            };
        }
    }
}

/// A page of one of a policy's sets.
pub(super) struct Listed<'a> {
    pub(super) set: &'a LimitSet,
    pub(super) member: Option<&'a Member>,
    place: u16,
    is_last: bool,
    pub(super) page: PageOf<'a>,
}

impl Listed<'_> {
    /// Where the page after it goes on, if that of its set ends at `end`.
    pub(super) fn next(&self, end: Option<Vec<u8>>) -> Option<Vec<u8>> {
        match end {
            end if self.member.is_none() => end,
            Some(end) => Some(joined(self.place, &end)),
            None => (!self.is_last).then(|| joined(self.place + 1, &[])),
        }
    }
}

fn joined(place: u16, end: &[u8]) -> Vec<u8> {
    [&place.to_be_bytes(), end].concat()
}

fn split(end: &[u8]) -> Option<(u16, Option<&[u8]>)> {
    let (place, end) = end.split_first_chunk()?;
    let end = (!end.is_empty()).then_some(end);
    Some((u16::from_be_bytes(*place), end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_tells_nothing_of_the_id_and_is_written_as_it_is_read() {
        let id: LeaseId = "0123456789abcdef0123456789abcdef".parse().unwrap();
        let handle = LeaseHandle::of(id);
        assert_eq!(handle.to_string().parse(), Ok(handle));
        assert!(!id.to_string().contains(&handle.to_string()[..6]));
        for text in ["", "0123", "+123456789abcdef", "0123456789abcdeg"] {
            assert_eq!(text.parse::<LeaseHandle>(), Err(NoHandle));
        }
    }
}
