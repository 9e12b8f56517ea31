//! How long a lease takes, alone and beside another process, and how long it takes to wake
//! one that waits.
//!
//! ```sh
//! cargo run --profile explore -p tidegate-shm --example speed
//! ```
#![expect(
    clippy::disallowed_methods,
    reason = "it measures how long things take"
)]

use std::error::Error;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tidegate::lock::LeasedSemaphore;
use tidegate::{Limit, LimitSet, Request};
use tidegate_shm::{Options, ShmStore};

type Outcome<T> = Result<T, Box<dyn Error>>;

const HOUR: Duration = Duration::from_secs(3_600);
const PATIENCE: Duration = Duration::from_secs(60);

/// So many leases of a run, and the best of so many runs.
const LEASES: u32 = 20_000;
const RUNS: usize = 5;

/// So often one that waits is woken.
const WAKES: usize = 1_000;

fn set(dir: &Path, name: &str, limits: Vec<Limit>) -> Outcome<LimitSet> {
    let options = Options {
        dir: dir.to_owned(),
        ..Options::default()
    };
    let store = Arc::new(ShmStore::open("speed", options)?);
    let set = LimitSet::builder().name(name).limits(limits).store(store);
    Ok(set.build()?)
}

fn one(slots: u64) -> Vec<Limit> {
    vec![Limit::concurrency("slots", slots).ttl(HOUR)]
}

fn three() -> Vec<Limit> {
    vec![
        Limit::calls("calls", 1_000_000_000, HOUR),
        Limit::budget("budget", 1_000_000_000_000, HOUR),
        Limit::concurrency("slots", 8).ttl(HOUR),
    ]
}

/// One of each limit.
const THREE: &[(&str, u64)] = &[("calls", 1), ("budget", 1), ("slots", 1)];

fn rate() -> Vec<Limit> {
    vec![Limit::calls("calls", 1_000_000_000, HOUR)]
}

fn checks(set: &LimitSet, key: &str, rounds: u32) -> Outcome<Duration> {
    let begun = Instant::now();
    for _ in 0..rounds {
        if !set.check(key, 1).wait()?.admitted() {
            return Err("refused".into());
        }
    }
    Ok(begun.elapsed() / rounds)
}

fn leases(set: &LimitSet, key: &str, amount: &[(&str, u64)], rounds: u32) -> Outcome<Duration> {
    let begun = Instant::now();
    for _ in 0..rounds {
        let granted = set.acquire(key, Request::named(amount).within(PATIENCE));
        let mut lease = granted.wait()?.granted().ok_or("refused")?;
        lease.release().wait()?;
    }
    Ok(begun.elapsed() / rounds)
}

/// What is the least: a mutex of C that processes may share, and that tells of a killed owner.
#[expect(unsafe_code, reason = "the mutex is one of C")]
fn mutex(rounds: u32) -> Outcome<Duration> {
    let mut mutex = Box::new(libc::PTHREAD_MUTEX_INITIALIZER);
    let mutex = &raw mut *mutex;
    // SAFETY: the attributes and the mutex stand where they are until they are destroyed, and one thread
    // alone has them.
    unsafe {
        let mut kind = std::mem::zeroed();
        libc::pthread_mutexattr_init(&raw mut kind);
        libc::pthread_mutexattr_setpshared(&raw mut kind, libc::PTHREAD_PROCESS_SHARED);
        libc::pthread_mutexattr_setrobust(&raw mut kind, libc::PTHREAD_MUTEX_ROBUST);
        let made = libc::pthread_mutex_init(mutex, &raw const kind);
        libc::pthread_mutexattr_destroy(&raw mut kind);
        let begun = Instant::now();
        let mut failed = made;
        for _ in 0..rounds {
            failed |= libc::pthread_mutex_lock(mutex);
            failed |= libc::pthread_mutex_unlock(mutex);
        }
        let took = begun.elapsed() / rounds;
        libc::pthread_mutex_destroy(mutex);
        match failed {
            0 => Ok(took),
            _ => Err("a mutex that fails".into()),
        }
    }
}

/// Permits of a semaphore, each given back at once.
fn permits(dir: &Path, rounds: u32) -> Outcome<Duration> {
    let options = Options {
        dir: dir.to_owned(),
        ..Options::default()
    };
    let store = Arc::new(ShmStore::open("speed", options)?);
    let semaphore = LeasedSemaphore::builder("permits", 8)
        .store(store)
        .build()?;
    let begun = Instant::now();
    for _ in 0..rounds {
        let permit = semaphore.try_acquire().wait()?.ok_or("refused")?;
        permit.release().wait()?;
    }
    Ok(begun.elapsed() / rounds)
}

