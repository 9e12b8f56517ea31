//! Who asks, who waits, and when the rest goes back.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate::{Amount, Timestamp};
use tidegate_store::sync::Mutex;
use tokio::sync::{Mutex as Turn, watch};
use tokio::time::{Instant, sleep, timeout};

use super::amounts::Amounts;
use super::held::{Back, Held, Manner, Spent, Step};
use super::limits::missing;
use super::returns::Returns;
use crate::answer::Answer;
use crate::client::Client;
use crate::error::Error;
use crate::grant::GrantAnswer;
use crate::key::Key;
use crate::lease::ended;
use crate::named::Named;
use crate::quantity::Quantity;
use crate::report::Report;
use crate::request::Request;
use crate::settlement::Settlement;

/// The most requests that wait for a grant. Others are the server's.
const MOST_WAITING: u32 = 1_024;

/// So often a grant may come too late before the request that waits for it is the server's.
const MOST_LATE: u8 = 3;

/// For how long a grant is held where nobody says.
const USUAL_HOLD: Duration = Duration::from_secs(1);

/// What is over is looked for no oftener.
const SHORTEST_PACE: Duration = Duration::from_millis(5);

/// What is over goes back first, if the server takes it within so long.
const BACK_FIRST: Duration = Duration::from_secs(1);

/// What spends a key's limits here, by grants that it takes from the server in advance: mostly
/// without asking. A clone spends the same grants.
///
/// It asks for one grant at a time: requests that lack units wait for it, in order of arrival.
/// What it is refused it remembers until the instant that is named, for `idle` at most. Units that
/// are not spent go back when the key lies [idle](SpenderBuilder::idle), with
/// [`close`](Self::close), and, in the background and if the process lives on, when the last clone
/// is dropped. A process that is killed leaves at most what it held.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = tidegate_client::Client::new("http://127.0.0.1:7400")?;
/// let spender = client
///     .spender("chat", "alice")
///     .batch("rpm", 20)
///     .batch("tpm", 40_000)
///     .build();
/// if spender.take([("tpm", 1_200)]).await?.is_admitted() {
///     // ... the work ...
/// }
/// spender.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Spender(Arc<Inner>);

/// How a [`Spender`] is made.
#[derive(Clone, Debug)]
#[must_use = "`build` makes the spender"]
pub struct SpenderBuilder {
    client: Client,
    request: Request,
    manner: Manner,
}

/// Whether a request may start.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum Take {
    /// It may: its units are spent.
    Admitted,
    /// Not now: by which limit, and until when.
    Refused(Box<Answer>),
}

impl Take {
    /// Whether it may start.
    #[must_use]
    pub const fn is_admitted(&self) -> bool {
        matches!(self, Self::Admitted)
    }

    /// The refusal, if it is one.
    #[must_use]
    pub fn refusal(&self) -> Option<&Answer> {
        match self {
            Self::Admitted => None,
            Self::Refused(answer) => Some(answer),
        }
    }
}

impl Client {
    /// What spends the limits of `key`, of a policy, by grants that are taken in advance.
    pub fn spender(&self, policy: impl Into<String>, key: impl Into<Key>) -> SpenderBuilder {
        SpenderBuilder {
            client: self.clone(),
            request: Request::new(policy, key),
            manner: Manner {
                batch: Named::default(),
                low_water: 20,
                idle: Duration::from_secs(1),
            },
        }
    }
}

impl SpenderBuilder {
    /// How much of this limit a grant asks for; of a limit that is not named, one unit. A request
    /// for more than a batch is decided by the server.
    pub fn batch(mut self, limit: impl Into<String>, amount: impl Into<Quantity>) -> Self {
        self.manner.batch.insert(limit, amount.into());
        self
    }

    /// For how long a grant is spent at most, 10 ms to 60 s: as the policy's tier says, or a
    /// second, if it is not said.
    pub fn hold(mut self, hold: Duration) -> Self {
        self.request = self.request.hold(hold);
        self
    }

