//! What `cargo xtask bench gateway` is told.

use std::path::PathBuf;

use crate::server::options::number;

pub const HELP: &str = "\
cargo xtask bench gateway [--short] [--rounds N] [--seconds N] [--without NAMES]
                          [--install] [--programs FOLDER]

The same calls and streams straight to a simulated provider, and through nginx, Envoy, LiteLLM, Portkey,
litellm-rs and our gateway, with one limit that never binds and with three that are reserved and settled in
memory. Rounds are interleaved; what is told is the median, with the least and the most. What a peer needs is
installed into target/peers the first time; who cannot be run is named, with why. The rows are printed as
proof/bench/RESULTS.md has them.

  --short            3 rounds of 1 second, in place of 5 of 2: some 5 minutes once all is installed
  --rounds N         how often each is asked (5)
  --seconds N        about how long each time (2)
  --without NAMES    leaves these out: litellm-rs,portkey
  --install          installs and builds what is needed, and measures nothing
  --programs FOLDER  where tidegate, provider and tidegate-load are built already";

/// What is wanted.
#[derive(Debug)]
pub struct Options {
    pub rounds: usize,
    pub seconds: f64,
    pub without: Vec<String>,
    pub install: bool,
    pub programs: Option<PathBuf>,
    /// So many streams at once are tried, until one of them loses something.
    pub streams: Vec<u32>,
}

impl Options {
    pub fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut options = Self {
            rounds: 5,
            seconds: 2.0,
            without: Vec::new(),
            install: false,
            programs: None,
            streams: vec![32, 64, 128, 256, 512],
        };
        let mut words = arguments.iter();
        while let Some(name) = words.next() {
            match name.as_str() {
                "--short" => {
                    (options.rounds, options.seconds) = (3, 1.0);
                    options.streams = vec![64, 256];
                    continue;
                }
                "--install" => {
                    options.install = true;
                    continue;
                }
                _ => {}
            }
            let value = words.next();
            let value = value.ok_or_else(|| format!("{name} needs a value\n\n{HELP}"))?;
            match name.as_str() {
                "--rounds" => options.rounds = number(name, value)?.ceil() as usize,
                "--seconds" => options.seconds = number(name, value)?,
                "--without" => options.without = value.split(',').map(str::to_owned).collect(),
                "--programs" => options.programs = Some(value.into()),
                other => return Err(format!("unknown argument {other}\n\n{HELP}")),
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::Options;

    #[test]
    fn the_short_form_has_fewer_rounds_and_what_is_no_number_is_refused() {
        let parse = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            Options::parse(&words)
        };
        let long = parse(&[]).unwrap();
        let short = parse(&["--short", "--without", "envoy,portkey"]).unwrap();
        assert!(short.rounds < long.rounds && short.seconds < long.seconds);
        assert_eq!(short.without, ["envoy", "portkey"]);
        for wrong in [
            &["--rounds"][..],
            &["--rounds", "0"],
            &["--seconds", "x"],
            &["--fast"],
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
