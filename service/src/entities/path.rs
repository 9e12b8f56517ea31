//! An entity and its ancestors.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use tidegate::Key;
use tidegate_store::key::{escape, row_name};

use super::error::EntityError;
use crate::active_policy::ActivePolicy;

/// An entity and its ancestors, the root first; at most eight of them.
#[derive(Clone, PartialEq, Eq)]
pub struct EntityPath {
    ids: Vec<Arc<str>>,
    key: Vec<u8>,
    charge_parents: bool,
}

impl EntityPath {
    /// From the entity up to its root.
    pub(super) fn upward(mut ids: Vec<Arc<str>>, charge_parents: bool) -> Self {
        ids.reverse();
        let key = Key::entities(ids.iter().map(|id| id.as_bytes()));
        Self {
            ids,
            key,
            charge_parents,
        }
    }

    /// The ids, the root's first, its own last.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = &str> + ExactSizeIterator {
        self.ids.iter().map(|id| &**id)
    }

    /// The id of the root.
    #[must_use]
    pub fn root(&self) -> &str {
        self.ids.first().map_or("", |id| id)
    }

    /// Which level it is at: 1 for a root.
    #[must_use]
    pub const fn level(&self) -> usize {
        self.ids.len()
    }

    /// The key of its limits: the ids with `/` between them, and one in front if there are
    /// several.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The name of its row: its root and its id, wherever it stands.
    pub(crate) fn row(&self) -> Cow<'_, [u8]> {
        row_name(&self.key, self.level())
    }

    /// Whether this is the key of the entity, or of one below it, that stood where this does now.
    /// Of a root nobody is below it by that.
    pub(super) fn is_in(&self, key: &[u8]) -> bool {
        let mut id = Vec::new();
        escape(
            self.ids().next_back().unwrap_or_default().as_bytes(),
            &mut id,
        );
        key == self.key || key.split(|&byte| byte == b'/').nth(self.level()) == Some(&id)
    }

    /// What the keys of all that have this root begin with, but for its own.
    pub(super) fn beginning(&self) -> Vec<u8> {
        let mut beginning = vec![b'/'];
        escape(self.root().as_bytes(), &mut beginning);
        beginning.push(b'/');
        beginning
    }

    /// That it is at no deeper level than the keys of a policy: else none of its limits is its.
    ///
    /// # Errors
    /// [`EntityError::Unlimited`].
    pub(crate) fn check_reach(&self, active: &ActivePolicy) -> Result<(), EntityError> {
        let (level, levels) = (self.level(), active.policy().levels.len().max(1));
        match level <= levels {
            true => Ok(()),
            false => Err(EntityError::Unlimited {
                id: self.ids().next_back().unwrap_or_default().to_owned(),
                level,
                policy: active.policy().name.clone(),
                levels,
            }),
        }
    }

    /// That it is at the level of the keys of a policy, or above them where that takes such keys,
    /// too.
    ///
    /// # Errors
    /// [`EntityError::Unlimited`], [`EntityError::Above`].
    pub(crate) fn check_level(&self, active: &ActivePolicy) -> Result<(), EntityError> {
        self.check_reach(active)?;
        let (level, policy) = (self.level(), active.policy());
        match policy.levels.last() {
            Some(last) if level < policy.levels.len() && !policy.partial_keys => {
                Err(EntityError::Above {
                    id: self.ids().next_back().unwrap_or_default().to_owned(),
                    level,
                    policy: policy.name.clone(),
                    levels: policy.levels.len(),
                    last: last.clone(),
                })
            }
            _ => Ok(()),
        }
    }

    /// Whether its ancestors' limits count, too: they can refuse, and they are charged.
    #[must_use]
    pub const fn charges_parents(&self) -> bool {
        self.charge_parents
    }
}

impl fmt::Debug for EntityPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.key))
    }
}
