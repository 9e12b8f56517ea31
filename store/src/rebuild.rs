//! Rules made again from the numbers that they keep: for a store that keeps
//! those. A bucket keeps its rate reduced, a ring its step rounded up.

use tidegate_core::{Amount, Bucket, Ring, RuleError, Span};

/// The shortest period that a rule is made with, in microseconds.
const SHORTEST: u64 = 1_000;

/// The bucket that drains and weighs so much: the smallest multiple of its rate
/// that is long enough to be a period makes the same bucket.
///
/// # Errors
/// Numbers that no bucket keeps.
pub fn bucket(drain: u64, weight: u64, capacity: Amount) -> Result<Bucket, RuleError> {
    let scale = SHORTEST.div_ceil(weight.max(1));
    let period = Span::from_micros(weight.saturating_mul(scale));
    Bucket::new(drain.saturating_mul(scale), period, capacity)
}

/// The ring of so many steps: the shortest window with that step makes the same
/// ring. (No window has fewer microseconds than steps.)
///
/// # Errors
/// Numbers that no ring keeps.
pub fn ring(capacity: Amount, step: Span, steps: u32) -> Result<Ring, RuleError> {
    let before = step.as_micros().saturating_sub(1);
    let before = before.saturating_mul(u64::from(steps));
    let window = before.saturating_add(1).max(steps.into()).max(SHORTEST);
    Ring::new(capacity, Span::from_micros(window), steps)
}