    /// The next grant is asked for when less than so many hundredths of a batch are left, 0 to
    /// 100; 20 unless it is said, and 0: when a request finds too little.
    pub fn low_water(mut self, hundredths: u8) -> Self {
        self.manner.low_water = hundredths.min(100);
        self
    }

    /// What is not spent goes back after so long without a request; a second unless it is said,
    /// and 10 ms at least. A refusal is remembered for no longer.
    pub fn idle(mut self, idle: Duration) -> Self {
        self.manner.idle = idle.max(Duration::from_millis(10));
        self
    }

    /// Makes it, within a tokio runtime. Nothing is asked before the first request.
    #[must_use]
    pub fn build(self) -> Spender {
        let (client, request) = (self.client, self.request);
        let returns = Returns::new(
            client.clone(),
            request.policy().to_owned(),
            request.key().clone(),
        );
        let hold = request.hold.unwrap_or(USUAL_HOLD);
        let inner = Arc::new_cyclic(|this| Inner {
            client,
            request,
            pace: (self.manner.idle.min(hold) / 2).max(SHORTEST_PACE),
            held: Mutex::new(Held::new(self.manner)),
            returns,
            turn: Turn::new(()),
            waiting: AtomicU32::new(0),
            landed: watch::Sender::new(Landing::default()),
            begun: Instant::now(),
            is_swept: Mutex::new(false),
            this: Weak::clone(this),
        });
        Spender(inner)
    }
}

/// What came of the newest request for a grant.
#[derive(Clone, Debug, Default)]
struct Landing(Option<Error>);

struct Inner {
    client: Client,
    /// Of which policy and key, and for how long.
    request: Request,
    held: Mutex<Held>,
    returns: Returns,
    /// One request at a time waits for a grant; those behind it wait for this.
    turn: Turn<()>,
    waiting: AtomicU32,
    landed: watch::Sender<Landing>,
    /// Instants are counted from here.
    begun: Instant,
    pace: Duration,
    is_swept: Mutex<bool>,
    this: Weak<Self>,
}

impl Spender {
    /// Whether a request for so much may start: it is covered by what is here, or waits for the
    /// one grant that is on its way.
    ///
    /// A request for more than a batch, one that makes no sense, and any while the server's store
    /// cannot tell is decided by the server, as [`Client::check`] does.
    ///
    /// # Errors
    /// As [`Client::grant`] and [`Client::check`].
    pub async fn take(&self, amounts: impl Into<Amounts>) -> Result<Take, Error> {
        self.0.take(&amounts.into()).await
    }

    /// Charges what was used already, whether it fits or not: a budget whose cost is known
    /// afterwards. What is here covers it, and the server is not asked; what it does not cover
    /// ends a grant with so much more than that had, and the excess is debt at once and exactly
    /// once; where there is no grant, it is debited ([`Client::debit`]).
    ///
    /// Ask [`take`](Self::take) or [`Client::peek`] whether the next may start.
    ///
    /// # Errors
    /// As [`Client::return_grant`] and [`Client::debit`].
    pub async fn spend(&self, amounts: impl Into<Amounts>) -> Result<(), Error> {
        self.0.spend(&amounts.into()).await
    }

    /// Gives back all that is held, and waits until the server has it, or until that was tried
    /// for long enough. From then on requests are decided by the server.
    pub async fn close(&self) {
        let mut landed = self.0.landed.subscribe();
        loop {
            landed.mark_unchanged();
            let is_asking = {
                let mut held = self.0.held.lock();
                let back = held.close();
                self.0.returns.all(back);
                held.is_asking()
            };
            if !is_asking || landed.changed().await.is_err() {
                break;
            }
        }
        self.0.returns.done().await;
    }
}

impl Inner {
    fn now(&self) -> Timestamp {
        self.at(Instant::now())
    }

