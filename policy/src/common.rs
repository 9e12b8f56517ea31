//! A table of limits, a policy's own or a member's, and what they share.

use super::fault::Faults;
use super::fields::Field;
use super::limit::{self, LimitSyntax};
use tidegate::{Limit, Metadata};

/// Limits, with what the file says of each.
pub(super) type Limits = Vec<(Limit, LimitSyntax)>;

/// What all limits of a policy share.
pub(super) struct Common<'c> {
    pub(super) levels: &'c [String],
    pub(super) shadow: bool,
    pub(super) metadata: &'c Metadata,
}

/// The limits of a table of them.
pub(super) fn limits(field: &Field<'_>, common: &Common<'_>, faults: &mut Faults<'_>) -> Limits {
    let Some(fields) = field.table("`[policy.NAME.limits]`", faults) else {
        return Limits::new();
    };
    if fields.is_empty() {
        let help = "write one, such as `rpm = { calls = 300, per = \"1m\" }`";
        faults.add(&field.key_span, "there is no limit in it", help);
    }
    let entries = fields.into_all();
    entries
        .iter()
        .filter_map(|entry| limit::read(entry, common.levels, faults))
        .map(|(limit, written)| match common.shadow {
            true => (limit.shadow(), written.shadowed()),
            false => (limit, written),
        })
        .collect()
}
