//! Fences grow with every grant: across expiry, and across a restart.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidegate::lock::Semaphore;
use tidegate_file::{FileStore, Options};

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
            permit.release().expect("held to the end");
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
        assert_eq!(gpus.release(id), Ok(()), "{url}");
        grows(acquire(&gpus).fence());
    });
}

fn of_file(path: &Path) -> Semaphore {
    let store = FileStore::open(path, Options::default()).expect("a file");
    let builder = Semaphore::builder("gpu", 1).ttl(LONG);
    builder.store(Arc::new(store)).build().expect("sound")
}

#[test]
fn a_fence_grows_when_a_file_is_opened_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("state");
    let mut last = 0;
    for _ in 0..3 {
        let gpus = of_file(&path);
        let permit = acquire(&gpus);
        assert!(permit.fence() > last);
        last = permit.fence();
        let id = permit.detach();
        drop(gpus);
        let gpus = of_file(&path);
        assert!(is_full(&gpus), "what was held is held");
        gpus.release(id).expect("held");
        let permit = acquire(&gpus);
        assert!(permit.fence() > last);
        last = permit.fence();
        permit.release().expect("held to the end");
    }
}
