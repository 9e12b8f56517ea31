//! What `tidegate-load` is told.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use tidegate_policy::parse_duration;

use crate::keys::Spread;

const EXAMPLES: &str = "\
Examples:
  Five thousand checks a second over RESP, for ten seconds:
    tidegate-load --policy example --rate 5000/s

  As many as it can answer, sixteen at once on each of fifty connections:
    tidegate-load --policy example --closed --connections 50 --depth 16

  Leases over HTTP, a few keys far more often than the others:
    tidegate-load --protocol http --policy example --verb acquire --rate 500/s \\
        --keys 10000 --distribution zipf:1.1

  Batches of a hundred over a gRPC stream:
    tidegate-load --protocol grpc --policy example --closed --batch 100

  Another server that speaks RESP; nothing is checked:
    tidegate-load --server 127.0.0.1:6379 --raw 'SET {key} x' --rate 1000/s

Exit codes:
  0  every request was answered, and no key was admitted more than its limits
  1  an error was answered, an answer never came, or more was admitted
  2  the command line makes no sense";

/// Put load on a server, and check its answers against the limits
///
/// With --rate, requests are sent on schedule, whether earlier ones are answered or
/// not, and latency counts from the instant at which a request was to be sent.
/// With --closed, each connection sends the next request as soon as it is answered.
#[derive(Debug, Parser)]
#[command(name = "tidegate-load", version, after_long_help = EXAMPLES)]
pub struct Load {
    /// By which protocol
    #[arg(long, value_name = "PROTOCOL", default_value = "resp")]
    pub protocol: Protocol,

    /// Where it is; 127.0.0.1 and the protocol's usual port by default
    #[arg(long, value_name = "HOST:PORT")]
    pub server: Option<Place>,

    /// Where the server answers HTTP: the limits are read there
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7400")]
    pub http: Place,

    /// Put load on a server that is not on this machine
    #[arg(long)]
    pub yes_elsewhere: bool,

    /// Send this token
    #[arg(
        long,
        value_name = "TOKEN",
        env = "TIDEGATE_TOKEN",
        hide_env_values = true
    )]
    pub token: Option<String>,

    /// Call this policy
    #[arg(long, value_name = "POLICY", help_heading = "What is requested")]
    pub policy: Option<String>,

    /// check, or acquire and settle
    #[arg(
        long,
        value_name = "VERB",
        default_value = "check",
        help_heading = "What is requested"
    )]
    pub verb: Verb,

    /// What each request takes of the policy's rates
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000), help_heading = "What is requested")]
    pub cost: u64,

    /// Call CL.THROTTLE with these numbers instead of a policy (RESP)
    #[arg(
        long,
        value_name = "BURST,COUNT,SECONDS",
        conflicts_with = "policy",
        help_heading = "What is requested"
    )]
    pub throttle: Option<Throttle>,

    /// Send something else, {key} being replaced: a command's words, or METHOD
    /// PATH BODY over HTTP
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["policy", "throttle"], help_heading = "What is requested")]
    pub raw: Option<String>,

    /// Send this header field with each request, too: 'NAME: VALUE' (HTTP)
    #[arg(long, value_name = "FIELD", value_parser = field, help_heading = "What is requested")]
    pub header: Vec<String>,

    /// For so many keys
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000), help_heading = "What is requested")]
    pub keys: u32,

    /// uniform, zipf:EXPONENT, hot (one key alone), or each in turn
    #[arg(
        long,
        value_name = "HOW",
        default_value = "uniform",
        help_heading = "What is requested"
    )]
    pub distribution: Spread,

    /// The same keys in the same order as with the same seed
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        help_heading = "What is requested"
    )]
    pub seed: u64,

    /// So many requests a second (5000/s), on schedule
    #[arg(
        long,
        value_name = "N/s",
        conflicts_with = "closed",
        required_unless_present = "closed",
        help_heading = "How"
    )]
    pub rate: Option<Rate>,

    /// Every connection sends the next request as soon as it is answered
    #[arg(long, help_heading = "How")]
    pub closed: bool,

    /// How requests arrive, given a rate
    #[arg(
        long,
        value_name = "HOW",
        default_value = "poisson",
        help_heading = "How"
    )]
    pub arrivals: Arrival,

    /// So many connections
    #[arg(long, short, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=2_000), help_heading = "How")]
    pub connections: u32,

    /// At most so many unanswered on each of them; 1 if closed, else 64
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_024), help_heading = "How")]
    pub depth: Option<u32>,

    /// Requests in one message of a gRPC stream; without it, each is a call
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000), help_heading = "How")]
    pub batch: Option<u32>,

    /// For how long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = length, help_heading = "How")]
    pub duration: Duration,

    /// Until so many were sent, if that comes first
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "How")]
    pub asks: Option<u64>,

    /// The summary as JSON
    #[arg(long, help_heading = "What is shown")]
    pub json: bool,

    /// Write the latencies by percentile, as HdrHistogram's tools read them
    #[arg(long, value_name = "FILE", help_heading = "What is shown")]
    pub histogram: Option<PathBuf>,

    /// Say nothing before the summary
    #[arg(long, short, help_heading = "What is shown")]
    pub quiet: bool,
}

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    Http,
    Grpc,
    Resp,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Verb {
    /// A check.
    Check,
    /// A lease, settled as soon as it is granted.
    Acquire,
}

