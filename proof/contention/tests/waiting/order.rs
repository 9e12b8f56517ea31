//! Who comes first, is served first.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{Admission, Limit, LimitSet, Request, Store};
use tidegate_conformance::fixture::{Fixture, machine_time};
use tidegate_core::Span;
use tidegate_store::{Detail, Reply, Terms, Verb};
use tokio::time::Instant;

use super::{KEY, LONG, Lines, SET, acquire, client, one_slot, opened, run, until};

/// It has seen nothing of that lease but that it was granted, and nobody gives it
/// back.
pub(super) fn who_is_next_is_served_when_the_lease_before_its_turn_expires<L: Lines>() {
    const BRIEF: Duration = Duration::from_millis(300);
    run(|server: Arc<L>| async move {
        let sets: Vec<_> = (0..3).map(|_| client(&*server, &one_slot())).collect();
        let held = acquire(&sets[0], LONG).await.expect("it is free");
        let (one, other) = (sets[1].clone(), sets[2].clone());
        let first = tokio::spawn(async move {
            let ask = Request::default().cost(1).ttl(BRIEF).within(LONG);
            let answer = one.acquire(KEY, ask).await.expect("an answer");
            answer.granted().expect("its turn has come").detach();
            Instant::now()
        });
        until(|| server.standing() == 1).await;
        let second = tokio::spawn(async move {
            let lease = acquire(&other, LONG).await;
            (lease.is_some(), Instant::now())
        });
        until(|| server.standing() == 2).await;
        drop(held);
        let granted = first.await.expect("it ends");
        let (is_granted, then) = second.await.expect("it ends");
        let waited = then - granted;
        assert!(is_granted && waited < BRIEF * 5, "{waited:?}");
    });
}

/// For an answer that is given a second time nothing is taken: the slot that is free
/// is the next one's, at once.
pub(super) fn who_waits_behind_an_answer_that_is_given_again_is_woken<L: Lines>() {
    const AT_ONCE: Duration = Duration::from_secs(1);
    run(|server: Arc<L>| async move {
        let limits = [Limit::concurrency("gpu", 2).ttl(2 * LONG)];
        let sets: Vec<_> = (0..5).map(|_| client(&*server, &limits)).collect();
        let first = acquire(&sets[0], LONG).await.expect("it is free");
        let second = acquire(&sets[1], LONG).await.expect("it is free");
        let waits = |number: usize, ask: Request<'static>| {
            let set = sets[number].clone();
            tokio::spawn(async move {
                let answer = set.acquire(KEY, ask).await.expect("an answer");
                answer.granted().expect("its turn has come").detach();
                Instant::now()
            })
        };
        let ask = Request::default().cost(1).within(LONG);
        let once = waits(2, ask.idempotency(b"x"));
        until(|| server.standing() == 1).await;
        let again = waits(3, ask.idempotency(b"x"));
        until(|| server.standing() == 2).await;
        let next = waits(4, ask);
        until(|| server.standing() == 3).await;
        drop(first);
        once.await.expect("it ends");
        let released = Instant::now();
        drop(second);
        again.await.expect("it ends");
        let waited = next.await.expect("it ends") - released;
        assert!(waited < AT_ONCE, "{waited:?}");
    });
}

/// A newcomer is refused what is free if somebody waits for the same; another key is
/// nobody's business.
pub(super) fn nobody_overtakes_who_waits<L: Lines>() {
    run(|server: Arc<L>| async move {
        let limits = [Limit::concurrency("gpu", 2).ttl(2 * LONG)];
        let (one, other) = (client(&*server, &limits), client(&*server, &limits));
        let two: &[(&str, u64)] = &[("gpu", 2)];
        let single: &[(&str, u64)] = &[("gpu", 1)];
        let held = one
            .try_acquire(KEY, single)
            .wait()
            .expect("an answer")
            .granted();
        assert!(held.is_some());
        let waits = {
            let one = one.clone();
            tokio::spawn(async move {
                let ask = Request::named(two).within(LONG);
                one.acquire(KEY, ask).await.expect("an answer").granted()
            })
        };
        until(|| server.standing() == 1).await;
        let late = other.try_acquire(KEY, single).wait().expect("an answer");
        assert!(
            matches!(late, Admission::Refused(_)),
            "one is free, but others are first"
        );
        let part = take_a_part(&*opened(&*server));
        assert!(matches!(part, Reply::Decision(_)), "{part:?}");
        let elsewhere = other
            .try_acquire("elsewhere", single)
            .wait()
            .expect("an answer");
        assert!(elsewhere.granted().is_some());
        drop(held);
        assert!(waits.await.expect("it ends").is_some());
    });
}

/// What is there of two, one at least, is asked for by somebody who does not wait.
fn take_a_part(store: &dyn Store) -> Reply {
    let plan = store.last_plan(SET).expect("an answer").expect("a set");
    let other = Fixture::at(store, SET, plan, machine_time());
    let terms = Terms {
        id: 7,
        expires_at: other.now() + Span::from(LONG),
        idempotency: None,
        least: Some(&[1]),
    };
    let take = Verb::Take {
        amounts: &[2],
        lease: Some(terms),
        detail: Detail::Verdict,
    };
    other.execute(KEY.as_bytes(), take).expect("an answer")
}

