//! Policies that were applied over those of the server's file.
//!
//! They are kept with the text as it was sent and a hash of the policies over which they
//! were applied: in a file of their own, or in a store that servers share, where every
//! server that was started so follows them. While the server's own file says the same
//! policies, the applied ones go before it, over restarts too; as soon as it says others,
//! it wins, and the applied ones are laid aside.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, Weak};

use serde_json::{Value, json};
use tidegate_http::{Application, Apply};
use tidegate_policy::{PolicyFile, parse};
use tidegate_service::{Change, Credential};
use tidegate_store::{Defined, Definition, Definitions, Follower, Store, block_on};
use tracing::{error, info, warn};

use super::serving::{NotServed, Serving};
use crate::trouble::{Outcome, Trouble};

/// As whom the store knows what was applied: no service and no set is called so.
const OWNER: &str = "applied policies";

/// The one key there.
const KEY: &[u8] = b"policies";

/// Where applied policies are kept, and what the server goes by.
pub struct Applied {
    kept: Kept,
    /// Held by whoever applies policies.
    turn: Mutex<()>,
    state: Mutex<State>,
    /// The version of what the store keeps.
    version: AtomicU64,
    serving: OnceLock<Serving>,
}

enum Kept {
    File(PathBuf),
    Store(Arc<dyn Store>),
}

struct State {
    /// What the server's own file says.
    of_file: PolicyFile,
    /// What the server goes by.
    current: PolicyFile,
    /// What the store keeps.
    told: Option<String>,
}

impl Applied {
    /// Begins with what is kept at `place`, a file or `store`, if that was applied over
    /// `of_file`. What the store keeps of other servers and this one cannot serve, as `serves`
    /// says, does not hold here.
    pub fn begin(
        place: &Path,
        store: &Arc<dyn Store>,
        of_file: &PolicyFile,
        serves: impl Fn(&PolicyFile) -> Result<(), String>,
    ) -> Outcome<Self> {
        if place != Path::new("store") {
            let applied = in_file(place, of_file, serves)?;
            if applied.is_none() {
                lay_aside(place);
            }
            let current = applied.unwrap_or_else(|| of_file.clone());
            return Ok(Self::of(Kept::File(place.to_owned()), of_file, current));
        }
        if !store.abilities().shared {
            return Err(Trouble::failure(
                "--applied store keeps policies in a store that servers share (shm, redis, \
                 postgres, mysql, dynamodb, tidegate); write --applied FILE, or choose such a store with --store",
            ));
        }
        let told = block_on(store.definitions(OWNER, 0)).map_err(Trouble::failure)?;
        let text = text_of(&told);
        let applied = text.as_deref().map(|text| read(text, of_file, serves));
        let current = match applied.transpose() {
            Ok(applied) => applied.flatten(),
            Err(wrong) => {
                error!(
                    error = %wrong,
                    "cannot serve the policies applied at another server; the file's are in force here"
                );
                None
            }
        };
        let current = current.unwrap_or_else(|| of_file.clone());
        let applied = Self::of(Kept::Store(Arc::clone(store)), of_file, current);
        applied.state().told = text;
        applied.version.store(told.version, Ordering::Release);
        Ok(applied)
    }

