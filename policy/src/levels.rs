//! The levels of a policy's keys: `key = "org/team/user"`.

use std::ops::Range;

use tidegate_store::key::MAX_LEVELS;

use super::fault::Faults;
use super::fields::Fields;

/// The names of the levels, outermost first; none if keys are flat. A key of
/// one level is flat, too, but for its name.
pub(super) fn read(fields: &mut Fields<'_>, faults: &mut Faults<'_>) -> Vec<String> {
    let Some(field) = fields.take("key") else {
        return Vec::new();
    };
    let text = field.text("org/team/user", faults).unwrap_or_default();
    let parts = text.split('/').map(|part| (part, field.span.clone()));
    match text.is_empty() {
        true => Vec::new(),
        false => names(parts, faults),
    }
}

/// Whether keys with fewer levels are let in.
pub(super) fn partial(fields: &mut Fields<'_>, levels: &[String], faults: &mut Faults<'_>) -> bool {
    let Some(field) = fields.take("partial_keys") else {
        return false;
    };
    if levels.len() < 2 {
        let message = "`partial_keys` is for keys of two and more levels";
        let help = "name the levels: `key = \"org/user\"`; or remove it";
        faults.add(&field.key_span, message, help);
    }
    field.flag(faults).unwrap_or_default()
}

fn names<'t>(
    written: impl Iterator<Item = (&'t str, Range<usize>)>,
    faults: &mut Faults<'_>,
) -> Vec<String> {
    let mut levels: Vec<String> = Vec::new();
    for (level, span) in written {
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
