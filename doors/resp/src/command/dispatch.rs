//! One request: found, checked, run.

use tidegate::gate::RequestSpan;

use super::table::{Command, Run, find};
use crate::fault::Fault;
use crate::parse::{Arguments, ProtocolError};
use crate::session::Session;

/// How the conversation goes on.
#[derive(Debug)]
pub(crate) enum Flow {
    /// With the next request.
    Next,
    /// Not at all, after this answer.
    Close,
}

/// How much of an unknown name an error repeats.
const QUOTED: usize = 64;

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
        Flow::Next
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
        Run::Later(run) => span.around(run(session, arguments)).await,
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

/// The beginning of what was sent, for an error.
pub(super) fn quoted(word: &[u8]) -> String {
    let beginning = &word[..word.len().min(QUOTED)];
    String::from_utf8_lossy(beginning).into_owned()
}
