//! A single bucket of a pinned key: packed in one atomic number, or under a lock of its own
//! where its numbers cannot be packed.
//!
//! A local store hands it out so that the holder of a handle decides without the table.
//! The rule in it never changes; when the plan does, or when the store needs the state
//! to itself, it carries a mark, and the holder asks the table instead.

use tidegate_core::kernel::bucket;
use tidegate_core::{Amount, Bucket, BucketLevel, PackedBucket, State, Timestamp, Verdict};

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};

/// It has moved: ask the table, which knows where.
const STALE: u64 = PackedBucket::SPARE;
/// The store has taken it: for the length of one command, or for as long as the packed
/// form does not say it all.
const TAKEN: u64 = PackedBucket::SPARE - 1;

/// The state of one bucket for one key. See the [module](self).
#[derive(Debug)]
pub struct AtomicBucket(Form);

#[derive(Debug)]
enum Form {
    Packed {
        packed: AtomicU64,
        rule: PackedBucket,
    },
    Unpacked {
        shared: Mutex<UnpackedState>,
        rule: Bucket,
        /// The clock of those who ask never steps back.
        steady_clock: bool,
    },
}

/// Where a state is that cannot be packed.
#[derive(Debug)]
enum UnpackedState {
    Present(bucket::State),
    /// With the store: for the length of one command, or for as long as it cannot be packed.
    Taken,
    /// It has moved: ask the table, which knows where.
    Stale,
}

/// A bucket's rule, by which its rows are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtomicBucketRule {
    /// Packed.
    Packed(PackedBucket),
    /// As states: its numbers cannot be packed.
    Unpacked(Bucket),
}

/// What was in an atomic bucket.
#[derive(Debug)]
pub enum Retired {
    /// The packed state.
    Packed(u64),
    /// A state.
    State(State),
}

/// The atomic bucket cannot answer by itself; ask the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UseTable;

impl AtomicBucket {
    /// An atomic bucket for `rule` that starts from `packed`.
    #[must_use]
    pub const fn new(rule: PackedBucket, packed: u64) -> Self {
        let packed = AtomicU64::new(packed);
        Self(Form::Packed { packed, rule })
    }

    /// An atomic bucket for `rule` whose state the store has taken. On a steady clock an instant
    /// before the state's is that of a thread that was held up, and no step back.
    #[must_use]
    pub fn taken(rule: AtomicBucketRule, steady_clock: bool) -> Self {
        match rule {
            AtomicBucketRule::Packed(rule) => Self::new(rule, TAKEN),
            AtomicBucketRule::Unpacked(rule) => {
                let shared = Mutex::new(UnpackedState::Taken);
                Self(Form::Unpacked {
                    shared,
                    rule,
                    steady_clock,
                })
            }
        }
    }

    /// Takes `amount` (at least 1) if it fits.
    ///
    /// # Errors
    /// [`UseTable`] if it carries a mark or `now` is out of its reach.
    #[inline]
    pub fn admit(&self, amount: Amount, now: Timestamp) -> Result<Verdict, UseTable> {
        match &self.0 {
            Form::Packed { packed, rule } => {
                let (verdict, _, _) = take(packed, rule, amount, now)?;
                Ok(verdict)
            }
            Form::Unpacked {
                shared,
                rule,
                steady_clock,
            } => match &mut *shared.lock() {
                UnpackedState::Present(state) => {
                    let now = instant(state, now, *steady_clock);
                    Ok(rule.take(state, amount, now))
                }
                UnpackedState::Taken | UnpackedState::Stale => Err(UseTable),
            },
        }
    }

    /// As [`admit`](Self::admit), and how much of the bucket is used after it.
    ///
    /// # Errors
    /// As [`admit`](Self::admit).
    #[inline]
    pub fn check(
        &self,
        amount: Amount,
        now: Timestamp,
    ) -> Result<(Verdict, BucketLevel), UseTable> {
        match &self.0 {
            Form::Packed { packed, rule } => {
                let (verdict, packed, ticks) = take(packed, rule, amount, now)?;
                Ok((verdict, rule.level_at(packed, now, ticks)))
            }
            Form::Unpacked {
                shared,
                rule,
                steady_clock,
            } => match &mut *shared.lock() {
                UnpackedState::Present(state) => {
                    let now = instant(state, now, *steady_clock);
                    let verdict = rule.take(state, amount, now);
                    Ok((verdict, rule.level_at(state, now)))
                }
                UnpackedState::Taken | UnpackedState::Stale => Err(UseTable),
            },
        }
    }

    /// Takes the state out, as of `now`. Only the table calls this, under its own lock,
    /// and before unlocking either calls [`put_back`](Self::put_back) or keeps the
    /// state elsewhere: then the holder asks the table.
    pub fn take_out(&self, now: Timestamp) -> State {
        match &self.0 {
            Form::Packed { packed, rule } => rule.state(packed.swap(TAKEN, Ordering::Relaxed), now),
            Form::Unpacked {
                shared,
                rule,
                steady_clock,
            } => {
                let mut state = shared.lock().replace(UnpackedState::Taken);
                if let (true, State::Bucket(state)) = (*steady_clock, &mut state) {
                    rule.as_of(state, now);
                }
                state
            }
        }
    }

