//! Counts near the caller, as a policy says them.

use std::time::Duration;

use tidegate::{Limit, MAX_AMOUNT, Tier};

use super::fault::Faults;
use super::fields::{Field, Fields};
use super::suggest::write_instead;
use super::tree::Value;

const SETTINGS: [&str; 5] = ["mode", "batch", "hold", "low_water", "idle"];

const EXAMPLE: &str = "`tier = { mode = \"leased\", batch = 100 }`";

const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(60);

/// The tier of a policy with these limits, if it has one.
pub(super) fn read(
    fields: &mut Fields<'_>,
    limits: &[Limit],
    is_pool: bool,
    faults: &mut Faults<'_>,
) -> Option<Tier> {
    let field = fields.take("tier")?;
    let mut settings = field.table(EXAMPLE, faults)?;
    if is_pool {
        let help = "take it out: a pool asks its members one after the other";
        faults.add(&field.key_span, "a pool has no tier", help);
    }
    check_limits(&field, limits, faults);
    let mode = settings.take("mode");
    if mode.is_none() {
        faults.add(
            &field.key_span,
            "`mode` is missing",
            format!("write {EXAMPLE}"),
        );
    }
    let _ = mode.and_then(|mode| mode.word(&[("leased", ())], faults));
    let batch = settings.take("batch");
    let tier = match &batch {
        Some(batch) => batches(batch, limits, faults),
        None => {
            faults.add(
                &field.key_span,
                "`batch` is missing",
                format!("write {EXAMPLE}"),
            );
            None
        }
    };
    let hold = duration(&mut settings, "hold", faults);
    let idle = duration(&mut settings, "idle", faults);
    let low_water = settings.take("low_water");
    let low_water = low_water.and_then(|field| field.integer(0..=100, faults));
    settings.finish("a tier", &SETTINGS, faults);
    let mut tier = tier?;
    if let Some(hold) = hold {
        tier = tier.hold(hold);
    }
    if let Some(idle) = idle {
        tier = tier.idle(idle);
    }
    if let Some(hundredths) = low_water.and_then(|number| u8::try_from(number).ok()) {
        tier = tier.low_water(hundredths);
    }
    Some(tier)
}

/// A limit of which nothing can be taken in advance.
fn check_limits(field: &Field<'_>, limits: &[Limit], faults: &mut Faults<'_>) {
    if let Some(held) = limits.iter().find(|limit| limit.is_concurrency()) {
        let message = format!(
            "a tier cannot lease `{}`, which is a concurrency limit",
            held.name()
        );
        let help = "take `tier` out, or move that limit into a policy of its own";
        faults.add(&field.key_span, message, help);
    }
}

/// One batch for all limits, or one for each by its name.
fn batches(field: &Field<'_>, limits: &[Limit], faults: &mut Faults<'_>) -> Option<Tier> {
    if !matches!(field.node().value, Value::Table(_)) {
        return Some(Tier::leased(field.integer(1..=MAX_AMOUNT, faults)?));
    }
    let names: Vec<&str> = limits.iter().map(Limit::name).collect();
    let mut tier = Tier::leased(1);
    for batch in field.table(EXAMPLE, faults)?.into_all() {
        if !names.contains(&batch.name) {
            let message = format!("there is no limit `{}`", batch.name);
            faults.add(&batch.key_span, message, write_instead(batch.name, &names));
        }
        if let Some(units) = batch.integer(1..=MAX_AMOUNT, faults) {
            tier = tier.batch_of(batch.name, units);
        }
    }
    Some(tier)
}

fn duration(settings: &mut Fields<'_>, name: &str, faults: &mut Faults<'_>) -> Option<Duration> {
    let field = settings.take(name)?;
    let help = "write 10ms to 60s";
    let text = field.text("1s", faults)?;
    match super::span::parse_duration(text) {
        Ok(length) if (SHORTEST..=LONGEST).contains(&length) => Some(length),
        Ok(_) => {
            let message = format!("`{name}` is {text}, which is out of range");
            faults.add(&field.span, message, help);
            None
        }
        Err(error) => {
            let message = format!("`{text}` is not a length of time");
            faults.add(&field.span, message, error.to_string());
            None
        }
    }
}
