//! A server that hangs (SIGSTOP: it closes nothing, and answers nothing): whatever is
//! asked ends within its patience and the deadline, and when the server goes on so does
//! everything.

use std::time::Duration;

use tidegate::{Clock, Error, LeaseError, Limit, LimitSet, Request};
use tidegate_conformance::{Beyond, Paused, with_options};

const DEADLINE: Duration = Duration::from_secs(2);

/// How much later a loaded machine may tell it.
const SLACK: Duration = Duration::from_secs(3);

/// How long one waits in line while the server begins to hang.
const PATIENCE: Duration = Duration::from_secs(4);

fn set(store: &Beyond) -> LimitSet {
    let url = with_options(&store.url, &format!("deadline={}s", DEADLINE.as_secs()));
    let opened = tidegate_url::open(&url).expect("a server");
    let slot = Limit::concurrency("gpu", 1).ttl(Duration::from_secs(600));
    let builder = LimitSet::builder().name("gpus").limit(slot);
    builder.store(opened.store).build().expect("sound")
}

/// An error, and no later than that.
fn ends_in_time<T, E: Into<Error>>(
    what: &str,
    patience: Duration,
    act: impl FnOnce() -> Result<T, E>,
) {
    let clock = Clock::system();
    let begun = clock.now();
    let told = act().err().map(Into::into);
    let took = clock.now().since(begun).as_duration();
    println!("{what}: {took:?}");
    assert!(matches!(told, Some(Error::Store(_))), "{what}: {told:?}");
    assert!(took < patience + DEADLINE + SLACK, "{what}: {took:?}");
}

fn is_told_in_time(store: &Beyond) {
    let set = set(store);
    let held = set
        .try_acquire("k", Request::default())
        .wait()
        .expect("an answer");
    let held = held.granted().expect("it is free").detach();
    let acquire = |patience| set.acquire("k", Request::default().within(patience));
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| ends_in_time("in line", PATIENCE, || acquire(PATIENCE).wait()));
        while set.statistics().waiting == 0 {
            set.peek("k", 1).wait().expect("an answer");
        }
        // It stands in line by then, or is about to.
        set.peek("k", 1).wait().expect("an answer");
        let paused = Paused::new(store.pid);
        ends_in_time("peek", Duration::ZERO, || set.peek("k", 1).wait());
        ends_in_time("acquire", Duration::ZERO, || acquire(Duration::ZERO).wait());
        let brief = Duration::from_millis(100);
        ends_in_time("acquire, 100 ms", brief, || acquire(brief).wait());
        ends_in_time("release", Duration::ZERO, || set.release("k", held).wait());
        waits.join().expect("it ends");
        drop(paused);
    });
    // What was said while it hung may be done by now, or not.
    let again = (0..30).find_map(|_| match set.release("k", held).wait() {
        Err(LeaseError::Store(tidegate::StoreError::Unavailable(_))) => None,
        answer => Some(answer),
    });
    println!("{}: {:?}", store.url, again.expect("it answers again"));
    let free = (0..30).any(|_| {
        acquire(PATIENCE)
            .wait()
            .is_ok_and(|answer| answer.granted().is_some())
    });
    assert!(free, "the slot is back");
}

#[test]
fn what_is_asked_of_a_redis_that_hangs_ends_in_time() {
    Beyond::redis().iter().for_each(is_told_in_time);
}

#[test]
fn what_is_asked_of_a_postgresql_that_hangs_ends_in_time() {
    Beyond::postgres().iter().for_each(is_told_in_time);
}

#[test]
fn what_is_asked_of_a_mariadb_that_hangs_ends_in_time() {
    Beyond::mariadb().iter().for_each(is_told_in_time);
}

#[test]
fn what_is_asked_of_a_dynamodb_that_hangs_ends_in_time() {
    Beyond::dynamodb().iter().for_each(is_told_in_time);
}