/// So many of one kind, for a profiler that counts instructions.
fn few(dir: &Path, deed: &str, rounds: u32) -> Outcome<()> {
    match deed {
        "one" => drop(leases(
            &set(dir, "one", one(8))?,
            "k",
            &[("slots", 1)],
            rounds,
        )?),
        "three" => drop(leases(&set(dir, "three", three())?, "k", THREE, rounds)?),
        "check" => drop(checks(&set(dir, "rate", rate())?, "k", rounds)?),
        "permit" => drop(permits(dir, rounds)?),
        _ => return Err("one, three, check or permit".into()),
    }
    Ok(())
}

fn best(run: impl Fn() -> Outcome<Duration>) -> Outcome<Duration> {
    let runs: Outcome<Vec<Duration>> = (0..RUNS).map(|_| run()).collect();
    Ok(runs?.into_iter().min().unwrap_or_default())
}

fn other(dir: &Path, deed: &str) -> Outcome<(Child, Lines<BufReader<ChildStdout>>)> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg(deed)
        .arg(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let said = child.stdout.take().ok_or("no pipe")?;
    Ok((child, BufReader::new(said).lines()))
}

fn since_1970() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

/// Waits for the one slot again and again, and says when it had it.
fn wait(dir: &Path) -> Outcome<()> {
    let set = set(dir, "woken", one(1))?;
    for _ in 0..WAKES {
        // It is held again.
        std::io::stdin().lock().read_line(&mut String::new())?;
        let granted = set.acquire("k", Request::default().within(PATIENCE));
        println!("waits");
        let mut lease = granted.wait()?.granted().ok_or("refused")?;
        println!("{}", since_1970().as_nanos());
        lease.release().wait()?;
    }
    Ok(())
}

fn woken(dir: &Path) -> Outcome<Vec<Duration>> {
    let set = set(dir, "woken", one(1))?;
    let hold = || -> Outcome<_> {
        let granted = set.acquire("k", Request::default().within(PATIENCE));
        Ok(granted.wait()?.granted().ok_or("refused")?)
    };
    let mut held = hold()?;
    let (mut child, mut said) = other(dir, "wait")?;
    let mut tells = child.stdin.take().ok_or("no pipe")?;
    let mut took = Vec::new();
    for _ in 0..WAKES {
        writeln!(tells)?;
        said.next().ok_or("it has ended")??;
        // Until it is asleep.
        std::thread::sleep(Duration::from_millis(1));
        let released = since_1970();
        held.release().wait()?;
        let at: u128 = said.next().ok_or("it has ended")??.parse()?;
        let nanos = at.saturating_sub(released.as_nanos());
        took.push(Duration::from_nanos(u64::try_from(nanos)?));
        held = hold()?;
    }
    drop(held);
    child.wait()?;
    took.sort_unstable();
    Ok(took)
}

fn main() -> Outcome<()> {
    let mut asked = std::env::args_os().skip(1);
    if let (Some(deed), Some(dir)) = (asked.next(), asked.next()) {
        let dir = Path::new(&dir);
        if deed == "wait" {
            return wait(dir);
        }
        if let Some(rounds) = asked.next() {
            return few(
                dir,
                &deed.to_string_lossy(),
                rounds.to_string_lossy().parse()?,
            );
        }
        let set = set(dir, "one", one(8))?;
        println!("begins");
        loop {
            leases(&set, "beside", &[("slots", 1)], LEASES)?;
        }
    }
    let dir = tempfile::tempdir_in("/dev/shm")?;
    let dir = dir.path();
    let one = set(dir, "one", one(8))?;
    let alone = best(|| leases(&one, "k", &[("slots", 1)], LEASES))?;
    let least = best(|| mutex(LEASES))?;
    println!("a mutex of processes, locked and unlocked: {least:?}");
    println!("acquire + release, one limit: {alone:?}");
    let three = set(dir, "three", three())?;
    let alone = best(|| leases(&three, "k", THREE, LEASES))?;
    println!("acquire + release, three limits: {alone:?}");
    let rate = set(dir, "rate", rate())?;
    let alone = best(|| checks(&rate, "k", LEASES))?;
    println!("check, one rate: {alone:?}");
    let permit = best(|| permits(dir, LEASES))?;
    println!("a permit of a semaphore + its release: {permit:?}");
    let (mut child, mut said) = other(dir, "lease")?;
    said.next().ok_or("it has ended")??;
    let beside = best(|| leases(&one, "beside", &[("slots", 1)], LEASES))?;
    child.kill()?;
    child.wait()?;
    println!("the same, one limit, two processes on one key: {beside:?}");
    let took = woken(dir)?;
    let part = |part: usize| took[took.len() * part / 1_000];
    println!(
        "release to granted in another process: median {:?}, p99 {:?}",
        part(500),
        part(990)
    );
    Ok(())
}
