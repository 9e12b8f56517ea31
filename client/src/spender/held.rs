//! What is held of a key: grants, the refusal that is remembered, and the limits that they are
//! of. No I/O, no clock: instants are arguments, by a clock of this machine that never steps back.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{Amount, Span, Timestamp, Verdict};
use tidegate_store::{Decision, Partial, Plan};
use tidegate_tier::{Grant as Kept, Grants, Landed};

use super::amounts::Amounts;
use super::limits::Limits;
use crate::answer::Answer;
use crate::grant::{Grant, GrantAnswer};
use crate::named::Named;
use crate::quantity::Quantity;
use crate::report::Report;
use crate::request::Request;

/// What is to be given back: the lease's id, and what was used of it.
pub(super) type Back = (u128, Report);

/// How a key is asked for.
#[derive(Clone, Debug)]
pub(super) struct Manner {
    pub(super) batch: Named<Quantity>,
    pub(super) low_water: u8,
    pub(super) idle: Duration,
}

/// What a request is told by what is here.
#[derive(Debug)]
pub(super) enum Step {
    Admitted,
    Refused(Box<Answer>),
    /// It waits for the grant that is on its way.
    Wait,
    /// The server decides.
    Server,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Held {
    manner: Manner,
    limits: Limits,
    is_known: bool,
    /// The first grant is on its way, before any limit is known.
    is_asking_first: bool,
    grants: Grants,
    /// The grants are of no plan: a client knows none.
    plan: Arc<Plan>,
    /// The newest refusal, and when it came.
    refused: Option<(Box<Answer>, Timestamp)>,
    /// Until when it holds before any limit is known, and for whom.
    refused_until: Timestamp,
    asked_first: Amounts,
    waiting: Vec<Amount>,
    is_closed: bool,
}

impl Held {
    pub(super) fn new(manner: Manner) -> Self {
        Self {
            manner,
            limits: Limits::default(),
            is_known: false,
            is_asking_first: false,
            grants: Grants::default(),
            plan: Arc::new(Plan::new(0, 1, Vec::new(), Span::from_micros(0))),
            refused: None,
            refused_until: Timestamp::MIN,
            asked_first: Amounts::default(),
            waiting: Vec::new(),
            is_closed: false,
        }
    }

    /// Decides by what is here, if that is enough.
    pub(super) fn step(&mut self, amounts: &Amounts, now: Timestamp) -> Step {
        if self.is_closed {
            return Step::Server;
        }
        if !self.is_known {
            return self.step_of_unknown(amounts, now);
        }
        let Some(amounts) = self.limits.amounts(amounts, 1) else {
            return Step::Server;
        };
        if !self.limits.fits(&amounts) {
            return Step::Server;
        }
        if self.grants.admit(&amounts, now).is_some() {
            return Step::Admitted;
        }
        match self.grants.refusal(&amounts, now).is_some() {
            true => self.refusal(now).map_or(Step::Server, Step::Refused),
            false if self.grants.is_full(now) => Step::Server,
            false => Step::Wait,
        }
    }

    /// The same before any limit is known: by what was refused.
    fn step_of_unknown(&self, amounts: &Amounts, now: Timestamp) -> Step {
        match self.refusal(now) {
            _ if now >= self.refused_until => Step::Wait,
            None => Step::Server,
            Some(refusal) if amounts.is_at_least(&self.asked_first) => Step::Refused(refusal),
            Some(_) => Step::Wait,
        }
    }

    fn refusal(&self, now: Timestamp) -> Option<Box<Answer>> {
        let (answer, at) = self.refused.as_ref()?;
        let mut answer = answer.clone();
        let passed = now.since(*at).as_duration();
        let least = Duration::from_millis(1);
        answer.retry_after = answer
            .retry_after
            .map(|wait| wait.saturating_sub(passed).max(least));
        Some(answer)
    }

    /// Whether a grant is on its way.
    pub(super) const fn is_asking(&self) -> bool {
        self.is_asking_first || self.grants.is_asking()
    }

    /// What to ask for so that `amounts` can be spent, unless that is on its way already.
    pub(super) fn ask(&mut self, amounts: &Amounts, request: Request) -> Option<Request> {
        if self.is_asking() || self.is_closed {
            return None;
        }
        let units = self.limits.amounts(amounts, 1).filter(|_| self.is_known);
        let Some(units) = units else {
            self.is_asking_first = true;
            self.asked_first = amounts.clone();
            return Some(self.first(amounts, request));
        };
        let of = (&self.limits.batch()[..], &self.limits.most()[..]);
        let wish = self.grants.ask(&units, &self.waiting, of)?;
        Some(self.limits.request(request, &wish))
    }

