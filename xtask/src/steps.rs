//! Steps with a heading and a time, stopping at the first that fails.

use std::time::{Duration, Instant};

/// A named piece of work.
pub struct Step {
    pub name: &'static str,
    /// Why it is there, in a few words.
    pub purpose: &'static str,
    pub run: fn() -> Result<(), String>,
}

/// Which of the steps to run.
#[derive(Default)]
pub struct Choice {
    from: Option<String>,
    only: Option<String>,
    list: bool,
}

impl Choice {
    /// From `--from STEP`, `--only STEP` and `--list`.
    pub fn parse(arguments: &[String]) -> Result<Choice, String> {
        let mut choice = Choice::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--list" => choice.list = true,
                "--from" => choice.from = arguments.next().cloned(),
                "--only" => choice.only = arguments.next().cloned(),
                other => return Err(format!("unknown argument {other}")),
            }
        }
        Ok(choice)
    }

    fn pick<'a>(&self, steps: &'a [Step]) -> Result<Vec<&'a Step>, String> {
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
        steps
            .iter()
            .for_each(|step| println!("{:<14} {}", step.name, step.purpose));
        return Ok(());
    }
    let mut times = Vec::new();
    for step in choice.pick(steps)? {
        times.push((step.name, one(step)?));
    }
    summarise(&times);
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the length of a step is not a decision"
)]
fn one(step: &Step) -> Result<Duration, String> {
    println!("\n=== {}: {}", step.name, step.purpose);
    let start = Instant::now();
    (step.run)().map_err(|error| format!("\n=== {} FAILED\n{error}", step.name))?;
    let elapsed = start.elapsed();
    println!("=== {} passed in {}", step.name, seconds(elapsed));
    Ok(elapsed)
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
