//! What a policy's keys hold, for those who look and those who administer.
//!
//! A lease's id is a secret of its holder: whoever knows it can end the lease.
//! So a listing shows a *handle*, the beginning of the id's SHA-256, by which
//! somebody who administers can end it, too.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};
use tidegate_contract::{Page, Select, StoreError};
use tidegate_core::{Amount, Timestamp};

use super::access::Caller;
use super::audit;
use super::error::GateError;
use super::served::Served;
use crate::error::Error;
use crate::key::Key;
use crate::lease::{LeaseId, Settlement};
use crate::set::{LONGEST_PAGE, ListedKey, ListedLease, PageOf};

/// What a lease is called by those who do not hold it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LeaseHandle(u64);

/// A lease that somebody holds.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct HeldTicket {
    /// Whose it is.
    pub key: Vec<u8>,
    /// What it is called.
    pub handle: LeaseHandle,
    /// When it expires unless renewed.
    pub expires_at: Timestamp,
    /// Larger than that of every earlier lease on the same slots; 0 without.
    pub fence: u64,
    /// What was taken, by limit.
    pub taken: Vec<(String, Amount)>,
}

impl LeaseHandle {
    /// The handle of a lease.
    #[must_use]
    pub fn of(id: LeaseId) -> Self {
        let hash = Sha256::digest(id.0.to_be_bytes());
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

impl From<ListedLease> for HeldTicket {
    fn from(lease: ListedLease) -> Self {
        Self {
            handle: LeaseHandle::of(lease.id),
            key: lease.key,
            expires_at: lease.expires_at,
            fence: lease.fence,
            taken: lease.taken,
        }
    }
}

impl Served {
    /// As [`LimitSet::list_keys`](crate::LimitSet::list_keys).
    ///
    /// # Errors
    /// As there.
    pub fn list_keys(&self, page: PageOf<'_>) -> Result<Page<ListedKey>, GateError> {
        Ok(self.set().list_keys(page)?)
    }

    /// The leases that are held, by their handles.
    ///
    /// # Errors
    /// As [`LimitSet::list_leases`](crate::LimitSet::list_leases).
    pub fn list_leases(&self, page: PageOf<'_>) -> Result<Page<HeldTicket>, GateError> {
        let page = self.set().list_leases(page)?;
        Ok(Page {
            items: page.items.into_iter().map(HeldTicket::from).collect(),
            next: page.next,
        })
    }

    /// Ends the lease that has this handle, as its holder's release would;
    /// `caller` is noted. The holder is told so when renewing it.
    ///
    /// # Errors
    /// [`StoreError::UnknownLease`] if the key holds none of that handle; as
    /// [`LimitSet::release`](crate::LimitSet::release).
    pub fn revoke(
        &self,
        caller: &Caller,
        key: Key<'_>,
        handle: LeaseHandle,
    ) -> Result<Settlement, GateError> {
        let id = self.find(key, handle)?;
        let settlement = self.set().release(key, id)?;
        let key = String::from_utf8_lossy(key.bytes());
        let subject = format!("{}/{key} {handle}", self.policy().name);
        audit::note(caller.name(), "revoke", &subject);
        Ok(settlement)
    }

    fn find(&self, key: Key<'_>, handle: LeaseHandle) -> Result<LeaseId, GateError> {
        let mut after: Option<Vec<u8>> = None;
        loop {
            let page = self.set().list_leases(PageOf {
                select: Select::Key(key.bytes()),
                after: after.as_deref(),
                most: LONGEST_PAGE,
            })?;
            let mut ids = page.items.iter().map(|lease| lease.id);
            if let Some(id) = ids.find(|id| LeaseHandle::of(*id) == handle) {
                return Ok(id);
            }
            after = match page.next {
                Some(next) => Some(next),
                None => return Err(Error::Store(StoreError::UnknownLease).into()),
            };
        }
    }
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
