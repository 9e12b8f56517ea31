//! The table: which cells there are, what became of each, and the page.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use crate::house::House;
use crate::question::{Cell, Question, Report, Results, cell};
use crate::questions::QUESTIONS;
use crate::stores::STORES;

/// Cells known to fail: see the file's head.
const OPEN: &str = include_str!("open.txt");

/// All cells that there are.
#[must_use]
pub fn cells() -> BTreeSet<Cell> {
    let mut cells = BTreeSet::new();
    for question in QUESTIONS {
        for store in STORES {
            let rows = question.rows_of(store).into_iter();
            cells.extend(rows.map(|row| cell(question, &row, store)));
        }
    }
    cells
}

/// Asks every question of every store, the stores at once; those that `TIDEGATE_FLEET`
/// names alone, if it is set (`redis` or `woken` or both, with a blank between).
///
/// A store that this machine lacks has no results.
#[must_use]
pub fn run(program: &Path) -> Results {
    let results = Mutex::new(Results::new());
    let wanted = std::env::var("TIDEGATE_FLEET").unwrap_or_default();
    let wanted: Vec<_> = wanted.split_whitespace().collect();
    let named = |name: &str, all: &mut dyn Iterator<Item = &'static str>| {
        let mut all = all.filter(|one| wanted.contains(one)).peekable();
        all.peek().is_none() || all.any(|one| one == name)
    };
    thread::scope(|scope| {
        for store in STORES {
            if !named(store.name, &mut STORES.iter().map(|store| store.name)) {
                continue;
            }
            let asked = QUESTIONS
                .iter()
                .filter(|question| !question.rows_of(store).is_empty());
            let asked = asked
                .filter(|question| named(question.name, &mut QUESTIONS.iter().map(|q| q.name)));
            let (asked, results): (Vec<_>, _) = (asked.collect(), &results);
            scope.spawn(move || {
                if let Some(house) = House::open(*store, program.to_owned()) {
                    asked
                        .into_iter()
                        .for_each(|question| ask(question, &house, results));
                }
            });
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner)
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long it took is told, and nothing else depends on it"
)]
fn ask(question: &Question, house: &House, results: &Mutex<Results>) {
    let (store, begun) = (&house.store, Instant::now());
    let report = Report {
        question,
        store,
        results,
    };
    let why = (question.ask)(house, &report).err();
    let why = why.unwrap_or_else(|| "it was not asked".to_owned());
    for row in question
        .rows_of(store)
        .iter()
        .filter(|row| report.lacks(row))
    {
        report.note(row.protocol, row.case, Err(why.clone()));
    }
    eprintln!("{}, {}: {:.0?}", store.name, question.name, begun.elapsed());
}

/// The cells that are known to fail, and why.
///
/// # Panics
/// If a line of the list is none.
#[must_use]
pub fn open() -> BTreeMap<Cell, String> {
    let mut open = BTreeMap::new();
    let lines = OPEN
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    for line in lines {
        let parts: Vec<_> = line.split('|').map(str::trim).collect();
        let [question, protocols, cases, stores, why] = parts[..] else {
            panic!("open.txt: not `question | protocols | cases | stores | why`: {line}");
        };
        let each = |list: &'static str| list.split(',').map(str::trim);
        for protocol in each(protocols) {
            for case in cases.split(';').map(str::trim) {
                for store in each(stores) {
                    let [question, protocol, case, store] =
                        [question, protocol, case, store].map(str::to_owned);
                    let cell = Cell {
                        question,
                        protocol,
                        case,
                        store,
                    };
                    open.insert(cell, why.to_owned());
                }
            }
        }
    }
    open
}

/// The page, with the cells that fail by `fails`.
#[must_use]
pub fn page(fails: impl Fn(&Cell) -> bool) -> String {
    let mut page = String::from(
        "# Two servers on one store\n\n\
         The verbs of every protocol, asked of real servers, two at a time on one store (one on\n\
         memory and on a file); `tests/verbs.rs` has those that have no row, with the reason.\n\
         `cargo xtask fleet` writes this page, and a test holds it against `src/open.txt`. A cell\n\
         has more time than its question says, since other tests run beside it: `cargo xtask paused`\n\
         measures how long answers take.\n\n\
         - ● holds\n- ○ open: known to fail, and in `src/open.txt` with the reason\n\
         - · not asked: it takes two servers, or a store that can be paused\n",
    );
    let cells = cells();
    let count = cells.iter().filter(|cell| fails(cell)).count();
    let _ = write!(page, "\n{} cells, {count} of them open.\n", cells.len());
    for question in QUESTIONS {
        let _ = write!(
            page,
            "\n## {}\n\n{}\n\n| |",
            title(question.name),
            question.holds
        );
        for store in STORES {
            let _ = write!(page, " {} |", store.name);
        }
        let _ = write!(page, "\n|---|{}\n", ":-:|".repeat(STORES.len()));
        for row in (question.rows)() {
            let _ = write!(page, "| {} {} |", row.protocol, row.case);
            for store in STORES {
                let cell = cell(question, &row, store);
                let mark = match (cells.contains(&cell), fails(&cell)) {
                    (false, _) => "·",
                    (true, false) => "●",
                    (true, true) => "○",
                };
                let _ = write!(page, " {mark} |");
            }
            page.push('\n');
        }
    }
    page
}

fn title(name: &str) -> String {
    let (first, rest) = name.split_at(1);
    format!("{}{rest}", first.to_uppercase())
}
