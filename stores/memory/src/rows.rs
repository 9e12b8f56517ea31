//! The two shapes of a table's rows.
//!
//! A plan of one prepaid bucket on one level keeps a [`PackedBucket`] a key, or, if its numbers
//! cannot be packed, a state in the side table; every other plan keeps the states of its
//! limits. A change of limits turns all rows of a shard from one plan's shape into the
//! other's.

use std::sync::Arc;

use tidegate_store::atomic_bucket::Retired;
use tidegate_store::core::{Bounds, PackedBucket, Rule, Span, State, Timestamp};
use tidegate_store::decide::{self, Row};
use tidegate_store::key::level_of_row;
use tidegate_store::{AtomicBucket, AtomicBucketRule, KeyPath, OwnedKey, Plan};

use crate::side_table::{SideRow, SideTable};
use crate::slab::Slab;

/// How long before the first command the epoch of packed states lies, so that a clock
/// slightly behind is still within reach.
const EPOCH_MARGIN: i64 = 86_400_000_000;

/// The rows of one shard.
#[derive(Debug)]
pub(crate) enum Rows {
    Packed(PackedRows),
    General(Slab<Row>),
}

/// Rows that are one packed state each, or are in the side table.
#[derive(Debug)]
pub(crate) struct PackedRows {
    pub(crate) rule: AtomicBucketRule,
    pub(crate) slab: Slab<u64>,
    pub(crate) side_table: SideTable,
}

impl Rows {
    /// No rows yet, in the shape that suits `plan`.
    pub(crate) fn new(plan: &Plan, now: Timestamp) -> Self {
        match single_bucket_rule(plan, now) {
            Some(rule) => Self::Packed(PackedRows {
                rule,
                slab: Slab::new(),
                side_table: SideTable::default(),
            }),
            None => Self::General(Slab::new()),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Packed(packed_rows) => packed_rows.slab.len(),
            Self::General(slab) => slab.len(),
        }
    }

    fn reserve(&mut self, more: usize, hash: impl Fn(&[u8]) -> u64) {
        match self {
            Self::Packed(packed_rows) => packed_rows.slab.reserve(more, hash),
            Self::General(slab) => slab.reserve(more, hash),
        }
    }
}

impl PackedRows {
    /// The state of the row at `at`, for one command: from its packed state, its
    /// atomic bucket, or the side table.
    pub(crate) fn take_out(&mut self, at: usize, now: Timestamp) -> State {
        let packed = *self.slab.value_mut(at);
        let Some(side_row) = self.side_table.get_mut(packed) else {
            return self.rule.unpack(packed, now);
        };
        if let Some(state) = side_row.state.take() {
            return state;
        }
        let shared = side_row.bucket.as_ref();
        shared.map_or(State::Fresh, |bucket| bucket.take_out(now))
    }

    /// The state of the row at `at`, as of `now`; nothing is taken out. What
    /// handles share is not seen: a table that keeps a journal shares nothing.
    pub(crate) fn look(&self, at: usize, now: Timestamp) -> State {
        let Some(slot) = self.slab.slot(at) else {
            return State::Fresh;
        };
        match self.side_table.get(slot.value) {
            Some(side_row) => side_row.state.clone().unwrap_or_default(),
            None => self.rule.unpack(slot.value, now),
        }
    }

    /// Puts a state back where [`take_out`](Self::take_out) found it; in the side table, for
    /// as long as it cannot be packed.
    pub(crate) fn put_back(&mut self, at: usize, state: State) {
        let packed_slot = self.slab.value_mut(at);
        let side_row = self.side_table.get_mut(*packed_slot);
        let own = side_row
            .as_ref()
            .is_some_and(|side_row| side_row.own.is_some());
        if !own
            && is_packable(&state)
            && let Some(bucket) = side_row
                .as_ref()
                .and_then(|side_row| side_row.bucket.as_ref())
        {
            return bucket.put_back(state);
        }
        match self.rule.pack(&state).filter(|_| !own) {
            Some(packed)
                if side_row
                    .as_ref()
                    .is_none_or(|side_row| side_row.bucket.is_none()) =>
            {
                self.side_table.remove(*packed_slot);
                *packed_slot = packed;
            }
            _ => {
                let (bucket, state, own) = (None, Some(state), None);
                match side_row {
                    Some(side_row) => side_row.state = state,
                    None => *packed_slot = self.side_table.add(SideRow { bucket, state, own }),
                }
            }
        }
    }

