//! Why not, in terms that every protocol can say.

use std::borrow::Cow;
use std::time::Duration;

use super::entities::EntityError;
use super::field::Field;
use super::namespaces::NamespaceError;
use super::overrides::LimitFault;
use tidegate::{BuildError, Decision, DecisionError, Error, ErrorKind, LeaseError, Limit};
use tidegate::{NoLeaseId, RequestError, StoreError, UnknownMember};
use tidegate_policy::{EVERY_NAMESPACE, Scope};

/// What a protocol may have to say instead of an answer. Nothing was changed, but for what a store
/// could not tell ([`Kind::Unavailable`]): that may have been done.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// No token where one is needed.
    #[error("a valid token is needed: send `Authorization: Bearer TOKEN` (in RESP: AUTH TOKEN)")]
    Unauthenticated,
    /// A token that there is not, or not any more.
    #[error(
        "the token that was sent is not known to this server: it may be misspelt, removed, or of \
         another server"
    )]
    UnknownToken,
    /// A token without the scope, or for other policies.
    #[error(
        "the token `{token}` may not {scope} here: that takes the scope `{scope}` for {}{}",
        reach(policy.as_deref()),
        only(own)
    )]
    Forbidden {
        /// The token's name.
        token: String,
        /// What it would need.
        scope: Scope,
        /// Of which policy; `None` of all of them.
        policy: Option<String>,
        /// The policies that it has the scope for; none if it lacks the scope.
        own: Vec<String>,
    },
    /// A token for another namespace: whether there is that one is not said.
    #[error(
        "the token `{token}` is for {}, not for {}; {}",
        space(own),
        space(namespace),
        token_for(namespace)
    )]
    OtherNamespace {
        /// The token's name.
        token: String,
        /// The namespace that it is for.
        own: String,
        /// The one that it would have to be for; `*`: every one.
        namespace: String,
    },
    /// A namespace is not there, or does not change.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// No policy of that name.
    #[error("there is no policy `{name}`; there is {known}")]
    UnknownPolicy {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// Too much at once: come again.
    #[error("{0}")]
    Busy(Crowded),
    /// Whoever looked at it to change it was always outrun by somebody else's change of it.
    #[error("{what} was changed by others each time that this change was tried; try again")]
    Outrun {
        /// What: an override, an entity.
        what: String,
    },
    /// A wait longer than anyone may wait here.
    #[error(
        "a request may wait {longest:?} at most here, not {requested:?}; wait {longest:?} or less, or raise `longest_wait` in `[server]`"
    )]
    WaitTooLong {
        /// How long it was to be.
        requested: Duration,
        /// How long it may be.
        longest: Duration,
    },
    /// A number that is out of its bounds.
    #[error("`{field}` is from {least} to {most}, not {found}")]
    Bound {
        /// What it is about.
        field: Field,
        /// The least that it may be.
        least: u64,
        /// The most that it may be.
        most: u64,
        /// What it is.
        found: u64,
    },
    /// A part of a request that is not what it has to be.
    #[error("`{field}`: {wrong}")]
    Form {
        /// Which.
        field: Field,
        /// What it has to be.
        wrong: &'static str,
    },
    /// The keys of the policy have no level of that name.
    #[error("`level`: the policy's keys have no level `{name}`; there is {known}")]
    UnknownLevel {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A part of a request that has to be there.
    #[error("`{0}` is missing")]
    Missing(Field),
    /// Rates that come with the call are bounded.
    #[error("there are {0} different rates already; use a policy, or fewer different numbers")]
    TooManyRates(usize),
    /// Everything that is wrong with an override.
    #[error("{}", all(.0))]
    Override(Vec<BuildError>),
    /// Everything that is wrong with an override that was given field by field.
    #[error("{}", all(.0))]
    FaultyOverride(Vec<LimitFault>),
    /// Something was to be changed only as it was at another version.
    #[error("{}", conflict(what, *version, *removes))]
    Conflict {
        /// What: an override, an entity.
        what: String,
        /// The version that is there; nothing if it is not there.
        version: Option<u64>,
        /// Whether it was to be removed.
        removes: bool,
    },
    /// An entity is not there, or does not change.
    #[error(transparent)]
    Entity(#[from] EntityError),
    /// A pool was told what was used, and not where.
    #[error("`member` is missing: the policy is a pool; there is {0}")]
    MemberNeeded(String),
    /// A member was named where there is no pool.
    #[error("the policy is not a pool; leave `member` and `cool_down_ms` out")]
    NoPool,
    /// A cost for rates that count different units.
    #[error(
        "limits `{one}` and `{other}` have different units, so that one cost cannot be of both; name their amounts instead"
    )]
    CostOfUnits {
        /// A rate that the cost would be of.
        one: String,
        /// Another one, whose unit is another.
        other: String,
    },
    /// More than a limit ever grants at once.
    #[error("never: {limit} grants at most {most} at once; ask for less, or raise the limit")]
    Never {
        /// Its name.
        limit: String,
        /// The most that it grants, in its unit.
        most: String,
    },
    /// What the limits say. A name that was asked for and is longer than 128 bytes is cut.
    #[error(transparent)]
    Limits(Error),
}

