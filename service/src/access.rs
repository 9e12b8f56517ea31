//! Tokens, scopes, and the policies they are for.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};
use subtle::ConstantTimeEq;

use tidegate_policy::{Credential, EVERY_NAMESPACE, Scope};

use super::error::{ServiceError, cut};
use super::namespaces::{DEFAULT, check_name};

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
        let found = found.ok_or(ServiceError::UnknownToken)?;
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
                Some(Arc::clone(found.ok_or(ServiceError::UnknownToken)?))
            }
        };
        let readmitted = Caller {
            origin: caller.origin,
            ..Caller::new(token)
        };
        match &caller.namespace {
            // Chosen before: if it may be no longer, it comes in anew.
            Some(namespace) => readmitted
                .at(Some(namespace))
                .map_err(|_| ServiceError::Unauthenticated),
            None => Ok(readmitted),
        }
    }
}

/// The tokens of a server as they are now: one for its service and those of its namespaces, so
/// that a token that is replaced is replaced everywhere.
#[derive(Debug, Default)]
pub(super) struct Entrance {
    credentials: ArcSwap<Credentials>,
    /// How often they were replaced.
    generation: AtomicU64,
}

impl Entrance {
    /// These tokens, until others replace them.
    pub(super) fn new(credentials: Credentials) -> Self {
        Self {
            credentials: ArcSwap::from_pointee(credentials),
            generation: AtomicU64::new(0),
        }
    }

    /// The tokens, as of now.
    pub(super) fn now(&self) -> Guard<Arc<Credentials>> {
        self.credentials.load()
    }

    /// Lets in who has one of these tokens, from now on; whether they are others.
    pub(super) fn replace(&self, credentials: Credentials) -> bool {
        let others = **self.credentials.load() != credentials;
        self.credentials.store(Arc::new(credentials));
        self.generation.fetch_add(1, Ordering::Release);
        others
    }

    /// A number that grows whenever they are replaced.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
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
    /// In which namespace they act; where there is none, in the store without any.
    namespace: Option<Arc<str>>,
}

impl Caller {
    /// In the namespace that the token is for, if that is one.
    fn new(token: Option<Arc<Credential>>) -> Self {
        let own = token.as_ref().and_then(|token| token.namespace.as_deref());
        Self {
            namespace: own.filter(|own| *own != EVERY_NAMESPACE).map(Into::into),
            token,
            origin: None,
        }
    }

    /// The same in the namespace called `name`, or in the one that the token is for.
    ///
    /// # Errors
    /// [`ServiceError::OtherNamespace`], whether there is such a namespace or not; what can be no
    /// name.
    pub fn at(mut self, name: Option<&str>) -> Result<Self, ServiceError> {
        let Some(name) = name else {
            return Ok(self);
        };
        let is_for = match self.token.as_ref().map(|token| token.namespace.as_deref()) {
            None | Some(Some(EVERY_NAMESPACE)) => true,
            Some(own) => own.unwrap_or(DEFAULT) == name,
        };
        if !is_for {
            return Err(self.other_namespace(name));
        }
        self.namespace = match name {
            DEFAULT => None,
            name => {
                check_name(name)?;
                Some(name.into())
            }
        };
        Ok(self)
    }

    /// In which namespace they act; `None`: in the store without any.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Checks that they may do what is about every namespace, and about all policies.
    ///
    /// # Errors
    /// [`ServiceError::OtherNamespace`], [`ServiceError::Forbidden`].
    pub fn check_every_namespace(&self, scope: Scope) -> Result<(), ServiceError> {
        match self.is_for_every_namespace() {
            true => self.check(scope, None),
            false => Err(self.other_namespace(EVERY_NAMESPACE)),
        }
    }

    /// Checks that they may see what is of the server and not of one namespace.
    ///
    /// # Errors
    /// [`ServiceError::OtherNamespace`].
    pub fn check_server(&self) -> Result<(), ServiceError> {
        let own = self
            .token
            .as_ref()
            .and_then(|token| token.namespace.as_deref());
        match own {
            None | Some(EVERY_NAMESPACE) => Ok(()),
            Some(_) => Err(self.other_namespace(DEFAULT)),
        }
    }

