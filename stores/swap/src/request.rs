//! A command that outlives its call: it owns everything it names.

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_contract::core::{Amount, Bounds, Timestamp};
use tidegate_contract::{
    Detail, Ending, KeyCommand, KeyError, KeyPath, Plan, StoreError, Terms, Verb,
};

type Amounts = SmallVec<[Amount; 4]>;

/// A command that outlives its call: it owns everything it names.
#[derive(Clone, Debug)]
pub struct Request {
    /// The plan it is decided by.
    pub plan: Arc<Plan>,
    /// The caller's clock.
    pub now: Timestamp,
    /// The boundaries of the plan's calendars.
    pub calendars: Box<[Option<Bounds>]>,
    pub(crate) key: Box<[u8]>,
    verb: OwnedVerb,
}

#[derive(Clone, Debug)]
enum OwnedVerb {
    Take {
        amounts: Amounts,
        lease: Option<OwnedTerms>,
        detail: Detail,
    },
    Debit(Amounts),
    Peek(Amounts),
    End {
        id: u128,
        ending: OwnedEnding,
        remember: bool,
    },
    Renew {
        id: u128,
        until: Timestamp,
    },
    Reset,
}

#[derive(Clone, Debug)]
struct OwnedTerms {
    id: u128,
    expires_at: Timestamp,
    idempotency: Option<Box<[u8]>>,
}

#[derive(Clone, Debug)]
enum OwnedEnding {
    Settle(Box<[Option<Amount>]>),
    Release,
    Fail(Box<[bool]>),
    Cancel,
}

impl Request {
    /// All of `command`.
    #[must_use]
    pub fn of(command: &KeyCommand<'_>) -> Self {
        Self {
            plan: Arc::clone(command.plan),
            now: command.now,
            calendars: command.calendars.into(),
            key: command.key.bytes().into(),
            verb: OwnedVerb::of(&command.verb),
        }
    }

    /// The root that everything it needs hangs on.
    ///
    /// # Errors
    /// The key is none under the plan's levels.
    pub fn root(&self) -> Result<&[u8], StoreError> {
        self.path()
            .map(|path| path.root().len())
            .map(|end| &self.key[..end])
    }

    /// The key's path.
    pub(crate) fn path(&self) -> Result<KeyPath<'_>, StoreError> {
        let path = KeyPath::new(&self.key, self.plan.levels());
        path.map_err(|error: KeyError| StoreError::Unavailable(error.to_string()))
    }

    /// The command as of `now`. What it says of later instants is by its caller's
    /// clock, as its own `now` is: it is translated.
    pub(crate) fn command(&self, now: Timestamp) -> Result<KeyCommand<'_>, StoreError> {
        Ok(KeyCommand {
            plan: &self.plan,
            key: self.path()?,
            now,
            calendars: &self.calendars,
            verb: self.verb.as_verb(|at| moved(at, self.now, now)),
        })
    }

    /// The lease that is ended or renewed, or would be made.
    pub(crate) const fn lease(&self) -> Option<u128> {
        match &self.verb {
            OwnedVerb::Take {
                lease: Some(terms), ..
            } => Some(terms.id),
            OwnedVerb::End { id, .. } | OwnedVerb::Renew { id, .. } => Some(*id),
            _ => None,
        }
    }

    /// The idempotency key of the lease that would be made.
    pub(crate) fn idempotency(&self) -> Option<&[u8]> {
        match &self.verb {
            OwnedVerb::Take {
                lease: Some(terms), ..
            } => terms.idempotency.as_deref(),
            _ => None,
        }
    }

    /// Whether it takes, as a lease or not.
    #[must_use]
    pub const fn is_take(&self) -> bool {
        matches!(self.verb, OwnedVerb::Take { .. })
    }

    /// A look at what a take would come to; `None` for any other command. What it
    /// asks for beside the verdict comes with it, where it is refused.
    #[must_use]
    pub fn peek(&self) -> Option<(Self, Detail)> {
        let OwnedVerb::Take {
            amounts, detail, ..
        } = &self.verb
        else {
            return None;
        };
        let verb = OwnedVerb::Peek(amounts.clone());
        Some((
            Self {
                verb,
                ..self.clone()
            },
            *detail,
        ))
    }

    /// The row of the key's path at `level`, the outermost first, if it reaches there.
    ///
    /// # Errors
    /// The key is none under the plan's levels.
    pub fn row_at(&self, level: usize) -> Result<Option<&[u8]>, StoreError> {
        let path = self.path()?;
        let end = (level < path.depth()).then(|| path.prefix(level).len());
        Ok(end.map(|end| &self.key[..end]))
    }

    pub(crate) const fn is_reset(&self) -> bool {
        matches!(self.verb, OwnedVerb::Reset)
    }
}

/// An instant by the clock that stood at `from`, by that which stands at `to`.
/// "Never" stays.
#[must_use]
pub fn moved(at: Timestamp, from: Timestamp, to: Timestamp) -> Timestamp {
    match at {
        Timestamp::MAX | Timestamp::MIN => at,
        at if to >= from => at + to.since(from),
        at => at - from.since(to),
    }
}

impl OwnedVerb {
    fn of(verb: &Verb<'_>) -> Self {
        match *verb {
            Verb::Take {
                amounts,
                lease,
                detail,
            } => Self::Take {
                amounts: amounts.into(),
                lease: lease.map(OwnedTerms::of),
                detail,
            },
            Verb::Debit { amounts } => Self::Debit(amounts.into()),
            Verb::Peek { amounts } => Self::Peek(amounts.into()),
            Verb::End {
                id,
                ending,
                remember,
            } => Self::End {
                id,
                ending: OwnedEnding::of(ending),
                remember,
            },
            Verb::Renew { id, until } => Self::Renew { id, until },
            Verb::Reset => Self::Reset,
        }
    }

    fn as_verb(&self, translate: impl Fn(Timestamp) -> Timestamp) -> Verb<'_> {
        match self {
            Self::Take {
                amounts,
                lease,
                detail,
            } => Verb::Take {
                amounts,
                lease: lease.as_ref().map(|terms| Terms {
                    id: terms.id,
                    expires_at: translate(terms.expires_at),
                    idempotency: terms.idempotency.as_deref(),
                }),
                detail: *detail,
            },
            Self::Debit(amounts) => Verb::Debit { amounts },
            Self::Peek(amounts) => Verb::Peek { amounts },
            Self::End {
                id,
                ending,
                remember,
            } => Verb::End {
                id: *id,
                ending: ending.as_ending(),
                remember: *remember,
            },
            Self::Renew { id, until } => Verb::Renew {
                id: *id,
                until: translate(*until),
            },
            Self::Reset => Verb::Reset,
        }
    }
}

impl OwnedTerms {
    fn of(terms: Terms<'_>) -> Self {
        Self {
            id: terms.id,
            expires_at: terms.expires_at,
            idempotency: terms.idempotency.map(Into::into),
        }
    }
}

impl OwnedEnding {
    fn of(ending: Ending<'_>) -> Self {
        match ending {
            Ending::Settle(used) => Self::Settle(used.into()),
            Ending::Release => Self::Release,
            Ending::Fail(back) => Self::Fail(back.into()),
            Ending::Cancel => Self::Cancel,
        }
    }

    fn as_ending(&self) -> Ending<'_> {
        match self {
            Self::Settle(used) => Ending::Settle(used),
            Self::Release => Ending::Release,
            Self::Fail(back) => Ending::Fail(back),
            Self::Cancel => Ending::Cancel,
        }
    }
}
