//! A single bucket of a pinned key: in an atomic word, or under a lock of its own where
//! its numbers fit no word.
//!
//! A local store hands it out so that the holder of a handle decides without the table.
//! The rule in it never changes; when the plan does, or when the store needs the state
//! to itself, it carries a mark, and the holder asks the table instead.

use tidegate_core::kernel::bucket;
use tidegate_core::{Amount, Bucket, DecisionTime, Standing, State, Timestamp, Verdict, Word};

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};

/// The word has moved: ask the table, which knows where.
const STALE: u64 = Word::SPARE;
/// The store has taken the word: for the length of one command, or for as long
/// as a word does not say it all.
const TAKEN: u64 = Word::SPARE - 1;

/// The state of one bucket for one key. See the [module](self).
#[derive(Debug)]
pub struct HotCell(Kind);

#[derive(Debug)]
enum Kind {
    Word {
        word: AtomicU64,
        rule: Word,
    },
    Wide {
        place: Mutex<Place>,
        rule: Bucket,
        /// The clock of those who ask never steps back.
        steady_clock: bool,
    },
}

/// Where a state is that fits no word.
#[derive(Debug)]
enum Place {
    Here(bucket::State),
    /// With the store: for the length of one command, or for as long as it is not plain.
    Taken,
    /// It has moved: ask the table, which knows where.
    Stale,
}

/// A bucket's rule, by which its rows are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CellRule {
    /// In words.
    Word(Word),
    /// As states: its numbers fit no word.
    Wide(Bucket),
}

/// What was in a cell.
#[derive(Debug)]
pub enum Kept {
    /// A word.
    Word(u64),
    /// A state.
    State(State),
}

/// The cell cannot answer by itself; ask the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AskTable;

impl HotCell {
    /// A cell for `rule` that starts from `word`.
    #[must_use]
    pub const fn new(rule: Word, word: u64) -> Self {
        let word = AtomicU64::new(word);
        Self(Kind::Word { word, rule })
    }

    /// A cell for `rule` whose state the store has taken. On a steady clock an instant
    /// before the state's is that of a thread that was held up, and no step back.
    #[must_use]
    pub fn taken(rule: CellRule, steady_clock: bool) -> Self {
        match rule {
            CellRule::Word(rule) => Self::new(rule, TAKEN),
            CellRule::Wide(rule) => {
                let place = Mutex::new(Place::Taken);
                Self(Kind::Wide {
                    place,
                    rule,
                    steady_clock,
                })
            }
        }
    }

    /// Takes `amount` (at least 1) if it fits.
    ///
    /// # Errors
    /// [`AskTable`] if the cell carries a mark or `now` is out of its reach.
    #[inline]
    pub fn admit(&self, amount: Amount, now: Timestamp) -> Result<Verdict, AskTable> {
        match &self.0 {
            Kind::Word { word, rule } => {
                let (verdict, _, _) = take(word, rule, amount, now)?;
                Ok(verdict)
            }
            Kind::Wide {
                place,
                rule,
                steady_clock,
            } => match &mut *place.lock() {
                Place::Here(state) => {
                    let now = instant(state, now, *steady_clock);
                    Ok(rule.take(state, amount, now))
                }
                Place::Taken | Place::Stale => Err(AskTable),
            },
        }
    }

    /// As [`admit`](Self::admit), and where the bucket stands after it.
    ///
    /// # Errors
    /// As [`admit`](Self::admit).
    #[inline]
    pub fn check(&self, amount: Amount, now: Timestamp) -> Result<(Verdict, Standing), AskTable> {
        match &self.0 {
            Kind::Word { word, rule } => {
                let (verdict, word, ticks) = take(word, rule, amount, now)?;
                Ok((verdict, rule.standing(word, now, ticks)))
            }
            Kind::Wide {
                place,
                rule,
                steady_clock,
            } => match &mut *place.lock() {
                Place::Here(state) => {
                    let now = instant(state, now, *steady_clock);
                    let verdict = rule.take(state, amount, now);
                    Ok((verdict, rule.standing(state, &DecisionTime::at(now))))
                }
                Place::Taken | Place::Stale => Err(AskTable),
            },
        }
    }

    /// Takes the state out, as of `now`. Only the table calls this, under its own lock,
    /// and before unlocking either calls [`put_back`](Self::put_back) or keeps the
    /// state elsewhere: then whoever holds the cell asks the table.
    pub fn take_out(&self, now: Timestamp) -> State {
        match &self.0 {
            Kind::Word { word, rule } => rule.state(word.swap(TAKEN, Ordering::Relaxed), now),
            Kind::Wide {
                place,
                rule,
                steady_clock,
            } => {
                let mut state = place.lock().replace(Place::Taken);
                if let (true, State::Bucket(state)) = (*steady_clock, &mut state) {
                    rule.as_of(state, now);
                }
                state
            }
        }
    }

    /// Puts a state back that [is plain](bucket::State::is_plain), or fresh.
    pub fn put_back(&self, state: State) {
        match &self.0 {
            Kind::Word { word, rule } => word.store(rule.word_of(&state), Ordering::Relaxed),
            Kind::Wide { place, .. } => {
                *place.lock() = Place::Here(match state {
                    State::Bucket(state) => state,
                    _ => bucket::State::default(),
                });
            }
        }
    }

