//! The answer, with the names put back.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tidegate_core::{Amount, BucketLevel, Span, Standing, Timestamp, Verdict};
use tidegate_store::{KeyPath, Reply, StoreError};
use tidegate_tier::{GrantLevel, Spent};

use crate::error::DecisionError;
use crate::limit::{Limit, LimitName};
use crate::set::View;

/// May it start, why not, and where does everything stand?
#[derive(Clone)]
pub struct Decision {
    verdict: Verdict,
    /// Which of the view's limits binds.
    binding: Option<u16>,
    shadowed: bool,
    /// When it was made.
    at: Timestamp,
    standings: Standings,
    view: Arc<View>,
    member: Option<Arc<str>>,
    degraded: bool,
}

/// Where the limits stand.
#[derive(Clone)]
enum Standings {
    /// As told, in the order of the view's limits.
    Told(SmallVec<[Option<Standing>; 1]>),
    /// What that of the only limit follows from, if somebody wants to know.
    OfBucket(BucketLevel),
    /// The same, where a grant has decided.
    OfGrant(GrantLevel),
}

impl Standings {
    #[inline]
    fn at(&self, position: usize) -> Option<Standing> {
        match self {
            Self::Told(told) => *told.get(position)?,
            Self::OfBucket(level) => Some(level.standing()),
            Self::OfGrant(level) => level.standing(),
        }
    }
}

impl Decision {
    /// What was answered, taken from where it was written.
    ///
    /// # Errors
    /// It was no decision.
    #[inline]
    pub(crate) fn of_reply(
        reply: &mut Reply,
        view: Arc<View>,
        at: Timestamp,
    ) -> Result<Self, DecisionError> {
        match reply {
            Reply::Decision(answer) => Ok(Self {
                verdict: answer.verdict,
                binding: answer.binding.and_then(|at| u16::try_from(at).ok()),
                shadowed: answer.shadowed,
                at,
                standings: Standings::Told(told(&mut answer.standings, &view)),
                view,
                member: None,
                degraded: false,
            }),
            Reply::One(verdict, level) => Ok(Self::of_one(*verdict, *level, view, at)),
            _ => Err(StoreError::Mismatch.into()),
        }
    }

    /// That of a lone bucket.
    #[inline]
    pub(crate) fn of_one(
        verdict: Verdict,
        level: BucketLevel,
        view: Arc<View>,
        at: Timestamp,
    ) -> Self {
        Self {
            verdict,
            binding: (!verdict.admitted()).then_some(0),
            shadowed: false,
            at,
            standings: Standings::OfBucket(level),
            view,
            member: None,
            degraded: false,
        }
    }

    /// That of a request that a grant has covered.
    pub(crate) fn of_spent(spent: &Spent<'_>, view: &Arc<View>, at: Timestamp) -> Self {
        let told = told(&mut spent.standings(), view);
        Self::admitted_by_grant(
            spent.shadowed(),
            Standings::Told(told),
            Arc::clone(view),
            at,
        )
    }

    /// The same, of a lone limit, which stands there.
    #[inline]
    pub(crate) fn of_grant(
        (shadowed, level): (bool, GrantLevel),
        view: Arc<View>,
        at: Timestamp,
    ) -> Self {
        Self::admitted_by_grant(shadowed, Standings::OfGrant(level), view, at)
    }

    #[inline(always)]
    fn admitted_by_grant(
        shadowed: bool,
        standings: Standings,
        view: Arc<View>,
        at: Timestamp,
    ) -> Self {
        Self {
            verdict: Verdict::Admit,
            binding: None,
            shadowed,
            at,
            standings,
            view,
            member: None,
            degraded: false,
        }
    }

    /// The same, decided while the store could not tell: it is [`degraded`](Self::degraded).
    pub(crate) fn mark_degraded(mut self) -> Self {
        self.degraded = true;
        self
    }

