//! A proxy that counts what goes through it: the operations, and the units that their answers
//! say were consumed. It answers in DynamoDB's place, or not at all, where a test wants it to.
//! It reads HTTP/1.1 as the SDK writes it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use parking_lot::{Condvar, Mutex};

/// One request that was answered.
#[derive(Clone, Debug)]
pub struct Request {
    /// The operation, as `PutItem`.
    pub name: String,
    /// What its answer says was consumed.
    pub units: f64,
    /// What a transaction is known by; empty of other requests.
    pub token: String,
    /// How many items it names.
    pub items: usize,
    /// What a transaction does to its items, as the single requests are called.
    pub writes: Vec<&'static str>,
}

/// What becomes of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It is refused with this code and these words: DynamoDB is not asked.
    Refused(&'static str, &'static str),
    /// A transaction of this request is cancelled, since another writes its first item.
    Conflict,
    /// This status, and DynamoDB is not asked.
    Failed(u16),
    /// It is done, and then this status.
    FailedBehind(u16),
    /// It is done, and the answer does not say when.
    Undated,
    /// DynamoDB is asked once nothing befalls anybody any more.
    Held,
    /// No answer ever comes: DynamoDB is not asked.
    Silent,
    /// No answer ever comes: it is done.
    SilentBehind,
}

/// What befalls whom: so many requests of these operations.
type Plan = Option<(usize, &'static [&'static str], Fault)>;

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
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    asked: Mutex<Vec<Request>>,
    plan: Mutex<Plan>,
    /// Nothing befalls anybody any more.
    mended: Condvar,
}

impl Shared {
    /// What befalls a request of this operation.
    fn fault(&self, name: &str) -> Option<Fault> {
        let mut plan = self.plan.lock();
        let (left, names, fault) = plan.as_mut()?;
        if *left == 0 || !names.contains(&name) {
            return None;
        }
        *left -= 1;
        Some(*fault)
    }
}

impl Counting {
    /// A way to what listens on `port` of this machine.
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let own = listener.local_addr().expect("an address").port();
        let shared = Arc::<Shared>::default();
        let noted = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let noted = Arc::clone(&noted);
                let server = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("a server");
                thread::spawn(move || carry(&client, &server, &noted));
            }
        });
        Self { port: own, shared }
    }

    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Begins to count anew.
    pub fn forget(&self) {
        self.shared.asked.lock().clear();
    }

    /// This befalls the next so many requests of these operations.
    pub fn next(&self, times: usize, names: &'static [&'static str], fault: Fault) {
        *self.shared.plan.lock() = Some((times, names, fault));
    }

    /// Nothing befalls anybody any more; answers how many were left.
    pub fn mend(&self) -> usize {
        let plan = self.shared.plan.lock().take();
        self.shared.mended.notify_all();
        plan.map_or(0, |(left, ..)| left)
    }

    /// What was asked since.
    pub fn asked(&self) -> Vec<Request> {
        self.shared.asked.lock().clone()
    }
}

/// A request after the other, each with its answer, until one side ends.
fn carry(client: &TcpStream, server: &TcpStream, shared: &Shared) {
    let (mut from, mut back) = (BufReader::new(client), BufReader::new(server));
    let (mut to_server, mut to_client) = (server, client);
    loop {
        let Some((head, body)) = message(&mut from) else {
            return;
        };
        let name = header(&head, "x-amz-target").unwrap_or_default();
        let name = name.rsplit('.').next().unwrap_or_default().to_owned();
        let (fault, token, items) = (shared.fault(&name), token(&body), items(&body));
        let writes = match &*name {
            "TransactWriteItems" => writes(&body),
            _ => Vec::new(),
        };
        let note = |units| {
            shared.asked.lock().push(Request {
                name,
                units,
                token,
                items,
                writes,
            })
        };
        if fault == Some(Fault::Held) {
            let mut plan = shared.plan.lock();
            while plan.is_some() {
                shared.mended.wait(&mut plan);
            }
        }
        let answer = match fault {
            None
            | Some(Fault::Held | Fault::FailedBehind(_) | Fault::SilentBehind | Fault::Undated) => {
                if to_server.write_all(&asking(&head, body)).is_err() {
                    return;
                }
                let Some((head, body)) = message(&mut back) else {
                    return;
                };
                note(units(&String::from_utf8_lossy(&body)));
                [head.as_bytes(), &body].concat()
            }
            Some(_) => {
                note(0.0);
                Vec::new()
            }
        };
        let answer = match fault {
            None | Some(Fault::Held) => answer,
            Some(Fault::Undated) => undated(&answer),
            Some(Fault::Silent | Fault::SilentBehind) => {
                // Until whoever asked has had enough, and goes.
                let _ = from.read_to_end(&mut Vec::new());
                return;
            }
            Some(Fault::Refused(code, words)) => {
                error(400, code, &format!("\"message\":\"{words}\""))
            }
            Some(Fault::Conflict) => error(400, "TransactionCanceledException", CONFLICT),
            Some(Fault::Failed(status) | Fault::FailedBehind(status)) => {
                error(status, "InternalServerError", "\"message\":\"it fails\"")
            }
        };
        if to_client.write_all(&answer).is_err() {
            return;
        }
    }
}

/// Why a transaction was cancelled: others write the first of its items.
const CONFLICT: &str = r#""Message":"Transaction cancelled","CancellationReasons":[{"Code":"TransactionConflict","Message":"Transaction is ongoing for the item"},{"Code":"None"}]"#;

/// An answer as DynamoDB gives it.
fn error(status: u16, code: &str, rest: &str) -> Vec<u8> {
    let body = format!("{{\"__type\":\"com.amazonaws.dynamodb.v20120810#{code}\",{rest}}}");
    let head = format!(
        "HTTP/1.1 {status} it fails\r\ncontent-type: application/x-amz-json-1.0\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

/// The answer without the line of its head that says when it was made.
fn undated(answer: &[u8]) -> Vec<u8> {
    let lines = answer.split_inclusive(|&byte| byte == b'\n');
    let is_date = |line: &[u8]| line.to_ascii_lowercase().starts_with(b"date:");
    lines
        .filter(|line| !is_date(line))
        .flatten()
        .copied()
        .collect()
}

/// How many items a request names: the table stands with each.
fn items(body: &[u8]) -> usize {
    String::from_utf8_lossy(body)
        .matches("\"TableName\"")
        .count()
}

/// What a transaction does to its items.
fn writes(body: &[u8]) -> Vec<&'static str> {
    let body = String::from_utf8_lossy(body);
    let kinds = [
        ("\"Put\":{", "PutItem"),
        ("\"Delete\":{", "DeleteItem"),
        ("\"Update\":{", "UpdateItem"),
        ("\"ConditionCheck\":{", "ConditionCheckItem"),
    ];
    let done = kinds.iter().filter(|(kind, _)| body.contains(kind));
    done.map(|(_, name)| *name).collect()
}

/// What a transaction is known by.
fn token(body: &[u8]) -> String {
    let body = String::from_utf8_lossy(body);
    let token = body.split("\"ClientRequestToken\":\"").nth(1);
    let token = token.and_then(|rest| rest.split('"').next());
    token.unwrap_or_default().to_owned()
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
