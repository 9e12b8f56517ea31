//! The ways of a decision, counted from the code.
//!
//! | file | knows |
//! |---|---|
//! | `checkout` | a commit, in a folder of its own while it is counted |
//! | `lines` | how much code that is not a test |
//! | `passed` | which functions a decision passes, run by run |
//! | `callgrind` | what valgrind has counted |
//! | `lua` | what a Redis server has counted |
//! | `calls` | how often functions were entered |
//! | `table` | the distinct ways to decide a take, by name |

mod callgrind;
mod calls;
mod lines;
mod lua;
mod passed;
mod table;

use std::collections::BTreeSet;

use crate::checkout::Checkout;
use calls::Function;
use passed::Decision;

pub const HELP: &str = "\
cargo xtask ways [--at COMMIT]... [--names]

Counts, from the code of each COMMIT (HEAD, if none is named; what is not committed is not
looked at):

  functions, files   Those of ours that every decision enters, by the library's verbs on one
                     key: one `check` of one limit, and one `try_acquire` of three limits with
                     its `settle`, on memory and on a real Redis server. A small program makes
                     50 and then 100 of them, built without optimisation, so that nothing is
                     inlined, under valgrind --tool=callgrind. A function counts if the second
                     run entered it at least 50 times more often than the first: what happens
                     once, at the start, or now and then, drops out. A closure or the body of
                     an async function is part of the function that it stands in, and a generic
                     one is one function. What Redis itself runs is counted the same way: each
                     named function of the Lua files, and each file that is a function by
                     itself, counts its calls in the server.
  ways               Distinct ways to decide a take. A way is a function that some takes pass
                     and others do not, from which on code of its own leads to the charge: a
                     method by which the library asks a table, a fast path, a queue's own
                     offer, a store's own decision. They stand by name in
                     xtask/src/ways/table.rs; one is there if its text is in its file.
  lines              Lines of Rust, Lua and SQL that are neither blank, a comment nor a test,
                     of what is shipped: all but proof, xtask, examples; the last row without
                     the rooms that came later (client, llm, gateway, python), so that it can
                     be compared.

--names   also prints which functions and which ways these are

Needs valgrind and redis-server. A few minutes for each commit.
";

/// What is counted of one commit.
struct Counts {
    name: String,
    passed: Vec<BTreeSet<Function>>,
    ways: Vec<(&'static str, Vec<&'static str>)>,
    lines: Vec<(&'static str, usize)>,
}

/// `cargo xtask ways`.
pub fn run(arguments: &[String]) -> Result<(), String> {
    if arguments == ["--help"] {
        print!("{HELP}");
        return Ok(());
    }
    let (commits, names) = parse(arguments)?;
    let counts = commits
        .iter()
        .map(|commit| count(commit))
        .collect::<Result<Vec<_>, _>>()?;
    if names {
        counts.iter().for_each(list);
    }
    print(&counts);
    Ok(())
}

fn parse(arguments: &[String]) -> Result<(Vec<String>, bool), String> {
    let (mut commits, mut names) = (Vec::new(), false);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--at" => commits.push(rest.next().ok_or(HELP)?.clone()),
            "--names" => names = true,
            _ => return Err(HELP.to_owned()),
        }
    }
    if commits.is_empty() {
        commits.push("HEAD".to_owned());
    }
    Ok((commits, names))
}

fn count(commit: &str) -> Result<Counts, String> {
    let checkout = Checkout::of(commit)?;
    Ok(Counts {
        lines: lines::of(checkout.folder())?,
        ways: table::of(checkout.folder()),
        // Last: it writes into the Lua files.
        passed: passed::of(&checkout)?,
        name: checkout.name().to_owned(),
    })
}

fn list(counts: &Counts) {
    for (decision, functions) in passed::DECISIONS.iter().zip(&counts.passed) {
        println!("\n{}: {}", counts.name, decision.name);
        functions
            .iter()
            .for_each(|function| println!("  {}  {}", function.file, function.name));
    }
    for (place, ways) in &counts.ways {
        println!("\n{}: ways, {place}", counts.name);
        ways.iter().for_each(|way| println!("  {way}"));
    }
}

fn print(all: &[Counts]) {
    let row = |name: &str, cells: &mut dyn Iterator<Item = String>| {
        let cells = cells.map(|cell| format!("{cell:>12}"));
        println!("{name:<44}{}", cells.collect::<String>());
    };
    println!();
    row("", &mut all.iter().map(|counts| counts.name.clone()));
    for (at, Decision { name, .. }) in passed::DECISIONS.iter().enumerate() {
        let functions = |counts: &Counts| counts.passed[at].len().to_string();
        let files = |counts: &Counts| {
            let files: BTreeSet<_> = counts.passed[at].iter().map(|f| &f.file).collect();
            files.len().to_string()
        };
        row(
            &format!("{name}: functions"),
            &mut all.iter().map(functions),
        );
        row(&format!("{name}: files"), &mut all.iter().map(files));
    }
    let ways = |counts: &Counts| {
        let all = counts.ways.iter().map(|(_, ways)| ways.len());
        all.sum::<usize>().to_string()
    };
    for (at, place) in table::PLACES.iter().enumerate() {
        let of_place = |counts: &Counts| counts.ways[at].1.len().to_string();
        row(
            &format!("ways to decide a take: {place}"),
            &mut all.iter().map(of_place),
        );
    }
    row("ways to decide a take", &mut all.iter().map(ways));
    for (at, (part, _)) in all[0].lines.iter().enumerate() {
        let of_part = |counts: &Counts| counts.lines[at].1.to_string();
        row(&format!("lines: {part}"), &mut all.iter().map(of_part));
    }
    let lines = |of: fn(&str) -> bool| {
        move |counts: &Counts| {
            let parts = counts.lines.iter().filter(|(part, _)| of(part));
            parts.map(|(_, lines)| lines).sum::<usize>().to_string()
        }
    };
    row("lines", &mut all.iter().map(lines(|_| true)));
    row(
        "lines in the rooms that were first",
        &mut all.iter().map(lines(lines::is_of_the_first)),
    );
}