    /// A batch, and of what is in none as much as is spent. What `amounts` does not take may be
    /// used up.
    fn first(&self, amounts: &Amounts, request: Request) -> Request {
        let batch = self.manner.batch.iter();
        let request = batch.fold(request, |request, (name, amount)| {
            let request = request.amount(name, amount.clone());
            match amounts.may_take(name) {
                true => request,
                false => request.least(name, 0),
            }
        });
        let mut request = amounts
            .named
            .iter()
            .fold(request, |request, (name, amount)| {
                match self.manner.batch.get(name) {
                    Some(_) => request,
                    None => request.amount(name, amount.clone()),
                }
            });
        if let Some(cost) = &amounts.cost {
            request = request.cost(cost.clone());
        }
        request
    }

    /// What is over: it goes back before more is asked for.
    pub(super) fn take_ended(&mut self, now: Timestamp) -> Vec<Back> {
        if self.is_asking() {
            return Vec::new();
        }
        let ended = self.grants.take_ended(now);
        self.backs(ended)
    }

    /// The same before a request needs it, if little is left.
    pub(super) fn refill(
        &mut self,
        amounts: &Amounts,
        request: Request,
        now: Timestamp,
    ) -> Option<Request> {
        let batch = self.limits.batch();
        let is_low = self.grants.is_low(&batch, self.manner.low_water, &[], now);
        is_low.then(|| self.ask(amounts, request)).flatten()
    }

    /// What was asked for has come to this: what is to be given back.
    pub(super) fn land(
        &mut self,
        answer: Option<GrantAnswer>,
        (id, sent): (u128, Timestamp),
        now: Timestamp,
    ) -> Vec<Back> {
        let idle = Span::from(self.manner.idle);
        let mut back = match answer {
            Some(GrantAnswer::Granted(grant)) => self.granted(&grant, (id, sent), now),
            // As much is out as may be, and no limit binds: the server decides.
            Some(GrantAnswer::Refused(answer)) if answer.binding.is_none() => {
                self.refused_until = now + idle;
                self.refused = None;
                let lacking = self.grants.land(Landed::Full, now, idle);
                self.backs(lacking)
            }
            Some(GrantAnswer::Refused(answer)) => {
                let wait = answer.retry_after.unwrap_or(self.manner.idle);
                self.refused_until = now + Span::from(wait.min(self.manner.idle));
                let verdict = Verdict::NotUntil(now + Span::from(wait));
                self.refused = Some((answer, now));
                let refusal = Landed::Refused(Box::new(Decision::bare(verdict, None)));
                let lacking = self.grants.land(refusal, now, idle);
                self.backs(lacking)
            }
            None => {
                let none = self.grants.land(Landed::Failed, now, idle);
                self.backs(none)
            }
        };
        self.is_asking_first = false;
        if self.is_closed {
            back.extend(self.take_all());
        }
        back
    }

    fn granted(
        &mut self,
        grant: &Grant,
        (id, sent): (u128, Timestamp),
        now: Timestamp,
    ) -> Vec<Back> {
        let mut back = Vec::new();
        if self.is_known && self.limits.has_other_units(grant) {
            back = self.take_all();
        }
        self.limits.follow(grant, &self.manner.batch);
        let granted = self.limits.granted(grant);
        if !self.is_known {
            // Before any limit was known, the rule was not asked what to ask for.
            self.is_known = true;
            let of = (&self.limits.batch()[..], &self.limits.most()[..]);
            self.grants.ask(&granted, &[], of);
        }
        let partial = Partial {
            decision: Decision::bare(Verdict::Admit, None),
            amounts: granted.into_iter().collect(),
            good_until: sent + Span::from(grant.good_for()),
        };
        let kept = Kept::new(id, &self.plan, partial, (sent, true));
        let idle = Span::from(self.manner.idle);
        let landed = Landed::Granted(Box::new(kept));
        let late = self.grants.land(landed, now, idle);
        back.extend(self.backs(late));
        back
    }

    /// One more waits: for so much, as far as that is known.
    pub(super) fn wait(&mut self, amounts: &Amounts) -> Vec<Amount> {
        let amounts = self.limits.amounts(amounts, 1).unwrap_or_default();
        if self.waiting.len() < amounts.len() {
            self.waiting.resize(amounts.len(), 0);
        }
        for (all, amount) in self.waiting.iter_mut().zip(&amounts) {
            *all = all.saturating_add(*amount);
        }
        amounts
    }

    /// One that waited for so much waits no more.
    pub(super) fn wait_over(&mut self, amounts: &[Amount]) {
        for (all, amount) in self.waiting.iter_mut().zip(amounts) {
            *all = all.saturating_sub(*amount);
        }
    }

