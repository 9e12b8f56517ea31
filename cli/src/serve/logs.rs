//! Logs on standard error, and the audit log in a file of its own.

use std::fs::OpenOptions;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::Mutex;

use tidegate::gate::audit;
use tracing_subscriber::filter::{EnvFilter, LevelFilter, Targets};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use super::args::LogForm;
use crate::trouble::{Outcome, Trouble};

/// Begins to log. `RUST_LOG` says how much; `info` if it does not.
pub fn begin(form: LogForm, audit_file: Option<&Path>) -> Outcome<()> {
    let filter = EnvFilter::builder()
        .with_default_directive(LevelFilter::INFO.into())
        .from_env_lossy();
    let logs = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let logs = match form {
        LogForm::Text => logs.with_target(false).boxed(),
        LogForm::Json => logs.json().boxed(),
    };
    let audit = audit_file.map(audit_log).transpose()?;
    tracing_subscriber::registry()
        .with(logs.with_filter(filter))
        .with(audit)
        .try_init()
        .map_err(Trouble::failure)
}

fn audit_log<S>(path: &Path) -> Outcome<impl Layer<S>>
where
    S: tracing::Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
{
    let file = OpenOptions::new().create(true).append(true).open(path);
    let file = file.map_err(|error| Trouble::file("write", path, error))?;
    let only = Targets::new().with_target(audit::TARGET, LevelFilter::INFO);
    let lines = tracing_subscriber::fmt::layer().json();
    Ok(lines.with_writer(Mutex::new(file)).with_filter(only))
}
