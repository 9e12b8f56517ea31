//! A member of a pool whose store hangs, or cannot tell, holds up no ask for long.

#[path = "support/fleet.rs"]
mod fleet;
mod support;

use std::future::{Future, IntoFuture, pending, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fleet::Fleet;
use support::Polled;
use tidegate::{DecisionError, Lease, Limit, LimitPool, LimitSet, ManualClock, Request};
use tidegate_store::{
    Abilities, Command, Definitions, Execution, Out, Plan, Reply, Store, StoreError, StoreFuture,
    Table,
};

/// How long a member is waited for while others have answered.
const PATIENCE: Duration = Duration::from_millis(300);

/// How a store is.
#[derive(Clone, Copy, Default)]
enum Health {
    #[default]
    Well,
    /// It answers nothing.
    Hangs,
    /// It answers once it is well again.
    Stalls,
    /// The same, for the table of this name alone.
    StallsAt(&'static str),
    /// It cannot tell.
    Away,
}

/// A store of a fleet, how it is, and how often it was asked since.
#[derive(Clone, Default)]
struct Ailing(Arc<Fleet>, Arc<Mutex<(Health, u32)>>);

struct AilingTable(Arc<dyn Table>, Arc<Mutex<(Health, u32)>>, String);

impl Ailing {
    fn becomes(&self, health: Health) {
        *self.1.lock().unwrap() = (health, 0);
    }

    fn asked(&self) -> u32 {
        self.1.lock().unwrap().1
    }

    fn shared(self) -> Arc<dyn Store> {
        Arc::new(self)
    }
}

impl Store for Ailing {
    fn abilities(&self) -> Abilities {
        self.0.abilities()
    }
    fn definitions(&self, owner: &str, newer_than: u64) -> StoreFuture<Definitions> {
        self.0.definitions(owner, newer_than)
    }
    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        let table = self.0.open(name, plan)?;
        Ok(Arc::new(AilingTable(
            table,
            Arc::clone(&self.1),
            name.to_owned(),
        )))
    }
}

impl Table for AilingTable {
    fn execute(&self, command: &Command<'_>, out: Out<'_>) -> Execution {
        let (health, asked) = &mut *self.1.lock().unwrap();
        *asked += 1;
        match health {
            Health::Well => self.0.execute(command, out),
            Health::StallsAt(name) if self.2 != *name => self.0.execute(command, out),
            Health::Hangs => StoreFuture::new(pending()).into(),
            Health::Stalls | Health::StallsAt(_) => {
                let mut answer = Ok(Reply::Done);
                let later = self.0.execute(command, Out::new(&mut answer)).pending();
                assert!(later.is_none(), "nobody waits for a turn");
                let state = Arc::clone(&self.1);
                let is_well = move || matches!(state.lock().unwrap().0, Health::Well);
                let mut told = Some(answer);
                StoreFuture::new(poll_fn(move |_| match is_well() {
                    true => Poll::Ready(told.take().expect("told once")),
                    false => Poll::Pending,
                }))
                .into()
            }
            Health::Away => out.ready(Err(StoreError::Unavailable("no route".into()))),
        }
    }
}

/// Members, each on a store of its own.
#[derive(Default)]
struct Fleets {
    time: ManualClock,
    stores: [Ailing; 3],
}

fn slots() -> Limit {
    Limit::concurrency("slots", 9).ttl(Duration::from_secs(3_600))
}

impl Fleets {
    /// `a` and `b`, as a server sees them that has just started.
    fn server(&self) -> LimitPool {
        self.pool(&["a", "b"], &slots())
    }

    fn pool(&self, names: &[&str], limit: &Limit) -> LimitPool {
        let stores = self.stores.each_ref().map(|store| store.clone().shared());
        self.members(names.iter().copied().zip(stores), limit)
    }

    /// `a` and `b` on the first store.
    fn on_one_store(&self, limit: &Limit) -> LimitPool {
        let store = self.stores[0].clone().shared();
        let members = ["a", "b"]
            .map(|name| (name, Arc::clone(&store)))
            .into_iter();
        self.members(members, limit)
    }

    fn members<'n>(
        &self,
        members: impl Iterator<Item = (&'n str, Arc<dyn Store>)>,
        limit: &Limit,
    ) -> LimitPool {
        let pool = members.fold(LimitPool::builder(), |pool, (name, store)| {
            let set = LimitSet::builder()
                .name(name)
                .limit(limit.clone())
                .clock(self.time.clock())
                .store(store);
            pool.member(name, set.build().expect("sound"))
        });
        pool.build().expect("sound")
    }
}

/// Takes all that a member has.
fn fill(pool: &LimitPool, member: &str) -> Lease {
    let set = pool.member(member).expect("it is one").set();
    let taken = set.try_acquire("k", Request::named(&[("slots", 9)])).wait();
    taken
        .expect("it answers")
        .granted()
        .expect("nobody has any")
}

fn request() -> Request<'static> {
    Request::default().idempotency(b"job 7")
}

