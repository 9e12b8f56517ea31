//! A token, as a server's file says it.
//!
//! A token is kept as its SHA-256: it has enough random bits of its own
//! (`tidegate token` makes 256) that a slow hash would add nothing.

use sha2::{Digest, Sha256};

use super::scope::Scope;

/// A token that lets somebody in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Credential {
    /// What logs call it.
    pub name: String,
    /// The SHA-256 of the token, which is visible ASCII without spaces: one that is not
    /// lets nobody in.
    pub sha256: [u8; 32],
    /// What it is good for.
    pub scopes: Vec<Scope>,
    /// For which policies: names, or beginnings of names with a `*` at the
    /// end; for all if empty.
    pub policies: Vec<String>,
}

impl Credential {
    /// The hash to keep of a token.
    #[must_use]
    pub fn hash(token: impl AsRef<[u8]>) -> [u8; 32] {
        Sha256::digest(token).into()
    }

    /// Whether it is for the policy of that name.
    #[must_use]
    pub fn is_for(&self, policy: &str) -> bool {
        let matches = |pattern: &String| match pattern.strip_suffix('*') {
            Some(beginning) => policy.starts_with(beginning),
            None => pattern == policy,
        };
        self.policies.is_empty() || self.policies.iter().any(matches)
    }
}