/// How requests arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Arrival {
    /// Each by itself, as people do.
    Poisson,
    /// At equal distances.
    Even,
}

/// A server's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(pub SocketAddr);

/// Requests a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate(pub f64);

/// The numbers of `CL.THROTTLE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttle {
    pub burst: u64,
    pub count: u64,
    pub period_secs: u64,
}

impl Load {
    /// The server's address, if load may be put on it.
    pub fn place(&self) -> Result<SocketAddr, String> {
        let port = match self.protocol {
            Protocol::Http => 7400,
            Protocol::Grpc => 7401,
            Protocol::Resp => 7402,
        };
        let usual = SocketAddr::from(([127, 0, 0, 1], port));
        let place = self.server.map_or(usual, |Place(place)| place);
        if place.ip().is_loopback() || self.yes_elsewhere {
            return Ok(place);
        }
        Err(format!(
            "{place} is not this machine: say --yes-elsewhere if load may be put on it"
        ))
    }

    /// How many may be unanswered on each connection.
    pub fn depth(&self) -> usize {
        let usual = if self.closed { 1 } else { 64 };
        self.depth.unwrap_or(usual) as usize
    }

    /// Checks what the parser cannot: which words go together.
    pub fn check(&self) -> Result<(), String> {
        let wrong = |text: &str| Err(text.to_owned());
        self.place()?;
        if self.policy.is_none() && self.throttle.is_none() && self.raw.is_none() {
            return wrong("say what is asked: --policy, --throttle or --raw");
        }
        if self.throttle.is_some() && self.protocol != Protocol::Resp {
            return wrong("--throttle is RESP's: name a --policy over the others");
        }
        if self.raw.is_some() && self.protocol == Protocol::Grpc {
            return wrong("--raw is for RESP and HTTP");
        }
        if !self.header.is_empty() && self.protocol != Protocol::Http {
            return wrong("--header is HTTP's");
        }
        if self.verb == Verb::Acquire && self.policy.is_none() {
            return wrong("a lease is a policy's: say --policy");
        }
        if self.batch.is_some() && (self.protocol != Protocol::Grpc || self.verb != Verb::Check) {
            return wrong("--batch is for checks over gRPC");
        }
        Ok(())
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help = || format!("`{text}` is no address; write 127.0.0.1:7402");
        let mut found = text.to_socket_addrs().map_err(|_| help())?;
        found.next().map(Self).ok_or_else(help)
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_suffix("/s").unwrap_or(text).replace('_', "");
        let rate = number.parse::<f64>().ok();
        let rate = rate.filter(|rate| (0.1..=10_000_000.0).contains(rate));
        let help = || "write requests a second, such as 5000/s (0.1 to ten million)".to_owned();
        rate.map(Self).ok_or_else(help)
    }
}

impl FromStr for Throttle {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help = || "write BURST,COUNT,SECONDS, such as 99,1000,60".to_owned();
        let numbers: Result<Vec<u64>, _> = text.split(',').map(str::parse).collect();
        match numbers.map_err(|_| help())?.as_slice() {
            &[burst, count, period_secs] if count > 0 && period_secs > 0 => Ok(Self {
                burst,
                count,
                period_secs,
            }),
            _ => Err(help()),
        }
    }
}

fn field(text: &str) -> Result<String, String> {
    let (name, value) = text.split_once(':').unwrap_or_default();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_value = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    match !name.is_empty() && name.bytes().all(is_name) && value.bytes().all(is_value) {
        true => Ok(text.to_owned()),
        false => Err("write NAME: VALUE, such as 'x-tier: 1'".to_owned()),
    }
}

fn length(text: &str) -> Result<Duration, String> {
    let length = parse_duration(text).map_err(|error| error.to_string())?;
    match length <= Duration::from_secs(24 * 3_600) {
        true => Ok(length),
        false => Err("a day at most".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Rate, Throttle, field};

    #[test]
    fn a_header_field_is_a_name_and_a_value_on_one_line() {
        assert_eq!(field("x-tier: 1"), Ok("x-tier: 1".to_owned()));
        for wrong in ["", "x", ": 1", "x y: 1", "x: 1\r\ny: 2"] {
            assert!(field(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_rate_is_a_number_of_asks_a_second() {
        assert_eq!("5_000/s".parse(), Ok(Rate(5_000.0)));
        assert_eq!("0.5".parse(), Ok(Rate(0.5)));
        for wrong in ["", "0", "-1", "nan", "inf", "1e9/s", "5/m"] {
            assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_throttle_is_three_numbers() {
        let throttle = Throttle {
            burst: 0,
            count: 1_000,
            period_secs: 60,
        };
        assert_eq!("0,1000,60".parse(), Ok(throttle));
        for wrong in ["", "1,2", "1,0,1", "1,1,0", "1,1,1,1", "a,1,1"] {
            assert!(wrong.parse::<Throttle>().is_err(), "{wrong}");
        }
    }
}
