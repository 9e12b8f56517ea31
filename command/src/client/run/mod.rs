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
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::exit::{Exit, Outcome, Stop};
use super::server::{PATIENCE, runtime};
use child::Status;
use direct::Direct;
use leases::{Held, LONGEST_PAUSE, Leases, Remote};
use signals::Signals;

pub use args::Run;

/// What is added to a code of the common table when the command did not run.
const OWN: u8 = 120;

/// The pause before an end that was not answered is asked for again; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// That it is asked for again is said from this pause on.
const TOLD_FROM: Duration = Duration::from_millis(200);

/// An end has at least so long to be answered.
const LEAST_TRY: Duration = Duration::from_secs(1);

/// For so long a lease that was lost is ended: it may be there yet.
const LOST: Duration = Duration::from_secs(2);

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
    let (ran, is_lost) = child::run(run, leases, &held, signals).await;
    let started = !matches!(ran, Ok(Status::NotFound | Status::NotRunnable));
    // Whoever waits for the command is not to wait for a server or a store that hangs: the
    // lease expires by itself.
    let longest = run.ttl.min(if is_lost { LOST } else { PATIENCE });
    // What has ended the command was for the command.
    signals.forget();
    let given_back = give_back(leases, &held, started, longest, signals).await;
    // That it was lost was said.
    if let (Err(Stop { message, .. }), false) = (given_back, is_lost) {
        eprintln!("tidegate run: the lease could not be released: {message}");
    }
    ran
}

/// Ends the lease, and asks again for as long as there is no answer, or until a signal comes: an
/// end that was executed twice has ended it once. What did not start took nothing.
async fn give_back(
    leases: &impl Leases,
    held: &Held,
    started: bool,
    longest: Duration,
    signals: &mut Signals,
) -> Outcome<()> {
    let by = Instant::now() + longest;
    let one_try = (longest / 3).max(LEAST_TRY);
    let mut pause = FIRST_PAUSE;
    loop {
        let left = by.saturating_duration_since(Instant::now());
        let ended = leases.end(held, started, left.min(one_try)).await;
        let Err(stop) = ended else { return Ok(()) };
        // No limit refuses an end: then the store is busy.
        let may_pass = matches!(stop.exit, Exit::Failed | Exit::Refused);
        if !may_pass || Instant::now() + pause >= by {
            return Err(stop);
        }
        if pause == TOLD_FROM {
            let why = &stop.message;
            eprintln!("tidegate run: the lease is not released: {why}; trying again");
        }
        tokio::select! {
            () = sleep(pause) => {}
            Some(_) = signals.next() => return Err(stop),
        }
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}
