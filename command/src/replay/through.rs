//! Playing a trace through a running server, over HTTP, at so many times the
//! pace of the trace; the server's clock must run at the same pace.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_client::{Reply, Verb};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::decision::{Charges, Decision, Outcome, Run};
use super::usage::Meter;
use crate::client::{Client, PATIENCE, stop};
use crate::subject::Subject;
use crate::trace::Trace;
use tidegate_server::trouble::{self, Trouble};

/// The server, and how it is asked.
pub struct Server {
    pub client: Client,
    /// The name that it knows the policy by.
    pub policy: String,
    /// How many times as fast as the trace.
    pub speed: u32,
    pub wait: Option<Duration>,
}

/// What all requests share.
struct Stage {
    server: Server,
    trace: Trace,
    limits: Vec<Subject>,
    charges: Charges,
    begun: Instant,
    /// How many leases the server did not know any more when they were settled.
    forgotten: AtomicU64,
}

/// What a request reports.
enum Report {
    /// Something was taken or given back: where the limits of its key stand.
    Look(usize, u64, Value),
    Done(usize, Decision),
    Failed(Trouble),
}

/// Plays the trace, and gathers what became of it.
pub async fn play_through(
    server: Server,
    trace: Trace,
    limits: Vec<Subject>,
    charges: Charges,
    mut tick: impl FnMut(),
) -> trouble::Outcome<Run> {
    let stage = Arc::new(Stage {
        server,
        trace,
        limits,
        charges,
        begun: Instant::now(),
        forgotten: AtomicU64::new(0),
    });
    let (reports, mut reported) = mpsc::channel(1_024);
    let sender = tokio::spawn(send_all(Arc::clone(&stage), reports));
    let gathered = gather(&stage, &mut reported, &mut tick).await;
    sender.abort();
    let (decisions, usage) = gathered?;
    // Aborted or done, it drops its share; a moment may pass until then.
    let _ = sender.await;
    let forgotten = stage.forgotten.load(Ordering::Relaxed);
    if forgotten > 0 {
        eprintln!(
            "{forgotten} leases had ended long before they were settled: they stay charged as they \
             were granted. A longer ttl in the policy would keep them."
        );
    }
    let stage =
        Arc::into_inner(stage).ok_or_else(|| Trouble::failure("a request outlived the replay"))?;
    Ok(Run {
        trace: stage.trace,
        limits: stage.limits,
        charges: stage.charges,
        decisions,
        usage,
    })
}

async fn gather(
    stage: &Stage,
    reported: &mut mpsc::Receiver<Report>,
    tick: &mut impl FnMut(),
) -> trouble::Outcome<(Vec<Decision>, Vec<super::decision::Usage>)> {
    let mut decisions = vec![Decision::UNDECIDED; stage.trace.requests.len()];
    let mut meter = Meter::new(&stage.limits);
    let mut latest = 0;
    while let Some(report) = reported.recv().await {
        match report {
            Report::Failed(trouble) => return Err(trouble),
            Report::Look(number, at, limits) => {
                latest = at.max(latest);
                stage.look(&mut meter, number, latest, &limits);
            }
            Report::Done(number, decision) => {
                decisions[number] = decision;
                tick();
            }
        }
    }
    Ok((decisions, meter.finish(latest)))
}

async fn send_all(stage: Arc<Stage>, reports: mpsc::Sender<Report>) {
    let mut requests = tokio::task::JoinSet::new();
    for number in 0..stage.trace.requests.len() {
        sleep_until(stage.instant(stage.trace.requests[number].arrived)).await;
        let (stage, reports) = (Arc::clone(&stage), reports.clone());
        requests.spawn(async move {
            let report = match stage.request(number, &reports).await {
                Ok(decision) => Report::Done(number, decision),
                Err(trouble) => Report::Failed(trouble),
            };
            // Nobody listens any more once the replay has failed.
            let _ = reports.send(report).await;
        });
    }
    while requests.join_next().await.is_some() {}
}

impl Stage {
    /// From a trace's microsecond to the machine's clock.
    fn instant(&self, at: u64) -> Instant {
        self.begun + Duration::from_micros(at) / self.server.speed
    }

    /// And back.
    fn now(&self) -> u64 {
        let micros = self.begun.elapsed().as_micros() * u128::from(self.server.speed);
        u64::try_from(micros).unwrap_or(u64::MAX)
    }

