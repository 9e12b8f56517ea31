//! Workers do jobs within whatever limits they were given, and hold nothing
//! while they back off. Where time matters it is virtual.

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use tidegate::workers::{IntoPool, JobError, Retry, Workers};
use tidegate::{Balance, BuildError, Error, Limit, LimitPool, LimitSet, ManualClock, Request};

const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(20);

fn slots(time: &ManualClock, count: u64) -> LimitSet {
    let limit = Limit::concurrency("slots", count);
    let set = LimitSet::builder().limit(limit).clock(time.clock());
    set.build().expect("a sensible set")
}

/// A thousand jobs, of which each takes what it likes.
fn all_done(given: impl IntoPool) -> bool {
    let run = Workers::threads(4)
        .limits(given)
        .run(0..1_000, |worker, _| {
            let lease = worker.limits.acquire("k", &[("slots", 1)]).wait()?;
            Ok::<bool, Error>(lease.granted().is_some())
        });
    let results = run.expect("sensible limits");
    results.len() == 1_000 && results.into_iter().all(|result| result == Ok(true))
}

#[test]
fn a_worker_has_limits_whatever_was_given() {
    let limit = || Limit::concurrency("slots", 2);
    let set = || LimitSet::new([limit()]).unwrap();
    let pool = || LimitPool::builder().member("a", set()).member("b", set());
    assert!(all_done(()));
    assert!(all_done(limit()));
    assert!(all_done([limit()]));
    assert!(all_done(vec![limit()]));
    assert!(all_done(set()));
    let (one, several) = (set(), pool().balance(Balance::Random).build().unwrap());
    assert!(all_done(&one));
    assert!(all_done([set(), set()]));
    assert!(all_done(vec![set(), set(), set()]));
    assert!(all_done(pool().build().unwrap()));
    assert!(all_done(&several));
}

#[test]
fn with_nothing_said_everything_is_admitted() {
    let results = Workers::threads(1).run(["a"], |worker, key| {
        let mut lease = worker.limits.try_acquire(*key, &[("any", 5)]).wait()?;
        assert!(worker.limits.check(*key, 7).wait()?.admitted());
        if let tidegate::Admission::Granted(lease) = &mut lease {
            lease.settle(&[("any", 3)]).wait()?;
            assert!(lease.settle(()).wait().is_err(), "once");
        }
        Ok::<_, Error>(lease.granted().map(|lease| lease.member().is_some()))
    });
    assert_eq!(results.unwrap(), [Ok(Some(true))]);
}

#[test]
fn what_makes_no_sense_is_an_error_of_the_run() {
    let nothing = |_: &_, _: &u8| Ok::<(), Error>(());
    let run = |workers: tidegate::workers::Threads| workers.run([1], nothing).unwrap_err();
    assert_eq!(
        run(Workers::threads(0)),
        Error::Build(BuildError::Nothing("worker"))
    );
    let no_limits: [Limit; 0] = [];
    assert_eq!(
        run(Workers::threads(1).limits(no_limits)),
        Error::Build(BuildError::Nothing("limit"))
    );
    let no_sets: Vec<LimitSet> = Vec::new();
    assert_eq!(
        run(Workers::threads(1).limits(no_sets)),
        Error::Build(BuildError::Nothing("member"))
    );
    let twice = [Limit::concurrency("x", 1), Limit::concurrency("x", 1)];
    let error = run(Workers::threads(1).limits(twice));
    assert_eq!(error, Error::Build(BuildError::DuplicateLimit("x".into())));
}

#[test]
fn results_come_in_the_order_of_the_items_or_as_they_finish() {
    let squares = Workers::threads(8).run(0..500_u64, |_, n| Ok::<u64, Error>(n * n));
    let expected: Vec<_> = (0..500_u64).map(|n| Ok(n * n)).collect();
    assert_eq!(squares.unwrap(), expected);

    let (first, service) = sync_channel(1);
    let service = std::sync::Mutex::new(service);
    let mut finished = Vec::new();
    let job = |_: &_, n: &u8| {
        if *n == 0 {
            let waited = service.lock().unwrap().recv_timeout(LONG);
            return waited;
        }
        Ok(())
    };
    let sink = |index, result: Result<(), JobError<_>>| {
        result.expect("each is done");
        if index == 1 {
            first.send(()).unwrap();
        }
        finished.push(index);
    };
    Workers::threads(2).run_each(0..2, job, sink).unwrap();
    assert_eq!(finished, [1, 0]);
}

