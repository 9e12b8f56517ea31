//! Rows that are more than a word: shared with handles, with leases that may
//! still give back, or by limits of their own. Such a row keeps, in place of its word, a mark that says
//! where the rest of it is.

use std::sync::Arc;

use tidegate_store::AtomicBucket;
use tidegate_store::core::{PackedBucket, Rule, State};

/// A row kept aside: a cell, a state, or both.
#[derive(Debug)]
pub(crate) struct Aside {
    /// The cell that handles share.
    pub(crate) bucket: Option<Arc<AtomicBucket>>,
    /// The state, if no word can hold it; the cell stays taken for as long.
    pub(crate) wide: Option<State>,
    /// The rule it goes by, if that is not the table's: then it is always wide.
    pub(crate) own: Option<Rule>,
}

/// Rows by mark.
#[derive(Debug, Default)]
pub(crate) struct Asides {
    rows: Vec<Option<Aside>>,
    vacant: Vec<usize>,
}

impl Asides {
    /// Whether a row's word is a mark.
    #[inline]
    pub(crate) const fn is_mark(word: u64) -> bool {
        word >= PackedBucket::SPARE_FROM
    }

    /// The row that `word` marks, if it is a mark.
    #[inline]
    pub(crate) fn get(&self, word: u64) -> Option<&Aside> {
        if !Self::is_mark(word) {
            return None;
        }
        self.rows.get(index(word))?.as_ref()
    }

    /// The row that `word` marks, if it is a mark.
    #[inline]
    pub(crate) fn get_mut(&mut self, word: u64) -> Option<&mut Aside> {
        if !Self::is_mark(word) {
            return None;
        }
        self.rows.get_mut(index(word))?.as_mut()
    }

    /// Adds a row; answers its mark.
    pub(crate) fn add(&mut self, row: Aside) -> u64 {
        let at = self.vacant.pop().unwrap_or_else(|| {
            self.rows.push(None);
            self.rows.len() - 1
        });
        self.rows[at] = Some(row);
        PackedBucket::SPARE_FROM + at as u64
    }

    /// Takes out the row that `mark` marks, if it is a mark.
    pub(crate) fn remove(&mut self, mark: u64) -> Option<Aside> {
        if !Self::is_mark(mark) {
            return None;
        }
        let row = self.rows.get_mut(index(mark))?.take()?;
        self.vacant.push(index(mark));
        Some(row)
    }
}

const fn index(mark: u64) -> usize {
    (mark - PackedBucket::SPARE_FROM) as usize
}
