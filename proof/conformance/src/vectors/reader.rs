//! Tables from their text. What is not as the README says panics, with the place.

use tidegate_core::{
    Align, Amount, Bucket, Log, Ring, Rule, Slots, Span, Timestamp, Verdict, Window,
};

use super::table::{Deed, Step, Table};

/// The tables of one file called `name`.
pub(super) fn read(name: &str, text: &str) -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        let place = format!("{name}:{}", number + 1);
        match line.strip_prefix("limit ") {
            Some(words) => tables.push(table(words, &place)),
            None if line.is_empty() => {}
            None => {
                let table = tables.last_mut();
                let table = table.unwrap_or_else(|| panic!("{place}: a limit comes first"));
                add(table, line, place);
            }
        }
    }
    tables
}

fn table(words: &str, place: &str) -> Table {
    let word = |name: &str| {
        let mut pairs = words.split_whitespace().filter_map(|w| w.split_once('='));
        let found = pairs.find(|(known, _)| *known == name);
        found.unwrap_or_else(|| panic!("{place}: no {name}")).1
    };
    let number = |name: &str| amount(word(name), place);
    let span = |name: &str| Span::from_micros(number(name));
    let window = |align| Window::new(number("capacity"), align).map(Rule::Window);
    let few = |name: &str| u32::try_from(number(name)).expect("a small number");
    let rule = match word("kind") {
        "bucket" => {
            Bucket::new(number("amount"), span("period"), number("burst")).map(Rule::Bucket)
        }
        "window" => window(Align::Epoch(span("period"))),
        "first_use" => window(Align::FirstUse(span("period"))),
        "ring" => Ring::new(number("capacity"), span("window"), few("sub_windows")).map(Rule::Ring),
        "log" => Log::new(number("capacity"), span("window"), few("max_entries")).map(Rule::Log),
        "slots" => Slots::new(number("capacity"), span("ttl")).map(Rule::Slots),
        kind => panic!("{place}: {kind} is no kind of limit"),
    };
    Table {
        rule: rule.unwrap_or_else(|error| panic!("{place}: {error}")),
        postpaid: false,
        steps: Vec::new(),
    }
}

fn add(table: &mut Table, line: &str, place: String) {
    let words: Vec<_> = line.split_whitespace().collect();
    let [at, verb, given, answer, remaining, debt] = words[..] else {
        panic!("{place}: six words make a step");
    };
    let (verb, earlier) = verb.split_once('=').unwrap_or((verb, "0"));
    let earlier = || {
        let number = amount(earlier, &place) as usize;
        let known = (1..=table.steps.len()).contains(&number);
        assert!(known, "{place}: there is no step {number} before this one");
        number - 1
    };
    let given = amount(given, &place);
    let deed = match verb {
        "ask" | "post" => Deed::Request(given),
        "peek" => Deed::Peek(given),
        "charge" => Deed::Charge(given),
        "refund" => Deed::Refund(earlier(), given),
        "release" => Deed::Release(earlier()),
        verb => panic!("{place}: {verb} is no verb"),
    };
    let asks = table
        .steps
        .iter()
        .any(|step| matches!(step.deed, Deed::Request(_)));
    let mixed = matches!(deed, Deed::Request(_)) && asks && table.postpaid != (verb == "post");
    assert!(!mixed, "{place}: a table asks, or posts");
    table.postpaid |= verb == "post";
    table.steps.push(Step {
        at: instant(at, &place),
        answer: verdict(answer, &place),
        remaining: amount(remaining, &place),
        debt: amount(debt, &place),
        deed,
        place,
    });
}

fn amount(word: &str, place: &str) -> Amount {
    let number = word.parse();
    number.unwrap_or_else(|_| panic!("{place}: {word} is no amount"))
}

fn instant(word: &str, place: &str) -> Timestamp {
    let micros = word.parse();
    Timestamp::from_micros(micros.unwrap_or_else(|_| panic!("{place}: {word} is no instant")))
}

fn verdict(word: &str, place: &str) -> Option<Verdict> {
    match (word, word.strip_prefix('@')) {
        ("-", _) => None,
        ("yes", _) => Some(Verdict::Admit),
        ("never", _) => Some(Verdict::Never),
        (_, Some(at)) => Some(Verdict::NotUntil(instant(at, place))),
        _ => panic!("{place}: {word} is no answer"),
    }
}
