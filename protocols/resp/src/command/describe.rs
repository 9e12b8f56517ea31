//! `COMMAND`: the table, as `redis-cli` and client libraries ask for it.

use super::shape::Flow;
use super::shape::{Command, Group};
use super::table::{COMMANDS, find};
use crate::error::{Fault, quoted};
use crate::parse::Arguments;
use crate::render::reply::Replies;
use crate::session::Session;

pub(super) fn command(session: &mut Session, arguments: Arguments<'_>) -> Result<Flow, Fault> {
    let replies = &mut session.replies;
    let word = arguments.get(1).unwrap_or_default();
    match word.to_ascii_uppercase().as_slice() {
        b"" => each(replies, arguments, entry),
        b"COUNT" => replies.integer(COMMANDS.len() as i64),
        b"INFO" => each(replies, arguments, entry),
        b"DOCS" => docs(replies, arguments),
        b"LIST" => {
            replies.array(COMMANDS.len());
            COMMANDS
                .iter()
                .for_each(|command| replies.text(command.name));
        }
        _ => {
            return Err(Fault::UnknownSubcommand(
                "COMMAND",
                quoted(word),
                "COUNT, INFO, DOCS and LIST",
            ));
        }
    }
    Ok(Flow::Next)
}

/// An entry for each name, nothing for one that is unknown; without names for all.
fn each(replies: &mut Replies, arguments: Arguments<'_>, write: fn(&mut Replies, &Command)) {
    if arguments.len() <= 2 {
        replies.array(COMMANDS.len());
        return COMMANDS.iter().for_each(|command| write(replies, command));
    }
    replies.array(arguments.len() - 2);
    for name in arguments.from(2) {
        match find(name) {
            Some(command) => write(replies, command),
            None => replies.null(),
        }
    }
}

/// Name, arity, flags, first key, last key, step; and four lists of subtleties.
fn entry(replies: &mut Replies, command: &Command) {
    let key = match command.group {
        Group::Connection => 0,
        Group::Key { position, .. } => position as i64,
    };
    replies.array(10);
    replies.text(&command.name.to_ascii_lowercase());
    replies.integer(arity(command));
    let flags = flags(command);
    replies.array(flags.len());
    flags.iter().for_each(|flag| replies.simple(flag));
    for place in [key, key, key.min(1)] {
        replies.integer(place);
    }
    (0..4).for_each(|_| replies.array(0));
}

/// Negative where it is only the least.
fn arity(command: &Command) -> i64 {
    match command.arguments {
        (fewest, most) if fewest == most => fewest as i64,
        (fewest, _) => -(fewest as i64),
    }
}

fn flags(command: &Command) -> &'static [&'static str] {
    match (command.group, command.before_auth) {
        (Group::Key { write: true, .. }, _) => &["write", "fast"],
        (Group::Key { write: false, .. }, _) => &["readonly", "fast"],
        (Group::Connection, true) => &["fast", "no_auth"],
        (Group::Connection, false) => &["fast"],
    }
}

/// As `each`, but a map, in which unknown names are left out.
fn docs(replies: &mut Replies, arguments: Arguments<'_>) {
    let known = || arguments.from(2).filter_map(find);
    match arguments.len() {
        ..=2 => {
            replies.map(COMMANDS.len());
            COMMANDS.iter().for_each(|command| doc(replies, command));
        }
        _ => {
            replies.map(known().count());
            known().for_each(|command| doc(replies, command));
        }
    }
}

fn doc(replies: &mut Replies, command: &Command) {
    let group = match command.group {
        Group::Connection => "connection",
        Group::Key { .. } => "module",
    };
    replies.text(&command.name.to_ascii_lowercase());
    replies.map(5);
    for (name, value) in [
        ("summary", command.summary),
        ("since", env!("CARGO_PKG_VERSION")),
        ("group", group),
        ("complexity", "O(1)"),
    ] {
        replies.text(name);
        replies.text(value);
    }
    replies.text("arguments");
    usage(replies, command);
}

/// One argument that shows the whole usage: `redis-cli` prints it as it is.
fn usage(replies: &mut Replies, command: &Command) {
    replies.array(usize::from(!command.usage.is_empty()));
    if command.usage.is_empty() {
        return;
    }
    replies.map(3);
    for (name, value) in [
        ("name", "usage"),
        ("type", "string"),
        ("display_text", command.usage),
    ] {
        replies.text(name);
        replies.text(value);
    }
}
