//! The process that is killed: takes and settles leases on a few keys from
//! several threads, and says on its standard output what it is about to do and
//! what it was told. A line is one write, so that none is torn.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tidegate::{LeaseId, Limit, LimitSet, Request};
use tidegate_file::{FileStore, SyncMode};

use crate::support;

/// How many threads it has, and how many keys they share.
pub const THREADS: usize = 4;
pub const KEYS: usize = 2;

/// A budget too large to be spent, and too long to end within the test.
const FOREVER: Duration = Duration::from_secs(400 * 86_400);
pub const BUDGET: u64 = 1_000_000_000_000;
pub const BURST: u64 = MOST * 2;

/// However fast the machine is, a thread asks for no more leases than this, and
/// then waits to be killed: the file remembers them all.
const MOST: u64 = 10_000;
/// Of a thread's leases, every third stays held, but no more than this.
const MOST_HELD: u64 = 400;
/// All that stay held for one key, one more under way for each of its threads,
/// and one for the test.
pub const SLOTS: u64 = (THREADS / KEYS) as u64 * (MOST_HELD + 1) + 1;

/// The set with leases. `extra` tells one version of its limits from the next.
pub fn leases(store: Arc<FileStore>, extra: u64) -> LimitSet {
    let slots = Limit::concurrency("slots", SLOTS).ttl(Duration::from_secs(3_600));
    let set = LimitSet::builder()
        .name("leases")
        .store(store)
        .limits([Limit::budget("budget", BUDGET + extra, FOREVER), slots]);
    set.build().expect("sensible limits")
}

/// The set of a single bucket, which is decided on the fast path.
pub fn single_bucket(store: Arc<FileStore>) -> LimitSet {
    let limit = Limit::calls("calls", 1, Duration::from_secs(86_400)).burst(BURST);
    let set = LimitSet::builder()
        .name("single_bucket")
        .store(store)
        .limit(limit);
    set.build().expect("sensible limits")
}

/// Starts it on `path`; what it does is called `round`.
pub fn start(path: PathBuf, sync: SyncMode, round: usize) -> Child {
    let mut child = Command::new(std::env::current_exe().expect("this test's path"));
    child.args([
        "child::runs_when_it_is_started_by_another_test",
        "--exact",
        "--nocapture",
    ]);
    child.env("TIDEGATE_CHILD", path);
    child.env("TIDEGATE_CHILD_SYNC", sync.to_string());
    child.env("TIDEGATE_CHILD_ROUND", round.to_string());
    // Why a child failed is seen beside the test that started it.
    child.stdout(Stdio::piped());
    child.spawn().expect("a process")
}

#[expect(
    clippy::disallowed_methods,
    reason = "what was said when is compared with what was lost"
)]
#[test]
fn runs_when_it_is_started_by_another_test() {
    let Some(path) = std::env::var_os("TIDEGATE_CHILD") else {
        return;
    };
    let variable = |name: &str| std::env::var(name).expect("it is given");
    let sync = variable("TIDEGATE_CHILD_SYNC")
        .parse()
        .expect("a way to sync");
    let round: usize = variable("TIDEGATE_CHILD_ROUND").parse().expect("a number");
    let store = support::open(path.as_ref(), sync).expect("a file that opens");
    let (leases, single_bucket) = (leases(store.clone(), round as u64), single_bucket(store));
    let start = Instant::now();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let worker = Worker {
                leases: &leases,
                single_bucket: &single_bucket,
                name: format!("{round}-{thread}"),
                start,
            };
            scope.spawn(move || worker.run(thread));
        }
    });
}

struct Worker<'a> {
    leases: &'a LimitSet,
    single_bucket: &'a LimitSet,
    name: String,
    start: Instant,
}

impl Worker<'_> {
    fn run(&self, thread: usize) {
        let key = (thread % KEYS).to_string();
        let handle = self
            .single_bucket
            .handle(self.name.as_str())
            .expect("a key");
        for number in 0..MOST {
            let begun = self.now();
            if handle.admit(1).wait().expect("no error").admitted() {
                self.say("admitted", number, 0, None, begun);
            }
            if number % 40 == 39 && thread == 0 {
                let limit = Limit::budget("budget", BUDGET + number, FOREVER);
                self.leases.put_limit(limit).expect("a change");
            }
            self.lease(&key, number);
        }
        loop {
            thread::park();
        }
    }

    fn lease(&self, key: &str, number: u64) {
        let begun = self.now();
        self.say("asking", number, 0, None, begun);
        let name = format!("{}-{number}", self.name);
        let ask = Request::from(3).idempotency(name.as_bytes());
        let asked = self.leases.try_acquire(key, ask).wait().expect("no error");
        let Some(lease) = asked.granted() else { return };
        let (fence, id) = (lease.fence().expect("of slots"), lease.detach());
        self.say("granted", number, fence, Some(id), begun);
        // Some stay for whoever opens the file next.
        let stays = number.is_multiple_of(3) && number / 3 < MOST_HELD;
        if !stays {
            let begun = self.now();
            self.say("settling", number, 0, None, begun);
            let used = [("budget", used(number))];
            self.leases
                .settle(key, id, &used)
                .wait()
                .expect("a live lease");
            self.say("settled", number, 0, None, begun);
        }
    }

    #[expect(clippy::disallowed_methods, reason = "as above")]
    fn now(&self) -> u128 {
        self.start.elapsed().as_micros()
    }

    /// What, for which of this thread's leases, when the command that it is
    /// about was begun, and when it is said.
    fn say(&self, what: &str, number: u64, fence: u64, id: Option<LeaseId>, begun: u128) {
        let id = id.map_or_else(|| "-".to_owned(), |id| id.to_string());
        let (name, at) = (&self.name, self.now());
        let line = format!("\n> {what} {name} {number} {fence} {id} {begun} {at}\n");
        // A parent that is gone has nothing more to learn.
        let _ = std::io::stdout().write_all(line.as_bytes());
    }
}

/// What the lease of this number uses of the 3 it took.
pub fn used(number: u64) -> u64 {
    number % 6
}
