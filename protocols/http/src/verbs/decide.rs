//! What is asked of a policy's limits, and what becomes of leases.

use axum::response::Response;
use tidegate_service::Call;

use crate::error::Problem;
use crate::parse::body::Body;
use crate::parse::context::RequestContext;
use crate::parse::object::Object;
use crate::parse::request::{
    AcquireRequest, AdjustRequest, CheckRequest, EndRequest, GrantRequest, ManyRequest,
    MemberRequest, RenewRequest, ResetRequest, ReturnRequest, RevokeRequest, SettleRequest,
};
use crate::render::headers::Style;
use crate::render::render;

type Reply = Result<Response, Problem>;

#[expect(
    clippy::manual_async_fn,
    reason = "an `async fn` moves what it is given once more"
)]
fn answer(
    mut context: RequestContext,
    style: Style,
    call: Call<'_>,
) -> impl Future<Output = Reply> + Send {
    async move { Ok(render(context.call(call).await?, style)) }
}

pub(crate) async fn check(
    context: RequestContext,
    style: Style,
    Body(request): Body<CheckRequest>,
) -> Reply {
    answer(context, style, Call::Check(request.question()?)).await
}

pub(crate) async fn check_many(context: RequestContext, Body(request): Body<ManyRequest>) -> Reply {
    let checks = request.checks.iter().enumerate();
    // What makes no sense by itself is found before anything is decided.
    let questions = checks.map(|(position, Object(one))| {
        let question = one.question();
        question
            .map(Ok)
            .map_err(|problem| problem.at(&format!("checks[{position}]")))
    });
    let questions = questions.collect::<Result<_, Problem>>()?;
    answer(context, Style::Standard, Call::CheckMany(questions)).await
}

pub(crate) async fn debit(
    context: RequestContext,
    style: Style,
    Body(request): Body<MemberRequest>,
) -> Reply {
    answer(context, style, Call::Debit(request.question()?)).await
}

pub(crate) async fn peek(
    context: RequestContext,
    style: Style,
    Body(request): Body<MemberRequest>,
) -> Reply {
    answer(context, style, Call::Peek(request.question()?)).await
}

pub(crate) async fn forecast(context: RequestContext, Body(request): Body<MemberRequest>) -> Reply {
    answer(
        context,
        Style::Standard,
        Call::Forecast(request.question()?),
    )
    .await
}

pub(crate) async fn reset(context: RequestContext, Body(request): Body<ResetRequest>) -> Reply {
    answer(context, Style::Standard, request.call()?).await
}

/// Takes a lease, waiting for it if the request says so. Should the client go
/// away meanwhile, the server drops this future, and with it the place in line.
pub(crate) async fn acquire(
    context: RequestContext,
    style: Style,
    Body(request): Body<AcquireRequest>,
) -> Reply {
    answer(context, style, request.call()?).await
}

/// Units to be spent by the client without asking.
pub(crate) async fn grant(
    context: RequestContext,
    style: Style,
    Body(request): Body<GrantRequest>,
) -> Reply {
    answer(context, style, request.call()?).await
}

pub(crate) async fn return_grant(
    context: RequestContext,
    Body(request): Body<ReturnRequest>,
) -> Reply {
    answer(context, Style::Standard, request.call()?).await
}

pub(crate) async fn settle(context: RequestContext, Body(request): Body<SettleRequest>) -> Reply {
    answer(context, Style::Standard, request.call()?).await
}

pub(crate) async fn release(context: RequestContext, Body(request): Body<EndRequest>) -> Reply {
    let (of, report) = request.of()?;
    answer(context, Style::Standard, Call::Release(of, report)).await
}

pub(crate) async fn cancel(context: RequestContext, Body(request): Body<EndRequest>) -> Reply {
    let (of, report) = request.of()?;
    answer(context, Style::Standard, Call::Cancel(of, report)).await
}

pub(crate) async fn renew(context: RequestContext, Body(request): Body<RenewRequest>) -> Reply {
    answer(context, Style::Standard, request.call()?).await
}

pub(crate) async fn adjust(
    context: RequestContext,
    style: Style,
    Body(request): Body<AdjustRequest>,
) -> Reply {
    answer(context, style, request.call()?).await
}

pub(crate) async fn revoke(context: RequestContext, Body(request): Body<RevokeRequest>) -> Reply {
    answer(context, Style::Standard, request.call()?).await
}
