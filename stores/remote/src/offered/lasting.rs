//! Definitions that last for a while, in a store that may have no clock: the server's is
//! looked at.
//!
//! ```text
//! value: u8: 0 for good, 1 until (, i64); then what was defined
//! ```

use tidegate_store::core::{Span, Timestamp};
use tidegate_store::{Change, Definition, Definitions, Store, StoreError};

const FOR_GOOD: u8 = 0;
const UNTIL: u8 = 1;

/// `change`, as it is kept. A store with a clock of its own is told how long, too.
pub(super) fn kept(mut change: Change, now: Timestamp, has_clock: bool) -> Change {
    let definition = &mut change.definition;
    if let Some(value) = &mut definition.value {
        let mut kept = match definition.lasts {
            None => vec![FOR_GOOD],
            Some(lasts) => {
                let until = (now + Span::from(lasts)).as_micros();
                [&[UNTIL][..], &until.to_le_bytes()].concat()
            }
        };
        kept.append(value);
        *value = kept;
    }
    if !has_clock {
        definition.lasts = None;
    }
    change
}

/// `definition`, as it was said, with no value if it is over by `now`.
pub(super) fn told(mut definition: Definition, now: Timestamp) -> Definition {
    let Some(kept) = definition.value.take() else {
        return definition;
    };
    match kept.split_first() {
        Some((&UNTIL, rest)) => {
            let Some((until, value)) = rest.split_first_chunk() else {
                return definition;
            };
            let until = Timestamp::from_micros(i64::from_le_bytes(*until));
            definition.lasts = Some(until.since(now).as_duration());
            definition.value = (until > now).then(|| value.to_vec());
        }
        Some((_, value)) => definition.value = Some(value.to_vec()),
        None => {}
    }
    if definition.value.is_none() {
        definition.lasts = None;
    }
    definition
}

/// One that is there by `now`.
pub(super) fn there(definition: Option<Definition>, now: Timestamp) -> Option<Definition> {
    let told = told(definition?, now);
    told.value.is_some().then_some(told)
}

/// How many bytes [`kept`] puts before a value that is for good.
const PREFIX: u8 = 1;

/// What is under `key` by `now`, with its ancestors. (Of one that is not for good the store takes other
/// bytes for its parent's key, and one may be over: the chain ends there.)
pub(super) async fn with_ancestors(
    store: &dyn Store,
    owner: &str,
    (key, parent_offset): (&[u8], u8),
    now: impl FnOnce() -> Timestamp,
) -> Result<Vec<Definition>, StoreError> {
    let kept_offset = parent_offset.saturating_add(PREFIX);
    let found = store.definition_with_ancestors(owner, key, kept_offset);
    let (found, now) = (found.await?, now());
    let found = found.into_iter().map(|one| told(one, now));
    Ok(Definition::chain(key, parent_offset, found))
}

/// What has changed, as it was said. Of the whole nothing is told that is over.
pub(super) fn news(mut news: Definitions, now: Timestamp) -> Definitions {
    let changed = news.changed.into_iter().map(|one| told(one, now));
    news.changed = changed
        .filter(|one| !news.whole || one.value.is_some())
        .collect();
    news
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_lasts_for_a_while_is_over_to_the_microsecond() {
        let now = Timestamp::from_micros(1_700_000_000_000_000);
        let lasts = Duration::from_secs(5);
        let said = Definition::new("k", "v").lasting(lasts);
        let kept = kept(said.clone().into(), now, false).definition;
        assert_eq!(kept.lasts, None);
        assert_eq!(there(Some(kept.clone()), now), Some(said));
        let end = now + Span::from_secs(5);
        let before = end - Span::from_micros(1);
        let left = there(Some(kept.clone()), before).and_then(|one| one.lasts);
        assert_eq!(left, Some(Duration::from_micros(1)));
        assert_eq!(there(Some(kept), end), None);
    }

    #[test]
    fn what_is_defined_for_good_is_told_as_it_was_said() {
        let now = Timestamp::MIN;
        for said in [Definition::new("k", ""), Definition::none("k")] {
            let kept = kept(said.clone().into(), now, true).definition;
            assert_eq!(told(kept, now), said);
        }
    }
}
