//! Takes from a set on a store, all of which are admitted.

use std::sync::Arc;

use tidegate_conformance::fixture::{Fixture, machine_time, plan, rate, slots};
use tidegate_store::core::{Amount, Rule, Span};
use tidegate_store::{
    Command, Detail, Ending, Item, KeyPath, Op, Out, Reply, Store, StoreFuture, Terms, Verb,
};
use tokio::runtime::Runtime;

use crate::bench::Bench;
use crate::drive::{Clients, drive};
use crate::host::Host;
use crate::measure::{Contender, Outcome, compare};

/// A set of so many rates that nobody is refused by.
#[derive(Clone)]
pub struct Ours(Arc<Fixture>);

/// For how long usage is kept.
const KEPT: Span = Span::from_secs(400 * 86_400);

/// A rate that nobody is refused by.
fn ample() -> Rule {
    rate(1_000_000, 1_000_000_000)
}

impl Ours {
    pub fn new(store: &dyn Store, name: &str, limits: usize) -> Self {
        Self::of(store, name, &vec![ample(); limits], None)
    }

    /// What most have: calls, tokens and slots, which nobody is refused by either.
    pub fn of_leases(store: &dyn Store, name: &str) -> Self {
        Self::of(store, name, &[ample(), ample(), slots(1_000_000)], None)
    }

    /// A rate of a tenant's, and one of each user.
    pub fn of_tenants(store: &dyn Store, name: &str) -> Self {
        let plan = plan(0, 2, &[(0, ample()), (1, ample())]);
        Self(Arc::new(Fixture::at(store, name, plan, machine_time())))
    }

    fn of(store: &dyn Store, name: &str, rules: &[Rule], usage: Option<Span>) -> Self {
        let rules: Vec<_> = rules.iter().map(|&rule| (0, rule)).collect();
        let plan = Arc::unwrap_or_clone(plan(0, 1, &rules)).counting_usage(usage);
        let fixture = Fixture::at(store, name, Arc::new(plan), machine_time());
        Self(Arc::new(fixture))
    }

