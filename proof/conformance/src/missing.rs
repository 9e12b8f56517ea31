//! What this machine lacks, and the tests that are skipped for it.

use std::io::Write;

/// Says that the test is skipped, and why; unless what is missing must be there, as in
/// CI: `required` is the variable of the environment that says so.
///
/// It says so to standard error itself. What a test prints by `println!` or `eprintln!`
/// is shown only if the test fails, and one that is skipped passes.
///
/// # Panics
/// If it must be there.
pub fn skip(why: &str, required: &str) {
    let is_required = std::env::var_os(required).is_some();
    assert!(!is_required, "{why}, and {required} is set");
    let test = std::thread::current();
    let test = test.name().unwrap_or("a test");
    // One write, so that the lines of several tests stay whole.
    let line = format!("skipped {test}: {why}\n");
    // Nobody may be there to read it.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
