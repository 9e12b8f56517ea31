//! What an override is for.

use std::fmt;

use crate::error::ServiceError;
use crate::field::Field;
use tidegate::{BuildError, Key};
use tidegate_store::error::INVALID_CURSOR;

/// How much an override is about, the most specific first: of those that say
/// something of a limit, the first holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Level {
    /// One key in one policy.
    KeyAndPolicy,
    /// One key in every policy.
    Key,
    /// One policy.
    Policy,
    /// Every policy.
    Everything,
}

/// What an override is for: a key (or an ancestor of keys) or every one, in one
/// policy or in every one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[non_exhaustive]
pub struct OverrideTarget {
    /// The policy; `None`: every policy.
    pub policy: Option<String>,
    /// The key; `None`: every key.
    pub key: Option<Vec<u8>>,
}

impl OverrideTarget {
    /// The place that a request names; what is left out means every one.
    ///
    /// # Errors
    /// What is named and empty, or can be no key.
    pub fn read(policy: Option<&str>, key: Option<&[u8]>) -> Result<Self, ServiceError> {
        let mut target = Self::everything();
        if let Some(policy) = policy {
            if policy.is_empty() {
                return Err(ServiceError::Form {
                    field: Field::Policy,
                    wrong: "it is empty; leave it out to mean every policy",
                });
            }
            target = target.of_policy(policy);
        }
        if let Some(key) = key {
            Key::from(key).check().map_err(BuildError::from)?;
            target = target.of_key(key);
        }
        Ok(target)
    }

    /// The place that a listing's page ended at, as [`encode`](Self::encode) wrote it.
    ///
    /// # Errors
    /// [`ServiceError::Form`].
    pub fn after(cursor: &[u8]) -> Result<Self, ServiceError> {
        Self::decode(cursor).ok_or(ServiceError::Form {
            field: Field::Cursor,
            wrong: INVALID_CURSOR,
        })
    }

    /// Every key in every policy.
    #[must_use]
    pub fn everything() -> Self {
        Self::default()
    }

    /// The same, in the policy `policy` alone.
    #[must_use]
    pub fn of_policy(mut self, policy: impl Into<String>) -> Self {
        self.policy = Some(policy.into());
        self
    }

    /// The same, for the key `key` alone.
    #[must_use]
    pub fn of_key(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// How much it is about.
    #[must_use]
    pub const fn level(&self) -> Level {
        match (&self.key, &self.policy) {
            (Some(_), Some(_)) => Level::KeyAndPolicy,
            (Some(_), None) => Level::Key,
            (None, Some(_)) => Level::Policy,
            (None, None) => Level::Everything,
        }
    }

    /// Whether it is about the policy `name`.
    pub(super) fn concerns(&self, name: &str) -> bool {
        self.policy.as_deref().is_none_or(|policy| policy == name)
    }

    /// As a store keeps it, and as a listing's end may be written:
    /// `key? u8, length u32, key, policy? u8, policy`.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let key = self.key.as_deref().unwrap_or_default();
        let mut out = vec![u8::from(self.key.is_some())];
        out.extend((key.len() as u32).to_le_bytes());
        out.extend(key);
        out.push(u8::from(self.policy.is_some()));
        out.extend(self.policy.as_deref().unwrap_or_default().as_bytes());
        out
    }

    /// The place that [`encode`](Self::encode) wrote; `None` for other bytes.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (has_key, rest) = bytes.split_first()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let (has_policy, policy) = rest.split_first()?;
        let policy = std::str::from_utf8(policy).ok()?;
        Some(Self {
            policy: (*has_policy == 1).then(|| policy.to_owned()),
            key: (*has_key == 1).then(|| key.to_vec()),
        })
    }
}

impl Level {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::KeyAndPolicy => "key_and_policy",
            Self::Key => "key",
            Self::Policy => "policy",
            Self::Everything => "everything",
        }
    }
}

impl fmt::Display for OverrideTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.policy {
            Some(policy) => write!(f, "{policy}")?,
            None => write!(f, "every policy")?,
        }
        match &self.key {
            Some(key) => write!(f, "/{}", String::from_utf8_lossy(key)),
            None => Ok(()),
        }
    }
}