/// Which bound of a server is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Crowded {
    /// The connections of all.
    #[error("too many connections are open; close some, or raise `max_connections` in `[server]`")]
    Connections,
    /// The requests of all.
    #[error(
        "too many requests at once; try again after a pause, or raise `max_in_flight` in `[server]`"
    )]
    Requests,
    /// What one token may have of the requests, connections or streams.
    #[error(
        "this token already uses half of what the server has, the most that one token may; send \
         fewer at once"
    )]
    OfToken,
    /// The streams, of all or of one connection.
    #[error("too many streams are open; close some")]
    Streams,
    /// The rates and namespaces that are being opened in a store.
    #[error(
        "the server is opening too many new rates or namespaces in its store; try again after a \
         pause"
    )]
    Opening,
}

fn reach(policy: Option<&str>) -> String {
    policy.map_or("all policies".into(), |policy| {
        format!("the policy `{}`", cut(policy))
    })
}

/// What a token is for that has the scope, and not for what was asked.
fn only(own: &[String]) -> String {
    match own {
        [] => String::new(),
        own => format!("; it has that for `{}`", cut(&own.join("`, `"))),
    }
}

/// How to come by a token for a namespace.
fn token_for(namespace: &str) -> String {
    match namespace {
        EVERY_NAMESPACE => "`tidegate token NAME --namespace '*'` makes one that is".to_owned(),
        _ => "ask for the namespace that it is for, or use another token".to_owned(),
    }
}

fn space(name: &str) -> String {
    match name {
        EVERY_NAMESPACE => "every namespace".to_owned(),
        name => format!("the namespace `{name}`"),
    }
}

fn conflict(what: &str, version: Option<u64>, removes: bool) -> String {
    let verb = if removes { "remove" } else { "change" };
    match version {
        Some(version) => format!(
            "{what} is at version {version} now; read it again, and {verb} it on that version"
        ),
        None if removes => format!("{what} is not there now; there is nothing to remove"),
        None => format!("{what} is not there now; set it without a version"),
    }
}

/// How much of a name an error repeats, in bytes.
const LONGEST_NAME: usize = 128;

/// Whether what failed may be done once the store answers, or has room.
#[must_use]
pub const fn is_store_away(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Busy)
}

/// A name that somebody has sent, as an error repeats it: a long one is cut. (An answer of
/// many kilobytes fits no head of HTTP/2.)
pub(super) fn cut(name: &str) -> Cow<'_, str> {
    match name.len() <= LONGEST_NAME {
        true => name.into(),
        false => format!("{}...", &name[..name.floor_char_boundary(LONGEST_NAME)]).into(),
    }
}

impl From<Error> for ServiceError {
    fn from(mut error: Error) -> Self {
        match &mut error {
            Error::Request(
                RequestError::UnknownLimit { name, .. }
                | RequestError::NamedTwice(name)
                | RequestError::Amount { limit: name, .. },
            )
            | Error::UnknownMember(UnknownMember { name, .. })
                if name.len() > LONGEST_NAME =>
            {
                *name = cut(name).into_owned();
            }
            _ => {}
        }
        Self::Limits(error)
    }
}

/// Each of the library's errors is one of the limits.
macro_rules! of_the_limits {
    ($($error:ty),*) => {
        $(impl From<$error> for ServiceError {
            fn from(error: $error) -> Self {
                Error::from(error).into()
            }
        })*
    };
}

of_the_limits!(
    BuildError,
    DecisionError,
    LeaseError,
    RequestError,
    StoreError,
    UnknownMember
);

/// The kinds of [`ServiceError`], for a protocol's own codes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Say who you are (HTTP 401).
    Unauthenticated,
    /// You may not (403).
    Forbidden,
    /// There is no such thing (404).
    NotFound,
    /// The request makes no sense (400).
    Invalid,
    /// It can never be granted (422).
    Never,
    /// The lease has ended (409).
    Ended,
    /// Somebody else has changed it first (412).
    Conflict,
    /// Others depend on it as it is (409).
    InUse,
    /// The namespace is deleted (410).
    Deleted,
    /// Too much at once (503).
    Busy,
    /// The policy, or the root of the key, holds as many keys or leases as it may
    /// (503: a 429 would say that a limit refuses, and until when).
    Full,
    /// The store cannot tell (503).
    Unavailable,
}

impl Kind {
    /// Every one.
    pub const ALL: [Self; 12] = [
        Self::Unauthenticated,
        Self::Forbidden,
        Self::NotFound,
        Self::Invalid,
        Self::Never,
        Self::Ended,
        Self::Conflict,
        Self::InUse,
        Self::Deleted,
        Self::Busy,
        Self::Full,
        Self::Unavailable,
    ];
}

impl From<ErrorKind> for Kind {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::Ended => Self::Ended,
            ErrorKind::Never => Self::Never,
            ErrorKind::Busy => Self::Busy,
            ErrorKind::Full => Self::Full,
            ErrorKind::Unavailable => Self::Unavailable,
            // `Invalid`, and what is added to it.
            _ => Self::Invalid,
        }
    }
}