    fn at(&self, instant: Instant) -> Timestamp {
        let passed = instant.saturating_duration_since(self.begun);
        Timestamp::from_micros(i64::try_from(passed.as_micros()).unwrap_or(i64::MAX))
    }

    async fn take(&self, amounts: &Amounts) -> Result<Take, Error> {
        if self.waiting.load(Ordering::Acquire) == 0 {
            match self.step(amounts) {
                Step::Admitted => return Ok(Take::Admitted),
                Step::Refused(answer) => return Ok(Take::Refused(answer)),
                Step::Server => return self.check(amounts).await,
                Step::Wait => {}
            }
        }
        match self.wait(amounts).await {
            Some(told) => told,
            None => self.check(amounts).await,
        }
    }

    /// What is told by what is here. If little is left then, more is asked for.
    fn step(&self, amounts: &Amounts) -> Step {
        let now = self.now();
        let (step, more) = {
            let mut held = self.held.lock();
            let step = held.step(amounts, now);
            let more = match step {
                Step::Admitted => held.refill(amounts, self.request.clone(), now),
                _ => None,
            };
            (step, more)
        };
        if let Some(request) = more {
            self.ask(request, Vec::new());
        }
        step
    }

    /// Waits for what is on its way; `None` where the server is to decide.
    async fn wait(&self, amounts: &Amounts) -> Option<Result<Take, Error>> {
        let waiting = Waiting::new(self, amounts)?;
        let _turn = self.turn.lock().await;
        for _ in 0..MOST_LATE {
            let mut landed = self.landed.subscribe();
            match self.step(amounts) {
                Step::Admitted => return Some(Ok(Take::Admitted)),
                Step::Refused(answer) => return Some(Ok(Take::Refused(answer))),
                Step::Server => return None,
                Step::Wait => {}
            }
            let now = self.now();
            let (over, request, is_asking) = {
                let mut held = self.held.lock();
                let over = held.take_ended(now);
                let request = held.ask(amounts, self.request.clone());
                (over, request, held.is_asking())
            };
            match request {
                Some(request) => self.ask(request, over),
                None => self.returns.all(over),
            }
            if !is_asking {
                // It was closed meanwhile: nothing will land.
                continue;
            }
            if landed.changed().await.is_err() {
                return None;
            }
            let failed = landed.borrow_and_update().0.clone();
            match failed {
                None => {}
                // Its policy's failure mode says what a check is answered.
                Some(Error::Unavailable(_)) => return None,
                Some(error) => return Some(Err(error)),
            }
        }
        drop(waiting);
        None
    }

    /// Asks for a grant, once what is over is back. It lands by itself, whoever waits for it.
    fn ask(&self, request: Request, over: Vec<Back>) {
        let Some(this) = self.this.upgrade() else {
            return;
        };
        let mut asked = Asked(Some(this));
        self.returns.spawn(async move {
            if let Some(this) = &asked.0 {
                let back = over.into_iter().filter_map(|one| this.returns.begin(one));
                let back = back.collect::<Vec<_>>();
                let all = async {
                    for one in back {
                        drop(one.await);
                    }
                };
                drop(timeout(BACK_FIRST, all).await);
                let answer = this.client.grant(&request).await;
                if let Some(this) = asked.0.take() {
                    this.land(answer);
                }
            }
        });
    }

    /// The runtime that asked is gone.
    fn land_nothing(&self) {
        let back = self.held.lock().land(None, (0, Timestamp::MIN), self.now());
        self.returns.all(back);
        self.landed.send_replace(Landing(None));
    }

    fn land(&self, answer: Result<GrantAnswer, Error>) {
        let (answer, error) = match answer {
            Ok(answer) => (Some(answer), None),
            Err(error) => (None, Some(error)),
        };
        let of = match &answer {
            Some(GrantAnswer::Granted(grant)) => (grant.number(), self.at(grant.sent())),
            _ => (0, Timestamp::MIN),
        };
        let back = {
            let (mut held, now) = (self.held.lock(), self.now());
            let mut back = held.land(answer, of, now);
            if error.as_ref().is_some_and(|error| !error.is_passing()) {
                back.extend(held.forget_limits());
            }
            back
        };
        self.returns.all(back);
        self.landed.send_replace(Landing(error));
        self.look_after();
    }

