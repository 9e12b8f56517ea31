//! What stands between a client and a server, and holds one of its changes back.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use crate::server::Server;

/// Passes requests on to a server, and holds the nth that changes something.
pub struct Turnstile {
    pub url: String,
    held: Receiver<()>,
    open: SyncSender<()>,
}

/// What its threads share.
struct Gate {
    address: String,
    nth: usize,
    is_made: bool,
    changes: AtomicUsize,
    held: SyncSender<()>,
    opened: Mutex<Receiver<()>>,
}

impl Turnstile {
    /// One that holds the nth change: before the server is asked, or what it has answered.
    pub fn before(server: &Server, nth: usize, is_made: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (held, is_held) = sync_channel(1);
        let (open, opened) = sync_channel(1);
        let gate = Arc::new(Gate {
            address: server.url.trim_start_matches("http://").to_owned(),
            nth,
            is_made,
            changes: AtomicUsize::new(0),
            held,
            opened: Mutex::new(opened),
        });
        // Until the test ends.
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let gate = Arc::clone(&gate);
                std::thread::spawn(move || gate.pass(client));
            }
        });
        Self {
            url,
            held: is_held,
            open,
        }
    }

    /// Until the change is held.
    pub fn wait_until_held(&self) {
        self.held.recv().expect("it is held");
    }

    /// Lets it go on.
    pub fn let_through(&self) {
        self.open.send(()).expect("it is held");
    }
}

impl Gate {
    /// One request of a connection, and its answer.
    fn pass(&self, mut client: TcpStream) {
        let Some(request) = request(&mut client) else {
            return;
        };
        let is_held = !request.starts_with(b"GET ")
            && self.changes.fetch_add(1, Ordering::SeqCst) == self.nth;
        if is_held && !self.is_made {
            self.hold();
        }
        let mut server = TcpStream::connect(&self.address).expect("the server listens");
        server.write_all(&request).expect("sent");
        let mut answer = Vec::new();
        server.read_to_end(&mut answer).expect("answered");
        if is_held && self.is_made {
            self.hold();
        }
        // Who asked may have been killed.
        let _ = client.write_all(&answer);
    }

    fn hold(&self) {
        self.held.send(()).expect("the test waits");
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody opens it where the client is killed.
        let _ = opened.recv();
    }
}

/// A whole request, told to be the last of its connection.
fn request(client: &mut TcpStream) -> Option<Vec<u8>> {
    let (mut read, mut byte) = (Vec::new(), [0]);
    while !read.ends_with(b"\r\n\r\n") {
        client.read_exact(&mut byte).ok()?;
        read.extend(byte);
    }
    let head = String::from_utf8_lossy(&read).to_ascii_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.map_or(0, |length| length.parse().expect("a number"));
    let mut body = vec![0; length];
    client.read_exact(&mut body).ok()?;
    read.truncate(read.len() - 2);
    read.extend(b"Connection: close\r\n\r\n");
    read.extend(body);
    Some(read)
}
