//! On which line something stands, for files of many entries.

use std::ops::Range;

/// Where the lines of a text begin.
pub(super) struct Lines(Vec<usize>);

impl Lines {
    pub(super) fn of(text: &str) -> Self {
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        Self(std::iter::once(0).chain(ends).collect())
    }

    /// The line of a place's beginning, counted from 1.
    pub(super) fn of_span(&self, span: &Range<usize>) -> usize {
        self.0.partition_point(|begin| *begin <= span.start)
    }
}
