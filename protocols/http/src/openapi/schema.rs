//! Schemas from types: of requests as they are read, of answers as they are written.

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value};

/// The schema of a type that reads or writes itself, in place wherever it stands.
macro_rules! schema {
    ($of:ty = {$($schema:tt)*}) => {
        impl schemars::JsonSchema for $of {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($of).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({$($schema)*})
            }
        }
    };
}
pub(crate) use schema;

/// The schemas that have been named so far.
pub(crate) struct Schemas {
    requests: SchemaGenerator,
    answers: SchemaGenerator,
}

impl Schemas {
    pub(crate) fn new() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        let of_requests = settings.clone().for_deserialize();
        let of_answers = settings.for_serialize().with_transform(close);
        Self {
            requests: of_requests.with_transform(tidy).into_generator(),
            answers: of_answers.with_transform(tidy).into_generator(),
        }
    }

    /// The schema of what is read.
    pub(crate) fn request<T: JsonSchema>(&mut self) -> Schema {
        self.requests.subschema_for::<T>()
    }

    /// The schema of what is written.
    pub(crate) fn answer<T: JsonSchema>(&mut self) -> Schema {
        self.answers.subschema_for::<T>()
    }

    /// The members of an object that is read: their names and schemas, and whether each
    /// has to be there.
    pub(crate) fn members<T: JsonSchema>(&mut self) -> Vec<(String, Map<String, Value>, bool)> {
        let mut schema = T::json_schema(&mut self.requests);
        tidy(&mut schema);
        let members = schema.get("properties").and_then(Value::as_object);
        let members = members.into_iter().flatten();
        let of = |(name, member): (&String, &Value)| {
            let member = member.as_object().cloned().unwrap_or_default();
            (name.clone(), member, is_required(&schema, name))
        };
        members.map(of).collect()
    }

    /// All that were named, by name.
    pub(crate) fn named(mut self) -> Map<String, Value> {
        let mut named = self.requests.take_definitions(true);
        named.extend(self.answers.take_definitions(true));
        named
    }
}

fn is_required(schema: &Schema, name: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required.is_some_and(|required| required.iter().any(|one| one == name))
}

/// The members of an object.
pub(crate) fn members(object: Value) -> Map<String, Value> {
    match object {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// An answer has no members but these.
fn close(schema: &mut Schema) {
    if schema.get("properties").is_some() && schema.get("additionalProperties").is_none() {
        let closed = match schema.get("oneOf").or(schema.get("anyOf")) {
            Some(_) => "unevaluatedProperties",
            None => "additionalProperties",
        };
        schema.insert(closed.to_owned(), false.into());
    }
    for part in ["items", "additionalProperties"] {
        each(schema.get_mut(part).into_iter(), close);
    }
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    each(
        properties.into_iter().flat_map(|named| named.values_mut()),
        close,
    );
}

/// As a reader of the document wants it.
///
/// A member that may be missing is never null: a request that says so is refused, and an
/// answer leaves it out. How wide a number of Rust's is says nothing of JSON. Lines of a
/// comment end where the editor's did.
fn tidy(schema: &mut Schema) {
    transform_subschemas(&mut tidy, schema);
    if let Some(text) = schema.get("description").and_then(Value::as_str) {
        let paragraphs = text.split("\n\n").map(|text| text.replace('\n', " "));
        let text = paragraphs.collect::<Vec<_>>().join("\n\n");
        schema.insert("description".to_owned(), text.into());
    }
    let format = schema.get("format").and_then(Value::as_str);
    if format.is_some_and(|format| format.contains("int")) {
        schema.remove("format");
    }
    let required = schema.clone();
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (name, member) in properties.into_iter().flatten() {
        if let (false, Some(member)) = (is_required(&required, name), member.as_object_mut()) {
            never_null(member);
        }
    }
}

fn never_null(member: &mut Map<String, Value>) {
    if member.get("default").is_some_and(Value::is_null) {
        member.shift_remove("default");
    }
    if let Some(Value::Array(words)) = member.get_mut("enum") {
        words.retain(|one| !one.is_null());
    }
    if let Some(Value::Array(types)) = member.get_mut("type") {
        types.retain(|one| one != "null");
        if let [one] = &types[..] {
            let one = one.clone();
            member.insert("type".to_owned(), one);
        }
    }
    // A reference, or nothing.
    let Some(Value::Array(of)) = member.get("anyOf") else {
        return;
    };
    if let [Value::Object(one), Value::Object(null)] = &of[..]
        && null.get("type").is_some_and(|kind| kind == "null")
    {
        let one = one.clone();
        member.shift_remove("anyOf");
        member.extend(one);
    }
}

fn each<'v>(parts: impl Iterator<Item = &'v mut Value>, mut change: impl Transform) {
    for part in parts {
        if let Ok(part) = part.try_into() {
            change.transform(part);
        }
    }
}
