//! Logs on standard error, and the audit log in a file of its own.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::json;
use tidegate_service::audit;
use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use super::args::LogForm;
use super::otlp::Listener;
use crate::trouble::{Outcome, Trouble};

/// The audit log: a file, opened anew when it was moved away; or none.
#[derive(Clone, Default)]
pub struct AuditLog(Arc<Mutex<Option<File>>>);

impl AuditLog {
    /// Goes over to the file at `path`; to the end of it, if it is there.
    pub fn open(&self, path: Option<&Path>) -> Outcome<()> {
        let open = |path: &Path| {
            let file = OpenOptions::new().create(true).append(true).open(path);
            file.map_err(|error| Trouble::file("write", path, error))
        };
        let file = path.map(open).transpose()?;
        *self.lock() = file;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Option<File>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for AuditLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.lock().as_mut() {
            Some(file) => file.write(bytes),
            None => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.lock().as_mut().map_or(Ok(()), File::flush)
    }
}

/// Why a server ended, as a line of `--log json`: logs may not have begun.
pub fn error_line(trouble: &Trouble) -> String {
    let line = json!({
        "timestamp": format!("{:.6}", jiff::Timestamp::now()),
        "level": "ERROR",
        "fields": {"message": trouble.to_string()},
        "target": "tidegate",
    });
    line.to_string()
}

/// What is logged unless `RUST_LOG` says otherwise. What drivers tell of their connections
/// names no store and no remedy; the server says itself that a store is away.
const USUAL: &str = "info,deadpool=off,tokio_postgres=off";

/// What watches the file's folder tells of whatever changes there: of a log in that folder, of each
/// of its own lines.
const NEVER: [&str; 2] = ["notify", "mio"];

/// What `wanted`, as `RUST_LOG` has it, lets through; whatever it does not name, from `info` on.
fn filter(wanted: &str) -> Outcome<Targets> {
    // Of an empty part the parser makes `error`.
    let parts = wanted.split(',').map(str::trim);
    let parts: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
    let parts = match parts.is_empty() {
        true => USUAL.to_owned(),
        false => parts.join(","),
    };
    let is_span = parts.contains(['[', '{']);
    let targets = parts.parse().map_err(|error: ParseError| error.to_string());
    let targets: Result<Targets, _> = match is_span {
        true => Err("spans and fields are not chosen by it".to_owned()),
        false => targets,
    };
    let targets = targets.map_err(|error| {
        Trouble::usage(format!(
            "RUST_LOG={wanted}: {error}; write a level (error, warn, info, debug, trace, off), or \
             TARGET=LEVEL, with commas between"
        ))
    })?;
    let default = targets.default_level().unwrap_or(LevelFilter::INFO);
    let never = NEVER.map(|target| (target, LevelFilter::OFF));
    Ok(targets.with_default(default).with_targets(never))
}

/// Begins to log. `RUST_LOG` says how much; `info` if it does not.
/// `traces` hears of spans.
pub fn begin(form: LogForm, audit_log: &AuditLog, traces: Option<Listener>) -> Outcome<()> {
    let wanted = std::env::var("RUST_LOG").unwrap_or_else(|_| USUAL.to_owned());
    let filter = filter(&wanted)?;
    let logs = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let logs = match form {
        LogForm::Text => logs.with_target(false).boxed(),
        LogForm::Json => logs.json().boxed(),
    };
    let only = Targets::new().with_target(audit::TARGET, LevelFilter::INFO);
    let audit = tracing_subscriber::fmt::layer().json();
    let lines = audit_log.clone();
    let audit = audit.with_writer(move || lines.clone());
    tracing_subscriber::registry()
        .with(traces)
        .with(logs.with_filter(filter))
        .with(audit.with_filter(only))
        .try_init()
        .map_err(Trouble::failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of an empty one nothing but errors was logged.
    #[test]
    fn what_is_empty_says_nothing_and_what_is_not_understood_is_refused() {
        for usual in ["", ",", " ", "info,", USUAL] {
            let filter = filter(usual).expect("it is understood");
            assert!(
                filter.would_enable("tidegate", &tracing::Level::INFO),
                "{usual}"
            );
            assert!(
                !filter.would_enable("notify::inotify", &tracing::Level::ERROR),
                "{usual}"
            );
        }
        let chosen = filter("tidegate_server=debug").expect("it is understood");
        assert!(chosen.would_enable("tidegate_server::reload", &tracing::Level::DEBUG));
        assert!(chosen.would_enable("tidegate_http", &tracing::Level::INFO));
        assert!(!chosen.would_enable("tidegate_http", &tracing::Level::DEBUG));
        for odd in ["tidegate[span]=debug", "tidegate=loud"] {
            assert!(filter(odd).is_err(), "{odd}");
        }
    }
}
