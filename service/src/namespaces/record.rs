//! What is kept of a namespace.
//!
//! ```text
//! version u8 = 1, state u8, id u64, created_at?, changed_at?, by?
//! ```

use tidegate_core::{DecodeError, Timestamp};
use tidegate_policy::wrong_namespace;
use tidegate_store::Definition;

use super::state::NamespaceState;
use crate::bounds;
use crate::bytes::{Reader, Writer};
use crate::error::ServiceError;
use crate::field::Field;

const VERSION: u8 = 1;

/// As whom the store knows namespaces, and the events of their changes.
pub(crate) const OWNER: &str = "namespaces";

/// What is no namespace of a store, but the store without any.
pub(crate) const DEFAULT: &str = tidegate_policy::DEFAULT_NAMESPACE;

/// A namespace that is there.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Namespace {
    /// Its name.
    pub name: String,
    /// Of its last change: it is never 0.
    pub version: u64,
    /// How it is.
    pub state: NamespaceState,
    /// When it was created, by the clock of the server that was asked.
    pub created_at: Option<Timestamp>,
    /// When it was created, deleted, restored, or began to be purged, last.
    pub changed_at: Option<Timestamp>,
    /// The name of the token that changed it last.
    pub by: Option<String>,
    /// Under which its things are kept: never that of another.
    pub(super) id: u64,
}

/// What a call to purge a namespace has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Purge {
    /// How many items it removed, as the store counts them.
    pub removed: u64,
    /// Whether nothing is left. If not, the next call goes on.
    pub is_done: bool,
}

impl Namespace {
    /// As a store keeps it.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new(VERSION);
        out.0.push(self.state.number());
        out.0.extend(self.id.to_le_bytes());
        out.some_instant(self.created_at);
        out.some_instant(self.changed_at);
        out.some_text(self.by.as_deref());
        out.0
    }

    /// What a store has kept under a name; nothing if that is nothing.
    ///
    /// # Errors
    /// What no version wrote, or only a newer one.
    pub(super) fn read(definition: &Definition) -> Result<Option<Self>, DecodeError> {
        let Some(value) = definition.value.as_deref() else {
            return Ok(None);
        };
        let name = str::from_utf8(&definition.key);
        let name = name.map_err(|_| DecodeError::Corrupt("namespace's name"))?;
        let mut reader = Reader::new(value, VERSION)?;
        let state = NamespaceState::of_number(reader.byte()?);
        let id = reader.u64()?;
        let (created_at, changed_at) = (reader.some_instant()?, reader.some_instant()?);
        let by = reader.some_text()?;
        reader.end()?;
        Ok(Some(Self {
            name: name.to_owned(),
            version: definition.version,
            state: state.ok_or(DecodeError::Corrupt("namespace's state"))?,
            created_at,
            changed_at,
            by,
            id,
        }))
    }

    /// What the store calls it.
    pub(super) fn stored_name(&self) -> String {
        stored_name(self.id)
    }
}

/// What the store calls the namespace of this id: 16 digits.
pub(super) fn stored_name(id: u64) -> String {
    format!("{id:016x}")
}

/// That it can be a namespace's name.
///
/// # Errors
/// [`ServiceError::Form`]: 1 to 64 letters, digits, `.`, `_` and `-`, a letter or digit first; not
/// `default`.
pub(crate) fn check_name(name: &str) -> Result<(), ServiceError> {
    bounds::fits(Field::Namespace, wrong_namespace(name))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_kept_is_read_as_it_was_written(
            state in 1..=3_u8,
            id in any::<u64>(),
            instants in any::<[Option<i64>; 2]>(),
            by in proptest::option::of(".{0,9}"),
        ) {
            let [created_at, changed_at] = instants.map(|at| at.map(Timestamp::from_micros));
            let state = NamespaceState::of_number(state).unwrap();
            let name = "acme".to_owned();
            let kept = Namespace { name, version: 7, state, created_at, changed_at, by, id };
            let bytes = kept.encode();
            for end in 0..bytes.len() {
                let cut = Definition::new("acme", &bytes[..end]);
                prop_assert!(Namespace::read(&cut).is_err());
            }
            let read = Namespace::read(&Definition::new("acme", bytes).at_version(7));
            prop_assert_eq!(read, Ok(Some(kept)));
        }
    }

    #[test]
    fn a_name_is_short_and_plain_and_not_the_defaults() {
        for name in ["a", "Acme-2.eu_1", &"n".repeat(64)] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        let long = "n".repeat(65);
        for name in [
            "", "default", "*", "a/b", "a b", "-a", ".", "\u{e4}", "a\n", &long,
        ] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
