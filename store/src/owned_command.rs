//! A command that outlives its call.

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::{Amount, Bounds, Timestamp};

use crate::command::{Command, Detail, Ending, Item, Op, Patience, Terms, Verb};
use crate::key::{Ends, KeyPath};
use crate::listing::OwnedListing;
use crate::owned::OwnedKey;
use crate::plan::Plan;
use crate::usage::Hours;

/// A [`Command`] that borrows nothing.
#[derive(Clone, Debug)]
pub struct OwnedCommand {
    plan: Arc<Plan>,
    now: Timestamp,
    calendars: Box<[Option<Bounds>]>,
    op: OwnedOp,
    patience: Option<Patience>,
}

#[derive(Clone, Debug)]
enum OwnedOp {
    One(OwnedItem),
    Batch(Box<[OwnedItem]>),
    Adopt,
    ListKeys(OwnedListing),
    ListLeases(OwnedListing),
    ListUsage(OwnedListing, Hours),
    Count,
}

#[derive(Clone, Debug)]
struct OwnedItem {
    path: OwnedPath,
    verb: OwnedVerb,
}

/// A [`KeyPath`] that borrows nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnedPath {
    key: OwnedKey,
    ends: Ends,
}

impl OwnedPath {
    /// Copies the key of `path`.
    #[must_use]
    pub fn of(path: &KeyPath<'_>) -> Self {
        Self {
            key: OwnedKey::new(path.bytes()),
            ends: path.ends(),
        }
    }

    /// The same, borrowed.
    #[must_use]
    pub fn lend(&self) -> KeyPath<'_> {
        KeyPath::of(self.key.bytes(), self.ends)
    }
}

type Amounts = SmallVec<[Amount; 2]>;

/// A [`Verb`] that borrows nothing.
#[derive(Clone, Debug)]
pub struct OwnedVerb(OwnedVerbKind);

#[derive(Clone, Debug)]
enum OwnedVerbKind {
    Take(Amounts, Option<OwnedTerms>, Detail),
    Debit(Amounts),
    Peek(Amounts),
    End(u128, OwnedEnding, bool),
    Renew(u128, Timestamp),
    Adjust(u128, Box<[Option<Amount>]>, bool, Detail),
    Reset,
}

#[derive(Clone, Debug)]
enum OwnedEnding {
    Settle(SmallVec<[Option<Amount>; 2]>),
    Fail(SmallVec<[bool; 2]>),
    Release,
    Cancel,
}

#[derive(Clone, Debug)]
struct OwnedTerms {
    id: u128,
    expires_at: Timestamp,
    idempotency: Option<Box<[u8]>>,
    least: Option<Amounts>,
}

impl OwnedCommand {
    /// Copies what `command` borrows.
    #[must_use]
    pub fn of(command: &Command<'_>) -> Self {
        Self {
            plan: Arc::clone(command.plan),
            now: command.now,
            calendars: command.calendars.into(),
            op: match command.op {
                Op::One(path, verb) => OwnedOp::One(OwnedItem::of(path, verb)),
                Op::Batch(items) => {
                    let items = items.iter().map(|&(path, verb)| OwnedItem::of(path, verb));
                    OwnedOp::Batch(items.collect())
                }
                Op::Adopt => OwnedOp::Adopt,
                Op::ListKeys(listing) => OwnedOp::ListKeys(OwnedListing::of(&listing)),
                Op::ListLeases(listing) => OwnedOp::ListLeases(OwnedListing::of(&listing)),
                Op::ListUsage(listing, hours) => {
                    OwnedOp::ListUsage(OwnedListing::of(&listing), hours)
                }
                Op::Count => OwnedOp::Count,
            },
            patience: command.patience.cloned(),
        }
    }

    /// How it waits, if it does.
    #[must_use]
    pub const fn patience(&self) -> Option<&Patience> {
        self.patience.as_ref()
    }

    /// By which clock it was made, as of when.
    #[must_use]
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// Makes it one of `now`: the lease of a take lasts as long from then on.
    pub fn shift(&mut self, now: Timestamp) {
        if let OwnedOp::One(item) = &mut self.op
            && let OwnedVerb(OwnedVerbKind::Take(_, Some(terms), _)) = &mut item.verb
        {
            terms.expires_at = now + terms.expires_at.since(self.now);
        }
        self.now = now;
    }

    /// Whether what it says of its calendars is over at `now`: a window of today is in none.
    #[must_use]
    pub fn is_outdated(&self, now: Timestamp) -> bool {
        let mut ends = self.calendars.iter().flatten();
        ends.any(|bounds| bounds.next_end <= now)
    }

