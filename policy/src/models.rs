//! Tables of a file that say something of models, by their names: `[price]`, `[token-weight]`.

use tidegate::{AmountError, Unit};

use super::fault::Faults;
use super::fields::Field;
use super::tree::{Entry, Node, Value};

/// What can be said of a model's tokens: each kind has something of its own.
const SETTINGS: [&str; 4] = ["input", "cached-input", "cache-write", "output"];

/// No table has more models than this.
const MOST: usize = 1_000;

/// How such a table is called, and what stands in it.
pub(super) struct Sort {
    pub(super) table: &'static str,
    pub(super) one: &'static str,
    pub(super) several: &'static str,
    /// What to write of a model.
    pub(super) example: &'static str,
}

/// What is said of one model.
pub(super) struct OfModel<'a> {
    pub(super) entry: Field<'a>,
    /// Of `input`, `cached-input`, `cache-write` and `output`.
    pub(super) settings: [Option<Field<'a>>; 4],
}

/// What a table says of models.
pub(super) fn read<'a>(
    field: &Field<'a>,
    sort: &Sort,
    faults: &mut Faults<'_>,
) -> Vec<OfModel<'a>> {
    let Some(fields) = field.table(sort.table, faults) else {
        return Vec::new();
    };
    let entries = fields.into_all();
    if entries.len() > MOST {
        let message = format!("there are {} {}", entries.len(), sort.several);
        let help = format!("write {MOST} at most; one for `gpt-5-*` is for all that begin so");
        faults.add(&field.key_span, message, help);
        return Vec::new();
    }
    let models = entries.into_iter();
    models
        .filter_map(|entry| of_model(entry, sort, faults))
        .collect()
}

fn of_model<'a>(entry: Field<'a>, sort: &Sort, faults: &mut Faults<'_>) -> Option<OfModel<'a>> {
    let stars = entry.name.matches('*').count();
    let is_sound = stars == 0 || stars == 1 && entry.name.ends_with('*');
    if entry.name.is_empty() || !is_sound {
        let message = format!("`{}` is no name of models", entry.name);
        let help = "write a model, such as `gpt-5`, or a beginning and `*`, such as \"claude-*\"";
        faults.add(&entry.key_span, message, help);
    }
    if dotted(entry.name, entry.node(), faults) {
        return None;
    }
    let mut fields = entry.table(sort.example, faults)?;
    let settings = SETTINGS.map(|name| fields.take(name));
    fields.finish(sort.one, &SETTINGS, faults);
    Some(OfModel { entry, settings })
}

/// Tells of models whose names have a dot and no quotes: what is behind the dot is in a table.
/// Whether there is one.
fn dotted(name: &str, node: &Node, faults: &mut Faults<'_>) -> bool {
    let Value::Table(entries) = &node.value else {
        return false;
    };
    let begins_table = |entry: &Entry| {
        matches!(entry.node.value, Value::Table(_)) && !SETTINGS.contains(&&*entry.name)
    };
    if entries.is_empty() || !entries.iter().all(begins_table) {
        return false;
    }
    for entry in entries {
        let name = format!("{name}.{}", entry.name);
        if !dotted(&name, &entry.node, faults) {
            let message = "a dot in a name without quotes begins a table";
            let help = format!("write `\"{name}\" = {{ ... }}`");
            faults.add(&entry.key_span, message, help);
        }
    }
    true
}

/// A decimal of the table, to a millionth at most.
pub(super) fn decimal(
    field: &Field<'_>,
    sort: &Sort,
    millionths: Unit,
    faults: &mut Faults<'_>,
) -> Option<u64> {
    if let Some(written) = field.written()
        && let Err(AmountError::NotAMultiple { .. }) = millionths.parse(written)
    {
        let message = format!("`{}` is {written}, which is too fine", field.name);
        let help = format!("{} has at most six digits behind the point", sort.one);
        faults.add(&field.span, message, help);
        return None;
    }
    field.decimal(millionths, 0, faults)
}
