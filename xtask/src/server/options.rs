//! What `cargo xtask bench server` is told.

use std::path::PathBuf;

pub const HELP: &str = "\
cargo xtask bench server [--rounds N] [--seconds N] [--only TEXT] [--store URL]
                         [--binary FILE] [--json FILE]

Builds the server, has redis-server and throttlecrab-server beside it, and lets
the same clients ask each of them in turn: rounds are interleaved, and what is
told is the median of each round's ratio, with the least and the most.

  --rounds N    how often each server of a row is asked (5)
  --seconds N   about how long each time (3)
  --only TEXT   rows whose name contains TEXT
  --store URL   the store behind our server (memory:)
  --binary FILE a server that is built already
  --json FILE   every figure of every round as well";

#[derive(Debug)]
pub struct Options {
    pub rounds: usize,
    pub seconds: f64,
    pub only: Option<String>,
    pub store: String,
    pub binary: Option<PathBuf>,
    pub json: Option<PathBuf>,
}

impl Options {
    /// From the command line; nothing if help is wanted.
    pub fn parse(arguments: &[String]) -> Result<Option<Self>, String> {
        let mut options = Self {
            rounds: 5,
            seconds: 3.0,
            only: None,
            store: "memory:".to_owned(),
            binary: None,
            json: None,
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || {
                let value = arguments.next().cloned();
                value.ok_or_else(|| format!("{argument} needs a value"))
            };
            match argument.as_str() {
                "--rounds" => options.rounds = number(argument, &value()?)?.ceil() as usize,
                "--seconds" => options.seconds = number(argument, &value()?)?,
                "--only" => options.only = Some(value()?),
                "--store" => options.store = value()?,
                "--binary" => options.binary = Some(value()?.into()),
                "--json" => options.json = Some(value()?.into()),
                "--help" | "-h" => return Ok(None),
                other => return Err(format!("unknown argument {other}\n\n{HELP}")),
            }
        }
        Ok(Some(options))
    }

    pub fn wants(&self, row: &str) -> bool {
        self.only.as_ref().is_none_or(|only| row.contains(only))
    }
}

/// How often, or for how many seconds.
pub fn number(argument: &str, text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok();
    let number = number.filter(|number| (0.1..=600.0).contains(number));
    number.ok_or_else(|| format!("{argument}: {text} is no number from 0.1 to 600"))
}
