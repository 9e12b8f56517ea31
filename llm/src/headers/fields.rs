//! The fields `RateLimit` and `RateLimit-Policy` of the IETF draft "RateLimit header fields for
//! HTTP": lists of strings with parameters since its 8th version (`"default";r=50;t=30`), a
//! dictionary in its 7th (`limit=100, remaining=50, reset=30`), three headers before. Read
//! leniently: a name may be a token, `r` may be missing. A field that is malformed anywhere is
//! ignored as a whole.

use std::borrow::Cow;

use sfv::{BareItem, Dictionary, Item, List, ListEntry, Parser};
use tidegate_core::{Amount, MAX_AMOUNT, Span};

use super::observation::{MOST_OBSERVATIONS, Observation};
use super::reader::Reader;
use super::table::BEFORE;
use crate::provider::Unit;

/// A name longer than this is none.
const LONGEST_NAME: usize = 64;

/// What the fields say; what the headers before them say if they are not there.
pub(super) fn read(reader: &mut Reader<'_>) -> Vec<Observation> {
    let mut seen = Vec::new();
    for (field, take) in [
        ("ratelimit-policy", policy as Take),
        ("ratelimit", state as Take),
    ] {
        let Some(text) = joined(reader, field) else {
            continue;
        };
        let Some(text) = reader.counted(text) else {
            continue;
        };
        let list = Parser::new(&text).parse::<List>();
        let list = list.unwrap_or_default();
        if !list.is_empty() && list.iter().all(is_named) {
            for item in list.iter().filter_map(item) {
                take(reader, &mut seen, item);
            }
        } else if !list.is_empty() && list.iter().all(is_seventh) {
            // Policies that say which of several holds by nothing: the dictionary says it.
        } else if field == "ratelimit"
            && let Ok(dictionary) = Parser::new(&text).parse::<Dictionary>()
        {
            seen.extend(seventh(reader, &dictionary));
        } else {
            reader.ignored += 1;
        }
    }
    seen.retain(Observation::says_something);
    if seen.is_empty() {
        seen.extend(BEFORE.iter().find_map(|row| reader.row(row)));
    }
    seen
}

type Take = fn(&mut Reader<'_>, &mut Vec<Observation>, &Item);

/// A field may stand in several lines. `Some(None)`: one of them is no text.
fn joined(reader: &Reader<'_>, field: &'static str) -> Option<Option<String>> {
    let lines = reader.headers.get_all(field).iter();
    let lines: Vec<Option<&str>> = lines.map(|line| line.to_str().ok()).collect();
    (!lines.is_empty()).then(|| {
        let lines: Option<Vec<&str>> = lines.into_iter().collect();
        lines.map(|lines| lines.join(","))
    })
}

/// A member of the present form: a string, or a token that is alone (the seventh has `limit=100`,
/// and of its policies `100;w=60`).
fn is_named(entry: &ListEntry) -> bool {
    item(entry).is_some_and(|item| name(item).is_some())
}

/// A policy of the seventh: `100;w=60`.
fn is_seventh(entry: &ListEntry) -> bool {
    item(entry).is_some_and(|item| item.bare_item.as_integer().is_some())
}

const fn item(entry: &ListEntry) -> Option<&Item> {
    match entry {
        ListEntry::Item(item) => Some(item),
        ListEntry::InnerList(_) => None,
    }
}

fn name(item: &Item) -> Option<&str> {
    let name = match &item.bare_item {
        BareItem::String(name) => name.as_str(),
        BareItem::Token(name) => name.as_str(),
        _ => return None,
    };
    (name.len() <= LONGEST_NAME).then_some(name)
}

/// The observation of a name, made if it is new and there is room.
fn named<'s>(
    reader: &mut Reader<'_>,
    seen: &'s mut Vec<Observation>,
    item: &Item,
) -> Option<&'s mut Observation> {
    let name = name(item)?;
    let known = seen.iter().position(|known| known.name == name);
    let at = match known {
        Some(at) => at,
        None if seen.len() == MOST_OBSERVATIONS => {
            reader.ignored += 1;
            return None;
        }
        None => {
            let mut new = Observation::of("", Unit::Requests, None);
            new.name = Cow::Owned(name.to_owned());
            seen.push(new);
            seen.len() - 1
        }
    };
    Some(&mut seen[at])
}

fn policy(reader: &mut Reader<'_>, seen: &mut Vec<Observation>, item: &Item) {
    let limit = integer(reader, item, "q");
    let window = seconds(reader, item, "w", Span::SECOND);
    if let Some(seen) = named(reader, seen, item) {
        (seen.limit, seen.window) = (limit, window);
        seen.unit = unit(item);
    }
}

fn state(reader: &mut Reader<'_>, seen: &mut Vec<Observation>, item: &Item) {
    let remaining = integer(reader, item, "r");
    let more_in = seconds(reader, item, "t", Span::ZERO);
    let at = reader.received.at();
    if let Some(seen) = named(reader, seen, item) {
        seen.remaining = remaining;
        seen.reset_at = more_in.map(|more_in| at + more_in);
    }
}

/// What is counted: requests unless it says otherwise. Of units of one's own (`acme-qu`) the name
/// has to tell.
fn unit(item: &Item) -> Unit {
    let of = |key: &str| item.params.get(key).and_then(BareItem::as_string);
    let own = item.params.keys().any(|key| key.as_str().ends_with("-qu"));
    match of("qu").map(|unit| unit.as_str()) {
        None if own => Unit::Other,
        None | Some("requests" | "request") => Unit::Requests,
        Some(_) => Unit::Other,
    }
}

fn seventh(reader: &mut Reader<'_>, dictionary: &Dictionary) -> Option<Observation> {
    let mut of = |key: &str| match dictionary.get(key)? {
        ListEntry::Item(item) => reader.counted(whole(&item.bare_item)),
        ListEntry::InnerList(_) => reader.counted(None),
    };
    let mut seen = Observation::of("default", Unit::Requests, None);
    (seen.limit, seen.remaining) = (of("limit"), of("remaining"));
    let reset = of("reset").and_then(|reset| span(reset, Span::ZERO));
    seen.reset_at = reset.map(|reset| reader.received.at() + reset);
    Some(seen)
}

/// A parameter that is an amount; one that is none is counted.
fn integer(reader: &mut Reader<'_>, item: &Item, key: &str) -> Option<Amount> {
    let value = item.params.get(key)?;
    reader.counted(whole(value))
}

/// A parameter in seconds, so many at least; one that is none is counted.
fn seconds(reader: &mut Reader<'_>, item: &Item, key: &str, least: Span) -> Option<Span> {
    let value = item.params.get(key)?;
    reader.counted(whole(value).and_then(|seconds| span(seconds, least)))
}

fn whole(item: &BareItem) -> Option<Amount> {
    let whole = i64::from(item.as_integer()?);
    Amount::try_from(whole)
        .ok()
        .filter(|amount| *amount <= MAX_AMOUNT)
}

/// So many seconds, if that is believed.
fn span(seconds: u64, least: Span) -> Option<Span> {
    let longest = Span::LONGEST_PERIOD.as_micros() / 1_000_000;
    let span = (seconds <= longest).then(|| Span::from_secs(seconds));
    span.filter(|span| *span >= least)
}
