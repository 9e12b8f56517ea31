//! What is asked of a policy's limits, and what becomes of leases.

use axum::response::Response;
use tidegate_service::Call;

use crate::error::Problem;
use crate::parse::body::Body;
use crate::parse::object::Object;
use crate::parse::request::{
    AcquireRequest, AdjustRequest, CheckRequest, EndRequest, ManyRequest, MemberRequest,
    RenewRequest, ResetRequest, RevokeRequest, SettleRequest,
};
use crate::parse::visit::Visit;
use crate::render::headers::Style;
use crate::render::render;

type Reply = Result<Response, Problem>;

async fn answer(mut visit: Visit, style: Style, call: Call<'_>) -> Reply {
    Ok(render(visit.call(call).await?, style))
}

pub(crate) async fn check(visit: Visit, style: Style, Body(request): Body<CheckRequest>) -> Reply {
    answer(visit, style, Call::Check(request.question()?)).await
}

pub(crate) async fn check_many(visit: Visit, Body(request): Body<ManyRequest>) -> Reply {
    let checks = request.checks.iter().enumerate();
    // What makes no sense by itself is found before anything is decided.
    let questions = checks.map(|(position, Object(one))| {
        let question = one.question();
        question
            .map(Ok)
            .map_err(|problem| problem.at(&format!("checks[{position}]")))
    });
    let questions = questions.collect::<Result<_, Problem>>()?;
    answer(visit, Style::Standard, Call::CheckMany(questions)).await
}

pub(crate) async fn debit(visit: Visit, style: Style, Body(request): Body<MemberRequest>) -> Reply {
    answer(visit, style, Call::Debit(request.question()?)).await
}

pub(crate) async fn peek(visit: Visit, style: Style, Body(request): Body<MemberRequest>) -> Reply {
    answer(visit, style, Call::Peek(request.question()?)).await
}

pub(crate) async fn forecast(visit: Visit, Body(request): Body<MemberRequest>) -> Reply {
    answer(visit, Style::Standard, Call::Forecast(request.question()?)).await
}

pub(crate) async fn reset(visit: Visit, Body(request): Body<ResetRequest>) -> Reply {
    answer(visit, Style::Standard, request.call()?).await
}

/// Takes a lease, waiting for it if the request says so. Should the client go
/// away meanwhile, the server drops this future, and with it the place in line.
pub(crate) async fn acquire(
    visit: Visit,
    style: Style,
    Body(request): Body<AcquireRequest>,
) -> Reply {
    answer(visit, style, request.call()?).await
}

pub(crate) async fn settle(visit: Visit, Body(request): Body<SettleRequest>) -> Reply {
    answer(visit, Style::Standard, request.call()?).await
}

pub(crate) async fn release(visit: Visit, Body(request): Body<EndRequest>) -> Reply {
    let (of, report) = request.of()?;
    answer(visit, Style::Standard, Call::Release(of, report)).await
}

pub(crate) async fn cancel(visit: Visit, Body(request): Body<EndRequest>) -> Reply {
    let (of, report) = request.of()?;
    answer(visit, Style::Standard, Call::Cancel(of, report)).await
}

pub(crate) async fn renew(visit: Visit, Body(request): Body<RenewRequest>) -> Reply {
    answer(visit, Style::Standard, request.call()?).await
}

pub(crate) async fn adjust(
    visit: Visit,
    style: Style,
    Body(request): Body<AdjustRequest>,
) -> Reply {
    answer(visit, style, request.call()?).await
}

pub(crate) async fn revoke(visit: Visit, Body(request): Body<RevokeRequest>) -> Reply {
    answer(visit, Style::Standard, request.call()?).await
}
