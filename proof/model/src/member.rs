//! A node: the product's [`Grants`] of one key, and a clock that may be slow.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};
use tidegate_store::core::{Amount, DRIFT, Span, Timestamp, Units};
use tidegate_store::{Decision, Partial, Plan};
use tidegate_tier::{Grant, Grants, Landed, Wish};

use crate::instance::{Instance, Off, TICK};

/// Nothing lies idle: what is given back sooner is an action of its own.
const IDLE: Span = Span::from_secs(3_600);

/// What a slow clock loses in a tick, in microseconds: a thousandth.
const LOSES: u64 = TICK / DRIFT;

/// A grant that is on its way.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) id: u128,
    /// Before it was sent, by the node's clock.
    at: Timestamp,
    /// What the request takes that needs it.
    cost: Amount,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct Member {
    now: Timestamp,
    pub(crate) grants: Grants,
    pub(crate) asked: Option<Asked>,
}

/// What a node does next because of something.
#[derive(Debug, Default)]
pub(crate) struct Deeds {
    /// It gives these back.
    pub(crate) back: Vec<Grant>,
    /// It admits so much.
    pub(crate) admits: Amount,
}

impl Member {
    /// One whose clock stands there.
    pub(crate) fn new(now: Timestamp) -> Self {
        Self {
            now,
            grants: Grants::default(),
            asked: None,
        }
    }

    /// Whether time means something to it: it measures something.
    pub(crate) fn measures(&self) -> bool {
        self.asked.is_some()
            || self
                .grants
                .kept()
                .iter()
                .any(|grant| !grant.units.is_spent())
    }

    /// A tick has passed at the store; what is over is given back, sooner or later.
    pub(crate) fn pass(&mut self, instance: &Instance, is_slow: bool) -> Vec<Grant> {
        let lost = if is_slow { LOSES } else { 0 };
        self.now = self.now + Span::from_micros(TICK - lost);
        match instance.off {
            // What is left is to be added to what comes.
            Some(Off::OneByOne) => Vec::new(),
            _ => self.grants.take_over(self.now, IDLE),
        }
    }

    pub(crate) fn covers(&self, cost: Amount) -> bool {
        let mut kept = self.grants.kept().iter();
        kept.any(|grant| grant.units.covers(&[cost], self.now))
    }

    pub(crate) fn admit(&mut self, cost: Amount) -> bool {
        self.grants.admit(&[cost], self.now).is_some()
    }

    /// Asks for a grant as `id`, for a request that takes `cost` where all that wait take
    /// `waiting`.
    pub(crate) fn ask(
        &mut self,
        instance: &Instance,
        id: u128,
        (cost, waiting): (Amount, Amount),
    ) -> Option<Wish> {
        if !self.covers(cost) {
            // As a request does that finds too little: what it takes is noted.
            self.grants.admit(&[cost], self.now);
        }
        let batch = [instance.batch];
        let most = [instance.limit.capacity()];
        let wish = self
            .grants
            .ask(&[cost], &[waiting.max(cost)], (&batch, &most))?;
        self.asked = Some(Asked {
            id,
            at: self.now,
            cost,
        });
        Some(wish)
    }

    /// When it asked for what it waits for.
    pub(crate) fn asked_at(&self) -> Timestamp {
        self.asked.as_ref().map_or(self.now, |asked| asked.at)
    }

    /// The store has granted what was asked for.
    pub(crate) fn granted(
        &mut self,
        instance: &Instance,
        plan: &Arc<Plan>,
        partial: Partial,
    ) -> Deeds {
        let Some(asked) = self.asked.take() else {
            return Deeds::default();
        };
        let grant = self.grant(instance, plan, partial, &asked);
        let mut deeds = Deeds::default();
        let grant = self.serve_late(instance, grant, &asked, &mut deeds);
        let grant = self.add_left(instance, grant);
        let landed = Landed::Granted(Box::new(grant));
        deeds.back = self.grants.land(landed, self.now, IDLE);
        if instance.is_calm && self.admit(asked.cost) {
            deeds.admits += asked.cost;
        }
        deeds
    }

    /// The grant as the product makes it; with a safeguard off, as it would be without.
    fn grant(
        &self,
        instance: &Instance,
        plan: &Arc<Plan>,
        mut partial: Partial,
        asked: &Asked,
    ) -> Grant {
        let mut sent = asked.at;
        match instance.off {
            Some(Off::Window) => {
                let lease = partial.decision.lease.expect("a grant is a lease");
                partial.good_until = lease.expires_at;
            }
            Some(Off::Hold) => {
                let longer = u64::from(2 * instance.hold) * TICK;
                partial.good_until = partial.good_until + Span::from_micros(longer);
            }
            Some(Off::FromRequest) => {
                let length = partial.good_until.since(sent);
                (sent, partial.good_until) = (self.now, self.now + length);
            }
            _ => {}
        }
        let has_own_clock = instance.off != Some(Off::Thousandth);
        Grant::new(asked.id, plan, partial, (sent, has_own_clock))
    }

