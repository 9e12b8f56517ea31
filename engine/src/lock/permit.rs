//! What a holder has.

use std::fmt;
use std::sync::Arc;

use tidegate_contract::StoreError;
use tidegate_core::{Span, Timestamp};

use super::builder::Shared;
use super::keeper::Kept;
use super::renewal::{Renewal, Renewed};
use super::tenure::{End, Loss, Tenure};
use super::watch::Watch;
use crate::error::Error;
use crate::lease::{Lease, LeaseId, Settlement};
use tidegate_contract::block_on;

/// Slots that are held, and renewed by a thread of the semaphore's until this is
/// dropped, which gives them back. If the process is killed they are back within
/// the ttl.
///
/// A permit may be lost before it is dropped: [`lost`](Self::lost) ends then, and
/// [`is_sure`](Self::is_sure) is false from then on. Stop, and drop it: until
/// then nothing is given back of what the store may have after all.
#[must_use = "slots are given back when this is dropped"]
pub struct Permit {
    // Declared first, dropped first: no renewal follows on a release.
    term: Term,
    lease: Lease,
    shared: Arc<Shared>,
}

/// Ends the tenure when its holder lets go, and the renewal.
struct Term {
    tenure: Arc<Tenure>,
    _renewal: Kept,
}

impl Drop for Term {
    fn drop(&mut self) {
        self.tenure.finish(End::GivenBack);
    }
}

impl Permit {
    /// The permit that `lease` is, surely held until then; its renewal begins.
    pub(super) fn begin(shared: &Arc<Shared>, lease: Lease, sure_until: Timestamp) -> Self {
        let clock = shared.clock.clone();
        let longest = shared.longest_hold.map(|l| clock.now() + Span::from(l));
        let tenure = Arc::new(Tenure::new(clock, sure_until, longest));
        let renewal = Renewal::new(shared, lease.key(), lease.id(), &tenure);
        let term = Term {
            _renewal: shared.keeper.spawn(renewal.run()),
            tenure,
        };
        Self {
            term,
            lease,
            shared: Arc::clone(shared),
        }
    }

    /// Its fencing token: larger than that of every earlier permit of this key,
    /// also of those that expired or were lost with their process, and across a
    /// restart of the store. Hand it to whatever is written to, which refuses a
    /// smaller one than it has seen.
    #[must_use]
    pub fn fence(&self) -> u64 {
        self.lease.fence()
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
    pub fn is_sure(&self) -> bool {
        self.term.tenure.end().is_none()
    }

    /// Until when it is surely held if it is not renewed any more, by the clock
    /// of its semaphore.
    #[must_use]
    pub fn sure_until(&self) -> Timestamp {
        self.term.tenure.sure_until()
    }

    /// Why it is lost, if it is.
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        self.watch().loss()
    }

    /// Ends when it is lost, at the latest at the instant from which another may
    /// have it. A revocation is noticed at the next renewal, within a third of
    /// the ttl.
    pub async fn lost(&self) -> Loss {
        loop {
            // Nobody gives it back who still borrows it.
            if let Some(loss) = self.watch().lost().await {
                return loss;
            }
        }
    }

    /// An eye on it for others, threads among them.
    #[must_use]
    pub fn watch(&self) -> Watch {
        Watch(Arc::clone(&self.term.tenure))
    }

    /// Renews it now, before a step that matters; `false` if it is lost.
    ///
    /// # Errors
    /// *Cannot tell*: it is held for as long as it is [sure](Self::is_sure).
    pub fn confirm(&self) -> Result<bool, Error> {
        block_on(self.confirm_async())
    }

    /// As [`confirm`](Self::confirm), on any async runtime.
    ///
    /// # Errors
    /// As [`confirm`](Self::confirm).
    pub async fn confirm_async(&self) -> Result<bool, Error> {
        if !self.is_sure() {
            return Ok(false);
        }
        let (key, id) = (self.lease.key(), self.lease.id());
        let renewal = Renewal::new(&self.shared, key, id, &self.term.tenure);
        Ok(renewal.renew().await? != Renewed::Lost && self.is_sure())
    }

    /// Gives it back, and says whether it was held until now.
    ///
    /// # Errors
    /// It had ended at the store ([`StoreError::LeaseEnded`],
    /// [`StoreError::UnknownLease`]). *Cannot tell*: the slots are back within
    /// the ttl at the latest.
    pub fn release(self) -> Result<(), Error> {
        let (mut lease, expired_at) = self.let_go();
        held_to_the_end(&lease.release().wait()?, expired_at)
    }

    /// As [`release`](Self::release), on any async runtime.
    ///
    /// # Errors
    /// As [`release`](Self::release).
    pub async fn release_async(self) -> Result<(), Error> {
        let (mut lease, expired_at) = self.let_go();
        held_to_the_end(&lease.release().await?, expired_at)
    }

    /// Leaves it to whoever knows its id: it is not renewed any more, and unless
    /// it is [released](super::Semaphore::release) by that id, its slots are back
    /// within the ttl.
    pub fn detach(self) -> LeaseId {
        self.let_go().0.detach()
    }

    /// The lease, renewed no more, and until when it was sure.
    fn let_go(self) -> (Lease, Timestamp) {
        let sure_until = self.sure_until();
        (self.lease, sure_until)
    }
}

fn held_to_the_end(settlement: &Settlement, expired_at: Timestamp) -> Result<(), Error> {
    // A repeated answer is that to another, who released it by its id.
    match settlement.expired() || settlement.repeated() {
        true => Err(StoreError::LeaseEnded(expired_at).into()),
        false => Ok(()),
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("id", &self.id())
            .field("key", &String::from_utf8_lossy(self.key()))
            .field("fence", &self.fence())
            .field("loss", &self.loss())
            .finish_non_exhaustive()
    }
}
