//! A thousand checks: one after the other, and in one batch.

use tidegate_store::Store;
use tokio::runtime::Runtime;

use crate::bench::Bench;
use crate::drive::{Clients, Lap, drive, runtime};
use crate::host::Host;
use crate::measure::{Contender, Outcome, compare};
use crate::ours::Ours;
use crate::patient;

/// So many checks are asked for together.
const TOGETHER: u32 = 1_000;

pub fn rows(bench: &Bench) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    if let Some((server, store)) = patient::redis() {
        outcomes.extend(of(bench, ("redis", Host::new(server.pid())), &store));
    }
    if let Some((server, store)) = patient::postgres() {
        outcomes.extend(of(bench, ("postgres", Host::new(server.pid())), &store));
    }
    outcomes
}

fn of(bench: &Bench, (engine, host): (&str, Host), store: &dyn Store) -> Vec<Outcome> {
    let runtime = runtime();
    let flat = Ours::new(store, "flat", 1);
    let tree = Ours::of_tenants(store, "tree");
    let rows = [
        ("one key", flat.clone(), "key".to_owned()),
        ("as many keys", flat, "key {}".to_owned()),
        ("as many users of one tenant", tree, "tenant/{}".to_owned()),
    ];
    let mut outcomes = Vec::new();
    for (what, ours, name) in rows {
        let keys: Vec<String> = (0..TOGETHER)
            .map(|number| name.replace("{}", &number.to_string()))
            .collect();
        let contenders = vec![
            in_turn(&ours, keys.clone(), &runtime),
            together(&ours, keys, &runtime),
        ];
        let row = format!("batch, {engine}, {TOGETHER} checks of {what}");
        outcomes.extend(compare(bench, &row, host, contenders));
    }
    outcomes
}

fn in_turn<'r>(ours: &Ours, keys: Vec<String>, runtime: &'r Runtime) -> Contender<'r> {
    let ours = ours.clone();
    laps("one after the other", runtime, move || {
        let (ours, keys) = (ours.clone(), keys.clone());
        async move {
            for key in keys {
                ours.take_of(&key).await;
            }
        }
    })
}

fn together<'r>(ours: &Ours, keys: Vec<String>, runtime: &'r Runtime) -> Contender<'r> {
    let ours = ours.clone();
    laps("in one batch", runtime, move || {
        let taken = ours.take_all(&keys);
        async move { assert_eq!(taken.await, TOGETHER as usize) }
    })
}

/// One client, who asks for so many at a time.
fn laps<'r, F: Future<Output = ()> + Send + 'static>(
    what: &'static str,
    runtime: &'r Runtime,
    all: impl Fn() -> F + Clone + Send + Sync + 'static,
) -> Contender<'r> {
    let clients = Clients { number: 1, keys: 1 };
    let lap = move |lap| {
        let all = all.clone();
        let told = drive(runtime, clients, lap, move |_, _| all());
        Lap {
            asked: told.asked * f64::from(TOGETHER),
            ..told
        }
    };
    Contender {
        what,
        lap: Box::new(lap),
    }
}
