//! What stands between a client and a server, and loses answers.

use std::io::{Read, Write, copy};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use crate::server::Server;

/// Passes requests on to a server, and of so many connections no answer of the server's.
pub struct Proxy {
    pub url: String,
    to_lose: Arc<AtomicI64>,
    is_cut: Arc<AtomicBool>,
}

impl Proxy {
    /// One that loses the answers of the first `to_lose` connections.
    pub fn before(server: &Server, to_lose: i64) -> Self {
        Self::answering(server, to_lose, Vec::new())
    }

    /// The same, where no later connection reaches the server until it is mended.
    pub fn before_a_cut(server: &Server, to_lose: i64) -> Self {
        let proxy = Self::before(server, to_lose);
        proxy.is_cut.store(true, Ordering::SeqCst);
        proxy
    }

    /// One that answers these bytes in the place of those.
    pub fn answering(server: &Server, to_lose: i64, instead: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let address = server.url.trim_start_matches("http://").to_owned();
        let proxy = Self {
            url,
            to_lose: Arc::new(AtomicI64::new(to_lose)),
            is_cut: Arc::default(),
        };
        let (to_lose, is_cut) = (Arc::clone(&proxy.to_lose), Arc::clone(&proxy.is_cut));
        // Until the test ends.
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let is_lost = to_lose.fetch_sub(1, Ordering::SeqCst) > 0;
                if !is_lost && is_cut.load(Ordering::SeqCst) {
                    continue;
                }
                let server = TcpStream::connect(&address).expect("the server listens");
                let instead = is_lost.then(|| instead.clone());
                std::thread::spawn(move || pass(&client, &server, instead.as_deref()));
            }
        });
        proxy
    }

    /// No more answers are lost, and no connection is cut.
    pub fn mend(&self) {
        self.is_cut.store(false, Ordering::SeqCst);
        self.to_lose.store(0, Ordering::SeqCst);
    }
}

fn pass(client: &TcpStream, server: &TcpStream, instead: Option<&[u8]>) {
    let ends = (client.try_clone(), server.try_clone());
    let (mut from, mut to) = (ends.0.expect("a handle"), ends.1.expect("a handle"));
    std::thread::spawn(move || {
        // Whoever goes away ends both.
        let _ = copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    });
    let (mut client, mut server) = (client, server);
    if let Some(instead) = instead {
        let _ = server.read(&mut [0; 4_096]);
        let _ = client.write_all(instead);
    } else {
        let _ = copy(&mut server, &mut client);
    }
    let _ = client.flush();
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}
