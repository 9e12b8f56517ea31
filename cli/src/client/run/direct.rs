//! Leases of a store that is asked without a server: a semaphore, or any other
//! limits, for shell scripts on many machines.
//!
//! The limits are those of a policy that is written here; a server with a policy
//! of that name on the same store, and whoever else says the same, shares them.

use std::sync::Arc;

use serde_json::json;
use tidegate::gate::{Entry, Gate, GateError, Kind, Scope, Served};
use tidegate::{Ask, Key, LeaseId};
use tokio::time::{Instant, timeout};

use super::args::Run;
use super::leases::{Held, Leases, Renewal};
use crate::client::exit::{Exit, Outcome, Stop};
use crate::client::limits;
use crate::client::server::PATIENCE;
use crate::store::{self, Opened};

/// Leases of a store.
pub struct Direct<'r> {
    run: &'r Run,
    served: Arc<Served>,
    key: Vec<u8>,
    amounts: Vec<(&'r str, u64)>,
    opened: Opened,
}

impl<'r> Direct<'r> {
    /// Leases of the store at `url`, as `run` was told.
    pub fn new(run: &'r Run, url: &str) -> Outcome<Self> {
        let name = run.name();
        let limits = limits::or_slots(&run.limits)?;
        let policy = json!({"policy": {name: {"limits": limits}}}).to_string();
        let file = tidegate::policy::parse("--limit.json", &policy);
        let file = file.map_err(Stop::usage)?;
        let opened = store::open(url).map_err(Stop::failed)?;
        let builder = Gate::builder().store(Arc::clone(&opened.store));
        let gate = builder.build(&file).map_err(Stop::failed)?;
        let everyone = gate.enter(None).map_err(Stop::failed)?;
        let served = gate.policy(&everyone, Scope::Decide, name);
        let amounts = run.amounts.iter();
        Ok(Self {
            run,
            served: served.map_err(Stop::failed)?,
            key: run.key()?,
            amounts: amounts.map(|a| (a.limit.as_str(), a.amount)).collect(),
            opened,
        })
    }

    fn ask(&self) -> Ask<'_> {
        let run = self.run;
        let mut ask = Ask::named(&self.amounts).priority(run.priority);
        ask = ask.ttl(run.ttl);
        if let Some(cost) = run.cost {
            ask = ask.cost(cost);
        }
        ask.within(run.wait.unwrap_or_default())
    }

    /// Asks the store on another thread: this one passes signals on meanwhile.
    async fn aside<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Served, Key<'_>) -> Result<T, GateError> + Send + 'static,
    ) -> Outcome<T> {
        let (served, key) = (Arc::clone(&self.served), self.key.clone());
        let asked = tokio::task::spawn_blocking(move || ask(&served, Key::from(&key)));
        asked.await.map_err(Stop::failed)?.map_err(stop)
    }

    fn id(held: &Held) -> Outcome<LeaseId> {
        held.id.parse().map_err(Stop::failed)
    }
}

impl Leases for Direct<'_> {
    async fn acquire(&self) -> Outcome<Held> {
        let sent = Instant::now();
        let entry = self.served.acquire(Key::from(&self.key), self.ask()).await;
        match entry.map_err(stop)? {
            Entry::Granted(ticket) => Ok(Held {
                id: ticket.id.to_string(),
                fence: ticket.fence,
                sure_until: sent + self.run.ttl,
            }),
            Entry::Refused(decision) => {
                let by = decision.binding().unwrap_or("a limit");
                let message = format!("refused by `{by}`; --wait DURATION waits for it");
                Err(Stop::new(Exit::Refused, message))
            }
            Entry::Degraded(error) => Err(Stop::failed(error)),
        }
    }

    async fn renew(&self, held: &Held) -> Renewal {
        let sent = Instant::now();
        let id = match Self::id(held) {
            Ok(id) => id,
            Err(stop) => return Renewal::Lost(stop.message),
        };
        let ttl = self.run.ttl;
        let renewed = self.aside(move |served, key| served.renew(key, id, ttl));
        match renewed.await {
            Ok(_) => Renewal::Until(sent + ttl),
            Err(stop) if stop.exit == Exit::Gone => Renewal::Lost(stop.message),
            Err(stop) => Renewal::Unsure(stop.message),
        }
    }

    async fn end(&self, held: &Held, begun: bool) -> Outcome<()> {
        let id = Self::id(held)?;
        let end = move |served: &Served, key: Key<'_>| match begun {
            true => served.release(key, id),
            false => served.cancel(key, id),
        };
        // Whoever waits for the command is not to wait for a store that hangs: the
        // lease expires by itself.
        let longest = self.run.ttl.min(PATIENCE);
        let ended = timeout(longest, self.aside(end)).await;
        ended.map_err(|_| Stop::failed("the store does not answer"))??;
        self.opened.flush().map_err(Stop::failed)
    }
}

fn stop(error: GateError) -> Stop {
    let exit = match error.kind() {
        Kind::Unauthenticated | Kind::Forbidden => Exit::NotAllowed,
        Kind::NotFound | Kind::Ended => Exit::Gone,
        Kind::Invalid => Exit::Usage,
        Kind::Never => Exit::Never,
        Kind::Busy => Exit::Refused,
        Kind::Unavailable => Exit::Failed,
    };
    Stop::new(exit, error)
}
