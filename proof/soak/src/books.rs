//! The ledgers of a narrow policy, by key.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::ledger::{Ledger, Micros, Shape};

/// A limit that is too narrow for what is asked of it, as a ledger sees it.
#[derive(Clone, Copy, Debug)]
pub struct Narrow {
    /// Its name.
    pub limit: &'static str,
    /// How it counts.
    pub shape: Shape,
    /// The most at once.
    pub capacity: u64,
    /// Admitted while one unit is left.
    pub postpaid: bool,
    /// So much is taken of it each time,
    pub taken: u64,
    /// and so much is used.
    pub used: u64,
}

/// Of each key, a ledger for each narrow limit.
#[derive(Debug)]
pub struct Books {
    narrow: Vec<Narrow>,
    keys: Vec<Vec<Mutex<Ledger>>>,
}

impl Books {
    /// For so many keys.
    pub fn new(narrow: Vec<Narrow>, keys: u64) -> Self {
        let ledgers = |_| {
            let ledgers = narrow.iter().map(|narrow| {
                let ledger = Ledger::new(narrow.shape, narrow.capacity, narrow.postpaid);
                Mutex::new(ledger)
            });
            ledgers.collect()
        };
        let keys = (0..keys).map(ledgers).collect();
        Self { narrow, keys }
    }

    /// Opens an entry for a key in each of its ledgers.
    pub fn open(self: &Arc<Self>, key: u64, now: impl Fn() -> Micros) -> Entries {
        let pairs = self.narrow.iter().zip(&self.keys[key as usize]);
        let numbers = pairs.map(|(narrow, ledger)| {
            // Those of one ledger stand in the order of their instants.
            let mut ledger = ledger.lock();
            ledger.ask(now(), narrow.taken, narrow.used)
        });
        Entries {
            numbers: numbers.collect(),
            books: Arc::clone(self),
            key,
        }
    }
}

/// What one ask has in the books.
#[derive(Debug)]
pub struct Entries {
    books: Arc<Books>,
    key: u64,
    numbers: Vec<u64>,
}

impl Entries {
    fn each(&self) -> impl Iterator<Item = (&Narrow, &Mutex<Ledger>, u64)> {
        let ledgers = &self.books.keys[self.key as usize];
        let pairs = self.books.narrow.iter().zip(ledgers);
        let each = pairs.zip(&self.numbers);
        each.map(|((narrow, ledger), number)| (narrow, ledger, *number))
    }

    /// It was granted.
    ///
    /// # Errors
    /// A limit does not have that much.
    pub fn grant(&self, now: impl Fn() -> Micros) -> Result<(), String> {
        self.each().try_for_each(|(narrow, ledger, number)| {
            let mut ledger = ledger.lock();
            let granted = ledger.grant(number, now());
            granted.map_err(|why| format!("limit `{}`: {why}", narrow.limit))
        })
    }

    /// It was refused, by the limit of this name.
    ///
    /// # Errors
    /// That limit had enough, or is wide enough for everybody.
    pub fn refuse(&self, by: Option<&str>, now: impl Fn() -> Micros) -> Result<(), String> {
        let mut refused = Err(format!("limit {by:?} is wide enough, and refuses"));
        for (narrow, ledger, number) in self.each() {
            let mut ledger = ledger.lock();
            if Some(narrow.limit) == by {
                let explained = ledger.refuse(number, now());
                refused = explained.map_err(|why| format!("limit `{}`: {why}", narrow.limit));
            } else {
                ledger.fail(number);
            }
        }
        refused
    }

    /// It failed.
    pub fn fail(&self) {
        self.each()
            .for_each(|(_, ledger, number)| ledger.lock().fail(number));
    }

    /// Its use is about to be told.
    pub fn settling(&self, now: impl Fn() -> Micros) {
        self.each()
            .for_each(|(_, ledger, number)| ledger.lock().settling(number, now()));
    }

    /// Its use is told.
    pub fn settled(&self, now: impl Fn() -> Micros) {
        self.each()
            .for_each(|(_, ledger, number)| ledger.lock().settled(number, now()));
    }
}
