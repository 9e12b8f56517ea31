//! A plan in numbers, there and back: `tidegate.rule` says which are which.

use tidegate_store::core::{Align, Bounds, Log, Payment, Rule, RuleError, Slots, Span, Window};
use tidegate_store::key::MAX_LEVELS;
use tidegate_store::{KeyPath, Plan, PlanLimit, StoreError, rebuild};

use crate::error::garbled;

/// How many numbers a limit has.
const WIDTH: usize = 16;

/// How far above its brim a level may be: what drains in 2^47 microseconds
/// (`core/src/kernel/bucket.rs`).
pub(crate) const DEBT_SPAN_BITS: u32 = 47;

type Numbers = [u128; WIDTH];

/// The numbers of all limits, as an array's text.
pub(crate) fn numbers(plan: &Plan) -> String {
    let all = plan.limits().iter().flat_map(limit_numbers);
    let words: Vec<String> = all.map(|number| number.to_string()).collect();
    format!("{{{}}}", words.join(","))
}

/// A span in microseconds, as the schema has it.
pub(crate) fn micros(span: Span) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

pub(crate) fn names(plan: &Plan) -> Vec<&str> {
    plan.limits().iter().map(|limit| &*limit.name).collect()
}

/// Which levels of `path` have limits of their own.
pub(crate) fn own_levels(plan: &Plan, path: &KeyPath<'_>) -> Vec<bool> {
    let own = |level| plan.own_limits(path, level).is_some();
    (0..path.depth()).map(own).collect()
}

/// Three instants for each limit, or nothing at all.
pub(crate) fn calendars(calendars: &[Option<Bounds>]) -> Vec<Option<i64>> {
    if calendars.iter().all(Option::is_none) {
        return Vec::new();
    }
    let three = |bounds: &Option<Bounds>| match bounds {
        None => [None; 3],
        Some(bounds) => [bounds.start, bounds.end, bounds.next_end].map(|at| Some(at.as_micros())),
    };
    calendars.iter().flat_map(three).collect()
}

fn limit_numbers(limit: &PlanLimit) -> Numbers {
    let (kind, kernel) = rule_numbers(&limit.rule);
    let [
        drain,
        weight,
        brim,
        most,
        align,
        period,
        step,
        steps,
        entries,
    ] = kernel;
    let flag = |truth| u128::from(u8::from(truth));
    [
        u128::from(limit.uid),
        limit.level as u128 + 1,
        kind,
        flag(limit.payment == Payment::Postpaid),
        flag(limit.shadow),
        flag(limit.refund_on_expiry),
        u128::from(limit.rule.capacity()),
        drain,
        weight,
        brim,
        most,
        align,
        period,
        step,
        steps,
        entries,
    ]
}

/// The kind, then what the kernel has beside its capacity.
fn rule_numbers(rule: &Rule) -> (u128, [u128; 9]) {
    let micros = |span: Span| u128::from(span.as_micros());
    let mut numbers = [0; 9];
    let kind = match rule {
        Rule::Bucket(bucket) => {
            let drain = u128::from(bucket.drain());
            let most = bucket.brim() + (drain << DEBT_SPAN_BITS);
            let weight = u128::from(bucket.weight());
            numbers[..4].copy_from_slice(&[drain, weight, bucket.brim(), most]);
            1
        }
        Rule::Window(window) => {
            let (align, period) = match window.align() {
                Align::Epoch(period) => (0, micros(period)),
                Align::FirstUse(period) => (1, micros(period)),
                Align::Calendar => (2, 0),
            };
            numbers[4..6].copy_from_slice(&[align, period]);
            2
        }
        Rule::Ring(ring) => {
            numbers[6..8].copy_from_slice(&[micros(ring.step()), u128::from(ring.steps())]);
            3
        }
        Rule::Log(log) => {
            (numbers[5], numbers[8]) = (micros(log.window()), u128::from(log.max_entries()));
            4
        }
        Rule::Slots(slots) => {
            numbers[5] = micros(slots.ttl());
            5
        }
    };
    (kind, numbers)
}

/// The plan that was kept: its numbers as an array's text.
pub(crate) fn read(
    version: &str,
    levels: i32,
    keep: &str,
    names: &[String],
    numbers: &str,
    usage: Option<&str>,
) -> Result<Plan, StoreError> {
    let levels = usize::try_from(levels).unwrap_or(0);
    if !(1..=MAX_LEVELS).contains(&levels) {
        return Err(garbled("levels"));
    }
    let numbers: Result<Vec<u64>, _> = numbers
        .split(',')
        .filter(|word| !word.is_empty())
        .map(|word| word.parse::<u128>().map(|wide| wide as u64))
        .collect();
    let numbers = numbers.map_err(|_| garbled("a number"))?;
    let limits = names.iter().zip(numbers.chunks(WIDTH));
    let limits: Result<_, _> = limits
        .map(|(name, numbers)| read_limit(name, numbers, levels).ok_or_else(|| garbled("a limit")))
        .collect();
    let version = version.parse().map_err(|_| garbled("version"))?;
    let keep = keep.parse().map_err(|_| garbled("keep"))?;
    let usage = usage.map(|keep| keep.parse().map_err(|_| garbled("usage")));
    let usage = usage.transpose()?.map(Span::from_micros);
    let plan = Plan::new(version, levels, limits?, Span::from_micros(keep));
    Ok(plan.counting_usage(usage))
}

fn read_limit(name: &str, numbers: &[u64], levels: usize) -> Option<PlanLimit> {
    let [uid, level, _, postpaid, shadow, refund, ..] = *numbers else {
        return None;
    };
    let level = (level as usize)
        .checked_sub(1)
        .filter(|&level| level < levels)?;
    Some(PlanLimit {
        name: name.into(),
        uid: u32::try_from(uid).ok()?,
        rule: read_rule(numbers)?.ok()?,
        level,
        payment: match postpaid {
            0 => Payment::Prepaid,
            _ => Payment::Postpaid,
        },
        shadow: shadow != 0,
        refund_on_expiry: refund != 0,
        adaptive: None,
    })
}

fn read_rule(numbers: &[u64]) -> Option<Result<Rule, RuleError>> {
    let &[
        _,
        _,
        kind,
        _,
        _,
        _,
        capacity,
        drain,
        weight,
        _,
        _,
        align,
        period,
        step,
        steps,
        entries,
    ] = numbers
    else {
        return None;
    };
    let period = Span::from_micros(period);
    Some(match kind {
        1 => rebuild::bucket(drain, weight, capacity).map(Rule::Bucket),
        2 => {
            let align = match align {
                0 => Align::Epoch(period),
                1 => Align::FirstUse(period),
                _ => Align::Calendar,
            };
            Window::new(capacity, align).map(Rule::Window)
        }
        3 => rebuild::ring(capacity, Span::from_micros(step), steps as u32).map(Rule::Ring),
        4 => Log::new(capacity, period, entries as u32).map(Rule::Log),
        5 => Slots::new(capacity, period).map(Rule::Slots),
        _ => return None,
    })
}
