//! A server over a clock that stands still, asked without a socket.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, Response};
use serde_json::{Value, json};
use tidegate::ManualClock;
use tidegate::Store;
use tidegate_http::{Server, Settings};
use tidegate_policy::parse;
use tidegate_service::{Credential, Scope, Service, ServiceBuilder};
use tower::ServiceExt;

use crate::away::Away;

/// Noon of 1 January 2026: where the clock stands.
pub const POLICIES: &str = r#"
[policy.web.limits]
rpm = { calls = 3, per = "1m" }

[policy.chat]
key = "org/user"
[policy.chat.limits]
tpm = { rate = 6_000, per = "1m", burst = 9_000 }
daily = { budget = 20_000, per = "day", zone = "UTC", level = "org" }

[policy.jobs.limits]
running = { concurrency = 1, ttl = "30s" }

[policy.small]
max_keys = 1
failure_mode = "admit"
[policy.small.limits]
rps = { calls = 1, per = "1s" }

[policy.strict]
max_keys = 1
[policy.strict.limits]
rps = { calls = 1, per = "1s" }

[policy.shady.limits]
rpm = { calls = 1, per = "1m", shadow = true }
"#;

/// A server, and the time that it sees.
pub struct House {
    pub service: Service,
    pub time: ManualClock,
    pub server: Server,
}

/// What came back.
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl House {
    pub fn new() -> Self {
        Self::with(Settings::default())
    }

    pub fn with(settings: Settings) -> Self {
        Self::of(POLICIES, settings)
    }

    /// With other policies.
    pub fn of(policies: &str, settings: Settings) -> Self {
        Self::at(Service::builder(), policies, settings)
    }

    /// With a store that cannot tell.
    pub fn away() -> Self {
        Self::on(Away)
    }

    /// On this store.
    pub fn on(store: impl Store) -> Self {
        let service = Service::builder().store(Arc::new(store));
        Self::at(service, POLICIES, Settings::default())
    }

    fn at(service: ServiceBuilder, policies: &str, settings: Settings) -> Self {
        let time = ManualClock::default();
        let file = parse("test.toml", policies).unwrap_or_else(|errors| panic!("{errors}"));
        let service = service.clock(time.clock()).build(&file).unwrap();
        let server = Server::new(service.clone(), settings);
        Self {
            service,
            time,
            server,
        }
    }

    /// From now on only these tokens are let in.
    pub fn lock(&self, tokens: &[(&str, &[Scope], &[&str])]) {
        let credential = |(token, scopes, policies): &(&str, &[Scope], &[&str])| Credential {
            name: (*token).to_owned(),
            sha256: Credential::hash(token),
            scopes: scopes.to_vec(),
            policies: policies.iter().map(|&name| name.to_owned()).collect(),
            namespace: Some("*".to_owned()),
        };
        let credentials = tokens.iter().map(credential);
        self.service.replace_credentials(credentials);
    }

    pub async fn post(&self, path: &str, body: Value) -> Reply {
        self.post_text(path, &body.to_string()).await
    }

    pub async fn post_text(&self, path: &str, body: &str) -> Reply {
        let request = Request::post(path).header("content-type", "application/json");
        self.send(request.body(Body::from(body.to_owned())).unwrap())
            .await
    }

    pub async fn post_as(&self, token: &str, path: &str, body: Value) -> Reply {
        let request = Request::post(path)
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {token}"));
        self.send(request.body(Body::from(body.to_string())).unwrap())
            .await
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.send(Request::get(path).body(Body::empty()).unwrap())
            .await
    }

    pub async fn get_as(&self, token: &str, path: &str) -> Reply {
        let request = Request::get(path).header("authorization", format!("Bearer {token}"));
        self.send(request.body(Body::empty()).unwrap()).await
    }

    pub async fn send(&self, request: Request<Body>) -> Reply {
        Reply::of(self.server.clone().oneshot(request).await.unwrap()).await
    }

    /// Takes a lease on `jobs`; its id.
    pub async fn hold(&self, key: &str) -> String {
        let body = json!({"policy": "jobs", "key": key});
        let reply = self.post("/v1/acquire", body).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()["lease"]["id"].as_str().unwrap().to_owned()
    }

    /// How many slots of `jobs` are free.
    pub async fn free(&self, key: &str) -> u64 {
        let body = json!({"policy": "jobs", "key": key});
        let reply = self.post("/v1/peek", body).await;
        reply.json()["limits"]["running"]["remaining"]
            .as_u64()
            .unwrap()
    }
}

impl Reply {
    pub async fn of(response: Response<Body>) -> Self {
        let (head, body) = response.into_parts();
        Self {
            status: head.status.as_u16(),
            headers: head.headers,
            body: to_bytes(body, usize::MAX).await.unwrap().to_vec(),
        }
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| {
            panic!("{error} in {}", self.text());
        })
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// That it is a problem of this status and code; its detail.
    #[track_caller]
    pub fn problem(&self, status: u16, code: &str) -> String {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json")
        );
        let body = self.json();
        assert_eq!(
            (&body["status"], &body["code"]),
            (&json!(status), &json!(code))
        );
        assert!(body["type"].is_string() && body["title"].is_string());
        body["detail"].as_str().unwrap().to_owned()
    }
}
