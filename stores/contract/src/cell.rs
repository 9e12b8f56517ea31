//! A single bucket of a pinned key, in an atomic word.
//!
//! A local store hands it out so that the holder of a handle decides with one
//! compare-and-swap. The rule in it never changes; when the plan does, or when
//! the store needs the state to itself, the word carries a mark, and the
//! holder asks the table instead.

use tidegate_core::{Amount, Standing, Timestamp, Verdict, Word};

use crate::sync::atomic::{AtomicU64, Ordering};

/// The word has moved: ask the table, which knows where.
const STALE: u64 = Word::SPARE;
/// The store has taken the word: for the length of one command, or for as long
/// as a word does not say it all.
const TAKEN: u64 = Word::SPARE - 1;

/// The state of one bucket for one key. See the [module](self).
#[derive(Debug)]
pub struct HotCell {
    word: AtomicU64,
    rule: Word,
}

/// The cell cannot answer by itself; ask the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AskTable;

impl HotCell {
    /// A cell for `rule` that starts from `word`.
    #[must_use]
    pub const fn new(rule: Word, word: u64) -> Self {
        Self {
            word: AtomicU64::new(word),
            rule,
        }
    }

    /// A cell for `rule` whose word the store has taken.
    #[must_use]
    pub const fn taken(rule: Word) -> Self {
        Self::new(rule, TAKEN)
    }

    /// The rule it decides by.
    #[must_use]
    pub const fn rule(&self) -> &Word {
        &self.rule
    }

    /// Takes `amount` (at least 1) if it fits.
    ///
    /// # Errors
    /// [`AskTable`] if the word carries a mark or `now` is out of its reach.
    #[inline]
    pub fn admit(&self, amount: Amount, now: Timestamp) -> Result<Verdict, AskTable> {
        let (verdict, _, _) = self.take(amount, now)?;
        Ok(verdict)
    }

    /// As [`admit`](Self::admit), and where the bucket stands after it.
    ///
    /// # Errors
    /// As [`admit`](Self::admit).
    #[inline]
    pub fn check(&self, amount: Amount, now: Timestamp) -> Result<(Verdict, Standing), AskTable> {
        let (verdict, word, ticks) = self.take(amount, now)?;
        Ok((verdict, self.rule.standing(word, now, ticks)))
    }

    /// The verdict, the word after it, and the ticks of `now`.
    #[inline]
    fn take(&self, amount: Amount, now: Timestamp) -> Result<(Verdict, u64, u64), AskTable> {
        let ticks = self.rule.ticks(now).ok_or(AskTable)?;
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word >= TAKEN {
                return Err(AskTable);
            }
            let next = match self.rule.take(word, amount, ticks) {
                Ok(next) => next,
                Err(refusal) => return Ok((refusal, word, ticks)),
            };
            // The word is the whole state: nothing else is published with it.
            match self.swap(word, next) {
                Ok(_) => return Ok((Verdict::Admit, next, ticks)),
                Err(current) => word = current,
            }
        }
    }

    #[inline]
    fn swap(&self, from: u64, to: u64) -> Result<u64, u64> {
        self.word
            .compare_exchange_weak(from, to, Ordering::Relaxed, Ordering::Relaxed)
    }

    /// Takes the word out. Only the table calls this, under its own lock, and
    /// before unlocking either calls [`put_back`](Self::put_back) or keeps the
    /// state elsewhere: then whoever holds the cell asks the table.
    pub fn take_out(&self) -> u64 {
        self.word.swap(TAKEN, Ordering::Relaxed)
    }

    /// Puts the word back.
    pub fn put_back(&self, word: u64) {
        self.word.store(word, Ordering::Relaxed);
    }

    /// Retires the cell: whoever holds it asks the table from now on.
    pub fn retire(&self) -> u64 {
        self.word.swap(STALE, Ordering::Relaxed)
    }

    /// When the cell equals "never seen", if nothing more is taken.
    pub fn forget_at(&self) -> Timestamp {
        self.rule.forget_at(self.word.load(Ordering::Relaxed))
    }

    /// Retires the cell if it equals "never seen" at `now`; whether it did.
    pub fn retire_if_spent(&self, now: Timestamp) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        let spent = self.rule.ticks(now).is_some_and(|ticks| word <= ticks);
        let (relaxed, word_of) = (Ordering::Relaxed, &self.word);
        spent
            && word_of
                .compare_exchange(word, STALE, relaxed, relaxed)
                .is_ok()
    }

    /// Whether the cell was retired.
    #[must_use]
    pub fn is_retired(&self) -> bool {
        self.word.load(Ordering::Relaxed) == STALE
    }
}
