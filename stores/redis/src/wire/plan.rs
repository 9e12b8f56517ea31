//! A revision of a plan, there and back.

use rmpv::Value;
use tidegate_store::core::{Align, Bounds, Log, Payment, Rule, RuleError, Slots, Span, Window};
use tidegate_store::key::MAX_LEVELS;
use tidegate_store::{KeyPath, Plan, PlanLimit, rebuild};

use super::instant;
use super::pack::Pack;
use crate::script;

/// How far above its brim a level may be: what drains in 2^47 microseconds
/// (`core/src/kernel/bucket.rs`).
const DEBT_SPAN_BITS: u32 = 47;

/// What a command is decided by: the plan as the revision of this number.
pub(crate) fn revision(plan: &Plan, number: i64) -> Vec<u8> {
    let mut pack = Pack::default();
    pack.map(7 + counting(plan));
    pack.name("revision").int(number);
    body(plan, false, &mut pack);
    pack.done()
}

/// What the keys of one level have for themselves by `variant`.
pub(crate) fn own(variant: &Plan, level: usize) -> Vec<u8> {
    let mut pack = Pack::default();
    let limits = &variant.limits()[variant.range(level)];
    pack.array(limits.len());
    for (at, limit) in limits.iter().enumerate() {
        put_limit(limit, at + 1, false, &mut pack);
    }
    pack.done()
}

/// The limits of `deciding` that have the capacity of the moment, by their positions from
/// 1 on.
pub(crate) fn moved(plan: &Plan, deciding: &Plan, path: &KeyPath<'_>) -> Vec<u8> {
    let moved: Vec<_> = plan.moved(deciding, path).collect();
    let mut pack = Pack::default();
    pack.map(moved.len());
    for (position, limit) in moved {
        let state_at = position - plan.range(limit.level).start + 1;
        put_limit(limit, state_at, false, pack.int(position as i64 + 1));
    }
    pack.done()
}

/// The plan with the names of its limits: what is kept of it, and compared.
pub(crate) fn content(plan: &Plan) -> Vec<u8> {
    let mut pack = Pack::default();
    pack.map(6 + counting(plan));
    body(plan, true, &mut pack);
    pack.done()
}

/// What is kept of a revision, but for its number and its instant.
pub(crate) fn kept(plan: &Plan, calendars: &[Option<Bounds>]) -> Vec<u8> {
    let mut pack = Pack::default();
    pack.map(8 + counting(plan));
    pack.name("version").int(plan.version() as i64);
    pack.name("calendars");
    put_calendars(calendars, &mut pack);
    body(plan, true, &mut pack);
    pack.done()
}

/// What is kept of a revision of which nothing is known any more: it has no limits.
pub(crate) fn lost(levels: usize) -> Vec<u8> {
    kept(&Plan::new(0, levels, Vec::new(), Span::ZERO), &[])
}

/// `kept` with its number and its instant.
pub(crate) fn entry(kept: &[u8], number: i64, at: i64) -> Vec<u8> {
    with(kept, &[("revision", number), ("at", at)])
}

/// The same in the place of one that was found to be lost at the instant `lost`.
pub(crate) fn stand_in(kept: &[u8], number: i64, at: i64, lost: i64) -> Vec<u8> {
    with(kept, &[("revision", number), ("at", at), ("lost", lost)])
}

fn with(kept: &[u8], more: &[(&str, i64)]) -> Vec<u8> {
    let mut pack = Pack::default();
    // A map of so few pairs begins with one byte that says how many.
    let pairs = usize::from(kept[0] & 0x0f);
    pack.map(more.len() + pairs);
    for &(name, number) in more {
        pack.name(name).int(number);
    }
    [pack.done(), kept[1..].to_vec()].concat()
}

pub(crate) fn put_calendars(calendars: &[Option<Bounds>], pack: &mut Pack) {
    pack.array(calendars.len());
    for calendar in calendars {
        match calendar {
            None => pack.bool(false),
            Some(bounds) => {
                pack.array(3).int(instant(bounds.start));
                pack.int(instant(bounds.end)).int(instant(bounds.next_end))
            }
        };
    }
}

/// How many pairs there are more of a plan that counts usage.
fn counting(plan: &Plan) -> usize {
    usize::from(plan.usage().is_some())
}

fn body(plan: &Plan, named: bool, pack: &mut Pack) {
    let levels = plan.levels();
    pack.name("levels").int(levels as i64);
    pack.name("keep")
        .int(plan.keep().as_micros().min(1 << 53) as i64);
    let refunds = plan.limits().iter().any(|limit| limit.refund_on_expiry);
    pack.name("refunds").bool(refunds);
    pack.name("widths").array(levels);
    for level in 0..levels {
        pack.int(plan.range(level).len() as i64);
    }
    pack.name("starts").array(levels);
    for level in 0..levels {
        pack.int(plan.range(level).start as i64);
    }
    if let Some(keep) = plan.usage() {
        pack.name("usage").array(1 + plan.limits().len());
        pack.int(keep.as_micros().min(1 << 53) as i64);
        for limit in plan.limits() {
            pack.bytes(limit.name.as_bytes());
        }
    }
    pack.name("limits").array(plan.limits().len());
    for (position, limit) in plan.limits().iter().enumerate() {
        let state_at = position - plan.range(limit.level).start + 1;
        put_limit(limit, state_at, named, pack);
    }
}

