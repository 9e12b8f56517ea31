//! An emulator of DynamoDB for one test: dynoxide-rs, in memory, on a free port, stopped by its
//! pid. (Not moto, whose transactions leak.)

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::missing::skip;
use crate::ports;

/// If this is set, a test that cannot find the emulator fails.
const REQUIRED: &str = "TIDEGATE_REQUIRE_DYNAMODB";

/// Where `cargo xtask test` installs it, in the workspace.
const SERVER: &str = "target/dynoxide/bin/dynoxide";

/// How long it may take to start, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long until it is looked at again while it starts.
const GLANCE: Duration = Duration::from_millis(20);

/// An emulator that runs until this is dropped. See the [module](self).
#[derive(Debug)]
pub struct DynamodbServer {
    child: Child,
    port: u16,
    /// Removed after it is gone.
    _folder: TempDir,
}

impl DynamodbServer {
    /// One without tables, if it is installed; else says that the test is skipped.
    ///
    /// # Panics
    /// If it must be there (`TIDEGATE_REQUIRE_DYNAMODB`), or does not start.
    #[must_use]
    pub fn start() -> Option<Self> {
        let program = program();
        if !program.exists() {
            skip(
                "dynoxide is not installed (`cargo xtask test --only needs` does)",
                REQUIRED,
            );
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log");
        let started = ports::first(|port| Some((launch(&program, port, &log)?, port)));
        let (child, port) = started.expect("a port on which dynoxide starts");
        Some(Self {
            child,
            port,
            _folder: folder,
        })
    }

    /// Where it listens.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Its address, for the option `endpoint`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// A store's URL there. It takes anybody's credentials.
    #[must_use]
    pub fn url(&self) -> String {
        format!(
            "dynamodb://tidegate?region=local&endpoint={}",
            self.endpoint()
        )
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for DynamodbServer {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// In the workspace of these tests.
fn program() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    workspace.join(SERVER)
}

/// `None` if it does not start: someone else was faster to take the port.
fn launch(program: &Path, port: u16, log: &Path) -> Option<Child> {
    let mut command = Command::new(program);
    command.args(["serve", "--host", "127.0.0.1", "--port"]);
    command.arg(port.to_string());
    let said = File::create(log).expect("a log");
    let both = said.try_clone().expect("a log");
    command.stdin(Stdio::null()).stdout(said).stderr(both);
    let mut child = command.spawn().expect("dynoxide runs");
    listens(&mut child, log).then_some(child)
}

/// Waits until it says that it listens; false if it has ended. (Another may listen on its port,
/// who was faster.)
#[expect(
    clippy::disallowed_methods,
    reason = "another process starts, and does not say when it has"
)]
fn listens(child: &mut Child, log: &Path) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if child.try_wait().expect("its process is ours").is_some() {
            return false;
        }
        let said = std::fs::read_to_string(log).unwrap_or_default();
        if said.contains("listening on") {
            return true;
        }
        std::thread::sleep(GLANCE);
    }
    panic!("dynoxide does not start within {PATIENCE:?}");
}
