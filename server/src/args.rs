//! What `tidegate serve` is told.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tidegate_policy::parse_duration;

use super::address::Address;
use super::fast_clock::factor;
use super::otlp::OtlpArgs;

/// What a server keeps to, for people.
const BOUNDS: &str = "\
Bounds of each listener by itself; those with a name are settings of the file's
`[server]`, and docs/server.md has the rest:
  max_connections   10,000  connections at once; one more gets an error and is closed
  max_in_flight      4,096  requests read and answered at once (HTTP, gRPC; a
                            RESP connection has one at a time); requests that
                            wait for a lease are bounded by max_waiting
  longest_wait        300s  that a request may wait; a longer one is an error
  shutdown_timeout     10s  for finishing requests in flight at a stop
  a request                 64 KiB (HTTP, RESP), 256 KiB (gRPC); a head 32 KiB
  a slow request            30s for its head, 10s for its body;
                            30s for a RESP command, and to take its answer
  an idle connection        30s (HTTP/1.1), 300s (RESP); HTTP/2 and gRPC get
                            a ping every 30s
  a TLS handshake           10s, 512 at once

Signals:
  HUP        read the file and the certificates again, and open the audit log anew
  TERM, INT  accept no new connection, answer requests in flight, write everything,
             exit 0; a second one ends it at once, with exit code 1";

/// Serve policies over HTTP, gRPC and RESP
///
/// Without arguments it listens on loopback, keeps its state in the file
/// `tidegate.redb` here, and has an example policy. A flag takes precedence
/// over its environment variable, and that over the file.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = BOUNDS)]
pub struct Serve {
    /// The file of policies, tokens and settings (TOML or YAML); read again when it
    /// changes, and on SIGHUP
    #[arg(long, short, value_name = "FILE", env = "TIDEGATE_CONFIG")]
    pub config: Option<PathBuf>,

    /// Where state is kept: memory:, file:PATH[?sync=always|never|interval=100ms],
    /// shm:NAME, redis://, redis+cluster://, redis+sentinel:// (rediss with TLS),
    /// postgres:// or mysql://HOST/DATABASE, tidegate://TOKEN@HOST (tidegates with TLS),
    /// dynamodb://TABLE (if it was built with it)
    #[arg(
        long,
        value_name = "URL",
        env = "TIDEGATE_STORE",
        hide_env_values = true
    )]
    pub store: Option<String>,

    /// How long to try again at the start, where the store cannot be opened: it is not there yet, or
    /// loads its data; without it that ends the server at once
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = parse_duration,
        env = "TIDEGATE_STORE_WAIT"
    )]
    pub store_wait: Option<Duration>,

    /// Where to listen for HTTP; default: 127.0.0.1:7400
    #[arg(long, value_name = "ADDRESS|off", env = "TIDEGATE_HTTP")]
    pub http: Option<Address>,

    /// Where to listen for gRPC; default: 127.0.0.1:7401
    #[arg(long, value_name = "ADDRESS|off", env = "TIDEGATE_GRPC")]
    pub grpc: Option<Address>,

    /// Where to listen for RESP (redis-cli); default: 127.0.0.1:7402
    #[arg(long, value_name = "ADDRESS|off", env = "TIDEGATE_RESP")]
    pub resp: Option<Address>,

    /// The server's certificate, then those that vouch for it (PEM); with it and
    /// its key, every listener speaks TLS. Read again on SIGHUP
    #[arg(long, value_name = "FILE", env = "TIDEGATE_TLS_CERTIFICATE")]
    pub tls_certificate: Option<PathBuf>,

    /// The certificate's key (PEM)
    #[arg(long, value_name = "FILE", env = "TIDEGATE_TLS_KEY")]
    pub tls_key: Option<PathBuf>,

    /// Let in only clients with a certificate of these authorities (PEM)
    #[arg(long, value_name = "FILE", env = "TIDEGATE_TLS_CLIENT_CA")]
    pub tls_client_ca: Option<PathBuf>,

    /// Listen beyond this machine although every client that reaches it is let in
    #[arg(long, env = "TIDEGATE_INSECURE")]
    pub insecure: bool,

    /// Note administrative changes in this file as well, one JSON line each
    #[arg(long, value_name = "FILE", env = "TIDEGATE_AUDIT")]
    pub audit: Option<PathBuf>,

    /// Let policies be applied over HTTP (`tidegate policy apply`), and keep
    /// them in this file, or with `store` in the store, where every server that
    /// has this flag switches to them: they take precedence over those of
    /// the server's own file until that file has other policies
    #[arg(long, value_name = "FILE|store", env = "TIDEGATE_APPLIED")]
    pub applied: Option<PathBuf>,

    /// Where spans of requests go.
    #[command(flatten)]
    pub traces: OtlpArgs,

    /// How logs are written
    #[arg(
        long,
        value_name = "FORM",
        default_value = "text",
        env = "TIDEGATE_LOG"
    )]
    pub log: LogForm,

    /// Let the server's clock run so many times as fast as the machine's: for
    /// demonstrations and replays
    #[arg(long, value_name = "FACTOR", default_value_t = 1, value_parser = factor)]
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
