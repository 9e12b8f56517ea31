//! Limits as a policy's file writes them, for protocols that are given them, and
//! show them, field by field: `{"rpm": {"calls": 5000, "per": "1m"}}`.

use std::fmt::Write;

use tidegate::internal::LimitInternals;
use tidegate::{Limit, Period, Unit};
use tidegate_core::Span;
use tidegate_policy::{self, FIXED_SETTINGS, PolicyErrors};

/// The field that says that only its key has a limit.
const ADDED: &str = "added";

/// A limit as it is given: its name, and its fields by theirs.
pub type GivenLimit = (String, Vec<(String, Setting)>);

/// What a field of a limit says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Setting {
    /// A whole number.
    Integer(u64),
    /// An amount: so many of the limit's unit.
    Units(u64),
    /// A text: a length of time, a zone, a word.
    Text(String),
    /// Yes or no.
    Flag(bool),
}

/// One thing that is wrong with limits that were given.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}{message}; {help}", whose(limit))]
#[non_exhaustive]
pub struct LimitFault {
    /// The limit; empty if it is about all of it.
    pub limit: String,
    /// What is wrong.
    pub message: String,
    /// What to say instead.
    pub help: String,
}

fn whose(limit: &str) -> String {
    match limit {
        "" => String::new(),
        limit => format!("limit `{limit}`: "),
    }
}

/// Limits from their fields, each under its name, by the rules of a policy's
/// file.
///
/// # Errors
/// Everything that is wrong, at once.
pub fn read_limits(given: &[GivenLimit]) -> Result<Vec<Limit>, Vec<LimitFault>> {
    let mut faults: Vec<_> = given.iter().flat_map(fixed).collect();
    faults.extend(given.iter().filter_map(|one| added(one).err()));
    // One line for each limit, so that a fault's line says whose it is.
    let mut text = String::from("[policy.override.limits]\n");
    for (name, fields) in given {
        write_line(name, fields, &mut text);
    }
    match tidegate_policy::parse("override", &text) {
        Ok(mut file) if faults.is_empty() => {
            let limits = file.policies.remove(0).limits.into_iter();
            let is_added = |limit: &Limit| {
                let mut of_it = given.iter().filter(|(name, _)| name == limit.name());
                of_it.any(|one| added(one) == Ok(true))
            };
            let limits = limits.map(|limit| match is_added(&limit) {
                true => limit.added(),
                false => limit,
            });
            Ok(limits.collect())
        }
        Ok(_) => Err(faults),
        Err(errors) => {
            faults.extend(faults_of(&errors, given));
            Err(faults)
        }
    }
}

/// Whether the limit is to be added to its key. RESP has numbers and texts alone.
fn added((name, fields): &GivenLimit) -> Result<bool, LimitFault> {
    let said = fields.iter().find(|(field, _)| field == ADDED);
    match said.map(|(_, setting)| setting) {
        None | Some(Setting::Flag(false) | Setting::Integer(0)) => Ok(false),
        Some(Setting::Flag(true) | Setting::Integer(1)) => Ok(true),
        Some(Setting::Text(text)) if text == "true" => Ok(true),
        Some(Setting::Text(text)) if text == "false" => Ok(false),
        Some(_) => Err(LimitFault {
            limit: name.clone(),
            message: format!("`{ADDED}` is true or false"),
            help: "say true to give the key a limit that its policy does not have".into(),
        }),
    }
}

fn fixed((name, fields): &GivenLimit) -> impl Iterator<Item = LimitFault> {
    let fixed = fields
        .iter()
        .filter(|(field, _)| FIXED_SETTINGS.contains(&field.as_str()));
    fixed.map(move |(field, _)| LimitFault {
        limit: name.clone(),
        message: format!("`{field}` stays as the policy has it"),
        help: "remove it; an override changes how much, not how it is counted".into(),
    })
}

fn faults_of<'g>(
    errors: &'g PolicyErrors,
    given: &'g [GivenLimit],
) -> impl Iterator<Item = LimitFault> + 'g {
    errors.faults().iter().map(|fault| {
        let limit = given.get(fault.line.wrapping_sub(2));
        LimitFault {
            limit: limit.map(|(name, _)| name.clone()).unwrap_or_default(),
            message: fault.message.clone(),
            help: fault.help.clone(),
        }
    })
}

fn write_line(name: &str, fields: &[(String, Setting)], out: &mut String) {
    quote(name, out);
    out.push_str(" = {");
    let kept = fields
        .iter()
        .filter(|(field, _)| field != ADDED && !FIXED_SETTINGS.contains(&field.as_str()));
    for (nth, (field, setting)) in kept.enumerate() {
        out.push_str(if nth > 0 { ", " } else { " " });
        quote(field, out);
        out.push_str(" = ");
        match setting {
            // Writing to a text does not fail.
            Setting::Integer(number) | Setting::Units(number) => _ = write!(out, "{number}"),
            Setting::Flag(flag) => _ = write!(out, "{flag}"),
            Setting::Text(text) => quote(text, out),
        }
    }
    out.push_str(" }\n");
}

/// Writes a text as TOML has it, on one line.
fn quote(text: &str, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            letter if letter.is_control() => _ = write!(out, "\\u{:04X}", u32::from(letter)),
            letter => out.push(letter),
        }
    }
    out.push('"');
}

/// The fields of a limit that an override can have, as [`read_limits`] reads
/// them.
#[must_use]
pub fn settings_of(limit: &Limit) -> Vec<(&'static str, Setting)> {
    let mut settings = vec![(limit.kind(), Setting::Units(limit.capacity()))];
    let mut text = |field, text: String| settings.push((field, Setting::Text(text)));
    match limit.period() {
        None => {}
        Some(Period::Every(length)) => text("per", Span::from(*length).to_string()),
        Some(Period::Day { zone }) => {
            text("per", "day".into());
            text("zone", zone.clone());
        }
        Some(Period::Week { zone }) => {
            text("per", "week".into());
            text("zone", zone.clone());
        }
        Some(Period::Month { zone }) => {
            text("per", "month".into());
            text("zone", zone.clone());
        }
    }
    if let Some(algorithm) = limit.algorithm_word() {
        text("algorithm", algorithm.into());
    }
    if let Some(ttl) = limit.held_for() {
        text("ttl", Span::from(ttl).to_string());
    }
    if limit.at_most() != limit.capacity() {
        settings.push(("burst", Setting::Units(limit.at_most())));
    }
    if limit.amounts() != Unit::ONE {
        settings.push(("unit", Setting::Text(limit.amounts().to_string())));
    }
    settings.extend(
        limit
            .precision()
            .map(|(field, count)| (field, Setting::Integer(count))),
    );
    if limit.is_added() {
        settings.push((ADDED, Setting::Flag(true)));
    }
    settings
}
