//! Everything that must be green.

use crate::command::{self, cargo, output, program, root, target_directory};
use crate::plan::{
    BARE_TARGETS, FAST_CASES, FEATURES, LAW_CASES, OUTSIDE, SERVERLESS, SERVERLESS_TESTS,
    SHUTTLE_FILTER, SHUTTLE_PACKAGES,
};
use crate::steps::{self, Choice, Step, Tier};
use crate::{bench, features, layers, needs, python, suites, versions};
use std::path::Path;
use std::process::Command;

const STEPS: &[Step] = &[
    Step {
        name: "needs",
        purpose: "what the tests need beside Rust",
        tier: Tier::Whole,
        run: needs::provide,
    },
    Step {
        name: "fmt",
        purpose: "one formatting",
        tier: Tier::Fast,
        run: formatting,
    },
    Step {
        name: "layers",
        purpose: "who imports whom",
        tier: Tier::Fast,
        run: layers::hold,
    },
    Step {
        name: "versions",
        purpose: "the oldest Rust that will do is the same everywhere",
        tier: Tier::Fast,
        run: versions::hold,
    },
    Step {
        name: "clippy",
        purpose: "lints, warnings denied",
        tier: Tier::Fast,
        run: clippy,
    },
    Step {
        name: "doc",
        purpose: "documentation builds, warnings denied",
        tier: Tier::Whole,
        run: documentation,
    },
    Step {
        name: "no-std",
        purpose: "the core needs no operating system",
        tier: Tier::Fast,
        run: no_std,
    },
    Step {
        name: "apart",
        purpose: "each published library compiles by itself",
        tier: Tier::Whole,
        run: features::apart,
    },
    Step {
        name: "test",
        purpose: "all tests, each law in ten thousand cases",
        tier: Tier::Part(tests_without_servers),
        run: || tests(LAW_CASES),
    },
    Step {
        name: "python",
        purpose: "the Python package, built, tested and type-checked",
        tier: Tier::Whole,
        run: python::tests,
    },
    Step {
        name: "kills",
        purpose: "processes killed at each point of what they do in shared memory",
        tier: Tier::Whole,
        run: kills,
    },
    Step {
        name: "shuttle",
        purpose: "interleavings of threads, explored",
        tier: Tier::Whole,
        run: interleavings,
    },
    Step {
        name: "allocations",
        purpose: "the bench builds, and the hot path allocates nothing",
        tier: Tier::Whole,
        run: bench::allocations,
    },
];

/// `cargo xtask test`.
pub fn run(arguments: &[String]) -> Result<(), String> {
    steps::run(STEPS, &Choice::parse(arguments)?)
}

fn formatting() -> Result<(), String> {
    command::run(&mut cargo(["fmt", "--all", "--check"]))?;
    outside(|manifest| command::run(&mut cargo(["fmt", "--check", "--manifest-path", manifest])))
}

fn clippy() -> Result<(), String> {
    let all = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--features",
        FEATURES,
        "--",
        "-D",
        "warnings",
    ];
    command::run(&mut cargo(all))?;
    outside(|manifest| {
        let mut clippy = cargo(["clippy", "--release", "--manifest-path", manifest]);
        clippy.env("CARGO_TARGET_DIR", target_directory().join("outside"));
        command::run(clippy.args(["--", "-D", "warnings"]))
    })
}

fn documentation() -> Result<(), String> {
    let mut doc = cargo([
        "doc",
        "--workspace",
        "--no-deps",
        "--document-private-items",
    ]);
    command::run(doc.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Builds the core for a machine without an operating system where such a
/// target is installed; otherwise for the host, where `#![no_std]` must stand.
fn no_std() -> Result<(), String> {
    let core = [
        "check",
        "--package",
        "tidegate-core",
        "--no-default-features",
    ];
    match BARE_TARGETS.iter().find(|target| installed(target)) {
        Some(target) => command::run(cargo(core).args(["--target", target])),
        None => {
            println!("no bare target is installed: checking for the host");
            claims_no_std()?;
            command::run(&mut cargo(core))
        }
    }
}

fn installed(target: &str) -> bool {
    let libraries = output(program("rustc").args(["--print", "target-libdir", "--target", target]));
    libraries.is_some_and(|path| Path::new(path.trim()).exists())
}

fn claims_no_std() -> Result<(), String> {
    let path = root().join("core/src/lib.rs");
    let text =
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    match text.lines().any(|line| line.trim() == "#![no_std]") {
        true => Ok(()),
        false => Err("core/src/lib.rs does not say #![no_std]".to_owned()),
    }
}

/// Unit, integration and documentation tests; laws in this many cases.
pub fn tests(cases: u32) -> Result<(), String> {
    suites::run(|tests| {
        tests.env("PROPTEST_CASES", cases.to_string());
        // Built with the tests, so that nobody builds it again by itself.
        tests.env("TIDEGATE", target_directory().join("debug/tidegate"));
        requiring_all(tests);
    })
}

/// Of the tests those that start no server, in few cases.
fn tests_without_servers() -> Result<(), String> {
    let cases = |test: &mut Command| {
        test.env("PROPTEST_CASES", FAST_CASES.to_string());
        command::run(test)
    };
    let mut tests = cargo(["test", "--quiet", "--lib", "--bins", "--tests"]);
    for package in SERVERLESS {
        tests.args(["--package", package]);
    }
    cases(&mut tests)?;
    SERVERLESS_TESTS.iter().try_for_each(|(package, chosen)| {
        let mut tests = cargo(["test", "--quiet", "--package", package]);
        cases(tests.args(*chosen))
    })
}

/// The same, but a test that lacks something fails instead of being skipped.
pub fn requiring_all(tests: &mut Command) -> &mut Command {
    // Where there is no Python the replay would pass without its judge.
    tests.env("TIDEGATE_REQUIRE_PYTHON", "1");
    // And the stores beyond a network without their servers.
    tests.env("TIDEGATE_REQUIRE_REDIS", "1");
    tests.env("TIDEGATE_REQUIRE_MARIADB", "1");
    tests.env("TIDEGATE_REQUIRE_POSTGRES", "1");
    tests.env("TIDEGATE_REQUIRE_DYNAMODB", "1");
    // And the protocols without the clients that nobody here wrote.
    tests.env("TIDEGATE_REQUIRE_TOOLS", "1")
}

/// Processes killed at every point of what they do in shared memory: built apart, since no
/// other build has such points.
fn kills() -> Result<(), String> {
    let with = ["--package", "tidegate-shm", "--features", "kill-points"];
    let mut clippy = cargo(["clippy", "--all-targets"]);
    command::run(clippy.args(with).args(["--", "-D", "warnings"]))?;
    command::run(
        cargo([
            "test", "--test", "kills", "--test", "lapses", "--test", "stopped",
        ])
        .args(with),
    )
}

/// Built apart, since everything below these crates changes with the flag.
pub fn interleavings() -> Result<(), String> {
    let mut tests = cargo(["test", "--profile", "explore", "--lib", "--tests"]);
    for package in SHUTTLE_PACKAGES {
        tests.args(["--package", package]);
    }
    tests.env("RUSTFLAGS", "--cfg shuttle");
    tests.env("CARGO_TARGET_DIR", target_directory().join("shuttle"));
    command::run(tests.arg(SHUTTLE_FILTER))
}

fn outside(each: impl Fn(&str) -> Result<(), String>) -> Result<(), String> {
    OUTSIDE
        .iter()
        .try_for_each(|folder| each(&format!("{folder}/Cargo.toml")))
}
