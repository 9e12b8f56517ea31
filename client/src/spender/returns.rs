//! What is given back, again if the server does not answer.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::held::Back;
use crate::client::{Client, pause};
use crate::error::Error;
use crate::key::Key;
use crate::lease_ref::LeaseRef;
use crate::report::Report;
use crate::settlement::Settlement;

/// So many grants are given back at a time. Others are left to expire.
const PLACES: u32 = 64;

/// So often it is tried.
const TRIES: u32 = 8;

/// The end of one grant.
pub(super) type Returned = JoinHandle<Result<Settlement, Error>>;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Returns {
    client: Client,
    policy: String,
    key: Key,
    places: Arc<Semaphore>,
    runtime: Handle,
}

impl Returns {
    pub(super) fn new(client: Client, policy: String, key: Key) -> Self {
        Self {
            client,
            policy,
            key,
            places: Arc::new(Semaphore::new(PLACES as usize)),
            runtime: Handle::current(),
        }
    }

    /// Gives it back in the background; `None` if too much is given back already.
    pub(super) fn begin(&self, (id, used): Back) -> Option<Returned> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        let lease = LeaseRef::new(&self.policy, self.key.clone(), format!("{id:032x}"));
        let client = self.client.clone();
        Some(self.runtime.spawn(async move {
            let returned = returned(&client, &lease, &used).await;
            drop(place);
            returned
        }))
    }

    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.runtime.spawn(task));
    }

    pub(super) fn all(&self, backs: Vec<Back>) {
        for back in backs {
            drop(self.begin(back));
        }
    }

    /// Ends when all has been given back.
    pub(super) async fn done(&self) {
        // It is never closed.
        let _ = self.places.acquire_many(PLACES).await;
    }
}

async fn returned(client: &Client, lease: &LeaseRef, used: &Report) -> Result<Settlement, Error> {
    let mut tried = 0;
    loop {
        let returned = client.return_grant(lease, used.clone()).await;
        tried += 1;
        match returned {
            Err(error) if error.is_passing() && tried < TRIES => sleep(pause(tried)).await,
            returned => return returned,
        }
    }
}
