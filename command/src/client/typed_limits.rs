//! Limits as they are typed: `rpm=calls:100/1m`, or as a policy's file has
//! them, or only so much: `rpm=100`.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::str::FromStr;

use serde_json::{Map, Value, json};
use tidegate_client::Quantity;
use tidegate_client::internal::whole;
use toml::de::{DeTable, DeValue};

use super::exit::{Outcome, Stop};

/// The words that a limit can begin with.
pub const WORDS: [&str; 4] = ["calls", "rate", "budget", "concurrency"];

const HELP: &str = "write NAME=WORD:AMOUNT/PER, such as rpm=calls:100/1m, slots=concurrency:8 or \
                    daily=budget:5000/day,zone:UTC; or NAME=AMOUNT for the rest as in the policy";

/// The same, for a store that no policy's limits are asked of.
const HELP_AT_STORE: &str = "write NAME=SLOTS, such as gpu=2; or NAME=WORD:AMOUNT/PER, such as \
                             rpm=calls:100/1m or daily=budget:5000/day,zone:UTC";

/// A limit that was typed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Typed {
    /// Its name.
    pub name: String,
    form: Form,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Form {
    /// Everything.
    Whole(Map<String, Value>),
    /// How much, perhaps in how much time: the rest is the policy's.
    Amount(Quantity, Option<String>),
}

impl FromStr for Typed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::read(text).map_err(|wrong| wrong.tell(HELP))
    }
}

/// Why a text is no limit.
enum Wrong {
    /// It has none of the forms that there are.
    Form,
    /// This is wrong with it.
    Part(String),
}

impl Wrong {
    /// What to tell, where `forms` says which forms there are.
    fn tell(self, forms: &str) -> String {
        match self {
            Self::Form => forms.to_owned(),
            Self::Part(why) => why,
        }
    }
}

impl From<String> for Wrong {
    fn from(why: String) -> Self {
        Self::Part(why)
    }
}

impl Typed {
    fn read(text: &str) -> Result<Self, Wrong> {
        let (name, rest) = text.split_once('=').ok_or(Wrong::Form)?;
        let (name, rest) = (name.trim(), rest.trim());
        if name.is_empty() || rest.is_empty() {
            return Err(Wrong::Form);
        }
        let form = match rest.starts_with('{') {
            true => Form::Whole(table(rest)?),
            false => short(rest)?,
        };
        let name = name.to_owned();
        Ok(Self { name, form })
    }
}

/// A limit that was typed for a store, where one that says how much and no more is of slots.
pub fn at_store(text: &str) -> Result<Typed, String> {
    Typed::read(text).map_err(|wrong| wrong.tell(HELP_AT_STORE))
}

/// `WORD:AMOUNT[/PER][,FIELD:VALUE]...` or `AMOUNT[/PER]`.
fn short(text: &str) -> Result<Form, Wrong> {
    let mut parts = text.split(',');
    let first = parts.next().unwrap_or_default();
    let (first, per) = match first.split_once('/') {
        Some((first, per)) => (first, Some(per.trim())),
        None => (first, None),
    };
    let Some((word, amount)) = first.split_once(':') else {
        let amount = first.trim().parse().map_err(|why: String| {
            let begins = first.trim().strip_prefix('-').unwrap_or(first.trim());
            match begins.starts_with(|begin: char| begin.is_ascii_digit()) {
                true => Wrong::Part(why),
                false => Wrong::Form,
            }
        })?;
        let more = parts.next().is_some();
        return match more {
            true => Err(Wrong::Form),
            false => Ok(Form::Amount(amount, per.map(str::to_owned))),
        };
    };
    let mut fields = Map::new();
    let amount: Quantity = amount.trim().parse()?;
    fields.insert(word.trim().to_owned(), json!(amount));
    if let Some(per) = per {
        fields.insert("per".to_owned(), per.into());
    }
    for part in parts {
        let (field, value) = part.split_once(':').ok_or(Wrong::Form)?;
        let (field, value) = (field.trim(), value.trim());
        let value = whole(value).map_or_else(|_| value.into(), Value::from);
        if fields.insert(field.to_owned(), value).is_some() {
            return Err(format!("`{field}` is given twice").into());
        }
    }
    let word = word.trim();
    if matches!(word, "calls" | "rate" | "budget") && !fields.contains_key("per") {
        let message =
            format!("`{word}:{amount}` does not say in how much time; write {word}:{amount}/1m");
        return Err(message.into());
    }
    Ok(Form::Whole(fields))
}

