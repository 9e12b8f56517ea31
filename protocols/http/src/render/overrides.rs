//! Limits in place of what the policies say.

use serde::{Serialize, Serializer};
use tidegate::{Limit, Page, Unit};
use tidegate_service::{Placed, Setting, settings_of};

use super::listing::{Name, cursor};
use crate::parse::amount::InUnit;

#[derive(Serialize)]
pub(crate) struct Overrides<'a> {
    overrides: Vec<Shown<'a>>,
    cursor: Option<String>,
}

impl<'a> From<&'a Page<Placed>> for Overrides<'a> {
    fn from(page: &'a Page<Placed>) -> Self {
        Self {
            overrides: page.items.iter().map(Shown::from).collect(),
            cursor: cursor(page),
        }
    }
}

/// The one of exactly one place, as a page.
impl<'a> From<&'a Option<Placed>> for Overrides<'a> {
    fn from(placed: &'a Option<Placed>) -> Self {
        Self {
            overrides: placed.iter().map(Shown::from).collect(),
            cursor: None,
        }
    }
}

#[derive(Serialize)]
pub(crate) struct Shown<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'a str>,
    #[serde(flatten)]
    key: Option<Name<'a>>,
    level: &'static str,
    limits: Limits<'a>,
    inert: &'a [String],
}

impl<'a> From<&'a Placed> for Shown<'a> {
    fn from(placed: &'a Placed) -> Self {
        Self {
            policy: placed.place.resource.as_deref(),
            key: placed.place.entity.as_deref().map(Name::from),
            level: placed.place.level().name(),
            limits: Limits(&placed.limits),
            inert: &placed.inert,
        }
    }
}

/// Limits as requests have them.
struct Limits<'a>(&'a [Limit]);

struct Fields<'a>(&'a Limit);

struct SettingBody(Unit, Setting);

impl Serialize for Limits<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let limits = self.0.iter();
        serializer.collect_map(limits.map(|limit| (limit.name(), Fields(limit))))
    }
}

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = settings_of(self.0).into_iter();
        serializer.collect_map(
            fields.map(|(field, setting)| (field, SettingBody(self.0.amounts(), setting))),
        )
    }
}

impl Serialize for SettingBody {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.1 {
            Setting::Integer(number) => serializer.serialize_u64(*number),
            Setting::Units(amount) => InUnit(self.0, *amount).serialize(serializer),
            Setting::Text(text) => serializer.serialize_str(text),
            Setting::Flag(flag) => serializer.serialize_bool(*flag),
        }
    }
}
