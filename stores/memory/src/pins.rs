//! The cells of pinned rows. Such a row keeps, in place of its word, a mark that
//! says which cell is its own.

use std::sync::Arc;

use tidegate_contract::HotCell;
use tidegate_contract::core::Word;

/// Cells by mark.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    cells: Vec<Option<Arc<HotCell>>>,
    vacant: Vec<usize>,
}

impl Pins {
    /// Whether a row's word is a mark.
    #[inline]
    pub(crate) const fn is_mark(word: u64) -> bool {
        word >= Word::SPARE_FROM
    }

    /// The cell that `word` marks, if it is a mark.
    #[inline]
    pub(crate) fn cell(&self, word: u64) -> Option<&Arc<HotCell>> {
        if !Self::is_mark(word) {
            return None;
        }
        self.cells.get(index(word))?.as_ref()
    }

    /// Adds a cell; answers its mark.
    pub(crate) fn add(&mut self, cell: Arc<HotCell>) -> u64 {
        let at = self.vacant.pop().unwrap_or_else(|| {
            self.cells.push(None);
            self.cells.len() - 1
        });
        self.cells[at] = Some(cell);
        Word::SPARE_FROM + at as u64
    }

    /// Takes out the cell that `mark` marks, if it is a mark.
    pub(crate) fn remove(&mut self, mark: u64) -> Option<Arc<HotCell>> {
        if !Self::is_mark(mark) {
            return None;
        }
        let cell = self.cells.get_mut(index(mark))?.take()?;
        self.vacant.push(index(mark));
        Some(cell)
    }
}

const fn index(mark: u64) -> usize {
    (mark - Word::SPARE_FROM) as usize
}
