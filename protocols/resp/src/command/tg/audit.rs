//! AUDIT: what was changed, and by whom.

use std::borrow::Cow;

use tidegate_service::{AuditListing, Call, OverrideOf};

use super::listing::{cursor, instant, most};
use super::named::{ENTITY_ID, once, text};
use crate::error::{Fault, quoted};
use crate::parse::Arguments;

const USAGE: &str = "TG.AUDIT [POLICY name] [KEY key] [ENTITY id] [SINCE us] [UNTIL us] [CURSOR c] \
                     [COUNT n]";

pub(in crate::command) fn audit(arguments: Arguments<'_>) -> Result<Call<'_>, Fault> {
    let (mut policy, mut key, mut entity) = (None, None, None);
    let (mut since, mut until, mut after, mut count) = (None, None, None, None);
    let mut words = arguments.from(1);
    while let Some(word) = words.next() {
        let wrong = || Fault::Words(quoted(word), USAGE.into());
        let (place, name) = match word.to_ascii_uppercase().as_slice() {
            b"POLICY" => (&mut policy, "POLICY"),
            b"KEY" => (&mut key, "KEY"),
            b"ENTITY" => (&mut entity, "ENTITY"),
            b"SINCE" => (&mut since, "SINCE"),
            b"UNTIL" => (&mut until, "UNTIL"),
            b"CURSOR" => (&mut after, "CURSOR"),
            b"COUNT" => (&mut count, "COUNT"),
            _ => return Err(wrong()),
        };
        once(place, words.next().ok_or_else(wrong)?, name)?;
    }
    let policy = policy.map(|policy| text(policy, "the policy's name"));
    let entity = entity.map(|id| text(id, ENTITY_ID));
    Ok(Call::Audit(AuditListing {
        of: OverrideOf {
            policy: policy.transpose()?,
            key,
            entity: None,
        },
        entity: entity.transpose()?,
        since: instant(since, "SINCE")?,
        until: instant(until, "UNTIL")?,
        after: after.map(cursor).transpose()?.map(Cow::Owned),
        most: most(count)?,
    }))
}