/// As a policy's file has it: `{ calls = 100, per = "1m" }`.
fn table(text: &str) -> Result<Map<String, Value>, Wrong> {
    let line = format!("limit = {text}");
    let parsed = DeTable::parse(&line);
    let parsed = parsed.map_err(|error| format!("this is no TOML: {}", error.message()))?;
    let only = parsed.get_ref().get("limit").map(|value| value.get_ref());
    let (Some(DeValue::Table(fields)), 1) = (only, parsed.get_ref().len()) else {
        return Err(Wrong::Form);
    };
    let fields = fields.iter().map(|(field, value)| {
        let field = field.get_ref().to_string();
        let value = match value.get_ref() {
            DeValue::Integer(number) if number.radix() == 10 => whole(number.as_str())?.into(),
            DeValue::String(text) => Value::from(&**text),
            DeValue::Boolean(flag) => Value::from(*flag),
            _ => {
                return Err(
                    format!("`{field}` must be a whole number, or a string in quotes").into(),
                );
            }
        };
        Ok((field, value))
    });
    fields.collect()
}

/// All limits that were typed, as a request has them. For those that say how
/// much and no more, `policies` says the rest.
pub fn request(typed: &[Typed], policies: &[Value]) -> Outcome<Value> {
    let mut limits = Map::new();
    for Typed { name, form } in typed {
        let fields = match form {
            Form::Whole(fields) => fields.clone(),
            Form::Amount(amount, per) => like(name, amount, per.as_deref(), policies)?,
        };
        if limits.insert(name.clone(), fields.into()).is_some() {
            let message = format!("limit `{name}` is given twice; give it once");
            return Err(Stop::usage(message));
        }
    }
    Ok(limits.into())
}

/// All limits that were typed, as a policy has them. Those that say how much and
/// no more are slots.
pub fn or_slots(typed: &[Typed]) -> Outcome<Value> {
    let slots = |Typed { name, form }: &Typed| {
        let form = match form {
            Form::Amount(slots, None) => Form::Whole(
                [("concurrency".to_owned(), json!(slots))]
                    .into_iter()
                    .collect(),
            ),
            form => form.clone(),
        };
        let name = name.clone();
        Typed { name, form }
    };
    let typed: Vec<_> = typed.iter().map(slots).collect();
    request(&typed, &[])
}

/// Whether the policies must be known.
pub fn needs_policies(typed: &[Typed]) -> bool {
    typed
        .iter()
        .any(|limit| matches!(limit.form, Form::Amount(..)))
}

/// So much of the limit `name`, counted as the policies count it.
fn like(
    name: &str,
    amount: &Quantity,
    per: Option<&str>,
    policies: &[Value],
) -> Outcome<Map<String, Value>> {
    let known = policies.iter().flat_map(|policy| written(policy, name));
    let mut shapes: Vec<_> = known
        .filter_map(|limit| shape(limit, amount, per))
        .collect();
    shapes.dedup();
    let whole = "write it out, such as";
    match shapes.pop() {
        None => Err(Stop::usage(unknown(name, amount, policies))),
        Some(_) if !shapes.is_empty() => Err(Stop::usage(format!(
            "the policies count `{name}` in different ways; {whole} {name}=calls:{amount}/1m, \
             or name one policy"
        ))),
        Some(shape) => Ok(shape),
    }
}

fn unknown(name: &str, amount: &Quantity, policies: &[Value]) -> String {
    let names = policies.iter().flat_map(limits);
    let names: BTreeSet<_> = names.flat_map(Map::keys).map(String::as_str).collect();
    if names.is_empty() {
        return format!(
            "there is no policy that this is for, or the token may not see it; \
             write the limit out, such as {name}=calls:{amount}/1m"
        );
    }
    let names = names.into_iter().collect::<Vec<_>>().join("`, `");
    format!("no policy that this is for has a limit `{name}`; there is `{names}`")
}

/// The limits of a policy, and of its members, as its file has them.
fn limits(policy: &Value) -> impl Iterator<Item = &Map<String, Value>> {
    let members = policy["written"]["member"].as_object();
    let members = members.into_iter().flat_map(Map::values);
    let all = std::iter::once(&policy["written"]).chain(members);
    all.filter_map(|part| part["limits"].as_object())
}

/// Those of that name.
pub fn written<'p>(policy: &'p Value, name: &'p str) -> impl Iterator<Item = &'p Value> {
    limits(policy).filter_map(move |limits| limits.get(name))
}

fn shape(limit: &Value, amount: &Quantity, per: Option<&str>) -> Option<Map<String, Value>> {
    let word = WORDS.into_iter().find(|word| limit.get(word).is_some())?;
    let mut fields = Map::new();
    fields.insert(word.to_owned(), json!(amount));
    for field in ["per", "zone"] {
        if let Some(value) = limit.get(field) {
            fields.insert(field.to_owned(), value.clone());
        }
    }
    if let Some(per) = per {
        fields.insert("per".to_owned(), per.into());
    }
    Some(fields)
}

