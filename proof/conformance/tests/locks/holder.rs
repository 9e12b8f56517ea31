//! A holder in a process of its own, which can be stopped and killed. It is told
//! what to do on its input, a word a line, and says on its output what came of it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use tidegate::lock::{Permit, Semaphore};

use crate::register::Register;
use crate::servers::{semaphore, signal};

/// Where such a process finds the server, and how long its permits last.
const SERVER: &str = "TIDEGATE_TEST_SERVER_OF_A_HOLDER";
const TTL_MS: &str = "TIDEGATE_TEST_TTL_OF_A_HOLDER";

/// What every line that is meant for the test begins with: a test's own output is
/// on the same stream.
const SAYS: &str = "holder: ";

/// A process that holds, or will.
pub struct Holder {
    child: Child,
    tell: ChildStdin,
    says: BufReader<ChildStdout>,
}

impl Holder {
    pub fn start(url: &str, ttl: Duration) -> Self {
        let mut process = Command::new(std::env::current_exe().expect("this test"));
        process.args(["--ignored", "--exact", "holder::a_process_that_holds"]);
        process.arg("--nocapture").env(SERVER, url);
        process.env(TTL_MS, ttl.as_millis().to_string());
        process.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = process.spawn().expect("a process");
        let tell = child.stdin.take().expect("its input");
        let says = BufReader::new(child.stdout.take().expect("its output"));
        Self { child, tell, says }
    }

    /// Tells it something, to be done when it runs.
    pub fn tell(&mut self, words: &str) {
        writeln!(self.tell, "{words}").expect("it listens");
    }

    /// What it says next.
    pub fn hears(&mut self) -> String {
        let lines = (&mut self.says).lines().map_while(Result::ok);
        let mut said = lines.filter_map(|line| Some(line.split_once(SAYS)?.1.to_owned()));
        said.next().expect("it says something")
    }

    pub fn ask(&mut self, words: &str) -> String {
        self.tell(words);
        self.hears()
    }

    pub fn signal(&self, name: &str) {
        signal(name, self.child.id());
    }

    /// At any instruction.
    pub fn kill(mut self) {
        self.child.kill().expect("it was there");
        self.child.wait().expect("it ends");
    }
}

/// What a [`Holder`] runs.
#[test]
#[ignore = "it is the process that other tests start"]
fn a_process_that_holds() {
    let Some(url) = std::env::var_os(SERVER) else {
        return;
    };
    let url = url.into_string().expect("an address");
    let ttl = std::env::var(TTL_MS).expect("a ttl");
    let ttl = Duration::from_millis(ttl.parse().expect("a number"));
    let gpus = semaphore(&url, 1, ttl);
    let mut held = None;
    for line in std::io::stdin().lines().map_while(Result::ok) {
        println!("\n{SAYS}{}", obey(&line, &gpus, &mut held, &url));
    }
}

fn obey(line: &str, gpus: &Semaphore, held: &mut Option<Permit>, url: &str) -> String {
    let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
    let permit = held.as_ref();
    match verb {
        "acquire" => {
            let permit = held.insert(gpus.acquire().expect("an answer"));
            permit.fence().to_string()
        }
        "sure" => permit.is_some_and(Permit::is_sure).to_string(),
        "write" => {
            let fence = permit.expect("a permit").fence();
            Register::of(url).write(fence, rest).to_string()
        }
        "lost" => format!("{:?}", permit.expect("a permit").watch().wait()),
        "release" => format!("{:?}", held.take().map(Permit::release)),
        other => panic!("{other}"),
    }
}
