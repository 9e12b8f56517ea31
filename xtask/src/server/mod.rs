//! `cargo xtask bench server`: the server beside its peers, over real sockets.
//!
//! | room | holds |
//! |---|---|
//! | `options` | what it is told |
//! | `hosts` | the servers, each pinned to one core and stopped when dropped |
//! | `peers` | redis-server and its script, throttlecrab-server: how they are had, and where any peer is |
//! | `clients` | who asks: redis-benchmark, h2load, and `tidegate-load` |
//! | `rows` | who is asked what, and by whom |
//! | `measure` | interleaved rounds, and what they come to |
//! | `report` | text and JSON |
//! | `gateway` | `cargo xtask bench gateway`, by the same servers and clients |
//! | `dynamodb` | `cargo xtask bench dynamodb`, by the same hosts |
//!
//! Servers run on the first core and clients on the last: what is compared is
//! what one core of each server does, and its CPU time for each decision.

mod clients;
pub mod dynamodb;
pub mod gateway;
mod hosts;
mod measure;
mod options;
pub mod peers;
mod report;
mod rows;

pub use options::HELP;
use options::Options;
pub use rows::built;

/// Runs the rows that are wanted, prints them, and writes JSON if asked.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let Some(options) = Options::parse(arguments)? else {
        println!("{}", options::HELP);
        return Ok(());
    };
    let bench = rows::Bench::prepare(&options)?;
    let mut results = Vec::new();
    for row in rows::ROWS.iter().filter(|row| options.wants(row.name)) {
        println!("\n=== {}: {}", row.name, row.purpose);
        let result = (row.run)(&bench)?;
        result.iter().for_each(|one| println!("{}", one.text()));
        results.extend(result);
    }
    let report = report::Report::new(&options, results);
    println!("\n{}", report.text());
    match &options.json {
        Some(path) => report.write(path),
        None => Ok(()),
    }
}