    /// The same command, borrowed. What a batch borrows from lives in here: hence it is
    /// lent to a closure and not returned.
    pub fn lend<T>(&self, act: impl FnOnce(&Command<'_>) -> T) -> T {
        let items: SmallVec<[Item<'_>; 1]>;
        let op = match &self.op {
            OwnedOp::One(item) => {
                let (path, verb) = item.lend();
                Op::One(path, verb)
            }
            OwnedOp::Batch(owned) => {
                items = owned.iter().map(OwnedItem::lend).collect();
                Op::Batch(&items)
            }
            OwnedOp::Adopt => Op::Adopt,
            OwnedOp::ListKeys(listing) => Op::ListKeys(listing.lend()),
            OwnedOp::ListLeases(listing) => Op::ListLeases(listing.lend()),
            OwnedOp::ListUsage(listing, hours) => Op::ListUsage(listing.lend(), *hours),
            OwnedOp::Count => Op::Count,
        };
        act(&Command {
            plan: &self.plan,
            now: self.now,
            calendars: &self.calendars,
            op,
            patience: self.patience.as_ref(),
        })
    }
}

impl OwnedItem {
    fn of(path: KeyPath<'_>, verb: Verb<'_>) -> Self {
        Self {
            path: OwnedPath::of(&path),
            verb: OwnedVerb::of(verb),
        }
    }

    fn lend(&self) -> Item<'_> {
        (self.path.lend(), self.verb.lend())
    }
}

impl OwnedVerb {
    /// Copies what `verb` borrows.
    #[must_use]
    pub fn of(verb: Verb<'_>) -> Self {
        Self(match verb {
            Verb::Take {
                amounts,
                lease,
                detail,
            } => {
                let terms = lease.map(|terms| OwnedTerms {
                    id: terms.id,
                    expires_at: terms.expires_at,
                    idempotency: terms.idempotency.map(Into::into),
                    least: terms.least.map(Into::into),
                });
                OwnedVerbKind::Take(amounts.into(), terms, detail)
            }
            Verb::Debit { amounts } => OwnedVerbKind::Debit(amounts.into()),
            Verb::Peek { amounts } => OwnedVerbKind::Peek(amounts.into()),
            Verb::End {
                id,
                ending,
                remember,
            } => OwnedVerbKind::End(id, OwnedEnding::of(ending), remember),
            Verb::Renew { id, until } => OwnedVerbKind::Renew(id, until),
            Verb::Adjust {
                id,
                to,
                overdraw,
                detail,
            } => OwnedVerbKind::Adjust(id, to.into(), overdraw, detail),
            Verb::Reset => OwnedVerbKind::Reset,
        })
    }

    /// The same, borrowed.
    #[must_use]
    pub fn lend(&self) -> Verb<'_> {
        match &self.0 {
            OwnedVerbKind::Take(amounts, terms, detail) => Verb::Take {
                amounts,
                lease: terms.as_ref().map(|terms| Terms {
                    id: terms.id,
                    expires_at: terms.expires_at,
                    idempotency: terms.idempotency.as_deref(),
                    least: terms.least.as_deref(),
                }),
                detail: *detail,
            },
            OwnedVerbKind::Debit(amounts) => Verb::Debit { amounts },
            OwnedVerbKind::Peek(amounts) => Verb::Peek { amounts },
            OwnedVerbKind::End(id, ending, remember) => Verb::End {
                id: *id,
                ending: ending.lend(),
                remember: *remember,
            },
            OwnedVerbKind::Renew(id, until) => Verb::Renew {
                id: *id,
                until: *until,
            },
            OwnedVerbKind::Adjust(id, to, overdraw, detail) => Verb::Adjust {
                id: *id,
                to,
                overdraw: *overdraw,
                detail: *detail,
            },
            OwnedVerbKind::Reset => Verb::Reset,
        }
    }
}

impl OwnedEnding {
    fn of(ending: Ending<'_>) -> Self {
        match ending {
            Ending::Settle(used) => Self::Settle(used.into()),
            Ending::Fail(refunds) => Self::Fail(refunds.into()),
            Ending::Release => Self::Release,
            Ending::Cancel => Self::Cancel,
        }
    }

    fn lend(&self) -> Ending<'_> {
        match self {
            Self::Settle(used) => Ending::Settle(used),
            Self::Fail(refunds) => Ending::Fail(refunds),
            Self::Release => Ending::Release,
            Self::Cancel => Ending::Cancel,
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::Span;

    use super::*;
    use crate::{Detail, Terms};

    /// A thread that looked at the clock earlier than the request came moved it back; the way
    /// there counted once more when it was moved on, and a lease of a minute lasted six.
    #[test]
    fn a_lease_lasts_as_long_wherever_its_request_is_moved() {
        let plan = Arc::new(Plan::new(0, 1, Vec::new(), Span::from_secs(60)));
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        let terms = Terms {
            id: 1,
            expires_at: at(360),
            idempotency: None,
            least: None,
        };
        let verb = Verb::Take {
            amounts: &[1],
            lease: Some(terms),
            detail: Detail::Verdict,
        };
        let mut owned = OwnedCommand::of(&Command {
            plan: &plan,
            now: at(300),
            calendars: &[],
            op: Op::One(KeyPath::new(b"k", 1).expect("a key"), verb),
            patience: None,
        });
        for now in [0, 301, 300, 900] {
            owned.shift(at(now));
            let expires_at = owned.lend(|command| match command.op {
                Op::One(_, verb) => verb.terms().map(|terms| terms.expires_at),
                _ => None,
            });
            assert_eq!(expires_at, Some(at(now + 60)));
        }
    }
}
