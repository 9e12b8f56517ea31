//! Commands of one line.

use super::number::integer;
use super::shape::Flow;
use crate::error::Fault;
use crate::parse::Arguments;
use crate::session::Session;

pub(super) fn ping(session: &mut Session, arguments: Arguments<'_>) -> Result<Flow, Fault> {
    match arguments.get(1) {
        Some(message) => session.replies.bulk(message),
        None => session.replies.simple("PONG"),
    }
    Ok(Flow::Next)
}

pub(super) fn echo(session: &mut Session, arguments: Arguments<'_>) -> Result<Flow, Fault> {
    session.replies.bulk(arguments.get(1).unwrap_or_default());
    Ok(Flow::Next)
}

pub(super) fn select(session: &mut Session, arguments: Arguments<'_>) -> Result<Flow, Fault> {
    let index = arguments.get(1).unwrap_or_default();
    integer(index, 0..=0, "index").map_err(|_| Fault::Database)?;
    session.replies.ok();
    Ok(Flow::Next)
}

pub(super) fn quit(session: &mut Session, _: Arguments<'_>) -> Result<Flow, Fault> {
    session.replies.ok();
    Ok(Flow::Close)
}

pub(super) fn reset(session: &mut Session, _: Arguments<'_>) -> Result<Flow, Fault> {
    session.reset();
    session.replies.simple("RESET");
    Ok(Flow::Next)
}
