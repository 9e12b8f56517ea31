//! A packed bucket is a bucket in 64 bits: whatever a bucket answers, it does,
//! from the same requests at the same instants, debts included. (What leases may give
//! back is kept in buckets alone.)
//!
//! The fast path of the engine decides on packed buckets and the slow path on states;
//! a key may go from one to the other at any time.

mod common;

use common::*;
use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::kernel::bucket::State;
use tidegate_core::*;

/// What a packed bucket reaches from its epoch.
const REACH: i64 = 1 << 47;

/// A bucket beside its packed form.
struct BothForms {
    bucket: Bucket,
    packed: PackedBucket,
    state: State,
    bits: u64,
}

impl BothForms {
    fn take(&mut self, amount: Amount, now: Timestamp) -> Result<(), TestCaseError> {
        let time = DecisionTime::at(now);
        let verdict = self.bucket.quote(&self.state, amount, &time);
        let ticks = self.packed.ticks(now).expect("within reach");
        match self.packed.take(self.bits, amount, ticks) {
            Err(refusal) => prop_assert_eq!(refusal, verdict),
            Ok(bits) => {
                prop_assert_eq!(verdict, Verdict::Admit);
                self.bits = bits;
                self.bucket.charge(&mut self.state, amount, &time);
            }
        }
        Ok(())
    }

    fn force(&mut self, amount: Amount, now: Timestamp) {
        let ticks = self.packed.ticks(now).expect("within reach");
        self.bits = self.packed.charge(self.bits, amount, ticks);
        self.bucket
            .charge(&mut self.state, amount, &DecisionTime::at(now));
    }

    /// Everything that can be told of either is the same.
    fn agree(&self, now: Timestamp) -> Result<(), TestCaseError> {
        let (time, ticks) = (
            DecisionTime::at(now),
            self.packed.ticks(now).expect("within reach"),
        );
        let unpacked = self.packed.unpack(self.bits, now);
        let standing = self.bucket.standing(&self.state, &time);
        prop_assert_eq!(self.bucket.standing(&unpacked, &time), standing);
        let level = self.packed.level_at(self.bits, now, ticks);
        prop_assert_eq!(level.standing(), standing);
        prop_assert_eq!(level.remaining(), standing.remaining);
        let forget_at = self.bucket.forget_at(&self.state);
        prop_assert_eq!(
            self.packed.forget_at(self.bits).max(now),
            forget_at.max(now)
        );
        prop_assert_eq!(
            self.packed.is_forgettable(self.bits, ticks),
            forget_at <= now
        );
        let packed = self.packed.pack(&unpacked);
        prop_assert_eq!(packed.max(ticks), self.bits.max(ticks));
        prop_assert!(self.bits < PackedBucket::SPARE >> 2);
        Ok(())
    }
}

fn packed_buckets() -> impl Strategy<Value = (Bucket, bool)> {
    let small = (1_u64..3_000, periods(), capacities());
    let usual = (
        1_u64..60,
        prop_oneof![Just(Span::SECOND), Just(Span::from_secs(60))],
        capacities(),
    );
    (prop_oneof![small, usual], any::<bool>()).prop_map(|((amount, period, burst), deep)| {
        (Bucket::new(amount, period, burst).unwrap(), deep)
    })
}

proptest! {
    #[test]
    fn a_packed_bucket_decides_as_its_bucket(
        (bucket, deep) in packed_buckets(), epoch in origins(), start in 0..REACH / 2,
        operations in vec((0_u8..8, 0_i64..2_000, 0_i64..4, 0_u64..1_200), 0..40),
    ) {
        let Some(packed) = PackedBucket::new(&bucket, epoch) else { return Ok(()) };
        let mut both = BothForms { bucket, packed, state: State::default(), bits: PackedBucket::FRESH };
        let (refill, mut now) = (bucket.refill().as_micros() as i64, shift(epoch, start));
        for (operation, gap, jitter, share) in operations {
            let gap = (i128::from(refill) * i128::from(gap) / 4_000) as i64 + jitter;
            now = shift(now, gap).min(shift(epoch, REACH - 1));
            let amount = bucket.capacity() * share / 1_000;
            both.agree(now)?;
            match operation {
                0 => both.force(if deep { MAX_AMOUNT } else { amount }, now),
                _ => both.take(amount, now)?,
            }
            both.agree(now)?;
        }
    }

    #[test]
    fn a_packed_bucket_knows_its_reach((bucket, _) in packed_buckets(), epoch in origins(), off in 0_i64..1_000) {
        if let Some(packed) = PackedBucket::new(&bucket, epoch) {
            prop_assert!(packed.ticks(shift(epoch, REACH - 1 - off)).is_some());
            prop_assert!(packed.ticks(shift(epoch, REACH + off)).is_none());
            prop_assert!(packed.ticks(shift(epoch, -1 - off)).is_none());
        }
    }
}

/// The law above must not be empty: the usual rates can be packed.
#[test]
fn the_usual_rates_can_be_packed() {
    for (amount, period, burst) in [(100, 1, 200), (5_000, 1, 5_000), (10_000, 3_600, 10_000)] {
        let bucket = Bucket::new(amount, Span::from_secs(period), burst).unwrap();
        assert!(
            PackedBucket::new(&bucket, Timestamp::from_micros(0)).is_some(),
            "{bucket:?}"
        );
    }
    let wide = Bucket::new(MAX_AMOUNT, Span::from_millis(1), 1).unwrap();
    assert_eq!(PackedBucket::new(&wide, Timestamp::from_micros(0)), None);
}

proptest! {
    /// Of a bucket whose numbers cannot be packed, too.
    #[test]
    fn a_take_is_a_quote_and_a_charge(
        (amount, period, burst) in (1_u64..1 << 53, 1_000_u64..1 << 40, 1_u64..1 << 30),
        steps in prop::collection::vec((0_u64..1 << 31, -5_000_i64..1 << 24, any::<bool>()), 1..40),
    ) {
        let bucket = Bucket::new(amount, Span::from_micros(period), burst).unwrap();
        let (mut taken, mut charged) = (State::default(), State::default());
        let mut now = Timestamp::from_micros(1 << 50);
        for (wanted, passes, small) in steps {
            now = Timestamp::from_micros(now.as_micros() + passes);
            let wanted = if small { wanted % burst + 1 } else { wanted };
            let time = DecisionTime::at(now);
            bucket.observe(&mut charged, now);
            let verdict = bucket.quote(&charged, wanted, &time);
            if verdict.admitted() {
                bucket.charge(&mut charged, wanted, &time);
            }
            prop_assert_eq!(bucket.take(&mut taken, wanted, now), verdict);
            prop_assert_eq!(bucket.standing(&taken, &time), bucket.standing(&charged, &time));
            prop_assert_eq!(bucket.forget_at(&taken) <= now, bucket.forget_at(&charged) <= now);
        }
    }
}
