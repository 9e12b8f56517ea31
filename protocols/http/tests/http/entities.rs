//! Entities, over HTTP: created, changed, deleted and listed, and asked by their ids.

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};
use tidegate_http::Settings;

use crate::support::{House, Reply};

const POLICY: &str = "[policy.chat]\nkey = 'org/team/user'\npartial_keys = true\n\
    [policy.chat.limits]\norg_rpm = { calls = 3, per = '1h', level = 'org' }\n\
    rpm = { calls = 2, per = '1h', level = 'user' }\n\
    [policy.jobs]\nkey = 'org/team/user'\npartial_keys = true\n\
    [policy.jobs.limits]\nrunning = { concurrency = 1, ttl = '1h', level = 'user' }\n";

const PATH: &str = "/v1/entities";

async fn ask(house: &House, method: &str, path: &str, says: &[(&str, &str)], body: Value) -> Reply {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in says {
        request = request.header(*name, *value);
    }
    let body = match body {
        Value::Null => Body::empty(),
        body => {
            request = request.header("content-type", "application/json");
            Body::from(body.to_string())
        }
    };
    house.send(request.body(body).unwrap()).await
}

async fn create(house: &House, body: Value) -> Value {
    let reply = house.post(PATH, body).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

/// Acme with two teams, and Alice in one.
async fn acme() -> House {
    let house = House::of(POLICY, Settings::default());
    create(&house, json!({"id": "acme"})).await;
    create(&house, json!({"id": "search", "parent": "acme"})).await;
    create(&house, json!({"id": "ads", "parent": "acme"})).await;
    create(&house, json!({"id": "alice", "parent": "search"})).await;
    house
}

fn tag(reply: &Reply) -> String {
    reply.header("etag").expect("a version").to_owned()
}

#[tokio::test]
async fn an_entity_is_created_shown_changed_on_its_version_and_deleted() {
    let house = acme().await;
    let path = "/v1/entities/alice";
    let shown = house.get(path).await;
    let noon = "2026-01-01T12:00:00Z";
    let first = tag(&shown);
    let alice = shown.json();
    assert_eq!(first, format!("\"{}\"", alice["version"]));
    assert_eq!(
        alice,
        json!({"id": "alice", "version": alice["version"], "ancestors": ["acme", "search"],
            "parent": "search", "name": "", "metadata": {}, "charge_parents": true,
            "by": "anyone", "created_at": noon, "changed_at": noon})
    );
    let on_first = [("if-match", first.as_str())];
    let name = json!({"name": "Alice", "metadata": {"tier": "gold"}, "reason": "hired"});
    let changed = ask(&house, "PATCH", path, &on_first, name).await;
    assert_eq!(changed.status, 200, "{}", changed.text());
    let second = tag(&changed);
    assert_ne!(first, second);
    assert_eq!(changed.json()["metadata"]["tier"], "gold");
    let late = ask(&house, "PATCH", path, &on_first, json!({"name": "B"})).await;
    assert_eq!(tag(&late), second);
    let late = late.problem(412, "conflict");
    assert!(late.contains("the entity `alice` is at version"), "{late}");
    let late = ask(&house, "DELETE", path, &on_first, Value::Null).await;
    late.problem(412, "conflict");
    let twice = house.post(PATH, json!({"id": "alice"})).await;
    assert_eq!(tag(&twice), second);
    twice.problem(412, "conflict");
    let on_it = [("if-match", "*")];
    let gone = ask(&house, "DELETE", path, &on_it, Value::Null).await;
    assert_eq!(gone.status, 204);
    let none = house.get(path).await.problem(404, "not_found");
    assert_eq!(
        none,
        "there is no entity `alice`; create it, or correct the id"
    );
    assert_eq!(house.get("/v1/audit?entity=").await.status, 400);
    let events = house.get("/v1/audit?entity=alice").await.json();
    let events = events["events"].as_array().unwrap();
    let told: Vec<_> = events
        .iter()
        .map(|event| (event["action"].as_str().unwrap(), &event["after"]["parent"]))
        .collect();
    let search = json!("search");
    assert_eq!(
        told,
        [
            ("create_entity", &search),
            ("change_entity", &search),
            ("delete_entity", &Value::Null),
        ]
    );
    assert_eq!(events[1]["before"]["name"], "");
    assert_eq!(
        (&events[1]["entity"], &events[1]["reason"]),
        (&json!("alice"), &json!("hired"))
    );
}

#[tokio::test]
async fn entities_and_children_are_listed_in_pages() {
    let house = acme().await;
    let page = house.get("/v1/entities?limit=3").await.json();
    let ids = |page: &Value| -> Vec<String> {
        let all = page["entities"].as_array().unwrap().iter();
        all.map(|one| one["id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(ids(&page), ["acme", "ads", "alice"]);
    let cursor = page["cursor"].as_str().unwrap();
    let rest = house.get(&format!("/v1/entities?cursor={cursor}")).await;
    let rest = rest.json();
    assert_eq!(
        (ids(&rest), &rest["cursor"]),
        (vec!["search".to_owned()], &Value::Null)
    );
    let children = house.get("/v1/entities/acme/children").await.json();
    assert_eq!(ids(&children), ["ads", "search"]);
    // An id of any letters.
    create(&house, json!({"id": "a/b %", "parent": "ads"})).await;
    let shown = house.get("/v1/entities/a%2Fb%20%25").await.json();
    assert_eq!(shown["ancestors"], json!(["acme", "ads"]));
    let children = house.get("/v1/entities/ads/children").await.json();
    assert_eq!(ids(&children), ["a/b %"]);
    house
        .get("/v1/entities/nobody/children")
        .await
        .problem(404, "not_found");
    house
        .get("/v1/entities?limit=0")
        .await
        .problem(400, "invalid");
}

#[tokio::test]
async fn what_speaks_against_a_change_is_said_and_has_a_code() {
    let house = acme().await;
    let nobody = json!({"id": "x", "parent": "nobody"});
    let nobody = house.post(PATH, nobody).await.problem(404, "not_found");
    assert_eq!(
        nobody,
        "there is no entity `nobody`; create it, or correct the id"
    );
    let own = json!({"id": "x", "parent": "x"});
    let own = house.post(PATH, own).await.problem(400, "invalid");
    assert!(own.contains("cannot belong to `x`"), "{own}");
    let parent = ask(&house, "DELETE", "/v1/entities/search", &[], Value::Null).await;
    let parent = parent.problem(409, "in_use");
    assert!(parent.contains("has children, such as `alice`"), "{parent}");
    for body in [
        json!({"id": ""}),
        json!({"id": "x", "parent": null}),
        json!({"id": "x", "metadata": {"a": 1}}),
        json!({"name": "x"}),
    ] {
        house.post(PATH, body).await.problem(400, "invalid");
    }
    let nothing = ask(&house, "PATCH", "/v1/entities/acme", &[], json!({})).await;
    let nothing = nothing.problem(400, "invalid");
    assert!(
        nothing.contains("say what of the entity is to change"),
        "{nothing}"
    );
}

#[tokio::test]
async fn an_entity_moves_and_keeps_what_it_has_used() {
    let house = acme().await;
    let path = "/v1/entities/alice";
    let check = json!({"policy": "chat", "entity": "alice"});
    assert_eq!(house.post("/v1/check", check.clone()).await.status, 200);
    let shift = |parent: &str| {
        let parent = json!({"parent": parent, "reason": "she changed teams"});
        let house = &house;
        async move { ask(house, "PATCH", path, &[], parent).await }
    };
    let job = json!({"policy": "jobs", "entity": "alice"});
    let lease = house.post("/v1/acquire", job.clone()).await.json();
    let leased = shift("ads").await.problem(409, "in_use");
    assert!(
        leased.contains("holds leases of the policy `jobs`"),
        "{leased}"
    );
    let mut end = job.clone();
    end["lease"] = lease["lease"]["id"].clone();
    assert_eq!(house.post("/v1/release", end).await.status, 200);
    let moved = shift("ads").await;
    assert_eq!(moved.status, 200, "{}", moved.text());
    assert_eq!(moved.json()["parent"], "ads");
    let shown = house.get(path).await.json();
    assert_eq!(shown["ancestors"], json!(["acme", "ads"]));
    let answer = house.post("/v1/check", check.clone()).await.json();
    assert_eq!(answer["limits"]["rpm"]["remaining"], 0);
    assert_eq!(answer["limits"]["org_rpm"]["remaining"], 1);
    assert_eq!(house.post("/v1/check", check).await.status, 429);
    assert_eq!(house.post("/v1/acquire", job).await.status, 200);
    shift("nobody").await.problem(404, "not_found");
    create(&house, json!({"id": "else"})).await;
    for (parent, words) in [
        ("alice", "`alice` itself"),
        ("else", "has another root than `acme`"),
        ("acme", "is at level 3 and would be at level 2"),
    ] {
        let wrong = shift(parent).await.problem(400, "invalid");
        assert!(wrong.contains(words), "{wrong}");
    }
    let events = house.get("/v1/audit?entity=alice").await.json();
    let events = events["events"].as_array().unwrap();
    assert_eq!(events.len(), 2);
    assert_eq!(events[1]["reason"], "she changed teams");
    let parents = [
        &events[1]["before"]["parent"],
        &events[1]["after"]["parent"],
    ];
    assert_eq!(parents, ["search", "ads"]);
}

#[tokio::test]
async fn a_request_names_an_entity_and_its_ancestors_are_charged() {
    let house = acme().await;
    let check = json!({"policy": "chat", "entity": "alice"});
    for left in [1, 0] {
        let answer = house.post("/v1/check", check.clone()).await.json();
        assert_eq!(answer["limits"]["rpm"]["remaining"], left);
    }
    let own = house.post("/v1/check", check.clone()).await;
    assert_eq!(own.status, 429);
    let own = own.json();
    assert_eq!(
        (&own["level"], &own["entity"]),
        (&json!("user"), &json!("alice"))
    );
    create(&house, json!({"id": "bob", "parent": "ads"})).await;
    let check = json!({"policy": "chat", "entity": "bob"});
    assert_eq!(house.post("/v1/check", check.clone()).await.status, 200);
    let above = house.post("/v1/check", check.clone()).await;
    assert_eq!(above.status, 429);
    let above = above.json();
    assert_eq!(above["entity"], "acme");
    assert_eq!(above["violated-policies"], json!(["org_rpm"]));
    let words = "refused by org_rpm of the org acme; ";
    assert!(
        above["detail"].as_str().unwrap().starts_with(words),
        "{above}"
    );
    let both = json!({"policy": "chat", "entity": "bob", "key": "bob"});
    house.post("/v1/check", both).await.problem(400, "invalid");
    let nobody = json!({"policy": "chat", "entity": "nobody"});
    let nobody = house.post("/v1/check", nobody).await;
    assert_eq!(
        nobody.problem(404, "not_found"),
        "there is no entity `nobody`; create it, or correct the id"
    );
    // A lease, by the same id from its begin to its end.
    let job = json!({"policy": "jobs", "entity": "bob"});
    let lease = house.post("/v1/acquire", job.clone()).await.json();
    let leased = ask(&house, "DELETE", "/v1/entities/bob", &[], Value::Null).await;
    leased.problem(409, "in_use");
    let mut end = job.clone();
    end["lease"] = lease["lease"]["id"].clone();
    assert_eq!(house.post("/v1/release", end).await.status, 200);
    assert_eq!(house.post("/v1/acquire", job).await.status, 200);
}

#[tokio::test]
async fn an_override_names_an_entity_in_place_of_its_key() {
    let house = acme().await;
    let limits = json!({"rpm": {"calls": 9, "per": "1h"}});
    let body = json!({"policy": "chat", "entity": "alice", "limits": limits,
        "expires_at": "2026-01-01T13:00:00Z"});
    let set = ask(&house, "PUT", "/v1/overrides", &[], body).await;
    assert_eq!(set.status, 200, "{}", set.text());
    let set = set.json();
    assert_eq!(set["key"], "/acme//alice", "wherever she stands");
    let exact = "/v1/overrides?policy=chat&entity=alice&exact=true";
    let there = house.get(exact).await.json();
    assert_eq!(there["overrides"], json!([set]));
    let listed = house.get("/v1/overrides?entity=acme").await.json();
    assert_eq!(listed["overrides"], json!([]));
    let both = json!({"key": "acme", "entity": "alice", "limits": limits});
    let both = ask(&house, "PUT", "/v1/overrides", &[], both).await;
    let told = both.problem(400, "invalid");
    assert!(told.contains("in place of a key"), "{told}");
    let nobody = json!({"entity": "nobody", "limits": limits});
    ask(&house, "PUT", "/v1/overrides", &[], nobody)
        .await
        .problem(404, "not_found");
    house
        .get("/v1/overrides?entity=nobody")
        .await
        .problem(404, "not_found");
    let remove = "/v1/overrides?policy=chat&entity=alice";
    let removed = ask(&house, "DELETE", remove, &[], Value::Null).await;
    assert_eq!(removed.status, 204, "{}", removed.text());
    assert_eq!(house.get(exact).await.json()["overrides"], json!([]));
}
