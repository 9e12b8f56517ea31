//! A bucket's state in one 64-bit number, so that a compare-and-swap suffices.
//!
//! The number is the instant at which the bucket is full again, counted in `1/a`
//! microseconds since an epoch of the table's own. An instant is one
//! multiplication away from the clock, and the arithmetic is the bucket's own:
//! the law `a_packed_bucket_decides_as_its_bucket` holds the two together. A bucket
//! whose numbers would not fit cannot be packed ([`PackedBucket::new`] answers `None`), and
//! is kept as a [`bucket::State`] instead; so is a key whose leases may still give back,
//! or whose burst was lowered to less than it had used.

use crate::amount::Amount;
use crate::kernel::bucket::{self, Bucket, BucketLevel, DEBT_SPAN_BITS};
use crate::rule::State;
use crate::time::Timestamp;
use crate::verdict::Verdict;

/// How far from its epoch a packed bucket counts: 2^47 microseconds, 4.5 years.
const REACH_BITS: u32 = 47;

/// A bucket that can be packed, with the epoch it counts from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PackedBucket {
    bucket: Bucket,
    brim: u64,
    most: u64,
    epoch: i64,
}

impl PackedBucket {
    /// The packed state of a key never seen.
    pub const FRESH: u64 = 0;

    /// No packed state is nearly as large as this: from here on, numbers are free for a
    /// table's own marks.
    pub const SPARE_FROM: u64 = 1 << 63;

    /// The largest of the spare numbers.
    pub const SPARE: u64 = u64::MAX;

    /// `bucket` packed from `epoch`, if every state it can reach fits 62 bits.
    #[must_use]
    pub fn new(bucket: &Bucket, epoch: Timestamp) -> Option<Self> {
        let drain = u128::from(bucket.drain());
        let most = bucket.brim() + (drain << DEBT_SPAN_BITS);
        let highest = (drain << REACH_BITS) + most + bucket.brim();
        if highest >= 1 << 62 {
            return None;
        }
        Some(Self {
            bucket: *bucket,
            brim: bucket.brim() as u64,
            most: most as u64,
            epoch: epoch.as_micros(),
        })
    }

    /// `now` in ticks; `None` if it is out of reach.
    #[inline]
    #[must_use]
    pub fn ticks(&self, now: Timestamp) -> Option<u64> {
        let elapsed = now.as_micros().wrapping_sub(self.epoch) as u64;
        if elapsed >> REACH_BITS != 0 {
            return None;
        }
        Some(elapsed * self.bucket.drain())
    }

    /// Takes `amount` if it fits: the new packed state, or the refusal.
    ///
    /// # Errors
    /// The verdict: not until, or never.
    #[inline]
    pub fn take(&self, packed: u64, amount: Amount, now: u64) -> Result<u64, Verdict> {
        if amount > self.bucket.capacity() {
            return Err(Verdict::Never);
        }
        let full_at = packed.max(now) + amount * self.bucket.weight();
        if full_at - now <= self.brim {
            return Ok(full_at);
        }
        Err(self.not_until(full_at))
    }

    /// Takes `amount` whatever there is.
    #[must_use]
    pub fn charge(&self, packed: u64, amount: Amount, now: u64) -> u64 {
        let weight = amount.saturating_mul(self.bucket.weight()).min(self.most);
        (packed.max(now) + weight).min(now.saturating_add(self.most).max(packed))
    }

    /// How much of the bucket is used at `now`, whose ticks these are.
    #[inline]
    #[must_use]
    pub fn level_at(&self, packed: u64, now: Timestamp, ticks: u64) -> BucketLevel {
        BucketLevel::new(self.bucket, packed.saturating_sub(ticks).into(), now)
    }

    /// Whether `packed` decides like "never seen" from `now` on.
    #[inline]
    #[must_use]
    pub const fn is_forgettable(&self, packed: u64, now: u64) -> bool {
        packed <= now
    }

    /// When `packed` decides like "never seen".
    #[must_use]
    pub fn forget_at(&self, packed: u64) -> Timestamp {
        self.instant(packed)
    }

    /// The bucket's state that `packed` stands for, as of `now`. A clock from
    /// before the epoch has stepped back: what is in use then is at most all.
    #[must_use]
    pub fn unpack(&self, packed: u64, now: Timestamp) -> bucket::State {
        let elapsed = i128::from(now.as_micros()) - i128::from(self.epoch);
        let level = i128::from(packed) - elapsed * i128::from(self.bucket.drain());
        let level = u128::try_from(level).unwrap_or(0);
        let most = if elapsed < 0 { self.brim } else { self.most };
        bucket::State {
            level: level.min(u128::from(most)),
            at: now,
            low_water: bucket::LowWaterMarks::NONE,
            forgiven: None,
        }
    }

    /// The packed form of a bucket's state at an instant within reach, if it
    /// [is plain](bucket::State::is_packable): nothing more can be packed.
    #[must_use]
    pub fn pack(&self, state: &bucket::State) -> u64 {
        if state.level == 0 {
            return Self::FRESH;
        }
        let level = state.level.min(u128::from(self.most)) as u64;
        self.ticks(state.at).unwrap_or(0) + level
    }

    /// The state that `packed` stands for, as of `now`.
    #[must_use]
    pub fn state(&self, packed: u64, now: Timestamp) -> State {
        match packed {
            Self::FRESH => State::Fresh,
            packed => State::Bucket(self.unpack(packed, now)),
        }
    }

    /// The packed form of a state that is fresh, or a bucket's that
    /// [is plain](bucket::State::is_packable).
    #[must_use]
    pub fn pack_state(&self, state: &State) -> u64 {
        match state {
            State::Bucket(state) => self.pack(state),
            _ => Self::FRESH,
        }
    }

    /// The first instant at which a request that needs `full_at` fits.
    #[cold]
    fn not_until(&self, full_at: u64) -> Verdict {
        Verdict::NotUntil(self.instant(full_at - self.brim))
    }

    /// The first microsecond that is at or after `ticks`.
    fn instant(&self, ticks: u64) -> Timestamp {
        let micros = ticks.div_ceil(self.bucket.drain());
        Timestamp::from_micros(self.epoch.saturating_add_unsigned(micros))
    }
}
