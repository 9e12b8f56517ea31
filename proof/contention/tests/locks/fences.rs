//! Fences grow with every grant: across expiry, and across a restart.

use std::time::Duration;

use crate::holders::{LONG, acquire, is_full};
use crate::servers::{on_each, semaphore};

#[test]
fn a_fence_grows_across_release_expiry_and_a_restart_of_the_server() {
    on_each(|server| {
        let (url, short) = (server.url(), Duration::from_millis(300));
        let (gpus, leaves) = (semaphore(&url, 1, LONG), semaphore(&url, 1, short));
        let mut last = 0;
        let mut grows = |fence: u64| {
            assert!(fence > last, "{url}: {fence} after {last}");
            last = fence;
        };
        for _ in 0..20 {
            let permit = acquire(&gpus);
            grows(permit.fence());
            permit.release().wait().expect("held to the end");
        }
        let left = acquire(&leaves);
        grows(left.fence());
        left.detach();
        let permit = acquire(&gpus);
        grows(permit.fence());
        let id = permit.detach();
        drop((gpus, leaves));
        server.kill();
        server.start_again();
        let gpus = semaphore(&url, 1, LONG);
        assert!(is_full(&gpus), "{url}: what was held is held");
        assert_eq!(gpus.release(id).wait(), Ok(()), "{url}");
        grows(acquire(&gpus).fence());
    });
}
