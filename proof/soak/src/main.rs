//! Puts the load on, and says what came of it: `cargo xtask soak`.

use std::process::ExitCode;

use clap::Parser;
use tidegate::Clock;
use tidegate_soak::{Options, Outcome, draw, run};

/// The machine did not keep up with the load.
const BEHIND: u8 = 2;

fn main() -> ExitCode {
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) => {
            // Nobody to tell it to.
            let _ = error.print();
            return ExitCode::from(u8::from(error.use_stderr()));
        }
    };
    match soak(&options) {
        Ok(outcome) => verdict(&options, &outcome),
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn soak(options: &Options) -> Result<Outcome, String> {
    if let Some(path) = options.file().filter(|path| path.exists()) {
        let path = path.display();
        return Err(format!(
            "{path} is there already; name a file that is not, so that only this load is in it"
        ));
    }
    let is_near = ["memory:", "file:"].map(|scheme| options.store.starts_with(scheme));
    if is_near == [false; 2] {
        return Err(format!(
            "`{}` is not in this process; write memory: or file:PATH",
            options.store
        ));
    }
    let opened = tidegate_url::open(&options.store).map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
    let outcome = runtime.block_on(run(options, &opened.store, &Clock::system()))?;
    opened.flush().map_err(|error| error.to_string())?;
    Ok(outcome)
}

fn verdict(options: &Options, outcome: &Outcome) -> ExitCode {
    println!("{}\n\n{outcome}", options.store);
    if let Some(path) = &options.picture {
        let picture = draw(&format!("soak, {}", options.store), &outcome.samples);
        if let Err(error) = std::fs::write(path, picture) {
            eprintln!("{}: {error}", path.display());
            return ExitCode::FAILURE;
        }
    }
    match (outcome.holds(), outcome.fell_behind()) {
        (false, _) => {
            println!("it does not hold");
            ExitCode::FAILURE
        }
        (true, true) => {
            println!(
                "this machine does not keep up with {} acquire + settle a second: \
                 nothing was wrong with those there were; try a lower --rate",
                options.rate
            );
            ExitCode::from(BEHIND)
        }
        (true, false) => {
            println!("it holds");
            ExitCode::SUCCESS
        }
    }
}
