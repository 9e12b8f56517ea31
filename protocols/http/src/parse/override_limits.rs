//! Limits in JSON, as a policy's file writes them:
//! `{"rpm": {"calls": 100, "per": "1m"}}`.
//!
//! A name that comes twice comes twice here, too: the service says so, with all
//! else that is wrong.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::json;
use tidegate::MAX_AMOUNT;
use tidegate_service::bounds::MOST_LIMITS;
use tidegate_service::{GivenLimit, Setting};

use crate::parse::amount::DECIMAL;

/// Limits, each under its name with its fields, as they were written.
#[derive(JsonSchema)]
#[schemars(inline, extend("minProperties" = 1, "maxProperties" = MOST_LIMITS))]
pub(crate) struct OverrideLimits(
    #[schemars(with = "BTreeMap<String, OverrideLimit>")] pub(crate) Vec<GivenLimit>,
);

/// One of them, for the document.
pub(crate) struct OverrideLimit;

impl JsonSchema for OverrideLimit {
    fn schema_name() -> Cow<'static, str> {
        "OverrideLimit".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let whole = |about| json!({"type": "integer", "minimum": 1, "maximum": MAX_AMOUNT, "description": about});
        let amount = |about| {
            let about = format!("{about} Of a limit with a `unit`, a decimal in quotes.");
            json!({
                "type": ["integer", "string"],
                "minimum": 1,
                "maximum": MAX_AMOUNT,
                "pattern": DECIMAL,
                "description": about,
            })
        };
        json_schema!({
            "type": "object",
            "description": "What a limit becomes, as a policy's file writes it. Its word \
                (`calls`, `rate`, `budget`, `concurrency`) is that of the policy's limit.",
            "properties": {
                "calls": whole("So many calls `per` time."),
                "rate": amount("So much `per` time."),
                "budget": amount("So much in each window of `per`."),
                "concurrency": whole("So many held at once."),
                "per": {
                    "type": "string",
                    "description": "A length of time, or a calendar's `day`, `week` or `month`, \
                        as the policy has it.",
                    "examples": ["1m"],
                },
                "zone": {
                    "type": "string",
                    "description": "The time zone of a calendar's `per`, as the policy has it.",
                    "examples": ["Europe/Berlin"],
                },
                "burst": amount("The most at once, where it is not the amount itself."),
                "ttl": {
                    "type": "string",
                    "description": "How long slots are held unless renewed.",
                    "examples": ["30s"],
                },
                "algorithm": {
                    "type": "string",
                    "description": "As the policy has it; it may be left out.",
                },
                "sub_windows": whole("How finely a sliding window counts."),
                "max_entries": whole("How many entries a sliding log keeps."),
                "added": {
                    "type": "boolean",
                    "description": "Only this key has the limit: the policy has none of that \
                        name, and all of it is said here. Of a key in a policy alone.",
                },
                "unit": {
                    "type": "string",
                    "pattern": r"^(1|0\.0{0,8}1)$",
                    "description": "The limit's unit, as the policy has it; it may be left out.",
                },
            },
            "oneOf": [
                {"required": ["calls", "per"]},
                {"required": ["rate", "per"]},
                {"required": ["budget", "per"]},
                {"required": ["concurrency"]},
            ],
            "additionalProperties": false,
            "examples": [{"rate": 12000, "per": "1m", "burst": 18000}],
        })
    }
}

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
        f.write_str("a whole number above 0, or a string such as \"1m\"")
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

#[cfg(test)]
mod tests {
    use tidegate_service::read_limits;

    use super::*;

    /// A setting that nobody knows is answered with those that there are.
    #[test]
    fn the_document_has_each_setting_of_an_override_and_no_other() {
        let nonsense = ("nonsense".to_owned(), Setting::Integer(1));
        let calls = ("calls".to_owned(), Setting::Integer(1));
        let faults = read_limits(&[("rpm".to_owned(), vec![calls, nonsense])]).unwrap_err();
        let fault = faults
            .iter()
            .find(|fault| fault.message.contains("nonsense"));
        let mut known: Vec<_> = fault.unwrap().help.split('`').skip(1).step_by(2).collect();
        let fixed = ["learnt", "level", "on_failure", "postpaid", "shadow"];
        known.retain(|name| !fixed.contains(name));
        // No policy has it: the service reads it.
        known.push("added");
        known.sort_unstable();
        let schema = OverrideLimit::json_schema(&mut SchemaGenerator::default());
        let mut said: Vec<_> = schema
            .get("properties")
            .unwrap()
            .as_object()
            .unwrap()
            .keys()
            .collect();
        said.sort_unstable();
        assert_eq!(said, known);
    }
}