    /// Retires the cell: whoever holds it asks the table from now on.
    pub fn retire(&self) -> Kept {
        match &self.0 {
            Kind::Word { word, .. } => Kept::Word(word.swap(STALE, Ordering::Relaxed)),
            Kind::Wide { place, .. } => Kept::State(place.lock().replace(Place::Stale)),
        }
    }

    /// When the cell equals "never seen", if nothing more is taken.
    pub fn forget_at(&self) -> Timestamp {
        match &self.0 {
            Kind::Word { word, rule } => rule.forget_at(word.load(Ordering::Relaxed)),
            Kind::Wide { place, rule, .. } => match &*place.lock() {
                Place::Here(state) => rule.forget_at(state),
                Place::Taken | Place::Stale => Timestamp::MAX,
            },
        }
    }

    /// Retires the cell if it equals "never seen" at `now`; whether it did.
    pub fn retire_if_spent(&self, now: Timestamp) -> bool {
        match &self.0 {
            Kind::Word { word, rule } => {
                let seen = word.load(Ordering::Relaxed);
                let spent = rule.ticks(now).is_some_and(|ticks| seen <= ticks);
                let relaxed = Ordering::Relaxed;
                spent && word.compare_exchange(seen, STALE, relaxed, relaxed).is_ok()
            }
            Kind::Wide { place, rule, .. } => {
                let mut place = place.lock();
                let spent = match &*place {
                    Place::Here(state) => rule.forget_at(state) <= now,
                    Place::Taken | Place::Stale => false,
                };
                if spent {
                    *place = Place::Stale;
                }
                spent
            }
        }
    }

    /// Whether the cell was retired.
    #[must_use]
    pub fn is_retired(&self) -> bool {
        match &self.0 {
            Kind::Word { word, .. } => word.load(Ordering::Relaxed) == STALE,
            Kind::Wide { place, .. } => matches!(*place.lock(), Place::Stale),
        }
    }
}

/// The instant that one is decided as of which looked at the clock at `now`. Others may
/// have been decided since: as of an earlier instant, time would pass twice.
#[inline]
fn instant(state: &bucket::State, now: Timestamp, steady_clock: bool) -> Timestamp {
    match steady_clock {
        true => now.max(state.at()),
        false => now,
    }
}

/// The verdict, the word after it, and the ticks of `now`.
#[inline]
fn take(
    word: &AtomicU64,
    rule: &Word,
    amount: Amount,
    now: Timestamp,
) -> Result<(Verdict, u64, u64), AskTable> {
    let ticks = rule.ticks(now).ok_or(AskTable)?;
    let mut seen = word.load(Ordering::Relaxed);
    loop {
        if seen >= TAKEN {
            return Err(AskTable);
        }
        let next = match rule.take(seen, amount, ticks) {
            Ok(next) => next,
            Err(refusal) => return Ok((refusal, seen, ticks)),
        };
        // The word is the whole state: nothing else is published with it.
        let relaxed = Ordering::Relaxed;
        match word.compare_exchange_weak(seen, next, relaxed, relaxed) {
            Ok(_) => return Ok((Verdict::Admit, next, ticks)),
            Err(current) => seen = current,
        }
    }
}

impl Place {
    /// The state that was there; fresh if there was none.
    fn replace(&mut self, by: Self) -> State {
        match std::mem::replace(self, by) {
            Self::Here(state) if !state.is_spent() => State::Bucket(state),
            _ => State::Fresh,
        }
    }
}

impl CellRule {
    /// The rule of the table's rows for `bucket`, whose words count from `epoch`.
    #[must_use]
    pub fn new(bucket: &Bucket, epoch: Timestamp) -> Self {
        Word::new(bucket, epoch).map_or(Self::Wide(*bucket), Self::Word)
    }

    /// `now` in the ticks of a word; `None` if it is out of a word's reach.
    #[inline]
    #[must_use]
    pub fn ticks(&self, now: Timestamp) -> Option<u64> {
        match self {
            Self::Word(rule) => rule.ticks(now),
            // No word but the fresh one.
            Self::Wide(_) => Some(Word::FRESH),
        }
    }

    /// When `word` decides like "never seen".
    #[must_use]
    pub fn forget_at(&self, word: u64) -> Timestamp {
        match self {
            Self::Word(rule) => rule.forget_at(word),
            Self::Wide(_) => Timestamp::MIN,
        }
    }

    /// The state that `word` stands for, as of `now`.
    #[must_use]
    pub fn unpack(&self, word: u64, now: Timestamp) -> State {
        match self {
            Self::Word(rule) => rule.state(word, now),
            Self::Wide(_) => State::Fresh,
        }
    }

    /// The word that stands for `state`, if one does.
    #[must_use]
    pub fn pack(&self, state: &State) -> Option<u64> {
        match (self, state) {
            (Self::Word(rule), State::Bucket(bucket)) => {
                bucket.is_plain().then(|| rule.word_of(state))
            }
            (Self::Wide(_), State::Bucket(bucket)) => bucket.is_spent().then_some(Word::FRESH),
            _ => Some(Word::FRESH),
        }
    }
}
