//! Takes from a set on a store, all of which are admitted.

use std::sync::Arc;

use tidegate_conformance::desk::{Desk, machine_time, plan, rate};
use tidegate_contract::{Detail, Out, Reply, Store, Verb};
use tokio::runtime::Runtime;

use crate::drive::{Clients, drive};
use crate::measure::Contender;

/// A set of so many rates that nobody is refused by.
#[derive(Clone)]
pub struct Ours(Arc<Desk>);

impl Ours {
    pub fn new(store: &dyn Store, name: &str, limits: usize) -> Self {
        let rates = vec![(0, rate(1_000_000, 1_000_000_000)); limits];
        let plan = plan(0, 1, &rates);
        Self(Arc::new(Desk::at(store, name, plan, machine_time())))
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
            drive(runtime, clients, lap, move |_, key| ours.take(key))
        };
        Contender {
            what,
            lap: Box::new(lap),
        }
    }

    /// One unit of each limit.
    fn take(&self, key: u32) -> impl Future<Output = ()> + Send + use<> {
        let key = format!("key {key}");
        let amounts = vec![1; self.0.plan.limits().len()];
        let verb = Verb::Take {
            amounts: &amounts,
            lease: None,
            detail: Detail::Verdict,
        };
        let command = self.0.command(key.as_bytes(), verb).into();
        let mut answer = Ok(Reply::Done);
        let execution = self.0.table.execute(&command, Out::new(&mut answer));
        let sent = execution.later().expect("a store beyond a network");
        async move {
            match sent.await.expect("an answer") {
                Reply::Decision(decision) => assert!(decision.verdict.admitted()),
                reply => panic!("a take is answered by {reply:?}"),
            }
        }
    }
}
