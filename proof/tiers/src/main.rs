//! Histories, fleets at scale, and the course of one: `cargo xtask tiers`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use clap::Parser;
use tidegate_tier_fleets::ledger::SECOND;
use tidegate_tier_fleets::limits::Shape;
use tidegate_tier_fleets::report::{self, Seen};
use tidegate_tier_fleets::scale::Load;
use tidegate_tier_fleets::{history, picture, stranded, timeline};

/// Seeded histories of fleets that decide by grants, and fleets at scale, in virtual time.
#[derive(Parser, Debug)]
#[command(name = "cargo xtask tiers")]
struct Options {
    /// So many histories.
    #[arg(long, default_value_t = 100_000)]
    histories: u64,
    /// Fleets of so many nodes.
    #[arg(long, value_delimiter = ',', default_value = "2,10,100,1000,5000")]
    nodes: Vec<usize>,
    /// The kinds of limits are tried with so many nodes; 0: not.
    #[arg(long, default_value_t = 100)]
    kinds: usize,
    /// Draws the course of a fleet of 100 nodes here.
    #[arg(long)]
    svg: Option<PathBuf>,
}

fn main() -> ExitCode {
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) => {
            // Nobody to tell it to.
            let _ = error.print();
            return ExitCode::from(u8::from(error.use_stderr()));
        }
    };
    let is_held = [histories(&options), fleets(&options), kinds(&options)];
    if let Some(path) = &options.svg
        && let Err(error) = std::fs::write(path, picture::draw(&timeline::run(100)))
    {
        eprintln!("{}: {error}", path.display());
        return ExitCode::FAILURE;
    }
    match is_held == [true; 3] {
        true => ExitCode::SUCCESS,
        false => {
            println!("a bound was exceeded");
            ExitCode::FAILURE
        }
    }
}

/// On every processor some of them.
fn histories(options: &Options) -> bool {
    let threads = thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    let of = |first: u64| {
        let mut seen = Seen::default();
        for seed in (first..options.histories).step_by(threads as usize) {
            let told = history::run(seed);
            if let Some(broken) = told.nearest.iter().find(|(_, nearest)| !nearest.holds()) {
                println!("seed {seed}: {broken:?}");
            }
            seen.note(&told);
        }
        seen
    };
    let seen = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|first| scope.spawn(move || of(first)))
            .collect();
        let seen = threads.into_iter().filter_map(|thread| thread.join().ok());
        seen.fold(Seen::default(), Seen::with)
    });
    println!("{seen}");
    seen.holds() && seen.histories == options.histories
}

fn fleets(options: &Options) -> bool {
    println!("{}", report::HEAD);
    let mut is_held = true;
    for &nodes in &options.nodes {
        let (alike, skewed) = (Load::of(nodes).run(), Load::of(nodes).skewed().run());
        let (course, stranded) = (timeline::run(nodes), stranded::run(nodes));
        let used = (&alike, &skewed);
        println!("{}", report::row(nodes, used, &course, &stranded));
        is_held &= [alike.nearest, skewed.nearest, course.nearest]
            .iter()
            .all(|nearest| nearest.holds());
    }
    println!();
    is_held
}

fn kinds(options: &Options) -> bool {
    if options.kinds == 0 {
        return true;
    }
    println!("{}", report::HEAD_OF_KINDS);
    let mut is_held = true;
    for shape in [
        Shape::Fixed(SECOND),
        Shape::FirstUse(SECOND),
        Shape::Bucket(0),
        Shape::Sliding(SECOND),
        Shape::Log(SECOND),
    ] {
        let load = Load::of(options.kinds).counting(shape);
        let (alike, skewed) = (load.run(), load.skewed().run());
        println!("{}", report::row_of_kind(shape, &alike, &skewed));
        is_held &= alike.nearest.holds() && skewed.nearest.holds();
    }
    is_held
}
