//! The workspace's tests, several suites at a time: many of them wait for servers, timers and killed
//! processes for most of their time.

use std::collections::VecDeque;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::command::{cargo, root, show};
use crate::plan::{FEATURES, LONG_SUITES, SUITES_AT_ONCE};

/// Ports of tests: those that the suites of one lane choose from.
const PORTS: std::ops::Range<usize> = 20_000..30_000;

/// How long a suite may take; the longest takes three minutes.
const LONGEST: Duration = Duration::from_secs(1_200);

/// How often it is looked whether one has ended.
const GLANCE: Duration = Duration::from_millis(50);

/// How long a suite that has ended is still read from, while processes that it began hold its output.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// One program of tests.
#[derive(Debug, PartialEq, Eq)]
struct Suite {
    program: PathBuf,
    /// Where its package is: tests run there.
    folder: PathBuf,
}

/// How one went.
struct Ran {
    name: String,
    passed: bool,
    took: Duration,
    said: String,
}

/// Builds all tests of the workspace and runs them, and then those of the documentation, each as
/// `with` makes a command ready. One that fails stops no other: all that failed are named.
pub fn run(with: impl Fn(&mut Command) + Sync) -> Result<(), String> {
    let suites = build()?;
    let count = suites.len();
    let waiting = Mutex::new(VecDeque::from(suites));
    let done: Mutex<Vec<Ran>> = Mutex::default();
    let next = || lock(&waiting).pop_front();
    let lane = |lane: usize| {
        while let Some(suite) = next() {
            println!("--- {} begins", suite.name());
            let ran = suite.run(lane, &with);
            let mut done = lock(&done);
            print!("{}", ran.said);
            let (name, how) = (&ran.name, if ran.passed { "passed" } else { "FAILED" });
            println!(
                "--- {}/{count} {name} {how} in {:.1} s",
                done.len() + 1,
                ran.took.as_secs_f64()
            );
            done.push(ran);
        }
    };
    thread::scope(|scope| {
        for number in 0..SUITES_AT_ONCE {
            let lane = &lane;
            scope.spawn(move || lane(number));
        }
    });
    let mut documented = cargo(["test", "--workspace", "--no-fail-fast", "--doc"]);
    documented.args(["--features", FEATURES]);
    with(&mut documented);
    let documented = crate::command::run(&mut documented);
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|ran| std::cmp::Reverse(ran.took));
    println!("the longest suites:");
    for ran in done.iter().take(10) {
        println!("{:>7.1} s  {}", ran.took.as_secs_f64(), ran.name);
    }
    let failed: Vec<_> = done.iter().filter(|ran| !ran.passed).collect();
    match failed.is_empty() {
        true => documented,
        false => Err(failed
            .iter()
            .map(|ran| format!("failed: {}\n{}", ran.name, faults(&ran.said)))
            .collect::<String>()
            + &documented.err().unwrap_or_default()),
    }
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The names of tests that failed, as a suite prints them at its end.
fn faults(said: &str) -> String {
    let lines = said.lines().filter(|line| {
        line.starts_with("test ") && (line.ends_with("FAILED") || line.contains("FAILED"))
    });
    lines.map(|line| format!("  {line}\n")).collect()
}

/// Every program of tests, built, the longest first.
fn build() -> Result<Vec<Suite>, String> {
    let words = ["test", "--workspace", "--no-run", "--features", FEATURES];
    let mut build = cargo(words);
    build.arg("--message-format=json-render-diagnostics");
    println!("$ {}", show(&build));
    let built = build.stderr(Stdio::inherit()).output();
    let built = built.map_err(|error| format!("cannot run cargo: {error}"))?;
    if !built.status.success() {
        return Err("the tests do not build".to_owned());
    }
    let said = String::from_utf8_lossy(&built.stdout);
    let mut suites: Vec<_> = said.lines().filter_map(Suite::read).collect();
    suites.sort_by_key(|suite| {
        let place = LONG_SUITES.iter().position(|long| *long == suite.name());
        place.unwrap_or(LONG_SUITES.len())
    });
    match suites.is_empty() {
        true => Err("cargo built no tests".to_owned()),
        false => Ok(suites),
    }
}

impl Suite {
    /// What one line of cargo's messages says that was built, if it is a program of tests.
    fn read(line: &str) -> Option<Self> {
        let (_, profile) = line.split_once("\"profile\":{")?;
        let (profile, _) = profile.split_once('}')?;
        if !profile.contains("\"test\":true") {
            return None;
        }
        let manifest = PathBuf::from(text_of(line, "manifest_path")?);
        Some(Self {
            program: text_of(line, "executable")?.into(),
            folder: manifest.parent()?.to_path_buf(),
        })
    }

    /// The folder of its package, and its own name without what cargo puts behind it.
    fn name(&self) -> String {
        let folder = self.folder.strip_prefix(root());
        let folder = folder.unwrap_or(&self.folder).to_string_lossy();
        let own = self.program.file_name().unwrap_or_default();
        let own = own.to_string_lossy();
        let own = own.rsplit_once('-').map_or(&*own, |(name, _)| name);
        format!("{folder} {own}")
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the length of a suite is not a decision"
    )]
    fn run(&self, lane: usize, with: impl Fn(&mut Command)) -> Ran {
        let mut command = Command::new(&self.program);
        with(&mut command);
        command.current_dir(&self.folder);
        command.env("CARGO_MANIFEST_DIR", &self.folder);
        let share = PORTS.len() / SUITES_AT_ONCE;
        let first = PORTS.start + lane * share;
        command.env(
            "TIDEGATE_TEST_PORTS",
            format!("{first}-{}", first + share - 1),
        );
        let start = Instant::now();
        let ran = printed(&mut command);
        let took = start.elapsed();
        let (passed, said) = match ran {
            Ok((passed, said)) => (passed, said),
            Err(error) => (false, format!("cannot run it: {error}\n")),
        };
        let (name, program) = (self.name(), self.program.display());
        let said = format!("\n--- {name} ({program})\n{said}");
        Ran {
            name,
            passed,
            took,
            said,
        }
    }
}

