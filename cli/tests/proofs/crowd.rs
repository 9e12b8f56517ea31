//! Many connections that want nothing, or mean no good.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

/// How many clients stand about at a listener.
pub fn idle() -> usize {
    let given = std::env::var("TIDEGATE_IDLE").ok();
    given.map_or(2_000, |given| given.parse().expect("a number"))
}

/// Allows this process as many open files.
pub fn allow_files(count: u64) {
    let id = std::process::id().to_string();
    let limit = format!("--nofile={count}:");
    let raised = Command::new("prlimit")
        .args(["--pid", &id, &limit])
        .output();
    let raised = raised.expect("prlimit of util-linux");
    let said = String::from_utf8_lossy(&raised.stderr);
    assert!(raised.status.success(), "{count} open files: {said}");
}

/// What the clients of a protocol say, in turns, before they say no more.
pub type Openings = [&'static [u8]; 4];

/// One that says this, and then nothing; some hang up, but only halfway.
pub fn stand_about(at: SocketAddr, openings: &Openings, nth: usize) -> TcpStream {
    let mut stream = TcpStream::connect(at).expect("it listens");
    let opening = openings[nth % openings.len()];
    stream.write_all(opening).expect("there is room");
    if nth % 7 == 6 {
        stream.shutdown(Shutdown::Write).expect("it is open");
    }
    stream
}

/// Writes `endless` again and again, until the other side has had enough, or
/// takes no more, or has taken `most` bytes. Reads nothing.
pub fn pour(at: SocketAddr, opening: &[u8], endless: &[u8], most: usize) {
    let mut stream = TcpStream::connect(at).expect("it listens");
    let patience = Some(Duration::from_secs(2));
    stream.set_write_timeout(patience).expect("not zero");
    let times = most / endless.len();
    let mut pieces = std::iter::once(opening).chain(std::iter::repeat_n(endless, times));
    // Whoever hangs up, or reads no more, has had enough.
    let _ = pieces.try_for_each(|piece| stream.write_all(piece));
}

/// Whether the other side hangs up, whatever it says before.
pub fn hangs_up(mut stream: &TcpStream, within: Duration) -> bool {
    stream.set_read_timeout(Some(within)).expect("not zero");
    match stream.read_to_end(&mut Vec::new()) {
        Ok(_) => true,
        Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
    }
}