/// Limits of an answer, each as it can be typed again.
pub fn shown(limits: &Value) -> String {
    let limits = limits.as_object().into_iter().flatten();
    let shown = limits.map(|(name, fields)| format!("{name}={}", said(fields)));
    shown.collect::<Vec<_>>().join("  ")
}

fn said(fields: &Value) -> String {
    let text = |value: &Value| match value.as_str() {
        Some(text) => text.to_owned(),
        None => value.to_string(),
    };
    let mut words = String::new();
    let fields = fields.as_object().into_iter().flatten();
    for (field, value) in fields {
        // Writing to a string does not fail.
        let _ = match field.as_str() {
            "per" => write!(words, "/{}", text(value)),
            field if words.is_empty() => write!(words, "{field}:{}", text(value)),
            field => write!(words, ",{field}:{}", text(value)),
        };
    }
    words
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A policy that has nothing but this limit.
    fn policy(name: &str, limit: Value) -> Value {
        json!({"written": {"limits": {name: limit}}})
    }

    fn sent(text: &str, policies: &[Value]) -> Value {
        let typed: Typed = text
            .parse()
            .unwrap_or_else(|error| panic!("{text}: {error}"));
        request(&[typed], policies).unwrap_or_else(|stop| panic!("{text}: {stop}"))
    }

    #[test]
    fn a_limit_is_typed_shortly_or_as_a_policy_has_it() {
        let rpm = json!({"rpm": {"calls": 1_000, "per": "1m"}});
        for text in [
            "rpm=calls:1_000/1m",
            "rpm = calls : 1000 / 1m",
            "rpm={ calls = 1_000, per = \"1m\" }",
            "rpm={calls=1000,per='1m'}",
        ] {
            assert_eq!(sent(text, &[]), rpm, "{text}");
        }
        assert_eq!(
            sent("tpm=rate:5/1h 30m,burst:9", &[]),
            json!({"tpm": {"rate": 5, "per": "1h 30m", "burst": 9}})
        );
        assert_eq!(
            sent("day=budget:5/day,zone:Europe/Berlin", &[]),
            json!({"day": {"budget": 5, "per": "day", "zone": "Europe/Berlin"}})
        );
        assert_eq!(
            sent("slots=concurrency:8,ttl:30s", &[]),
            json!({"slots": {"concurrency": 8, "ttl": "30s"}})
        );
    }

    #[test]
    fn what_is_shown_can_be_typed_again() {
        for text in [
            "rpm=calls:1000/1m",
            "tpm=rate:5/1h,burst:9",
            "day=budget:5/day,zone:UTC",
            "slots=concurrency:8,ttl:30s",
        ] {
            assert_eq!(shown(&sent(text, &[])), text);
        }
    }

    #[test]
    fn an_amount_alone_is_counted_as_the_policies_count_it() {
        let one = policy("rpm", json!({"calls": 10, "per": "1m", "burst": 20}));
        let other = policy("rpm", json!({"calls": 99, "per": "1m"}));
        let odd = policy("rpm", json!({"calls": 99, "per": "1h"}));
        let pool =
            json!({"written": {"member": {"eu": {"limits": {"slots": {"concurrency": 3}}}}}});
        let rpm = json!({"rpm": {"calls": 50, "per": "1m"}});
        assert_eq!(
            sent("rpm=50", &[one.clone(), other.clone(), pool.clone()]),
            rpm
        );
        assert_eq!(sent("rpm=50/1m", &[one.clone(), odd.clone()]), rpm);
        assert_eq!(
            sent("slots=9", &[pool]),
            json!({"slots": {"concurrency": 9}})
        );
        let fails = |policies: &[Value]| {
            let typed: Typed = "rpm=50".parse().unwrap();
            request(&[typed], policies).unwrap_err().message
        };
        assert!(fails(&[one, odd]).contains("in different ways"));
        assert!(fails(&[]).contains("rpm=calls:50/1m"));
        assert!(fails(&[policy("tpm", json!({"rate": 1}))]).contains("there is `tpm`"));
    }

    #[test]
    fn what_is_no_limit_is_told_how_one_is_typed() {
        for text in [
            "",
            "rpm",
            "=5",
            "rpm=",
            "rpm=calls:",
            "rpm=calls:-1/1m",
            "rpm=much",
            "rpm={",
            "rpm={calls=1.5}",
            "rpm={calls=1}\nx={}",
            "rpm=calls:1/1m,burst",
            "rpm=5,burst:3",
            "rpm=calls:1/1m,calls:2",
            "rpm=calls:5",
        ] {
            assert!(text.parse::<Typed>().is_err(), "{text}");
        }
        let rpm: Typed = "rpm=calls:1/1m".parse().unwrap();
        assert!(request(&[rpm.clone(), rpm], &[]).is_err());
    }
}