/// Whether it passed, and what it printed, in the order in which it did. What it leaves running holds
/// nobody up: the processes of a suite that was killed are read from no longer.
fn printed(command: &mut Command) -> std::io::Result<(bool, String)> {
    let (reader, writer) = std::io::pipe()?;
    command.stdin(Stdio::null());
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn()?;
    // The command holds the pipe's other end, too.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let said = Arc::<Mutex<Vec<u8>>>::default();
    let heard = Arc::clone(&said);
    let (at_end, ended) = mpsc::sync_channel(1);
    thread::spawn(move || {
        let (mut reader, mut part) = (reader, [0; 8_192]);
        while let Ok(length @ 1..) = reader.read(&mut part) {
            lock(&heard).extend(&part[..length]);
        }
        let _ = at_end.send(());
    });
    // That nobody writes any more is told once.
    let (mut status, mut is_all) = (None, false);
    for _ in 0..LONGEST.as_millis() / GLANCE.as_millis() {
        status = child.try_wait()?;
        if status.is_some() {
            break;
        }
        is_all |= ended.recv_timeout(GLANCE).is_ok();
        if is_all {
            status = Some(child.wait()?);
            break;
        }
    }
    let hangs = status.is_none();
    let status = match status {
        Some(status) => status,
        None => {
            child.kill()?;
            child.wait()?
        }
    };
    let is_all = is_all || ended.recv_timeout(LAST_WORDS).is_ok();
    let mut said = String::from_utf8_lossy(&lock(&said)).into_owned();
    if hangs {
        said += &format!("(killed: it did not end within {} s)\n", LONGEST.as_secs());
    }
    if !is_all {
        said += "(processes that it began are still there)\n";
    }
    if !status.success() {
        said += &format!("({status})\n");
    }
    Ok((status.success(), said))
}

/// The text of this name in a line of JSON in which no path has quotes.
fn text_of<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let (_, rest) = line.split_once(&format!("\"{name}\":\""))?;
    rest.split_once('"').map(|(text, _)| text)
}

/// Whether there is a suite of this name.
#[cfg(test)]
fn stands(name: &str) -> bool {
    let Some((folder, own)) = name.split_once(' ') else {
        return false;
    };
    let folder = root().join(folder);
    let tests = folder.join("tests");
    let is_unit = folder.join("src/lib.rs").exists() && own.starts_with("tidegate");
    is_unit || tests.join(format!("{own}.rs")).exists() || tests.join(own).join("main.rs").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_cargos_messages_those_are_read_that_are_programs_of_tests() {
        let built = |test: bool, executable: &str| {
            format!(
                "{{\"reason\":\"compiler-artifact\",\"manifest_path\":\"/r/core/Cargo.toml\",\
                 \"target\":{{\"name\":\"laws\",\"test\":true}},\"profile\":{{\"opt_level\":\"0\",\
                 \"test\":{test}}},\"executable\":{executable},\"fresh\":true}}"
            )
        };
        let program = "\"/r/target/debug/deps/laws-0f\"";
        let read = Suite::read(&built(true, program));
        let laws = Suite {
            program: "/r/target/debug/deps/laws-0f".into(),
            folder: "/r/core".into(),
        };
        assert_eq!(laws.name(), "/r/core laws");
        assert_eq!(read, Some(laws));
        assert_eq!(Suite::read(&built(false, program)), None);
        assert_eq!(Suite::read(&built(true, "null")), None);
        assert_eq!(Suite::read("{\"reason\":\"build-finished\"}"), None);
    }

    #[test]
    fn each_suite_that_begins_early_is_there() {
        for name in LONG_SUITES {
            assert!(stands(name), "{name}");
        }
    }

    #[test]
    fn what_is_printed_to_both_is_read_in_order_and_a_failure_is_one() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; echo three; exit 3"]);
        let (passed, said) = printed(&mut command).unwrap();
        assert!(!passed);
        assert_eq!(said, "one\ntwo\nthree\n(exit status: 3)\n");
    }

    /// It was waited for, for ever.
    #[test]
    fn what_a_suite_leaves_running_holds_nobody_up() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600 & echo $!; exit 3"]);
        let (passed, said) = printed(&mut command).unwrap();
        assert!(!passed);
        let (left, said) = said.split_once('\n').unwrap();
        assert_eq!(
            said,
            "(processes that it began are still there)\n(exit status: 3)\n"
        );
        let ended = Command::new("kill").arg(left).status().unwrap();
        assert!(ended.success(), "it still ran when this was told");
    }

    #[test]
    fn the_tests_that_failed_are_named() {
        let said = "test a ... ok\ntest b ... FAILED\ntest result: FAILED. 1 passed\n";
        assert_eq!(
            faults(said),
            "  test b ... FAILED\n  test result: FAILED. 1 passed\n"
        );
    }
}
