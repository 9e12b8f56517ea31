//! Plans that count what is used, and what is listed of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_core::{Align, Amount, Rule, Span, Window};
use tidegate_store::{
    Detail, Hour, Hours, OwnedKey, Plan, PlanLimit, Select, StoreError, Usage, Verb,
};

use super::fixture::{Fixture, rate, table_name};
use crate::fixture::{KEEP, SECOND, limit};
use crate::subject::{Skipped, Subject};
use crate::table_ext::{TableExt, every_item};

pub(super) const HOUR: i64 = 3_600 * SECOND as i64;

/// For how long these plans keep usage, unless a check says otherwise.
pub(super) const KEPT: Span = Span::from_secs(400 * 86_400);

/// As good as no limit: a year's, from the first use on.
pub(super) fn ample() -> Rule {
    let align = Align::FirstUse(Span::from_secs(365 * 86_400));
    Rule::Window(Window::new(1 << 50, align).expect("a sound budget"))
}

/// A plan of these limits that counts usage.
pub(super) fn counting(version: u64, levels: usize, limits: Vec<PlanLimit>) -> Arc<Plan> {
    let plan = Plan::new(version, levels, limits, KEEP).counting_usage(Some(KEPT));
    Arc::new(plan)
}

/// Two limits, ample and named so, on one level.
pub(super) fn tokens_and_calls() -> Vec<PlanLimit> {
    vec![
        limit("tokens", 0, 0, ample()),
        limit("calls", 1, 0, ample()),
    ]
}

/// The same as buckets: what most stores have a way of its own for.
pub(super) fn buckets_of_tokens_and_calls() -> Vec<PlanLimit> {
    let mut limits = tokens_and_calls();
    for limit in &mut limits {
        limit.rule = rate(1_000, 1 << 40);
    }
    limits
}

pub(super) fn needs_counting(subject: &Subject) -> Result<(), Skipped> {
    match subject.abilities().counts_usage {
        true => Ok(()),
        false => Err("it does not count usage"),
    }
}

/// A table of the subject's by a plan that counts usage.
pub(super) fn counted(
    subject: &Subject,
    levels: usize,
    limits: Vec<PlanLimit>,
) -> Result<Fixture, Skipped> {
    needs_counting(subject)?;
    let plan = counting(0, levels, limits);
    Ok(Fixture::remembering(&*subject.fresh(), &table_name(), plan))
}

/// All of these records, in pages of `most`.
pub(super) fn usage(
    fixture: &Fixture,
    select: Select<'_>,
    hours: Hours,
    most: usize,
) -> Vec<Usage> {
    let list = |after: Option<&[u8]>| {
        let listing = fixture.listing(select, most, after);
        fixture.table.list_usage(&listing, hours)
    };
    let mut items = every_item(most, list, |_| ()).expect("a page");
    items.sort_unstable();
    items
}

/// What there is of each row and limit, over all hours.
pub(super) fn sums(fixture: &Fixture) -> BTreeMap<(OwnedKey, Arc<str>), u64> {
    let mut sums = BTreeMap::new();
    for used in usage(fixture, Select::All, Hours::ALL, 50) {
        *sums.entry((used.key, used.limit)).or_default() += used.amount;
    }
    sums
}

/// The same in words: `key limit amount, ...`.
pub(super) fn in_all(fixture: &Fixture) -> String {
    let sums = sums(fixture).into_iter();
    let words = sums.map(|((key, limit), amount)| format!("{} {limit} {amount}", text(&key)));
    words.collect::<Vec<_>>().join(", ")
}

/// Of one limit in the hours from the checks' first on: `hour:amount ...`.
pub(super) fn by_hour(fixture: &Fixture, key: &[u8], of: &str) -> String {
    let first = Hour::of(tidegate_core::Timestamp::from_micros(super::fixture::START));
    let items = usage(fixture, Select::Key(key), Hours::ALL, 3).into_iter();
    let items = items.filter(|used| &*used.limit == of);
    let words = items.map(|used| {
        let hour = used.hour.number() - first.number();
        format!("{hour}:{}", used.amount)
    });
    words.collect::<Vec<_>>().join(" ")
}

pub(super) fn text(key: &OwnedKey) -> String {
    String::from_utf8_lossy(key.bytes()).into_owned()
}

pub(super) fn adjust(
    fixture: &Fixture,
    key: &[u8],
    id: u128,
    to: &[Option<Amount>],
    overdraw: bool,
) -> Result<bool, StoreError> {
    let verb = Verb::Adjust {
        id,
        to,
        overdraw,
        detail: Detail::Verdict,
    };
    Ok(fixture.decide(key, verb)?.verdict.admitted())
}