fn at_once(pool: &LimitPool) -> Lease {
    let mut polled = Polled::new(pool.try_acquire("k", request()));
    polled.granted().expect("all answer, and there is room")
}

#[test]
fn members_that_answer_are_enough_and_a_retry_finds_the_lease() {
    let fleets = Fleets::default();
    let [server, other, third] = [(); 3].map(|()| fleets.server());
    fleets.stores[0].becomes(Health::Hangs);
    let mut polled = Polled::waiting(server.try_acquire("k", request()));
    fleets.time.advance(PATIENCE - Duration::from_micros(1));
    assert!(polled.granted().is_none(), "`a` may still answer");
    fleets.time.advance(Duration::from_micros(1));
    assert!(polled.woken());
    let lease = polled.granted().expect("`b` answers");
    assert_eq!(lease.member(), Some("b"));

    // At another server, which remembers nothing, whether `a` hangs or answers again.
    let mut polled = Polled::new(other.try_acquire("k", request()));
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
    let mut polled = Polled::waiting(other.try_acquire("k", request()));
    fleets.time.advance(PATIENCE);
    let second = polled.granted().expect("`b` answers");
    assert_eq!((second.member(), second.is_repeated()), (Some("b"), false));
}

/// A store under load was taken for one that hangs, member by member: a retry was granted a second
/// lease, and a request that waited stood in line at a member that was full alone.
#[test]
fn a_member_on_a_store_that_answers_for_another_is_waited_for() {
    let fleets = Fleets::default();
    let [server, other] = [(); 2].map(|()| fleets.on_one_store(&slots()));
    let mut full = fill(&server, "a");
    let first = at_once(&server);
    assert_eq!(first.member(), Some("b"));
    full.release().wait().expect("it answers");
    fleets.stores[0].becomes(Health::StallsAt("b"));
    let mut polled = Polled::waiting(other.try_acquire("k", request()));
    fleets.time.advance(10 * PATIENCE);
    assert!(polled.poll().is_none(), "`a` answers, so that `b` will");
    fleets.stores[0].becomes(Health::Well);
    let retry = polled.granted().expect("`b` has answered");
    assert_eq!((retry.id(), retry.is_repeated()), (first.id(), true));
}