/// A decision, or that what is asked for is never granted: every protocol says that as an
/// error, for to ask again would be of no use.
///
/// # Errors
/// [`ServiceError::Never`].
pub(super) fn or_never(decision: Decision) -> Result<Decision, ServiceError> {
    if !decision.is_never() {
        return Ok(decision);
    }
    let limit = decision.binding().unwrap_or_default();
    let unit = decision
        .limit(limit)
        .map(Limit::amounts)
        .unwrap_or_default();
    let most = unit.show(decision.most_at_once().unwrap_or(0));
    Err(ServiceError::Never {
        limit: limit.to_owned(),
        most: most.to_string(),
    })
}

impl From<NoLeaseId> for ServiceError {
    fn from(_: NoLeaseId) -> Self {
        Self::Form {
            field: Field::Lease,
            wrong: "a lease's id has 32 hexadecimal digits",
        }
    }
}

impl ServiceError {
    /// The part of a request that is not as it has to be, or names what there is not.
    #[must_use]
    pub const fn field(&self) -> Option<Field> {
        match self {
            Self::Bound { field, .. } | Self::Form { field, .. } | Self::Missing(field) => {
                Some(*field)
            }
            Self::WaitTooLong { .. } => Some(Field::Wait),
            Self::UnknownLevel { .. } => Some(Field::Level),
            Self::Limits(Error::Request(RequestError::Key(_))) => Some(Field::Key),
            Self::Limits(Error::Request(RequestError::LeaseLength(_))) => Some(Field::Ttl),
            Self::Limits(Error::Request(RequestError::IdempotencyKey(_))) => {
                Some(Field::Idempotency)
            }
            Self::Limits(Error::Store(StoreError::UnknownPage)) => Some(Field::Cursor),
            Self::Limits(Error::UnknownLease) => Some(Field::Lease),
            Self::UnknownPolicy { .. } => Some(Field::Policy),
            Self::Entity(EntityError::Unknown(_)) => Some(Field::Entity),
            Self::Namespace(NamespaceError::Unknown(_)) => Some(Field::Namespace),
            _ => None,
        }
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Unauthenticated | Self::UnknownToken => Kind::Unauthenticated,
            Self::Forbidden { .. } | Self::OtherNamespace { .. } => Kind::Forbidden,
            Self::Namespace(error) => of_namespace(error),
            Self::UnknownPolicy { .. } => Kind::NotFound,
            Self::Busy(_) | Self::Outrun { .. } | Self::TooManyRates(_) => Kind::Busy,
            Self::WaitTooLong { .. }
            | Self::Bound { .. }
            | Self::Form { .. }
            | Self::Missing(_)
            | Self::UnknownLevel { .. }
            | Self::MemberNeeded(_)
            | Self::NoPool
            | Self::CostOfUnits { .. }
            | Self::Override(_)
            | Self::FaultyOverride(_) => Kind::Invalid,
            Self::Conflict { .. } => Kind::Conflict,
            Self::Entity(error) => of_entity(error),
            Self::Never { .. } => Kind::Never,
            Self::Limits(error) => error.kind().into(),
        }
    }
}

const fn of_entity(error: &EntityError) -> Kind {
    match error {
        EntityError::Unknown(_) => Kind::NotFound,
        EntityError::Exists { .. } => Kind::Conflict,
        EntityError::HasChildren { .. } | EntityError::HasLeases { .. } => Kind::InUse,
        EntityError::Cycle { .. }
        | EntityError::TooDeep { .. }
        | EntityError::OtherRoot { .. }
        | EntityError::OtherLevel { .. }
        | EntityError::Unlimited { .. }
        | EntityError::Above { .. }
        | EntityError::Orphan { .. }
        | EntityError::NoChange
        | EntityError::Endless(_) => Kind::Invalid,
    }
}

const fn of_namespace(error: &NamespaceError) -> Kind {
    match error {
        NamespaceError::Unknown(_) => Kind::NotFound,
        NamespaceError::Exists { .. } => Kind::Conflict,
        NamespaceError::Deleted(_) | NamespaceError::Purging(_) => Kind::Deleted,
        NamespaceError::NotDeleted(_) | NamespaceError::TooSoon { .. } => Kind::InUse,
        NamespaceError::TooMany => Kind::Full,
        NamespaceError::Unkept => Kind::Invalid,
        NamespaceError::Unreadable(_) => Kind::Unavailable,
    }
}

fn all(errors: &[impl ToString]) -> String {
    let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

impl Kind {
    /// A word for it that never changes: for programs.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Unauthenticated => "unauthenticated",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::Invalid => "invalid",
            Self::Never => "never",
            Self::Ended => "lease_ended",
            Self::Conflict => "conflict",
            Self::InUse => "in_use",
            Self::Deleted => "namespace_deleted",
            Self::Busy => "busy",
            Self::Full => "full",
            Self::Unavailable => "unavailable",
        }
    }
}
