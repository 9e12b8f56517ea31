//! A process of a fleet, and the lines that it says.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, JoinHandle};

pub struct Node<T> {
    pub process: Child,
    said: JoinHandle<Vec<T>>,
    first: Receiver<()>,
}

impl<T: Send + 'static> Node<T> {
    /// It performs `command` on the store at `url`; each line that `read` understands is kept.
    pub fn start(
        (command, url): (&str, &str),
        numbers: &[(&str, i64)],
        read: fn(&str) -> Option<T>,
    ) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_tidegate-contention"));
        process.args([command, "--store", url]);
        for (name, number) in numbers {
            process.args([name, &*number.to_string()]);
        }
        process.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = process.spawn().expect("it starts");
        let out = BufReader::new(process.stdout.take().expect("its output"));
        let (speaks, first) = sync_channel(1);
        let said = thread::spawn(move || {
            let lines = out.lines().map_while(Result::ok);
            let understood = lines.filter_map(|line| read(&line));
            let told = understood.inspect(|_| {
                // The first is told to a test that waits for it; there is no room for the rest.
                let _ = speaks.try_send(());
            });
            told.collect()
        });
        Self {
            process,
            said,
            first,
        }
    }

    /// Waits until it has said something, however busy the machine is.
    pub fn until_it_speaks(&self) {
        self.first.recv().expect("it speaks before it ends");
    }

    /// Its input ends: it gives back what it holds, and ends.
    pub fn tell(mut self) -> Vec<T> {
        drop(self.process.stdin.take());
        assert!(self.process.wait().expect("it ends").success());
        self.said.join().expect("its lines")
    }

    pub fn kill(mut self) -> Vec<T> {
        self.process.kill().expect("it runs");
        let ended = self.process.wait().expect("it ends");
        assert_eq!(ended.signal(), Some(9), "it has ended before: {ended}");
        self.said.join().expect("its lines")
    }
}
