//! Ports for the servers of tests.

use std::net::{Ipv4Addr, TcpListener};
use std::ops::RangeInclusive;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};

/// Where ports are looked for: below those that outgoing connections get.
const PORTS: RangeInclusive<u16> = 20_000..=29_999;

/// The variable by which each of several processes that start servers beside each other is told
/// ports of its own, as `FROM-TO`: so nobody takes the port of a server that is started again.
const OWN: &str = "TIDEGATE_TEST_PORTS";

/// The first port, and how many.
fn ports() -> (u16, u16) {
    static SHARE: OnceLock<(u16, u16)> = OnceLock::new();
    *SHARE.get_or_init(|| {
        let range = std::env::var(OWN).map_or(PORTS, |text| {
            let ends = text.split_once('-');
            let ends = ends.and_then(|(from, to)| Some(from.parse().ok()?..=to.parse().ok()?));
            ends.unwrap_or_else(|| panic!("{OWN}={text}: expected FROM-TO"))
        });
        (*range.start(), range.end() - range.start() + 1)
    })
}

/// What `start` makes on the first port on which it makes anything.
pub(crate) fn first<T>(start: impl Fn(u16) -> Option<T>) -> Option<T> {
    (0..ports().1).find_map(|_| start(next_free()?))
}

/// A port that nobody listens on at the moment; tests of one process get
/// different ones.
#[must_use]
pub fn next_free() -> Option<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let (first, count) = ports();
    let start = std::process::id() as u16 % count;
    let turn = NEXT.fetch_add(1, Ordering::Relaxed) % count;
    let port = first + (start + turn) % count;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    listener.is_ok().then_some(port)
}
