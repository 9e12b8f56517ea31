//! Clients that mean no good: what the server holds in memory stays bounded, and
//! another client is served meanwhile.
//!
//! The bounds are for a build without optimisation. A connection costs most at
//! the HTTP and gRPC listeners once they speak HTTP/2.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::client::{Client, Protocol, Request, Said};
use crate::crowd::{self, Openings, hangs_up, idle, pour, stand_about};
use crate::server::{Server, Started, folder};

/// One crowd at a time, each with all the files that this process may open.
static ALONE: Mutex<()> = Mutex::new(());

/// Within which another client is answered, whatever the others do.
const PROMPTLY: Duration = Duration::from_secs(30);
/// What an idle connection may cost, in KiB, and whatever comes with a crowd.
const EACH: u64 = 24;
const AROUND: u64 = 16 * 1_024;
/// What greedy clients may cost all together, in KiB, and how much each pours.
const GREEDY: u64 = 32 * 1_024;
const POURED: usize = 32 * 1_024 * 1_024;

const HTTP: Openings = [
    b"",
    b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 90\r\n\r\n{",
    b"GET /healthz HT",
];
/// The preface of HTTP/2, and empty settings behind it.
const GRPC: Openings = [
    b"",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
    b"PRI * HTTP/2.0\r\n",
    b"GET / HTTP/1.1\r\n",
];
const RESP: Openings = [b"", b"PING\r\n", b"*2\r\n$4\r\nECHO\r\n$60000\r\nx", b"PI"];

struct House {
    server: Server,
    other: Box<dyn Client>,
    protocol: Protocol,
    /// What it held before anyone came, in KiB.
    before: u64,
    /// The most that it has held since.
    peak: u64,
    _folder: tempfile::TempDir,
}

impl House {
    fn open(protocol: Protocol) -> Self {
        let most = idle() as u64 + 500;
        crowd::allow_files(most + 500);
        let policies = format!(
            "[server]\nmax_connections = {most}\n\
             [policy.free.limits]\nunits = {{ rate = 1_000_000, per = '1s' }}\n"
        );
        let folder = folder(&policies);
        let memory = ["--store", "memory:"];
        let server = Started::with(folder.path(), &memory, most + 500).listening();
        let mut house = Self {
            other: protocol.enter(&server).expect("it listens"),
            before: 0,
            peak: 0,
            server,
            protocol,
            _folder: folder,
        };
        house.another_is_served();
        house.before = house.server.memory();
        house
    }

    fn at(&self) -> SocketAddr {
        match self.protocol {
            Protocol::Http => self.server.http,
            Protocol::Grpc => self.server.grpc,
            Protocol::Resp => self.server.resp,
        }
    }

    fn another_is_served(&mut self) {
        let (policy, key, amounts) = ("free", "other", &[("units", 1)]);
        let begun = Instant::now();
        let said = self.other.check(Request {
            policy,
            key,
            amounts,
        });
        let after = begun.elapsed();
        assert_eq!(said.expect("it is served"), Said::Yes);
        assert!(after < PROMPTLY, "after {after:?}");
        self.peak = self.peak.max(self.server.memory());
    }

    fn holds_at_most(&self, bound: u64, what: &str) {
        let grown = self.peak.saturating_sub(self.before);
        println!(
            "{:?}: {what}: {grown} KiB of {bound} more than {}",
            self.protocol, self.before
        );
        assert!(grown <= bound, "{what}: {grown} KiB of {bound}");
    }
}

/// They come, and stay; then some say a byte each second.
fn crowd_at(protocol: Protocol, openings: &Openings) {
    let _alone = ALONE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut house = House::open(protocol);
    let mut crowd = Vec::new();
    for nth in 0..idle() {
        crowd.push(stand_about(house.at(), openings, nth));
        if nth % 100 == 99 {
            house.another_is_served();
        }
    }
    let bound = idle() as u64 * EACH + AROUND;
    house.holds_at_most(bound, "a crowd");
    for _ in 0..4 {
        for mut slow in crowd.iter().step_by(20) {
            // It may have been hung up on, which is as good.
            let _ = slow.write(b"x");
        }
        house.another_is_served();
        thread::sleep(Duration::from_secs(1));
    }
    house.holds_at_most(bound, "slow ones in it");
    drop(crowd);
    house.another_is_served();
}

#[test]
fn a_crowd_at_the_http_listener_holds_up_nobody() {
    crowd_at(Protocol::Http, &HTTP);
}

#[test]
fn a_crowd_at_the_grpc_listener_holds_up_nobody() {
    crowd_at(Protocol::Grpc, &GRPC);
}

#[test]
fn a_crowd_at_the_resp_listener_holds_up_nobody() {
    crowd_at(Protocol::Resp, &RESP);
}

/// What is poured into a listener: how it begins, and how it goes on for ever.
type Flood = (&'static [u8], &'static [u8]);

const MUCH: &[u8] = &[b'x'; 65_536];

/// Four of each kind, all at once.
fn flood(protocol: Protocol, floods: &[Flood]) {
    let _alone = ALONE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut house = House::open(protocol);
    let at = house.at();
    thread::scope(|scope| {
        let all = floods.iter().flat_map(|flood| [flood; 4]);
        let threads: Vec<_> = all
            .map(|(opening, endless)| scope.spawn(|| pour(at, opening, endless, POURED)))
            .collect();
        while !threads.iter().all(thread::ScopedJoinHandle::is_finished) {
            house.another_is_served();
        }
    });
    house.another_is_served();
    house.holds_at_most(GREEDY, "a flood");
}

#[test]
fn whatever_is_poured_into_the_http_listener_is_not_kept() {
    let head = b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";
    let long = [&head[..], b"Content-Length: 9999999999\r\n\r\n"]
        .concat()
        .leak();
    let chunks = [&head[..], b"Transfer-Encoding: chunked\r\n\r\n"]
        .concat()
        .leak();
    let header = [&head[..], b"X: "].concat().leak();
    let request = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n";
    let chunk = [&b"10000\r\n"[..], MUCH, b"\r\n"].concat().leak();
    let floods: [Flood; 5] = [
        (long, MUCH),
        (chunks, chunk),
        (header, MUCH),
        (b"", MUCH),
        // Answers of 100 KiB that nobody reads.
        (b"", request),
    ];
    flood(Protocol::Http, &floods);
}

#[test]
fn whatever_is_poured_into_the_grpc_listener_is_not_kept() {
    let preface = GRPC[1];
    // A frame longer than was agreed, and frames of an unknown kind.
    let long = [preface, b"\xff\xff\xff\x00\x00\x00\x00\x00\x01"]
        .concat()
        .leak();
    let unknown: &[u8] = b"\x00\x00\x00\xee\x00\x00\x00\x00\x00";
    // Settings and pings want an answer each.
    let settings: &[u8] = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00";
    let ping: &[u8] = b"\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678";
    let many = |frame: &[u8]| -> &'static [u8] { frame.repeat(4_096).leak() };
    let floods: [Flood; 5] = [
        (long, MUCH),
        (preface, many(unknown)),
        (preface, many(settings)),
        (preface, many(ping)),
        (b"", MUCH),
    ];
    flood(Protocol::Grpc, &floods);
}

#[test]
fn whatever_is_poured_into_the_resp_listener_is_not_kept() {
    let pings: &[u8] = b"PING\r\n".repeat(4_096).leak();
    let echo = [
        &b"*2\r\n$4\r\nECHO\r\n$60000\r\n"[..],
        &[b'x'; 60_000],
        b"\r\n",
    ]
    .concat()
    .leak();
    let floods: [Flood; 6] = [
        (b"*2\r\n$4\r\nECHO\r\n$2000000000\r\n", MUCH),
        (b"*1000000000\r\n", b"$1\r\nx\r\n"),
        (b"*", MUCH),
        (b"", MUCH),
        // Answers that nobody reads.
        (b"", pings),
        (b"", echo),
    ];
    flood(Protocol::Resp, &floods);
}

/// A request longer than may be ends the connection: nobody waits for the rest.
#[test]
fn a_request_that_is_too_long_is_not_waited_for() {
    let _alone = ALONE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let house = House::open(Protocol::Http);
    let ended = |at: SocketAddr, bytes: &[u8]| {
        let mut stream = TcpStream::connect(at).expect("it listens");
        stream.write_all(bytes).expect("there is room");
        hangs_up(&stream, PROMPTLY)
    };
    let head = b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
                 Content-Length: 9999999999\r\n\r\n";
    assert!(ended(house.server.http, head), "HTTP waits for the rest");
    let frame = [GRPC[1], b"\xff\xff\xff\x00\x00\x00\x00\x00\x01"].concat();
    assert!(ended(house.server.grpc, &frame), "gRPC waits for the rest");
    let array = b"*2\r\n$4\r\nECHO\r\n$2000000000\r\n";
    assert!(ended(house.server.resp, array), "RESP waits for the rest");
}