    /// The same, without where limits stand of levels that the row of this name does not tell.
    pub(crate) fn at_levels_of(mut self, row: &[u8]) -> Self {
        let path = KeyPath::of_row(row, self.view.plan.levels());
        if let (Ok(path), Standings::Told(told)) = (path, &mut self.standings) {
            let levels = self.view.plan.limits().iter().map(|limit| limit.level);
            for (standing, level) in told.iter_mut().zip(levels) {
                if level < path.depth() && path.lacks(level) {
                    *standing = None;
                }
            }
        }
        self
    }

    /// The store could not tell: a share of the limits decided, in this process.
    #[must_use]
    pub const fn degraded(&self) -> bool {
        self.degraded
    }

    /// The same, as this member of a pool decided.
    pub(crate) fn of(mut self, member: &Arc<str>) -> Self {
        self.member = Some(Arc::clone(member));
        self
    }

    /// The same, but not before `until`, when a cool-down ends.
    pub(crate) fn not_before(mut self, until: Timestamp) -> Self {
        let verdict = self.verdict.put_off(until);
        if verdict != self.verdict {
            (self.verdict, self.binding) = (verdict, None);
        }
        self
    }

    /// The answer alone.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Whether it may start.
    #[must_use]
    pub fn admitted(&self) -> bool {
        self.verdict.admitted()
    }

    /// If not now: the exact instant at which it may, if nothing else happens. Of a
    /// concurrency limit, that is when the lease that expires first does: its holder may end
    /// it sooner, or renew it. Wait for a slot with [`acquire`](crate::LimitSet::acquire),
    /// and not until then.
    #[must_use]
    pub fn not_until(&self) -> Option<Timestamp> {
        match self.verdict {
            Verdict::NotUntil(at) => Some(at),
            _ => None,
        }
    }

    /// If not now: how long it is [until then](Self::not_until), as of when it was decided.
    /// Longer than zero.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.verdict.retry_after(self.at).map(Span::as_duration)
    }

    /// Whether it may never start: the request takes more of a limit than that
    /// [grants at once](Self::most_at_once).
    #[must_use]
    pub fn is_never(&self) -> bool {
        self.verdict == Verdict::Never
    }

    /// The most that the limit that [binds](Self::binding) grants at once.
    #[must_use]
    pub fn most_at_once(&self) -> Option<Amount> {
        Some(self.view.capacity(self.binding? as usize))
    }

    /// The member of a pool whose decision it is; of a refusal, the member that
    /// is free soonest.
    #[must_use]
    pub fn member(&self) -> Option<&str> {
        self.member.as_deref()
    }

    /// The limit that binds: whose refusal lasts longest. None does where a
    /// pool's member cools down for longer.
    #[must_use]
    pub fn binding(&self) -> Option<&str> {
        self.binding_at().map(|(_, name)| name)
    }

    /// Whether the limit that [binds](Self::binding) has slots: then [`not_until`](Self::not_until)
    /// is when the first lease of them expires, and its holder may end it sooner. Wait by
    /// `acquire` instead of sleeping until then.
    #[must_use]
    pub fn binds_slots(&self) -> bool {
        let binding = self.binding_at();
        binding.is_some_and(|(position, _)| self.view.limits[position].is_concurrency())
    }

    /// The limit that binds, and its position among [`limit_names`](Self::limit_names).
    pub(crate) fn binding_at(&self) -> Option<(usize, &str)> {
        let position = self.binding? as usize;
        Some((position, self.view.limits[position].name()))
    }

    /// The names of all limits that it was decided by.
    pub(crate) fn limit_names(&self) -> impl Iterator<Item = &str> {
        let limits = self.view.limits.iter();
        limits.filter(|limit| !limit.is_absent()).map(Limit::name)
    }

    /// The name of the key's level that the limit that [binds](Self::binding) is about;
    /// nothing in a set whose levels have no names.
    #[must_use]
    pub fn binding_level(&self) -> Option<&str> {
        let (position, _) = self.binding_at()?;
        self.view.level_name(position)
    }

    /// A shadow limit would have refused.
    #[must_use]
    pub fn shadowed(&self) -> bool {
        self.shadowed
    }

    /// Where the limit called `name` stands after this step.
    #[inline]
    #[must_use]
    pub fn standing<'n>(&self, name: impl Into<LimitName<'n>>) -> Option<Standing> {
        self.standings.at(self.view.find(name)?)
    }

    /// Whole units that the limit called `name` could grant after this step: what
    /// [`standing`](Self::standing) says of it, for less.
    #[must_use]
    #[inline]
    pub fn remaining<'n>(&self, name: impl Into<LimitName<'n>>) -> Option<Amount> {
        let position = self.view.find(name)?;
        match &self.standings {
            Standings::Told(told) => Some((*told.get(position)?)?.remaining),
            Standings::OfBucket(level) => Some(level.remaining()),
            Standings::OfGrant(level) => Some(level.standing()?.remaining),
        }
    }

    /// The limit called `name`, as it was decided by: the key's own, if it was
    /// given one.
    #[must_use]
    pub fn limit<'n>(&self, name: impl Into<LimitName<'n>>) -> Option<&Limit> {
        let limit = &self.view.limits[self.view.find(name)?];
        (!limit.is_absent()).then_some(limit)
    }

    /// The limit at `position` of the limits that it was decided by.
    pub(crate) fn limit_at(&self, position: usize) -> &Limit {
        &self.view.limits[position]
    }

    /// Where every limit stands after this step, by name.
    pub fn standings(&self) -> impl Iterator<Item = (&str, Standing)> {
        let named = self.view.limits.iter().enumerate();
        named.filter_map(|(position, limit)| Some((limit.name(), self.standings.at(position)?)))
    }
}

