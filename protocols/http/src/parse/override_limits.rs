//! Limits in JSON, as a policy's file writes them:
//! `{"rpm": {"calls": 100, "per": "1m"}}`.
//!
//! A name that comes twice comes twice here, too: the service says so, with all
//! else that is wrong.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use tidegate_service::{GivenLimit, Setting};

/// Limits, each under its name with its fields, as they were written.
pub(crate) struct OverrideLimits(pub(crate) Vec<GivenLimit>);

impl<'de> Deserialize<'de> for OverrideLimits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let limits = deserializer.deserialize_map(ByName)?;
        Ok(Self(limits))
    }
}

struct ByName;

impl<'de> Visitor<'de> for ByName {
    type Value = Vec<GivenLimit>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("limits by name, such as {\"rpm\": {\"calls\": 100, \"per\": \"1m\"}}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut limits = Vec::new();
        while let Some((name, Fields(fields))) = map.next_entry()? {
            limits.push((name, fields));
        }
        Ok(limits)
    }
}

struct Fields(Vec<(String, Setting)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ByField)
    }
}

struct ByField;

impl<'de> Visitor<'de> for ByField {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a limit as a policy's file has it, such as {\"calls\": 100, \"per\": \"1m\"}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields = Vec::new();
        while let Some((field, SettingBody(setting))) = map.next_entry()? {
            fields.push((field, setting));
        }
        Ok(Fields(fields))
    }
}

struct SettingBody(Setting);

impl<'de> Deserialize<'de> for SettingBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneSetting)
    }
}

struct OneSetting;

impl Visitor<'_> for OneSetting {
    type Value = SettingBody;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number above 0, or a text such as \"1m\"")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<SettingBody, E> {
        Ok(SettingBody(Setting::Integer(number)))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<SettingBody, E> {
        Ok(SettingBody(Setting::Text(text.to_owned())))
    }

    fn visit_bool<E: de::Error>(self, flag: bool) -> Result<SettingBody, E> {
        Ok(SettingBody(Setting::Flag(flag)))
    }
}
