//! `tidegate serve` and clients that nobody here wrote.
//!
//! | room | holds |
//! |---|---|
//! | `grpc` | Python's `grpcio`, with stubs that `grpcio-tools` makes of our proto |
//! | `dashboard` | the dashboard for Grafana, against what `/metrics` has |
//! | `load` | `h2load`, `wrk`, `redis-benchmark`: bounded load, each answer accounted for |
//! | `scripts/` | what those are told to do |
//! | `tools`, `server` | how they are found or fetched; the server, as a process |
//!
//! What is missing is said, and its test passes, unless `TIDEGATE_REQUIRE_TOOLS=1`.
#![cfg(unix)]

mod dashboard;
mod grpc;
mod load;
#[path = "../proofs/server.rs"]
#[expect(
    dead_code,
    clippy::disallowed_methods,
    reason = "the proofs use the rest, and a process is waited for in real time"
)]
mod server;
#[path = "../../../protocols/http/tests/http/tools.rs"]
mod tools;
