//! The answers that several operations share: one for each status that is no success.

use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use crate::error::Problem;
use crate::openapi::headers::{of_limits, retry_after, version};
use crate::openapi::schema::Schemas;
use crate::render::answer::Refusal;

/// An answer that is no success.
struct Shared {
    status: u16,
    name: &'static str,
    description: &'static str,
}

const fn shared(status: u16, name: &'static str, description: &'static str) -> Shared {
    Shared {
        status,
        name,
        description,
    }
}

const ALL: [Shared; 14] = [
    shared(
        400,
        "Invalid",
        "The request is invalid; `detail` says what is wrong and where. Nothing was changed.",
    ),
    shared(
        401,
        "Unauthenticated",
        "A token is needed, or the one sent is unknown.",
    ),
    shared(
        403,
        "Forbidden",
        "The token has not the scope, or is for other policies or another namespace.",
    ),
    shared(
        404,
        "NotFound",
        "There is no such policy, lease, entity, namespace or path.",
    ),
    shared(408, "Timeout", "The body took too long to arrive."),
    shared(
        409,
        "Ended",
        "The lease has ended; an entity has children, or holds leases; a namespace is in use, or \
         was deleted a moment ago. Nothing was changed.",
    ),
    shared(
        410,
        "Deleted",
        "The namespace is deleted, or being purged. Nothing was changed.",
    ),
    shared(
        412,
        "Conflict",
        "Something else is there than `If-Match` or `If-None-Match` says: `version` is what is. \
         Nothing was changed.",
    ),
    shared(
        413,
        "TooLarge",
        "The body is too long (64 KiB, unless the server was set up otherwise).",
    ),
    shared(415, "NotJson", "`Content-Type` is not `application/json`."),
    shared(
        422,
        "Never",
        "Not ever: more than a limit could grant when it is full. Nothing was changed.",
    ),
    shared(
        429,
        "Refused",
        "Not now. The answer says until when, exactly. Nothing was changed.",
    ),
    shared(
        431,
        "HeadTooLarge",
        "The head of the request, its path and query among it, is longer than 32 KiB. \
         There is no body.",
    ),
    shared(
        503,
        "Unavailable",
        "The store did not answer, or too much is being served at once. Nothing was changed.",
    ),
];

/// A reference to the answer of this status.
pub(crate) fn reference(status: u16) -> Value {
    let name = ALL.iter().find(|one| one.status == status);
    let name = name.map_or("Invalid", |one| one.name);
    json!({"$ref": format!("#/components/responses/{name}")})
}

/// All of them, by name.
pub(crate) fn all(schemas: &mut Schemas) -> Map<String, Value> {
    let of = |one: &Shared| (one.name.to_owned(), response(one, schemas));
    ALL.iter().map(of).collect()
}

fn response(one: &Shared, schemas: &mut Schemas) -> Value {
    let mut response = json!({"description": one.description});
    match one.status {
        431 => {}
        429 => response["content"] = problem::<Refusal<'_>>(schemas),
        _ => response["content"] = problem::<Problem>(schemas),
    }
    match one.status {
        401 => {
            response["headers"] = json!({"WWW-Authenticate": {
                "description": "`Bearer`.", "required": true, "schema": {"type": "string"}
            }});
        }
        429 => {
            let fields = retry_after().into_iter().chain(of_limits());
            response["headers"] = fields.collect::<Map<_, _>>().into();
        }
        412 => response["headers"] = json!({"ETag": version()}),
        503 => response["headers"] = retry_after().into(),
        _ => {}
    }
    response
}

/// A body that is a problem, or has a problem's members.
pub(crate) fn problem<T: JsonSchema>(schemas: &mut Schemas) -> Value {
    json!({"application/problem+json": {"schema": schemas.answer::<T>()}})
}
