//! A member of a pool whose store hangs holds up no ask that has an idempotency key.

#[path = "support/fleet.rs"]
mod fleet;
mod support;

use std::future::{Future, IntoFuture, pending};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fleet::Fleet;
use support::Polled;
use tidegate::contract::{
    Abilities, Command, Definitions, Execution, Later, Out, Plan, Store, StoreError, Table,
};
use tidegate::{Ask, Error, Lease, Limit, LimitPool, LimitSet, ManualClock};

/// How long a member is waited for while others have answered.
const PATIENCE: Duration = Duration::from_millis(300);

/// How a store is.
#[derive(Clone, Copy, Default)]
enum Health {
    #[default]
    Well,
    /// It answers nothing.
    Hangs,
    /// It cannot tell.
    Away,
}

/// A store of a fleet, and how it is.
#[derive(Clone, Default)]
struct Ailing(Arc<Fleet>, Arc<Mutex<Health>>);

struct AilingTable(Arc<dyn Table>, Arc<Mutex<Health>>);

impl Ailing {
    fn becomes(&self, health: Health) {
        *self.1.lock().unwrap() = health;
    }
}

impl Store for Ailing {
    fn abilities(&self) -> Abilities {
        self.0.abilities()
    }
    fn definitions(&self, owner: &str, newer_than: u64) -> Later<Definitions> {
        self.0.definitions(owner, newer_than)
    }
    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        let table = self.0.open(name, plan)?;
        Ok(Arc::new(AilingTable(table, Arc::clone(&self.1))))
    }
}

impl Table for AilingTable {
    fn execute(&self, command: &Command<'_>, out: Out<'_>) -> Execution {
        let health = *self.1.lock().unwrap();
        match health {
            Health::Well => self.0.execute(command, out),
            Health::Hangs => Later::new(pending()).into(),
            Health::Away => out.ready(Err(StoreError::Unavailable("no route".into()))),
        }
    }
}

/// Two members, `a` and `b`, each on a store of its own.
#[derive(Default)]
struct Fleets {
    time: ManualClock,
    stores: [Ailing; 2],
}

impl Fleets {
    /// As a server sees them that has just started.
    fn server(&self) -> LimitPool {
        let member = |name: &str| {
            let store = &self.stores[usize::from(name == "b")];
            let set = LimitSet::builder()
                .name(name)
                .limit(Limit::concurrency("slots", 9).ttl(Duration::from_secs(3_600)))
                .clock(self.time.clock())
                .store(Arc::new(store.clone()));
            set.build().expect("sound")
        };
        let pool = LimitPool::builder();
        let pool = pool.member("a", member("a")).member("b", member("b"));
        pool.build().expect("sound")
    }
}

fn ask() -> Ask<'static> {
    Ask::default().idempotency(b"job 7")
}

fn at_once(pool: &LimitPool) -> Lease {
    let mut polled = Polled::new(pool.try_acquire("k", ask()));
    polled.granted().expect("all answer, and there is room")
}

#[test]
fn members_that_answer_are_enough_and_a_retry_finds_the_lease() {
    let fleets = Fleets::default();
    let [server, other, third] = [(); 3].map(|()| fleets.server());
    fleets.stores[0].becomes(Health::Hangs);
    let mut polled = Polled::waiting(server.try_acquire("k", ask()));
    fleets.time.advance(PATIENCE - Duration::from_micros(1));
    assert!(polled.granted().is_none(), "`a` may still answer");
    fleets.time.advance(Duration::from_micros(1));
    assert!(polled.woken());
    let lease = polled.granted().expect("`b` answers");
    assert_eq!(lease.member(), Some("b"));

    // At another server, which remembers nothing, whether `a` hangs or answers again.
    let mut polled = Polled::new(other.try_acquire("k", ask()));
    let retry = polled
        .granted()
        .expect("`b` says so, and nobody waits for `a`");
    assert_eq!((retry.id(), retry.is_repeated()), (lease.id(), true));
    fleets.stores[0].becomes(Health::Well);
    let retry = at_once(&third);
    assert_eq!((retry.id(), retry.is_repeated()), (lease.id(), true));
}

/// What a retry may get twice, as the pool's docs say it.
#[test]
fn a_retry_is_granted_anew_only_where_the_member_that_granted_is_left_out() {
    let fleets = Fleets::default();
    let [server, other] = [(); 2].map(|()| fleets.server());
    let first = at_once(&server);
    assert_eq!(first.member(), Some("a"));
    fleets.stores[0].becomes(Health::Hangs);
    let mut polled = Polled::waiting(other.try_acquire("k", ask()));
    fleets.time.advance(PATIENCE);
    let second = polled.granted().expect("`b` answers");
    assert_eq!((second.member(), second.is_repeated()), (Some("b"), false));
}

/// A member that fails decides nothing, so the one that hangs is waited for: its store
/// says when it cannot tell.
#[test]
fn a_member_that_hangs_is_waited_for_where_no_other_can_decide() {
    let fleets = Fleets::default();
    let server = fleets.server();
    fleets.stores[0].becomes(Health::Hangs);
    fleets.stores[1].becomes(Health::Away);
    let mut polled = Polled::waiting(server.try_acquire("k", ask()));
    fleets.time.advance(10 * PATIENCE);
    assert!(polled.poll().is_none(), "nobody else can decide");
    drop(polled);
    fleets.stores[0].becomes(Health::Away);
    let told = server.try_acquire("k", ask()).wait();
    assert!(matches!(told, Err(Error::Store(_))), "{told:?}");
}

/// Each member was asked when the one before had answered: before two stores that hang an
/// ask took two deadlines, and one that another member would have granted took one.
#[test]
fn the_next_member_is_asked_beside_one_that_is_late() {
    let fleets = Fleets::default();
    let server = fleets.server();
    fleets.stores[0].becomes(Health::Hangs);
    let mut polled = Polled::waiting(server.try_acquire("k", ()));
    fleets.time.advance(PATIENCE - Duration::from_micros(1));
    assert!(polled.granted().is_none(), "`a` may still answer");
    fleets.time.advance(Duration::from_micros(1));
    assert!(polled.woken());
    let lease = polled.granted().expect("`b` answers");
    assert_eq!(lease.member(), Some("b"));
    drop(polled);
    assert_eq!(server.statistics().admitted, 1);

    // One that waits is no exception; it is the turn of `b`.
    fleets.stores[0].becomes(Health::Well);
    fleets.stores[1].becomes(Health::Hangs);
    let mut polled = Polled::waiting(server.acquire("k", Ask::default().within(Duration::MAX)));
    fleets.time.advance(PATIENCE);
    let lease = polled.granted().expect("`a` answers");
    assert_eq!(lease.member(), Some("a"));

    // Nor what takes nothing; that is nobody's turn.
    fleets.stores[0].becomes(Health::Hangs);
    fleets.stores[1].becomes(Health::Well);
    let mut peeked = pin!(server.peek("k", ()).into_future());
    let mut context = Context::from_waker(Waker::noop());
    assert!(peeked.as_mut().poll(&mut context).is_pending());
    fleets.time.advance(PATIENCE);
    let Poll::Ready(Ok(told)) = peeked.as_mut().poll(&mut context) else {
        panic!("`b` answers");
    };
    assert_eq!((told.admitted(), told.member()), (true, Some("b")));
}
