//! The fields that tell of limits.

use serde_json::{Map, Value, json};

use super::schema::members;

/// The fields of rate limits, by name.
const OF_LIMITS: [&str; 5] = [
    "RateLimit",
    "RateLimit-Policy",
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
];

/// What each says.
pub(crate) fn all() -> Value {
    let number = json!({"type": "integer", "minimum": 0});
    json!({
        "RateLimit": {
            "description": "Where each limit stands, in the IETF draft's syntax: \
                `\"tpm\";r=5000;t=1` is 5,000 units left, and more in 1 second.",
            "schema": {"type": "string"},
            "example": "\"tpm\";r=5000;t=1",
        },
        "RateLimit-Policy": {
            "description": "What each limit allows: `\"tpm\";q=6000;w=60` is 6,000 units in 60 \
                seconds. A rate, whose unit has no registered name, says `tidegate-qu=\"units\"`; \
                a burst of its own is `tidegate-burst`.",
            "schema": {"type": "string"},
            "example": "\"tpm\";q=6000;w=60;tidegate-qu=\"units\";tidegate-burst=9000",
        },
        "X-RateLimit-Limit": {
            "description": "With `headers=legacy`: the limit closest to exhaustion.",
            "schema": number,
        },
        "X-RateLimit-Remaining": {
            "description": "With `headers=legacy`: what is left of it.",
            "schema": number,
        },
        "X-RateLimit-Reset": {
            "description": "With `headers=legacy`: seconds until it is full again.",
            "schema": number,
        },
        "ETag": {
            "description": "The version of the override or the entity, in quotes; missing where there is none.",
            "schema": {"type": "string"},
            "example": "\"18\"",
        },
        "Retry-After": {
            "description": "Seconds until it makes sense to come again, rounded up; never 0.",
            "required": true,
            "schema": {"type": "integer", "minimum": 1},
        },
    })
}

/// References to the fields of rate limits.
pub(crate) fn of_limits() -> Map<String, Value> {
    let fields = OF_LIMITS.iter();
    fields
        .map(|name| ((*name).to_owned(), reference(name)))
        .collect()
}

/// A reference to the one of this name, under its name.
pub(crate) fn retry_after() -> Map<String, Value> {
    members(json!({"Retry-After": reference("Retry-After")}))
}

/// A reference to the field of a version.
pub(crate) fn version() -> Value {
    reference("ETag")
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/headers/{name}")})
}
