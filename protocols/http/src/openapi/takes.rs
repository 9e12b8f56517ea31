//! What a handler's arguments take of a request: its parameters, its body, and what is
//! answered if they are not as they have to be.

use std::collections::BTreeMap;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::openapi::schema::{Schemas, members};
use crate::parse::body::{Body, Document};
use crate::parse::context::{Query, RequestContext};
use crate::parse::precondition::Precondition;
use crate::render::headers::Style;

/// What one operation takes.
#[derive(Default)]
pub(crate) struct Taken {
    pub(crate) parameters: Vec<Value>,
    /// By media type.
    pub(crate) body: Map<String, Value>,
    /// The statuses of what may be wrong.
    pub(crate) wrong: Vec<u16>,
    /// Whether answers have the fields of rate limits.
    pub(crate) is_styled: bool,
}

impl Taken {
    /// A parameter with this schema, whose description and example are its own.
    pub(crate) fn parameter(
        &mut self,
        place: &str,
        name: &str,
        mut schema: Map<String, Value>,
        required: bool,
    ) {
        let mut parameter = Map::new();
        parameter.insert("name".to_owned(), name.into());
        parameter.insert("in".to_owned(), place.into());
        if required {
            parameter.insert("required".to_owned(), true.into());
        }
        parameter.extend(
            schema
                .shift_remove("description")
                .map(|text| ("description".to_owned(), text)),
        );
        let examples = schema.shift_remove("examples");
        parameter.insert("schema".to_owned(), schema.into());
        parameter.extend(
            examples.and_then(|examples| Some(("example".to_owned(), examples.get(0)?.clone()))),
        );
        self.parameters.push(parameter.into());
    }

    fn read(&mut self, media_type: &str, schema: Schema) {
        let content = json!({"schema": schema});
        self.body.insert(media_type.to_owned(), content);
        self.wrong.extend([400, 408, 413, 415]);
    }
}

/// What an argument takes, or all of them.
pub(crate) trait Takes {
    fn takes(taken: &mut Taken, schemas: &mut Schemas);
}

impl Takes for RequestContext {
    fn takes(taken: &mut Taken, _: &mut Schemas) {
        let reference = json!({"$ref": "#/components/parameters/Namespace"});
        taken.parameters.push(reference);
        taken.wrong.extend([400, 401, 403, 404, 410, 503]);
    }
}

impl Takes for Style {
    fn takes(taken: &mut Taken, _: &mut Schemas) {
        let reference = json!({"$ref": "#/components/parameters/Headers"});
        taken.parameters.push(reference);
        taken.wrong.push(400);
        taken.is_styled = true;
    }
}

impl Takes for Precondition {
    fn takes(taken: &mut Taken, _: &mut Schemas) {
        let fields = [
            (
                "If-Match",
                "Only if this version is there: an answer's `ETag`, with its quotes; or `*`: only \
                 if any is.",
                "\"18\"",
            ),
            (
                "If-None-Match",
                "`*`: only if none is there. Not together with `If-Match`.",
                "*",
            ),
        ];
        for (name, about, example) in fields {
            let schema = json!({"type": "string", "description": about, "examples": [example]});
            taken.parameter("header", name, members(schema), false);
        }
        taken.wrong.extend([400, 412]);
    }
}

impl Takes for State<App> {
    fn takes(_: &mut Taken, _: &mut Schemas) {}
}

impl<T: JsonSchema> Takes for Query<T> {
    fn takes(taken: &mut Taken, schemas: &mut Schemas) {
        for (name, schema, required) in schemas.members::<T>() {
            taken.parameter("query", &name, schema, required);
        }
        taken.wrong.extend([400, 431]);
    }
}

impl Takes for Result<Path<String>, PathRejection> {
    fn takes(taken: &mut Taken, _: &mut Schemas) {
        let schema = json!({
            "type": "string", "minLength": 1, "description": "Its name.", "examples": ["chat"]
        });
        taken.parameter("path", "name", members(schema), true);
        taken.wrong.extend([400, 431]);
    }
}

impl<T: JsonSchema> Takes for Body<T> {
    fn takes(taken: &mut Taken, schemas: &mut Schemas) {
        taken.read("application/json", schemas.request::<T>());
    }
}

impl Takes for Document {
    fn takes(taken: &mut Taken, schemas: &mut Schemas) {
        taken.read("application/json", schemas.request::<PolicyDocument>());
        let file = schemars::json_schema!({"type": "string", "description": "A policy file."});
        taken.read("application/toml", file.clone());
        taken.read("application/yaml", file);
    }
}

/// Policies in the shape of their file (docs/reference/policies.md): what stands under
/// `[policy.NAME]`, by name.
#[derive(JsonSchema)]
#[schemars(
    deny_unknown_fields,
    example = json!({"policy": {"chat": {"limits": {"rpm": {"calls": 60, "per": "1m"}}}}})
)]
#[expect(
    dead_code,
    reason = "policies are read by `tidegate_policy`, which says more"
)]
struct PolicyDocument {
    /// Each policy by its name.
    #[schemars(extend("minProperties" = 1))]
    policy: BTreeMap<String, Map<String, Value>>,
}

/// How axum has the arguments of a handler: behind a mark of its own.
macro_rules! all {
    ($($argument:ident)*) => {
        impl<Mark, $($argument: Takes),*> Takes for (Mark, $($argument,)*) {
            fn takes(taken: &mut Taken, schemas: &mut Schemas) {
                $($argument::takes(taken, schemas);)*
                _ = (taken, schemas);
            }
        }
    };
}

all!();
all!(A);
all!(A B);
all!(A B C);
all!(A B C D);
