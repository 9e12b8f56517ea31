//! What decides, and what begins, changes and ends leases.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::meant::Meant;
use super::{Call, GrantTerms, Question, Terms};
use crate::access::Caller;
use crate::active_policy::{Acquired, Charge};
use crate::answer::{Acquisition, Answer};
use crate::bounds;
use crate::error::{Kind, ServiceError};
use crate::finish::{Finish, Report};
use crate::granting::Granting;
use crate::many::check_many;
use crate::service::Service;
use crate::spans;
use crate::undelivered::Undelivered;
use crate::whose::Whose;
use tidegate::internal::RequestInternals;
use tidegate::{LeaseId, Request};
use tidegate_policy::Scope;

/// An answer to what is asked less often than a check: in a box, which takes no room of a check's
/// and of which no protocol has a copy.
type Later<'a> = Pin<Box<dyn Future<Output = Result<Answer, ServiceError>> + Send + 'a>>;

impl Service {
    /// Answers `call`, for `caller`, in the namespace that they are in.
    ///
    /// # Errors
    /// [`ServiceError`]: what is out of its bounds, before what there is not; as the verbs of
    /// [`ActivePolicy`](crate::ActivePolicy); of a namespace that is deleted or not there,
    /// [`ServiceError::Namespace`].
    #[inline]
    #[expect(
        clippy::manual_async_fn,
        reason = "an `async fn` moves what it is given once more"
    )]
    pub fn call(
        &self,
        caller: &Caller,
        call: Call<'_>,
    ) -> impl Future<Output = Result<Answer, ServiceError>> + Send {
        async move {
            if self.is_home_of(caller) || call.is_of_namespaces() {
                self.call_here(caller, call).await
            } else {
                // Whoever is in no namespace takes no room for it.
                let answer = self.call_away(caller, call).await;
                spans::record_error(answer)
            }
        }
    }

    /// Answers `call` by what is here.
    #[inline]
    #[expect(
        clippy::manual_async_fn,
        reason = "an `async fn` moves what it is given once more"
    )]
    pub(crate) fn call_here(
        &self,
        caller: &Caller,
        call: Call<'_>,
    ) -> impl Future<Output = Result<Answer, ServiceError>> + Send {
        async move {
            match call {
                Call::Check(ref question) => {
                    let meant = self.meant(caller, Scope::Decide, question).await?;
                    question.belongs_to_no_member()?;
                    let said = meant.said(question);
                    let in_units = said.in_units(&meant)?;
                    let request = said.request(&meant, &in_units)?;
                    let charge = meant.active.check(&*meant.key, request).await?;
                    Ok(Answer::Decided(meant.charged(charge)))
                }
                Call::Throttle(key, rate, quantity) => {
                    let rated = self.decide_by_rate(caller, key, rate, quantity);
                    Ok(Answer::Rated(rated.await?))
                }
                // What is asked less often takes no room of a check's.
                Call::Acquire(..)
                | Call::Grant(..)
                | Call::Return(..)
                | Call::Settle(..)
                | Call::Release(..)
                | Call::Cancel(..)
                | Call::Renew(..)
                | Call::Adjust(..) => self.call_lease(caller, call).await,
                Call::CheckMany(_) | Call::Debit(_) | Call::Peek(_) | Call::Forecast(_) => {
                    self.call_question(caller, call).await
                }
                call => self.call_administration(caller, call).await,
            }
        }
    }

    #[inline(never)]
    fn call_lease<'a, 'c: 'a>(&'a self, caller: &'a Caller, call: Call<'c>) -> Later<'a> {
        Box::pin(self.answer_lease(caller, call))
    }

    #[inline(never)]
    fn call_question<'a, 'c: 'a>(&'a self, caller: &'a Caller, call: Call<'c>) -> Later<'a> {
        Box::pin(self.answer_question(caller, call))
    }

    #[inline(never)]
    fn call_administration<'a, 'c: 'a>(&'a self, caller: &'a Caller, call: Call<'c>) -> Later<'a> {
        Box::pin(self.administer(caller, call))
    }

    #[inline(never)]
    fn call_away<'a, 'c: 'a>(&'a self, caller: &'a Caller, call: Call<'c>) -> Later<'a> {
        Box::pin(self.answer_away(caller, call))
    }

    /// Answers what begins, changes and ends leases.
    async fn answer_lease(&self, caller: &Caller, call: Call<'_>) -> Result<Answer, ServiceError> {
        match call {
            Call::Acquire(question, terms) => self.acquire(caller, &question, terms).await,
            Call::Grant(question, terms) => self.grant(caller, &question, &terms).await,
            Call::Return(of, used) => {
                let meant = self.of_lease(caller, &of).await?;
                let said = meant.said_of_lease(&used);
                let in_units = said.in_units(&meant)?;
                let used = said.request(&meant, &in_units)?;
                finish(&meant, of.lease, Finish::Return(used), &Report::default()).await
            }
            Call::Settle(of, report, used) => {
                let meant = self.of_lease(caller, &of).await?;
                let said = meant.said_of_lease(&used);
                let in_units = said.in_units(&meant)?;
                let used = said.request(&meant, &in_units)?;
                finish(&meant, of.lease, Finish::Settle(used), &report).await
            }
            Call::Release(of, report) => {
                let meant = self.of_lease(caller, &of).await?;
                finish(&meant, of.lease, Finish::Release, &report).await
            }
            Call::Cancel(of, report) => {
                let meant = self.of_lease(caller, &of).await?;
                finish(&meant, of.lease, Finish::Cancel, &report).await
            }
            Call::Renew(of, ttl_ms) => {
                let meant = self.of_lease(caller, &of).await?;
                let ttl = ttl_ms.map(Duration::from_millis);
                let renewed = meant.active.renew(meant.key(), of.lease, ttl).await?;
                Ok(Answer::Renewed(renewed))
            }
            Call::Adjust(of, to, overdraw) => {
                to.name_something()?;
                let meant = self.of_lease(caller, &of).await?;
                let said = meant.said_of_lease(&to);
                let in_units = said.in_units(&meant)?;
                let to = said.request(&meant, &in_units)?;
                let adjusted = meant.active.adjust(meant.key(), of.lease, to, overdraw);
                let decision = adjusted.await?;
                Ok(Answer::Decided(meant.charged(Charge::Decided(decision))))
            }
            _ => unreachable!("it begins, changes or ends no lease"),
        }
    }

    /// Answers what is asked of limits beside a check.
    async fn answer_question(
        &self,
        caller: &Caller,
        call: Call<'_>,
    ) -> Result<Answer, ServiceError> {
        match call {
            Call::CheckMany(questions) => self.check_each(caller, questions).await,
            Call::Debit(question) => {
                let meant = self.meant(caller, Scope::Decide, &question).await?;
                let said = meant.said(&question);
                let in_units = said.in_units(&meant)?;
                let request = said.request(&meant, &in_units)?;
                let active = &meant.active;
                let charge = active
                    .debit_at(question.member, &*meant.key, request)
                    .await?;
                Ok(Answer::Charged(meant.charged(charge)))
            }
            Call::Peek(question) => {
                let question = question.or_nothing();
                let meant = self.meant(caller, Scope::Observe, &question).await?;
                let said = meant.said(&question);
                let in_units = said.in_units(&meant)?;
                let request = said.request(&meant, &in_units)?;
                let active = &meant.active;
                let decision = active.peek_at(question.member, &*meant.key, request);
                let decision = decision.await.map_err(|error| meant.of_level(error))?;
                let member = question.member.or(decision.member());
                let overridden = self.overridden(active, member, meant.key());
                let decided = meant.charged(Charge::Decided(decision));
                Ok(Answer::Foretold(decided, overridden))
            }
            Call::Forecast(question) => {
                let question = question.or_nothing();
                let meant = self.meant(caller, Scope::Observe, &question).await?;
                let said = meant.said(&question);
                let in_units = said.in_units(&meant)?;
                let request = said.request(&meant, &in_units)?;
                let active = &meant.active;
                let forecast = active.forecast(question.member, &*meant.key, request);
                let forecasts = forecast.await.map_err(|error| meant.of_level(error))?;
                // Of a pool as a whole, one may be all that could serve the request.
                let is_one = question.member.is_some() || !active.policy().is_pool();
                Ok(Answer::Forecast(Arc::clone(active), forecasts, is_one))
            }
            _ => unreachable!("it asks nothing of limits"),
        }
    }

    async fn check_each(
        &self,
        caller: &Caller,
        questions: Vec<Result<Question<'_>, ServiceError>>,
    ) -> Result<Answer, ServiceError> {
        spans::record_error(bounds::checks(questions.len()))?;
        let mut all_meant = Vec::with_capacity(questions.len());
        for question in &questions {
            all_meant.push(match question {
                Ok(question) => self.meant(caller, Scope::Decide, question).await,
                Err(error) => Err(error.clone()),
            });
        }
        let said = questions.iter().zip(&all_meant).map(|(question, meant)| {
            let meant = meant.as_ref().map_err(Clone::clone)?;
            let question = question.as_ref().map_err(Clone::clone)?;
            question.belongs_to_no_member()?;
            Ok((meant, meant.said(question)))
        });
        let said: Vec<Result<_, ServiceError>> = said.collect();
        let in_units = said.iter().map(|said| {
            let (meant, said) = said.as_ref().map_err(Clone::clone)?;
            Ok((meant, said, said.in_units(meant)?))
        });
        let in_units: Vec<Result<_, ServiceError>> = in_units.collect();
        let checks = in_units.iter().map(|in_units| {
            let (meant, said, in_units) = in_units.as_ref().map_err(Clone::clone)?;
            let request = said.request(meant, in_units)?;
            Ok((Arc::clone(&meant.active), meant.key(), request))
        });
        let answers = check_many::<ServiceError>(checks.collect()).await;
        let answers = answers.into_iter().zip(&all_meant);
        let decided = answers.map(|(answer, meant)| {
            let (_, charge) = answer?;
            Ok(meant.as_ref().map_err(Clone::clone)?.charged(charge))
        });
        Ok(Answer::Many(decided.collect()))
    }

    async fn acquire(
        &self,
        caller: &Caller,
        question: &Question<'_>,
        terms: Terms<'_>,
    ) -> Result<Answer, ServiceError> {
        let priority = spans::record_error(bounds::priority(terms.priority))?;
        let mut left = Duration::from_millis(terms.wait_ms);
        let (mut waited, mut is_again) = (Duration::ZERO, false);
        loop {
            let meant = self.meant(caller, Scope::Decide, question).await?;
            question.belongs_to_no_member()?;
            let said = meant.said(question);
            let in_units = said.in_units(&meant)?;
            let mut request = said.request(&meant, &in_units)?;
            request = request.priority(priority).passing_over(terms.passed_over);
            request = request.within(left);
            if terms.wait_for_refunds {
                request = request.wait_for_refunds();
            }
            if terms.standings {
                request = request.standings();
            }
            if let Some(ttl) = terms.ttl_ms {
                request = request.ttl(Duration::from_millis(ttl));
            }
            if let Some(key) = terms.idempotency {
                request = request.idempotency(key);
            }
            let (active, key) = (&meant.active, meant.key());
            let begun = active.now();
            let told = active.acquire(key, request).await;
            let waits_on = !left.is_zero();
            let took = active.since(begun);
            (left, waited) = (left.saturating_sub(took), waited + took);
            let mut acquired = match told {
                // It was named here, to be left out, and is gone since.
                Err(error) if !is_again && meant.names_added(&error) => {
                    is_again = true;
                    continue;
                }
                told => told?,
            };
            let mut lease = None;
            if let Acquired::Granted(granted) = &mut acquired {
                // What has an idempotency key is found by its retry.
                let is_named = terms.idempotency.is_some();
                lease = (!is_named).then(|| Undelivered::new(active, key, granted));
                let is_new = waits_on && !granted.repeated;
                let moved = match is_new {
                    true => self.has_moved(question.whose, &meant).await,
                    false => Ok(false),
                };
                if is_named
                    && moved
                        .as_ref()
                        .is_err_and(|error| error.kind() == Kind::NotFound)
                {
                    // There is no entity any more by which to find it.
                    active.cancel_unseen(key, granted.id);
                }
                if moved? {
                    finish(&meant, granted.id, Finish::Cancel, &Report::default()).await?;
                    lease.iter().for_each(Undelivered::deliver);
                    continue;
                }
                granted.waited = waited;
            }
            return Ok(Answer::Acquired(Acquisition {
                active: Arc::clone(active),
                acquired,
                lease: lease.map(Arc::new),
                path: meant.path.clone(),
            }));
        }
    }

    /// Whether an entity has another path than it had: a lease of the old one would not be found by its
    /// id.
    async fn has_moved(&self, whose: Whose<'_>, meant: &Meant<'_>) -> Result<bool, ServiceError> {
        match whose {
            Whose::Entity(_) => Ok(self.found(whose).await?.key != meant.key),
            Whose::Key(_) => Ok(false),
        }
    }

    async fn grant(
        &self,
        caller: &Caller,
        question: &Question<'_>,
        terms: &GrantTerms<'_>,
    ) -> Result<Answer, ServiceError> {
        let hold = spans::record_error(terms.hold_ms.map(bounds::hold).transpose())?;
        let id = spans::record_error(terms.id())?;
        let meant = self.meant(caller, Scope::Decide, question).await?;
        question.belongs_to_no_member()?;
        let (said, least) = (meant.said(question), meant.said_least(terms));
        let (in_units, least) = (said.in_units(&meant)?, least.in_units(&meant)?);
        let wished = said.request(&meant, &in_units)?;
        let (active, key) = (&meant.active, meant.key());
        let granted = active.grant(key, id, (wished, Request::named(&least)), hold);
        let granted = granted.await.inspect_err(|error| {
            // It may have been granted all the same. Who chose the id returns it by that: it may be
            // of a grant that was told before.
            if terms.lease.is_none() && error.kind() == Kind::Unavailable {
                drop(Undelivered::of_lease(active, key, id));
            }
        })?;
        let path = meant.path.clone();
        Ok(Answer::Granted(Granting::new(active, key, granted, path)))
    }
}

async fn finish(
    meant: &Meant<'_>,
    lease: LeaseId,
    how: Finish<'_>,
    report: &Report,
) -> Result<Answer, ServiceError> {
    let finished = meant.active.finish(meant.key(), lease, how, report);
    Ok(Answer::Finished(Arc::clone(&meant.active), finished.await?))
}
