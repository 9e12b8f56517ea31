//! Random commands on a store and on a plain reference: every answer compared.
//!
//! | room | holds |
//! |---|---|
//! | `plans` | limits as data: all kernels, levels, payments, calendars, changes |
//! | `script` | what is done, as data that can be printed |
//! | `verbs` | the verb of a table that a step is |
//! | `generate` | scripts at random |
//! | `reference` | what a table must answer: ordered maps and the reference |
//! | `run` | a script played to both |
//! | `turns` | who asks the table next, of two |
//! | `lists` | what is listed and counted, compared |
//! | `shrink` | a script that fails, made short |
//!
//! The reference runs `store`'s own decision loop; what that loop must
//! answer is the business of the [walk](crate::walk) and of the core's laws.

mod generate;
mod lists;
mod plans;
mod reference;
mod run;
mod script;
mod shrink;
mod turns;
mod verbs;

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::Subject;
use reference::Difference;
use script::Script;

pub use turns::{OtherProcess, Players};

/// How many steps a script has: enough to fill limits and to see leases out.
const STEPS: usize = 250;

/// How often a script that failed is tried again: where a store keeps a key may
/// be a matter of chance.
const TRIES: usize = 100;

/// Plays scripts of consecutive seeds from `seed` on, until at least so many
/// `commands` were sent; answers how many were.
///
/// A store that decides by a clock of its own cannot be compared so: it is
/// skipped, and nothing is sent.
///
/// # Panics
/// At the first difference, with the seed and the shortest script found.
pub fn differential(subject: &Subject, seed: u64, commands: usize) -> usize {
    differential_by(&mut Players::One, subject, (seed, commands))
}

/// As [`differential`], asked by these players.
///
/// # Panics
/// As [`differential`].
pub fn differential_by(
    players: &mut Players,
    subject: &Subject,
    (mut seed, commands): (u64, usize),
) -> usize {
    if subject.abilities().own_clock {
        println!("no differential test: the store reads a clock of its own");
        return 0;
    }
    let mut asked = 0;
    while asked < commands {
        let script = generate::script(seed, STEPS);
        if let Err(difference) = outcome(subject, &script, players) {
            let mut again = players.of_this_process();
            panic!(
                "{}",
                report(&mut again, subject, (seed, script), difference)
            );
        }
        asked += script.commands();
        seed = seed.wrapping_add(1);
    }
    asked
}

/// As [`run::play`]; a panic is a difference too.
fn outcome(subject: &Subject, script: &Script, players: &mut Players) -> Result<(), Difference> {
    let played = catch_unwind(AssertUnwindSafe(|| run::play(subject, script, players)));
    played.unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("panicked: {}", words.unwrap_or("without words")))
    })
}

/// The script made short by `players`, if they find a difference, too; else as it is.
fn report(
    players: &mut Players,
    subject: &Subject,
    (seed, script): (u64, Script),
    first: Difference,
) -> String {
    let mut fails = |script: &Script| {
        let mut tries = (0..TRIES).map(|_| outcome(subject, script, players));
        tries.find_map(Result::err)
    };
    let (script, difference) = match fails(&script) {
        None => (script, first),
        Some(_) => {
            let short = shrink::shrink(script, |script| fails(script).is_some());
            let difference = fails(&short);
            (short, difference.unwrap_or(first))
        }
    };
    format!("store and reference differ (seed {seed})\n{script}  {difference}")
}
