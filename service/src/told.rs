//! A decision with what it takes to tell it: in which units, of which level, and as of when.
//! Who writes it out asks nothing else, and looks at no clock.

use std::cell::OnceCell;

use tidegate::{Admission, Decision, Grant, Span, Standing, Timestamp, Unit, Verdict};

use super::active_policy::{Acquired, ActivePolicy, Charge, GrantedLease};
use super::entities::EntityPath;

/// What was answered to somebody who may begin, or not.
#[derive(Debug)]
pub struct Told<'a> {
    active: &'a ActivePolicy,
    verdict: Verdict,
    /// None of a grant whose request did not want to know, nor where the store could not tell.
    decision: Option<&'a Decision>,
    is_lease: bool,
    degraded: bool,
    shadowed: bool,
    member: Option<&'a str>,
    /// The entity that was asked, and its ancestors.
    path: Option<&'a EntityPath>,
    /// Looked at once, if anybody wants to know.
    at: OnceCell<Timestamp>,
    /// How long to wait: drawn once, so that all say the same.
    wait: OnceCell<Option<Span>>,
}

/// Where one limit stands.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Stand<'a> {
    /// Its name.
    pub name: &'a str,
    /// What its amounts count.
    pub unit: Unit,
    /// Where it stands.
    pub standing: Standing,
}

impl<'a> Told<'a> {
    /// What was decided.
    #[must_use]
    pub fn decided(active: &'a ActivePolicy, decision: &'a Decision) -> Self {
        Self {
            active,
            verdict: decision.verdict(),
            decision: Some(decision),
            is_lease: false,
            degraded: decision.degraded(),
            shadowed: decision.shadowed(),
            member: decision.member(),
            path: None,
            at: OnceCell::new(),
            wait: OnceCell::new(),
        }
    }

    /// What was answered to a request without a lease.
    #[must_use]
    pub fn answered(active: &'a ActivePolicy, answer: &'a Charge) -> Self {
        match answer {
            Charge::Decided(decision) => Self::decided(active, decision),
            Charge::Degraded(_) => Self::blindly(active),
        }
    }

    /// What was answered to a request for a lease.
    #[must_use]
    pub fn acquired(active: &'a ActivePolicy, acquired: &'a Acquired) -> Self {
        match acquired {
            Acquired::Granted(granted) => Self::granted(active, granted),
            Acquired::Refused(decision) => Self::decided(active, decision),
            Acquired::Degraded(_) => Self::blindly(active),
        }
    }

    /// What was answered to a request for a grant.
    #[must_use]
    pub(super) fn granting(active: &'a ActivePolicy, granted: &'a Admission<Grant>) -> Self {
        match granted {
            Admission::Granted(grant) => Self::decided(active, grant.decision()),
            Admission::Refused(decision) => Self::decided(active, decision),
        }
    }

    fn granted(active: &'a ActivePolicy, granted: &'a GrantedLease) -> Self {
        Self {
            decision: granted.decision(),
            is_lease: true,
            degraded: granted.degraded,
            shadowed: granted.shadowed,
            member: granted.member(),
            ..Self::blindly(active)
        }
    }

    /// Admitted though the store could not tell.
    const fn blindly(active: &'a ActivePolicy) -> Self {
        Self {
            active,
            verdict: Verdict::Admit,
            decision: None,
            is_lease: false,
            degraded: true,
            shadowed: false,
            member: None,
            path: None,
            at: OnceCell::new(),
            wait: OnceCell::new(),
        }
    }

    /// The same, asked by an entity's id.
    #[must_use]
    pub(super) const fn of_entity(mut self, path: Option<&'a EntityPath>) -> Self {
        self.path = path;
        self
    }

    /// The same, as of `now`: one of several that are told together.
    #[must_use]
    pub fn as_of(mut self, now: Timestamp) -> Self {
        self.at = OnceCell::from(now);
        self
    }

    /// As of when it is told. All that is said of it is of this one instant.
    #[must_use]
    pub fn at(&self) -> Timestamp {
        *self.at.get_or_init(|| self.active.now())
    }

    /// The answer alone.
    #[must_use]
    pub const fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Whether it may start.
    #[must_use]
    pub const fn admitted(&self) -> bool {
        matches!(self.verdict, Verdict::Admit)
    }

    /// Of a refusal: the instant at which it may, if nothing else happens.
    #[must_use]
    pub const fn not_until(&self) -> Option<Timestamp> {
        match self.verdict {
            Verdict::NotUntil(at) => Some(at),
            Verdict::Admit | Verdict::Never => None,
        }
    }

    /// Of a refusal: how long to wait. Until then, and as much longer as the policy's
    /// jitter has drawn. Never nothing.
    #[must_use]
    pub fn retry_after(&self) -> Option<Span> {
        *self.wait.get_or_init(|| {
            self.not_until()?;
            let exact = self.verdict.retry_after(self.at())?.as_micros();
            let later = self.active.jitter().as_micros();
            Some(Span::from_micros(exact.saturating_add(later)))
        })
    }

