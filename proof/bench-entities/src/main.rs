//! A million entities: what it takes a server to find one by its id: `cargo xtask bench entities`.
//!
//! | room | holds |
//! |---|---|
//! | `trips` | a memory store that counts what it is asked for entities |
//! | `family` | so many entities at three levels |
//! | `lap` | look-ups, timed one by one |

mod family;
mod lap;
mod trips;

use std::fs::read_to_string;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use tidegate_service::{Call, Caller, Question, Service, Whose};
use tidegate_store::block_on;

use family::Family;
use lap::{Lap, lap};
use trips::Trips;

/// Three levels, so that one decision is about three limits.
const POLICY: &str = "[policy.p]\nkey = 'org/team/user'\n[policy.p.limits]\n\
    org = { calls = 1_000_000_000, per = '1s', level = 'org' }\n\
    team = { calls = 1_000_000_000, per = '1s', level = 'team' }\n\
    user = { calls = 1_000_000_000, per = '1s', level = 'user' }\n";

/// What it takes to find one of many entities.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench entities", override_help = include_str!("help.txt"))]
struct Options {
    /// How many there are
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(10_000..=10_000_000))]
    entities: u32,
    /// How many are found for each row
    #[arg(long, default_value_t = 2_000_000, value_parser = clap::value_parser!(u32).range(1_000..=100_000_000))]
    lookups: u32,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    let store = Arc::new(Trips::default());
    let family = Family::of(options.entities);
    family.create(&server(&store)?)?;
    println!("{} entities, at three levels", options.entities);

    // A server that knows none of them.
    let server = server(&store)?;
    let find = |id: &str| found_by(&server, id);
    let trips = |id: &str| {
        store.take();
        find(id).map(|()| store.take())
    };
    println!("trips to the store for one that is not known:");
    println!("  nor its ancestors   {}", trips(&family.user(0))?);
    println!("  of a known parent   {}", trips(&family.user(1))?);
    println!("  once it is known    {}", trips(&family.user(1))?);
    store.set_reads_ancestors(false);
    let other = self::server(&store)?;
    store.take();
    found_by(&other, &family.user(0))?;
    println!("  nor its ancestors, on DynamoDB   {}", store.take());
    store.set_reads_ancestors(true);

    let before = resident()?;
    for number in 0..family.users() {
        find(&family.user(number))?;
    }
    let grown = resident()?.saturating_sub(before);
    let kept = f64::from(options.entities.min(1 << 20));
    println!(
        "memory once all were found: {:.0} MB more, {:.0} bytes for each that may be kept",
        grown as f64 / 1e6,
        grown as f64 / kept
    );

    println!("nanoseconds, by one thread: median, 99th percentile; of those, how many were known");
    let show = |name: &str, lap: &Lap| println!("  {name:34} {lap}");
    let fewer = [1_000, 400_000].into_iter();
    let fewer = fewer.filter(|among| *among < family.users());
    for among in fewer.chain([family.users()]) {
        let ids = family.some(among, options.lookups);
        let known = || store.take() == 0;
        let found = lap(&ids, known, find)?;
        show(&format!("found, one of {among}"), &found);
    }
    let caller = server.enter(None).map_err(|error| error.to_string())?;
    let ids = family.some(1_000, options.lookups / 4);
    let keys: Vec<_> = ids.iter().map(|id| family.key_of(id)).collect();
    let known = || store.take() == 0;
    let by_id = |id: &str| check(&server, &caller, Whose::Entity(id));
    show("a check by its id, one of 1000", &lap(&ids, known, by_id)?);
    let by_key = |key: &str| check(&server, &caller, Whose::Key(key.as_bytes()));
    show("the same by its key", &lap(&keys, known, by_key)?);
    Ok(())
}

fn found_by(server: &Service, id: &str) -> Result<(), String> {
    let found = block_on(server.entity_path(id));
    found.map(drop).map_err(|error| error.to_string())
}

fn server(store: &Arc<Trips>) -> Result<Service, String> {
    let file = tidegate_policy::parse("p.toml", POLICY).map_err(|faults| faults.to_string())?;
    let builder = Service::builder().store(Arc::clone(store) as _);
    // What is measured is no log of a million changes.
    let builder = builder.audit(Duration::from_secs(60), 1);
    builder.build(&file).map_err(|error| error.to_string())
}

fn check(service: &Service, caller: &Caller, whose: Whose<'_>) -> Result<(), String> {
    let question = Question {
        policy: "p",
        whose,
        ..Question::default()
    };
    let answer = block_on(service.call(caller, Call::Check(question)));
    answer.map(drop).map_err(|error| error.to_string())
}

/// How much memory this process has, in bytes, as Linux tells it.
fn resident() -> Result<u64, String> {
    let status = read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
    let kilobytes = kilobytes.ok_or("this system does not say how much memory a process has")?;
    Ok(kilobytes * 1_024)
}
