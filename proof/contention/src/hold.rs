//! A holder that can be stopped and killed. It is told what to do on its input, a
//! word a line, and says on its output what came of it.

use std::time::Duration;

use tidegate::Clock;
use tidegate::lock::{LeasedPermit, LeasedSemaphore};
use tidegate_conformance::Register;

use crate::common::{Slots, Trouble};

/// Does with a permit what it is told
#[derive(Debug, clap::Args)]
pub struct Options {
    #[command(flatten)]
    slots: Slots,
}

pub fn run(options: &Options) -> Result<(), Trouble> {
    let gpus = options.slots.semaphore()?;
    let mut held = None;
    for line in std::io::stdin().lines() {
        println!("{}", obey(&line?, &gpus, &mut held, &options.slots.store)?);
    }
    Ok(())
}

fn obey(
    line: &str,
    gpus: &LeasedSemaphore,
    held: &mut Option<LeasedPermit>,
    store: &str,
) -> Result<String, Trouble> {
    let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
    let permit = || held.as_ref().ok_or("it holds nothing");
    Ok(match verb {
        "acquire" => {
            let permit = gpus.acquire_within(Duration::MAX).wait()?;
            let permit = permit.ok_or("it waits for as long as it takes")?;
            held.insert(permit).fence().to_string()
        }
        "sure" => permit()?.is_held().to_string(),
        "write" => register(store).write(permit()?.fence(), rest).to_string(),
        "lost" => format!("{:?}", permit()?.lost().wait()),
        "time" => Clock::system().now().as_micros().to_string(),
        "release" => format!("{:?}", held.take().map(|permit| permit.release().wait())),
        other => return Err(format!("`{other}` is no word for a holder").into()),
    })
}

/// In the same database, without what only a store is told.
fn register(store: &str) -> Register {
    let (url, _) = store.split_once('?').unwrap_or((store, ""));
    Register::of(url)
}
