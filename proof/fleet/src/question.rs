//! What is asked of every store, and what became of it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use crate::house::House;
use crate::stores::Store;

/// One of the things that are asked of every store.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// One word, of which the cells' names are made.
    pub name: &'static str,
    /// What holds if its cells do.
    pub holds: &'static str,
    /// Its rows.
    pub rows: fn() -> Vec<Row>,
    /// Whether it can be asked of a store, in a case.
    pub concerns: fn(&Store, &str) -> bool,
    /// Asks it, and says what became of every row.
    pub ask: fn(&House, &Report<'_>) -> Result<(), String>,
}

impl Question {
    /// Those of its rows that can be asked of a store.
    pub(crate) fn rows_of(&self, store: &Store) -> Vec<Row> {
        let rows = (self.rows)().into_iter();
        rows.filter(|row| (self.concerns)(store, row.case))
            .collect()
    }
}

/// A protocol and a verb, or what else is asked.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Row {
    /// The protocol's name.
    pub protocol: &'static str,
    /// The verb's, or the case's.
    pub case: &'static str,
}

/// Where a row and a store meet.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Cell {
    /// The question's name.
    pub question: String,
    /// The protocol's.
    pub protocol: String,
    /// The verb's, or the case's.
    pub case: String,
    /// The store's.
    pub store: String,
}

/// What became of the cells, and why.
pub type Results = BTreeMap<Cell, Result<(), String>>;

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            question,
            protocol,
            case,
            store,
        } = self;
        write!(f, "{question} | {protocol} | {case} | {store}")
    }
}

/// Where a question says what became of its rows.
pub struct Report<'a> {
    pub(crate) question: &'a Question,
    pub(crate) store: &'a Store,
    pub(crate) results: &'a Mutex<Results>,
}

impl Report<'_> {
    /// What became of a row.
    pub fn note(&self, protocol: &str, case: &str, result: Result<(), String>) {
        let cell = Cell {
            question: self.question.name.to_owned(),
            protocol: protocol.to_owned(),
            case: case.to_owned(),
            store: self.store.name.to_owned(),
        };
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        results.insert(cell, result);
    }

    pub(crate) fn lacks(&self, row: &Row) -> bool {
        let results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        !results.contains_key(&cell(self.question, row, self.store))
    }
}

impl fmt::Debug for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Report").finish_non_exhaustive()
    }
}

pub(crate) fn cell(question: &Question, row: &Row, store: &Store) -> Cell {
    Cell {
        question: question.name.to_owned(),
        protocol: row.protocol.to_owned(),
        case: row.case.to_owned(),
        store: store.name.to_owned(),
    }
}
