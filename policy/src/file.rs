//! A policy file: named policies, each a limit set or a pool of them.

use super::definition::{self, Policy};
use super::fault::{Faults, PolicyErrors};
use super::fields::Fields;
use super::language::Language;
use super::source::Source;
use super::toml;
use super::tree::{Node, Value};

/// A file of policies, in the order in which it has them.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct PolicyFile {
    /// The policies, at least one.
    pub policies: Vec<Policy>,
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
/// usually the file's path; it tells the [`Language`] too.
///
/// # Errors
///
/// [`PolicyErrors`] has every fault of the file, not only the first.
///
/// ```
/// let text = "policy.chat.limits.rpm = { calls = 300, per = '1m' }";
/// let file = tidegate_policy::parse("chat.toml", text).unwrap();
/// assert_eq!(file.policies[0].name, "chat");
///
/// let errors = tidegate_policy::parse("chat.toml", "policy.chat.limits.rpm = { cals = 300 }");
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
        language: Language::of(source_name),
    };
    let mut faults = Faults::new(&source);
    let Some(tree) = tree(&source, &mut faults) else {
        return Err(faults.into_errors());
    };
    let Some(mut fields) = fields(&tree, "begin with `policy = { ... }`", &mut faults) else {
        return Err(faults.into_errors());
    };
    others(&mut fields, &mut faults);
    let policies = read(fields, known, &mut faults);
    if faults.is_empty() {
        Ok(PolicyFile { policies })
    } else {
        Err(faults.into_errors())
    }
}

/// What the file has at its top.
pub(super) fn fields<'n>(
    tree: &'n Node,
    help: &str,
    faults: &mut Faults<'_>,
) -> Option<Fields<'n>> {
    match &tree.value {
        Value::Table(entries) => Some(Fields::of(entries)),
        other => {
            let message = format!("the file is {}; it must be a table", other.kind());
            faults.add(&tree.span, message, help);
            None
        }
    }
}

/// What the text says, in whichever language.
pub(super) fn tree(source: &Source<'_>, faults: &mut Faults<'_>) -> Option<Node> {
    match source.language {
        Language::Toml => toml::read(source.text, faults),
        #[cfg(feature = "yaml")]
        Language::Yaml => super::yaml::read(source.text, faults),
        #[cfg(not(feature = "yaml"))]
        Language::Yaml => {
            let help = "write it as TOML, or build with the feature `yaml`";
            faults.add(&(0..0), "YAML is not read by this build", help);
            None
        }
    }
}

/// The policies of a namespace, whose name stands at `span`: one at least.
pub(super) fn read_namespace(
    mut fields: Fields<'_>,
    span: &std::ops::Range<usize>,
    faults: &mut Faults<'_>,
) -> PolicyFile {
    let policies = fields.take("policy");
    fields.finish("a namespace", &["policy"], faults);
    let named = policies.and_then(|field| field.table("`[policy.NAME]`", faults));
    let named = named.map(Fields::into_all).unwrap_or_default();
    if named.is_empty() {
        let help = "write `[namespace.NAME.policy.POLICY.limits]`, or leave the namespace out: it \
                    has the policies of the file then";
        faults.add(span, "the namespace has no policy", help);
    }
    let policies = named.iter();
    let policies = policies.filter_map(|entry| definition::read(entry, faults));
    PolicyFile {
        policies: policies.collect(),
    }
}

fn read(mut fields: Fields<'_>, beside: &[&str], faults: &mut Faults<'_>) -> Vec<Policy> {
    let policies = fields.take("policy");
    let help = "begin with `[policy.NAME.limits]` and a limit on the next line";
    if policies.is_none() && fields.is_empty() {
        faults.add(&(0..0), "the file has no policy", help);
    }
    let missing = policies.is_none();
    let beyond = "that stands in a file of its own, which `tidegate limits plan FILE` holds \
                  against a server";
    fields.elsewhere(&["entity", "override"], "a policy file", beyond, faults);
    fields.finish("a policy file", &[&["policy"], beside].concat(), faults);
    let named = policies.and_then(|field| field.table("`[policy.NAME]`", faults));
    let named = named.map(Fields::into_all).unwrap_or_default();
    if named.is_empty() && !missing && faults.is_empty() {
        faults.add(&(0..0), "the file has no policy", help);
    }
    named
        .iter()
        .filter_map(|entry| definition::read(entry, faults))
        .collect()
}