/// Nor does who takes without a lease, until nobody waits.
pub(super) fn nobody_takes_before_who_waits<L: Lines>() {
    run(|server: Arc<L>| async move {
        let limits = [Limit::rate("r", 1, 2 * LONG).burst(2)];
        let (one, other) = (client(&*server, &limits), client(&*server, &limits));
        let takes = || other.check(KEY, 1).wait().expect("an answer").admitted();
        assert!(takes());
        let waits = tokio::spawn(async move {
            let ask = Request::default().cost(2).within(LONG).wait_for_refunds();
            one.acquire(KEY, ask).await.expect("an answer").granted()
        });
        until(|| server.standing() == 1).await;
        assert!(!takes(), "one is left, but others are first");
        waits.abort();
        until(|| server.standing() == 0).await;
        assert!(takes());
    });
}

/// Who waits for a limit of its own keeps back nobody but who comes for the same;
/// who waits for an ancestor's keeps back all below it.
pub(super) fn who_waits_below_a_root_keeps_back_whoever_needs_the_same<L: Lines>() {
    run(|server: Arc<L>| async move {
        let sets = [(); 2].map(|()| {
            let builder = LimitSet::builder().name(SET).levels(["org", "user"]);
            let store = builder.store(opened(&*server));
            let limits = [
                Limit::concurrency("all", 3).at_level("org").ttl(2 * LONG),
                Limit::concurrency("own", 1).at_level("user").ttl(2 * LONG),
            ];
            store.limits(limits).build().expect("a sound set")
        });
        let [one, other] = sets;
        let of = |user: &str| format!("{KEY}/{user}");
        let takes = |set: &LimitSet, user: &str| {
            let key = of(user);
            let asked = set.try_acquire(key.as_str(), 1);
            asked.wait().expect("an answer").granted()
        };
        let waits = |set: &LimitSet, user: &str, of_all: u64| {
            let (set, key) = (set.clone(), of(user));
            tokio::spawn(async move {
                let amounts = [("all", of_all), ("own", 1)];
                let ask = Request::named(&amounts).within(LONG);
                let asked = set.acquire(key.as_str(), ask).await;
                asked.expect("an answer").granted()
            })
        };
        let first = takes(&one, "a").expect("it is free");
        let own = waits(&one, "a", 1);
        until(|| server.standing() == 1).await;
        let second = takes(&other, "b").expect("it waits for nothing of this one's");
        let root = waits(&other, "c", 2);
        until(|| server.standing() == 2).await;
        assert!(
            takes(&one, "d").is_none(),
            "one is left, for who waits for two"
        );
        drop(second);
        let third = root.await.expect("it ends").expect("two are free");
        assert_eq!(server.standing(), 1);
        drop(first);
        let fourth = own.await.expect("it ends").expect("it is free");
        assert_eq!(server.standing(), 0);
        drop((third, fourth));
    });
}

/// Six wait for a rate, in two processes, each come when the one before it stood.
pub(super) fn who_waits_for_a_rate_is_served_at_its_instant_and_in_order<L: Lines>() {
    run(|server: Arc<L>| async move {
        // Slots give each lease a fence, and are never short.
        let limits = [
            Limit::rate("r", 20, Duration::from_secs(1)).burst(1),
            Limit::concurrency("slots", 9),
        ];
        let sets = [client(&*server, &limits), client(&*server, &limits)];
        assert!(acquire(&sets[0], LONG).await.is_some(), "it is free");
        let mut tasks = Vec::new();
        for number in 0..6 {
            let set = sets[number % 2].clone();
            tasks.push(tokio::spawn(async move {
                let lease = acquire(&set, LONG).await;
                lease.expect("its turn has come").fence()
            }));
            let finished = || tasks.iter().filter(|task| task.is_finished()).count();
            // The next comes when this one stands in line, or was served. Whoever is served
            // meanwhile is counted once at most: it left the line before it finished.
            until(|| finished() + server.standing() > number).await;
        }
        let mut fences = Vec::new();
        for task in tasks {
            fences.push(task.await.expect("it ends"));
        }
        // They grow with each grant at the server; who is told first is up to this machine.
        assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
    });
}

/// More than the store has connections for, at two clients: each is served in its turn,
/// who gives something back is answered, and nobody is told that the store is busy.
pub(super) fn many_that_wait_for_one_key_are_served<L: Lines>() {
    const WAITERS: usize = 400;
    run(|server: Arc<L>| async move {
        let (one, other) = (client(&*server, &one_slot()), client(&*server, &one_slot()));
        let mut held = acquire(&one, LONG).await.expect("it is free");
        let waiting: Vec<_> = (0..WAITERS)
            .map(|nth| {
                let set = if nth % 2 == 0 {
                    one.clone()
                } else {
                    other.clone()
                };
                tokio::spawn(async move { acquire(&set, LONG).await.map(drop) })
            })
            .collect();
        until(|| server.standing() > WAITERS / 2).await;
        let released = held.release().await;
        released.expect("a release is answered beside those that wait");
        for one in waiting {
            assert!(one.await.expect("nobody is told it is busy").is_some());
        }
    });
}
