//! Asks without a lease.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Serialize, Serializer};
use tidegate::{Forecast, Unit, Verdict};
use tidegate_service::{Checked, Outlook, Scope, Served, Told, bounds};

use crate::answer::{self, Answer, Stand};
use crate::error::Problem;
use crate::extract::Body;
use crate::headers::Style;
use crate::instant::Instant;
use crate::object::Object;
use crate::request::{AskRequest, Keyed, ManyRequest, MemberRequest, ResetRequest};
use crate::visit::Visit;

pub(crate) async fn check(
    visit: Visit,
    style: Style,
    Body(request): Body<AskRequest>,
) -> Result<Response, Problem> {
    let (served, answered) = check_one(&visit, &request).await?;
    Ok(answer::decided(&Told::answered(&served, &answered), style))
}

pub(crate) async fn check_many(
    visit: Visit,
    Body(request): Body<ManyRequest>,
) -> Result<Response, Problem> {
    bounds::checks(request.checks.len())?;
    // What makes no sense by itself is found before anything is decided.
    for (position, Object(one)) in request.checks.iter().enumerate() {
        one.key()
            .map_err(|problem| problem.at(&format!("checks[{position}]")))?;
    }
    let checks = request.checks.iter();
    let meant = checks.clone().map(|Object(one)| {
        let served = visit.policy(Scope::Decide, &one.policy)?;
        let named = one.named(&served)?;
        Ok((served, named))
    });
    let apart = |meant: Result<_, Problem>| match meant {
        Ok((served, named)) => (Ok(served), named),
        Err(problem) => (Err(problem), Vec::new()),
    };
    let (policies, named): (Vec<_>, Vec<_>) = meant.map(apart).unzip();
    let asked = policies.into_iter().zip(&named).zip(checks);
    let asked = asked.map(|((served, named), Object(one))| {
        let served = served?;
        let ask = one.ask(&served, named)?;
        Ok((served, one.key()?, ask))
    });
    let answers = tidegate_service::check_many::<Problem>(asked.collect()).await;
    let answers = answers.into_iter().map(Each).collect();
    Ok(answer::json(StatusCode::OK, &Many { answers }))
}

async fn check_one(visit: &Visit, request: &AskRequest) -> Result<Checked, Problem> {
    let key = request.key()?;
    let served = visit.policy(Scope::Decide, &request.policy)?;
    let named = request.named(&served)?;
    let answered = served.check(key, request.ask(&served, &named)?).await?;
    Ok((served, answered))
}

/// What was used already is charged, so the answer is no refusal, whether any
/// more may start or not.
pub(crate) async fn debit(
    visit: Visit,
    style: Style,
    Body(request): Body<MemberRequest>,
) -> Result<Response, Problem> {
    let key = request.key()?;
    let served = visit.policy(Scope::Decide, &request.policy)?;
    let (member, named) = (request.member.as_deref(), request.named(&served)?);
    let answered = served
        .debit_at(member, key, request.ask(&served, &named)?)
        .await?;
    Ok(answer::told(&Told::answered(&served, &answered), style))
}

pub(crate) async fn peek(
    visit: Visit,
    style: Style,
    Body(request): Body<MemberRequest>,
) -> Result<Response, Problem> {
    let key = request.key()?;
    let served = visit.policy(Scope::Observe, &request.policy)?;
    let (member, named) = (request.member.as_deref(), request.named(&served)?);
    let decision = served
        .peek_at(member, key, request.ask(&served, &named)?)
        .await?;
    let service = visit.app().service();
    let overridden = service.overridden(&served, member.or(decision.member()), key);
    let told = Told::decided(&served, &decision);
    Ok(answer::foretold(&told, &overridden, style))
}

pub(crate) async fn forecast(
    visit: Visit,
    Body(request): Body<MemberRequest>,
) -> Result<Response, Problem> {
    let key = request.key()?;
    let served = visit.policy(Scope::Observe, &request.policy)?;
    let (member, named) = (request.member.as_deref(), request.named(&served)?);
    let outlooks = served
        .forecast(member, key, request.ask(&served, &named)?)
        .await?;
    Ok(answer::json(
        StatusCode::OK,
        &Foreseen::of(&served, member, &outlooks),
    ))
}

pub(crate) async fn reset(
    visit: Visit,
    Body(request): Body<ResetRequest>,
) -> Result<Response, Problem> {
    let key = request.key()?;
    let served = visit.policy(Scope::Administer, &request.policy)?;
    served.reset(visit.caller(), key).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

#[derive(Serialize)]
struct Many {
    answers: Vec<Each>,
}

/// One of several answers: what would have been said to it alone.
struct Each(Result<Checked, Problem>);

#[derive(Serialize)]
struct Failed<'a> {
    problem: &'a Problem,
}

impl Serialize for Each {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Ok((served, answered)) => {
                Answer::of(&Told::answered(served, answered)).serialize(serializer)
            }
            Err(problem) => Failed { problem }.serialize(serializer),
        }
    }
}

/// What fits: by limit, or by limit for each member of a pool.
#[derive(Serialize)]
struct Foreseen<'a> {
    limits: Forecasts<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    members: Option<Members<'a>>,
}

impl<'a> Foreseen<'a> {
    fn of(served: &'a Served, member: Option<&str>, outlooks: &'a [Outlook]) -> Self {
        match outlooks {
            // Of a pool as a whole, one may be all that could serve the ask.
            [one] if member.is_some() || one.member.is_none() => Self {
                limits: Forecasts(served, &one.limits),
                members: None,
            },
            several => Self {
                limits: Forecasts(served, &[]),
                members: Some(Members(served, several)),
            },
        }
    }
}

struct Members<'a>(&'a Served, &'a [Outlook]);

#[derive(Serialize)]
struct ForMember<'a> {
    limits: Forecasts<'a>,
}

impl Serialize for Members<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.1.iter().map(|outlook| {
            let limits = Forecasts(self.0, &outlook.limits);
            (
                outlook.member.as_deref().unwrap_or_default(),
                ForMember { limits },
            )
        }))
    }
}

struct Forecasts<'a>(&'a Served, &'a [(String, Forecast)]);

#[derive(Serialize)]
struct One {
    spendable: u64,
    admitted: bool,
    not_until: Option<Instant>,
    #[serde(flatten)]
    standing: Stand,
}

impl Serialize for Forecasts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let forecasts = self.1.iter();
        serializer.collect_map(forecasts.map(|(name, forecast)| {
            let one = One::of(self.0.unit(name), forecast);
            (name, one)
        }))
    }
}

impl One {
    fn of(unit: Unit, forecast: &Forecast) -> Self {
        let not_until = match forecast.verdict {
            Verdict::NotUntil(at) => Some(Instant(at)),
            _ => None,
        };
        Self {
            spendable: forecast.spendable,
            admitted: forecast.verdict.admitted(),
            not_until,
            standing: Stand::of(unit, forecast.standing),
        }
    }
}
