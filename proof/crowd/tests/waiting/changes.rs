//! Limits that change while somebody waits.

use std::sync::Arc;

use tidegate::{Ask, Error, Limit};

use super::{KEY, LONG, Lines, acquire, client, one_slot, run, until};

/// The limits of the first in line are raised in its process: it is served by the
/// new ones without a release. Who stands behind it, in a process with the old
/// ones, keeps its place.
pub(super) fn who_waits_keeps_its_place_when_the_limits_change<L: Lines>() {
    run(|server: Arc<L>| async move {
        let (one, other) = (client(&*server, &one_slot()), client(&*server, &one_slot()));
        let held = acquire(&other, LONG).await.expect("it is free");
        let first = {
            let one = one.clone();
            tokio::spawn(async move { acquire(&one, LONG).await })
        };
        until(|| server.standing() == 1).await;
        let second = tokio::spawn(async move { acquire(&other, LONG).await });
        until(|| server.standing() == 2).await;
        let raised = Limit::concurrency("gpu", 2).ttl(2 * LONG);
        one.put_limit(raised).expect("a sound limit");
        let granted = first.await.expect("it ends").expect("two fit");
        assert_eq!(server.standing(), 1, "by its own limits it is refused");
        drop(held);
        drop(granted);
        assert!(second.await.expect("it ends").is_some());
    });
}

/// The first in line is given another capacity, which travels with its own commands: it
/// is served without a release.
pub(super) fn a_request_that_waits_goes_by_the_newest_capacity<L: Lines>() {
    run(|server: Arc<L>| async move {
        let limits = one_slot().map(Limit::adaptive);
        let (one, other) = (client(&*server, &limits), client(&*server, &limits));
        let _held = acquire(&other, LONG).await.expect("it is free");
        let first = {
            let one = one.clone();
            tokio::spawn(async move { acquire(&one, LONG).await })
        };
        until(|| server.standing() == 1).await;
        one.set_capacity("gpu", 2).expect("an adaptive limit");
        let granted = first.await.expect("it ends").expect("two fit");
        assert!(
            other
                .peek(KEY, ())
                .await
                .expect("an answer")
                .not_until()
                .is_some()
        );
        drop(granted);
    });
}

/// The limit that it waits for is renamed: it cannot ask again, and nobody stands behind
/// the place that it had.
pub(super) fn a_request_that_fits_no_newer_limit_leaves_the_line<L: Lines>() {
    run(|server: Arc<L>| async move {
        let (one, other) = (client(&*server, &one_slot()), client(&*server, &one_slot()));
        let held = acquire(&other, LONG).await.expect("it is free");
        let waiting = {
            let one = one.clone();
            tokio::spawn(async move {
                let named = [("gpu", 1)];
                one.acquire(KEY, Ask::named(&named).within(LONG)).await
            })
        };
        until(|| server.standing() == 1).await;
        let renamed = Limit::concurrency("tpu", 5).ttl(2 * LONG);
        one.replace_limits(&[renamed]).expect("a sound limit");
        let answer = waiting.await.expect("it ends");
        assert!(matches!(answer, Err(Error::UnknownLimit { .. })));
        until(|| server.standing() == 0).await;
        drop(held);
    });
}
