//! The document: complete, true, and valid.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use serde_json::Value;
use tidegate::ManualClock;
use tidegate_http::{Server, Settings};
use tidegate_memory::MemoryStore;
use tidegate_service::Service;
use tokio::process::Command;

use crate::live::Live;
use crate::support::{House, Reply};
use crate::tools;

/// The policies that the document's examples name.
const POLICIES: &str = r#"
[policy.chat]
key = "org/user"
[policy.chat.limits]
rpm = { calls = 60, per = "1m" }
tpm = { rate = 6_000, per = "1m", burst = 9_000 }
daily = { budget = 1_000_000, per = "day", zone = "Europe/Berlin", level = "org" }

[policy.jobs.limits]
running = { concurrency = 4, ttl = "30s" }
"#;

fn house() -> House {
    let file = tidegate_policy::parse("examples.toml", POLICIES).unwrap();
    let store = Arc::new(MemoryStore::default());
    let service = Service::builder().store(store).build(&file).unwrap();
    let settings = Settings {
        metrics: Some(Arc::new(|| "tidegate_up 1\n".to_owned())),
        ..Settings::default()
    };
    House {
        server: Server::new(service.clone(), settings),
        time: ManualClock::default(),
        service,
    }
}

async fn document() -> Value {
    House::new().get("/openapi.json").await.json()
}

/// Every operation: path, method, and what is said of it.
fn operations(document: &Value) -> impl Iterator<Item = (&str, &str, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    paths.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap();
        methods
            .iter()
            .map(move |(method, said)| (path.as_str(), method.as_str(), said))
    })
}

#[tokio::test]
async fn the_document_is_served_as_the_file_has_it() {
    let served = House::new().get("/openapi.json").await.text();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
    assert_eq!(served, std::fs::read_to_string(file).unwrap());
}

#[tokio::test]
async fn every_example_is_answered_as_the_document_says() {
    let document = document().await;
    let house = house();
    for (path, method, said) in operations(&document) {
        let reply = example(&house, &document, path, method, said).await;
        let status = reply.status.to_string();
        assert!(
            said["responses"][&status].is_object(),
            "{path}: {status} {}",
            reply.text()
        );
        // The lease of the examples was never given.
        assert!(
            reply.status < 300 || reply.status == 404,
            "{path}: {}",
            reply.text()
        );
    }
}

async fn example(house: &House, document: &Value, path: &str, method: &str, said: &Value) -> Reply {
    let schema = &said["requestBody"]["content"]["application/json"]["schema"]["$ref"];
    let body = match schema.as_str() {
        Some(schema) => {
            let schema = document.pointer(schema.trim_start_matches('#')).unwrap();
            schema["examples"][0].to_string()
        }
        None => String::new(),
    };
    let path = path.replace("{name}", "chat").replace("{id}", "alice");
    let query = match path.as_str() {
        "/v1/auth" => "?policy=chat&key=acme/alice&cost=1",
        "/v1/overrides" if method == "delete" => "?policy=chat&key=acme/alice",
        "/v1/keys" | "/v1/leases" | "/v1/fleet" | "/v1/capacity" | "/v1/usage" => {
            "?policy=chat&prefix=acme&limit=7"
        }
        _ => "",
    };
    let request = Request::builder()
        .method(method.to_uppercase().as_str())
        .uri(format!("{path}{query}"))
        .header("content-type", "application/json");
    house.send(request.body(Body::from(body)).unwrap()).await
}

#[tokio::test]
async fn the_document_is_valid() {
    let Some(validator) = tools::python("openapi-spec-validator==0.9.0", "openapi-spec-validator")
    else {
        return;
    };
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
    let output = Command::new(validator)
        .arg(document)
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{}", tools::said(&output));
}

/// An adjustment took decimals, and the document let it take whole numbers alone.
#[tokio::test]
async fn every_request_may_have_amounts_that_are_decimals() {
    let document = document().await;
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let requests = schemas.iter().filter(|(name, _)| name.ends_with("Request"));
    let amounts: Vec<_> = requests
        .filter_map(|(name, schema)| Some((name, schema["properties"].get("amounts")?)))
        .collect();
    assert!(amounts.len() >= 3);
    for (name, amounts) in amounts {
        let kinds = &amounts["additionalProperties"]["type"];
        assert_eq!(kinds, &serde_json::json!(["integer", "string"]), "{name}");
    }
}

/// All checks but those that cannot know what the server was set up with: which
/// policies there are, and whether a token is needed. And a proxy passes all
/// headers of its client on, so none that is unknown may be an error there. A body
/// or a head may be too long before it is wrong, and is refused as that.
const SCHEMATHESIS: &str = r#"
[checks]
positive_data_acceptance.enabled = false
ignored_auth.enabled = false
ensure_resource_availability.enabled = false
use_after_free.enabled = false
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 406, 408, 409, 410, 413, 415, 422, 429, 431]

[[operations]]
include-path = "/v1/auth"
checks.negative_data_rejection.enabled = false
"#;

/// Requests made from the document, in order and not: none is answered with a
/// server's error, and every answer is as the document says.
#[tokio::test]
async fn requests_made_from_the_document_are_answered_as_it_says() {
    let Some(schemathesis) = tools::python("schemathesis==4.32.5", "schemathesis") else {
        return;
    };
    let live = Live::start(&house()).await;
    let settings = tools::scratch("schemathesis.toml");
    std::fs::write(&settings, SCHEMATHESIS).unwrap();
    let output = Command::new(schemathesis)
        .arg("--config-file")
        .arg(settings)
        .args(["run", "--seed", "1", "--max-examples", "40"])
        .args(["--phases", "examples,coverage,fuzzing", "--no-color"])
        // What one run found must not be the next one's.
        .args(["--generation-database", ":memory:"])
        .arg(format!("http://{}/openapi.json", live.address))
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{}", tools::said(&output));
    live.stop().await;
}
