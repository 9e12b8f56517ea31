//! One request: found, checked, run.

use tidegate_service::{Answer, Call, Rated, RequestSpan};

use super::describe;
use super::shape::{Command, Flow, Run};
use super::table::find;
use crate::error::{Fault, quoted};
use crate::parse::{Arguments, ProtocolError};
use crate::render::render;
use crate::render::reply::Replies;
use crate::session::Session;

/// Answers one request, a fault included.
#[inline]
pub(crate) async fn answer(
    session: &mut Session,
    arguments: Arguments<'_>,
) -> Result<Flow, ProtocolError> {
    let Some(name) = arguments.get(0) else {
        return Ok(Flow::Next);
    };
    let Some(command) = find(name) else {
        return unknown(session, name);
    };
    let ran = run(session, command, arguments).await;
    Ok(ran.unwrap_or_else(|fault| {
        let fault = fault.of(command.name, command.usage);
        session.replies.error(fault.code(), &fault);
        match fault {
            Fault::TooManyOfToken => Flow::Close,
            _ => Flow::Next,
        }
    }))
}

#[inline]
async fn run(
    session: &mut Session,
    command: &Command,
    arguments: Arguments<'_>,
) -> Result<Flow, Fault> {
    if !command.before_auth {
        session.caller()?;
    }
    if !command.takes(arguments.len()) {
        return Err(Fault::Arity(command.name, command.usage));
    }
    let span = RequestSpan::open("resp", command.name);
    match command.run {
        Run::Now(run) => span.within(|| run(session, arguments)),
        Run::Describe => span.within(|| describe::command(session, arguments)),
        Run::Call(parse) => span.around(call(session, parse(arguments)?)).await,
        Run::Rate(parse, tell) => span.around(rated(session, parse(arguments)?, tell)).await,
        Run::Later(run) => span.around(run(session, arguments)).await,
    }
}

/// Has the service answer. Its lease goes out with the answer.
#[expect(
    clippy::manual_async_fn,
    reason = "an `async fn` moves what it is given once more"
)]
#[inline]
fn call(session: &mut Session, call: Call<'_>) -> impl Future<Output = Result<Flow, Fault>> + Send {
    async move {
        let (service, caller) = session.at_the_service()?;
        let answer = service.call(caller, call).await?;
        render(&mut session.replies, &answer);
        if let Answer::Acquired(acquisition) = answer {
            session.undelivered.extend(acquisition.lease);
        } else if let Answer::Granted(granting) = answer {
            session.undelivered.extend(granting.lease);
        }
        Ok(Flow::Next)
    }
}

/// Has the service answer by a rate that came with the call.
#[inline]
#[expect(
    clippy::manual_async_fn,
    reason = "an `async fn` moves what it is given once more"
)]
fn rated(
    session: &mut Session,
    call: Call<'_>,
    tell: fn(&mut Replies, &Rated),
) -> impl Future<Output = Result<Flow, Fault>> + Send {
    async move {
        let (service, caller) = session.at_the_service()?;
        match service.call(caller, call).await? {
            Answer::Rated(rated) => tell(&mut session.replies, &rated),
            answer => render(&mut session.replies, &answer),
        }
        Ok(Flow::Next)
    }
}

#[cold]
fn unknown(session: &mut Session, name: &[u8]) -> Result<Flow, ProtocolError> {
    // What a browser says, when it is tricked into talking to us.
    let http = [&b"post"[..], b"host:"];
    if http.iter().any(|word| name.eq_ignore_ascii_case(word)) {
        return Err(ProtocolError::Http);
    }
    let fault = match session.caller() {
        Ok(_) => Fault::UnknownCommand(quoted(name)),
        Err(fault) => fault,
    };
    session.replies.error(fault.code(), &fault);
    Ok(Flow::Next)
}