    /// Clients that take of it, as one of a row.
    pub fn contender<'r>(
        &self,
        what: &'static str,
        runtime: &'r Runtime,
        clients: Clients,
    ) -> Contender<'r> {
        let ours = self.clone();
        let lap = move |lap| {
            let ours = ours.clone();
            drive(runtime, clients, lap, move |_, key| ours.take(key, None))
        };
        Contender {
            what,
            lap: Box::new(lap),
        }
    }

    /// Clients that take a lease and settle it, and who asks twice for `one` meanwhile.
    pub fn beside_two_of<'r, F: Future<Output = ()> + Send + 'static>(
        &self,
        what: &'static str,
        one: impl Fn(usize, u32) -> F + Clone + Send + Sync + 'static,
        runtime: &'r Runtime,
        clients: Clients,
    ) -> Vec<Contender<'r>> {
        let twice = move |client, key| {
            let (first, second) = (one(client, key), one(client, key));
            async move {
                first.await;
                second.await;
            }
        };
        vec![
            Contender {
                what: "two of them",
                lap: Box::new(move |lap| drive(runtime, clients, lap, twice.clone())),
            },
            self.leasing(what, runtime, clients),
        ]
    }

    /// Clients that take a lease and settle it, as one of a row.
    fn leasing<'r>(
        &self,
        what: &'static str,
        runtime: &'r Runtime,
        clients: Clients,
    ) -> Contender<'r> {
        let ours = self.clone();
        let lease = move |_, key| {
            let (ours, id) = (ours.clone(), fastrand::u128(..));
            async move {
                ours.take(key, Some(id)).await;
                ours.settle(key, id).await;
            }
        };
        Contender {
            what,
            lap: Box::new(move |lap| drive(runtime, clients, lap, lease.clone())),
        }
    }

    /// One unit of each limit; with an id, as a lease.
    fn take(&self, key: u32, id: Option<u128>) -> impl Future<Output = ()> + Send + use<> {
        let amounts = vec![1; self.0.plan.limits().len()];
        let expires_at = machine_time() + Span::from_secs(60);
        let terms = |id| Terms {
            id,
            expires_at,
            idempotency: None,
            least: None,
        };
        let sent = self.send(
            key,
            Verb::Take {
                amounts: &amounts,
                lease: id.map(terms),
                detail: Detail::Verdict,
            },
        );
        async move {
            match sent.await.expect("an answer") {
                Reply::Decision(decision) => assert!(decision.verdict.admitted()),
                reply => panic!("a take is answered by {reply:?}"),
            }
        }
    }

    /// All that was taken was used, as a client says it.
    fn settle(&self, key: u32, id: u128) -> impl Future<Output = ()> + Send + use<> {
        let used = vec![Some(1); self.0.plan.limits().len()];
        let sent = self.send(
            key,
            Verb::End {
                id,
                ending: Ending::Settle(&used),
                remember: true,
            },
        );
        async move {
            sent.await.expect("an answer");
        }
    }

    /// One unit of each limit of one key, and how all limits stand then.
    pub fn take_of(&self, key: &str) -> impl Future<Output = ()> + Send + use<> {
        let amounts = vec![1; self.0.plan.limits().len()];
        let command = self.0.command(key.as_bytes(), check(&amounts)).into();
        let sent = self.begin(&command);
        async move {
            sent.await.expect("an answer");
        }
    }

    /// The same of many keys together: how many were admitted.
    pub fn take_all(&self, keys: &[String]) -> impl Future<Output = usize> + Send + use<> {
        let (amounts, levels) = (vec![1; self.0.plan.limits().len()], self.0.plan.levels());
        let path = |key| KeyPath::new(key, levels).expect("a key");
        let items = keys
            .iter()
            .map(|key| (path(key.as_bytes()), check(&amounts)));
        let items: Vec<Item<'_>> = items.collect();
        let one = self.0.command(b"any", check(&amounts));
        let sent = self.begin(&Command::from(one).about(Op::Batch(&items)));
        async move {
            let Reply::Batch(answers) = sent.await.expect("answers") else {
                panic!("a batch is answered by a batch");
            };
            let admitted = |answer: &Result<Reply, _>| match answer {
                Ok(Reply::Decision(decision)) => decision.verdict.admitted(),
                _ => false,
            };
            answers.iter().filter(|answer| admitted(answer)).count()
        }
    }

    fn send(&self, key: u32, verb: Verb<'_>) -> StoreFuture {
        let key = format!("key {key}");
        self.begin(&self.0.command(key.as_bytes(), verb).into())
    }

    fn begin(&self, command: &Command<'_>) -> StoreFuture {
        let mut answer = Ok(Reply::Done);
        let execution = self.0.table.execute(command, Out::new(&mut answer));
        execution.pending().expect("a store beyond a network")
    }
}

/// What a check is of so much.
const fn check(amounts: &[Amount]) -> Verb<'_> {
    Verb::Take {
        amounts,
        lease: None,
        detail: Detail::Always,
    }
}

/// Sets that count what is used, each beside one of the same limits that does not.
pub struct Counted {
    takes: [Ours; 2],
    leases: [Ours; 2],
}

impl Counted {
    pub fn new(store: &dyn Store) -> Self {
        let both = |name: &str, rules: &[Rule]| {
            [None, Some(KEPT)].map(|usage| {
                let name = format!("{name}, counted: {}", usage.is_some());
                Ours::of(store, &name, rules, usage)
            })
        };
        Self {
            takes: both("takes", &[ample()]),
            leases: both("leases", &[ample(), ample(), slots(1_000_000)]),
        }
    }

    /// What counting costs takes, and leases.
    pub fn rows(
        &self,
        bench: &Bench,
        (engine, host): (&str, Host),
        runtime: &Runtime,
        clients: Clients,
    ) -> Vec<Outcome> {
        let [plain, counted] = &self.takes;
        let takes = vec![
            plain.contender("one limit", runtime, clients),
            counted.contender("the same, counted (aim 0.8)", runtime, clients),
        ];
        let row = format!("{engine}, usage, {}", clients.name());
        let mut outcomes = compare(bench, &row, host, takes);
        let [plain, counted] = &self.leases;
        let leases = vec![
            plain.leasing("three limits, lease, settle", runtime, clients),
            counted.leasing("the same, counted (aim 0.8)", runtime, clients),
        ];
        let row = format!("{engine}, usage, leases, {}", clients.name());
        outcomes.extend(compare(bench, &row, host, leases));
        outcomes
    }
}