    /// Puts a state back that [is plain](bucket::State::is_packable), or fresh.
    pub fn put_back(&self, state: State) {
        match &self.0 {
            Form::Packed { packed, rule } => {
                packed.store(rule.pack_state(&state), Ordering::Relaxed)
            }
            Form::Unpacked { shared, .. } => {
                *shared.lock() = UnpackedState::Present(match state {
                    State::Bucket(state) => state,
                    _ => bucket::State::default(),
                });
            }
        }
    }

    /// Retires it: whoever holds it asks the table from now on.
    pub fn retire(&self) -> Retired {
        match &self.0 {
            Form::Packed { packed, .. } => Retired::Packed(packed.swap(STALE, Ordering::Relaxed)),
            Form::Unpacked { shared, .. } => {
                Retired::State(shared.lock().replace(UnpackedState::Stale))
            }
        }
    }

    /// When it equals "never seen", if nothing more is taken.
    pub fn forget_at(&self) -> Timestamp {
        match &self.0 {
            Form::Packed { packed, rule } => rule.forget_at(packed.load(Ordering::Relaxed)),
            Form::Unpacked { shared, rule, .. } => match &*shared.lock() {
                UnpackedState::Present(state) => rule.forget_at(state),
                UnpackedState::Taken | UnpackedState::Stale => Timestamp::MAX,
            },
        }
    }

    /// Retires it if it equals "never seen" at `now`; whether it did.
    pub fn retire_if_spent(&self, now: Timestamp) -> bool {
        match &self.0 {
            Form::Packed { packed, rule } => {
                let seen = packed.load(Ordering::Relaxed);
                let spent = rule.ticks(now).is_some_and(|ticks| seen <= ticks);
                let relaxed = Ordering::Relaxed;
                spent
                    && packed
                        .compare_exchange(seen, STALE, relaxed, relaxed)
                        .is_ok()
            }
            Form::Unpacked { shared, rule, .. } => {
                let mut shared = shared.lock();
                let spent = match &*shared {
                    UnpackedState::Present(state) => rule.forget_at(state) <= now,
                    UnpackedState::Taken | UnpackedState::Stale => false,
                };
                if spent {
                    *shared = UnpackedState::Stale;
                }
                spent
            }
        }
    }

    /// Whether it was retired.
    #[must_use]
    pub fn is_retired(&self) -> bool {
        match &self.0 {
            Form::Packed { packed, .. } => packed.load(Ordering::Relaxed) == STALE,
            Form::Unpacked { shared, .. } => matches!(*shared.lock(), UnpackedState::Stale),
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

/// The verdict, the packed state after it, and the ticks of `now`.
#[inline]
fn take(
    packed: &AtomicU64,
    rule: &PackedBucket,
    amount: Amount,
    now: Timestamp,
) -> Result<(Verdict, u64, u64), UseTable> {
    let ticks = rule.ticks(now).ok_or(UseTable)?;
    let mut seen = packed.load(Ordering::Relaxed);
    loop {
        if seen >= TAKEN {
            return Err(UseTable);
        }
        let next = match rule.take(seen, amount, ticks) {
            Ok(next) => next,
            Err(refusal) => return Ok((refusal, seen, ticks)),
        };
        // The number is the whole state: nothing else is published with it.
        let relaxed = Ordering::Relaxed;
        match packed.compare_exchange_weak(seen, next, relaxed, relaxed) {
            Ok(_) => return Ok((Verdict::Admit, next, ticks)),
            Err(current) => seen = current,
        }
    }
}

impl UnpackedState {
    /// The state that was there; fresh if there was none.
    fn replace(&mut self, by: Self) -> State {
        match std::mem::replace(self, by) {
            Self::Present(state) if !state.is_spent() => State::Bucket(state),
            _ => State::Fresh,
        }
    }
}

impl AtomicBucketRule {
    /// The rule of the table's rows for `bucket`, whose packed states count from `epoch`.
    #[must_use]
    pub fn new(bucket: &Bucket, epoch: Timestamp) -> Self {
        PackedBucket::new(bucket, epoch).map_or(Self::Unpacked(*bucket), Self::Packed)
    }

    /// `now` in the ticks of a packed state; `None` if it is out of its reach.
    #[inline]
    #[must_use]
    pub fn ticks(&self, now: Timestamp) -> Option<u64> {
        match self {
            Self::Packed(rule) => rule.ticks(now),
            // No packed state but the fresh one.
            Self::Unpacked(_) => Some(PackedBucket::FRESH),
        }
    }

    /// When `packed` decides like "never seen".
    #[must_use]
    pub fn forget_at(&self, packed: u64) -> Timestamp {
        match self {
            Self::Packed(rule) => rule.forget_at(packed),
            Self::Unpacked(_) => Timestamp::MIN,
        }
    }

    /// The state that `packed` stands for, as of `now`.
    #[must_use]
    pub fn unpack(&self, packed: u64, now: Timestamp) -> State {
        match self {
            Self::Packed(rule) => rule.state(packed, now),
            Self::Unpacked(_) => State::Fresh,
        }
    }

    /// The packed form of `state`, if it has one.
    #[must_use]
    pub fn pack(&self, state: &State) -> Option<u64> {
        match (self, state) {
            (Self::Packed(rule), State::Bucket(bucket)) => {
                bucket.is_packable().then(|| rule.pack_state(state))
            }
            (Self::Unpacked(_), State::Bucket(bucket)) => {
                bucket.is_spent().then_some(PackedBucket::FRESH)
            }
            _ => Some(PackedBucket::FRESH),
        }
    }
}
