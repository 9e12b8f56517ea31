//! The policies of namespaces: what the server's file says, and what was applied in one, which
//! goes before it.
//!
//! ```text
//! version u8 = 1, by?, name, text
//! ```

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use tidegate_core::DecodeError;
use tidegate_store::sync::Mutex;
use tidegate_store::{Definition, Definitions, Follower, Store, block_on};

use super::registry::Exchanged;
use crate::bytes::{Reader, Writer};
use crate::change::Change;
use crate::service::Service;
use tidegate::Error;
use tidegate_policy::{PolicyFile, parse};

const VERSION: u8 = 1;

/// As whom a namespace of the store keeps them.
const OWNER: &str = "applied policies";

/// The one key there.
const KEY: &[u8] = b"policies";

/// What a namespace goes by.
pub(super) struct Policies {
    service: Service,
    store: Arc<dyn Store>,
    /// Held by whoever applies policies.
    turn: Mutex<()>,
    state: Mutex<State>,
    version: AtomicU64,
}

struct State {
    of_file: PolicyFile,
    /// What was applied, as it is kept and as it is read.
    applied: Option<(Vec<u8>, PolicyFile)>,
}

impl State {
    fn current(&self) -> &PolicyFile {
        let applied = self.applied.as_ref();
        applied.map_or(&self.of_file, |(_, file)| file)
    }
}

impl Policies {
    /// Begins a service by what is in force in `store`, and follows it from then on.
    ///
    /// # Errors
    /// A store that cannot tell, or cannot do what a policy needs.
    pub(super) fn begin(
        store: &Arc<dyn Store>,
        of_file: &PolicyFile,
        build: impl FnOnce(&PolicyFile) -> Result<Service, Error>,
    ) -> Result<Arc<Self>, Error> {
        let kept = block_on(store.definitions(OWNER, 0))?;
        let applied = match kept_policies(&kept) {
            Some(bytes) => match read(&bytes) {
                Ok(file) => Some((bytes, file)),
                Err(wrong) => {
                    unusable(&wrong);
                    None
                }
            },
            None => None,
        };
        let state = State {
            of_file: of_file.clone(),
            applied,
        };
        let policies = Arc::new(Self {
            service: build(state.current())?,
            store: Arc::clone(store),
            turn: Mutex::default(),
            state: Mutex::new(state),
            version: AtomicU64::new(kept.version),
        });
        let this = Arc::downgrade(&policies);
        store.follow(OWNER, this as Weak<dyn Follower>);
        Ok(policies)
    }

    /// What serves by them.
    pub(super) const fn service(&self) -> &Service {
        &self.service
    }
}

impl Exchanged for Policies {
    fn reload(&self, by: &str, of_file: &PolicyFile) -> Result<(), Error> {
        let mut state = self.state.lock();
        if state.applied.is_none() {
            self.service.exchange(by, of_file)?;
        }
        state.of_file = of_file.clone();
        Ok(())
    }

    fn apply(
        &self,
        by: &str,
        (name, text): (&str, &str),
        policies: &PolicyFile,
    ) -> Result<Vec<Change>, String> {
        let Some(_alone) = self.turn.try_lock() else {
            return Err(
                "other policies are being applied in this namespace; nothing was \
                        changed: look at them with `tidegate policy plan`, then apply again"
                    .to_owned(),
            );
        };
        let kept = write(by, (name, text));
        let changes = self.service.exchange(by, policies);
        let changes = changes.map_err(|error| error.to_string())?;
        let defined = self.store.define(OWNER, Definition::new(KEY, kept.clone()));
        // Who follows has gone over to it before the store answers.
        if let Err(error) = block_on(defined) {
            let state = self.state.lock();
            if state
                .applied
                .as_ref()
                .is_some_and(|(told, _)| *told == kept)
            {
                return Ok(changes);
            }
            // What holds now, which another server or the file may have said since.
            let back = self.service.exchange("the server", state.current());
            let but = back
                .err()
                .map_or_else(String::new, |back| format!(", but for the store: {back}"));
            return Err(format!(
                "the store did not confirm: {error}; nothing was changed here, but other servers \
                 may have the new policies: look with `tidegate policy plan`, then apply again{but}"
            ));
        }
        Ok(changes)
    }
}

impl Follower for Policies {
    fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// What cannot be read, or cannot be gone over to, leaves what was in force in force.
    fn follow(&self, definitions: &Definitions) {
        let mut state = self.state.lock();
        if definitions.newer_than != self.version() {
            return;
        }
        self.version.store(definitions.version, Ordering::Release);
        let bytes = kept_policies(definitions);
        if bytes.is_none() && !definitions.whole {
            return;
        }
        let applied = match bytes {
            None => None,
            Some(bytes) => match read(&bytes) {
                Ok(file) => Some((bytes, file)),
                Err(wrong) => return unusable(&wrong),
            },
        };
        let new = applied.as_ref().map_or(&state.of_file, |(_, file)| file);
        match self.service.exchange("another server", new) {
            Ok(_) => state.applied = applied,
            Err(error) => {
                // It is tried again at the next look.
                let before = definitions.newer_than;
                self.version.store(before, Ordering::Release);
                unusable(&error.to_string());
            }
        }
    }
}

fn unusable(wrong: &str) {
    tracing::error!(
        error = %wrong,
        "cannot switch to the policies applied in a namespace; still serving the previous ones"
    );
}

/// What is kept under the one key.
fn kept_policies(definitions: &Definitions) -> Option<Vec<u8>> {
    let one = definitions.changed.iter().find(|one| one.key == KEY)?;
    one.value.clone()
}

fn write(by: &str, (name, text): (&str, &str)) -> Vec<u8> {
    let mut out = Writer::new(VERSION);
    out.some_text(Some(by));
    out.bytes(name.as_bytes());
    out.bytes(text.as_bytes());
    out.0
}

fn read(bytes: &[u8]) -> Result<PolicyFile, String> {
    let words = |bytes| {
        let mut reader = Reader::new(bytes, VERSION)?;
        let (_, name, text) = (reader.some_text()?, reader.text()?, reader.text()?);
        reader.end()?;
        Ok::<_, DecodeError>((name, text))
    };
    let (name, text) = words(bytes).map_err(|error| error.to_string())?;
    parse(&name, &text).map_err(|faults| format!("they are faulty:\n{faults}"))
}
