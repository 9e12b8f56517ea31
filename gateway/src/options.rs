//! What is added to a stream's call: that the stream is to say its usage.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The same call, whose stream says its usage at the end; nothing else of it changes, to the last
/// digit. `None` of one that cannot be read, whose provider will say so.
pub fn with_usage(call: &Bytes, has_options: bool) -> Option<Bytes> {
    const OPTIONS: &str = r#"{"include_usage":true}"#;
    if !has_options {
        // It is an object, with a member at least: `stream`.
        let end = call.iter().rposition(|byte| *byte == b'}')?;
        let added = format!(r#","stream_options":{OPTIONS}"#);
        return Some(spliced(call, end..end, &added));
    }
    let options = member(call, "stream_options")?;
    let at = place(call, options);
    let Some(inside) = options.get().strip_prefix('{') else {
        return Some(spliced(call, at, OPTIONS));
    };
    Some(match member(options.get().as_bytes(), "include_usage") {
        Some(asks) => spliced(call, place(call, asks), "true"),
        None => {
            let inside_at = at.start + 1;
            let comma = match inside.trim_start().starts_with('}') {
                true => "",
                false => ",",
            };
            let added = format!(r#""include_usage":true{comma}"#);
            spliced(call, inside_at..inside_at, &added)
        }
    })
}

/// The value of an object's member, as it is written. Of several the last counts.
fn member<'o>(object: &'o [u8], name: &str) -> Option<&'o RawValue> {
    let mut reader = serde_json::Deserializer::from_slice(object);
    Last(name).deserialize(&mut reader).ok()?
}

/// Where that stands in a call, of which it is a part.
fn place(call: &[u8], part: &RawValue) -> Range<usize> {
    let start = part.get().as_ptr().addr() - call.as_ptr().addr();
    start..start + part.get().len()
}

/// A call with that in place of a part of it.
fn spliced(call: &[u8], part: Range<usize>, with: &str) -> Bytes {
    [&call[..part.start], with.as_bytes(), &call[part.end..]]
        .concat()
        .into()
}

/// The last member of this name.
struct Last<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for Last<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, object: D) -> Result<Self::Value, D::Error> {
        object.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Last<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut last = None;
        while let Some(name) = members.next_key::<String>()? {
            match name == self.0 {
                true => last = Some(members.next_value()?),
                false => {
                    members.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(call: &str, has_options: bool) -> String {
        let call = with_usage(&Bytes::copy_from_slice(call.as_bytes()), has_options);
        String::from_utf8(call.unwrap().to_vec()).unwrap()
    }

    #[test]
    fn a_call_that_asks_for_its_usage_is_the_same_to_the_last_digit() {
        let call = with(
            "{\"seed\": 12345678901234567890123, \"stream\": true }\n",
            false,
        );
        assert_eq!(
            call,
            "{\"seed\": 12345678901234567890123, \"stream\": true ,\"stream_options\":{\"include_usage\":true}}\n"
        );
    }

    /// Numbers beyond 64 bits were rounded, a long call was not asked at all.
    #[test]
    fn options_that_are_there_are_completed_and_nothing_else_changes() {
        let long = format!(r#"[{}1.10]"#, "0, ".repeat(200_000));
        for (options, completed) in [
            (
                r#"{"a":1, "include_usage" : false}"#,
                r#"{"a":1, "include_usage" : true}"#,
            ),
            (
                r#"{"include_usage":null,"include_usage":{"a":"}"} , "b":[]}"#,
                r#"{"include_usage":null,"include_usage":true , "b":[]}"#,
            ),
            (r#"{ "a":1}"#, r#"{"include_usage":true, "a":1}"#),
            ("{ }", r#"{"include_usage":true }"#),
            ("{}", r#"{"include_usage":true}"#),
            ("null", r#"{"include_usage":true}"#),
        ] {
            let call = |options: &str| {
                format!(
                    r#"{{"seed":12345678901234567890123, "input":{long}, "stream_options":1,
                         "stream\u005foptions": {options} ,"text":"half \ud800"}}"#
                )
            };
            assert!(with(&call(options), true) == call(completed), "{options}");
        }
    }
}
