//! Leases of a store that is asked without a server: a semaphore, or any other
//! limits, for shell scripts on many machines.
//!
//! The limits are those of a policy that is written here; a server with a policy
//! of that name on the same store, and whoever else says the same, shares them.

use std::slice;
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use serde_json::json;
use tidegate::internal::Pace;
use tidegate::{Key, LeaseId, Request};
use tidegate_policy::{Fault, PolicyFile};
use tidegate_service::{Acquired, ActivePolicy, Kind, Scope, Service, ServiceError};
use tokio::time::{Instant, sleep, timeout};

use super::args::Run;
use super::leases::{Held, LONGEST_PAUSE, Leases, Renewal, refused};
use crate::client::arguments::{Amount, number};
use crate::client::exit::{Exit, Outcome, Stop};
use crate::client::typed_limits::{self, Typed};
use tidegate_server::store::{self, Opened};

/// Leases of a store.
pub struct Direct<'r> {
    run: &'r Run,
    active: Arc<ActivePolicy>,
    key: Vec<u8>,
    amounts: Vec<(&'r str, u64)>,
    cost: Option<u64>,
    opened: Opened,
}

/// A request, under a word of its own: asked again, it finds what was granted by an answer
/// that was lost.
struct Attempt([u8; 16]);

impl Attempt {
    fn new() -> Self {
        Self(rand::rng().random())
    }
}

/// Said of a file that another process has.
const OF_A_FILE: &str = ". A file is one command's at a time, and the next does not wait for it: where \
    several are to share limits, name shm:NAME on one machine, redis://HOST, or a server";

/// A policy of these limits.
fn policies_of(name: &str, limits: &[Typed]) -> Outcome<PolicyFile> {
    let typed = typed_limits::or_slots(limits)?;
    let policy = json!({"policy": {name: {"limits": typed}}}).to_string();
    tidegate_policy::parse("--limit.json", &policy).map_err(|errors| {
        // It is no file's: there is no line to show.
        let names: Vec<_> = limits.iter().map(|typed| &*typed.name).collect();
        let names = names.join(", ");
        let told = |fault: &Fault| format!("--limit {names}: {}; {}", fault.message, fault.help);
        let told: Vec<_> = errors.faults().iter().map(told).collect();
        Stop::usage(told.join("\n"))
    })
}

impl<'r> Direct<'r> {
    /// Leases of the store at `url`, as `run` was told.
    pub fn new(run: &'r Run, url: &str) -> Outcome<Self> {
        let name = run.name();
        // One by one first: a fault is told with the limit that has it.
        for limit in &run.limits {
            policies_of(&name, slice::from_ref(limit))?;
        }
        let file = policies_of(&name, &run.limits)?;
        if url.starts_with("memory:") {
            return Err(Stop::usage(
                "--store memory: guards nothing: another process has a memory of its own; name \
                 a store that all share, redis://HOST say, or file:PATH for one at a time",
            ));
        }
        let opened = store::open(url, store::TYPED).map_err(|trouble| {
            let mut stop = Stop::from(trouble);
            if url.starts_with("file:") && stop.message.contains("is in use already") {
                stop.message += OF_A_FILE;
            }
            stop
        })?;
        // Whoever runs it says how long, and nobody else is held up.
        let builder = Service::builder().longest_wait(Duration::MAX);
        let builder = builder.store(Arc::clone(&opened.store));
        let service = builder.build(&file).map_err(Stop::failed)?;
        let everyone = service.enter(None).map_err(Stop::failed)?;
        let active = service.policy(&everyone, Scope::Decide, &name);
        let active = active.map_err(Stop::failed)?;
        let amounts = run.amounts().map(|Amount { limit, amount }| {
            let amount = active.amount(limit, number(amount)).map_err(stop)?;
            Ok((limit.as_str(), amount))
        });
        let amounts = amounts.collect::<Outcome<Vec<_>>>()?;
        let cost = run
            .cost
            .as_ref()
            .map(|cost| active.cost(number(cost), None, &amounts));
        let cost = cost.transpose().map_err(stop)?;
        Ok(Self {
            run,
            amounts,
            cost,
            active,
            key: run.key()?,
            opened,
        })
    }

    fn wait(&self) -> Duration {
        self.run.wait.unwrap_or_default()
    }

    fn request<'a>(&'a self, attempt: &'a Attempt, longest: Duration) -> Request<'a> {
        let run = self.run;
        let mut request = Request::named(&self.amounts).priority(run.priority);
        request = request.ttl(run.ttl);
        if let Some(cost) = self.cost {
            request = request.cost(cost);
        }
        if !self.wait().is_zero() {
            request = request.idempotency(&attempt.0);
        }
        if run.wait_for_refunds {
            request = request.wait_for_refunds();
        }
        request.within(longest)
    }

