//! What the fields of a record mean: who asked, and for how much.

use std::str::FromStr;

use super::open::Format;
use super::record::Record;

/// Who is limited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyChoice {
    /// All requests alike.
    Constant(String),
    /// The values of these fields; several make a path.
    Fields(Vec<String>),
}

impl FromStr for KeyChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix('=') {
            Some("") => Err("write a name after `=`, such as `=all`".to_owned()),
            Some(constant) => Ok(Self::Constant(constant.to_owned())),
            None if text.split(',').any(str::is_empty) => {
                Err("write a field, several as ORG,USER, or a constant as =NAME".to_owned())
            }
            None => Ok(Self::Fields(text.split(',').map(str::to_owned).collect())),
        }
    }
}

/// Where a cost is found, and for which limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostField {
    /// The limit it is charged to; every rate and budget not named otherwise.
    pub limit: Option<String>,
    /// The field that holds it.
    pub field: String,
}

impl FromStr for CostField {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (limit, field) = match text.split_once('=') {
            Some((limit, field)) => (Some(limit.to_owned()), field),
            None => (None, text),
        };
        if field.is_empty() || limit.as_deref() == Some("") {
            return Err("write FIELD, or LIMIT=FIELD for one limit".to_owned());
        }
        Ok(Self {
            limit,
            field: field.to_owned(),
        })
    }
}

/// What the fields of a trace mean.
#[derive(Clone, Debug, Default)]
pub struct Meaning {
    /// Who is limited; by default what suits the format.
    pub key: Option<KeyChoice>,
    /// The cost; by default what suits the format.
    pub cost: Vec<CostField>,
    /// Tokens known when a request arrives.
    pub context: Option<String>,
    /// Tokens known only when it ends.
    pub generated: Option<String>,
}

/// Who asked, and for how much.
#[derive(Debug, PartialEq, Eq)]
pub struct Extract {
    pub key: String,
    pub context: Option<u64>,
    pub generated: Option<u64>,
    /// What a bare rate or budget is charged; `None` if nothing says.
    pub cost: Option<u64>,
    /// The values of the cost fields that name a limit, in their order.
    pub named: Box<[u64]>,
}

const CONTEXT: [&str; 7] = [
    "ContextTokens",
    "context_tokens",
    "prompt_tokens",
    "input_tokens",
    "usage.prompt_tokens",
    "usage.input_tokens",
    "context",
];
const GENERATED: [&str; 7] = [
    "GeneratedTokens",
    "generated_tokens",
    "completion_tokens",
    "output_tokens",
    "usage.completion_tokens",
    "usage.output_tokens",
    "generated",
];
/// Where neither is there.
const TOTAL: [&str; 3] = ["tokens", "total_tokens", "usage.total_tokens"];

impl Meaning {
    /// Reads a record of a format.
    pub fn extract(&self, format: Format, record: &Record) -> Result<Extract, String> {
        let context = tokens(record, self.context.as_deref(), &CONTEXT)?;
        let generated = tokens(record, self.generated.as_deref(), &GENERATED)?;
        let named = self.cost.iter().filter(|cost| cost.limit.is_some());
        let named = named.map(|cost| number(record, &cost.field));
        Ok(Extract {
            key: self.key(format, record)?,
            context,
            generated,
            cost: self.cost(format, record, context, generated)?,
            named: named.collect::<Result<_, _>>()?,
        })
    }

    fn key(&self, format: Format, record: &Record) -> Result<String, String> {
        let key = match (&self.key, format) {
            (Some(KeyChoice::Constant(name)), _) => name.clone(),
            (Some(KeyChoice::Fields(fields)), _) => path(record, fields)?,
            (None, Format::Combined) => text(record, "ip")?.to_owned(),
            (None, _) => "all".to_owned(),
        };
        if key.is_empty() {
            return Err("has an empty key; choose another field with --key".to_owned());
        }
        Ok(key)
    }

    fn cost(
        &self,
        format: Format,
        record: &Record,
        context: Option<u64>,
        generated: Option<u64>,
    ) -> Result<Option<u64>, String> {
        if let Some(cost) = self.cost.iter().find(|cost| cost.limit.is_none()) {
            return number(record, &cost.field).map(Some);
        }
        if format == Format::Combined {
            return number(record, "bytes").map(Some);
        }
        match (context, generated) {
            // What is no number under such a name is something else.
            (None, None) => Ok(TOTAL.iter().find_map(|field| number(record, field).ok())),
            (context, generated) => Ok(Some(
                context.unwrap_or(0).saturating_add(generated.unwrap_or(0)),
            )),
        }
    }
}

/// One field as it is, or several as a path of escaped segments.
fn path(record: &Record, fields: &[String]) -> Result<String, String> {
    if let [field] = fields {
        return text(record, field).map(str::to_owned);
    }
    let segments = fields.iter().map(|field| text(record, field).map(escape));
    Ok(segments.collect::<Result<Vec<_>, _>>()?.join("/"))
}

