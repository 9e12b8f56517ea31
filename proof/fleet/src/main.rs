//! Runs the table: `cargo xtask fleet`; or `cargo xtask paused`.

use std::process::ExitCode;

use tidegate_fleet::{measured, program, table};

/// Where the page is.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/TABLE.md");

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.split_first() {
        None => run(),
        Some((paused, rest)) if paused == "paused" => measured::run(rest).map(|()| true),
        Some((other, _)) => Err(format!("there is no `{other}`; there is `paused`")),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all went as the list of open cells says.
fn run() -> Result<bool, String> {
    let program = program::program()?;
    let [first, beside] = program::pair(program.clone());
    println!("{}", first.display());
    if beside != first {
        println!("beside {}", beside.display());
    }
    let results = table::run(&program);
    let open = table::open();
    let mut as_known = true;
    for (cell, result) in &results {
        match (result, open.contains_key(cell)) {
            (Ok(()), false) => {}
            (Ok(()), true) => {
                as_known = false;
                println!("holds, and is in open.txt: {cell}");
            }
            (Err(why), is_open) => {
                as_known &= is_open;
                let how = if is_open { "open" } else { "FAILS" };
                println!("{how}: {cell}\n    {why}");
            }
        }
    }
    let failed = results.values().filter(|result| result.is_err()).count();
    println!("{} cells asked, {failed} fail", results.len());
    let is_whole = results.len() == table::cells().len();
    let is_named = |variable| std::env::var_os(variable).is_some();
    let is_own = ![program::NAMED, program::BESIDE].into_iter().any(is_named);
    let page = table::page(|cell| results.get(cell).is_some_and(Result::is_err));
    match is_whole && is_own {
        true => std::fs::write(PAGE, page).map_err(|error| format!("{PAGE}: {error}"))?,
        // Of another program, or in part: for its reader alone.
        false => println!("\n{page}"),
    }
    Ok(as_known)
}
