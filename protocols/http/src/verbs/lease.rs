//! Asks for a lease, and what becomes of it.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body as ResponseBody;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Serialize, Serializer};
use tidegate::{Ask, Settlement};
use tidegate_protocol::Delivery;
use tidegate_service::{
    Entry, Finish, Finished, Scope, Served, ServiceError, Told, Undelivered, bounds,
};

use crate::amount::InUnit;
use crate::answer;
use crate::error::Problem;
use crate::extract::Body;
use crate::headers::Style;
use crate::instant::Instant;
use crate::request::{
    self, AcquireRequest, AdjustRequest, EndRequest, Keyed, RenewRequest, SettleRequest,
};
use crate::visit::Visit;

/// Takes a lease, waiting for it if the request says so. Should the client go
/// away meanwhile, the server drops this future, and with it the place in line.
pub(crate) async fn acquire(
    mut visit: Visit,
    style: Style,
    Body(request): Body<AcquireRequest>,
) -> Result<Response, Problem> {
    let key = request.key()?;
    let served = visit.policy(Scope::Decide, &request.policy)?;
    let named = request.amounts.named(&served)?;
    let ask = ask(&served, &request, &named)?;
    if request.wait_ms > 0 {
        visit.step_outside();
    }
    let entry = served.acquire(key, ask).await?;
    let lease = Undelivered::of(&served, key, &entry, request.idempotency_key.is_some());
    let told = Told::entered(&served, &entry);
    let response = match &entry {
        Entry::Granted(ticket) => answer::granted(&told, ticket, style),
        Entry::Refused(_) | Entry::Degraded(_) => answer::decided(&told, style),
    };
    // A lease goes along until it is delivered.
    Ok(match lease {
        Some(lease) => response.map(|body| ResponseBody::new(Delivery::new(body, Arc::new(lease)))),
        None => response,
    })
}

fn ask<'a>(
    served: &Served,
    request: &'a AcquireRequest,
    named: &'a [(&'a str, u64)],
) -> Result<Ask<'a>, ServiceError> {
    let ask = request::ask(served, request.cost.as_ref(), named)?;
    let mut ask = ask
        .priority(bounds::priority(request.priority)?)
        .standings();
    let wait = Duration::from_millis(request.wait_ms);
    if !wait.is_zero() {
        ask = ask.within(wait);
    }
    if request.wait_for_refunds {
        ask = ask.wait_for_refunds();
    }
    if let Some(ttl) = request.ttl_ms {
        ask = ask.ttl(Duration::from_millis(ttl));
    }
    Ok(match request.idempotency_key.as_deref() {
        None => ask,
        Some(key) => ask.idempotency(key.as_bytes()),
    })
}

pub(crate) async fn settle(
    visit: Visit,
    Body(request): Body<SettleRequest>,
) -> Result<Response, Problem> {
    let key = request.key()?;
    let served = visit.policy(Scope::Decide, &request.policy)?;
    let report = request::report(request.outcome, request.cool_down_ms);
    let used = request.used.named(&served)?;
    let finished = served
        .finish(key, request.lease, Finish::Settle(&used), &report)
        .await?;
    Ok(ended(&served, &finished))
}

pub(crate) async fn release(
    visit: Visit,
    Body(request): Body<EndRequest>,
) -> Result<Response, Problem> {
    end(&visit, &request, Finish::Release).await
}

pub(crate) async fn cancel(
    visit: Visit,
    Body(request): Body<EndRequest>,
) -> Result<Response, Problem> {
    end(&visit, &request, Finish::Cancel).await
}

async fn end(visit: &Visit, request: &EndRequest, how: Finish<'_>) -> Result<Response, Problem> {
    let key = request.key()?;
    let served = visit.policy(Scope::Decide, &request.policy)?;
    let report = request::report(request.outcome, request.cool_down_ms);
    let finished = served.finish(key, request.lease, how, &report).await?;
    Ok(ended(&served, &finished))
}

pub(crate) async fn renew(
    visit: Visit,
    Body(request): Body<RenewRequest>,
) -> Result<Response, Problem> {
    let key = request.key()?;
    let served = visit.policy(Scope::Decide, &request.policy)?;
    let ttl = Duration::from_millis(request.ttl_ms);
    let expires_at = Instant(served.renew(key, request.lease, ttl).await?);
    Ok(answer::json(StatusCode::OK, &Renewed { expires_at }))
}

/// More, if it fits, is an answer like a check's; so is a refusal.
pub(crate) async fn adjust(
    visit: Visit,
    style: Style,
    Body(request): Body<AdjustRequest>,
) -> Result<Response, Problem> {
    let key = request.key()?;
    let served = visit.policy(Scope::Decide, &request.policy)?;
    let to = request.amounts.named(&served)?;
    let adjusted = served.adjust(key, request.lease, &to, request.overdraw);
    let decision = adjusted.await?;
    Ok(answer::decided(&Told::decided(&served, &decision), style))
}

#[derive(Serialize)]
struct Renewed {
    expires_at: Instant,
}

#[derive(Serialize)]
struct Ended<'a> {
    expired: bool,
    repeated: bool,
    limits: Usages<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cooling_until: Option<Instant>,
}

struct Usages<'a>(&'a Served, &'a Settlement);

#[derive(Serialize)]
struct Used {
    taken: InUnit,
    used: InUnit,
}

pub(crate) fn ended(served: &Served, finished: &Finished) -> Response {
    let settlement = &finished.settlement;
    let ended = Ended {
        expired: settlement.expired(),
        repeated: settlement.repeated(),
        limits: Usages(served, settlement),
        member: finished.member.as_deref(),
        cooling_until: finished.cooling_until.map(Instant),
    };
    answer::json(StatusCode::OK, &ended)
}

impl Serialize for Usages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(served, settlement) = self;
        serializer.collect_map(settlement.usages().map(|(name, usage)| {
            let unit = served.unit(name);
            let used = Used {
                taken: InUnit(unit, usage.taken),
                used: InUnit(unit, usage.used),
            };
            (name, used)
        }))
    }
}
