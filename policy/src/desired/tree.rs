//! Whether entities can belong to each other as a file says.

use std::collections::HashMap;
use std::ops::Range;

use tidegate_store::key::MAX_LEVELS;

use super::entity::DesiredEntity;
use crate::fault::Faults;

/// Tells of parents that are to be absent, of circles, and of a ninth level.
pub(super) fn check(entities: &[(Range<usize>, DesiredEntity)], faults: &mut Faults<'_>) {
    let by_id = entities.iter().map(|(_, entity)| (&*entity.id, entity));
    let by_id: HashMap<&str, &DesiredEntity> = by_id.collect();
    for (span, entity) in entities {
        let Some(parent) = entity.parent.as_deref() else {
            continue;
        };
        let id = &entity.id;
        if by_id.get(parent).is_some_and(|parent| parent.absent) {
            let message = format!("`{id}` is to belong to `{parent}`, which is to be absent");
            faults.add(span, message, "remove one of the two");
        }
        if let Some(wrong) = climb(entity, &by_id) {
            let help = format!("an entity has {} ancestors at most", MAX_LEVELS - 1);
            faults.add(span, wrong, help);
        }
    }
}

/// Why its ancestors, as far as the file has them, cannot be.
fn climb(entity: &DesiredEntity, by_id: &HashMap<&str, &DesiredEntity>) -> Option<String> {
    let (id, mut next) = (&entity.id, entity.parent.as_deref());
    for _ in 1..MAX_LEVELS {
        match next {
            Some(parent) if parent == id => {
                return Some(format!("`{id}` would be one of its own ancestors"));
            }
            Some(parent) => next = by_id.get(parent).and_then(|at| at.parent.as_deref()),
            None => return None,
        }
    }
    next.map(|_| format!("`{id}` would have more than {} ancestors", MAX_LEVELS - 1))
}
