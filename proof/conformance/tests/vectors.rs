//! The core against the tables of `proof/vectors`, whose README says how they
//! are read.

use std::fs;
use std::path::Path;

use tidegate::contract::core::{
    Align, Bucket, Log, Moment, Part, Payment, Place, Ring, Rule, Slots, Span, State, Tenure,
    Timestamp, Verdict, Window, commit, compose,
};

/// A table on its way: a limit, its state, and what its steps charged.
struct Table {
    rule: Rule,
    ttl: Span,
    state: State,
    charged: Vec<(Place, Tenure)>,
}

#[test]
fn every_vector_is_answered_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vectors");
    let mut steps = 0;
    for entry in fs::read_dir(folder).expect("the vectors") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|ending| ending == "txt") {
            steps += run(&path);
        }
    }
    assert!(steps >= 70, "only {steps} steps were found");
}

fn run(path: &Path) -> usize {
    let text = fs::read_to_string(path).expect("a readable table");
    let (mut table, mut steps) = (None, 0);
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        let place = format!("{}:{}", path.display(), number + 1);
        match line.strip_prefix("limit ") {
            Some(words) => table = Some(Table::new(words)),
            None if line.is_empty() => {}
            None => {
                table.as_mut().expect("a limit first").step(line, &place);
                steps += 1;
            }
        }
    }
    steps
}

impl Table {
    fn new(words: &str) -> Self {
        let word = |name: &str| {
            let mut pairs = words
                .split_whitespace()
                .filter_map(|word| word.split_once('='));
            let found = pairs.find(|(n, _)| *n == name);
            found.unwrap_or_else(|| panic!("no {name} in {words}")).1
        };
        let number = |name: &str| word(name).parse::<u64>().expect("a number");
        let span = |name: &str| Span::from_micros(number(name));
        let rule = match word("kind") {
            "bucket" => {
                Bucket::new(number("amount"), span("period"), number("burst")).map(Rule::Bucket)
            }
            "window" => {
                Window::new(number("capacity"), Align::Epoch(span("period"))).map(Rule::Window)
            }
            "first_use" => {
                Window::new(number("capacity"), Align::FirstUse(span("period"))).map(Rule::Window)
            }
            "ring" => {
                let sub_windows = number("sub_windows") as u32;
                Ring::new(number("capacity"), span("window"), sub_windows).map(Rule::Ring)
            }
            "log" => {
                let entries = number("max_entries") as u32;
                Log::new(number("capacity"), span("window"), entries).map(Rule::Log)
            }
            "slots" => Slots::new(number("capacity"), span("ttl")).map(Rule::Slots),
            kind => panic!("{kind} is no kind of limit"),
        };
        let rule = rule.expect("a sensible limit");
        let ttl = match &rule {
            Rule::Slots(slots) => slots.ttl(),
            _ => Span::ZERO,
        };
        Self {
            rule,
            ttl,
            state: State::Fresh,
            charged: Vec::new(),
        }
    }

    fn step(&mut self, line: &str, place: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [at, verb, amount, answer, remaining, debt] = words[..] else {
            panic!("{place}: six words make a step");
        };
        let number = |word: &str| word.parse::<u64>().expect("a number");
        let moment = Moment::at(Timestamp::from_micros(at.parse().expect("an instant")));
        let said = self.act(verb, number(amount), moment);
        assert_eq!(said, answer, "{place}: the answer");
        let standing = self.rule.standing(&self.state, &moment);
        assert_eq!(standing.remaining, number(remaining), "{place}: remaining");
        assert_eq!(standing.debt, number(debt), "{place}: debt");
    }

    fn act(&mut self, verb: &str, amount: u64, moment: Moment) -> String {
        let tenure = Tenure {
            id: self.charged.len() as u128,
            expires_at: moment.now + self.ttl,
        };
        let (verb, step) = verb.split_once('=').unwrap_or((verb, "0"));
        let earlier = |table: &Self| {
            let step: usize = step.parse().expect("a step");
            table.charged[step - 1]
        };
        let mut receipt = Place::default();
        let said = match verb {
            "ask" | "post" | "peek" => {
                let mut part = Part::new(&self.rule, &mut self.state, amount, moment);
                if verb == "post" {
                    part.payment = Payment::Postpaid;
                }
                let mut parts = [part];
                let verdict = compose(&mut parts).verdict;
                if verdict.admitted() && verb != "peek" {
                    commit(&mut parts, Some(tenure));
                    receipt = parts[0].receipt.place;
                }
                words(verdict)
            }
            "charge" => {
                let charge = self
                    .rule
                    .charge(&mut self.state, amount, &moment, Some(tenure));
                receipt = charge.place;
                "-".to_owned()
            }
            "refund" => {
                let (place, _) = earlier(self);
                self.rule.refund(&mut self.state, amount, place, &moment);
                "-".to_owned()
            }
            "release" => {
                let (_, tenure) = earlier(self);
                self.rule.release(&mut self.state, tenure, moment.now);
                "-".to_owned()
            }
            verb => panic!("{verb} is no verb"),
        };
        self.charged.push((receipt, tenure));
        said
    }
}

fn words(verdict: Verdict) -> String {
    match verdict {
        Verdict::Admit => "yes".to_owned(),
        Verdict::NotUntil(at) => format!("@{}", at.as_micros()),
        Verdict::Never => "never".to_owned(),
    }
}