    /// Puts a state back that goes by `own` from here on, or by the table's rule.
    pub(crate) fn put_back_by(&mut self, at: usize, state: State, own: Option<Rule>) {
        let packed_slot = self.slab.value_mut(at);
        match self.side_table.get_mut(*packed_slot) {
            Some(side_row) => side_row.own = own,
            None if own.is_some() => {
                let (bucket, unpacked) = (None, None);
                *packed_slot = self.side_table.add(SideRow {
                    bucket,
                    state: unpacked,
                    own,
                });
            }
            None => {}
        }
        self.put_back(at, state);
    }

    /// Whether `state` equals "never seen", so that it needs no row.
    pub(crate) fn is_unseen(&self, state: &State) -> bool {
        self.rule.pack(state) == Some(PackedBucket::FRESH)
    }

    /// Moves the row's packed state into an atomic bucket that handles may share. One whose state
    /// is in the side table is taken from the start. The clock of those who ask may be a
    /// steady one.
    pub(crate) fn pin(&mut self, at: usize, steady_clock: bool) -> Arc<AtomicBucket> {
        let packed = self.slab.value_mut(at);
        if let Some(side_row) = self.side_table.get_mut(*packed) {
            let rule = self.rule;
            let bucket = side_row
                .bucket
                .get_or_insert_with(|| Arc::new(AtomicBucket::taken(rule, steady_clock)));
            let bucket = Arc::clone(bucket);
            // One that cannot be packed is there only for want of an atomic bucket.
            if let Some(state) = side_row
                .state
                .take_if(|state| side_row.own.is_none() && is_packable(state))
            {
                bucket.put_back(state);
            }
            return bucket;
        }
        let bucket = Arc::new(match self.rule {
            AtomicBucketRule::Packed(rule) => AtomicBucket::new(rule, *packed),
            AtomicBucketRule::Unpacked(_) => AtomicBucket::taken(self.rule, steady_clock),
        });
        if matches!(self.rule, AtomicBucketRule::Unpacked(_)) {
            bucket.put_back(State::Fresh);
        }
        let shared = Some(Arc::clone(&bucket));
        *packed = self.side_table.add(SideRow {
            bucket: shared,
            state: None,
            own: None,
        });
        bucket
    }

    /// Moves the packed state back once no handle shares it; a state that
    /// cannot be packed stays.
    pub(crate) fn unpin(&mut self, at: usize) {
        let packed_slot = self.slab.value_mut(at);
        let unshared = |bucket: &mut Arc<AtomicBucket>| Arc::strong_count(bucket) == 1;
        if let Some(side_row) = self.side_table.get_mut(*packed_slot)
            && let Some(bucket) = side_row.bucket.take_if(unshared)
        {
            self.retire(at, &bucket);
        }
    }

    /// Moves the packed state back from its atomic bucket, even if handles share that.
    pub(crate) fn recall(&mut self, at: usize) {
        let side_row = self.side_table.get_mut(*self.slab.value_mut(at));
        if let Some(bucket) = side_row.and_then(|side_row| side_row.bucket.take()) {
            self.retire(at, &bucket);
        }
    }