    /// With that safeguard off: what waits takes of a grant that is over.
    fn serve_late(
        &self,
        instance: &Instance,
        mut grant: Grant,
        asked: &Asked,
        deeds: &mut Deeds,
    ) -> Grant {
        if instance.off == Some(Off::Late) && !grant.units.is_good(self.now) {
            let mut units = Units::new(grant.units.granted(), Timestamp::MAX);
            if units.spend(&[asked.cost], self.now) {
                deeds.admits += asked.cost;
                let mut spent = Units::new(grant.units.granted(), grant.units.end());
                spent.spend(&[asked.cost], Timestamp::MIN);
                grant.units = spent;
            }
        }
        grant
    }

    /// With that safeguard off: what is left of all grants is one.
    fn add_left(&mut self, instance: &Instance, mut grant: Grant) -> Grant {
        if instance.off == Some(Off::OneByOne) {
            let left = |grant: &Grant| grant.units.left(0);
            let older: Amount = self.grants.take_all().iter().map(left).sum();
            grant.units = Units::new(&[left(&grant) + older], grant.units.end());
        }
        grant
    }

    /// The store has refused.
    pub(crate) fn refused(&mut self, decision: Decision) -> Vec<Grant> {
        self.asked = None;
        self.grants
            .land(Landed::Refused(Box::new(decision)), self.now, IDLE)
    }

    /// No answer will come; the lease of which nobody knows.
    pub(crate) fn fail(&mut self) -> Option<u128> {
        let asked = self.asked.take()?;
        self.grants.land(Landed::Failed, self.now, IDLE);
        Some(asked.id)
    }

    /// It is killed, and begins anew.
    pub(crate) fn crash(&mut self) {
        *self = Self::new(self.now);
    }

    /// The leases that it speaks of.
    pub(crate) fn ids(&self) -> SmallVec<[u128; 4]> {
        let mut ids: SmallVec<[u128; 4]> = smallvec![];
        ids.extend(self.asked.iter().map(|asked| asked.id));
        let kept = self.grants.kept().iter();
        ids.extend(
            kept.filter(|grant| !grant.units.is_spent())
                .map(|grant| grant.id),
        );
        ids
    }

    /// What says how it goes on; `of_lease` adds what there is elsewhere of a lease of which so
    /// much is spent.
    pub(crate) fn essence(
        &self,
        instance: &Instance,
        mut of_lease: impl FnMut((u128, Amount), &mut Vec<i64>),
    ) -> Vec<i64> {
        let mut out = Vec::with_capacity(24);
        if let Some(asked) = &self.asked {
            let needs_cost = instance.is_calm || instance.off == Some(Off::Late);
            out.extend([-1, if needs_cost { asked.cost as i64 } else { 0 }]);
            of_lease((asked.id, 0), &mut out);
        }
        for grant in self.grants.kept() {
            if !grant.units.is_spent() {
                out.extend([
                    -2,
                    grant.units.left(0) as i64,
                    self.left_until(grant.units.end()),
                ]);
                of_lease((grant.id, grant.units.spent()[0]), &mut out);
            }
        }
        out
    }

    /// How long ago it asked for what it waits for: more than a hold is as long as for ever.
    pub(crate) fn waits_for(&self, instance: &Instance) -> i64 {
        let ago = self.now.since(self.asked_at()).as_micros();
        let ticks = ago.div_ceil(TICK);
        match ago >= ticks * (TICK - LOSES) {
            true => ticks.min(u64::from(instance.hold) + 1) as i64,
            false => -(ago as i64),
        }
    }

    /// How long what is on its way to it will be spent.
    pub(crate) fn left_of(&self, instance: &Instance, plan: &Arc<Plan>, partial: &Partial) -> i64 {
        let asked = self.asked.as_ref().expect("others are dropped");
        let grant = self.grant(instance, plan, partial.clone(), asked);
        self.left_until(grant.units.end())
    }

    /// How long it is until `end`: in so many ticks it is over, whether its clock loses
    /// something in them or not, and it is not before. Where that depends, to the microsecond.
    fn left_until(&self, end: Timestamp) -> i64 {
        let left = end.since(self.now).as_micros();
        let ticks = left.div_ceil(TICK - LOSES);
        match ticks == 0 || left > (ticks - 1) * TICK {
            true => ticks as i64,
            false => -(left as i64),
        }
    }
}
