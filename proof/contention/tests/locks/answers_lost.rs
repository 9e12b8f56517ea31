//! The server grants, and nobody is there to be told: the connection was cut, or
//! the caller has gone.

use std::time::Duration;

use tidegate_conformance::{Cut, Proxy};

use crate::holders::{LONG, acquire, is_full};
use crate::servers::{on_each, semaphore};

/// One slot, and a ttl longer than the test: if the lost answer's slot were not
/// found again, nobody would get it.
#[test]
fn an_answer_that_is_lost_leaves_no_slot_taken() {
    on_each(|server| {
        let proxy = Proxy::to(server.port());
        let (from, to) = (server.port().to_string(), proxy.port().to_string());
        let url = server.url();
        let gpus = semaphore(&url.replace(&from, &to), 1, 10 * LONG);
        let others = semaphore(&url, 1, 10 * LONG);
        // Statements are prepared, scripts are loaded.
        for _ in 0..3 {
            acquire(&gpus).release().wait().expect("held to the end");
        }
        for request in 1..=4 {
            proxy.cut_at(request, Cut::After);
            let permit = acquire(&gpus);
            proxy.mend();
            assert!(is_full(&others));
            permit.release().wait().expect("held to the end");
            // No other slot was taken.
            acquire(&others).release().wait().expect("held to the end");
        }
        assert!(proxy.cuts() > 0);
        println!("{url}: cut {} times", proxy.cuts());
    });
}

/// After so long, in steps of a tenth of a millisecond, the caller goes.
const MOMENTS: u32 = 60;

#[test]
fn an_acquire_that_is_dropped_at_any_moment_leaves_no_slot_taken() {
    on_each(|server| {
        let url = server.url();
        let gpus = semaphore(&url, 1, 10 * LONG);
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_time().build().expect("a runtime");
        let mut gone = 0;
        for moment in 1..=MOMENTS {
            let patience = moment * Duration::from_micros(100);
            let permit =
                runtime.block_on(async { tokio::time::timeout(patience, gpus.acquire()).await });
            match permit {
                Ok(permit) => {
                    let permit = permit.expect("an answer");
                    permit.release().wait().expect("held to the end");
                }
                Err(_) => gone += 1,
            }
        }
        println!("{url}: {gone} of {MOMENTS} had gone");
        // What was granted to nobody is on its way back.
        while is_full(&gpus) {}
    });
}
