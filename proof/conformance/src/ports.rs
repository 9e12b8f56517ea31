//! Ports for the servers of tests.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// Ports are looked for from here on: below those that outgoing connections get.
const FIRST_PORT: u16 = 20_000;

/// So many ports are tried.
const PORTS: u16 = 10_000;

/// What `start` makes on the first port on which it makes anything.
pub(crate) fn first<T>(start: impl Fn(u16) -> Option<T>) -> Option<T> {
    (0..PORTS).find_map(|_| start(next_free()?))
}

/// A port that nobody listens on at the moment; tests of one process get
/// different ones.
#[must_use]
pub fn next_free() -> Option<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = std::process::id() as u16 % PORTS;
    let turn = NEXT.fetch_add(1, Ordering::Relaxed) % PORTS;
    let port = FIRST_PORT + (start + turn) % PORTS;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    listener.is_ok().then_some(port)
}
