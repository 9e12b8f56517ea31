//! A way to a server on which everything can be lost: what is said on a connection is
//! read and goes nowhere, and the connection stays open. New ones go through. It is also
//! a name that is given to another server: those that are there stay with the old one.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::thread;

/// Such a way. It lasts as long as the test's process.
#[derive(Debug)]
pub struct Hole {
    port: u16,
    /// Where new connections go.
    to: Arc<AtomicU16>,
    /// How often everything was lost.
    losses: Arc<AtomicUsize>,
}

impl Hole {
    /// A way to what listens on `port` of this machine.
    ///
    /// # Panics
    /// If there is no port for it.
    #[must_use]
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let own = listener.local_addr().expect("an address").port();
        let losses = Arc::<AtomicUsize>::default();
        let to = Arc::new(AtomicU16::new(port));
        let (seen, leads_to) = (Arc::clone(&losses), Arc::clone(&to));
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let there = (Ipv4Addr::LOCALHOST, leads_to.load(Ordering::SeqCst));
                if let Ok(server) = TcpStream::connect(there) {
                    carry(&client, &server, &seen);
                    carry(&server, &client, &seen);
                }
            }
        });
        Self {
            port: own,
            to,
            losses,
        }
    }

    /// Where it listens.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// New connections go to what listens on `port` from now on.
    pub fn lead_to(&self, port: u16) {
        self.to.store(port, Ordering::SeqCst);
    }

    /// The connections that are there lose everything from now on.
    pub fn swallow(&self) {
        self.losses.fetch_add(1, Ordering::SeqCst);
    }
}

/// Until the connection ends. One that has lost something is not ended to its other
/// side either.
fn carry(from: &TcpStream, to: &TcpStream, losses: &Arc<AtomicUsize>) {
    let [mut from, mut to] = [from, to].map(|stream| stream.try_clone().expect("a stream"));
    let (losses, then) = (Arc::clone(losses), losses.load(Ordering::SeqCst));
    thread::spawn(move || {
        let mut bytes = [0; 8192];
        while let Ok(read @ 1..) = from.read(&mut bytes) {
            if losses.load(Ordering::SeqCst) == then && to.write_all(&bytes[..read]).is_err() {
                return;
            }
        }
    });
}
