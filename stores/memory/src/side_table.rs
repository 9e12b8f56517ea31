//! Rows that are more than a packed bucket: shared with handles, with leases that may
//! still give back, or by limits of their own. Such a row keeps, in place of its word, a
//! mark that says where the rest of it is.

use std::sync::Arc;

use tidegate_store::AtomicBucket;
use tidegate_store::core::{PackedBucket, Rule, State};

/// A row in the side table: an atomic bucket, a state, or both.
#[derive(Debug)]
pub(crate) struct SideRow {
    /// The atomic bucket that handles share.
    pub(crate) bucket: Option<Arc<AtomicBucket>>,
    /// The state, if it cannot be packed; the atomic bucket stays taken for as long.
    pub(crate) state: Option<State>,
    /// The rule it goes by, if that is not the table's: then its state is always here.
    pub(crate) own: Option<Rule>,
}

/// Rows by mark.
#[derive(Debug, Default)]
pub(crate) struct SideTable {
    rows: Vec<Option<SideRow>>,
    vacant: Vec<usize>,
}

impl SideTable {
    /// Whether a row's packed state is a mark.
    #[inline]
    pub(crate) const fn is_mark(packed: u64) -> bool {
        packed >= PackedBucket::SPARE_FROM
    }

    /// The row that `packed` marks, if it is a mark.
    #[inline]
    pub(crate) fn get(&self, packed: u64) -> Option<&SideRow> {
        if !Self::is_mark(packed) {
            return None;
        }
        self.rows.get(index(packed))?.as_ref()
    }

    /// The row that `packed` marks, if it is a mark.
    #[inline]
    pub(crate) fn get_mut(&mut self, packed: u64) -> Option<&mut SideRow> {
        if !Self::is_mark(packed) {
            return None;
        }
        self.rows.get_mut(index(packed))?.as_mut()
    }

    /// Adds a row; answers its mark.
    pub(crate) fn add(&mut self, row: SideRow) -> u64 {
        let at = self.vacant.pop().unwrap_or_else(|| {
            self.rows.push(None);
            self.rows.len() - 1
        });
        self.rows[at] = Some(row);
        PackedBucket::SPARE_FROM + at as u64
    }

    /// Takes out the row that `mark` marks, if it is a mark.
    pub(crate) fn remove(&mut self, mark: u64) -> Option<SideRow> {
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
