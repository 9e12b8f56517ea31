//! A proxy that counts what goes through it: the operations, and the units that their answers
//! say were consumed. It reads HTTP/1.1 as the SDK writes it.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;

/// One request that was answered.
#[derive(Clone, Debug)]
pub struct Request {
    /// The operation, as `PutItem`.
    pub name: String,
    /// What its answer says was consumed.
    pub units: f64,
}

impl Request {
    /// Whether it may change anything.
    pub fn is_write(&self) -> bool {
        let writes = ["PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"];
        writes.contains(&self.name.as_str())
    }
}

/// See the [module](self). It lasts as long as the test's process.
pub struct Counting {
    port: u16,
    asked: Arc<Mutex<Vec<Request>>>,
}

impl Counting {
    /// A way to what listens on `port` of this machine.
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let own = listener.local_addr().expect("an address").port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&asked);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let noted = Arc::clone(&noted);
                let server = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("a server");
                thread::spawn(move || carry(&client, &server, &noted));
            }
        });
        Self { port: own, asked }
    }

    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Begins to count anew.
    pub fn forget(&self) {
        self.asked.lock().clear();
    }

    /// What was asked since.
    pub fn asked(&self) -> Vec<Request> {
        self.asked.lock().clone()
    }
}

/// A request after the other, each with its answer, until one side ends.
fn carry(client: &TcpStream, server: &TcpStream, noted: &Mutex<Vec<Request>>) {
    let (mut from, mut back) = (BufReader::new(client), BufReader::new(server));
    let (mut to_server, mut to_client) = (server, client);
    loop {
        let Some((head, body)) = message(&mut from) else {
            return;
        };
        let name = header(&head, "x-amz-target").unwrap_or_default();
        let name = name.rsplit('.').next().unwrap_or_default().to_owned();
        if to_server.write_all(&asking(&head, body)).is_err() {
            return;
        }
        let Some((head, body)) = message(&mut back) else {
            return;
        };
        noted.lock().push(Request {
            name,
            units: units(&String::from_utf8_lossy(&body)),
        });
        if to_client
            .write_all(&[head.as_bytes(), &body].concat())
            .is_err()
        {
            return;
        }
    }
}

/// The request, which asks to be told what it consumes. (The emulator looks at no signature.)
fn asking(head: &str, mut body: Vec<u8>) -> Vec<u8> {
    if body.pop() != Some(b'}') {
        return Vec::new();
    }
    let comma = if body.ends_with(b"{") { "" } else { "," };
    body.extend(format!("{comma}\"ReturnConsumedCapacity\":\"TOTAL\"}}").bytes());
    let lines = head.lines().filter(|line| !line.is_empty());
    let lines = lines.map(
        |line| match line.to_ascii_lowercase().starts_with("content-length:") {
            true => format!("content-length: {}\r\n", body.len()),
            false => format!("{line}\r\n"),
        },
    );
    let mut request: Vec<u8> = lines.collect::<String>().into_bytes();
    request.extend(b"\r\n");
    request.extend(body);
    request
}

/// A head and a body of as many bytes as the head says.
fn message(from: &mut impl BufRead) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if from.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = header(&head, "content-length").unwrap_or_default();
    let mut body = vec![0; length.parse().unwrap_or(0)];
    from.read_exact(&mut body).ok()?;
    Some((head, body))
}

fn header(head: &str, name: &str) -> Option<String> {
    let mut lines = head.lines();
    lines.find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found
            .eq_ignore_ascii_case(name)
            .then(|| value.trim().to_owned())
    })
}

/// The capacity units of an answer, of all its tables.
fn units(body: &str) -> f64 {
    let numbers = body.split("\"CapacityUnits\":").skip(1);
    let number = |rest: &str| {
        let end = rest.find([',', '}']).unwrap_or(rest.len());
        rest[..end].trim().parse().unwrap_or(0.0)
    };
    numbers.map(number).sum()
}
