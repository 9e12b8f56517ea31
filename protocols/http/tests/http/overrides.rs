//! Overrides, set, shown and removed.

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};
use tidegate_http::Settings;
use tidegate_service::Scope;

use crate::support::{House, Reply};

async fn put(house: &House, body: &Value) -> Reply {
    let request = Request::put("/v1/overrides").header("content-type", "application/json");
    house
        .send(request.body(Body::from(body.to_string())).unwrap())
        .await
}

async fn remove(house: &House, query: &str) -> Reply {
    let request = Request::delete(format!("/v1/overrides{query}"));
    house.send(request.body(Body::empty()).unwrap()).await
}

async fn set(house: &House, body: Value) -> Value {
    let reply = put(house, &body).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

fn rpm(calls: u64) -> Value {
    json!({"rpm": {"calls": calls, "per": "1m"}})
}

/// How many `web` grants a key, and at which level that was set.
async fn stands(house: &House, key: &str) -> (u64, Value) {
    let peek = house
        .post("/v1/peek", json!({"policy": "web", "key": key}))
        .await
        .json();
    let limit = peek["limits"]["rpm"]["limit"].as_u64().unwrap();
    (limit, peek["overrides"]["rpm"].clone())
}

#[tokio::test]
async fn the_most_specific_override_holds_from_the_next_decision_on() {
    let house = House::new();
    assert_eq!(stands(&house, "acme").await, (3, Value::Null));
    set(&house, json!({"limits": rpm(4)})).await;
    assert_eq!(stands(&house, "acme").await, (4, json!("everything")));
    set(&house, json!({"policy": "web", "limits": rpm(5)})).await;
    assert_eq!(stands(&house, "acme").await, (5, json!("policy")));
    set(&house, json!({"key": "acme", "limits": rpm(6)})).await;
    assert_eq!(stands(&house, "acme").await, (6, json!("key")));
    let shown = set(
        &house,
        json!({"policy": "web", "key": "acme", "limits": rpm(7)}),
    )
    .await;
    let (noon, version) = ("2026-01-01T12:00:00Z", &shown["version"]);
    assert!(version.as_u64().unwrap() > 0);
    assert_eq!(
        shown,
        json!({"policy": "web", "key": "acme", "level": "key_and_policy",
            "limits": rpm(7), "inert": [], "version": version, "by": "anyone",
            "created_at": noon, "changed_at": noon})
    );
    assert_eq!(stands(&house, "acme").await, (7, json!("key_and_policy")));
    assert_eq!(stands(&house, "else").await, (5, json!("policy")));
    for (query, then) in [
        ("?policy=web&key=acme", (6, json!("key"))),
        ("?key=acme", (5, json!("policy"))),
        ("?policy=web", (4, json!("everything"))),
        ("", (3, Value::Null)),
    ] {
        assert_eq!(remove(&house, query).await.status, 204);
        assert_eq!(stands(&house, "acme").await, then);
        let gone = remove(&house, query).await.problem(404, "not_found");
        assert!(gone.contains("GET /v1/overrides"), "{gone}");
    }
}

#[tokio::test]
async fn a_decision_follows_the_override_and_nobody_is_reset() {
    let house = House::new();
    let request = || async {
        let request = json!({"policy": "web", "key": "acme"});
        house.post("/v1/check", request).await.status
    };
    for expected in [200, 200, 200, 429] {
        assert_eq!(request().await, expected);
    }
    set(
        &house,
        json!({"policy": "web", "key": "acme", "limits": rpm(5)}),
    )
    .await;
    for expected in [200, 200, 429] {
        assert_eq!(request().await, expected);
    }
    remove(&house, "?policy=web&key=acme").await;
    assert_eq!(request().await, 429);
}

#[tokio::test]
async fn overrides_are_listed_in_pages_and_one_by_its_place() {
    let house = House::new();
    for n in 0..5 {
        set(
            &house,
            json!({"policy": "web", "key": format!("k{n}"), "limits": rpm(9)}),
        )
        .await;
    }
    set(&house, json!({"key_base64": "/w==", "limits": rpm(8)})).await;
    set(&house, json!({"policy": "web", "limits": rpm(7)})).await;
    let list = async |query: &str| {
        let reply = house.get(&format!("/v1/overrides{query}")).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()
    };
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = list(&format!("?limit=3{cursor}")).await;
        let overrides = page["overrides"].as_array().unwrap().clone();
        assert!(overrides.len() <= 3);
        found.extend(overrides);
        match page["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(found.len(), 7);
    assert_eq!(found[0]["key_base64"], "/w==");
    assert_eq!(found[0]["level"], "key");
    let whole = list("?limit=7").await;
    assert_eq!(
        (&whole["overrides"], &whole["cursor"]),
        (&json!(found), &Value::Null)
    );
    let of_web = list("?policy=web").await;
    assert_eq!(of_web["overrides"].as_array().unwrap().len(), 6);
    let one = list("?policy=web&exact=true").await;
    assert_eq!(one["overrides"][0]["limits"], rpm(7));
    assert_eq!(one["overrides"].as_array().unwrap().len(), 1);
    assert_eq!(list("?exact=true").await["overrides"], json!([]));
    let by_key = list("?key=k3").await;
    assert_eq!(by_key["overrides"][0]["key"], "k3");
    // What is shown can be sent again.
    for shown in &found {
        let mut body = shown.as_object().unwrap().clone();
        for told in [
            "level",
            "inert",
            "version",
            "by",
            "created_at",
            "changed_at",
        ] {
            body.remove(told);
        }
        let mut again = set(&house, Value::Object(body)).await;
        assert!(again["version"].as_u64() > shown["version"].as_u64());
        again["version"] = shown["version"].clone();
        assert_eq!(&again, shown);
    }
}

#[tokio::test]
async fn everything_wrong_is_told_at_once_with_what_to_change() {
    let house = House::new();
    let body = json!({"policy": "web", "limits": {
        "rpm": {"calls": 5, "per": "soon", "shadow": true},
        "rps": {"calls": 5, "per": "1s"},
        "": {"calls": 0},
    }});
    let reply = put(&house, &body).await;
    let detail = reply.problem(400, "invalid");
    let faults = reply.json()["faults"].as_array().unwrap().clone();
    let about = |limit: &str| {
        let faults = faults.iter();
        faults.filter(|fault| fault["limit"] == limit).count()
    };
    assert!(about("rpm") >= 2 && about("rps") == 1, "{faults:?}");
    assert!(detail.contains("there is `rpm`"), "{detail}");
    for fault in &faults {
        assert!(!fault["help"].as_str().unwrap().is_empty(), "{fault}");
    }
    let list = house.get("/v1/overrides").await.json();
    assert_eq!(list["overrides"], json!([]));
}

#[tokio::test]
async fn what_makes_no_sense_is_invalid_and_sets_nothing() {
    let house = House::new();
    for body in [
        json!({}),
        json!({"limits": {}}),
        json!({"limits": []}),
        json!({"limits": {"rpm": 5}}),
        json!({"limits": {"rpm": {"calls": -5, "per": "1m"}}}),
        json!({"limits": {"rpm": {"calls": 1.5, "per": "1m"}}}),
        json!({"limits": {"rpm": {"calls": null, "per": "1m"}}}),
        json!({"limits": {"rpm": {"rate": 5, "per": "1m"}}}),
        json!({"limits": {"nothing": {"calls": 5, "per": "1m"}}}),
        json!({"policy": null, "limits": rpm(5)}),
        json!({"policy": "", "limits": rpm(5)}),
        json!({"key": "", "limits": rpm(5)}),
        json!({"key": "a", "key_base64": "/w==", "limits": rpm(5)}),
        json!({"polic": "web", "limits": rpm(5)}),
    ] {
        put(&house, &body).await.problem(400, "invalid");
    }
    let twice = "{\"limits\":{\"rpm\":{\"calls\":5,\"per\":\"1m\"},\
                 \"rpm\":{\"calls\":6,\"per\":\"1m\"}}}";
    let request = Request::put("/v1/overrides").header("content-type", "application/json");
    let twice = house.send(request.body(Body::from(twice)).unwrap()).await;
    assert!(twice.problem(400, "invalid").contains("given twice"));
    let many: serde_json::Map<String, Value> = (0..257)
        .map(|n| (format!("l{n}"), json!({"calls": 1, "per": "1m"})))
        .collect();
    let many = put(&house, &json!({"limits": many})).await;
    assert!(many.problem(400, "invalid").contains("at most 256"));
    let unknown = json!({"policy": "none", "limits": rpm(5)});
    put(&house, &unknown).await.problem(404, "not_found");
    for query in [
        "?policy=",
        "?key=",
        "?key=a&key_base64=AA==",
        "?more=1",
        "?key_base64=%21",
    ] {
        let list = house.get(&format!("/v1/overrides{query}")).await;
        list.problem(400, "invalid");
        remove(&house, query).await.problem(400, "invalid");
    }
    for query in [
        "?limit=0",
        "?limit=1001",
        "?cursor=AAAA",
        "?cursor=%21",
        "?exact=7",
    ] {
        let list = house.get(&format!("/v1/overrides{query}")).await;
        list.problem(400, "invalid");
    }
    let list = house.get("/v1/overrides").await.json();
    assert_eq!(list["overrides"], json!([]));
}

#[tokio::test]
async fn who_administers_one_policy_sets_overrides_there_alone() {
    let house = House::new();
    let all = house.service.enter(None).unwrap();
    let limit = tidegate::Limit::calls("rpm", 9, std::time::Duration::from_secs(60));
    let everywhere = tidegate_service::OverrideTarget::everything();
    let everyone = house
        .service
        .set_override(&all, &everywhere, &[limit])
        .wait();
    assert!(everyone.is_ok());
    house.lock(&[("web", &[Scope::Administer, Scope::Observe], &["web"])]);
    let put = async |body: Value| {
        let request = Request::put("/v1/overrides")
            .header("content-type", "application/json")
            .header("authorization", "Bearer web");
        let body = Body::from(body.to_string());
        house.send(request.body(body).unwrap()).await
    };
    assert_eq!(
        put(json!({"policy": "web", "key": "k", "limits": rpm(5)}))
            .await
            .status,
        200
    );
    let key = put(json!({"key": "k", "limits": rpm(5)})).await;
    key.problem(403, "forbidden");
    let listed = house.get_as("web", "/v1/overrides").await.json();
    let listed = listed["overrides"].as_array().unwrap();
    assert_eq!((listed.len(), &listed[0]["policy"]), (1, &json!("web")));
    let exact = house.get_as("web", "/v1/overrides?exact=true").await;
    exact.problem(403, "forbidden");
}

#[tokio::test]
async fn an_override_holds_at_every_member_of_a_pool_and_outlives_its_policy() {
    let pool = "[policy.chat.member.eu.limits]\nrpm = { calls = 10, per = '1m' }\n\
                [policy.chat.member.us.limits]\nrpm = { calls = 20, per = '1m' }\n";
    let house = House::of(pool, Settings::default());
    set(&house, json!({"policy": "chat", "limits": rpm(7)})).await;
    for member in ["eu", "us"] {
        let request = json!({"policy": "chat", "key": "k", "member": member});
        let peek = house.post("/v1/peek", request).await.json();
        assert_eq!(peek["limits"]["rpm"]["limit"], 7, "{member}");
        assert_eq!(peek["overrides"], json!({"rpm": "policy"}), "{member}");
    }
    let other = "[policy.web.limits]\nrpm = { calls = 3, per = '1m' }\n";
    let go_over = |text: &str| {
        let file = tidegate_policy::parse("test.toml", text).unwrap();
        house.service.exchange("test", &file).unwrap();
    };
    go_over(other);
    let list = house.get("/v1/overrides").await.json();
    assert_eq!(list["overrides"][0]["inert"], json!(["rpm"]));
    assert_eq!(stands(&house, "k").await, (3, Value::Null));
    go_over(pool);
    let list = house.get("/v1/overrides").await.json();
    assert_eq!(list["overrides"][0]["inert"], json!([]));
    go_over(other);
    assert_eq!(remove(&house, "?policy=chat").await.status, 204);
}

/// It was read as U+FFFD, and removed what another key had.
#[tokio::test]
async fn a_query_that_is_not_text_changes_nothing() {
    let house = House::new();
    let other = json!({"key": "\u{fffd}", "policy": "web", "limits": rpm(7)});
    set(&house, other).await;
    for query in [
        "?policy=web&key=%FF",
        "?policy=web&key=%ED%A0%80",
        "?k%FF=1",
    ] {
        let told = remove(&house, query).await.problem(400, "invalid");
        assert!(told.contains("`key_base64`"), "{told}");
    }
    assert_eq!(stands(&house, "\u{fffd}").await.0, 7);
}
