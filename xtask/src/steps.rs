//! Steps with a heading and a time, stopping at the first that fails.

use crate::command::{output, program, root};
use std::time::{Duration, Instant};

/// A named piece of work.
pub struct Step {
    pub name: &'static str,
    /// Why it is there, in a few words.
    pub purpose: &'static str,
    pub tier: Tier,
    pub run: Run,
}

pub type Run = fn() -> Result<(), String>;

/// Whether `--fast` runs a step: without servers, under five minutes once all is built.
pub enum Tier {
    Fast,
    /// This part of it is.
    Part(Run),
    Whole,
}

impl Step {
    /// What `--fast` runs, if anything.
    fn fast(&self) -> Option<Run> {
        match self.tier {
            Tier::Fast => Some(self.run),
            Tier::Part(run) => Some(run),
            Tier::Whole => None,
        }
    }

    fn line(&self) -> String {
        let tier = match self.tier {
            Tier::Fast => "fast",
            Tier::Part(_) => "part",
            Tier::Whole => "whole",
        };
        format!("{:<14} {tier:<6} {}", self.name, self.purpose)
    }
}

/// Which of the steps to run.
#[derive(Default)]
pub struct Choice {
    from: Option<String>,
    only: Option<String>,
    fast: bool,
    list: bool,
}

impl Choice {
    /// From `--from STEP`, `--only STEP`, `--fast` and `--list`.
    pub fn parse(arguments: &[String]) -> Result<Choice, String> {
        let mut choice = Choice::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--list" => choice.list = true,
                "--fast" => choice.fast = true,
                "--from" => choice.from = arguments.next().cloned(),
                "--only" => choice.only = arguments.next().cloned(),
                other => return Err(format!("unknown argument {other}")),
            }
        }
        Ok(choice)
    }

    /// The steps, each with what is to be run of it.
    fn pick<'a>(&self, steps: &'a [Step]) -> Result<Vec<(&'a Step, Run)>, String> {
        let chosen = self.named(steps)?.into_iter();
        let runs = chosen.filter_map(|step| match self.fast {
            true => Some((step, step.fast()?)),
            false => Some((step, step.run)),
        });
        let runs: Vec<_> = runs.collect();
        match runs.is_empty() {
            true => Err("--fast runs nothing of this; --list shows the tiers".to_owned()),
            false => Ok(runs),
        }
    }

    fn named<'a>(&self, steps: &'a [Step]) -> Result<Vec<&'a Step>, String> {
        let place = |name: &String| {
            let found = steps.iter().position(|step| step.name == name);
            found.ok_or_else(|| format!("no step is called {name}; --list shows them"))
        };
        if let Some(name) = &self.only {
            return Ok(vec![&steps[place(name)?]]);
        }
        let start = self.from.as_ref().map_or(Ok(0), place)?;
        Ok(steps[start..].iter().collect())
    }
}

/// Runs the chosen steps in order.
pub fn run(steps: &[Step], choice: &Choice) -> Result<(), String> {
    if choice.list {
        steps.iter().for_each(|step| println!("{}", step.line()));
        println!(
            "\n--fast runs what is fast, and of a part what needs no server; .ci/run the whole"
        );
        return Ok(());
    }
    let mut times = Vec::new();
    for (step, run) in choice.pick(steps)? {
        times.push((step.name, one(step, run)?));
    }
    summarise(&times);
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the length of a step is not a decision"
)]
fn one(step: &Step, run: Run) -> Result<Duration, String> {
    println!("\n=== {}: {}", step.name, step.purpose);
    let start = Instant::now();
    run().map_err(|error| format!("\n=== {} FAILED{}\n{error}", step.name, free()))?;
    let elapsed = start.elapsed();
    println!("=== {} passed in {}{}", step.name, seconds(elapsed), free());
    Ok(elapsed)
}

/// What is left of the disk, where `df` tells: all that a full one says of itself is that a
/// compiler could not write.
fn free() -> String {
    let said = output(program("df").arg("-Pk").arg(root()));
    let kibibytes = said.as_deref().and_then(available);
    kibibytes.map_or_else(String::new, |free| {
        format!(", {:.1} GiB of disk free", free as f64 / f64::from(1 << 20))
    })
}

/// The fourth column of the second line: POSIX says so of `df -P`.
fn available(said: &str) -> Option<u64> {
    said.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()
}

fn summarise(times: &[(&str, Duration)]) {
    println!("\n=== all passed");
    for (name, time) in times {
        println!("{name:<14} {:>9}", seconds(*time));
    }
    let total = times.iter().map(|(_, time)| *time).sum();
    println!("{:<14} {:>9}", "total", seconds(total));
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::{Choice, Step, Tier, available};

    const STEPS: &[Step] = &[
        Step {
            name: "short",
            purpose: "",
            tier: Tier::Fast,
            run: || Ok(()),
        },
        Step {
            name: "half",
            purpose: "",
            tier: Tier::Part(|| Err("the part".to_owned())),
            run: || Ok(()),
        },
        Step {
            name: "long",
            purpose: "",
            tier: Tier::Whole,
            run: || Ok(()),
        },
    ];

    fn chosen(arguments: &[&str]) -> Result<Vec<(&'static str, bool)>, String> {
        let arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
        let picked = Choice::parse(&arguments)?.pick(STEPS)?;
        let names = picked.iter().map(|(step, run)| (step.name, run().is_ok()));
        Ok(names.collect())
    }

    #[test]
    fn fast_leaves_out_what_is_long_and_runs_parts() {
        let whole = [("short", true), ("half", true), ("long", true)];
        assert_eq!(chosen(&[]).as_deref(), Ok(&whole[..]));
        let fast = [("short", true), ("half", false)];
        assert_eq!(chosen(&["--fast"]).as_deref(), Ok(&fast[..]));
        let from = ["--fast", "--from", "half"];
        assert_eq!(chosen(&from).as_deref(), Ok(&fast[1..]));
        assert!(chosen(&["--fast", "--only", "long"]).is_err());
        assert!(chosen(&["--only", "nothing"]).is_err());
    }

    #[test]
    fn the_free_disk_is_read_as_posix_prints_it() {
        let said = "Filesystem 1024-blocks Used Available Capacity Mounted on\n\
                    /dev/vda 264003568 67412236 27262976 72% /\n";
        assert_eq!(available(said), Some(27_262_976));
        assert_eq!(available("df: no such file\n"), None);
    }
}
