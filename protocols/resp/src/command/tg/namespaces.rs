//! NAMESPACE, USE: parts of the store that share nothing.

use std::borrow::Cow;

use tidegate_service::Call;

use super::listing::{cursor, most};
use super::named::{once, text};
use crate::command::shape::Flow;
use crate::error::{Fault, quoted};
use crate::parse::Arguments;
use crate::session::Session;

const LIST: &str = "TG.NAMESPACE LIST [CURSOR c] [COUNT n]";
const SHOW: &str = "TG.NAMESPACE SHOW name";
const CHANGE: &str = "TG.NAMESPACE CREATE|DELETE|RESTORE|PURGE name [REASON text]";

/// How messages call its argument.
const NAME: &str = "the namespace's name";

/// From here on the connection's commands are answered in a namespace.
pub(in crate::command) fn use_(
    session: &mut Session,
    arguments: Arguments<'_>,
) -> Result<Flow, Fault> {
    let name = text(arguments.get(1).unwrap_or_default(), NAME)?;
    session.enter_namespace(name)?;
    session.replies.ok();
    Ok(Flow::Next)
}

pub(in crate::command) fn namespace(arguments: Arguments<'_>) -> Result<Call<'_>, Fault> {
    let word = arguments.get(1).unwrap_or_default();
    Ok(match word.to_ascii_uppercase().as_slice() {
        b"CREATE" => changed(arguments, Call::CreateNamespace)?,
        b"DELETE" => changed(arguments, Call::DeleteNamespace)?,
        b"RESTORE" => changed(arguments, Call::RestoreNamespace)?,
        b"PURGE" => changed(arguments, Call::PurgeNamespace)?,
        b"SHOW" => match arguments.get(3) {
            None => Call::Namespace(name(arguments, SHOW)?),
            Some(word) => return Err(Fault::Words(quoted(word), SHOW.into())),
        },
        b"LIST" => page(arguments)?,
        _ => {
            return Err(Fault::UnknownSubcommand(
                "TG.NAMESPACE",
                quoted(word),
                "CREATE, SHOW, DELETE, RESTORE, PURGE and LIST",
            ));
        }
    })
}

fn name<'a>(arguments: Arguments<'a>, usage: &'static str) -> Result<&'a str, Fault> {
    let (command, usage_of_it) = usage.split_once(' ').unwrap_or_default();
    let name = arguments.get(2);
    text(name.ok_or(Fault::Arity(command, usage_of_it))?, NAME)
}

fn changed<'a>(
    arguments: Arguments<'a>,
    call: fn(&'a str, Option<&'a str>) -> Call<'a>,
) -> Result<Call<'a>, Fault> {
    let (name, mut reason) = (name(arguments, CHANGE)?, None);
    let mut words = arguments.from(3);
    while let Some(word) = words.next() {
        let wrong = || Fault::Words(quoted(word), CHANGE.into());
        match word.to_ascii_uppercase().as_slice() {
            b"REASON" => {
                let says = words.next().ok_or_else(wrong)?;
                once(&mut reason, text(says, "the reason")?, "REASON")?;
            }
            _ => return Err(wrong()),
        }
    }
    Ok(call(name, reason))
}

fn page(arguments: Arguments<'_>) -> Result<Call<'_>, Fault> {
    let (mut after, mut count) = (None, None);
    let mut words = arguments.from(2);
    while let Some(word) = words.next() {
        let wrong = || Fault::Words(quoted(word), LIST.into());
        match word.to_ascii_uppercase().as_slice() {
            b"CURSOR" => once(&mut after, words.next().ok_or_else(wrong)?, "CURSOR")?,
            b"COUNT" => once(&mut count, words.next().ok_or_else(wrong)?, "COUNT")?,
            _ => return Err(wrong()),
        }
    }
    let after = after.map(cursor).transpose()?;
    Ok(Call::Namespaces(after.map(Cow::Owned), most(count)?))
}