    fn of(kept: Kept, of_file: &PolicyFile, current: PolicyFile) -> Self {
        Self {
            kept,
            turn: Mutex::default(),
            state: Mutex::new(State {
                of_file: of_file.clone(),
                current,
                told: None,
            }),
            version: AtomicU64::new(0),
            serving: OnceLock::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the server goes by.
    pub fn policies(&self) -> PolicyFile {
        self.state().current.clone()
    }

    /// From here on `serving` goes over to what is applied at any server of the store.
    pub fn follow(self: &Arc<Self>, serving: &Serving) {
        // It is set once.
        let _ = self.serving.set(serving.clone());
        if let Kept::Store(store) = &self.kept {
            let this = Arc::downgrade(self);
            store.follow(OWNER, this as Weak<dyn Follower>);
        }
    }

    /// The server's file was read again: goes over to what holds now, after an application
    /// that has begun. What was applied at another server and this one cannot serve holds nothing
    /// up: what is in force stays, or the file if it says other policies now.
    pub fn reload(
        &self,
        serving: &Serving,
        of_file: &PolicyFile,
    ) -> Result<Vec<Change>, NotServed> {
        let _alone = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.state();
        let serves = |policies: &PolicyFile| serving.check(policies, None);
        let applied = match (&self.kept, &state.told) {
            (Kept::File(path), _) => in_file(path, of_file, serves)?,
            (Kept::Store(_), Some(text)) => read(text, of_file, serves).unwrap_or_else(|wrong| {
                stays(&wrong);
                let is_same = fingerprint(of_file) == fingerprint(&state.of_file);
                is_same.then(|| state.current.clone())
            }),
            (Kept::Store(_), None) => None,
        };
        let current = applied.as_ref().unwrap_or(of_file);
        let changes = serving.exchange("the file", current)?;
        if let (Kept::File(path), None) = (&self.kept, &applied) {
            lay_aside(path);
        }
        state.of_file = of_file.clone();
        state.current = applied.unwrap_or_else(|| of_file.clone());
        Ok(changes)
    }

    /// What a listener does with policies that are sent to it.
    pub fn verb(self: &Arc<Self>, serving: &Serving) -> Apply {
        let (applied, serving) = (Arc::clone(self), serving.clone());
        Arc::new(move |application| applied.apply(&serving, &application))
    }

    /// None waits for another: before a store that hangs each would add its deadline.
    fn alone(&self) -> Result<MutexGuard<'_, ()>, String> {
        match self.turn.try_lock() {
            Ok(alone) => Ok(alone),
            Err(TryLockError::Poisoned(alone)) => Ok(alone.into_inner()),
            Err(TryLockError::WouldBlock) => Err(
                "other policies are being applied at this server; nothing was changed: look at \
                 them with `tidegate policy plan`, then apply again"
                    .to_owned(),
            ),
        }
    }

    /// Goes over to the policies and keeps them, or does neither.
    fn apply(&self, serving: &Serving, application: &Application) -> Result<Vec<Change>, String> {
        let _alone = self.alone()?;
        let (over, before) = {
            let state = self.state();
            (fingerprint(&state.of_file), state.current.clone())
        };
        let kept = json!({
            "over": over,
            "by": application.by,
            "name": application.name,
            "text": application.text,
        });
        let unkept = |error: String| match &self.kept {
            Kept::File(path) => {
                let path = path.display();
                format!("the policies cannot be kept in {path}: {error}; nothing was changed")
            }
            Kept::Store(_) => format!(
                "the store did not confirm: {error}; nothing was changed here, but other servers may \
                 have the new policies: look with `tidegate policy plan`, then apply again"
            ),
        };
        if let Kept::File(path) = &self.kept {
            write(&beside(path, "new"), &kept).map_err(|error| unkept(error.to_string()))?;
        }
        let mut state = self.state();
        let changes = serving.exchange(&application.by, &application.policies)?;
        state.current = application.policies.clone();
        drop(state);
        // Who follows goes over to it before the store answers: no lock is held.
        let done = match &self.kept {
            Kept::File(path) => replace(&beside(path, "new"), path).map_err(|e| e.to_string()),
            Kept::Store(store) => {
                let definition = Definition::new(KEY, kept.to_string());
                let made = block_on(store.change(OWNER, definition.into()));
                made.map(|made| self.holds(made, &application.policies, kept.to_string()))
                    .map_err(|error| error.to_string())
            }
        };
        if let Err(error) = done {
            let mut state = self.state();
            if state.told.as_ref() == Some(&kept.to_string()) {
                // The answer was lost, and the store has told it to whoever follows.
                return Ok(changes);
            }
            if fingerprint(&state.current) != fingerprint(&application.policies) {
                // Another server's came in the meantime, and hold.
                return Err(unkept(error));
            }
            // What was gone over to a moment ago was served a moment before.
            let back = serving.exchange("the server", &before);
            state.current = before;
            drop(state);
            return Err(match back {
                Ok(_) => unkept(error),
                Err(back) => format!("{}, but for the store: {back}", unkept(error)),
            });
        }
        Ok(changes)
    }

    /// The store keeps `text`: known also where it has not told it in time, or what it loses
    /// right after would not be missed.
    fn holds(&self, made: Defined, policies: &PolicyFile, text: String) {
        let Defined::Done { version, .. } = made else {
            return;
        };
        let mut state = self.state();
        let is_told = version <= self.version();
        if !is_told && fingerprint(&state.current) == fingerprint(policies) {
            state.told = Some(text);
            self.version.store(version, Ordering::Release);
        }
    }
}

impl Follower for Applied {
    fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// What cannot be read, or cannot be gone over to, leaves what was in force in force.
    fn follow(&self, definitions: &Definitions) {
        let Some(serving) = self.serving.get() else {
            return;
        };
        let mut state = self.state();
        if definitions.newer_than != self.version() {
            return;
        }
        self.version.store(definitions.version, Ordering::Release);
        let text = text_of(definitions);
        if text.is_none() && !definitions.whole {
            return;
        }
        // The gateway's flags stay as they are: it is not tried again.
        let serves = |policies: &PolicyFile| serving.check(policies, None);
        let applied = text
            .as_deref()
            .map(|text| read(text, &state.of_file, serves));
        let is_lost = text.is_none() && state.told.is_some();
        state.told = text;
        let current = match applied.transpose() {
            // Halfway through a roll-out of the file the one half must not take from the
            // other what it serves.
            Ok(Some(None)) => {
                return warn!(
                    "policies were applied at a server whose file says other policies: they do \
                     not hold here, and what this server serves stays in force until its file \
                     is read again"
                );
            }
            Ok(applied) => applied.flatten().unwrap_or_else(|| state.of_file.clone()),
            Err(wrong) => return stays(&wrong),
        };
        if fingerprint(&current) == fingerprint(&state.current) {
            return;
        }
        let by = if is_lost {
            "the store"
        } else {
            "another server"
        };
        match serving.exchange(by, &current) {
            Ok(_) if is_lost => {
                warn!(
                    "the store no longer has the policies that were applied: those of the file \
                     hold again; if the store was emptied, apply them anew"
                );
                state.current = current;
            }
            Ok(changes) => {
                info!(
                    changes = changes.len(),
                    "policies were applied at another server"
                );
                state.current = current;
            }
            Err(wrong) => {
                // It is tried again at the next look.
                let before = definitions.newer_than;
                self.version.store(before, Ordering::Release);
                stays(&wrong.why);
            }
        }
    }
}

/// What is kept under the one key.
fn text_of(definitions: &Definitions) -> Option<String> {
    let one = definitions.changed.iter().find(|one| one.key == KEY)?;
    Some(String::from_utf8_lossy(one.value.as_deref()?).into_owned())
}

/// The policies that are kept at `path`, as [`read`].
fn in_file(
    path: &Path,
    of_file: &PolicyFile,
    serves: impl Fn(&PolicyFile) -> Result<(), String>,
) -> Outcome<Option<PolicyFile>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Trouble::file("read", path, error)),
    };
    let strange = |what: String| {
        let help = "move it away, and the server's own policies hold";
        Trouble::file("use", path, format!("{what}; {help}"))
    };
    read(&text, of_file, serves).map_err(strange)
}