/// What was told, of the limits that the key has.
#[inline]
fn told(
    answer: &mut SmallVec<[Option<Standing>; 1]>,
    view: &View,
) -> SmallVec<[Option<Standing>; 1]> {
    let mut told = std::mem::take(answer);
    for position in view.absent() {
        if let Some(standing) = told.get_mut(position) {
            *standing = None;
        }
    }
    told
}

/// In words: `admitted`, `refused by tpm; retry after 1.2 s` (as of when it was made),
/// `never: tpm grants at most 100 at once`. Without a limit that [binds](Decision::binding):
/// `refused by a cool-down; retry after 1.2 s`. Where slots refuse, that is when the first lease of
/// them expires, and it says so.
impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.verdict, self.binding_at()) {
            (Verdict::Admit, _) => f.write_str("admitted"),
            (Verdict::NotUntil(at), binding) => {
                match binding {
                    Some((_, limit)) => write!(f, "refused by {limit}")?,
                    None => f.write_str("refused by a cool-down")?,
                }
                write!(f, "; retry after {}", wait(at.since(self.at)))?;
                match self.binds_slots() {
                    true => f.write_str(", or wait for a slot to be freed"),
                    false => Ok(()),
                }
            }
            (Verdict::Never, None) => f.write_str("never: no limit grants as much at once"),
            (Verdict::Never, Some((position, limit))) => {
                let unit = self.view.limits[position].amounts();
                let most = unit.show(self.view.capacity(position));
                write!(f, "never: {limit} grants at most {most} at once")
            }
        }
    }
}

/// A length of time as people write it, not shorter than it is: `350 ms`, `1.2 s`.
fn wait(span: Span) -> String {
    let millis = span.as_micros().div_ceil(1_000).max(1);
    match millis {
        ..1_000 => format!("{millis} ms"),
        _ => {
            let tenths = millis.div_ceil(100);
            match tenths % 10 {
                0 => format!("{} s", tenths / 10),
                tenth => format!("{}.{tenth} s", tenths / 10),
            }
        }
    }
}

impl fmt::Debug for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decision")
            .field("verdict", &self.verdict())
            .field("binding", &self.binding())
            .field("standings", &self.standings().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
