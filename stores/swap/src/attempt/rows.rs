//! The rows that were loaded.

use tidegate_contract::core::{DecodeError, State, Timestamp};
use tidegate_contract::oracle::{self, Row};
use tidegate_contract::{KeyPath, Plan, StoreError};

use crate::edition::Edition;
use crate::entry::{self, Entry, Head};

/// A row, and what it was when it was loaded.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) key: Box<[u8]>,
    pub(super) level: usize,
    /// As it was kept, if it was.
    pub(super) was: Option<Entry>,
    /// The edition its cells go by; `None`: nothing was ever seen.
    pub(super) edition: Option<u32>,
    pub(super) cells: Row,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) all: Vec<Loaded>,
    /// The keys of those that are under way.
    expected: Vec<Box<[u8]>>,
}

impl Rows {
    /// These keys are being loaded.
    pub(super) fn expect(&mut self, keys: &[Box<[u8]>]) {
        self.expected = keys.to_vec();
    }

    /// What was found of the keys that were expected; answers what a root's row
    /// among them says of all.
    pub(super) fn take_in(
        &mut self,
        found: Vec<Option<Vec<u8>>>,
        plan: &Plan,
    ) -> Result<Option<Head>, StoreError> {
        let mut head = None;
        for (key, bytes) in std::mem::take(&mut self.expected).into_iter().zip(found) {
            let was = bytes.as_deref().map(entry::decode).transpose()?;
            let path = KeyPath::new(&key, plan.levels());
            let path = path.map_err(|_| DecodeError::Corrupt("a row's key"))?;
            let level = path.depth() - 1;
            head = was.as_ref().and_then(|entry| entry.head).or(head);
            self.all.push(Loaded {
                level,
                edition: was.as_ref().map(|entry| entry.edition),
                cells: match &was {
                    Some(entry) => entry.cells.clone(),
                    None => oracle::fresh_row(plan, level),
                },
                was,
                key,
            });
        }
        Ok(head)
    }

    pub(super) fn find(&self, key: &[u8]) -> Option<&Loaded> {
        self.all.iter().find(|row| *row.key == *key)
    }

    fn find_mut(&mut self, key: &[u8]) -> Option<&mut Loaded> {
        self.all.iter_mut().find(|row| *row.key == *key)
    }

    pub(super) fn was_there(&self, key: &[u8]) -> bool {
        self.find(key).is_some_and(|row| row.was.is_some())
    }

    /// When the latest of them was written.
    pub(super) fn latest(&self) -> Timestamp {
        let written = self.all.iter().filter_map(|row| row.was.as_ref());
        let latest = written.map(|entry| entry.latest).max();
        latest.unwrap_or(Timestamp::MIN)
    }

    /// The editions that wrote what is here.
    pub(super) fn editions(&self) -> Vec<u32> {
        self.all.iter().filter_map(|row| row.edition).collect()
    }

    /// The cells of those of a path's rows that go by `edition`, or will; fresh
    /// ones for the others, of which it knows nothing.
    pub(super) fn take_out(&mut self, path: &KeyPath<'_>, edition: &Edition) -> Vec<Row> {
        let cells = |level: usize| match self.find_mut(path.prefix(level)) {
            Some(row) if row.edition == Some(edition.number) => std::mem::take(&mut row.cells),
            _ => oracle::fresh_row(&edition.plan, level),
        };
        (0..path.depth()).map(cells).collect()
    }

    /// Puts them back.
    pub(super) fn put_back(&mut self, path: &KeyPath<'_>, rows: Vec<Row>, edition: &Edition) {
        for (level, cells) in rows.into_iter().enumerate() {
            let number = edition.number;
            let row = self.find_mut(path.prefix(level));
            if let Some(row) = row.filter(|row| row.edition.is_none_or(|n| n == number)) {
                row.cells = cells;
                row.edition = Some(number);
            }
        }
    }
}

impl Loaded {
    /// Carries it over from `old` to `new`.
    pub(super) fn adopt(
        &mut self,
        (old, new): (&Plan, &Plan),
        edition: u32,
        (at, calendars): (Timestamp, &[Option<tidegate_contract::core::Bounds>]),
    ) {
        let cells = &mut self.cells;
        self.cells = oracle::adopt_row(new, old, self.level, cells, at, calendars);
        self.edition = Some(edition);
    }

    /// Whether it has a state of the right kind for each limit of its level.
    pub(super) fn fits(&self, plan: &Plan) -> bool {
        let limits = &plan.limits()[plan.range(self.level)];
        let fits = |(limit, state): (&tidegate_contract::PlanLimit, &State)| limit.rule.fits(state);
        limits.len() == self.cells.len() && limits.iter().zip(&self.cells).all(fits)
    }

    /// Whether nothing is noted in it.
    pub(super) fn is_fresh(&self) -> bool {
        self.cells.iter().all(State::is_fresh)
    }

    /// When it was written last.
    pub(super) fn latest(&self) -> Timestamp {
        self.was.as_ref().map_or(Timestamp::MIN, |was| was.latest)
    }
}