    /// The limit that binds.
    #[must_use]
    pub fn binding(&self) -> Option<&'a str> {
        self.of_limits()?.binding()
    }

    /// Whether that limit has slots, which may be freed before [`not_until`](Self::not_until).
    #[must_use]
    pub fn binds_slots(&self) -> bool {
        self.of_limits().is_some_and(|of| of.binds_slots())
    }

    /// The name of the level at which it stands.
    #[must_use]
    pub fn level(&self) -> Option<&'a str> {
        self.of_limits()?.binding_level()
    }

    /// The id of the entity whose limit binds: of the one that was asked by its id, or of an
    /// ancestor.
    #[must_use]
    pub fn entity(&self) -> Option<&'a str> {
        let path = self.path?;
        self.binding()?;
        let levels = &self.active.policy().levels;
        let level = self.level();
        let level = level.and_then(|level| levels.iter().position(|name| name == level));
        match level {
            // The last level is that of whoever is asked, however deep it stands.
            Some(level) if level + 1 < levels.len() => path.ids().nth(level),
            _ => path.ids().next_back(),
        }
    }

    /// What the limits said, where they did not give a lease.
    fn of_limits(&self) -> Option<&'a Decision> {
        self.decision.filter(|_| !self.is_lease)
    }

    /// Whether the store could not tell.
    #[must_use]
    pub const fn degraded(&self) -> bool {
        self.degraded
    }

    /// Whether a shadow limit would have refused.
    #[must_use]
    pub const fn shadowed(&self) -> bool {
        self.shadowed
    }

    /// The member of a pool whose answer it is.
    #[must_use]
    pub const fn member(&self) -> Option<&'a str> {
        self.member
    }

    /// What was decided, if that is known.
    #[must_use]
    pub const fn decision(&self) -> Option<&'a Decision> {
        self.decision
    }

    /// Where every limit stands.
    pub fn limits(&self) -> impl Iterator<Item = Stand<'a>> + use<'a> {
        let active = self.active;
        let standings = self.decision.into_iter().flat_map(Decision::standings);
        standings.map(move |(name, standing)| Stand {
            name,
            unit: active.unit(name),
            standing,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate::ManualClock;
    use tidegate_policy::{Scope, parse};

    use super::*;
    use crate::Service;

    #[test]
    fn those_who_are_refused_together_are_told_to_come_back_apart_and_never_too_early() {
        let text = "[policy.p]\njitter = '500ms'\nlimits.rpm = { calls = 1, per = '1m' }";
        let file = parse("t", text).unwrap();
        let time = ManualClock::default();
        let service = Service::builder().clock(time.clock()).build(&file).unwrap();
        let caller = service.enter(None).unwrap();
        let active = service.policy(&caller, Scope::Decide, "p").unwrap();
        let first = active.check("k", 1).wait().unwrap();
        assert_eq!(Told::answered(&active, &first).retry_after(), None);
        let (least, most) = (Span::from_secs(60), Span::from_millis(60_500));
        let waits: Vec<_> = (0..64)
            .map(|_| {
                let refused = active.check("k", 1).wait().unwrap();
                let told = Told::answered(&active, &refused);
                let wait = told.retry_after().unwrap();
                assert!((least..=most).contains(&wait), "{wait:?}");
                assert_eq!(told.retry_after(), Some(wait), "it is drawn once");
                assert_eq!(told.not_until(), Some(told.at() + least));
                wait
            })
            .collect();
        assert!(waits.iter().any(|wait| *wait != waits[0]));
    }

    #[test]
    fn all_that_is_told_of_an_answer_is_of_one_instant() {
        let file = parse("t", "policy.p.limits.rpm = { calls = 1, per = '1m' }").unwrap();
        let time = ManualClock::default();
        let service = Service::builder().clock(time.clock()).build(&file).unwrap();
        let caller = service.enter(None).unwrap();
        let active = service.policy(&caller, Scope::Decide, "p").unwrap();
        assert!(active.check("k", 1).wait().unwrap().admitted());
        let answer = active.check("k", 1).wait().unwrap();
        let told = Told::answered(&active, &answer);
        assert_eq!(told.retry_after(), Some(Span::from_secs(60)));
        time.advance(Duration::from_secs(60));
        assert_eq!(told.retry_after(), Some(Span::from_secs(60)));
        assert_eq!(told.not_until(), Some(told.at() + Span::from_secs(60)));
        assert_eq!((told.admitted(), told.binding()), (false, Some("rpm")));
        let late = Told::answered(&active, &answer);
        assert_eq!(late.retry_after(), Some(Span::from_micros(1)));
    }
}
