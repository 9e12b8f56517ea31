//! What a holder has.

use std::fmt;
use std::future::Future;

use tidegate_core::Timestamp;
use tidegate_store::StoreError;

use super::kept::KeptLease;
use super::semaphore::Shared;
use super::tenure::Loss;
use super::watch::Watch;
use crate::error::Error;
use crate::lease::Lease;
use crate::lease_id::LeaseId;
use crate::pending::Pending;

/// Slots that are held, and renewed by a thread of the semaphore's until this is
/// dropped, which gives them back. If the process is killed they are back within
/// the ttl.
///
/// A permit may be lost before it is dropped: [`lost`](Self::lost) ends then, and
/// [`is_sure`](Self::is_sure) is false from then on. Stop, and drop it: until
/// then nothing is given back of what the store may have after all.
#[must_use = "slots are given back when this is dropped"]
pub struct LeasedPermit {
    kept: KeptLease,
}

impl LeasedPermit {
    /// The permit that `lease` is, surely held until then; its renewal begins.
    ///
    /// # Errors
    /// [`Error::NoWorker`].
    pub(super) fn begin(
        shared: &Shared,
        lease: Lease,
        sure_until: Timestamp,
    ) -> Result<Self, Error> {
        let kept = KeptLease::begin(lease, shared.ttl, sure_until, shared.longest_hold)?;
        Ok(Self { kept })
    }

    /// Its fencing token: larger than that of every earlier permit of this key,
    /// also of those that expired or were lost with their process, and across a
    /// restart of the store. Hand it to whatever is written to, which refuses a
    /// smaller one than it has seen.
    #[must_use]
    pub fn fence(&self) -> u64 {
        self.kept.fence()
    }

    /// Its name, by which it can be given back from elsewhere; a secret of its
    /// holder's.
    #[must_use]
    pub fn id(&self) -> LeaseId {
        self.kept.id()
    }

    /// The key that it is for.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        self.kept.key()
    }

    /// Whether it is surely held now. Once it is not, it never is again.
    #[must_use]
    pub fn is_sure(&self) -> bool {
        self.kept.is_held()
    }

    /// Until when it is surely held if it is not renewed any more, by the clock
    /// of its semaphore.
    #[must_use]
    pub fn sure_until(&self) -> Timestamp {
        self.kept.sure_until()
    }

    /// Why it is lost, if it is.
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        self.kept.loss()
    }

    /// Ends when it is lost, at the latest at the instant from which another may
    /// have it. A revocation is noticed at the next renewal, within a third of
    /// the ttl.
    pub async fn lost(&self) -> Loss {
        loop {
            // Nobody gives it back who still borrows it.
            if let Some(loss) = self.kept.lost().await {
                return loss;
            }
        }
    }

    /// An eye on it for others, threads among them.
    #[must_use]
    pub fn watch(&self) -> Watch {
        self.kept.watch()
    }

    /// Renews it now, before a step that matters; `false` if it is lost.
    ///
    /// # Errors
    /// *Cannot tell*: it is held for as long as it is [sure](Self::is_sure).
    pub fn confirm(&self) -> Pending<impl Future<Output = Result<bool, Error>> + Send> {
        self.kept.confirm()
    }

    /// Gives it back, and says whether it was held until now.
    ///
    /// # Errors
    /// It had ended at the store ([`StoreError::LeaseEnded`],
    /// [`StoreError::UnknownLease`]). *Cannot tell*: the slots are back within
    /// the ttl at the latest.
    pub fn release(self) -> Pending<impl Future<Output = Result<(), Error>> + Send> {
        Pending::new(async move {
            let (mut lease, expired_at) = self.let_go();
            let settlement = lease.release().await?;
            // A repeated answer is that to another, who released it by its id.
            match settlement.expired() || settlement.repeated() {
                true => Err(StoreError::LeaseEnded(expired_at).into()),
                false => Ok(()),
            }
        })
    }

    /// Leaves it to whoever knows its id: it is not renewed any more, and unless
    /// it is [released](super::LeasedSemaphore::release) by that id, its slots are back
    /// within the ttl.
    pub fn detach(self) -> LeaseId {
        self.let_go().0.detach()
    }

    /// The lease, renewed no more, and until when it was sure.
    fn let_go(self) -> (Lease, Timestamp) {
        let sure_until = self.sure_until();
        (self.kept.into_lease(), sure_until)
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