    /// Charges what was used already: `None` if a grant covers it. Else a grant is over with
    /// what was used beyond it, or, where there is none, `amounts` are to be debited.
    pub(super) fn spend(&mut self, amounts: &Amounts, now: Timestamp) -> Option<Spent> {
        // What was used was used: calls that are not named are not charged, as by a debit.
        let units = self.limits.amounts(amounts, 0).filter(|_| self.is_known);
        let Some(units) = units else {
            return Some(Spent::Debit);
        };
        if self.grants.admit(&units, now).is_some() {
            return None;
        }
        let mut kept = self.grants.take_all();
        let good = kept.iter().position(|grant| grant.units.is_good(now));
        let Some(good) = good else {
            let back = self.backs(kept);
            return Some(match back.is_empty() {
                true => Spent::Debit,
                false => Spent::DebitAnd(back),
            });
        };
        let over = kept.swap_remove(good);
        let spent = over.units.spent().iter();
        let used: Vec<_> = (0..units.len().max(spent.len()))
            .map(|position| {
                let spent = over.units.spent().get(position).copied().unwrap_or(0);
                spent.saturating_add(units.get(position).copied().unwrap_or(0))
            })
            .collect();
        let over = (over.id, self.limits.report(&used));
        Some(Spent::Over(over, self.backs(kept)))
    }

    /// What is over, or lies idle.
    pub(super) fn sweep(&mut self, now: Timestamp) -> Vec<Back> {
        let over = self.grants.take_over(now, Span::from(self.manner.idle));
        self.backs(over)
    }

    /// Whether there is nothing to look after.
    pub(super) fn is_empty(&self) -> bool {
        self.grants.kept().is_empty() && !self.is_asking()
    }

    /// All that is kept.
    pub(super) fn take_all(&mut self) -> Vec<Back> {
        let all = self.grants.take_all();
        self.backs(all)
    }

    /// Forgets what the limits are: the server knows better.
    pub(super) fn forget_limits(&mut self) -> Vec<Back> {
        let back = self.take_all();
        self.is_known = false;
        self.grants = Grants::default();
        self.limits = Limits::default();
        self.waiting.clear();
        back
    }

    /// From here on the server decides; all that is kept.
    pub(super) fn close(&mut self) -> Vec<Back> {
        self.is_closed = true;
        self.take_all()
    }

    fn backs(&self, grants: Vec<Kept>) -> Vec<Back> {
        let back = |grant: Kept| (grant.id, self.limits.report(grant.units.spent()));
        grants.into_iter().map(back).collect()
    }
}

/// What no grant covers.
#[derive(Debug)]
pub(super) enum Spent {
    /// It is debited.
    Debit,
    /// It is debited, and these are over.
    DebitAnd(Vec<Back>),
    /// This grant is over with it, and these go back.
    Over(Back, Vec<Back>),
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokio::time::Instant;

    use super::*;

    const SECOND: Span = Span::from_secs(1);

    fn held() -> Held {
        Held::new(Manner {
            batch: [("usd", Quantity::Decimal("0.5".to_owned()))]
                .into_iter()
                .collect(),
            low_water: 0,
            idle: Duration::from_secs(60),
        })
    }

    /// `usd` of a grant that is good for a second.
    fn grant(usd: &str) -> GrantAnswer {
        GrantAnswer::Granted(Grant::told(7, Instant::now(), said(usd)))
    }

    fn said(usd: &str) -> Value {
        let stand = json!({
            "limit": "9.00", "remaining": "1.00", "debt": "0.00", "replenish_at": null, "full_at": null
        });
        json!({
            "admitted": true, "binding": null, "not_until": null, "retry_after_ms": null,
            "limits": {"usd": stand}, "degraded": false, "shadowed": false,
            "grant": {
                "amounts": {"usd": usd}, "calls": [], "good_for_ms": 1_000,
                "good_until": "2026-01-01T12:00:01Z", "granted_at": "2026-01-01T12:00:00Z",
                "expires_at": "2026-01-01T12:00:01Z"
            }
        })
    }

    fn usd(text: &str) -> Amounts {
        Amounts::new().amount("usd", Quantity::Decimal(text.to_owned()))
    }

    fn ask(held: &mut Held, amounts: &Amounts) -> Request {
        let request = held.ask(amounts, Request::new("chat", "alice"));
        request.expect("none is on its way")
    }

    fn used(back: &[Back]) -> Vec<serde_json::Value> {
        let used = |(_, report): &Back| serde_json::to_value(report).expect("json");
        back.iter().map(used).collect()
    }

    #[test]
    fn what_comes_when_it_is_over_is_given_back_and_serves_nobody() {
        let (mut held, now) = (held(), Timestamp::from_micros(0));
        assert!(matches!(held.step(&usd("0.1"), now), Step::Wait));
        ask(&mut held, &usd("0.1"));
        let late = now + Span::from_micros(999_000);
        let back = held.land(Some(grant("0.50")), (7, now), late);
        assert_eq!(used(&back), [json!({})]);
        assert!(matches!(held.step(&usd("0.1"), late), Step::Wait));
    }