    /// One request, from its arrival to its end.
    async fn request(
        &self,
        number: usize,
        reports: &mpsc::Sender<Report>,
    ) -> trouble::Outcome<Decision> {
        let first = self.acquire(number, None).await?;
        let mut outcome = Outcome::Admitted;
        let mut granted = first.is_success().then_some(first.clone());
        let binding = if granted.is_none() {
            self.binding(&first)?
        } else {
            None
        };
        if let (None, Some(wait), 429) = (&granted, self.server.wait, first.status) {
            let second = self.acquire(number, Some(wait)).await?;
            outcome = Outcome::Waited;
            granted = second.is_success().then_some(second);
        }
        let Some(granted) = granted else {
            return Ok(Decision {
                ran: None,
                outcome: Outcome::Refused,
                binding,
            });
        };
        let started = self.now();
        self.report(number, reports).await?;
        let ended = started + self.charges.service_us(&self.trace.requests[number]);
        sleep_until(self.instant(ended)).await;
        self.settle(number, &granted).await?;
        self.report(number, reports).await?;
        Ok(Decision {
            ran: Some((started, ended)),
            outcome,
            binding,
        })
    }

    async fn acquire(&self, number: usize, wait: Option<Duration>) -> trouble::Outcome<Reply> {
        let mut body = self.about(number);
        body["amounts"] = self.amounts(number, |limit, request| {
            self.charges.reserved(limit, request)
        });
        if let Some(wait) = wait {
            body["wait_ms"] = json!(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
            // As the replay by itself: a request waits as long as it may.
            body["wait_for_refunds"] = json!(true);
        }
        let longest = PATIENCE.saturating_add(wait.unwrap_or_default());
        let acquire = Verb::Acquire.of(&body).within(longest);
        Ok(self.server.client.ask(acquire).await?)
    }

    async fn settle(&self, number: usize, granted: &Reply) -> trouble::Outcome<()> {
        let mut body = self.about(number);
        body["lease"] = granted.body["lease"]["id"].clone();
        body["used"] = self.amounts(number, |limit, request| self.charges.used(limit, request));
        let reply = self.server.client.ask(Verb::Settle.of(&body)).await?;
        match reply.status {
            // It expired long ago: what it was charged stays, and the rest goes on.
            404 => drop(self.forgotten.fetch_add(1, Ordering::Relaxed)),
            _ if reply.is_success() => {}
            _ => return Err(stop(&reply).into()),
        }
        Ok(())
    }

    /// Looks where the limits of the request's key stand.
    async fn report(&self, number: usize, reports: &mpsc::Sender<Report>) -> trouble::Outcome<()> {
        let mut body = self.about(number);
        body["cost"] = json!(1);
        let reply = self.server.client.ask(Verb::Peek.of(&body)).await?;
        let look = Report::Look(number, self.now(), reply.body["limits"].clone());
        let _ = reports.send(look).await;
        Ok(())
    }

    fn about(&self, number: usize) -> Value {
        let key = &self.trace.keys[self.trace.requests[number].key as usize];
        json!({ "policy": self.server.policy, "key": key })
    }

    /// What `amount` says of every rate and budget.
    fn amounts(
        &self,
        number: usize,
        amount: impl Fn(usize, &crate::trace::Request) -> u64,
    ) -> Value {
        let request = &self.trace.requests[number];
        let charged = self.limits.iter().enumerate();
        let charged = charged.filter(|(_, limit)| limit.is_charged());
        let named = charged.map(|(at, limit)| (limit.name.clone(), json!(amount(at, request))));
        Value::Object(named.collect())
    }

    /// The limit that a refusal names; an error if it is none.
    fn binding(&self, reply: &Reply) -> trouble::Outcome<Option<usize>> {
        let name = match reply.status {
            429 => reply.body["binding"].as_str(),
            422 => reply.body["limit"].as_str(),
            _ => return Err(stop(reply).into()),
        };
        Ok(self
            .limits
            .iter()
            .position(|limit| Some(limit.name.as_str()) == name))
    }

    fn look(&self, meter: &mut Meter<'_>, number: usize, now: u64, limits: &Value) {
        let key = &self.trace.keys[self.trace.requests[number].key as usize];
        for (at, limit) in self.limits.iter().enumerate() {
            let standing = &limits[&limit.name];
            let figure = |name: &str| standing[name].as_u64();
            if let (Some(capacity), Some(remaining)) = (figure("limit"), figure("remaining")) {
                let used = capacity - remaining + figure("debt").unwrap_or(0);
                let full = standing["full_in_ms"].as_u64().map(|ms| now + ms * 1_000);
                meter.look(at, key, now, used, full);
            }
        }
    }
}
