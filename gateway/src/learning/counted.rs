//! What others use of an account, charged once by all gateways of a store.
//!
//! Each gateway sees the same use in the headers of its own calls. What was charged for others in
//! all is itself counted in the store, under a limit whose capacity travels with the command: a
//! gateway asks for as much as its answer told, up to the total that it told, and so finds no room
//! where another one has charged that already.
//!
//! A gateway that is killed between the two steps has counted and not charged: the answer to the next
//! call tells of it again.

use std::sync::Arc;

use tidegate::internal::LimitInternals;
use tidegate::{Error, Limit, LimitSet, Standing};
use tidegate_llm::learnt::Elsewhere;
use tidegate_service::Service;
use tokio::sync::{Mutex, OnceCell};

/// The one key that it is counted under.
const KEY: &str = "account";

/// What is charged for others, in all.
pub(super) struct Counted {
    name: String,
    limit: Limit,
    set: OnceCell<LimitSet>,
    /// The capacity is one charge's at a time.
    turn: Mutex<()>,
}

impl Counted {
    pub(super) fn new(name: &str, limit: &Limit) -> Self {
        Self {
            // No policy's table is called so.
            name: format!("learnt///{name}"),
            limit: limit.alone(),
            set: OnceCell::new(),
            turn: Mutex::new(()),
        }
    }

    /// A store beyond a network is waited for, on a thread of its own.
    async fn set(&self, service: &Service) -> Result<&LimitSet, Error> {
        let open = || async {
            let builder = LimitSet::builder()
                .name(&self.name)
                .limit(self.limit.clone())
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

    /// How much of it this gateway is to charge, and how much is counted in all then.
    pub(super) async fn count(
        &self,
        service: &Service,
        elsewhere: Elsewhere,
    ) -> Result<(u64, Option<Standing>), Error> {
        let set = self.set(service).await?;
        let name = self.limit.name();
        let _turn = self.turn.lock().await;
        set.set_capacity(name, elsewhere.total)?;
        let mut amount = elsewhere.amount;
        let mut decision = set.check(KEY, &[(name, amount)]).await?;
        if !decision.admitted() {
            // Another gateway has counted a part of it, or all.
            amount = decision.remaining(name).unwrap_or(0);
        }
        if !decision.admitted() && amount > 0 {
            decision = set.check(KEY, &[(name, amount)]).await?;
        }
        let is_ours = decision.admitted();
        let standing = decision.standing(name);
        Ok((if is_ours { amount } else { 0 }, standing))
    }
}
