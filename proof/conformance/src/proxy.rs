//! A way to a server that is cut in the middle of a command.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Where in a request its connection is cut, to both sides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// Before it: the server is told nothing.
    Before,
    /// Halfway through: the server is told half of it.
    Within,
    /// Behind it: the server does it, and its answer does not come back.
    After,
}

impl Cut {
    /// Each of them.
    pub const ALL: [Self; 3] = [Self::Before, Self::Within, Self::After];
}

/// Such a way. It lasts as long as the test's process.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    knife: Arc<Knife>,
}

/// What is to be cut, on whichever connection.
#[derive(Debug, Default)]
struct Knife {
    /// So many requests from now on, and how.
    next: Mutex<Option<(usize, Cut)>>,
    cuts: AtomicUsize,
}

impl Knife {
    /// A request begins: how it is cut, if it is.
    fn falls(&self) -> Option<Cut> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let (left, cut) = next.as_mut()?;
        *left = left.saturating_sub(1);
        if *left > 0 {
            return None;
        }
        let cut = *cut;
        *next = None;
        self.cuts.fetch_add(1, Ordering::SeqCst);
        Some(cut)
    }
}

impl Proxy {
    /// A way to what listens on `port` of this machine.
    ///
    /// # Panics
    /// If there is no port for it.
    #[must_use]
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let proxy = Self {
            port: listener.local_addr().expect("an address").port(),
            knife: Arc::default(),
        };
        let knife = Arc::clone(&proxy.knife);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
                    join(&client, &server, &knife);
                }
            }
        });
        proxy
    }

    /// Where it listens.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The request of this number from now on, counted from 1, is cut so.
    pub fn cut_at(&self, request: usize, cut: Cut) {
        self.set(Some((request, cut)));
    }

    /// Cuts no more; answers whether what was to be cut was.
    pub fn mend(&self) -> bool {
        self.set(None).is_none()
    }

    fn set(&self, next: Option<(usize, Cut)>) -> Option<(usize, Cut)> {
        let mut place = self
            .knife
            .next
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *place, next)
    }

    /// How often it has cut.
    #[must_use]
    pub fn cuts(&self) -> usize {
        self.knife.cuts.load(Ordering::SeqCst)
    }
}

/// Carries bytes both ways, each on a thread. What a client writes at once is taken for
/// a request.
fn join(client: &TcpStream, server: &TcpStream, knife: &Arc<Knife>) {
    let is_cut = Arc::new(AtomicBool::new(false));
    let twins = || (client.try_clone(), server.try_clone());
    let (Ok(from), Ok(to)) = twins() else { return };
    let (knife, cut) = (Arc::clone(knife), Arc::clone(&is_cut));
    thread::spawn(move || {
        carry(&from, &to, |bytes| match knife.falls() {
            None => bytes.len(),
            Some(Cut::Before) => 0,
            Some(Cut::Within) => bytes.len() / 2,
            Some(Cut::After) => {
                cut.store(true, Ordering::SeqCst);
                bytes.len()
            }
        });
    });
    let (Ok(to), Ok(from)) = twins() else { return };
    thread::spawn(move || {
        carry(&from, &to, |bytes| match is_cut.load(Ordering::SeqCst) {
            true => 0,
            false => bytes.len(),
        });
    });
}

/// Until either end is closed, or not all that came is to go on: `passes` says how much.
fn carry(mut from: &TcpStream, mut to: &TcpStream, passes: impl Fn(&[u8]) -> usize) {
    let mut bytes = [0; 16_384];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let passed = passes(&bytes[..count]);
        if to.write_all(&bytes[..passed]).is_err() || passed < count {
            break;
        }
    }
    // It may be closed already.
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
