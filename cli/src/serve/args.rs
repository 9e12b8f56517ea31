//! What `tidegate serve` is told.

use std::path::PathBuf;

use clap::Args;

use super::address::Address;

/// Serve policies over HTTP, gRPC and RESP
///
/// Without arguments it listens on loopback, keeps its state in the file
/// `tidegate.redb` here, and has an example policy. A flag goes before its
/// environment variable, and that before the file.
#[derive(Debug, Args)]
pub struct Serve {
    /// The file of policies, tokens and settings (TOML or YAML); read again when it
    /// changes, and on SIGHUP
    #[arg(long, short, value_name = "FILE", env = "TIDEGATE_CONFIG")]
    pub config: Option<PathBuf>,

    /// Where state is kept: memory:, or file:PATH[?sync=always|never|interval=100ms]
    #[arg(long, value_name = "URL", env = "TIDEGATE_STORE")]
    pub store: Option<String>,

    /// Where to listen for HTTP; 127.0.0.1:7400 if not said
    #[arg(long, value_name = "ADDRESS|off", env = "TIDEGATE_HTTP")]
    pub http: Option<Address>,

    /// Where to listen for gRPC; 127.0.0.1:7401 if not said
    #[arg(long, value_name = "ADDRESS|off", env = "TIDEGATE_GRPC")]
    pub grpc: Option<Address>,

    /// Where to listen for RESP (redis-cli); 127.0.0.1:7402 if not said
    #[arg(long, value_name = "ADDRESS|off", env = "TIDEGATE_RESP")]
    pub resp: Option<Address>,

    /// Note administrative changes in this file as well, one JSON line each
    #[arg(long, value_name = "FILE", env = "TIDEGATE_AUDIT")]
    pub audit: Option<PathBuf>,

    /// Let policies be applied over HTTP (`tidegate policy apply`), and keep
    /// them in this file: they go before those of the server's own file until
    /// that has other policies
    #[arg(long, value_name = "FILE", env = "TIDEGATE_APPLIED")]
    pub applied: Option<PathBuf>,

    /// How logs are written
    #[arg(
        long,
        value_name = "FORM",
        default_value = "text",
        env = "TIDEGATE_LOG_FORM"
    )]
    pub log: LogForm,

    /// Let the server's clock run so many times as fast as the machine's: for
    /// demonstrations and replays
    #[arg(long, value_name = "TIMES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub speed: u32,
}

/// How logs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogForm {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}