    /// Asks as `attempt`. `None`: what an earlier answer, which was lost, had granted
    /// has ended meanwhile.
    async fn try_as(&self, attempt: &Attempt, longest: Duration) -> Outcome<Option<Held>> {
        let key = Key::from(&self.key);
        let acquired = self
            .active
            .acquire(key, self.request(attempt, longest))
            .await;
        let (held, repeated) = match acquired.map_err(stop)? {
            Acquired::Granted(granted) => {
                let held = Held {
                    id: granted.id.to_string(),
                    fence: granted.fence,
                    sure_until: Instant::now() + granted.expires_in,
                };
                (held, granted.repeated)
            }
            Acquired::Refused(decision) => {
                let again = decision.retry_after().zip(decision.not_until());
                let again = again.map(|(after, at)| (after, at.to_string()));
                let message = refused(decision.binding(), again, self.run.advice());
                return Err(Stop::new(Exit::Refused, message));
            }
            Acquired::Degraded(error) => return Err(Stop::failed(error)),
        };
        if !repeated {
            return Ok(Some(held));
        }
        match self.renew(&held).await {
            Renewal::Until(sure_until) => Ok(Some(Held { sure_until, ..held })),
            Renewal::Lost(_) => Ok(None),
            Renewal::Unsure(why) => Err(Stop::failed(why)),
        }
    }

    fn id(held: &Held) -> Outcome<LeaseId> {
        held.id.parse().map_err(Stop::failed)
    }
}

impl Leases for Direct<'_> {
    /// Who waits goes on to do so while the store is away.
    async fn acquire(&self) -> Outcome<Held> {
        let (begun, ttl) = (Instant::now(), self.run.ttl);
        let left = || self.wait().saturating_sub(begun.elapsed());
        let (mut attempt, mut pace) = (Attempt::new(), Pace::new(ttl));
        loop {
            let sent = Instant::now();
            let failed = match self.try_as(&attempt, left()).await {
                Ok(Some(held)) => return Ok(held),
                Ok(None) => {
                    attempt = Attempt::new();
                    continue;
                }
                Err(stop) => stop,
            };
            if failed.exit != Exit::Failed || left().is_zero() {
                return Err(failed);
            }
            // A request that lasted so long stood in line: it was heard of meanwhile.
            if sent.elapsed() >= ttl {
                pace = Pace::new(ttl);
            }
            if pace.is_answered() {
                eprintln!("tidegate run: {}; waiting on", failed.message);
            }
            // Soon enough to keep a place; not all at once, when the store is back.
            let pause = pace.unanswered(left()).min(LONGEST_PAUSE);
            sleep(pause.mul_f64(rand::rng().random_range(0.5..=1.0))).await;
        }
    }

    /// A dropped request has given back what it was granted.
    async fn given_up(&self) {}

    async fn renew(&self, held: &Held) -> Renewal {
        let sent = Instant::now();
        let id = match Self::id(held) {
            Ok(id) => id,
            Err(stop) => return Renewal::Lost(stop.message),
        };
        let ttl = self.run.ttl;
        let renewed = self.active.renew(Key::from(&self.key), id, Some(ttl));
        match renewed.await.map_err(stop) {
            Ok(_) => Renewal::Until(sent + ttl),
            Err(stop) if stop.exit == Exit::Gone => Renewal::Lost(stop.message),
            Err(stop) => Renewal::Unsure(stop.message),
        }
    }

    async fn end(&self, held: &Held, begun: bool, within: Duration) -> Outcome<()> {
        let id = Self::id(held)?;
        let key = Key::from(&self.key);
        let end = async {
            match begun {
                true => self.active.release(key, id).await,
                false => self.active.cancel(key, id).await,
            }
        };
        let ended = timeout(within, end).await;
        let ended = ended.map_err(|_| Stop::failed("the store does not answer"))?;
        ended.map_err(stop)?;
        self.opened.flush().map_err(Stop::failed)
    }
}

fn stop(error: ServiceError) -> Stop {
    let exit = match error.kind() {
        Kind::Unauthenticated | Kind::Forbidden => Exit::NotAllowed,
        Kind::NotFound | Kind::Ended | Kind::Deleted => Exit::Gone,
        Kind::Invalid => Exit::Usage,
        Kind::Conflict | Kind::InUse => Exit::Conflict,
        Kind::Never => Exit::Never,
        Kind::Busy | Kind::Full => Exit::Refused,
        Kind::Unavailable => Exit::Failed,
    };
    Stop::new(exit, error)
}
