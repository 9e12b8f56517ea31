//! Tokens, scopes, and the policies they are for.

use std::net::SocketAddr;
use std::sync::Arc;

use subtle::ConstantTimeEq;

use tidegate_policy::{Credential, Scope};

use super::error::ServiceError;

/// Who is let in: everyone while there is no token, and nobody without one
/// from then on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Credentials(Vec<Arc<Credential>>);

impl Credentials {
    /// These tokens.
    pub(super) fn new(credentials: impl IntoIterator<Item = Credential>) -> Self {
        Self(credentials.into_iter().map(Arc::new).collect())
    }

    /// Whether everyone is let in.
    pub(super) fn is_open(&self) -> bool {
        self.0.is_empty()
    }

    /// Whose token it is. Every one is compared in full, so that the time it
    /// takes tells nothing. One with other bytes than visible ASCII is nobody's: not every
    /// protocol could carry it.
    pub(super) fn identify(&self, token: Option<&[u8]>) -> Result<Caller, ServiceError> {
        if self.is_open() {
            return Ok(Caller::new(None));
        }
        let token = token.filter(|token| token.iter().all(u8::is_ascii_graphic));
        let hash = Credential::hash(token.ok_or(ServiceError::Unauthenticated)?);
        let mut found = None;
        for credential in &self.0 {
            if bool::from(credential.sha256.ct_eq(&hash)) {
                found = Some(credential);
            }
        }
        let found = found.ok_or(ServiceError::Unauthenticated)?;
        Ok(Caller::new(Some(Arc::clone(found))))
    }

    /// The same caller by these tokens.
    pub(super) fn readmit(&self, caller: &Caller) -> Result<Caller, ServiceError> {
        let token = match &caller.token {
            _ if self.is_open() => None,
            None => return Err(ServiceError::Unauthenticated),
            Some(token) => {
                let mut known = self.0.iter();
                let found = known.find(|known| known.sha256 == token.sha256);
                Some(Arc::clone(found.ok_or(ServiceError::Unauthenticated)?))
            }
        };
        Ok(Caller {
            token,
            origin: caller.origin,
        })
    }
}

/// Where somebody comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin {
    /// By which protocol: `http`, `grpc` or `resp`.
    pub protocol: &'static str,
    /// The address at the other end of the connection: a proxy's, if there is one between.
    pub peer: Option<SocketAddr>,
}

/// Somebody who was let in.
#[derive(Clone, Debug)]
pub struct Caller {
    token: Option<Arc<Credential>>,
    origin: Option<Origin>,
}

impl Caller {
    const fn new(token: Option<Arc<Credential>>) -> Self {
        Self {
            token,
            origin: None,
        }
    }

    /// The same, who comes from there.
    #[must_use]
    pub const fn coming_from(mut self, origin: Origin) -> Self {
        self.origin = Some(origin);
        self
    }

    /// Where they come from, if it was said.
    #[must_use]
    pub const fn origin(&self) -> Option<Origin> {
        self.origin
    }

    /// What logs call them.
    #[must_use]
    pub fn name(&self) -> &str {
        self.token.as_ref().map_or("anyone", |token| &token.name)
    }

    /// The token's name; `None` where there are no tokens.
    #[must_use]
    pub fn token(&self) -> Option<&str> {
        self.token.as_ref().map(|token| &*token.name)
    }

    /// Checks that they may, with this policy or (`None`) with all of them.
    ///
    /// # Errors
    /// [`ServiceError::Forbidden`].
    pub fn check(&self, scope: Scope, policy: Option<&str>) -> Result<(), ServiceError> {
        let Some(token) = &self.token else {
            return Ok(());
        };
        let covers = match policy {
            Some(policy) => token.is_for(policy),
            None => token.policies.is_empty(),
        };
        if covers && token.scopes.contains(&scope) {
            return Ok(());
        }
        Err(ServiceError::Forbidden {
            token: token.name.clone(),
            scope,
            policy: policy.map(str::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credential(scopes: &[Scope], policies: &[&str]) -> Credential {
        Credential {
            name: "t".into(),
            sha256: Credential::hash("secret"),
            scopes: scopes.to_vec(),
            policies: policies.iter().map(|&p| p.to_owned()).collect(),
        }
    }

    #[test]
    fn without_tokens_everyone_may_and_with_one_nobody_else() {
        let open = Credentials::default().identify(None).unwrap();
        assert!(open.check(Scope::Administer, None).is_ok());
        let closed = Credentials::new([credential(&Scope::ALL, &[])]);
        assert!(closed.identify(None).is_err());
        assert!(closed.identify(Some(b"guess")).is_err());
        assert!(closed.identify(Some(b"secret")).is_ok());
    }

    #[test]
    fn who_may_not_is_told_the_scope_and_the_policies_that_it_takes() {
        let tokens = Credentials::new([credential(&[Scope::Observe], &["chat"])]);
        let caller = tokens.identify(Some(b"secret")).unwrap();
        let said = |policy| {
            let refused = caller.check(Scope::Observe, policy);
            refused.unwrap_err().to_string()
        };
        assert!(said(None).ends_with("the scope `observe` for all policies"));
        assert!(said(Some("web")).ends_with("the scope `observe` for the policy `web`"));
    }

    /// A RESP client could have a token that was refused over HTTP and gRPC.
    #[test]
    fn a_token_is_of_visible_ascii_whoever_sends_it() {
        for odd in ["p\u{e4}ssword", " spaced ", "a b", "tab\t", "nul\0"] {
            let token = Credential {
                sha256: Credential::hash(odd),
                ..credential(&Scope::ALL, &[])
            };
            let tokens = Credentials::new([token]);
            assert!(tokens.identify(Some(odd.as_bytes())).is_err(), "{odd:?}");
        }
    }

    #[test]
    fn whoever_came_in_before_the_tokens_were_replaced_is_looked_at_again() {
        let anyone = Credentials::default().identify(None).unwrap();
        let all = Credentials::new([credential(&Scope::ALL, &[])]);
        let caller = all.identify(Some(b"secret")).unwrap();
        let fewer = Credentials::new([credential(&[Scope::Observe], &[])]);
        assert!(fewer.readmit(&anyone).is_err());
        let caller = fewer.readmit(&caller).unwrap();
        assert!(caller.check(Scope::Decide, None).is_err());
        let mut other = credential(&Scope::ALL, &[]);
        other.sha256 = Credential::hash("other");
        assert!(Credentials::new([other]).readmit(&caller).is_err());
        assert!(Credentials::default().readmit(&caller).is_ok());
    }

    #[test]
    fn a_token_is_good_for_its_scopes_and_policies_only() {
        let tokens = Credentials::new([credential(&[Scope::Decide], &["chat", "web-*"])]);
        let caller = tokens.identify(Some(b"secret")).unwrap();
        for policy in ["chat", "web-", "web-eu"] {
            assert!(caller.check(Scope::Decide, Some(policy)).is_ok());
            assert!(caller.check(Scope::Administer, Some(policy)).is_err());
        }
        for policy in ["chats", "web", "other"] {
            assert!(caller.check(Scope::Decide, Some(policy)).is_err());
        }
        assert!(caller.check(Scope::Decide, None).is_err());
    }
}
