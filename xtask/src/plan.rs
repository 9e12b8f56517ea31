//! What is run, in one place: a test of a special kind is named here.

/// Property tests run this often each, in `test`.
pub const LAW_CASES: u32 = 10_000;

/// And this often in `proofs`.
pub const LONG_CASES: u32 = 1_000_000;

/// And this often in `test --fast`.
pub const FAST_CASES: u32 = 64;

/// Crates whose tests start no Redis, PostgreSQL, MariaDB or DynamoDB.
pub const SERVERLESS: &[&str] = &[
    "tidegate-core",
    "tidegate-store",
    "tidegate-memory",
    "tidegate-file",
    "tidegate-shm",
    "tidegate-tier",
    "tidegate-net",
    "tidegate-remote",
    "tidegate-url",
    "tidegate",
    "tidegate-policy",
    "tidegate-service",
    "tidegate-llm",
    "tidegate-gateway",
    "tidegate-client",
    "tidegate-command",
    "tidegate-server",
    "tidegate-http",
    "tidegate-grpc",
    "tidegate-protocol",
    "tidegate-resp",
    "tidegate-own-store",
    "tidegate-model",
    "tidegate-sim",
    "tidegate-tier-fleets",
    "tidegate-trace",
    "xtask",
    "tidegate-house",
];

/// And of other crates the tests that start none.
pub const SERVERLESS_TESTS: &[(&str, &[&str])] = &[
    (
        "tidegate-conformance",
        &[
            "--test",
            "memory",
            "--test",
            "vectors",
            "--test",
            "optimistic",
            "--test",
            "remote",
            "--test",
            "shm",
        ],
    ),
    ("tidegate-cli", &["--test", "gateway", "--test", "policy"]),
];

/// What is built beside the default features: what the command has only when asked for. Lints and
/// tests share one build, so both have it.
pub const FEATURES: &str = "tidegate-cli/otlp,tidegate-cli/dynamodb";

/// So many suites run at a time: one more than the cores of a small machine, since they wait for a
/// third of their time.
pub const SUITES_AT_ONCE: usize = 3;

/// The longest, which begin first: by the folder of the package and the name of the suite.
pub const LONG_SUITES: &[&str] = &[
    "proof/fleet table",
    "proof/race short",
    "stores/dynamodb suite",
    "proof/contention waiting",
    "proof/conformance redis_cluster",
    "proof/contention locks",
    "stores/file conformance",
    "proof/conformance shm",
    "proof/conformance mariadb",
    "proof/conformance postgres",
    "proof/conformance valkey",
    "proof/conformance redis",
    "proof/conformance remote",
    "cli proofs",
    "tidegate fair",
    "llm tidegate_llm",
];

/// Crates whose interleavings are explored: built with `--cfg shuttle`, in a
/// target directory of their own. The tests are those whose path contains
/// [`SHUTTLE_FILTER`].
pub const SHUTTLE_PACKAGES: &[&str] = &["tidegate-memory", "tidegate-shm", "tidegate"];

/// Which of their tests are meant.
pub const SHUTTLE_FILTER: &str = "shuttle";

/// How long each fuzz target runs, unless it is said otherwise.
pub const FUZZ_SECONDS: u64 = 60;

/// Targets without an operating system for which the core is built if they are
/// installed; where none is, the host's build without features must do.
pub const BARE_TARGETS: &[&str] = &[
    "thumbv7em-none-eabihf",
    "thumbv6m-none-eabi",
    "riscv32imac-unknown-none-elf",
    "x86_64-unknown-none",
];

