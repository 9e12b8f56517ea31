//! `HELLO` and `AUTH`: which protocol, and who is there.

use super::client::set_name;
use super::shape::Flow;
use crate::error::{Fault, quoted};
use crate::parse::Arguments;
use crate::render::reply::Protocol;
use crate::session::Session;

/// Whom a token alone speaks for.
const DEFAULT: &[u8] = b"default";

pub(super) fn auth(session: &mut Session, arguments: Arguments<'_>) -> Result<Flow, Fault> {
    let (user, token) = match (arguments.get(1), arguments.get(2)) {
        (Some(user), Some(token)) => (user, token),
        (token, _) => (DEFAULT, token.unwrap_or_default()),
    };
    session.authenticate(user, token)?;
    session.replies.ok();
    Ok(Flow::Next)
}

pub(super) fn hello(session: &mut Session, arguments: Arguments<'_>) -> Result<Flow, Fault> {
    let protocol = match arguments.get(1) {
        None => session.replies.protocol,
        Some(b"2") => Protocol::Resp2,
        Some(b"3") => Protocol::Resp3,
        Some(_) => return Err(Fault::Protocol),
    };
    options(session, arguments)?;
    session.caller()?;
    session.replies.protocol = protocol;
    introduce(session);
    Ok(Flow::Next)
}

/// `AUTH user token` and `SETNAME name`.
fn options(session: &mut Session, arguments: Arguments<'_>) -> Result<(), Fault> {
    let mut words = arguments.from(2);
    while let Some(word) = words.next() {
        let syntax = || Fault::Syntax(quoted(word));
        if word.eq_ignore_ascii_case(b"AUTH") {
            let user = words.next().ok_or_else(syntax)?;
            let token = words.next().ok_or_else(syntax)?;
            session.authenticate(user, token)?;
        } else if word.eq_ignore_ascii_case(b"SETNAME") {
            set_name(session, words.next().ok_or_else(syntax)?)?;
        } else {
            return Err(syntax());
        }
    }
    Ok(())
}

/// Who we are. Clients look for these names.
fn introduce(session: &mut Session) {
    let id = session.id;
    let replies = &mut session.replies;
    replies.map(7);
    for (name, value) in [
        ("server", "tidegate"),
        ("version", env!("CARGO_PKG_VERSION")),
    ] {
        replies.text(name);
        replies.text(value);
    }
    replies.text("proto");
    replies.count(replies.protocol.number());
    replies.text("id");
    replies.count(id);
    for (name, value) in [("mode", "standalone"), ("role", "master")] {
        replies.text(name);
        replies.text(value);
    }
    replies.text("modules");
    replies.array(0);
}
