//! What a running server keeps to: killed under load, asked over all protocols at
//! once, told other policies meanwhile, and among clients that mean no good.
//!
//! | room | holds |
//! |---|---|
//! | `server` | the process: started, killed, its memory, its log |
//! | `client`, `http`, `resp`, `grpc` | one client for each protocol, that counts what it is told |
//! | `kills`, `ledger`, `reckoning` | kill -9 at random moments; what was acknowledged, and what of it is there |
//! | `together` | all protocols at once: never more than the limit, and instants that hold |
//! | `reload` | other limits, and bad files, while clients ask |
//! | `outage` | a store that is away, and comes back |
//! | `told` | what whoever runs it is told |
//! | `agree` | three servers and a program on one store: stored limits, set, changed, removed |
//! | `hostile`, `crowd` | idle, slow and greedy clients: bounded memory, and others are served |
//!
//! 20 kills for each way to sync, `TIDEGATE_KILLS=200 cargo test -p tidegate-cli
//! --test proofs kill -- --nocapture` for more, with the figures. 2,000 idle
//! connections at each listener, `TIDEGATE_IDLE=10000` likewise.
#![cfg(unix)]
#![expect(
    clippy::disallowed_methods,
    reason = "a process is killed at a random moment of real time, and instants are held against it"
)]

mod agree;
mod client;
mod crowd;
mod grpc;
mod hostile;
mod http;
mod kills;
mod ledger;
mod outage;
mod reckoning;
mod reload;
mod resp;
mod server;
mod together;
mod told;
