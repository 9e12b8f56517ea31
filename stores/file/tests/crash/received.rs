//! What a child said, by its end.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tidegate::LeaseId;

/// One of its leases: which thread's, and its number there.
pub type Name = (String, u64);

/// How far a lease had come, as far as was said, and when that was said.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    Asking,
    Granted,
    Settling,
    Settled,
}

#[derive(Clone, Copy, Debug)]
pub struct Lease {
    pub stage: Stage,
    pub fence: u64,
    /// Once it was granted.
    pub id: Option<LeaseId>,
    /// When its grant was said, in microseconds, and when its end was: not
    /// before it was acknowledged.
    pub granted_at: u64,
    pub settled_at: u64,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Received {
    pub leases: BTreeMap<Name, Lease>,
    /// The instants at which each thread was admitted by the single bucket.
    pub admitted: BTreeMap<String, Vec<u64>>,
    /// When the last command was begun that was acknowledged: not after it was
    /// decided.
    pub latest: u64,
    /// A lease was granted.
    pub has_granted: bool,
}

/// Lets a child run for so long (from its first lease, if it is to come that
/// far), kills it, and answers what it said.
pub fn until_killed(mut child: Child, run: Duration, answered: bool) -> Received {
    let (first, said_something) = sync_channel(1);
    let said = listen(child.stdout.take().expect("a pipe"), first);
    if answered {
        said_something.recv().expect("a child that says something");
    }
    thread::sleep(run);
    child.kill().expect("it is ours to kill");
    child.wait().expect("it ended");
    said.join().expect("no panic")
}

fn listen(output: ChildStdout, first: SyncSender<()>) -> JoinHandle<Received> {
    thread::spawn(move || {
        let mut received = Received::default();
        for line in BufReader::new(output).lines() {
            received.line(&line.expect("text"));
            if received.has_granted {
                // Only the first is waited for, if it is.
                let _ = first.try_send(());
            }
        }
        received
    })
}

impl Received {
    fn line(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let [">", what, thread, nth, fence, id, begun, at] = words[..] else {
            return;
        };
        let number = |word: &str| word.parse::<u64>().expect("a number");
        let (name, at) = ((thread.to_owned(), number(nth)), number(at));
        if what == "admitted" {
            self.admitted.entry(name.0).or_default().push(at);
        } else {
            self.lease(name, what, (number(fence), id), at);
        }
        self.has_granted |= what == "granted";
        if matches!(what, "admitted" | "granted" | "settled") {
            self.latest = self.latest.max(number(begun));
        }
    }

    fn lease(&mut self, name: Name, what: &str, (fence, id): (u64, &str), at: u64) {
        let asking = Lease {
            stage: Stage::Asking,
            fence: 0,
            id: None,
            granted_at: 0,
            settled_at: 0,
        };
        let lease = self.leases.entry(name).or_insert(asking);
        match what {
            "asking" => {}
            "granted" => {
                (lease.stage, lease.fence, lease.granted_at) = (Stage::Granted, fence, at);
                lease.id = Some(id.parse().expect("an id"));
            }
            "settling" => lease.stage = Stage::Settling,
            "settled" => (lease.stage, lease.settled_at) = (Stage::Settled, at),
            other => panic!("nobody says {other}"),
        }
    }
}