    /// Takes the packed state out of what was the row's atomic bucket, unless the state is in
    /// the side table.
    fn retire(&mut self, at: usize, bucket: &AtomicBucket) {
        let kept = bucket.retire();
        let packed_slot = self.slab.value_mut(at);
        let Some(side_row) = self.side_table.get_mut(*packed_slot) else {
            return;
        };
        match kept {
            _ if side_row.state.is_some() => {}
            Retired::State(state) if self.rule.pack(&state).is_none() => {
                side_row.state = Some(state)
            }
            kept => {
                self.side_table.remove(*packed_slot);
                *packed_slot = match kept {
                    Retired::Packed(packed) => packed,
                    Retired::State(_) => PackedBucket::FRESH,
                };
            }
        }
    }

    /// From when the row kept aside at `mark` equals "never seen". Its atomic bucket is
    /// taken back if it can be dropped now.
    pub(crate) fn take_back(&self, mark: u64, rule: &Rule, now: Timestamp) -> Option<Timestamp> {
        let side_row = self.side_table.get(mark)?;
        let Some(state) = &side_row.state else {
            return side_row
                .bucket
                .as_deref()
                .map(|bucket| take_back(bucket, now));
        };
        let when = side_row.own.as_ref().unwrap_or(rule).forget_at(state);
        if is_past(when, now)
            && let Some(bucket) = &side_row.bucket
        {
            bucket.retire();
        }
        Some(when)
    }

    /// From when the row at `at` equals "never seen"; its atomic bucket is left alone.
    pub(crate) fn spent_at(&self, at: usize, rule: &Rule) -> Option<Timestamp> {
        let packed = self.slab.slot(at)?.value;
        let Some(side_row) = self.side_table.get(packed) else {
            return Some(self.rule.forget_at(packed));
        };
        match &side_row.state {
            Some(state) => Some(side_row.own.as_ref().unwrap_or(rule).forget_at(state)),
            None => side_row.bucket.as_deref().map(AtomicBucket::forget_at),
        }
    }

    /// Whether the row at `at` equals "never seen", and is shared with nobody.
    pub(crate) fn is_spent(&self, at: usize, rule: &Rule, (now, ticks): (Timestamp, u64)) -> bool {
        let Some(slot) = self.slab.slot(at) else {
            return false;
        };
        match self.side_table.get(slot.value) {
            None => slot.value <= ticks,
            Some(side_row) => {
                let rule = side_row.own.as_ref().unwrap_or(rule);
                let spent = |state: &State| is_past(rule.forget_at(state), now);
                side_row.bucket.is_none() && side_row.state.as_ref().is_some_and(spent)
            }
        }
    }

    /// Every row as the state of its bucket; its atomic buckets are retired.
    fn into_states(self, now: Timestamp) -> impl Iterator<Item = (OwnedKey, State)> {
        let (rule, mut side_table) = (self.rule, self.side_table);
        let mut state = move |packed: u64| {
            let Some(side_row) = side_table.remove(packed) else {
                return rule.unpack(packed, now);
            };
            // A handle that comes too late finds the mark, and asks the table.
            let kept = side_row.bucket.map(|bucket| bucket.retire());
            side_row.state.unwrap_or_else(|| match kept {
                None => State::Fresh,
                Some(Retired::Packed(packed)) => rule.unpack(packed, now),
                Some(Retired::State(state)) => state,
            })
        };
        let rows = self.slab.into_rows();
        rows.map(move |slot| (slot.key, state(slot.value)))
    }
}

/// Whether a state may be dropped at `now` that equals "never seen" from `when`
/// on. The end of time is never, even for a clock that stands there.
pub(crate) fn is_past(when: Timestamp, now: Timestamp) -> bool {
    when <= now && when < Timestamp::MAX
}

/// Takes an atomic bucket back if it equals "never seen", or says when it will.
fn take_back(bucket: &AtomicBucket, now: Timestamp) -> Timestamp {
    if bucket.retire_if_spent(now) {
        return now;
    }
    bucket.forget_at().max(now + Span::from_micros(1))
}

/// The rule of a single bucket, if `plan` is one.
pub(crate) fn single_bucket_rule(plan: &Plan, now: Timestamp) -> Option<AtomicBucketRule> {
    let bucket = plan.single_bucket()?;
    let epoch = Timestamp::from_micros(now.as_micros().saturating_sub(EPOCH_MARGIN));
    Some(AtomicBucketRule::new(bucket, epoch))
}

