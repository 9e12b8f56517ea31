//! Tidegate beside its peers.
//!
//! One binary, one run, contenders in turns: on a machine that is never quite
//! quiet only the ratio inside a round means anything. See `RESULTS.md` for what
//! was measured and `--help` for the arguments.
//!
//! Each row prints as `NAME ours_ns theirs_ns ratio min max`.

mod allocator;
mod floor;
mod keys;
mod measure;
mod options;
mod ours;
mod peers;
mod quota;
mod report;
mod rows;

use options::Options;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: allocator::Counting = allocator::Counting;

fn main() -> ExitCode {
    match Options::parse(std::env::args().skip(1)) {
        Ok(options) if options.list => {
            rows::list();
            ExitCode::SUCCESS
        }
        Ok(options) => run(&options),
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> ExitCode {
    let mut report = report::Report::default();
    println!("NAME ours_ns theirs_ns ratio min max");
    rows::run(options, &mut report);
    match report.write_json(&options.json) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot write {}: {error}", options.json.display());
            ExitCode::FAILURE
        }
    }
}
