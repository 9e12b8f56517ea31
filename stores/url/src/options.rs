//! What stands behind the `?` of a URL.

use std::fmt::Display;
#[cfg(all(feature = "shm", target_os = "linux"))]
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;

use crate::error::UrlError;

/// The options that are ours; others are the engine's own.
const OURS: [&str; 12] = [
    "connections",
    "deadline",
    "dir",
    "endpoint",
    "leases",
    "migrate",
    "prefix",
    "region",
    "size",
    "sync",
    "synchronous_commit",
    "tables",
];

/// What was said, and not yet asked for.
pub struct Options(Vec<(&'static str, String)>);

impl Options {
    /// The address without our options, and these.
    pub fn split(url: &str) -> Result<(String, Self), UrlError> {
        // A password may hold a `?`, though it should not.
        let after_password = url.rfind('@').map_or(0, |at| at + 1);
        let Some(mark) = url[after_password..].rfind('?') else {
            return Ok((url.to_owned(), Self(Vec::new())));
        };
        let (mut address, query) = {
            let (address, query) = url.split_at(after_password + mark);
            (address.to_owned(), &query[1..])
        };
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match OURS.into_iter().find(|own| *own == name) {
                Some(name) if ours.iter().any(|(said, _)| *said == name) => {
                    return Err(UrlError::option(name, "it is given twice"));
                }
                Some(name) => ours.push((name, value.to_owned())),
                None => theirs.push(pair),
            }
        }
        if !theirs.is_empty() {
            address = format!("{address}?{}", theirs.join("&"));
        }
        Ok((address, Self(ours)))
    }

    /// What was said of `name`.
    pub fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(said, _)| *said == name)?;
        Some(self.0.swap_remove(at).1)
    }

    /// What was said of `name`, read.
    pub fn parse<T: FromStr>(&mut self, name: &'static str) -> Result<Option<T>, UrlError>
    where
        T::Err: Display,
    {
        let read = |said: String| said.parse().map_err(|why| UrlError::option(name, why));
        self.take(name).map(read).transpose()
    }

    /// One of some words, for what each stands for.
    pub fn word<T: Copy>(
        &mut self,
        name: &'static str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, UrlError> {
        let Some(said) = self.take(name) else {
            return Ok(None);
        };
        match words.iter().find(|(word, _)| *word == said) {
            Some((_, meant)) => Ok(Some(*meant)),
            None => {
                let known: Vec<_> = words.iter().map(|(word, _)| *word).collect();
                let why = format!("write {}", known.join(" or "));
                Err(UrlError::option(name, why))
            }
        }
    }

    /// A length of time, as `200ms` or `2s`.
    pub fn span(&mut self, name: &'static str) -> Result<Option<Duration>, UrlError> {
        let read = |said: String| {
            let span: Result<SignedDuration, _> = said.parse();
            let span = span.ok().and_then(|span| Duration::try_from(span).ok());
            span.ok_or_else(|| UrlError::option(name, "write a length of time, as 200ms or 2s"))
        };
        self.take(name).map(read).transpose()
    }

    /// A size in MiB, as `64`, `64MiB` or `1GiB`.
    #[cfg(all(feature = "shm", target_os = "linux"))]
    pub fn mebibytes(
        &mut self,
        name: &'static str,
        fits: RangeInclusive<usize>,
    ) -> Result<Option<usize>, UrlError> {
        let Some(said) = self.take(name) else {
            return Ok(None);
        };
        let (number, unit) = match said.strip_suffix("GiB") {
            Some(number) => (number, 1_024),
            None => (said.strip_suffix("MiB").unwrap_or(&said), 1),
        };
        let number: Option<usize> = number.parse().ok();
        match number.and_then(|number| number.checked_mul(unit)) {
            Some(size) if fits.contains(&size) => Ok(Some(size)),
            size => {
                let bytes = size.filter(|size| size % (1 << 20) == 0 && unit == 1);
                let meant = bytes.map(|bytes| bytes >> 20);
                let meant = meant.filter(|size| fits.contains(size)).unwrap_or(64);
                let (least, most) = (fits.start(), fits.end());
                let why = format!(
                    "write how many MiB, {least} to {most}, as {name}={meant} or {name}={meant}MiB; `{said}` is none of these"
                );
                Err(UrlError::option(name, why))
            }
        }
    }

    /// That nothing else was said.
    pub fn done(&self, engine: &str) -> Result<(), UrlError> {
        match self.0.first() {
            Some((name, _)) => Err(UrlError::option(
                name,
                format!("a {engine} store has no such option"),
            )),
            None => Ok(()),
        }
    }
}