/// A segment's own separators must not look like the path's.
fn escape(segment: &str) -> String {
    segment.replace('%', "%25").replace('/', "%2F")
}

/// A field that is said to be there must be; a usual one may be missing.
fn tokens(record: &Record, said: Option<&str>, usual: &[&str]) -> Result<Option<u64>, String> {
    match said {
        Some(field) => number(record, field).map(Some),
        None => match usual.iter().find(|field| record.field(field).is_some()) {
            Some(field) => number(record, field).map(Some),
            None => Ok(None),
        },
    }
}

fn text<'r>(record: &'r Record, field: &str) -> Result<&'r str, String> {
    record
        .field(field)
        .ok_or_else(|| format!("has no field `{field}`; it has {}", record.names()))
}

fn number(record: &Record, field: &str) -> Result<u64, String> {
    let text = text(record, field)?;
    let number = text
        .parse()
        .ok()
        .filter(|&number| number <= tidegate::MAX_AMOUNT);
    number.ok_or_else(|| {
        format!(
            "`{field}` is `{text}`; write a whole number from 0 to {}",
            tidegate::MAX_AMOUNT
        )
    })
}

#[cfg(test)]
mod tests {
    use super::{CostField, Extract, Format, KeyChoice, Meaning, Record};

    fn record(fields: &[(&'static str, &str)]) -> Record {
        let fields = fields
            .iter()
            .map(|&(name, value)| (name.into(), value.to_owned()));
        Record {
            line: 1,
            at: 0,
            fields: fields.collect(),
        }
    }

    #[test]
    fn the_llm_trace_is_charged_all_its_tokens_under_one_key() {
        let record = record(&[("ContextTokens", "4808"), ("GeneratedTokens", "10")]);
        let extract = Meaning::default().extract(Format::Azure, &record).unwrap();
        let expected = Extract {
            key: "all".to_owned(),
            context: Some(4808),
            generated: Some(10),
            cost: Some(4818),
            named: Box::default(),
        };
        assert_eq!(extract, expected);
    }

    #[test]
    fn the_usual_names_of_tokens_are_found() {
        let cost = |fields: &[(&'static str, &str)]| {
            let extract = Meaning::default().extract(Format::JsonLines, &record(fields));
            extract.unwrap().cost
        };
        assert_eq!(cost(&[("tokens", "9")]), Some(9));
        let usage = [
            ("usage.prompt_tokens", "7"),
            ("usage.completion_tokens", "2"),
        ];
        assert_eq!(cost(&usage), Some(9));
        let both = [("usage.input_tokens", "7"), ("total_tokens", "9")];
        assert_eq!(cost(&both), Some(7));
        assert_eq!(cost(&[("requests", "9")]), None);
        assert_eq!(cost(&[("tokens", "a b"), ("total_tokens", "3")]), Some(3));
    }

    #[test]
    fn a_log_is_charged_its_bytes_under_the_address() {
        let record = record(&[("ip", "::1"), ("bytes", "77")]);
        let extract = Meaning::default()
            .extract(Format::Combined, &record)
            .unwrap();
        assert_eq!((extract.key.as_str(), extract.cost), ("::1", Some(77)));
    }

    #[test]
    fn fields_make_a_key_and_several_make_an_unambiguous_path() {
        let record = record(&[("org", "a/b"), ("user", "c%")]);
        for (choice, key) in [("org", "a/b"), ("org,user", "a%2Fb/c%25"), ("=x", "x")] {
            let meaning = Meaning {
                key: Some(choice.parse().unwrap()),
                ..Meaning::default()
            };
            assert_eq!(
                meaning.extract(Format::JsonLines, &record).unwrap().key,
                key
            );
        }
        assert!("a,,b".parse::<KeyChoice>().is_err() && "=".parse::<KeyChoice>().is_err());
    }

    #[test]
    fn a_cost_field_may_be_for_one_limit() {
        let record = record(&[("in", "5"), ("out", "7")]);
        let cost = ["itpm=in", "out"]
            .map(|text| text.parse::<CostField>().unwrap())
            .to_vec();
        let meaning = Meaning {
            cost,
            ..Meaning::default()
        };
        let extract = meaning.extract(Format::JsonLines, &record).unwrap();
        assert_eq!((extract.cost, &*extract.named), (Some(7), &[5][..]));
    }

    #[test]
    fn a_missing_field_and_a_number_that_is_none_say_so() {
        let record = record(&[("bytes", "-3")]);
        let log = Meaning::default()
            .extract(Format::Combined, &record)
            .unwrap_err();
        assert_eq!(log, "has no field `ip`; it has bytes");
        let meaning = Meaning {
            cost: vec!["bytes".parse().unwrap()],
            ..Meaning::default()
        };
        let cost = meaning.extract(Format::JsonLines, &record).unwrap_err();
        assert!(
            cost.starts_with("`bytes` is `-3`; write a whole number"),
            "{cost}"
        );
    }
}
