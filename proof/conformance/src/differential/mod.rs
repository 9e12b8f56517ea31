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
//! | `lists` | what is listed and counted, compared |
//! | `shrink` | a script that fails, made short |
//!
//! The reference runs the contract's own decision loop; what that loop must
//! answer is the business of the [walk](crate::walk) and of the core's laws.

mod generate;
mod lists;
mod plans;
mod reference;
mod run;
mod script;
mod shrink;
mod verbs;

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::Subject;
use run::Difference;
use script::Script;

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
    if subject.abilities().own_clock {
        println!("no differential test: the store reads a clock of its own");
        return 0;
    }
    let (mut asked, mut seed) = (0, seed);
    while asked < commands {
        let script = generate::script(seed, STEPS);
        if let Err(difference) = outcome(subject, &script) {
            panic!("{}", report(subject, seed, script, &difference));
        }
        asked += script.commands();
        seed = seed.wrapping_add(1);
    }
    asked
}

/// As [`run::play`]; a panic is a difference too.
fn outcome(subject: &Subject, script: &Script) -> Result<(), Difference> {
    let played = catch_unwind(AssertUnwindSafe(|| run::play(subject, script)));
    played.unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("panicked: {}", words.unwrap_or("without words")))
    })
}

fn report(subject: &Subject, seed: u64, script: Script, first: &str) -> String {
    let fails = |script: &Script| (0..TRIES).find_map(|_| outcome(subject, script).err());
    let script = shrink::shrink(script, |script| fails(script).is_some());
    let difference = fails(&script).unwrap_or_else(|| first.to_owned());
    format!("store and reference differ (seed {seed})\n{script}  {difference}")
}
