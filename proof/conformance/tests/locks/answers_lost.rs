//! The server grants, and the connection is cut before its answer is here.

use crate::holders::{LONG, is_full};
use crate::proxy::Proxy;
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
            drop(gpus.acquire_within(LONG).expect("an answer"));
        }
        for request in 1..=4 {
            proxy.cut_at(request);
            let permit = gpus.acquire_within(LONG).expect("an answer");
            let permit = permit.expect("it is free");
            proxy.cut_at(0);
            assert!(is_full(&others));
            permit.release().expect("held to the end");
            let next = others.acquire_within(LONG).expect("an answer");
            let next = next.expect("no other slot was taken");
            next.release().expect("held to the end");
        }
        assert!(proxy.cuts() > 0);
        println!("{url}: cut {} times", proxy.cuts());
    });
}
