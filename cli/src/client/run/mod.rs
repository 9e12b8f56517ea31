//! `tidegate run`: a command that runs while a lease is held.
//!
//! | room | holds |
//! |---|---|
//! | `args` | what it is told |
//! | `leases` | where leases come from: a server |
//! | `direct` | or a store that is asked without one |
//! | `signals` | what we are sent, and whether the command got it, too |
//! | `child` | the command, and the lease that is renewed while it runs |
//!
//! Nothing has to be undone if we are killed: the lease expires by itself.

mod args;
mod child;
mod direct;
mod leases;
mod signals;

use std::process::ExitCode;

use super::exit::{Exit, Outcome, Stop};
use super::server::runtime;
use child::Status;
use direct::Direct;
use leases::{Held, Leases, Remote};
use signals::Signals;

pub use args::Run;

/// What is added to a code of the common table when the command did not run.
const OWN: u8 = 120;

/// Acquires, runs, releases; answers with the command's status.
pub fn perform(run: &Run) -> ExitCode {
    let done = runtime().and_then(|runtime| {
        // Before anything is held: a signal from here on is waited for.
        let mut signals = Signals::catch()?;
        let done = runtime.block_on(hold(run, &mut signals));
        // Nobody waits for a store that hangs when all is done.
        runtime.shutdown_background();
        done
    });
    match done {
        Ok(status) => ExitCode::from(status.code()),
        Err(stop) => {
            eprintln!("tidegate run: {stop}");
            ExitCode::from(own_code(stop.exit))
        }
    }
}

/// A command line that makes no sense is 2 everywhere; what else keeps the
/// command from running has a code that commands seldom use.
fn own_code(exit: Exit) -> u8 {
    match exit {
        Exit::Usage => Exit::Usage as u8,
        Exit::Gone => OWN + Exit::Failed as u8,
        exit => OWN + exit as u8,
    }
}

async fn hold(run: &Run, signals: &mut Signals) -> Outcome<Status> {
    match &run.store {
        Some(url) => hold_by(&Direct::new(run, url)?, run, signals).await,
        None => hold_by(&Remote::new(run)?, run, signals).await,
    }
}

async fn hold_by(leases: &impl Leases, run: &Run, signals: &mut Signals) -> Outcome<Status> {
    let acquired = tokio::select! {
        held = leases.acquire() => held.map_err(Err),
        // Whoever stops waiting is answered by nobody.
        Some(signal) = signals.next() => Err(Ok(Status::Signalled(signal.number))),
    };
    let held = match acquired {
        Ok(held) => held,
        Err(ended) => {
            leases.given_up().await;
            return ended;
        }
    };
    let ran = child::run(run, leases, &held, signals).await;
    give_back(leases, &held, &ran).await;
    ran
}

/// Ends the lease. What did not start took nothing.
async fn give_back(leases: &impl Leases, held: &Held, ran: &Outcome<Status>) {
    let started = !matches!(ran, Ok(Status::NotFound | Status::NotRunnable));
    if let Err(Stop { message, .. }) = leases.end(held, started).await {
        eprintln!("tidegate run: the lease could not be released: {message}");
    }
}
