//! What a holder has.

use std::fmt;
use std::future::Future;

use tidegate_core::{Span, Timestamp};

use super::semaphore::Shared;
use crate::error::LeaseError;
use crate::keep_alive::Loss;
use crate::lease::Lease;
use crate::lease_id::LeaseId;
use crate::pending::Pending;

/// Slots that are held: a [`Lease`] that is kept alive until this is dropped, which gives
/// them back. If the process is killed they are back within the ttl.
///
/// A permit may be lost before it is dropped: [`lost`](Self::lost) ends then, and
/// [`is_held`](Self::is_held) is false from then on. Stop, and drop it: until
/// then nothing is given back of what the store may have after all.
#[must_use = "slots are given back when this is dropped"]
pub struct LeasedPermit {
    lease: Lease,
}

impl LeasedPermit {
    /// The permit that `lease` is; its renewal begins.
    ///
    /// # Errors
    /// [`LeaseError::NoWorker`].
    pub(super) fn begin(shared: &Shared, mut lease: Lease) -> Result<Self, LeaseError> {
        let longest = shared.longest_hold.map(Span::from);
        let longest = longest.map(|longest| shared.clock.now() + longest);
        lease.keep(shared.ttl, longest)?;
        Ok(Self { lease })
    }

    /// Its fencing token: larger than that of every earlier permit of this key,
    /// also of those that expired or were lost with their process, and across a
    /// restart of the store. Hand it to whatever is written to, which refuses a
    /// smaller one than it has seen.
    #[must_use]
    pub fn fence(&self) -> u64 {
        // The store gives each out: no permit is without.
        self.lease.fence().unwrap_or(0)
    }

    /// Its name, by which it can be given back from elsewhere; a secret of its
    /// holder's.
    #[must_use]
    pub fn id(&self) -> LeaseId {
        self.lease.id()
    }

    /// The key that it is for.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        self.lease.key()
    }

    /// Whether it is surely held now. Once it is not, it never is again.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.lease.is_held()
    }

    /// Until when it is surely held if it is not renewed any more, by the clock
    /// of its semaphore.
    #[must_use]
    pub fn sure_until(&self) -> Timestamp {
        self.lease.sure_until()
    }

    /// Why it is lost, if it is.
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        self.lease.loss()
    }

    /// Ends when it is lost, at the latest at the instant from which another may
    /// have it; or (then `None`) when its holder gives it back. It borrows nothing: another
    /// task or thread can wait for it. A revocation is noticed at the next renewal, within
    /// a third of the ttl.
    pub fn lost(&self) -> Pending<impl Future<Output = Option<Loss>> + Send + use<>> {
        self.lease.lost()
    }

    /// Renews it now, before a step that matters; `false` if it is lost.
    ///
    /// # Errors
    /// *Cannot tell*: it is held for as long as [`is_held`](Self::is_held) says so.
    pub fn confirm(&self) -> Pending<impl Future<Output = Result<bool, LeaseError>> + Send> {
        Pending::new(self.lease.confirm())
    }

    /// Gives it back, and says whether it was held until now.
    ///
    /// # Errors
    /// It had ended at the store ([`LeaseError::Ended`], [`LeaseError::Unknown`]). *Cannot
    /// tell*: the slots are back within the ttl at the latest.
    pub fn release(self) -> Pending<impl Future<Output = Result<(), LeaseError>> + Send> {
        Pending::new(async move {
            let Self { mut lease } = self;
            let settlement = lease.release().await?;
            // A repeated answer is that to another, who released it by its id.
            match settlement.expired() || settlement.repeated() {
                true => Err(LeaseError::Ended(
                    lease.ended_elsewhere(settlement.expired()),
                )),
                false => Ok(()),
            }
        })
    }

    /// Leaves it to whoever knows its id: it is not renewed any more, and unless
    /// it is [released](super::LeasedSemaphore::release) by that id, its slots are back
    /// within the ttl.
    pub fn detach(self) -> LeaseId {
        self.lease.detach()
    }
}

impl fmt::Debug for LeasedPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeasedPermit")
            .field("id", &self.id())
            .field("key", &String::from_utf8_lossy(self.key()))
            .field("fence", &self.fence())
            .field("loss", &self.loss())
            .finish_non_exhaustive()
    }
}
