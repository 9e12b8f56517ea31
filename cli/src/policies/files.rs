//! Policy files, found sound or told what is wrong with them.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tidegate::policy::{PolicyErrors, PolicyFile, parse, parse_config};

use crate::trouble::{Outcome, Trouble};

/// A file that was looked at.
pub struct Read {
    path: PathBuf,
    found: Found,
}

enum Found {
    Sound(PolicyFile),
    Faulty(PolicyErrors),
    Unreadable(String),
}

impl Read {
    /// Whether nothing is wrong with it.
    pub const fn is_sound(&self) -> bool {
        matches!(self.found, Found::Sound(_))
    }
}

/// Reads a file: a server's own, or one that has policies alone.
pub fn read(path: &Path) -> Read {
    let found = match text(path) {
        Err(trouble) => Found::Unreadable(trouble.to_string()),
        Ok(text) => match parse_config(&path.to_string_lossy(), &text) {
            Ok(config) => Found::Sound(config.policies),
            Err(errors) => Found::Faulty(errors),
        },
    };
    Read {
        path: path.to_owned(),
        found,
    }
}

/// The policies of a file that is to be sound.
pub fn sound(path: &Path) -> Outcome<PolicyFile> {
    match read(path).found {
        Found::Sound(policies) => Ok(policies),
        Found::Faulty(errors) => Err(Trouble::failure(errors)),
        Found::Unreadable(message) => Err(Trouble::failure(message)),
    }
}

/// The text of a file that is sound and has policies alone.
pub fn alone(path: &Path) -> Outcome<String> {
    let text = text(path)?;
    parse(&path.to_string_lossy(), &text).map_err(Trouble::failure)?;
    Ok(text)
}

fn text(path: &Path) -> Outcome<String> {
    std::fs::read_to_string(path).map_err(|error| Trouble::file("read", path, error))
}

/// Every fault on standard error; a line for each sound file on the output.
pub fn tell(files: &[Read]) -> Outcome<()> {
    let (mut output, mut errors) = (std::io::stdout().lock(), std::io::stderr().lock());
    for Read { path, found } in files {
        let told = match found {
            Found::Sound(policies) => {
                let names: Vec<&str> = policies.names().collect();
                writeln!(output, "{}: sound ({})", path.display(), names.join(", "))
            }
            Found::Faulty(faults) => writeln!(errors, "error: {faults}\n"),
            Found::Unreadable(message) => writeln!(errors, "error: {message}\n"),
        };
        told.map_err(Trouble::failure)?;
    }
    Ok(())
}

/// The same for programs: `{"files": [{"file", "policies" | "faults" | "error"}]}`.
pub fn json(files: &[Read]) -> Value {
    let files = files.iter().map(|Read { path, found }| {
        let mut file = json!({"file": path.to_string_lossy(), "sound": false});
        match found {
            Found::Sound(policies) => {
                file["sound"] = true.into();
                file["policies"] = policies.names().collect();
            }
            Found::Faulty(errors) => file["faults"] = errors.faults().iter().map(fault).collect(),
            Found::Unreadable(message) => file["error"] = message.as_str().into(),
        }
        file
    });
    json!({"files": files.collect::<Vec<_>>()})
}

fn fault(fault: &tidegate::policy::Fault) -> Value {
    json!({
        "line": fault.line,
        "column": fault.column,
        "message": fault.message,
        "help": fault.help,
    })
}