/// A member that fails decides nothing, so the one that hangs is waited for: its store
/// says when it cannot tell.
#[test]
fn a_member_that_hangs_is_waited_for_where_no_other_can_decide() {
    let fleets = Fleets::default();
    let server = fleets.server();
    fleets.stores[0].becomes(Health::Hangs);
    fleets.stores[1].becomes(Health::Away);
    let mut polled = Polled::waiting(server.try_acquire("k", request()));
    fleets.time.advance(10 * PATIENCE);
    assert!(polled.poll().is_none(), "nobody else can decide");
    drop(polled);
    fleets.stores[0].becomes(Health::Away);
    let told = server.try_acquire("k", request()).wait();
    assert!(matches!(told, Err(DecisionError::Store(_))), "{told:?}");
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
    let mut polled = Polled::waiting(server.acquire("k", Request::default().within(Duration::MAX)));
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

/// Behind one member that hung, each that had refused held up the next as if it were late,
/// too: of eight members the last was asked after two seconds.
#[test]
fn a_member_that_has_refused_is_not_waited_for_as_one_that_is_late() {
    let fleets = Fleets::default();
    let server = fleets.pool(&["a", "b", "c"], &slots());
    let _full = fill(&server, "b");
    fleets.stores[0].becomes(Health::Hangs);
    let mut polled = Polled::waiting(server.try_acquire("k", ()));
    fleets.time.advance(PATIENCE);
    let lease = polled.granted().expect("`b` refuses, and `c` answers");
    assert_eq!(lease.member(), Some("c"));
}

/// It stood in no queue until all members had answered: before a store that hangs it came
/// behind those that asked later, and was answered long after its deadline.
#[test]
fn a_request_that_waits_is_in_line_while_a_member_is_late() {
    let fleets = Fleets::default();
    let server = fleets.server();
    let mut full = fill(&server, "b");
    fleets.stores[0].becomes(Health::Hangs);
    let request = || Request::default().within(Duration::from_secs(10));
    let mut first = Polled::waiting(server.acquire("k", request()));
    fleets.time.advance(Duration::from_micros(1));
    let mut second = Polled::waiting(server.acquire("k", request()));
    fleets.time.advance(PATIENCE);
    assert!(first.poll().is_none() && second.poll().is_none());
    assert_eq!(server.statistics().waiting, 2);
    full.release().wait().expect("it answers");
    let lease = first.granted().expect("there is room at `b`");
    assert_eq!(lease.member(), Some("b"));
    drop(lease);
    let _full = second.granted().expect("and then for the next");

    let _full = fill_rest(&server, "b");
    let mut third = Polled::waiting(server.acquire("k", request()));
    fleets.time.advance(Duration::from_secs(10));
    assert!(third.poll().is_none());
    fleets.time.advance(PATIENCE);
    let told = third
        .poll()
        .expect("its deadline has passed")
        .expect("told");
    assert_eq!(
        told.refused()
            .and_then(|told| told.member().map(str::to_owned))
            .as_deref(),
        Some("b")
    );
    assert_eq!(server.statistics().waiting, 0);
}

fn fill_rest(pool: &LimitPool, member: &str) -> Lease {
    let set = pool.member(member).expect("it is one").set();
    let taken = set.try_acquire("k", Request::named(&[("slots", 8)])).wait();
    taken.expect("it answers").granted().expect("one is taken")
}

/// A request that waits asks a member that is late once, and is in line there when that has
/// refused.
#[test]
fn a_request_that_waits_is_in_line_at_a_late_member_once_that_has_answered() {
    let fleets = Fleets::default();
    let server = fleets.server();
    let (mut one, mut other) = (fill(&server, "a"), fill(&server, "b"));
    fleets.stores[0].becomes(Health::Stalls);
    let mut polled = Polled::waiting(server.acquire("k", Request::default().within(Duration::MAX)));
    fleets.time.advance(PATIENCE);
    assert!(polled.poll().is_none());
    assert_eq!(fleets.stores[0].asked(), 1);
    fleets.stores[0].becomes(Health::Well);
    assert!(polled.poll().is_none(), "`a` has refused");
    assert_eq!(fleets.stores[0].asked(), 1, "it is in line there");
    one.release().wait().expect("it answers");
    let lease = polled.granted().expect("there is room at `a`");
    assert_eq!(lease.member(), Some("a"));
    drop(polled);
    other.release().wait().expect("it answers");
    let _all = fill(&server, "b");
    assert_eq!(server.statistics().waiting, 0);
}

/// Which member holds a lease cannot be asked where nothing is ever refused, and the request
/// was answered that it asks for nothing.
#[test]
fn limits_that_refuse_nobody_refuse_no_ask_with_an_idempotency_key() {
    let fleets = Fleets::default();
    let server = fleets.pool(&["a", "b"], &slots().shadow());
    let lease = at_once(&server);
    let retry = at_once(&server);
    assert_eq!((retry.id(), retry.is_repeated()), (lease.id(), true));
}

/// A member that refuses nobody is not asked, and says nothing of its store.
#[test]
fn a_store_that_was_not_asked_is_none_that_answers() {
    let fleets = Fleets::default();
    let member = |name: &str, store: usize, limit: Limit| {
        let set = LimitSet::builder().name(name).limit(limit);
        let set = set.clock(fleets.time.clock());
        let set = set.store(fleets.stores[store].clone().shared());
        set.build().expect("sound")
    };
    let pool = LimitPool::builder()
        .member("shadow", member("shadow", 0, slots().shadow()))
        .member("a", member("a", 0, slots()))
        .member("b", member("b", 1, slots()));
    let pool = pool.build().expect("sound");
    fleets.stores[0].becomes(Health::Hangs);
    let mut polled = Polled::waiting(pool.try_acquire("k", request()));
    fleets.time.advance(PATIENCE);
    assert!(
        polled.poll().is_none(),
        "whoever refuses nobody is late, too"
    );
    fleets.time.advance(PATIENCE);
    let lease = polled.granted().expect("`b` answers");
    assert_eq!(lease.member(), Some("b"));
}

/// It asked whether the lease is still held, and then for the lease: a store that hangs held
/// it up for two deadlines.
#[test]
fn a_retry_asks_the_member_that_granted_no_further_once_that_cannot_tell() {
    let fleets = Fleets::default();
    let server = fleets.server();
    let first = at_once(&server);
    assert_eq!(first.member(), Some("a"));
    fleets.stores[0].becomes(Health::Away);
    let told = server.try_acquire("k", request()).wait();
    assert!(matches!(told, Err(DecisionError::Store(_))), "{told:?}");
    assert_eq!(fleets.stores[0].asked(), 1);
    fleets.stores[0].becomes(Health::Well);
    let retry = at_once(&server);
    assert_eq!((retry.id(), retry.is_repeated()), (first.id(), true));
}

/// A store that answers after 300 ms was asked for each member: a check was charged at all of
/// them, and the later it was the more it had to do.
#[test]
fn members_on_one_store_are_not_asked_beside_one_that_is_late() {
    let fleets = Fleets::default();
    let hour = Duration::from_secs(3_600);
    let server = fleets.on_one_store(&Limit::calls("calls", 9, hour));
    fleets.stores[0].becomes(Health::Stalls);
    let mut checked = pin!(server.check("k", ()).into_future());
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..3 {
        assert!(checked.as_mut().poll(&mut context).is_pending());
        fleets.time.advance(PATIENCE);
    }
    assert_eq!(fleets.stores[0].asked(), 1);
    fleets.stores[0].becomes(Health::Well);
    let Poll::Ready(Ok(told)) = checked.as_mut().poll(&mut context) else {
        panic!("`a` answers");
    };
    assert_eq!((told.admitted(), told.member()), (true, Some("a")));
    assert_eq!(fleets.stores[0].asked(), 0);
}

/// Each was asked: before a store that cannot be reached a request took a deadline a member.
#[test]
fn a_store_that_cannot_tell_is_asked_for_one_of_its_members_alone() {
    let fleets = Fleets::default();
    let server = fleets.on_one_store(&slots());
    fleets.stores[0].becomes(Health::Away);
    for told in [
        server.try_acquire("k", ()).wait().map(drop),
        server
            .acquire("k", Request::default().within(Duration::MAX))
            .wait()
            .map(drop),
        server.peek("k", ()).wait().map(drop),
    ] {
        assert!(matches!(told, Err(DecisionError::Store(_))), "{told:?}");
    }
    assert_eq!(fleets.stores[0].asked(), 3);
}
