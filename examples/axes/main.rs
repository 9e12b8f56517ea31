//! The axes of an admission, a file for each; the same in Python and with curl beside them.
//!
//! ```sh
//! cargo run -p tidegate-examples --bin axes -- rate
//! ```

mod all_at_once;
mod concurrency;
mod cost;
mod debit;
mod forecast;
mod many;
mod rate;

use std::process::ExitCode;

fn main() -> ExitCode {
    let ran = match std::env::args().nth(1).as_deref() {
        Some("rate") => rate::run(),
        Some("cost") => cost::run(),
        Some("concurrency") => concurrency::run(),
        Some("all-at-once") => all_at_once::run(),
        Some("forecast") => forecast::run(),
        Some("debit") => debit::run(),
        Some("many") => many::run(),
        _ => {
            eprintln!("axes: rate, cost, concurrency, all-at-once, forecast, debit or many");
            return ExitCode::from(2);
        }
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