    pub(super) fn is_for_every_namespace(&self) -> bool {
        let token = self.token.as_ref();
        token.is_none_or(|token| token.namespace.as_deref() == Some(EVERY_NAMESPACE))
    }

    pub(super) fn other_namespace(&self, name: &str) -> ServiceError {
        let own = self
            .token
            .as_ref()
            .and_then(|token| token.namespace.clone());
        ServiceError::OtherNamespace {
            token: self.name().to_owned(),
            own: own.unwrap_or_else(|| DEFAULT.to_owned()),
            namespace: cut(name).into_owned(),
        }
    }

    /// The same, who comes from there.
    #[must_use]
    pub fn coming_from(mut self, origin: Origin) -> Self {
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

    /// Checks that they may with some policy: then what they are told is of those alone.
    ///
    /// # Errors
    /// [`ServiceError::Forbidden`].
    pub(super) fn check_some(&self, scope: Scope) -> Result<(), ServiceError> {
        let token = self.token.as_ref();
        let first = token.and_then(|token| token.policies.first());
        self.check(scope, first.map(String::as_str))
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
            own: match token.scopes.contains(&scope) {
                true => token.policies.clone(),
                false => Vec::new(),
            },
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
            namespace: None,
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
        let own = "; it has that for `chat`";
        assert!(said(None).ends_with(&format!("the scope `observe` for all policies{own}")));
        let web = said(Some("web"));
        assert!(web.ends_with(&format!("the scope `observe` for the policy `web`{own}")));
        let refused = caller.check(Scope::Decide, Some("chat")).unwrap_err();
        assert!(
            refused
                .to_string()
                .ends_with("the scope `decide` for the policy `chat`")
        );
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
    fn a_token_is_for_one_namespace_unless_it_is_for_each() {
        let of = |namespace: Option<&str>| {
            let token = Credential {
                namespace: namespace.map(str::to_owned),
                ..credential(&Scope::ALL, &[])
            };
            Credentials::new([token]).identify(Some(b"secret")).unwrap()
        };
        let at = |own: Option<&str>, name| {
            let at = of(own).at(Some(name));
            at.map(|caller| caller.namespace().map(str::to_owned))
        };
        let named = |name: &str| Ok(Some(name.to_owned()));
        assert_eq!(of(Some("a")).namespace(), Some("a"));
        assert_eq!(at(Some("a"), "a"), named("a"));
        for (own, other) in [
            (Some("a"), "ab"),
            (Some("ab"), "a"),
            (Some("a"), "default"),
            (None, "a"),
        ] {
            let refused = at(own, other).unwrap_err();
            assert!(matches!(refused, ServiceError::OtherNamespace { .. }));
        }
        assert_eq!(at(None, "default"), Ok(None));
        assert_eq!(at(Some("*"), "default"), Ok(None));
        assert_eq!(at(Some("*"), "a"), named("a"));
        assert!(at(Some("*"), "a/b").is_err());
        let every = |own| of(own).check_every_namespace(Scope::Administer).is_ok();
        assert_eq!(
            [every(None), every(Some("a")), every(Some("*"))],
            [false, false, true]
        );
        let server = |own| of(own).check_server().is_ok();
        assert_eq!(
            [server(None), server(Some("a")), server(Some("*"))],
            [true, false, true]
        );
    }

    #[test]
    fn who_chose_a_namespace_stays_there_as_long_as_the_token_may() {
        let token = |namespace: &str| Credential {
            namespace: Some(namespace.to_owned()),
            ..credential(&Scope::ALL, &[])
        };
        let every = Credentials::new([token("*")]);
        let caller = every.identify(Some(b"secret")).unwrap();
        let caller = caller.at(Some("a")).unwrap();
        let again = every.readmit(&caller).unwrap();
        assert_eq!(again.namespace(), Some("a"));
        assert!(Credentials::new([token("b")]).readmit(&caller).is_err());
        let bound = Credentials::new([token("a")]).readmit(&caller).unwrap();
        assert_eq!(bound.namespace(), Some("a"));
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
