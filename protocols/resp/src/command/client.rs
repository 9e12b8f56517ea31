//! `CLIENT`: what a client says about itself.

use super::shape::Flow;
use crate::error::{Fault, quoted};
use crate::parse::Arguments;
use crate::session::Session;

/// The longest name or version that is kept.
const LONGEST: usize = 128;

/// What may follow the command.
const KNOWN: &str = "ID, GETNAME, SETNAME name, SETINFO attribute value, INFO, LIST, NO-EVICT on|off and \
    NO-TOUCH on|off";

pub(super) fn client(session: &mut Session, arguments: Arguments<'_>) -> Result<Flow, Fault> {
    let word = arguments.get(1).unwrap_or_default();
    let (one, two) = (arguments.get(2), arguments.get(3));
    match (word.to_ascii_uppercase().as_slice(), one, two) {
        (b"ID", None, _) => session.replies.count(session.id),
        (b"GETNAME", None, _) => get_name(session),
        (b"SETNAME", Some(name), None) => {
            set_name(session, name)?;
            session.replies.ok();
        }
        (b"SETINFO", Some(attribute), Some(value)) => set_info(session, attribute, value)?,
        // There is one connection that it may know of: its own.
        (b"INFO", None, _) | (b"LIST", _, _) => {
            let line = describe(session)?;
            session.replies.verbatim(&line);
        }
        // Nothing is ever evicted or touched on a client's behalf.
        (b"NO-EVICT" | b"NO-TOUCH", Some(_), None) => session.replies.ok(),
        _ => return Err(Fault::UnknownSubcommand("CLIENT", quoted(word), KNOWN)),
    }
    Ok(Flow::Next)
}

fn get_name(session: &mut Session) {
    match session.name.is_empty() {
        true => session.replies.null(),
        false => session.replies.bulk(&session.name),
    }
}

/// Takes a client's name for itself.
pub(super) fn set_name(session: &mut Session, name: &[u8]) -> Result<(), Fault> {
    session.name = checked(name)?.to_vec();
    Ok(())
}

fn set_info(session: &mut Session, attribute: &[u8], value: &[u8]) -> Result<(), Fault> {
    let place = match attribute.to_ascii_uppercase().as_slice() {
        b"LIB-NAME" => 0,
        b"LIB-VER" => 1,
        _ => return Err(Fault::Syntax(quoted(attribute))),
    };
    session.library[place] = checked(value)?.to_vec();
    session.replies.ok();
    Ok(())
}

/// What stands in a line of CLIENT LIST without breaking it.
fn checked(name: &[u8]) -> Result<&[u8], Fault> {
    match name.len() <= LONGEST && name.iter().all(u8::is_ascii_graphic) {
        true => Ok(name),
        false => Err(Fault::ClientName),
    }
}

fn describe(session: &mut Session) -> Result<String, Fault> {
    let user = session.caller()?.name().to_owned();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let [library, version] = &session.library;
    Ok(format!(
        "id={} name={} user={user} lib-name={} lib-ver={} resp={} db=0\n",
        session.id,
        text(&session.name),
        text(library),
        text(version),
        session.replies.protocol.number(),
    ))
}