#[test]
fn items_are_taken_from_a_bounded_queue_as_workers_are_free() {
    let (sender, receiver) = sync_channel(2);
    let sum = thread::scope(|scope| {
        scope.spawn(move || (1..=100).for_each(|n| sender.send(n).unwrap()));
        let results = Workers::threads(3).run(receiver, |_, n: &u32| Ok::<u32, Error>(*n));
        results.unwrap().into_iter().flatten().sum::<u32>()
    });
    assert_eq!(sum, 5_050);
}

#[test]
fn each_worker_begins_at_its_own_offset() {
    let time = ManualClock::default();
    let sets = [slots(&time, 1), slots(&time, 1), slots(&time, 1)];
    let together = Barrier::new(3);
    let results = Workers::threads(3).limits(sets).run(0..3, |worker, _| {
        let lease = worker.limits.pool().try_acquire("k", ()).wait()?.granted();
        let member = lease.and_then(|lease| lease.member().map(str::to_owned));
        together.wait();
        Ok::<_, Error>((worker.number().to_string(), member))
    });
    let results: BTreeSet<_> = results.unwrap().into_iter().flatten().collect();
    let own = ["0", "1", "2"].map(|n| (n.to_owned(), Some(n.to_owned())));
    assert_eq!(results, own.into_iter().collect());
}

#[test]
fn a_job_that_panics_is_an_error_and_the_others_are_done() {
    let set = LimitSet::new([Limit::concurrency("slots", 1)]).unwrap();
    let results = Workers::threads(2).limits(&set).run(0..20, |worker, n| {
        let _lease = worker.limits.acquire("k", ()).wait()?;
        assert!(n % 7 != 3, "job {n} is bad");
        Ok::<i32, Error>(*n)
    });
    for (n, result) in results.unwrap().into_iter().enumerate() {
        let expected = match n % 7 {
            3 => Err(JobError::Panicked(format!("job {n} is bad"))),
            _ => Ok(n as i32),
        };
        assert_eq!(result, expected);
    }
    assert_eq!(set.statistics().dropped, 3);
    assert_eq!(set.statistics().succeeded, 17);
    assert!(set.try_acquire("k", ()).wait().unwrap().granted().is_some());
}

#[test]
fn a_job_is_retried_so_often_and_its_last_error_is_the_result() {
    let attempts = AtomicU32::new(0);
    let results = Workers::threads(1)
        .retry(Retry::times(2))
        .run([()], |worker, ()| {
            assert_eq!(attempts.fetch_add(1, Ordering::SeqCst), worker.attempt());
            Err::<(), String>(format!("attempt {}", worker.attempt()))
        });
    let last = JobError::Failed("attempt 2".to_owned());
    assert_eq!(results.unwrap(), [Err(last)]);
    let results = Workers::threads(1)
        .retry(Retry::times(2))
        .run([()], |worker, ()| {
            (worker.attempt() == 1).then_some("done").ok_or("not yet")
        });
    assert_eq!(results.unwrap(), [Ok("done")]);
}

/// Waits until somebody sleeps on this clock: then the back-off has begun.
fn next_alarm(time: &ManualClock) -> tidegate::Timestamp {
    let (_never, tick) = sync_channel::<()>(1);
    let mut tries = (0..20_000).map(|_| {
        let _ = tick.recv_timeout(Duration::from_millis(1));
        time.next_alarm()
    });
    tries.find_map(|alarm| alarm).expect("a back-off")
}

/// The job fails while it holds the only slot and the whole budget, and backs
/// off: meanwhile another gets both.
#[test]
fn every_lease_of_an_attempt_is_given_back_before_its_back_off() {
    let time = ManualClock::default();
    let set = LimitSet::builder()
        .limit(Limit::concurrency("slots", 1))
        .limit(Limit::rate("tokens", 10, LONG * 1_000).on_failure(tidegate::OnFailure::Refund))
        .clock(time.clock())
        .build()
        .unwrap();
    let retry = Retry::times(1).backoff(SECOND, 2, LONG);
    let workers = Workers::threads(1).limits(&set).retry(retry);
    let job = |worker: &tidegate::workers::Worker, _: &()| {
        let request = [("slots", 1), ("tokens", 10)];
        let lease = worker
            .limits
            .acquire("k", &request)
            .wait()
            .expect("no error");
        let lease = lease.granted().expect("it waits until it may");
        match worker.attempt() {
            // The error takes the lease out of the job, but not out of the attempt.
            0 => Err(lease),
            _ => Ok(()),
        }
    };
    // Not in a scope: were it to fail, the test would wait for the worker.
    let run = thread::spawn(move || workers.run([()], job).expect("sensible limits"));
    let until = next_alarm(&time);
    assert_eq!(until, time.clock().now() + SECOND.into());
    let mut meanwhile = set
        .try_acquire("k", 10)
        .wait()
        .unwrap()
        .granted()
        .expect("free");
    assert_eq!(set.statistics().dropped, 1, "it counts as failed");
    time.advance(SECOND - Duration::from_micros(1));
    assert_eq!(time.next_alarm(), Some(until), "it still sleeps");
    meanwhile.cancel().wait().unwrap();
    time.advance(Duration::from_micros(1));
    let results = run.join().expect("no panic");
    assert!(matches!(results.as_slice(), [Ok(())]));
    let counted = set.statistics();
    assert_eq!((counted.dropped, counted.succeeded), (1, 2));
}

