//! Numbers in the order of instants: which record something is to be done about next.
//!
//! Most leases last equally long, so most that come are due after all others: those
//! stand in a line, and what comes out of turn stands apart, in a tree. One that leaves
//! from the middle of the line leaves a gap; where half of the line is gaps it is
//! closed up, so that leaving takes no longer than finding it.

use std::collections::{BTreeMap, VecDeque};

use tidegate_core::Timestamp;

/// A place in the order of instants, and among those of the same instant. No two are
/// the same.
pub type Turn = (Timestamp, u64);

/// What stands in a gap.
const GAP: u32 = u32::MAX;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// Neither begins nor ends with a gap.
    line: VecDeque<(Turn, u32)>,
    gaps: usize,
    apart: BTreeMap<Turn, u32>,
}

impl Order {
    pub(crate) fn len(&self) -> usize {
        self.line.len() - self.gaps + self.apart.len()
    }

    /// Adds `number`, which is less than the largest there is.
    #[inline]
    pub(crate) fn insert(&mut self, turn: Turn, number: u32) {
        match self.line.back() {
            Some((last, _)) if *last > turn => drop(self.apart.insert(turn, number)),
            _ => self.line.push_back((turn, number)),
        }
    }

    /// Removes what stands at `turn`.
    #[inline]
    pub(crate) fn remove(&mut self, turn: Turn) {
        if self.line.front().is_some_and(|(first, _)| *first == turn) {
            self.line.pop_front();
            self.trim();
        } else if self.line.back().is_some_and(|(last, _)| *last == turn) {
            self.line.pop_back();
            self.trim();
        } else if self.apart.remove(&turn).is_none() {
            self.leave_gap(turn);
        }
    }

    fn leave_gap(&mut self, turn: Turn) {
        let at = self.line.partition_point(|(other, _)| *other < turn);
        match self.line.get_mut(at) {
            Some((there, number)) if *there == turn && *number != GAP => *number = GAP,
            _ => return,
        }
        self.gaps += 1;
        self.close_up();
    }

    fn close_up(&mut self) {
        if self.gaps * 2 > self.line.len() {
            self.line.retain(|(_, number)| *number != GAP);
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
        while self.line.front().is_some_and(|(_, number)| *number == GAP) {
            self.line.pop_front();
            self.gaps -= 1;
        }
        while self.line.back().is_some_and(|(_, number)| *number == GAP) {
            self.line.pop_back();
            self.gaps -= 1;
        }
        self.close_up();
    }

    /// The first in the order.
    #[inline]
    pub(crate) fn first(&self) -> Option<(Turn, u32)> {
        let line = self.line.front().copied();
        if self.apart.is_empty() {
            return line;
        }
        let apart = self.apart.first_key_value().map(|(&turn, &at)| (turn, at));
        match (line, apart) {
            (Some(line), Some(apart)) => Some(line.min(apart)),
            (line, apart) => line.or(apart),
        }
    }

    /// All from `turn` on, in order.
    pub(crate) fn from(&self, turn: Turn) -> impl Iterator<Item = (Turn, u32)> {
        let start = self.line.partition_point(|(other, _)| *other < turn);
        let line = self.line.range(start..).copied();
        let mut line = line.filter(|(_, number)| *number != GAP).peekable();
        let apart = self.apart.range(turn..).map(|(&turn, &at)| (turn, at));
        let mut apart = apart.peekable();
        std::iter::from_fn(move || match (line.peek(), apart.peek()) {
            (Some(one), Some(other)) if other < one => apart.next(),
            (Some(_), _) => line.next(),
            (None, _) => apart.next(),
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
            let (mut order, mut model) = (Order::default(), BTreeMap::new());
            for (number, (at, add, which)) in steps.into_iter().enumerate() {
                if add || model.is_empty() {
                    let turn = (Timestamp::from_micros(at), number as u64);
                    order.insert(turn, number as u32);
                    model.insert(turn, number as u32);
                } else {
                    let turn = *which.get(&model.keys().copied().collect::<Vec<_>>());
                    order.remove(turn);
                    model.remove(&turn);
                }
                prop_assert_eq!(order.len(), model.len());
                prop_assert_eq!(order.first(), model.first_key_value().map(|(&t, &n)| (t, n)));
                let from = (Timestamp::from_micros(at), 0);
                let held: Vec<_> = order.from(from).collect();
                let expected: Vec<_> = model.range(from..).map(|(&t, &n)| (t, n)).collect();
                prop_assert_eq!(held, expected);
                prop_assert!(order.gaps * 2 <= order.line.len());
            }
        }
    }
}