/// What was applied at another server changes nothing here.
fn stays(wrong: &str) {
    error!(
        error = %wrong,
        "cannot switch to the policies applied at another server; still serving the previous ones"
    );
}

/// The file's policies hold: what is kept at `path` would come back with those over which
/// it was applied.
fn lay_aside(path: &Path) {
    let aside = beside(path, "superseded");
    match fs::rename(path, &aside) {
        Ok(()) => warn!(
            aside = %aside.display(),
            "the file's policies have changed: using the file; the applied ones were moved"
        ),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => error!(
            path = %path.display(),
            %error,
            "the file's policies have changed: using the file; the applied ones cannot be \
             moved: remove them, or they hold again once the file has its former policies"
        ),
    }
}

/// The policies that were kept, if they were applied over `of_file`; else what is wrong
/// with the text, or why this server cannot serve them.
fn read(
    text: &str,
    of_file: &PolicyFile,
    serves: impl Fn(&PolicyFile) -> Result<(), String>,
) -> Result<Option<PolicyFile>, String> {
    let strange = || "it holds no policies".to_owned();
    let kept: Value = serde_json::from_str(text).map_err(|_| strange())?;
    let word = |name: &str| kept[name].as_str().ok_or_else(strange);
    if word("over")? != fingerprint(of_file) {
        return Ok(None);
    }
    let policies = parse(word("name")?, word("text")?);
    let policies = policies.map_err(|faults| format!("it is faulty:\n{faults}\n"))?;
    let by = word("by")?;
    serves(&policies)?;
    info!(by, "using the policies that were applied, not the file's");
    Ok(Some(policies))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Each waited for those before: before a store that hangs, for a deadline of each.
    #[test]
    fn who_applies_while_others_are_being_applied_is_told_so_at_once() {
        let none = tidegate_policy::parse(
            "p.toml",
            "[policy.p.limits]\nc = { calls = 1, per = '1h' }\n",
        );
        let none = none.expect("sound");
        let applied = Applied::of(Kept::File(PathBuf::new()), &none, none.clone());
        let first = applied.alone().expect("nobody else");
        let told = applied.alone().map(drop);
        assert!(told.is_err_and(|why| why.contains("other policies are being applied")));
        drop(first);
        assert!(applied.alone().is_ok());
    }
}
