//! The command line.

use std::path::PathBuf;
use std::time::Duration;

pub const HELP: &str = include_str!("help.txt");

#[derive(Clone, Debug)]
pub struct Options {
    pub only: Vec<String>,
    pub rounds: usize,
    /// How long one contender runs in one round.
    pub lap: Duration,
    pub quick: bool,
    pub list: bool,
    pub json: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            only: Vec::new(),
            rounds: 15,
            lap: Duration::from_millis(60),
            quick: false,
            list: false,
            json: PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/last.json")),
        }
    }
}

impl Options {
    /// Reads the arguments after the program's name; `Err` is a message for the user.
    pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options::default();
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
            match argument.as_str() {
                "--only" => options.only.push(value()?),
                "--rounds" => options.rounds = parse_rounds(&value()?)?,
                "--json" => options.json = PathBuf::from(value()?),
                "--quick" => options.quick(),
                "--list" => options.list = true,
                "--help" | "-h" => return Err(HELP.to_owned()),
                other => return Err(format!("unknown argument {other}\n\n{HELP}")),
            }
        }
        Ok(options)
    }

    fn quick(&mut self) {
        self.quick = true;
        self.rounds = 5;
        self.lap = Duration::from_millis(20);
    }

    /// Whether a row or group of this name was asked for. A group is run when
    /// a pattern is part of its name, or names one of its rows.
    pub fn wants(&self, name: &str) -> bool {
        let asked = |pattern: &String| {
            let group = pattern.split('/').next();
            name.contains(pattern.as_str()) || group == Some(name)
        };
        self.only.is_empty() || self.only.iter().any(asked)
    }
}

fn parse_rounds(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(rounds) if rounds > 0 => Ok(rounds),
        _ => Err(format!(
            "--rounds takes a number of one or more, not {text}"
        )),
    }
}
