//! Policies that were applied over those of the server's file.
//!
//! They are kept in a file of their own, with the text as it was sent and a hash
//! of the policies over which they were applied. While the server's own file says
//! the same policies, the applied ones go before it, over restarts too; as soon
//! as it says others, it wins, and the applied ones are laid aside.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tidegate::gate::{Change, Credential, Gate};
use tidegate::policy::{PolicyFile, parse};
use tidegate_http::{Application, Apply};
use tracing::{info, warn};

use crate::trouble::{Outcome, Trouble};

/// Where applied policies are kept, and what the server goes by.
pub struct Applied {
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    /// What the server's own file says.
    of_file: PolicyFile,
    /// What the server goes by.
    current: PolicyFile,
}

impl Applied {
    /// Begins with what `path` holds, if that was applied over `of_file`.
    pub fn begin(path: &Path, of_file: &PolicyFile) -> Outcome<Self> {
        let current = current(path, of_file)?;
        Ok(Self {
            path: path.to_owned(),
            state: Mutex::new(State {
                of_file: of_file.clone(),
                current,
            }),
        })
    }

    /// What the server goes by.
    pub fn policies(&self) -> PolicyFile {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.current.clone()
    }

    /// The server's file was read again: goes over to what holds now.
    pub fn reload(&self, gate: &Gate, of_file: &PolicyFile) -> Outcome<Vec<Change>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let current = current(&self.path, of_file)?;
        let changes = gate.exchange("the file", &current);
        let changes = changes.map_err(Trouble::failure)?;
        *state = State {
            of_file: of_file.clone(),
            current,
        };
        Ok(changes)
    }

    /// What a door does with policies that are sent to it.
    pub fn verb(self: &Arc<Self>, gate: &Gate) -> Apply {
        let (applied, gate) = (Arc::clone(self), gate.clone());
        Arc::new(move |application| applied.apply(&gate, &application))
    }

    /// Goes over to the policies and keeps them, or does neither.
    fn apply(&self, gate: &Gate, application: &Application) -> Result<Vec<Change>, String> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = json!({
            "over": fingerprint(&state.of_file),
            "by": application.by,
            "name": application.name,
            "text": application.text,
        });
        let unkept = |error: io::Error| {
            let path = self.path.display();
            format!("the policies cannot be kept in {path}: {error}; nothing was changed")
        };
        let beside = beside(&self.path, "new");
        write(&beside, &kept).map_err(unkept)?;
        let changes = gate.exchange(&application.by, &application.policies);
        let changes = changes.map_err(|error| error.to_string())?;
        if let Err(error) = replace(&beside, &self.path) {
            // What was gone over to a moment ago was served a moment before.
            let back = gate.exchange("the server", &state.current);
            return Err(match back {
                Ok(_) => unkept(error),
                Err(back) => format!("{}, but for the store: {back}", unkept(error)),
            });
        }
        state.current = application.policies.clone();
        Ok(changes)
    }
}

/// The applied policies if they hold, else those of the file.
fn current(path: &Path, of_file: &PolicyFile) -> Outcome<PolicyFile> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(of_file.clone()),
        Err(error) => return Err(Trouble::file("read", path, error)),
    };
    let strange = |what: &str| {
        let help = "move it away, and the server's own policies hold";
        Trouble::file("read", path, format!("{what}; {help}"))
    };
    let kept: Value = serde_json::from_str(&text).map_err(|_| strange("it holds no policies"))?;
    let word = |name: &str| {
        kept[name]
            .as_str()
            .ok_or_else(|| strange("it holds no policies"))
    };
    if word("over")? != fingerprint(of_file) {
        let aside = beside(path, "superseded");
        fs::rename(path, &aside).map_err(|error| Trouble::file("move", path, error))?;
        let aside = aside.display();
        warn!(%aside, "the file has other policies now: it wins, and what was applied is laid aside");
        return Ok(of_file.clone());
    }
    let policies = parse(word("name")?, word("text")?);
    let policies = policies.map_err(|faults| strange(&format!("it is faulty:\n{faults}\n")))?;
    info!(
        by = word("by")?,
        "applied policies go before those of the file"
    );
    Ok(policies)
}

/// A hash of what a file's policies say, however they are laid out.
fn fingerprint(file: &PolicyFile) -> String {
    let said = file
        .policies
        .iter()
        .fold(String::new(), |mut said, policy| {
            // Writing to a string does not fail.
            let _ = writeln!(said, "{} = {}", policy.name, policy.shape);
            said
        });
    let hash = Credential::hash(&said);
    hash.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

fn write(path: &Path, kept: &Value) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(format!("{kept:#}\n").as_bytes())?;
    file.sync_all()
}

/// Puts one file in the place of another, and lets the folder know.
fn replace(new: &Path, old: &Path) -> io::Result<()> {
    fs::rename(new, old)?;
    let folder = match old.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    File::open(folder)?.sync_all()
}
