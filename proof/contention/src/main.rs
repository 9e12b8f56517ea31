//! A process that tests start, stop and kill: one of several at one store, as a
//! program of somebody's is. It says on its output what it was granted.
//!
//! | room | what it does |
//! |---|---|
//! | `common` | what they have in common: the slots, the clock, the end of the input |
//! | `counted` | uses limits of which usage is counted, and tells what that came to |
//! | `contend` | takes what it can get of a hot key |
//! | `turns` | takes turns at one slot, in the store's line |
//! | `wait` | waits for a slot, until it is killed |
//! | `hold` | does with a permit what it is told on its input |
//! | `leave` | ends while it holds slots and stands in line |
//! | `lend` | gives out slots that it holds at the store |
//! | `spend` | spends grants of its tier, by a clock that may be wrong |
//! | `reacquire` | holds one of several slots, again and again |
//!
//! What goes on until the test has seen enough ends with its input.

mod common;
mod contend;
mod counted;
mod hold;
mod leave;
mod lend;
mod reacquire;
mod spend;
mod turns;
mod wait;

use clap::Parser;

use common::Trouble;

/// One of several processes at one store
#[derive(Debug, Parser)]
enum Options {
    Contend(contend::Options),
    Use(counted::Use),
    TellUse(counted::Tell),
    TakeTurns(turns::Options),
    Wait(wait::Options),
    Hold(hold::Options),
    Leave(leave::Options),
    Reacquire(reacquire::Options),
    Spend(spend::Options),
    Lend(lend::Options),
}

fn main() -> Result<(), Trouble> {
    match Options::parse() {
        Options::Contend(options) => contend::run(&options),
        Options::Use(options) => options.run(),
        Options::TellUse(options) => options.run(),
        Options::TakeTurns(options) => turns::run(&options),
        Options::Wait(options) => wait::run(&options),
        Options::Hold(options) => hold::run(&options),
        Options::Leave(options) => leave::run(&options),
        Options::Reacquire(options) => reacquire::run(&options),
        Options::Spend(options) => spend::run(&options),
        Options::Lend(options) => lend::run(&options),
    }
}
