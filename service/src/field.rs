//! What a request says, by names that every protocol has words for.

use std::fmt;

/// A part of a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Field {
    /// Which policy.
    Policy,
    /// Which namespace.
    Namespace,
    /// Whose limits.
    Key,
    /// Whose limits: an entity, by its id.
    Entity,
    /// The id of an entity that is created or changed.
    Id,
    /// To whom an entity belongs.
    Parent,
    /// What people call an entity.
    Name,
    /// The words of an entity's owner.
    Metadata,
    /// How much of which limits.
    Amounts,
    /// A level of keys.
    Level,
    /// The member of a pool.
    Member,
    /// How many seconds earlier it counts as having come.
    Priority,
    /// How long a lease lasts.
    Ttl,
    /// How long to wait.
    Wait,
    /// What makes a repeated request the same one.
    Idempotency,
    /// How long a pool's member is passed over.
    CoolDown,
    /// A lease, by its id.
    Lease,
    /// The least of each limit that a grant is to have.
    Least,
    /// For how long a grant is held.
    Hold,
    /// A lease, by what those call it who do not hold it.
    Handle,
    /// Where a page goes on.
    Cursor,
    /// How many items a page has.
    PageSize,
    /// The checks of a batch.
    Checks,
    /// Why an override is changed.
    Reason,
    /// When an override ends.
    ExpiresAt,
    /// For how long an override is set.
    ExpiresIn,
    /// Which version has to be there.
    Version,
    /// Before which instant something was.
    Until,
}

impl Field {
    /// Its name in JSON and in `tidegate.v1`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Namespace => "namespace",
            Self::Key => "key",
            Self::Entity => "entity",
            Self::Id => "id",
            Self::Parent => "parent",
            Self::Name => "name",
            Self::Metadata => "metadata",
            Self::Amounts => "amounts",
            Self::Level => "level",
            Self::Member => "member",
            Self::Priority => "priority",
            Self::Ttl => "ttl_ms",
            Self::Wait => "wait_ms",
            Self::Idempotency => "idempotency_key",
            Self::CoolDown => "cool_down_ms",
            Self::Lease => "lease",
            Self::Least => "least",
            Self::Hold => "hold_ms",
            Self::Handle => "handle",
            Self::Cursor => "cursor",
            Self::PageSize => "limit",
            Self::Checks => "checks",
            Self::Reason => "reason",
            Self::ExpiresAt => "expires_at",
            Self::ExpiresIn => "expires_in_ms",
            Self::Version => "if_version",
            Self::Until => "until",
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
