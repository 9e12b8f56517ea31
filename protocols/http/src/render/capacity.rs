//! What keys come to.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::json;
use tidegate::{Page, Unit};
use tidegate_service::{ActivePolicy, LimitCapacity};

use super::listing::cursor;
use crate::parse::amount::InUnit;

/// What a page of keys comes to.
#[derive(Serialize, JsonSchema)]
#[schemars(example = json!({
    "keys": 2, "cursor": null, "limits": {
        "tpm": {"level": "user", "keys": 2, "capacity": 24000, "available": 21500, "debt": 0}
    }
}))]
pub(crate) struct Capacity<'a> {
    /// How many keys were looked at.
    keys: u64,
    /// What each limit comes to, by name.
    #[schemars(with = "BTreeMap<String, OfLimit<'a>>")]
    limits: Limits<'a>,
    /// Where the next page goes on; null if this is the last.
    cursor: Option<String>,
}

/// What one limit comes to, over the keys of its level.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LimitCapacity")]
struct OfLimit<'a> {
    /// The level of keys that it is about; missing where levels have no names.
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<&'a str>,
    /// How many keys are added up.
    keys: u64,
    /// The most that could ever be granted at once. Of a limit with a `unit`, a decimal in
    /// quotes.
    #[schemars(transform = super::answer::without_maximum)]
    capacity: InUnit,
    /// What could be granted now. Of a limit with a `unit`, a decimal in quotes.
    #[schemars(transform = super::answer::without_maximum)]
    available: InUnit,
    /// What was used beyond the limit and is not yet paid back. Of a limit with a `unit`, a
    /// decimal in quotes.
    #[schemars(transform = super::answer::without_maximum)]
    debt: InUnit,
}

struct Limits<'a>(&'a ActivePolicy, &'a [LimitCapacity]);

impl<'a> Capacity<'a> {
    pub(crate) fn of(active: &'a ActivePolicy, page: &'a Page<tidegate_service::Capacity>) -> Self {
        let sum = page.items.first();
        Self {
            keys: sum.map_or(0, |sum| sum.keys),
            limits: Limits(active, sum.map_or(&[], |sum| &sum.limits)),
            cursor: cursor(page),
        }
    }
}

impl<'a> OfLimit<'a> {
    fn of(unit: Unit, sum: &'a LimitCapacity) -> Self {
        Self {
            level: sum.level.as_deref(),
            keys: sum.keys,
            capacity: InUnit(unit, sum.capacity),
            available: InUnit(unit, sum.available),
            debt: InUnit(unit, sum.debt),
        }
    }
}

impl Serialize for Limits<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(active, limits) = self;
        let shown = limits.iter().map(|sum| {
            let unit = active.unit(&sum.limit);
            (&sum.limit, OfLimit::of(unit, sum))
        });
        serializer.collect_map(shown)
    }
}