#[test]
fn what_a_job_lets_go_of_is_given_back_when_it_takes_the_next() {
    let time = ManualClock::default();
    let set = slots(&time, 1);
    let results = Workers::threads(1).limits(&set).run([()], |worker, ()| {
        for _ in 0..3 {
            drop(
                worker
                    .limits
                    .acquire("k", ())
                    .wait()?
                    .granted()
                    .expect("its own was free"),
            );
        }
        let mut lease = worker
            .limits
            .acquire("k", ())
            .wait()?
            .granted()
            .expect("free");
        lease.settle(()).wait()?;
        Err::<(), Error>(Error::Stopped)
    });
    assert_eq!(results.unwrap(), [Err(JobError::Failed(Error::Stopped))]);
    let counted = set.statistics();
    // What was settled is not what failed.
    assert_eq!((counted.succeeded, counted.dropped), (4, 0));
    assert!(set.try_acquire("k", ()).wait().unwrap().granted().is_some());
}

#[test]
fn workers_never_exceed_a_limit() {
    let running = AtomicU32::new(0);
    let limits = [Limit::concurrency("running", 3)];
    let results = Workers::threads(8).limits(limits).run(0..400, |worker, _| {
        let _lease = worker.limits.acquire("k", ()).wait()?;
        let now = running.fetch_add(1, Ordering::SeqCst) + 1;
        running.fetch_sub(1, Ordering::SeqCst);
        // Taken off before the lease is: never more than there are.
        assert!(now <= 3);
        Ok::<(), Error>(())
    });
    assert!(results.unwrap().iter().all(Result::is_ok));
}

#[cfg(feature = "tokio")]
mod tasks {
    use std::sync::Arc;

    use tidegate::workers::Worker;

    use super::*;

    #[tokio::test]
    async fn tasks_have_limits_whatever_was_given_and_answer_in_order() {
        let job = |worker: Worker, n: u32| async move {
            let lease = worker.limits.acquire("k", &[("slots", 1)]).await?;
            tokio::task::yield_now().await;
            assert!(lease.granted().is_some());
            Ok::<u32, Error>(n)
        };
        let expected: Vec<_> = (0..200).map(Ok).collect();
        let nothing = Workers::tasks(4).run(0..200, job).await.unwrap();
        assert_eq!(nothing, expected);
        let limits = Workers::tasks(4).limits([Limit::concurrency("slots", 2)]);
        assert_eq!(limits.run(0..200, job).await.unwrap(), expected);
        let set = || LimitSet::new([Limit::concurrency("slots", 1)]).unwrap();
        let sets = Workers::tasks(4).limits([set(), set()]);
        assert_eq!(sets.run(0..200, job).await.unwrap(), expected);
        let none = Workers::tasks(0).run([0], job).await;
        assert_eq!(
            none.unwrap_err(),
            Error::Build(BuildError::Nothing("worker"))
        );
    }

    #[tokio::test]
    async fn a_task_that_panics_is_an_error_and_the_others_are_done() {
        fn job(_: Worker, n: u8) -> impl Future<Output = Result<u8, Error>> {
            assert!(n != 0, "before there is a future");
            async move {
                tokio::task::yield_now().await;
                assert!(n != 1, "in the middle");
                Ok(n)
            }
        }
        let results = Workers::tasks(1).run([0, 1, 2], job).await.unwrap();
        let panicked = |message: &str| Err(JobError::Panicked(message.to_owned()));
        let expected = [
            panicked("before there is a future"),
            panicked("in the middle"),
            Ok(2),
        ];
        assert_eq!(results, expected);
    }

