//! What the store decides by, so that what nodes admit is within the limit.

use tidegate_store::core::{Amount, Bucket, Log, Ring, Rule, RuleError, Span};

/// Why there is no such rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum NoRule {
    /// All of a bucket's burst may be out.
    Burst { burst: Amount, out: Amount },
    /// A window that is so much longer is none.
    Window(RuleError),
}

/// How much of a bucket may be out: what drains in a hold, or less if that is bounded.
fn out_of(bucket: &Bucket, hold: Span, outstanding: Option<Amount>) -> Amount {
    let drained = u128::from(bucket.drain()) * u128::from(hold.as_micros());
    let back = drained.div_ceil(u128::from(bucket.weight()));
    let out = Amount::try_from(back).unwrap_or(Amount::MAX);
    outstanding.map_or(out, |most| most.min(out))
}

/// By how much nodes may exceed `rule` at most, where it is not made less for it: of a bucket in any
/// time, of a rolling window in any window (`docs/reference/tiers.md`, "The bound").
pub(crate) fn beyond(rule: &Rule, hold: Span, outstanding: Option<Amount>) -> Amount {
    let before = |capacity: Amount, window: Span| {
        let holds = hold.as_micros() / window.as_micros().max(1);
        let granted = match hold > window {
            true => capacity.saturating_mul(holds + 1),
            false => 0,
        };
        outstanding.map_or(granted, |most| most.min(granted))
    };
    match rule {
        Rule::Window(_) | Rule::Slots(_) => 0,
        Rule::Bucket(bucket) => out_of(bucket, hold, outstanding),
        Rule::Ring(ring) => before(ring.capacity(), ring_window(ring)),
        Rule::Log(log) => before(log.capacity(), log.window()),
    }
}

fn ring_window(ring: &Ring) -> Span {
    let micros = ring.step().as_micros();
    Span::from_micros(micros.saturating_mul(u64::from(ring.steps())))
}

/// The rule for grants that are held for `hold` at most, of which no more than `outstanding`
/// units are out. What a node admits was granted in the hold before: so a bucket's burst is less
/// by what may be out of it, and a rolling window longer by the hold. A window that begins and
/// ends is charged for what is admitted in it, as it is.
pub(crate) fn rule(rule: Rule, hold: Span, outstanding: Option<Amount>) -> Result<Rule, NoRule> {
    match rule {
        Rule::Window(_) | Rule::Slots(_) => Ok(rule),
        Rule::Bucket(bucket) => {
            let out = out_of(&bucket, hold, outstanding);
            let burst = bucket.capacity();
            let left = burst.saturating_sub(out);
            let bucket = bucket.with_capacity(left);
            bucket
                .map(Rule::Bucket)
                .map_err(|_| NoRule::Burst { burst, out })
        }
        Rule::Ring(ring) => {
            let more = hold.as_micros().div_ceil(ring.step().as_micros());
            let more = u32::try_from(more).unwrap_or(u32::MAX);
            let steps = ring.steps().saturating_add(more);
            let window = ring.step().as_micros().saturating_mul(u64::from(steps));
            let ring = Ring::new(ring.capacity(), Span::from_micros(window), steps);
            ring.map(Rule::Ring).map_err(NoRule::Window)
        }
        Rule::Log(log) => {
            let window = log.window().as_micros().saturating_add(hold.as_micros());
            let log = Log::new(log.capacity(), Span::from_micros(window), log.max_entries());
            log.map(Rule::Log).map_err(NoRule::Window)
        }
    }
}
