//! The two shapes of a table's rows.
//!
//! A plan of one prepaid bucket on one level keeps a [`Word`] a key; every
//! other plan keeps the states of its limits. A change of limits turns all
//! rows of a shard from one plan's shape into the other's.

use std::sync::Arc;

use tidegate_contract::core::{Bounds, Payment, Rule, State, Timestamp, Word};
use tidegate_contract::oracle::{self, Row};
use tidegate_contract::{HotCell, KeyPath, OwnedKey, Plan};

use crate::pins::Pins;
use crate::slab::Slab;

/// How long before the first command a word's epoch lies, so that a clock
/// slightly behind is still within reach.
const EPOCH_MARGIN: i64 = 86_400_000_000;

/// The rows of one shard.
#[derive(Debug)]
pub(crate) enum Rows {
    Words(Words),
    Wide(Slab<Row>),
}

/// Rows that are one word each.
#[derive(Debug)]
pub(crate) struct Words {
    pub(crate) rule: Word,
    pub(crate) slab: Slab<u64>,
    pub(crate) pins: Pins,
}

impl Rows {
    /// No rows yet, in the shape that suits `plan`.
    pub(crate) fn new(plan: &Plan, now: Timestamp) -> Self {
        match word_of(plan, now) {
            Some(rule) => Self::Words(Words {
                rule,
                slab: Slab::new(),
                pins: Pins::default(),
            }),
            None => Self::Wide(Slab::new()),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Words(words) => words.slab.len(),
            Self::Wide(slab) => slab.len(),
        }
    }

    fn reserve(&mut self, more: usize, hash: impl Fn(&[u8]) -> u64) {
        match self {
            Self::Words(words) => words.slab.reserve(more, hash),
            Self::Wide(slab) => slab.reserve(more, hash),
        }
    }
}

impl Words {
    /// The word of the row at `at`, taken out of its cell if it is pinned.
    pub(crate) fn take_out(&mut self, at: usize) -> u64 {
        let word = *self.slab.value_mut(at);
        self.pins.cell(word).map_or(word, |cell| cell.take_out())
    }

    /// The state of the row at `at`, as of `now`; nothing is taken out.
    pub(crate) fn look(&self, at: usize, now: Timestamp) -> State {
        match self.slab.slot(at) {
            Some(slot) if slot.value != Word::FRESH && !Pins::is_mark(slot.value) => {
                State::Bucket(self.rule.unpack(slot.value, now))
            }
            _ => State::Fresh,
        }
    }

    /// Puts a word back where [`take_out`](Self::take_out) found it.
    pub(crate) fn put_back(&mut self, at: usize, word: u64) {
        let place = self.slab.value_mut(at);
        match self.pins.cell(*place) {
            Some(cell) => cell.put_back(word),
            None => *place = word,
        }
    }

    /// Moves the row's word into a cell that handles may share.
    pub(crate) fn pin(&mut self, at: usize) -> Arc<HotCell> {
        let word = self.slab.value_mut(at);
        if let Some(cell) = self.pins.cell(*word) {
            return Arc::clone(cell);
        }
        let cell = Arc::new(HotCell::new(self.rule, *word));
        *word = self.pins.add(Arc::clone(&cell));
        cell
    }

    /// Moves the word back once no handle shares the cell.
    pub(crate) fn unpin(&mut self, at: usize) {
        let word = self.slab.value_mut(at);
        let unshared = |cell: &Arc<HotCell>| Arc::strong_count(cell) == 1;
        if self.pins.cell(*word).is_some_and(unshared)
            && let Some(cell) = self.pins.remove(*word)
        {
            *word = cell.retire();
        }
    }

    /// Every row as the state of its bucket; its cells are retired.
    fn into_states(self, now: Timestamp) -> impl Iterator<Item = (OwnedKey, State)> {
        let (rule, pins) = (self.rule, self.pins);
        // A handle that comes too late finds the mark, and asks the table.
        let word = move |word: u64| pins.cell(word).map_or(word, |cell| cell.retire());
        let rows = self.slab.into_rows();
        rows.map(move |slot| (slot.key, State::Bucket(rule.unpack(word(slot.value), now))))
    }
}

/// The word that keeps `plan`'s rows, if one does.
pub(crate) fn word_of(plan: &Plan, now: Timestamp) -> Option<Word> {
    let [limit] = plan.limits() else { return None };
    let Rule::Bucket(bucket) = &limit.rule else {
        return None;
    };
    let prepaid = limit.payment == Payment::Prepaid;
    let plain = plan.levels() == 1 && prepaid && !limit.shadow && !limit.refund_on_expiry;
    let epoch = Timestamp::from_micros(now.as_micros().saturating_sub(EPOCH_MARGIN));
    plain.then(|| Word::new(bucket, epoch)).flatten()
}

/// All rows of a shard, carried over from the plan that wrote them; also when
/// the plan is the same and only a word's epoch has to move.
pub(crate) fn adopt(
    rows: Rows,
    old: &Plan,
    plan: &Plan,
    now: Timestamp,
    calendars: &[Option<Bounds>],
    hash: impl Fn(&[u8]) -> u64,
) -> Rows {
    let mut adopted = Rows::new(plan, now);
    // Rows come in the order of their hashes: in an array still too short, they
    // would all crowd into its front.
    adopted.reserve(rows.len(), &hash);
    let mut keep = |key: OwnedKey, mut row: Row| {
        let level = level_of(key.bytes(), old.levels());
        if !keeps_level(key.bytes(), old, plan) {
            return;
        }
        let row = oracle::adopt_row(plan, old, level, &mut row, now, calendars);
        let hash_of = hash(key.bytes());
        match &mut adopted {
            Rows::Words(words) => {
                let word = pack(&words.rule, &row[0]);
                words.slab.insert(hash_of, key, word, &hash);
            }
            Rows::Wide(slab) => {
                slab.insert(hash_of, key, row, &hash);
            }
        }
    };
    match rows {
        Rows::Words(words) => words
            .into_states(now)
            .for_each(|(key, state)| keep(key, Box::new([state]))),
        Rows::Wide(slab) => slab.into_rows().for_each(|slot| keep(slot.key, slot.value)),
    }
    adopted
}

/// The word for a bucket's state.
pub(crate) fn pack(rule: &Word, state: &State) -> u64 {
    match state {
        State::Bucket(state) => rule.pack(state),
        _ => Word::FRESH,
    }
}

/// Whether a stored prefix is the same ancestor by both plans. One whose level
/// is another's has no limits to go on with.
pub(crate) fn keeps_level(key: &[u8], old: &Plan, plan: &Plan) -> bool {
    level_of(key, old.levels()) == level_of(key, plan.levels())
        && KeyPath::new(key, plan.levels()).is_ok()
}

/// The level of a stored prefix: how many separators it has, up to the last.
pub(crate) fn level_of(key: &[u8], levels: usize) -> usize {
    let separators = key.iter().filter(|&&byte| byte == b'/').count();
    separators.min(levels - 1)
}
