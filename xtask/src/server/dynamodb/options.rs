//! What `cargo xtask bench dynamodb` is told.

use super::asker::KINDS;
use crate::server::options::number;

pub const HELP: &str = "\
cargo xtask bench dynamodb [--short] [--rounds N] [--seconds N] [--without NAMES]

Takes of one rate on DynamoDB by the store, beside the bare conditional update by the same SDK, and beside
zae-limiter from PyPI (installed into target/peers the first time): at one emulator, 1 and 50 clients, about
one key and about 10,000. Rounds are interleaved; what is told is the median, with the least and the most.
The rows are printed as proof/bench/RESULTS.md has them.

  --short            3 rounds of 1 second and 1,000 keys, in place of 5 of 3: some 2 minutes once all is built
  --rounds N         how often each is asked (5)
  --seconds N        about how long each time (3)
  --without NAMES    leaves these out: zae,bare";

/// What is wanted.
#[derive(Debug)]
pub struct Options {
    pub rounds: usize,
    pub seconds: f64,
    /// Where there are many.
    pub keys: usize,
    without: Vec<String>,
}

impl Options {
    pub fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut options = Self {
            rounds: 5,
            seconds: 3.0,
            keys: 10_000,
            without: Vec::new(),
        };
        let mut words = arguments.iter();
        while let Some(name) = words.next() {
            if name == "--short" {
                (options.rounds, options.seconds, options.keys) = (3, 1.0, 1_000);
                continue;
            }
            let value = words.next();
            let value = value.ok_or_else(|| format!("{name} needs a value\n\n{HELP}"))?;
            match name.as_str() {
                "--rounds" => options.rounds = number(name, value)?.ceil() as usize,
                "--seconds" => options.seconds = number(name, value)?,
                "--without" => options.without = peers(value)?,
                other => return Err(format!("unknown argument {other}\n\n{HELP}")),
            }
        }
        Ok(options)
    }

    pub fn is_without(&self, what: &str) -> bool {
        self.without.iter().any(|name| what.contains(&**name))
    }
}

/// Those of whom each is one that is compared with ours.
fn peers(names: &str) -> Result<Vec<String>, String> {
    let peer = |name: &str| {
        let is_one = KINDS[1..].iter().any(|kind| kind.what.contains(name));
        let found = (is_one && !name.is_empty()).then(|| name.to_owned());
        found.ok_or_else(|| format!("--without: nobody is called {name:?}\n\n{HELP}"))
    };
    names.split(',').map(peer).collect()
}

#[cfg(test)]
mod tests {
    use super::Options;

    #[test]
    fn the_short_form_has_fewer_rounds_and_what_is_unknown_is_refused() {
        let parse = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            Options::parse(&words)
        };
        let long = parse(&[]).unwrap();
        let short = parse(&["--short", "--without", "zae,bare"]).unwrap();
        assert!(short.rounds < long.rounds && short.seconds < long.seconds);
        assert!(short.is_without("zae-limiter 0.17") && !short.is_without("ours"));
        for wrong in [
            &["--rounds"][..],
            &["--seconds", "0"],
            &["--fast", "1"],
            &["--without", "ours"],
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
