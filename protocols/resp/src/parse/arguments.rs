//! A request's arguments.

use std::ops::Range;

/// The most arguments of one request.
pub const MAX_ARGUMENTS: usize = 1_024;

/// Where an argument lies, counted from the request's first byte. A request
/// fits 32 bits: its length is bounded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    start: u32,
    end: u32,
}

impl Place {
    pub(super) fn new(range: Range<usize>) -> Self {
        let fits = |offset| u32::try_from(offset).unwrap_or(u32::MAX);
        Self {
            start: fits(range.start),
            end: fits(range.end),
        }
    }

    fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// The arguments of one request, in the bytes they came in. The first is the
/// command's name.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) places: &'a [Place],
}

impl<'a> Arguments<'a> {
    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The argument at `position`.
    #[must_use]
    pub fn get(&self, position: usize) -> Option<&'a [u8]> {
        let place = self.places.get(position)?;
        self.bytes.get(place.range())
    }

    /// The arguments from `position` on.
    pub fn from(self, position: usize) -> impl Iterator<Item = &'a [u8]> {
        (position..self.len()).filter_map(move |position| self.get(position))
    }
}
