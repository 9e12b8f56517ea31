//! A way to a server that is cut in the middle of a command: the server is told
//! it, and its answer does not come back.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// See the [module](self). It lasts as long as the test's process.
pub struct Proxy {
    port: u16,
    /// How many requests from now on the cut comes; 0: never.
    fuse: Arc<AtomicUsize>,
    cuts: Arc<AtomicUsize>,
}

impl Proxy {
    /// A way to what listens on `port` of this machine.
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let proxy = Self {
            port: listener.local_addr().expect("an address").port(),
            fuse: Arc::default(),
            cuts: Arc::default(),
        };
        let (fuse, cuts) = (Arc::clone(&proxy.fuse), Arc::clone(&proxy.cuts));
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
                    join(&client, &server, &fuse, &cuts);
                }
            }
        });
        proxy
    }

    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The answer to the request of this number, from now on, is lost.
    pub fn cut_at(&self, request: usize) {
        self.fuse.store(request, Ordering::SeqCst);
    }

    /// How often it was cut.
    pub fn cuts(&self) -> usize {
        self.cuts.load(Ordering::SeqCst)
    }
}

/// Carries bytes both ways, each on a thread.
fn join(client: &TcpStream, server: &TcpStream, fuse: &Arc<AtomicUsize>, cuts: &Arc<AtomicUsize>) {
    let is_cut = Arc::new(AtomicBool::new(false));
    let twins = || (client.try_clone(), server.try_clone());
    let (Ok(from), Ok(to)) = twins() else { return };
    let (fuse, cut) = (Arc::clone(fuse), Arc::clone(&is_cut));
    thread::spawn(move || {
        carry(&from, &to, || {
            let burn = |left: usize| left.checked_sub(1);
            if fuse.fetch_update(Ordering::SeqCst, Ordering::SeqCst, burn) == Ok(1) {
                cut.store(true, Ordering::SeqCst);
            }
            true
        });
    });
    let (Ok(to), Ok(from)) = twins() else { return };
    let cuts = Arc::clone(cuts);
    thread::spawn(move || {
        carry(&from, &to, || {
            let is_cut = is_cut.load(Ordering::SeqCst);
            cuts.fetch_add(usize::from(is_cut), Ordering::SeqCst);
            !is_cut
        });
    });
}

/// Until either end is closed, or what came is not to go `on`.
fn carry(mut from: &TcpStream, mut to: &TcpStream, on: impl Fn() -> bool) {
    let mut bytes = [0; 16_384];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if !on() || to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    // It may be closed already.
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
