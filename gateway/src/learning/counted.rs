//! What others use of an account, charged once by all gateways of a store.
//!
//! Each gateway sees the same use in the headers of its own calls. What was charged for others, ever,
//! is itself counted in the store, under a limit whose capacity travels with the command: a gateway
//! asks for as much as its answer told, up to the sum that it told, and so finds no room where another
//! one has charged that already. The sum begins again once a day, so that it stays a number.
//!
//! A gateway that is killed between the two steps has counted and not charged: the answers to the next
//! two calls tell of it again.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{Algorithm, Error, Limit, LimitSet, Standing};
use tidegate_llm::learnt::Elsewhere;
use tidegate_service::Service;
use tokio::sync::{Mutex, MutexGuard, OnceCell, Semaphore, SemaphorePermit};

/// The one key that it is counted under.
const KEY: &str = "account";

/// The limit that counts it.
const CHARGED: &str = "charged";

/// It is one sum for so long: far longer than any call takes.
const STRETCH: Duration = Duration::from_secs(86_400);

/// So many charges wait for their turn at most: what one too many would have charged, the answer to a
/// later call tells again.
const LINE: usize = 64;

/// What is charged for others, ever.
pub(super) struct Counted {
    name: String,
    set: OnceCell<LimitSet>,
    /// One charge at a time.
    turn: Mutex<()>,
    line: Semaphore,
}

/// One charge's turn.
pub(super) struct Turn<'a> {
    _turn: MutexGuard<'a, ()>,
    _place: SemaphorePermit<'a>,
}

impl Counted {
    pub(super) fn new(name: &str) -> Self {
        Self {
            // No policy's table is called so.
            name: format!("learnt///{name}"),
            set: OnceCell::new(),
            turn: Mutex::new(()),
            line: Semaphore::new(LINE),
        }
    }

    /// A store beyond a network is waited for, on a thread of its own.
    async fn set(&self, service: &Service) -> Result<&LimitSet, Error> {
        let open = || async {
            let sum = Limit::rate(CHARGED, 1, STRETCH).algorithm(Algorithm::FixedWindow);
            let builder = LimitSet::builder()
                .name(&self.name)
                .limit(sum.adaptive())
                .clock(service.clock().clone());
            let builder = match service.store() {
                Some(store) => builder.store(Arc::clone(store)),
                None => builder,
            };
            let opened = tokio::task::spawn_blocking(move || builder.build());
            Ok(opened.await.map_err(|_| Error::Stopped)??)
        };
        self.set.get_or_try_init(open).await
    }

    /// Whoever has it counts, charges, and then knows what is charged. Nothing if too many wait.
    pub(super) async fn turn(&self) -> Option<Turn<'_>> {
        let place = self.line.try_acquire().ok()?;
        Some(Turn {
            _turn: self.turn.lock().await,
            _place: place,
        })
    }

    /// How much of it this gateway is to charge, and how much is counted in all then. Whoever asks
    /// has the [turn](Self::turn).
    pub(super) async fn count(
        &self,
        service: &Service,
        elsewhere: Elsewhere,
    ) -> Result<(u64, Option<Standing>), Error> {
        let set = self.set(service).await?;
        set.set_capacity(CHARGED, elsewhere.total)?;
        let mut amount = elsewhere.amount;
        let mut decision = set.check(KEY, &[(CHARGED, amount)]).await?;
        if !decision.admitted() {
            // Another gateway has counted a part of it, or all.
            amount = decision.remaining(CHARGED).unwrap_or(0);
        }
        if !decision.admitted() && amount > 0 {
            decision = set.check(KEY, &[(CHARGED, amount)]).await?;
        }
        let is_ours = decision.admitted();
        let standing = decision.standing(CHARGED);
        Ok((if is_ours { amount } else { 0 }, standing))
    }
}