    /// Sees to it that what is over, or lies idle, goes back.
    fn look_after(&self) {
        if std::mem::replace(&mut *self.is_swept.lock(), true) {
            return;
        }
        let (this, pace) = (Weak::clone(&self.this), self.pace);
        self.returns.spawn(async move {
            loop {
                sleep(pace).await;
                let Some(this) = this.upgrade() else { return };
                if this.sweep() {
                    return;
                }
            }
        });
    }

    /// Whether there is nothing to look after any more.
    fn sweep(&self) -> bool {
        let now = self.now();
        let (back, is_empty) = {
            let mut held = self.held.lock();
            let back = held.sweep(now);
            let is_empty = held.is_empty();
            if is_empty {
                *self.is_swept.lock() = false;
            }
            (back, is_empty)
        };
        self.returns.all(back);
        is_empty
    }

    async fn check(&self, amounts: &Amounts) -> Result<Take, Error> {
        let request = Request::new(self.request.policy(), self.request.key().clone());
        let answer = self.client.check(&amounts.of(request)).await?;
        Ok(match answer.admitted {
            true => Take::Admitted,
            false => Take::Refused(Box::new(answer)),
        })
    }

    async fn spend(&self, amounts: &Amounts) -> Result<(), Error> {
        let now = self.now();
        let spent = self.held.lock().spend(amounts, now);
        match spent {
            None => Ok(()),
            Some(Spent::Debit) => self.debit(amounts).await,
            Some(Spent::DebitAnd(back)) => {
                self.returns.all(back);
                self.debit(amounts).await
            }
            Some(Spent::Over(over, back)) => {
                self.returns.all(back);
                let report = over.1.clone();
                match self.returns.begin(over) {
                    Some(returned) => self.debit_missing(&report, &ended(returned).await?).await,
                    // What it has is used when it expires.
                    None => self.debit(amounts).await,
                }
            }
        }
    }

    /// What `report` says was used is debited as far as the lease was ended with less: revoked.
    async fn debit_missing(&self, report: &Report, ended: &Settlement) -> Result<(), Error> {
        match missing(report, ended).filter(|_| ended.repeated) {
            Some(missing) => self.debit(&missing).await,
            None => Ok(()),
        }
    }

    async fn debit(&self, amounts: &Amounts) -> Result<(), Error> {
        let request = Request::new(self.request.policy(), self.request.key().clone());
        self.client.debit(&amounts.of(request)).await.map(drop)
    }
}

/// A grant that was asked for: it lands, if only since its runtime is gone.
struct Asked(Option<Arc<Inner>>);

impl Drop for Asked {
    fn drop(&mut self) {
        if let Some(inner) = self.0.take() {
            inner.land_nothing();
        }
    }
}

/// One that waits for a grant, and what it needs.
struct Waiting<'a> {
    inner: &'a Inner,
    amounts: Vec<Amount>,
}

impl<'a> Waiting<'a> {
    /// `None`: too many wait.
    fn new(inner: &'a Inner, amounts: &Amounts) -> Option<Self> {
        let waiting = inner.waiting.fetch_add(1, Ordering::AcqRel);
        if waiting >= MOST_WAITING {
            inner.waiting.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        let amounts = inner.held.lock().wait(amounts);
        Some(Self { inner, amounts })
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.inner.held.lock().wait_over(&self.amounts);
        self.inner.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let back = self.held.lock().take_all();
        self.returns.all(back);
    }
}

impl fmt::Debug for Spender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spender")
            .field("policy", &self.0.request.policy())
            .field("key", self.0.request.key())
            .finish_non_exhaustive()
    }
}