/// All rows of a shard, carried over from the plan that wrote them; also when
/// the plan is the same and only the epoch of packed states has to move.
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
    // would all be near its beginning.
    adopted.reserve(rows.len(), &hash);
    let mut keep = |key: OwnedKey, mut row: Row| {
        let level = level_of_row(key.bytes(), old.levels());
        if !keeps_level(key.bytes(), old, plan) {
            return;
        }
        let by = (plan.of_row(key.bytes()), old.of_row(key.bytes()));
        let mut row = decide::adopt_row(by.0, by.1, level, &mut row, now, calendars);
        let (hash_of, own) = (hash(key.bytes()), own_rule(plan, key.bytes()));
        match &mut adopted {
            Rows::Packed(packed_rows) => {
                let at = packed_rows
                    .slab
                    .insert(hash_of, key, PackedBucket::FRESH, &hash);
                let mut state = std::mem::take(&mut row[0]);
                note_step_back(own.as_ref(), plan, &mut state, now);
                packed_rows.put_back_by(at, state, own);
            }
            Rows::General(slab) => {
                slab.insert(hash_of, key, row, &hash);
            }
        }
    };
    match rows {
        Rows::Packed(packed_rows) => packed_rows
            .into_states(now)
            .for_each(|(key, state)| keep(key, Box::new([state]))),
        Rows::General(slab) => slab.into_rows().for_each(|slot| keep(slot.key, slot.value)),
    }
    adopted
}

/// The row of `key`, carried over from the limits it goes by in `old` to those
/// it goes by in `plan`, which is `old` but for that.
pub(crate) fn adopt_one(
    rows: &mut Rows,
    (hash, key): (u64, &[u8]),
    (plan, old): (&Plan, &Plan),
    now: Timestamp,
    calendars: &[Option<Bounds>],
) {
    let level = level_of_row(key, plan.levels());
    let by = (plan.of_row(key), old.of_row(key));
    let adopt = |row: &mut [State]| decide::adopt_row(by.0, by.1, level, row, now, calendars);
    match rows {
        Rows::Packed(packed_rows) => {
            if let Some(at) = packed_rows.slab.find(hash, key) {
                let mut row = adopt(&mut [packed_rows.take_out(at, now)]);
                packed_rows.put_back_by(at, std::mem::take(&mut row[0]), own_rule(plan, key));
            }
        }
        Rows::General(slab) => {
            if let Some(at) = slab.find(hash, key) {
                let row = adopt(slab.value_mut(at));
                *slab.value_mut(at) = row;
            }
        }
    }
}

/// A packed state does not say when it was written: what a file has from a clock that stood later
/// is brought to `now` before it is packed.
fn note_step_back(own: Option<&Rule>, plan: &Plan, state: &mut State, now: Timestamp) {
    let State::Bucket(state) = state else { return };
    match (own, plan.single_bucket()) {
        (Some(Rule::Bucket(bucket)), _) | (None, Some(bucket)) => bucket.observe(state, now),
        _ => {}
    }
}

/// The rule of a single limit that `key` has for itself.
#[inline]
pub(crate) fn own_rule(plan: &Plan, key: &[u8]) -> Option<Rule> {
    let variant = plan.overrides().get(key)?;
    variant.limits().first().map(|limit| limit.rule)
}

/// Whether an atomic bucket holds all of a bucket's state.
fn is_packable(state: &State) -> bool {
    !matches!(state, State::Bucket(state) if !state.is_packable())
}

/// Whether a row is the same ancestor's by both plans. One whose level
/// is another's has no limits to go on with.
pub(crate) fn keeps_level(key: &[u8], old: &Plan, plan: &Plan) -> bool {
    level_of_row(key, old.levels()) == level_of_row(key, plan.levels())
        && KeyPath::stored(key, plan.levels()).is_ok()
}
