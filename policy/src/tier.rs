//! Counts near the caller, as a policy says them.

use tidegate::internal::LimitInternals;
use tidegate::{Limit, MAX_AMOUNT, Tier, TierError};

use super::fault::Faults;
use super::fields::{Field, Fields};
use super::suggest::write_instead;
use super::tree::Value;

const SETTINGS: [&str; 7] = [
    "mode",
    "batch",
    "outstanding",
    "exact",
    "hold",
    "low_water",
    "idle",
];

const EXAMPLE: &str = "`tier = { mode = \"leased\", batch = 100 }`";

/// The tier of a policy with these limits, whose keys have these levels, if it has one.
pub(super) fn read(
    fields: &mut Fields<'_>,
    (limits, levels): (&[Limit], &[String]),
    is_pool: bool,
    faults: &mut Faults<'_>,
) -> Option<Tier> {
    let field = fields.take("tier")?;
    let mut settings = field.table(EXAMPLE, faults)?;
    if is_pool {
        let help = "take it out: a pool asks its members one after the other";
        faults.add(&field.key_span, "a pool has no tier", help);
    }
    let mode = settings.take("mode");
    if mode.is_none() {
        missing(&field, "mode", faults);
    }
    let modes = [("leased", Mode::Leased), ("refusals", Mode::Refusals)];
    let mode = mode.and_then(|mode| mode.word(&modes, faults));
    let mut tier = match mode {
        Some(Mode::Refusals) => Some(refusals(&mut settings, faults)),
        Some(Mode::Leased) => leased(&field, &mut settings, (limits, levels), faults),
        None => None,
    };
    if let Some(field) = settings.take("idle")
        && let Some(idle) = field.duration(Tier::TIMES, faults)
    {
        tier = tier.map(|tier| tier.idle(idle));
    }
    if mode.is_some() {
        settings.finish("a tier", &SETTINGS, faults);
    }
    tier
}

#[derive(Clone, Copy)]
enum Mode {
    Leased,
    Refusals,
}

/// Refusals are remembered, and nothing else is.
fn refusals(settings: &mut Fields<'_>, faults: &mut Faults<'_>) -> Tier {
    for name in ["batch", "outstanding", "exact", "hold", "low_water"] {
        if let Some(field) = settings.take(name) {
            let message = format!("`{name}` is for a tier whose `mode` is `leased`");
            let help = "take it out: a tier that remembers refusals takes nothing in advance";
            faults.add(&field.key_span, message, help);
        }
    }
    Tier::refusals()
}

/// Units are taken in advance.
fn leased(
    field: &Field<'_>,
    settings: &mut Fields<'_>,
    (limits, levels): (&[Limit], &[String]),
    faults: &mut Faults<'_>,
) -> Option<Tier> {
    check_limits(field, limits, faults);
    let batch = settings.take("batch");
    if batch.is_none() {
        missing(field, "batch", faults);
    }
    let tier = batch.and_then(|batch| batches(&batch, limits, faults));
    let outstanding = settings.take("outstanding");
    let bounds = outstanding.and_then(|field| units_of(&field, limits, faults));
    let exact = settings.take("exact");
    let is_exact = exact.as_ref().and_then(|field| field.flag(faults));
    let hold = settings.take("hold");
    let hold = hold.and_then(|field| field.duration(Tier::TIMES, faults));
    let low_water = settings.take("low_water");
    let low_water = low_water.and_then(|field| field.integer(0..=100, faults));
    let mut tier = tier?;
    tier = match bounds {
        None => tier,
        Some(Units::OfAll(units)) => tier.outstanding(units),
        Some(Units::OfSome(units)) => units
            .into_iter()
            .fold(tier, |tier, (name, units)| tier.outstanding_of(name, units)),
    };
    if let Some(hold) = hold {
        tier = tier.hold(hold);
    }
    if let Some(hundredths) = low_water.and_then(|number| u8::try_from(number).ok()) {
        tier = tier.low_water(hundredths);
    }
    if let (Some(exact), Some(true)) = (exact, is_exact) {
        tier = tier.exact();
        check_exact(&exact, &tier, (limits, levels), faults);
    }
    Some(tier)
}

/// A limit of which what may be out leaves nothing.
fn check_exact(
    field: &Field<'_>,
    tier: &Tier,
    (limits, levels): (&[Limit], &[String]),
    faults: &mut Faults<'_>,
) {
    for limit in limits {
        let (message, help) = match limit.check_in(levels, tier) {
            Err(TierError::NoBurst { limit, burst, out }) => (
                format!(
                    "`exact` leaves `{limit}` nothing: its burst is {burst}, of which {out} may be out"
                ),
                "raise its `burst`, or lower `outstanding` or `hold`",
            ),
            Err(error) => (error.to_string(), "shorten `hold`, or take `exact` out"),
            Ok(()) => continue,
        };
        faults.add(&field.key_span, message, help);
    }
}

fn missing(field: &Field<'_>, name: &str, faults: &mut Faults<'_>) {
    let message = format!("`{name}` is missing");
    faults.add(&field.key_span, message, format!("write {EXAMPLE}"));
}

/// A mutex: a concurrency of one.
fn check_limits(field: &Field<'_>, limits: &[Limit], faults: &mut Faults<'_>) {
    let mut held = limits.iter().filter(|limit| limit.is_concurrency());
    if let Some(mutex) = held.find(|limit| limit.at_most() == 1) {
        let message = format!(
            "a tier cannot lease `{}`, which is a mutex: its holder needs a fence",
            mutex.name()
        );
        let help = "take `tier` out, or move that limit into a policy of its own";
        faults.add(&field.key_span, message, help);
    }
}

/// One batch for all limits, or one for each by its name.
fn batches(field: &Field<'_>, limits: &[Limit], faults: &mut Faults<'_>) -> Option<Tier> {
    Some(match units_of(field, limits, faults)? {
        Units::OfAll(units) => Tier::leased(units),
        Units::OfSome(units) => units
            .into_iter()
            .fold(Tier::leased(1), |tier, (name, units)| {
                tier.batch_of(name, units)
            }),
    })
}

/// So many units of limits.
enum Units<'a> {
    OfAll(u64),
    OfSome(Vec<(&'a str, u64)>),
}

/// So many units of each limit, or of each that is named.
fn units_of<'a>(field: &Field<'a>, limits: &[Limit], faults: &mut Faults<'_>) -> Option<Units<'a>> {
    if !matches!(field.node().value, Value::Table(_)) {
        return Some(Units::OfAll(field.integer(1..=MAX_AMOUNT, faults)?));
    }
    let names: Vec<&str> = limits.iter().map(Limit::name).collect();
    let mut all = Vec::new();
    for one in field.table(EXAMPLE, faults)?.into_all() {
        if !names.contains(&one.name) {
            let message = format!("there is no limit `{}`", one.name);
            faults.add(&one.key_span, message, write_instead(one.name, &names));
        }
        if let Some(units) = one.integer(1..=MAX_AMOUNT, faults) {
            all.push((one.name, units));
        }
    }
    Some(Units::OfSome(all))
}
