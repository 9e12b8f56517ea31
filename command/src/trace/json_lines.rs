//! JSON lines: one object on each, with whatever fields it likes.
//!
//! A field of a nested object is named with points: `usage.total_tokens`.

use std::borrow::Cow;
use std::io::BufRead;

use serde_json::{Map, Value};

use super::instant::{TimeField, counted, written};
use super::record::{Lines, Read, Record};

/// Where an instant is looked for if nobody says.
const USUAL: [&str; 6] = ["timestamp", "time", "ts", "@timestamp", "arrived", "date"];

/// Reads the lines of such a file.
pub struct JsonLines<R> {
    lines: Lines<R>,
    time: Option<TimeField>,
}

impl<R: BufRead> JsonLines<R> {
    pub const fn new(input: R, time: Option<TimeField>) -> Self {
        Self {
            lines: Lines::new(input),
            time,
        }
    }
}

impl<R: BufRead> Iterator for JsonLines<R> {
    type Item = Read;

    fn next(&mut self) -> Option<Read> {
        let time = self.time.as_ref();
        self.lines.read(|line, text| parse(line, text, time))
    }
}

fn parse(line: u64, text: &str, time: Option<&TimeField>) -> Result<Record, String> {
    let object: Map<String, Value> = serde_json::from_str(text)
        .map_err(|error| format!("is not a JSON object on one line: {error}"))?;
    let mut fields = Vec::with_capacity(object.len());
    flatten("", object, &mut fields);
    let mut record = Record {
        line,
        at: 0,
        fields,
    };
    record.at = at(&record, time)?;
    Ok(record)
}

fn at(record: &Record, time: Option<&TimeField>) -> Result<i64, String> {
    let found = match time {
        Some(field) => record.field(&field.name),
        None => USUAL.iter().find_map(|name| record.field(name)),
    };
    let Some(text) = found else {
        let wanted = time.map_or("its instant", |field| &field.name);
        let names = record.names();
        return Err(format!(
            "has no field for {wanted}; name one with --time-field (it has {names})"
        ));
    };
    let instant = written(text).or_else(|| counted(text, time.and_then(|field| field.unit)));
    instant.ok_or_else(|| {
        format!("`{text}` is not an instant; write 2023-11-16T18:17:03.979Z, or seconds since 1970")
    })
}

fn flatten(prefix: &str, object: Map<String, Value>, out: &mut Vec<(Cow<'static, str>, String)>) {
    for (name, value) in object {
        let name = if prefix.is_empty() {
            name
        } else {
            format!("{prefix}.{name}")
        };
        match value {
            Value::Object(inner) => flatten(&name, inner, out),
            Value::String(text) => out.push((Cow::Owned(name), text)),
            Value::Number(number) => out.push((Cow::Owned(name), number.to_string())),
            Value::Bool(flag) => out.push((Cow::Owned(name), flag.to_string())),
            Value::Null | Value::Array(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn fields_are_texts_and_nested_ones_are_named_with_points() {
        let text = r#"{"time": "2023-11-16T18:17:03.97996Z", "user": {"id": 7}, "usage": {"in": 5, "ok": true}, "x": [1]}"#;
        let record = parse(3, text, None).unwrap();
        assert_eq!(record.at, 1_700_158_623_979_960);
        assert_eq!(record.field("user.id"), Some("7"));
        assert_eq!(record.field("usage.ok"), Some("true"));
        assert_eq!(record.field("x"), None);
    }

    #[test]
    fn the_instant_is_where_it_is_said_to_be() {
        let field = "start:ms".parse().unwrap();
        let record = parse(1, r#"{"time": 1, "start": 1500}"#, Some(&field)).unwrap();
        assert_eq!(record.at, 1_500_000);
        let missing = parse(1, r#"{"when": 1}"#, Some(&field)).unwrap_err();
        assert!(
            missing.contains("--time-field") && missing.contains("when"),
            "{missing}"
        );
    }

    #[test]
    fn an_epoch_number_with_a_fraction_is_exact() {
        let record = parse(1, r#"{"ts": 1700158623.979960}"#, None).unwrap();
        assert_eq!(record.at, 1_700_158_623_979_960);
    }

    #[test]
    fn what_is_no_object_says_so() {
        assert!(
            parse(1, "[1, 2]", None)
                .unwrap_err()
                .starts_with("is not a JSON object")
        );
        assert!(
            parse(1, "{\"a\":", None)
                .unwrap_err()
                .starts_with("is not a JSON object")
        );
    }
}
