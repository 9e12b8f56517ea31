//! A policy file: named policies, each a limit set.

use tidegate_contract::key::MAX_LEVELS;

use super::fault::{Faults, PolicyErrors};
use super::fields::{Field, Fields};
use super::limit::{self, Written};
use super::source::Source;
use super::suggest::write_instead;
use crate::limit::Limit;

/// What a policy may say.
const SETTINGS: [&str; 5] = [
    "limits",
    "levels",
    "max_keys",
    "max_waiting",
    "failure_mode",
];

const FAILURE_MODES: [(&str, FailureMode); 2] =
    [("deny", FailureMode::Deny), ("admit", FailureMode::Admit)];

/// The most keys or waiters that a policy may ask for: what fits any machine.
const MOST: u64 = 1 << 40;

/// A file of policies, in the order in which it has them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PolicyFile {
    /// The policies, at least one.
    pub policies: Vec<Policy>,
}

/// What is answered when the store cannot tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FailureMode {
    /// An error: the caller decides what to do about it.
    #[default]
    Deny,
    /// Admitted, without a lease, and marked as degraded.
    Admit,
}

/// A named description of a limit set.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Policy {
    /// The name: `chat` of `[policy.chat]`.
    pub name: String,
    /// The limits, at least one, in the order of the file.
    pub limits: Vec<Limit>,
    /// What the file says of each of them, in the same order.
    pub written: Vec<Written>,
    /// The names of a key's levels, outermost first; empty if keys are flat.
    pub levels: Vec<String>,
    /// How many keys to remember; the engine's default if not said.
    pub max_keys: Option<usize>,
    /// How many may wait at once; the engine's default if not said.
    pub max_waiting: Option<usize>,
    /// What is answered when the store cannot tell; `deny` if not said.
    pub failure_mode: FailureMode,
}

impl PolicyFile {
    /// The policy of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Policy> {
        self.policies.iter().find(|policy| policy.name == name)
    }

    /// The policies' names, in the order of the file.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.policies.iter().map(|policy| policy.name.as_str())
    }
}

/// Reads a policy file from its text. `source_name` is what the errors call it,
/// usually the file's path.
///
/// # Errors
///
/// [`PolicyErrors`] has every fault of the file, not only the first.
///
/// ```
/// let text = "policy.chat.limits.rpm = { calls = 300, per = '1m' }";
/// let file = tidegate::policy::parse("chat.toml", text).unwrap();
/// assert_eq!(file.policies[0].name, "chat");
///
/// let errors = tidegate::policy::parse("chat.toml", "policy.chat.limits.rpm = { cals = 300 }");
/// assert!(errors.unwrap_err().to_string().contains("did you mean `calls`?"));
/// ```
pub fn parse(source_name: &str, text: &str) -> Result<PolicyFile, PolicyErrors> {
    parse_beside(source_name, text, &[], |_, _| {})
}

/// Reads a file that has other things beside its policies, which `others` takes
/// out by the names `known`.
pub(super) fn parse_beside(
    source_name: &str,
    text: &str,
    known: &[&str],
    others: impl FnOnce(&mut Fields<'_>, &mut Faults<'_>),
) -> Result<PolicyFile, PolicyErrors> {
    let source = Source {
        name: source_name,
        text,
    };
    let mut faults = Faults::new(&source);
    let (document, broken) = toml::de::DeTable::parse_recoverable(text);
    if !broken.is_empty() {
        // What a broken text means is a guess, and guesses make false faults.
        broken.iter().for_each(|error| not_toml(error, &mut faults));
        return Err(faults.into_errors());
    }
    let mut fields = Fields::of(document.get_ref());
    others(&mut fields, &mut faults);
    let policies = read(fields, known, &mut faults);
    if faults.is_empty() {
        Ok(PolicyFile { policies })
    } else {
        Err(faults.into_errors())
    }
}

fn not_toml(error: &toml::de::Error, faults: &mut Faults<'_>) {
    let help = match error.message() {
        "duplicate key" => "two of one name: rename one, or remove it",
        _ => "a limit is written `name = { calls = 300, per = \"1m\" }`, with texts in quotes",
    };
    let message = format!("this is not TOML: {}", error.message());
    faults.add(&error.span().unwrap_or(0..0), message, help);
}

