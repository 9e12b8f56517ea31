//! A server on a port of its own, and a client that speaks in bytes.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file uses its own part"
)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use tidegate::ManualClock;
use tidegate_policy::parse;
use tidegate_resp::{Listener, Server, Settings};
use tidegate_service::{Credential, Scope, Service, ServiceBuilder};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A rate, a number of calls and slots.
pub const CHAT: &str = "[policy.chat.limits]\nrpm = { calls = 10, per = '1h' }\n\
                        [policy.slots.limits]\nrunning = { concurrency = 1 }\n";

/// How many threads a server has at most, those for what blocks included.
pub const THREADS: usize = 8;

/// Nothing takes so long, on however busy a machine, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that is served until it is dropped or closed.
pub struct TestServer {
    pub service: Service,
    pub time: ManualClock,
    pub address: SocketAddr,
    close: Option<oneshot::Sender<()>>,
    server: Option<JoinHandle<()>>,
    runtime: Runtime,
}

impl TestServer {
    /// With frozen time, everyone let in, the policies [`CHAT`].
    pub fn start() -> Self {
        Self::with(Settings::default())
    }

    pub fn with(settings: Settings) -> Self {
        Self::of(CHAT, settings)
    }

    /// With these policies.
    pub fn of(policies: &str, settings: Settings) -> Self {
        Self::at(Service::builder(), policies, settings)
    }

    /// With these policies, and this service's store.
    pub fn at(service: ServiceBuilder, policies: &str, settings: Settings) -> Self {
        let file = parse("test.toml", policies).unwrap_or_else(|errors| panic!("{errors}"));
        let time = ManualClock::default();
        let service = service.clock(time.clock()).build(&file).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(THREADS - 2)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let (close, closed) = oneshot::channel();
        let server = Server::new(service.clone(), settings);
        let server = runtime.spawn(async move {
            let closed = async {
                let _ = closed.await;
            };
            server
                .serve(Listener::from(listener).connections(), closed)
                .await
        });
        Self {
            service,
            time,
            address,
            close: Some(close),
            server: Some(server),
            runtime,
        }
    }

    pub fn client(&self) -> Client {
        Client::to(self.address)
    }

    /// Tells the server to close.
    pub fn close(&mut self) {
        drop(self.close.take());
    }

    /// Waits until it is closed.
    pub fn closed(&mut self) {
        let server = self.server.take().expect("it closes once");
        let within = PATIENCE;
        let server = self
            .runtime
            .block_on(async { tokio::time::timeout(within, server).await });
        server.expect("it closes in time").unwrap();
    }

    /// Waits until so many ask for `policy` in vain.
    pub fn until_waiting(&self, policy: &str, count: usize) {
        let caller = self.service.enter(None).unwrap();
        let server = self
            .service
            .policy(&caller, Scope::Observe, policy)
            .unwrap();
        until(|| server.set().statistics().waiting as usize == count);
    }
}

/// Waits until something is so.
pub fn until(mut so: impl FnMut() -> bool) {
    for _ in 0..12_000 {
        if so() {
            return;
        }
        #[expect(clippy::disallowed_methods, reason = "the other side is a socket")]
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("it never became so");
}

/// Tokens by name, each with its scopes and policies; the token is the name.
pub fn tokens(tokens: &[(&str, &[Scope], &[&str])]) -> Vec<Credential> {
    let credential = |(name, scopes, policies): &(&str, &[Scope], &[&str])| Credential {
        name: (*name).to_owned(),
        sha256: Credential::hash(name),
        scopes: scopes.to_vec(),
        policies: policies.iter().map(|&p| p.to_owned()).collect(),
        namespace: Some("*".to_owned()),
    };
    tokens.iter().map(credential).collect()
}

/// A client that speaks in bytes and shows replies as one line of text.
pub struct Client {
    pub stream: TcpStream,
    input: Vec<u8>,
}

impl Client {
    pub fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self {
            stream,
            input: Vec::new(),
        }
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Asks by a line of words and shows the reply.
    pub fn request(&mut self, line: &str) -> String {
        self.send(request(line));
        self.reply()
    }

    /// The next reply, shown.
    pub fn reply(&mut self) -> String {
        loop {
            let mut bytes = self.input.as_slice();
            if let Some(shown) = show(&mut bytes) {
                let rest = bytes.len();
                self.input.drain(..self.input.len() - rest);
                return shown;
            }
            assert!(self.more() > 0, "closed after {:?}", self.input);
        }
    }

    /// Asks, and whether this is the reply: whoever is turned away may lose the
    /// connection before it has read why.
    pub fn is_told(&mut self, line: &str, reply: &str) -> bool {
        let sent = self.stream.write_all(&request(line)).is_ok();
        sent && self.more() > 0 && self.reply() == reply
    }

    /// Whether the other side has hung up, and has said nothing more.
    pub fn is_closed(&mut self) -> bool {
        self.input.is_empty() && self.more() == 0
    }

    fn more(&mut self) -> usize {
        let mut bytes = [0; 4_096];
        let length = match self.stream.read(&mut bytes) {
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => 0,
            read => read.unwrap(),
        };
        self.input.extend(&bytes[..length]);
        length
    }
}

/// A line of words as a request.
pub fn request(line: &str) -> Vec<u8> {
    let words: Vec<_> = line.split_whitespace().collect();
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        bytes += &format!("${}\r\n{word}\r\n", word.len());
    }
    bytes.into_bytes()
}

/// One reply as text: `[1,2]`, `{a:1}`, `-ERR ...`, `nil`.
fn show(bytes: &mut &[u8]) -> Option<String> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let line = String::from_utf8_lossy(&bytes[1..end]).into_owned();
    let kind = bytes[0];
    *bytes = &bytes[end + 2..];
    let mut many =
        |count: usize| -> Option<Vec<String>> { (0..count).map(|_| show(bytes)).collect() };
    Some(match kind {
        b'*' => format!("[{}]", many(line.parse().unwrap())?.join(",")),
        b'%' => {
            let pairs = many(2 * line.parse::<usize>().unwrap())?;
            let pairs: Vec<_> = pairs.chunks(2).map(|pair| pair.join(":")).collect();
            format!("{{{}}}", pairs.join(","))
        }
        b'$' if line == "-1" => "nil".to_owned(),
        b'_' => "nil".to_owned(),
        b'$' | b'=' => {
            let length = line.parse::<usize>().unwrap();
            let text = String::from_utf8_lossy(bytes.get(..length)?).into_owned();
            *bytes = bytes.get(length + 2..)?;
            text
        }
        b'-' => format!("-{line}"),
        b'#' => line,
        _ => line,
    })
}
