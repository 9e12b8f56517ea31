//! A pool of a policy at two servers on one store.

#[path = "../../tidegate/tests/support/fleet.rs"]
mod fleet;

use std::sync::Arc;

use fleet::Fleet;
use tidegate::{ManualClock, Request, Store};
use tidegate_policy::parse;
use tidegate_service::{Acquired, Scope, Service};

/// Members need not have the same limits: what one does not know, another took.
#[test]
fn a_pools_lease_is_ended_at_another_server_where_members_have_other_limits() {
    let text = "[policy.p.member.a.limits]\nrpm = { calls = 9, per = '1h' }\n\
                [policy.p.member.b.limits]\nrpm = { calls = 9, per = '1h' }\n\
                tokens = { rate = 100, per = '1h' }\n";
    let store: Arc<dyn Store> = Arc::<Fleet>::default();
    let time = ManualClock::default();
    let services = [(), ()].map(|()| {
        let service = Service::builder()
            .clock(time.clock())
            .store(Arc::clone(&store));
        service.build(&parse("p.toml", text).unwrap()).unwrap()
    });
    let [one, other] = [0, 1].map(|at: usize| {
        let caller = services[at].enter(None).unwrap();
        services[at].policy(&caller, Scope::Decide, "p").unwrap()
    });
    let named = [("tokens", 10)];
    let acquired = one
        .acquire("k".into(), Request::named(&named))
        .wait()
        .unwrap();
    let Acquired::Granted(granted) = acquired else {
        panic!("{acquired:?}")
    };
    assert_eq!(granted.member(), Some("b"));
    let at_home = one
        .adjust("k".into(), granted.id, &[("tokens", 20)], false)
        .wait();
    assert!(at_home.unwrap().admitted());
    let away = other
        .adjust("k".into(), granted.id, &[("tokens", 30)], false)
        .wait();
    let settled = other
        .settle("k".into(), granted.id, &[("tokens", 30)])
        .wait();
    assert!(away.is_ok() && settled.is_ok(), "{away:?} {settled:?}");
}