/// `state_at` is where in its row the limit stands, counted from 1.
fn put_limit(limit: &PlanLimit, state_at: usize, named: bool, pack: &mut Pack) {
    let (kind, numbers) = numbers(&limit.rule);
    pack.map(8 + usize::from(named) + numbers.len());
    if named {
        pack.name("name").bytes(limit.name.as_bytes());
    }
    pack.name("uid").int(i64::from(limit.uid));
    pack.name("level").int(limit.level as i64 + 1);
    pack.name("state_at").int(state_at as i64);
    pack.name("postpaid")
        .bool(limit.payment == Payment::Postpaid);
    pack.name("shadow").bool(limit.shadow);
    pack.name("refund").bool(limit.refund_on_expiry);
    pack.name("kind").int(i64::from(kind));
    pack.name("capacity").int(limit.rule.capacity() as i64);
    for (name, number) in numbers {
        pack.name(name).wide(number);
    }
}

/// What a rule has beside its capacity.
fn numbers(rule: &Rule) -> (u8, Vec<(&'static str, u128)>) {
    let micros = |span: Span| u128::from(span.as_micros());
    let numbers = match rule {
        Rule::Bucket(bucket) => {
            let drain = u128::from(bucket.drain());
            let most = bucket.brim() + (drain << DEBT_SPAN_BITS);
            let weight = u128::from(bucket.weight());
            let brim = ("brim", bucket.brim());
            vec![("drain", drain), ("weight", weight), brim, ("most", most)]
        }
        Rule::Window(window) => match window.align() {
            Align::Epoch(period) => vec![("align", 0), ("period", micros(period))],
            Align::FirstUse(period) => vec![("align", 1), ("period", micros(period))],
            Align::Calendar => vec![("align", 2)],
        },
        Rule::Ring(ring) => {
            let steps = u128::from(ring.steps());
            vec![("step", micros(ring.step())), ("steps", steps)]
        }
        Rule::Log(log) => {
            let entries = u128::from(log.max_entries());
            vec![("window", micros(log.window())), ("entries", entries)]
        }
        Rule::Slots(slots) => vec![("ttl", micros(slots.ttl()))],
    };
    (script::kind(rule), numbers)
}

/// The plan of a revision that was kept; what makes no sense of it, if it cannot
/// be read.
pub(crate) fn read(bytes: &[u8]) -> Result<Plan, &'static str> {
    let revision = rmpv::decode::read_value(&mut &*bytes).map_err(|_| "not MessagePack")?;
    let levels = number(&revision, "levels")? as usize;
    if !(1..=MAX_LEVELS).contains(&levels) {
        return Err("levels");
    }
    let limits = field(&revision, "limits")?.as_array().ok_or("limits")?;
    let limits: Result<_, _> = limits
        .iter()
        .map(|limit| read_limit(limit, levels))
        .collect();
    let keep = Span::from_micros(number(&revision, "keep")?);
    let plan = Plan::new(number(&revision, "version")?, levels, limits?, keep);
    let usage = match field(&revision, "usage") {
        Err(_) => None,
        Ok(usage) => {
            let keep = usage.as_array().and_then(|usage| usage.first()?.as_u64());
            Some(Span::from_micros(keep.ok_or("usage")?))
        }
    };
    Ok(plan.counting_usage(usage))
}

fn read_limit(limit: &Value, levels: usize) -> Result<PlanLimit, &'static str> {
    let level = (number(limit, "level")? as usize).wrapping_sub(1);
    if level >= levels {
        return Err("level");
    }
    Ok(PlanLimit {
        name: field(limit, "name")?.as_str().ok_or("name")?.into(),
        uid: number(limit, "uid")? as u32,
        rule: read_rule(limit)?.map_err(|_| "rule")?,
        level,
        payment: match truth(limit, "postpaid")? {
            true => Payment::Postpaid,
            false => Payment::Prepaid,
        },
        shadow: truth(limit, "shadow")?,
        refund_on_expiry: truth(limit, "refund")?,
        adaptive: None,
    })
}

fn read_rule(limit: &Value) -> Result<Result<Rule, RuleError>, &'static str> {
    let get = |name| number(limit, name);
    let span = |name| get(name).map(Span::from_micros);
    let capacity = get("capacity")?;
    Ok(match get("kind")? {
        1 => rebuild::bucket(get("drain")?, get("weight")?, capacity).map(Rule::Bucket),
        2 => {
            let align = match get("align")? {
                0 => Align::Epoch(span("period")?),
                1 => Align::FirstUse(span("period")?),
                _ => Align::Calendar,
            };
            Window::new(capacity, align).map(Rule::Window)
        }
        3 => rebuild::ring(capacity, span("step")?, get("steps")? as u32).map(Rule::Ring),
        4 => Log::new(capacity, span("window")?, get("entries")? as u32).map(Rule::Log),
        5 => Slots::new(capacity, span("ttl")?).map(Rule::Slots),
        _ => return Err("kind"),
    })
}

fn field<'v>(map: &'v Value, name: &'static str) -> Result<&'v Value, &'static str> {
    let mut pairs = map.as_map().ok_or(name)?.iter();
    let pair = pairs.find(|(key, _)| key.as_str() == Some(name));
    pair.map(|(_, value)| value).ok_or(name)
}

fn number(map: &Value, name: &'static str) -> Result<u64, &'static str> {
    field(map, name)?.as_u64().ok_or(name)
}

fn truth(map: &Value, name: &'static str) -> Result<bool, &'static str> {
    field(map, name)?.as_bool().ok_or(name)
}
