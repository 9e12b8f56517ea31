//! Opening a trace: from a file or standard input, in a format told or seen.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, IsTerminal, Read as _};
use std::path::Path;

use clap::ValueEnum;

use super::azure::Azure;
use super::combined::{self, Combined};
use super::instant::TimeField;
use super::json_lines::JsonLines;
use super::record::Read;
use tidegate_server::trouble::{Outcome, Trouble};

/// What a trace's lines look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Azure LLM trace: TIMESTAMP,ContextTokens,GeneratedTokens
    Azure,
    /// Apache or nginx combined (or common) log
    Combined,
    /// JSON lines: an object on each line
    #[value(name = "jsonl")]
    JsonLines,
}

impl Format {
    /// The word for it on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Azure => "azure",
            Self::Combined => "combined",
            Self::JsonLines => "jsonl",
        }
    }
}

/// How much of the beginning is looked at to tell the format.
const GLANCE: u64 = 64 * 1024;

/// An open trace.
pub struct Opened {
    /// Its format, told or seen.
    pub format: Format,
    /// Its lines.
    pub records: Box<dyn Iterator<Item = Read>>,
}

/// A trace's bytes: `-` is standard input.
fn bytes(path: &Path) -> Outcome<Box<dyn BufRead>> {
    if path == Path::new("-") {
        if io::stdin().is_terminal() {
            return Err(Trouble::usage(
                "`-` reads the trace from standard input, which is a terminal",
            ));
        }
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let file = File::open(path).map_err(|error| Trouble::file("read", path, error))?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(Trouble::file("read", path, "it is a directory"));
    }
    Ok(Box::new(BufReader::with_capacity(1 << 17, file)))
}

/// Opens a trace; its format is told by its first line if nobody says.
pub fn open(path: &Path, format: Option<Format>, time: Option<TimeField>) -> Outcome<Opened> {
    from(path, bytes(path)?, format, time)
}

/// Opens a trace that is already being read; `path` is what messages call it.
pub fn from(
    path: &Path,
    input: Box<dyn BufRead>,
    format: Option<Format>,
    time: Option<TimeField>,
) -> Outcome<Opened> {
    let (format, input) = match format {
        Some(format) => (format, input),
        None => detect(path, input)?,
    };
    let records: Box<dyn Iterator<Item = Read>> = match format {
        Format::Azure => Box::new(Azure::new(input)),
        Format::Combined => Box::new(Combined::new(input)),
        Format::JsonLines => Box::new(JsonLines::new(input, time)),
    };
    Ok(Opened { format, records })
}

fn detect(path: &Path, mut input: Box<dyn BufRead>) -> Outcome<(Format, Box<dyn BufRead>)> {
    let mut start = Vec::new();
    input
        .by_ref()
        .take(GLANCE)
        .read_to_end(&mut start)
        .map_err(|error| Trouble::file("read", path, error))?;
    let text = String::from_utf8_lossy(&start);
    let first = text.lines().map(str::trim).find(|line| !line.is_empty());
    let Some(first) = first else {
        return Err(Trouble::failure(format!(
            "{}: there is no request in it",
            path.display()
        )));
    };
    let format = seen(first.trim_start_matches('\u{feff}')).ok_or_else(|| unknown(path))?;
    Ok((format, Box::new(Cursor::new(start).chain(input))))
}

fn seen(line: &str) -> Option<Format> {
    if line.starts_with('{') {
        return Some(Format::JsonLines);
    }
    if line.split(',').any(|column| column.trim() == "TIMESTAMP") {
        return Some(Format::Azure);
    }
    combined::looks_like(line).then_some(Format::Combined)
}

fn unknown(path: &Path) -> Trouble {
    Trouble::failure(format!(
        "{}:1: this is none of the formats known; a trace begins with\n  \
         azure     TIMESTAMP,ContextTokens,GeneratedTokens\n  \
         combined  IP - USER [10/Oct/2000:13:55:36 -0700] \"GET /path HTTP/1.1\" 200 2326\n  \
         jsonl     {{\"time\": \"2023-11-16T18:17:03Z\", \"tokens\": 4818}}\n\
         if it is one of these after all, say which with --format",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::{Format, seen};

    #[test]
    fn a_format_is_told_by_its_first_line() {
        for (line, format) in [
            (
                "TIMESTAMP,ContextTokens,GeneratedTokens",
                Some(Format::Azure),
            ),
            ("{\"a\": 1}", Some(Format::JsonLines)),
            (
                "h - - [10/Oct/2000:13:55:36 +0000] \"GET / HTTP/1.1\" 200 1",
                Some(Format::Combined),
            ),
            ("time,tokens", None),
        ] {
            assert_eq!(seen(line), format, "{line}");
        }
    }
}
