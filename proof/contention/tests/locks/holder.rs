//! A holder in a process of its own, which can be stopped and killed. It is told
//! what to do on its input, a word a line, and says on its output what came of it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use tidegate_conformance::Paused;

use crate::servers::process;

/// A process that holds, or will.
pub struct Holder {
    child: Child,
    tell: ChildStdin,
    says: BufReader<ChildStdout>,
}

impl Holder {
    pub fn start(url: &str, ttl: Duration) -> Self {
        Self::spawn(process("hold", url, 1, ttl))
    }

    pub fn spawn(mut process: Command) -> Self {
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
        let mut line = String::new();
        self.says.read_line(&mut line).expect("it says something");
        line.trim_end().to_owned()
    }

    pub fn ask(&mut self, words: &str) -> String {
        self.tell(words);
        self.hears()
    }

    /// It stands still until what this returns is dropped.
    pub fn pause(&self) -> Paused {
        Paused::new(self.child.id())
    }

    /// At any instruction.
    pub fn kill(mut self) {
        self.child.kill().expect("it was there");
        self.child.wait().expect("it ends");
    }
}