    #[tokio::test]
    async fn a_task_that_backs_off_holds_nothing() {
        let time = ManualClock::default();
        let set = slots(&time, 1);
        let retry = Retry::times(1).backoff(SECOND, 1, SECOND);
        let workers = Workers::tasks(1).limits(&set).retry(retry);
        let run = tokio::spawn(async move {
            let job = |worker: Worker, (): ()| async move {
                let _lease = worker.limits.acquire("k", ()).await;
                (worker.attempt() == 1).then_some(()).ok_or("at first")
            };
            workers.run([()], job).await
        });
        while time.next_alarm().is_none() {
            tokio::task::yield_now().await;
        }
        let meanwhile = set.try_acquire("k", ()).wait().unwrap().granted();
        assert!(meanwhile.is_some());
        drop(meanwhile);
        time.advance(SECOND);
        assert_eq!(run.await.unwrap().unwrap(), [Ok(())]);
        assert_eq!(set.statistics().dropped, 1);
    }

    #[tokio::test]
    async fn a_dropped_run_ends_its_tasks_and_gives_back_what_they_held() {
        let time = ManualClock::default();
        let set = slots(&time, 1);
        let (mut began, running) = (Some(sync_channel(1)), Arc::new(()));
        let (sender, receiver) = began.take().unwrap();
        let workers = Workers::tasks(2).limits(&set);
        let theirs = Arc::clone(&running);
        let job = move |worker: Worker, _: u8| {
            let (sender, theirs) = (sender.clone(), Arc::clone(&theirs));
            async move {
                let lease = worker.limits.acquire("k", ()).await;
                sender.try_send(()).expect("only one is admitted");
                std::future::pending::<()>().await;
                drop((lease, theirs));
                Ok::<(), Error>(())
            }
        };
        let run = tokio::spawn(async move { workers.run([1, 2], job).await });
        while receiver.try_recv().is_err() {
            tokio::task::yield_now().await;
        }
        run.abort();
        assert!(run.await.unwrap_err().is_cancelled());
        while Arc::strong_count(&running) > 1 {
            tokio::task::yield_now().await;
        }
        assert!(set.try_acquire("k", ()).wait().unwrap().granted().is_some());
        assert_eq!(set.statistics().waiting, 0);
    }

    #[test]
    fn outside_a_runtime_tasks_are_an_error() {
        let job = |_: Worker, n: u8| async move { Ok::<u8, Error>(n) };
        let workers = Workers::tasks(1);
        let future = workers.run([1], job);
        let waker = std::task::Waker::noop();
        let mut context = std::task::Context::from_waker(waker);
        let polled = std::pin::pin!(future).poll(&mut context);
        assert!(matches!(
            polled,
            std::task::Poll::Ready(Err(Error::NoWorker(_)))
        ));
    }
}

#[test]
fn a_set_without_limits_admits_everything_and_its_leases_are_leases() {
    let time = ManualClock::default();
    let builder = LimitSet::builder().unlimited().clock(time.clock());
    let set = builder.build().unwrap();
    assert!(set.check("k", ()).wait().unwrap().admitted());
    assert!(
        set.peek("k", &[("any", u64::MAX)])
            .wait()
            .unwrap()
            .admitted()
    );
    assert!(set.debit("k", 5).wait().unwrap().admitted());
    assert!(set.admit("k", 0).wait().unwrap().admitted());
    let request = Request::from(7).idempotency(b"once").ttl(SECOND);
    let mut lease = set.acquire("k", request).wait().unwrap().granted().unwrap();
    let again = set
        .try_acquire("k", request)
        .wait()
        .unwrap()
        .granted()
        .unwrap();
    assert_eq!(again.id(), lease.id());
    lease.renew(LONG).wait().unwrap();
    time.advance(2 * SECOND);
    assert!(!lease.is_expired());
    assert!(
        !set.settle("k", lease.id(), &[("any", 3)])
            .wait()
            .unwrap()
            .repeated()
    );
    assert!(set.settle("k", lease.id(), ()).wait().unwrap().repeated());
    let request = Request::from(7).idempotency(b"another").ttl(SECOND);
    let mut late = set.acquire("k", request).wait().unwrap().granted().unwrap();
    time.advance(LONG);
    assert!(late.settle(()).wait().unwrap().expired());
    assert!(matches!(
        set.remove_limit("any"),
        Err(BuildError::UnknownLimit { .. })
    ));
    set.put_limit(Limit::concurrency("slots", 1)).unwrap();
    let held = set.try_acquire("k", ()).wait().unwrap().granted();
    assert!(held.is_some());
    assert!(set.try_acquire("k", ()).wait().unwrap().refused().is_some());
}

#[test]
fn a_set_without_limits_forgets_the_keys_it_has_seen() {
    let builder = LimitSet::builder().unlimited().max_keys(64);
    let set = builder.build().unwrap();
    for key in 0..10_000 {
        let lease = set.try_acquire(&format!("key {key}"), ()).wait().unwrap();
        assert!(lease.granted().is_some());
    }
    assert!(set.count().wait().unwrap().keys <= 64);
}
