//! The events of one owner, in the order of their versions.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included};

use tidegate_core::Timestamp;

use super::change::{Event, event_cursor};
use super::definition::{MOST_DROPPED, page_size};
use crate::listing::Page;

/// The events of one owner.
#[derive(Debug, Default)]
pub(super) struct Log {
    by_version: BTreeMap<u64, Event>,
    by_subject: BTreeSet<(Vec<u8>, u64)>,
    by_end: BTreeSet<(Timestamp, u64)>,
}

impl Log {
    /// Which go when `event` comes: those that are over by then, and the oldest of too many.
    pub(super) fn dropped_by(&self, event: &Event) -> Vec<u64> {
        let over = self.by_end.range(..=(event.at, u64::MAX));
        let over: BTreeSet<u64> = over
            .take(MOST_DROPPED)
            .map(|(_, version)| *version)
            .collect();
        let left = (self.by_version.len() - over.len()) as u64;
        let surplus = (left + 1).saturating_sub(event.bound()) as usize;
        let oldest = self.by_version.keys().filter(|one| !over.contains(one));
        let oldest: Vec<u64> = oldest.take(surplus.min(MOST_DROPPED)).copied().collect();
        over.into_iter().chain(oldest).collect()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.by_version.len()
    }

    /// Their versions, in order.
    pub(super) fn versions(&self) -> impl Iterator<Item = u64> {
        self.by_version.keys().copied()
    }

    pub(super) fn add(&mut self, event: Event) {
        let version = event.version;
        self.by_subject.insert((event.subject.clone(), version));
        self.by_end.insert((event.until(), version));
        self.by_version.insert(version, event);
    }

    pub(super) fn drop_one(&mut self, version: u64) {
        if let Some(event) = self.by_version.remove(&version) {
            self.by_end.remove(&(event.until(), version));
            self.by_subject.remove(&(event.subject, version));
        }
    }

    /// Those behind `after` that are not over at `now`.
    pub(super) fn page(
        &self,
        subject: Option<&[u8]>,
        after: u64,
        most: usize,
        now: Timestamp,
    ) -> Page<Event> {
        let found: Box<dyn Iterator<Item = &Event>> = match subject {
            None => {
                let range = (Excluded(after), Included(u64::MAX));
                Box::new(self.by_version.range(range).map(|(_, event)| event))
            }
            Some(subject) => {
                let from = (subject.to_vec(), after);
                let to = (subject.to_vec(), u64::MAX);
                let range = self.by_subject.range((Excluded(from), Included(to)));
                Box::new(range.filter_map(|(_, version)| self.by_version.get(version)))
            }
        };
        let most = page_size(most);
        let mut found = found.filter(|event| event.until() > now);
        let left = |event: &Event| Event {
            lasts: event.until().since(now).as_duration(),
            ..event.clone()
        };
        let items: Vec<Event> = found.by_ref().take(most).map(left).collect();
        let is_last = items.len() < most || found.next().is_none();
        let last = items.last().filter(|_| !is_last);
        let next = last.map(|event| event_cursor(event.version));
        Page { items, next }
    }
}
