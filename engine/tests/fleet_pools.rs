//! A pool of a policy at two servers on one store.
#![cfg(feature = "gate")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tidegate::contract::{Abilities, Definitions, Later, Plan, Store, StoreError, Table};
use tidegate::gate::{Entry, Gate, Scope};
use tidegate::policy::parse;
use tidegate::{Ask, ManualClock};
use tidegate_memory::MemoryStore;

/// A store of a fleet: who opens a table again has the same one.
#[derive(Default)]
struct Fleet(MemoryStore, Mutex<HashMap<String, Arc<dyn Table>>>);

impl Store for Fleet {
    fn abilities(&self) -> Abilities {
        Abilities {
            shared: true,
            ..self.0.abilities()
        }
    }
    fn definitions(&self, owner: &str, newer_than: u64) -> Later<Definitions> {
        self.0.definitions(owner, newer_than)
    }
    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        let mut tables = self.1.lock().unwrap();
        if let Some(table) = tables.get(name) {
            return Ok(Arc::clone(table));
        }
        let table = self.0.open(name, plan)?;
        tables.insert(name.to_owned(), Arc::clone(&table));
        Ok(table)
    }
}

/// Members need not have the same limits: what one does not know, another took.
#[test]
fn a_pools_lease_is_ended_at_another_server_where_members_have_other_limits() {
    let text = "[policy.p.member.a.limits]\nrpm = { calls = 9, per = '1h' }\n\
                [policy.p.member.b.limits]\nrpm = { calls = 9, per = '1h' }\n\
                tokens = { rate = 100, per = '1h' }\n";
    let store: Arc<dyn Store> = Arc::<Fleet>::default();
    let time = ManualClock::default();
    let gates = [(), ()].map(|()| {
        let gate = Gate::builder()
            .clock(time.clock())
            .store(Arc::clone(&store));
        gate.build(&parse("p.toml", text).unwrap()).unwrap()
    });
    let [one, other] = [0, 1].map(|at: usize| {
        let caller = gates[at].enter(None).unwrap();
        gates[at].policy(&caller, Scope::Decide, "p").unwrap()
    });
    let named = [("tokens", 10)];
    let entry = one.acquire("k".into(), Ask::named(&named)).wait().unwrap();
    let Entry::Granted(ticket) = entry else {
        panic!("{entry:?}")
    };
    assert_eq!(ticket.member(), Some("b"));
    let at_home = one
        .adjust("k".into(), ticket.id, &[("tokens", 20)], false)
        .wait();
    assert!(at_home.unwrap().admitted());
    let away = other
        .adjust("k".into(), ticket.id, &[("tokens", 30)], false)
        .wait();
    let settled = other
        .settle("k".into(), ticket.id, &[("tokens", 30)])
        .wait();
    assert!(away.is_ok() && settled.is_ok(), "{away:?} {settled:?}");
}
