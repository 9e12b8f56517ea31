//! `cargo xtask bench gateway`: what a gateway adds to a call, beside proxies without limits.
//!
//! | room | holds |
//! |---|---|
//! | `options` | what it is told |
//! | `peers` | who is compared: how each is installed, and how it is started |
//! | `row` | one that is compared, and what was seen of it |
//! | `streams` | a client of many streams at once |
//! | `table` | the rows, as `proof/bench/RESULTS.md` has them |
//!
//! A simulated provider and the clients share the last core, what is compared has the first.

mod options;
mod peers;
mod row;
mod streams;
mod table;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::hosts::{client_core, free_port, pinned};
use super::peers::Missing;
use crate::command::{cargo, program, run as done, target_directory};
pub use options::HELP;
use options::Options;
use peers::{PEERS, Peer, Place};
use row::Row;

/// For so long nothing is asked before memory is looked at again.
const REST: Duration = Duration::from_secs(10);

/// Runs it, and prints the rows.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let options = Options::parse(arguments)?;
    let programs = match &options.programs {
        Some(folder) => std::path::absolute(folder).map_err(|error| error.to_string())?,
        None => built()?,
    };
    let (peers, missing) = installed(&options);
    if options.install {
        missing
            .iter()
            .for_each(|(name, why)| eprintln!("not here: {name}: {why}"));
        return Ok(());
    }
    // Threads of ours that read streams are clients.
    let own = std::process::id().to_string();
    done(program("taskset").args(["--cpu-list", "--pid", &client_core(), &own]))?;
    let upstream = free_port()?;
    let mut provider = pinned(&client_core(), &peers::shown(&programs.join("provider")));
    provider.args(["--listen", &format!("127.0.0.1:{upstream}")]);
    let mut rows = vec![Row::start("direct", &mut provider, upstream, Vec::new())?];
    let missing = missing
        .into_iter()
        .chain(start(peers, &programs, upstream, &mut rows)?);
    let missing: Vec<Missing> = missing.collect();
    measure(&mut rows, &programs.join("tidegate-load"), &options);
    let text = table::text(&rows, &missing, &options);
    println!("\n{text}");
    let file = folder()?.join("rows.md");
    std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    eprintln!("the same is in {}", file.display());
    Ok(())
}

/// Where our programs are, as they are released.
fn built() -> Result<PathBuf, String> {
    for package in ["tidegate-cli", "tidegate-sim", "tidegate-load"] {
        done(&mut cargo(["build", "--release", "--package", package]))?;
    }
    Ok(target_directory().join("release"))
}

/// Where configurations and logs are.
fn folder() -> Result<PathBuf, String> {
    let folder = target_directory().join("bench-gateway");
    let made = std::fs::create_dir_all(&folder);
    made.map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

/// Who is wanted and can be had.
fn installed(options: &Options) -> (Vec<&'static Peer>, Vec<Missing>) {
    let (mut here, mut missing) = (Vec::new(), Vec::new());
    for peer in PEERS {
        if options
            .without
            .iter()
            .any(|name| peer.what.contains(&**name))
        {
            missing.push((peer.what, "left out by --without".to_owned()));
            continue;
        }
        eprintln!("{}: is it here?", peer.what);
        match (peer.install)() {
            Ok(()) => here.push(peer),
            Err(why) => missing.push((peer.what, why)),
        }
    }
    (here, missing)
}

/// Starts each; one that does not answer a call as the provider does is left out.
fn start(
    peers: Vec<&'static Peer>,
    programs: &Path,
    upstream: u16,
    rows: &mut Vec<Row>,
) -> Result<Vec<Missing>, String> {
    let (folder, load) = (folder()?, programs.join("tidegate-load"));
    let mut missing = Vec::new();
    for peer in peers {
        eprintln!("{}: starts", peer.what);
        let place = Place {
            programs,
            folder: &folder,
            port: free_port()?,
            upstream,
        };
        let row = (peer.command)(&place).and_then(|mut command| {
            let headers = (peer.headers)(&place);
            let row = Row::start(peer.what, &mut command, place.port, headers)?;
            row.warm(&load).map(|()| row)
        });
        match row {
            Ok(row) => rows.push(row),
            Err(why) => missing.push((peer.what, why)),
        }
    }
    Ok(missing)
}

fn measure(rows: &mut [Row], load: &Path, options: &Options) {
    // What starting has put off is done.
    thread::park_timeout(REST / 5);
    rows.iter_mut().for_each(Row::is_idle);
    for round in 1..=options.rounds {
        for row in rows.iter_mut() {
            eprintln!("round {round} of {}: {}", options.rounds, row.what);
            row.ask(load, options.seconds);
        }
    }
    let (direct, others) = rows.split_at_mut(1);
    for row in others.iter_mut() {
        eprintln!("the highest rate without failure: {}", row.what);
        row.find_highest(&direct[0], load, options);
    }
    for row in rows.iter_mut() {
        eprintln!("streams at once: {}", row.what);
        row.hold(&options.streams);
    }
    eprintln!("rest");
    thread::park_timeout(REST);
    rows.iter_mut().for_each(Row::has_rested);
}