fn read(mut fields: Fields<'_>, beside: &[&str], faults: &mut Faults<'_>) -> Vec<Policy> {
    let policies = fields.take("policy");
    let help = "begin with `[policy.NAME.limits]` and a limit on the next line";
    if policies.is_none() && fields.is_empty() {
        faults.add(&(0..0), "the file has no policy", help);
    }
    let missing = policies.is_none();
    fields.finish("a policy file", &[&["policy"], beside].concat(), faults);
    let named = policies.and_then(|field| field.table("`[policy.NAME]`", faults));
    let named = named.map(Fields::into_all).unwrap_or_default();
    if named.is_empty() && !missing && faults.is_empty() {
        faults.add(&(0..0), "the file has no policy", help);
    }
    named
        .iter()
        .filter_map(|entry| policy(entry, faults))
        .collect()
}

fn policy(entry: &Field<'_>, faults: &mut Faults<'_>) -> Option<Policy> {
    let mut fields = entry.table(&format!("`[policy.{}.limits]`", entry.name), faults)?;
    let levels = fields
        .take("levels")
        .map(|field| levels(&field, faults))
        .unwrap_or_default();
    let count = |field: Field<'_>, faults: &mut Faults<'_>| {
        field
            .integer(1..=MOST, faults)
            .and_then(|number| usize::try_from(number).ok())
    };
    let max_keys = fields
        .take("max_keys")
        .and_then(|field| count(field, faults));
    let max_waiting = fields
        .take("max_waiting")
        .and_then(|field| count(field, faults));
    let failure_mode = fields
        .take("failure_mode")
        .and_then(|field| field.word(&FAILURE_MODES, faults))
        .unwrap_or_default();
    let limits = match fields.take("limits") {
        Some(field) => limits(&field, &levels, faults),
        None => stray_limits(entry, &mut fields, faults),
    };
    fields.finish("a policy", &SETTINGS, faults);
    let (limits, written) = limits.into_iter().unzip();
    Some(Policy {
        name: entry.name.to_owned(),
        limits,
        written,
        levels,
        max_keys,
        max_waiting,
        failure_mode,
    })
}

fn levels(field: &Field<'_>, faults: &mut Faults<'_>) -> Vec<String> {
    let mut levels: Vec<String> = Vec::new();
    for (level, span) in field.texts(faults) {
        if level.is_empty() || levels.iter().any(|known| known == level) {
            faults.add(
                &span,
                format!("the level `{level}` needs a name of its own"),
                "rename it",
            );
        } else {
            if levels.len() == MAX_LEVELS {
                let message = format!("the level `{level}` is one too many");
                faults.add(&span, message, format!("keep at most {MAX_LEVELS} levels"));
            }
            levels.push(level.to_owned());
        }
    }
    levels
}

fn limits(field: &Field<'_>, levels: &[String], faults: &mut Faults<'_>) -> Vec<(Limit, Written)> {
    let Some(fields) = field.table("`[policy.NAME.limits]`", faults) else {
        return Vec::new();
    };
    if fields.is_empty() {
        let help = "write one, such as `rpm = { calls = 300, per = \"1m\" }`";
        faults.add(&field.key_span, "there is no limit in it", help);
    }
    let entries = fields.into_all();
    entries
        .iter()
        .filter_map(|entry| limit::read(entry, levels, faults))
        .collect()
}

/// A policy without `limits`: either they are misnamed, or they stand one
/// table too high, which is worth its own words.
fn stray_limits(
    entry: &Field<'_>,
    fields: &mut Fields<'_>,
    faults: &mut Faults<'_>,
) -> Vec<(Limit, Written)> {
    let message = format!("the policy `{}` has no limits", entry.name);
    let stray = fields.take_tables();
    let misnamed = stray
        .iter()
        .find(|field| write_instead(field.name, &["limits"]).starts_with("did"));
    let help = match (misnamed, stray.is_empty()) {
        (Some(field), _) => format!("rename `{}` to `limits`", field.name),
        (None, false) => format!("write them under `[policy.{}.limits]`", entry.name),
        (None, true) => {
            format!(
                "write `[policy.{}.limits]` and a limit on the next line",
                entry.name
            )
        }
    };
    faults.add(
        &stray
            .first()
            .map_or(&entry.key_span, |field| &field.key_span)
            .clone(),
        message,
        help,
    );
    Vec::new()
}
