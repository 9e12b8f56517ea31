//! Running the binary, and files for it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub const SERVICE: &str = "ttft=200ms,per_token=20ms";

/// A file of the repository.
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// The real trace.
pub fn trace() -> PathBuf {
    repository("examples/traces/azure-llm-2023-code.csv")
}

/// The policy that bites on it.
pub fn policy() -> PathBuf {
    repository("examples/llm-gateway.toml")
}

/// An empty folder, and files in it.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).expect("a file");
        path
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect("the file was written")
    }
}

/// What a run of the binary gave.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub error: String,
}

/// Runs `tidegate` with these arguments.
pub fn tidegate<A: AsRef<std::ffi::OsStr>>(arguments: &[A]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    ran(command.args(arguments).output().expect("the binary runs"))
}

/// The same from another folder.
pub fn tidegate_at<A: AsRef<std::ffi::OsStr>>(folder: &Path, arguments: &[A]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let command = command.current_dir(folder).args(arguments);
    ran(command.output().expect("the binary runs"))
}

/// Replays `trace` through `policy`, with more options separated by spaces.
pub fn replay(trace: &Path, policy: &Path, options: &str) -> Ran {
    let (trace, policy) = (
        trace.to_str().expect("UTF-8"),
        policy.to_str().expect("UTF-8"),
    );
    let mut arguments = vec!["replay", trace, "--policy", policy];
    arguments.extend(options.split_whitespace());
    tidegate(&arguments)
}

/// Replays, and expects it to succeed.
pub fn replayed(trace: &Path, policy: &Path, options: &str) -> String {
    let ran = replay(trace, policy, options);
    assert_eq!(ran.code, 0, "{}", ran.error);
    ran.out
}

/// Replays, and lets the independent checker judge the decisions.
///
/// Where there is no Python to run it, nothing is judged, unless
/// `TIDEGATE_REQUIRE_PYTHON` says that there must be.
pub fn judged(trace: &Path, policy: &str, replay_options: &str, checker_options: &str) {
    let folder = Folder::new();
    let decisions = folder.path("decisions.csv");
    let options = format!("{replay_options} --decisions {}", decisions.display());
    replayed(trace, Path::new(policy), &options);
    if let Some(ran) = judge(trace, policy, &decisions, checker_options) {
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.error);
        assert!(ran.out.ends_with(" passed, 0 failed\n"), "{}", ran.out);
    }
}

/// What the checker says of a file of decisions, if it can run here.
pub fn judge(trace: &Path, policy: &str, decisions: &Path, options: &str) -> Option<Ran> {
    if !python_is_there() {
        return None;
    }
    let mut checker = Command::new("python3");
    checker.arg(repository("proof/replay-check/check.py"));
    checker
        .arg(trace)
        .arg(policy)
        .arg(decisions)
        .args(options.split_whitespace());
    let ran = ran(checker.output().expect("python3 runs"));
    if ran.code == 3 && !required() {
        eprintln!("not judged: {}", ran.out);
        return None;
    }
    Some(ran)
}

fn required() -> bool {
    std::env::var_os("TIDEGATE_REQUIRE_PYTHON").is_some()
}

/// Python 3.11 or later, which reads TOML by itself.
fn python_is_there() -> bool {
    let there = Command::new("python3")
        .args(["-c", "import tomllib"])
        .output();
    let there = there.is_ok_and(|output| output.status.success());
    assert!(
        there || !required(),
        "TIDEGATE_REQUIRE_PYTHON is set, and python3 has no tomllib"
    );
    if !there {
        eprintln!("not judged: no python3 with tomllib here");
    }
    there
}

fn ran(output: Output) -> Ran {
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).expect("UTF-8"),
        error: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}
