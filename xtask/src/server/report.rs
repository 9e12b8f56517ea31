//! What is told in the end: text, and JSON with every figure of every round.

use std::path::Path;

use super::measure::Outcome;
use super::options::Options;
use crate::command::{output, program};

pub struct Report {
    machine: Vec<(&'static str, String)>,
    outcomes: Vec<Outcome>,
}

impl Report {
    pub fn new(options: &Options, outcomes: Vec<Outcome>) -> Self {
        let file = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let cpu = file("/proc/cpuinfo");
        let model = cpu.lines().find(|line| line.starts_with("model name"));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let machine = vec![
            ("cores", cores.to_string()),
            (
                "cpu",
                model
                    .and_then(|line| line.split(": ").nth(1))
                    .unwrap_or("unknown")
                    .to_owned(),
            ),
            ("load", file("/proc/loadavg").trim().to_owned()),
            (
                "redis",
                output(program("redis-server").arg("--version"))
                    .unwrap_or_default()
                    .trim()
                    .to_owned(),
            ),
            ("store", options.store.clone()),
            ("rounds", options.rounds.to_string()),
            ("seconds", options.seconds.to_string()),
        ];
        Self { machine, outcomes }
    }

    pub fn text(&self) -> String {
        let machine = self
            .machine
            .iter()
            .map(|(name, what)| format!("{name:<14} {what}\n"));
        let lines = self.outcomes.iter().map(|one| one.text() + "\n");
        let note = "\nrate x: our rate over theirs; CPU x: their CPU time an answer over ours; \
                    median (least-most) of interleaved rounds\n";
        machine.chain([note.to_owned()]).chain(lines).collect()
    }

    pub fn write(&self, path: &Path) -> Result<(), String> {
        let machine = self
            .machine
            .iter()
            .map(|(name, what)| format!("{}:{}", quote(name), quote(what)));
        let machine: Vec<_> = machine.collect();
        let rows: Vec<_> = self.outcomes.iter().map(json).collect();
        let text = format!(
            "{{{},\n\"rows\":[\n{}\n]}}\n",
            machine.join(","),
            rows.join(",\n")
        );
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
    }
}

fn json(one: &Outcome) -> String {
    let latency = one
        .latency_us
        .iter()
        .map(|all| list(all))
        .collect::<Vec<_>>()
        .join(",");
    let other = one.other.map_or("null".to_owned(), |(number, unit)| {
        format!(
            "{{\"value\":{},\"unit\":{}}}",
            number_of(number),
            quote(unit)
        )
    });
    format!(
        "{{\"row\":{},\"what\":{},\"rates\":{},\"cpu_ns\":{},\"rate_ratios\":{},\"cpu_ratios\":{},\
         \"half\":{},\"latency_us\":[{latency}],\"other\":{other}}}",
        quote(one.row),
        quote(one.what),
        list(&one.rates),
        list(&one.cpu_ns),
        list(&one.rate_ratios),
        list(&one.cpu_ratios),
        number_of(one.half),
    )
}

fn list(numbers: &[f64]) -> String {
    let numbers: Vec<_> = numbers.iter().map(|number| number_of(*number)).collect();
    format!("[{}]", numbers.join(","))
}

/// JSON has no word for what is no number.
fn number_of(number: f64) -> String {
    match number.is_finite() {
        true => number.to_string(),
        false => "null".to_owned(),
    }
}

fn quote(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", escaped.replace(|c: char| c.is_control(), " "))
}