    #[test]
    fn a_grant_is_spent_until_just_before_its_end_and_never_added_to_another() {
        let (mut held, now) = (held(), Timestamp::from_micros(0));
        ask(&mut held, &usd("0.1"));
        assert!(held.land(Some(grant("0.50")), (7, now), now).is_empty());
        assert!(matches!(held.step(&usd("0.3"), now), Step::Admitted));
        assert!(matches!(held.step(&usd("0.3"), now), Step::Wait));
        let asked = serde_json::to_value(ask(&mut held, &usd("0.3"))).expect("json");
        assert_eq!(asked["amounts"], json!({"usd": "0.50"}));
        assert_eq!(asked["least"], json!({"usd": "0.30"}));
        assert!(
            held.ask(&usd("0.3"), Request::new("chat", "alice"))
                .is_none(),
            "one at a time"
        );
        held.land(Some(grant("0.30")), (8, now), now);
        // 0.2 and 0.3 are left, and that is not 0.5.
        assert!(matches!(held.step(&usd("0.4"), now), Step::Wait));
        assert!(matches!(held.step(&usd("0.3"), now), Step::Admitted));
        let end = now + Span::from_micros(998_999);
        assert!(matches!(held.step(&usd("0.01"), end), Step::Admitted));
        assert!(matches!(held.step(&usd("0.01"), now + SECOND), Step::Wait));
        assert!(
            matches!(held.step(&usd("0.51"), now), Step::Server),
            "more than a batch"
        );
        let back = used(&held.sweep(now + SECOND));
        assert_eq!(back, [json!({"used": {"usd": "0.31"}})]);
    }

    #[test]
    fn what_a_grant_does_not_cover_ends_it_with_debt() {
        let (mut held, now) = (held(), Timestamp::from_micros(0));
        assert!(matches!(held.spend(&usd("0.2"), now), Some(Spent::Debit)));
        ask(&mut held, &usd("0.1"));
        held.land(Some(grant("0.50")), (7, now), now);
        assert!(held.spend(&usd("0.2"), now).is_none());
        match held.spend(&usd("2.5"), now) {
            Some(Spent::Over(over, others)) => {
                assert_eq!(used(&[over]), [json!({"used": {"usd": "2.70"}})]);
                assert!(others.is_empty());
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(held.spend(&usd("0.2"), now), Some(Spent::Debit)));
    }

    /// A refusal by `usd`.
    fn refused() -> GrantAnswer {
        let said = json!({
            "admitted": false, "binding": "usd", "not_until": "2026-01-01T12:00:09Z",
            "retry_after_ms": 9_000, "limits": {}, "degraded": false, "shadowed": false
        });
        GrantAnswer::Refused(Box::new(serde_json::from_value(said).expect("an answer")))
    }

    #[test]
    fn before_the_limits_are_known_who_takes_as_much_as_was_refused_is_refused() {
        let (mut held, now) = (held(), Timestamp::from_micros(0));
        let tokens = |count: u64| Amounts::new().amount("tokens", count);
        let asked = serde_json::to_value(ask(&mut held, &tokens(5))).expect("json");
        assert_eq!(asked["amounts"], json!({"usd": "0.5", "tokens": 5}));
        assert_eq!(asked["least"], json!({"usd": 0}));
        held.land(Some(refused()), (0, now), now);
        assert!(matches!(held.step(&tokens(7), now), Step::Refused(_)));
        assert!(matches!(held.step(&tokens(4), now), Step::Wait));
        assert!(matches!(held.step(&usd("0.1"), now), Step::Wait));
        let later = now + Span::from_secs(9);
        assert!(matches!(held.step(&tokens(7), later), Step::Wait));
    }

    #[test]
    fn a_cost_beside_several_units_is_the_servers() {
        let (mut held, now) = (held(), Timestamp::from_micros(0));
        ask(&mut held, &usd("0.1"));
        let stand = |of: Value| json!({"limit": of, "remaining": of, "debt": of, "replenish_at": null, "full_at": null});
        let mut said = said("0.50");
        said["limits"]["tokens"] = stand(json!(10));
        said["grant"]["amounts"]["tokens"] = json!(0);
        let grant = GrantAnswer::Granted(Grant::told(7, Instant::now(), said));
        held.land(Some(grant), (7, now), now);
        let cost = Amounts::from(3_u64);
        assert!(matches!(held.step(&cost, now), Step::Server));
        assert!(matches!(held.spend(&cost, now), Some(Spent::Debit)));
        assert!(held.spend(&usd("0.2"), now).is_none());
    }
}
