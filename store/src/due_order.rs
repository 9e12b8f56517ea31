//! Numbers in the order of instants: which record something is to be done about next.
//!
//! Most leases last equally long, so most that come are due after all others: those
//! stand in a queue, and what comes out of order stands in a tree. One that leaves
//! from the middle of the queue leaves a gap; where half of the queue is gaps it is
//! closed up, so that leaving takes no longer than finding it.

use std::collections::{BTreeMap, VecDeque};

use tidegate_core::Timestamp;

/// A position in the order of instants, and among those of the same instant. No two are
/// the same.
pub type DueKey = (Timestamp, u64);

/// What stands in a gap.
const GAP: u32 = u32::MAX;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct DueOrder {
    /// Neither begins nor ends with a gap.
    ascending: VecDeque<(DueKey, u32)>,
    gaps: usize,
    out_of_order: BTreeMap<DueKey, u32>,
}

impl DueOrder {
    pub(crate) fn len(&self) -> usize {
        self.ascending.len() - self.gaps + self.out_of_order.len()
    }

    /// Adds `number`, which is less than the largest there is.
    #[inline]
    pub(crate) fn insert(&mut self, key: DueKey, number: u32) {
        match self.ascending.back() {
            Some((last, _)) if *last > key => drop(self.out_of_order.insert(key, number)),
            _ => self.ascending.push_back((key, number)),
        }
    }

    /// Removes what stands at `key`.
    #[inline(always)]
    pub(crate) fn remove(&mut self, key: DueKey) {
        if self
            .ascending
            .front()
            .is_some_and(|(first, _)| *first == key)
        {
            self.ascending.pop_front();
            self.trim();
        } else if self.ascending.back().is_some_and(|(last, _)| *last == key) {
            self.ascending.pop_back();
            self.trim();
        } else if self.out_of_order.remove(&key).is_none() {
            self.leave_gap(key);
        }
    }

    fn leave_gap(&mut self, key: DueKey) {
        let at = self.ascending.partition_point(|(other, _)| *other < key);
        match self.ascending.get_mut(at) {
            Some((there, number)) if *there == key && *number != GAP => *number = GAP,
            _ => return,
        }
        self.gaps += 1;
        self.close_up();
    }

    fn close_up(&mut self) {
        if self.gaps * 2 > self.ascending.len() {
            self.ascending.retain(|(_, number)| *number != GAP);
            self.gaps = 0;
        }
    }

    /// No gap stands at either end.
    #[inline]
    fn trim(&mut self) {
        if self.gaps > 0 {
            self.trim_gaps();
        }
    }

    fn trim_gaps(&mut self) {
        while self
            .ascending
            .front()
            .is_some_and(|(_, number)| *number == GAP)
        {
            self.ascending.pop_front();
            self.gaps -= 1;
        }
        while self
            .ascending
            .back()
            .is_some_and(|(_, number)| *number == GAP)
        {
            self.ascending.pop_back();
            self.gaps -= 1;
        }
        self.close_up();
    }

    /// The first in the order.
    #[inline]
    pub(crate) fn first(&self) -> Option<(DueKey, u32)> {
        let ascending = self.ascending.front().copied();
        if self.out_of_order.is_empty() {
            return ascending;
        }
        let out_of_order = self
            .out_of_order
            .first_key_value()
            .map(|(&key, &at)| (key, at));
        match (ascending, out_of_order) {
            (Some(ascending), Some(out_of_order)) => Some(ascending.min(out_of_order)),
            (ascending, out_of_order) => ascending.or(out_of_order),
        }
    }

    /// All from `key` on, in order.
    pub(crate) fn from(&self, key: DueKey) -> impl Iterator<Item = (DueKey, u32)> {
        let start = self.ascending.partition_point(|(other, _)| *other < key);
        let ascending = self.ascending.range(start..).copied();
        let mut ascending = ascending.filter(|(_, number)| *number != GAP).peekable();
        let out_of_order = self.out_of_order.range(key..).map(|(&key, &at)| (key, at));
        let mut out_of_order = out_of_order.peekable();
        std::iter::from_fn(move || match (ascending.peek(), out_of_order.peek()) {
            (Some(one), Some(other)) if other < one => out_of_order.next(),
            (Some(_), _) => ascending.next(),
            (None, _) => out_of_order.next(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_order_holds_what_a_tree_holds(
            steps in prop::collection::vec((0_i64..12, any::<bool>(), any::<prop::sample::Index>()), 1..300),
        ) {
            let (mut order, mut model) = (DueOrder::default(), BTreeMap::new());
            for (number, (at, add, which)) in steps.into_iter().enumerate() {
                if add || model.is_empty() {
                    let key = (Timestamp::from_micros(at), number as u64);
                    order.insert(key, number as u32);
                    model.insert(key, number as u32);
                } else {
                    let key = *which.get(&model.keys().copied().collect::<Vec<_>>());
                    order.remove(key);
                    model.remove(&key);
                }
                prop_assert_eq!(order.len(), model.len());
                prop_assert_eq!(order.first(), model.first_key_value().map(|(&t, &n)| (t, n)));
                let from = (Timestamp::from_micros(at), 0);
                let held: Vec<_> = order.from(from).collect();
                let expected: Vec<_> = model.range(from..).map(|(&t, &n)| (t, n)).collect();
                prop_assert_eq!(held, expected);
                prop_assert!(order.gaps * 2 <= order.ascending.len());
            }
        }
    }
}