/// Who may import whom of ours (DESIGN.md, section 2); dev-dependencies are free.
/// A crate that is not listed may import anything: the proofs see everything,
/// and since none of them is on the right, nothing else sees a proof.
pub const LAYERS: &[(&str, &[&str])] = &[
    ("tidegate-core", &[]),
    ("tidegate-store", &["tidegate-core"]),
    ("tidegate-memory", &["tidegate-store", "tidegate-core"]),
    ("tidegate-net", &["tidegate-store", "tidegate-core"]),
    ("tidegate-tier", &["tidegate-store", "tidegate-core"]),
    (
        "tidegate-dynamodb",
        &["tidegate-store", "tidegate-core", "tidegate-net"],
    ),
    (
        "tidegate-mysql",
        &["tidegate-store", "tidegate-core", "tidegate-net"],
    ),
    (
        "tidegate-redis",
        &["tidegate-store", "tidegate-core", "tidegate-net"],
    ),
    (
        "tidegate-postgres",
        &["tidegate-store", "tidegate-core", "tidegate-net"],
    ),
    (
        "tidegate-remote",
        &["tidegate-store", "tidegate-core", "tidegate-net"],
    ),
    (
        "tidegate-file",
        &["tidegate-store", "tidegate-core", "tidegate-memory"],
    ),
    (
        "tidegate-shm",
        &["tidegate-store", "tidegate-core", "tidegate-net"],
    ),
    (
        // Opens the stores, and asks them nothing.
        "tidegate-url",
        &[
            "tidegate-store",
            "tidegate-dynamodb",
            "tidegate-file",
            "tidegate-memory",
            "tidegate-mysql",
            "tidegate-postgres",
            "tidegate-redis",
            "tidegate-remote",
            "tidegate-shm",
        ],
    ),
    (
        "tidegate",
        // The store by default, in one file and behind the feature `memory`; grants of any store.
        &[
            "tidegate-store",
            "tidegate-core",
            "tidegate-memory",
            "tidegate-tier",
        ],
    ),
    (
        "tidegate-policy",
        &["tidegate", "tidegate-store", "tidegate-core"],
    ),
    (
        "tidegate-service",
        &[
            "tidegate",
            "tidegate-policy",
            "tidegate-store",
            "tidegate-core",
        ],
    ),
    ("tidegate-llm", &["tidegate-core"]),
    (
        // Spends a grant by the rule of a tier.
        "tidegate-client",
        &["tidegate", "tidegate-store", "tidegate-tier"],
    ),
    ("tidegate-protocol", &["tidegate-service"]),
    (
        "tidegate-gateway",
        &[
            "tidegate",
            "tidegate-llm",
            "tidegate-policy",
            "tidegate-protocol",
            "tidegate-service",
            "tidegate-store",
        ],
    ),
    ("tidegate-http", PROTOCOL),
    (
        "tidegate-grpc",
        // It carries the store that a server offers.
        &[
            "tidegate",
            "tidegate-policy",
            "tidegate-protocol",
            "tidegate-remote",
            "tidegate-service",
        ],
    ),
    ("tidegate-resp", PROTOCOL),
    (
        // Where what stands before the network meets what stands behind it.
        "tidegate-server",
        &[
            "tidegate",
            "tidegate-gateway",
            "tidegate-client",
            "tidegate-grpc",
            "tidegate-http",
            "tidegate-llm",
            "tidegate-net",
            "tidegate-policy",
            "tidegate-protocol",
            "tidegate-remote",
            "tidegate-resp",
            "tidegate-service",
            "tidegate-store",
            "tidegate-url",
        ],
    ),
    (
        "tidegate-command",
        &[
            "tidegate",
            "tidegate-client",
            "tidegate-gateway",
            "tidegate-llm",
            "tidegate-policy",
            "tidegate-server",
            "tidegate-service",
            "tidegate-store",
            "tidegate-url",
        ],
    ),
    ("tidegate-cli", &["tidegate-command"]),
];

/// What a protocol imports.
const PROTOCOL: &[&str] = &[
    "tidegate",
    "tidegate-policy",
    "tidegate-protocol",
    "tidegate-service",
];

/// Crates outside the workspace, which have lock files of their own.
pub const OUTSIDE: &[&str] = &[
    "proof/bench",
    "proof/bench/python/guard",
    "proof/fuzz",
    "python",
];
