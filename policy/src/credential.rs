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
    /// For which namespace: the store without any if not said, each if it is `*`.
    pub namespace: Option<String>,
}

/// What the store without any namespace is called.
pub const DEFAULT_NAMESPACE: &str = "default";

/// What a token is for that is for every namespace.
pub const EVERY_NAMESPACE: &str = "*";

/// The longest name of a namespace, in bytes.
pub const LONGEST_NAMESPACE: usize = 64;

/// Why `name` can be no namespace's.
#[must_use]
pub fn wrong_namespace(name: &str) -> Option<&'static str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let begins = name
        .bytes()
        .next()
        .is_some_and(|first| first.is_ascii_alphanumeric());
    if name == DEFAULT_NAMESPACE {
        return Some("`default` is what the store without any namespace is called");
    }
    match begins && name.len() <= LONGEST_NAMESPACE && name.bytes().all(is_plain) {
        true => None,
        false => Some(
            "a namespace's name has 1 to 64 letters, digits, `.`, `_` and `-`, a letter or a digit \
             first",
        ),
    }
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

    /// The policies that it names one by one, not by how their names begin.
    pub fn whole_names(&self) -> impl Iterator<Item = &str> {
        let names = self.policies.iter();
        names
            .filter(|name| !name.ends_with('*'))
            .map(String::as_str)
    }
}
