//! One entity that a server is to keep.

use std::collections::BTreeMap;
use std::ops::Range;

use super::bounds::{wrong_entity_id, wrong_metadata, wrong_name};
use crate::fault::Faults;
use crate::fields::{Field, Fields};

const SETTINGS: [&str; 5] = ["parent", "name", "metadata", "charge_parents", "absent"];

/// An entity as a file says it. What it does not say stays as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DesiredEntity {
    /// The id: `acme` of `[entity.acme]`.
    pub id: String,
    /// The line of the file where it stands, counted from 1.
    pub line: usize,
    /// Whether it is not to be there; then nothing else is said.
    pub absent: bool,
    /// The id of the entity that it is to belong to.
    pub parent: Option<String>,
    /// What people call it.
    pub name: Option<String>,
    /// All of its metadata.
    pub metadata: Option<BTreeMap<String, String>>,
    /// Whether its ancestors' limits count, too: they can refuse, and they are charged.
    pub charge_parents: Option<bool>,
}

/// Reads an entity; `None` if it is none at all.
pub(super) fn read(
    entry: &Field<'_>,
    line: usize,
    faults: &mut Faults<'_>,
) -> Option<DesiredEntity> {
    id(entry.name, &entry.key_span, faults);
    let mut fields = entry.table(&format!("`[entity.{}]`", entry.name), faults)?;
    let what = format!("`{}`", entry.name);
    let absent = absent(&mut fields, (&what, &SETTINGS), faults);
    let parent = fields.take("parent");
    let parent = parent.and_then(|field| named(&field, faults));
    let name = fields.take("name").and_then(|field| {
        let name = field.text("Acme Inc.", faults)?;
        refuse(&field, wrong_name(name), faults);
        Some(name.to_owned())
    });
    let metadata = fields.take("metadata").and_then(|field| {
        let metadata = words(&field, faults)?;
        refuse(&field, wrong_metadata(&metadata), faults);
        Some(metadata)
    });
    let charge_parents = fields.take("charge_parents");
    let charge_parents = charge_parents.and_then(|field| field.flag(faults));
    fields.finish("an entity", &SETTINGS, faults);
    Some(DesiredEntity {
        id: entry.name.to_owned(),
        line,
        absent,
        parent,
        name,
        metadata,
        charge_parents,
    })
}

/// Whether it is not to be there; what else is said of it then is a fault.
pub(super) fn absent(
    fields: &mut Fields<'_>,
    (what, settings): (&str, &[&str]),
    faults: &mut Faults<'_>,
) -> bool {
    let absent = fields.take("absent");
    let absent = absent.and_then(|field| field.flag(faults)) == Some(true);
    for setting in settings.iter().filter(|_| absent) {
        if let Some(field) = fields.take(setting) {
            let message = format!("{what} is to be absent, and has a `{setting}`");
            faults.add(&field.key_span, message, "remove it, or `absent`");
        }
    }
    absent
}

/// The id of another entity.
pub(super) fn named(field: &Field<'_>, faults: &mut Faults<'_>) -> Option<String> {
    let text = field.text("acme", faults)?;
    id(text, &field.span, faults);
    Some(text.to_owned())
}

fn id(text: &str, span: &Range<usize>, faults: &mut Faults<'_>) {
    if let Some(wrong) = wrong_entity_id(text) {
        faults.add(span, format!("`{text}` is no entity's id"), wrong);
    }
}

/// What is wrong with a setting, if anything is.
pub(super) fn refuse(field: &Field<'_>, wrong: Option<&'static str>, faults: &mut Faults<'_>) {
    if let Some(wrong) = wrong {
        faults.add(
            &field.span,
            format!("`{}`: {wrong}", field.name),
            "say less",
        );
    }
}

/// Words of its owner's.
fn words(field: &Field<'_>, faults: &mut Faults<'_>) -> Option<BTreeMap<String, String>> {
    let words = field.table("`metadata = { tier = \"gold\" }`", faults)?;
    let words = words.into_all();
    let said = words.iter().filter_map(|word| {
        let says = word.text("gold", faults)?;
        Some((word.name.to_owned(), says.to_owned()))
    });
    Some(said.collect())
}
