//! What a policy holds, listed, and a lease that is revoked.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tidegate_service::Scope;

use crate::support::House;

/// Every item of a listing, page by page.
async fn all(house: &House, path: &str, items: &str) -> Vec<Value> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = house.get(&format!("{path}{cursor}")).await;
        assert_eq!(page.status, 200, "{}", page.text());
        let page = page.json();
        found.extend(page[items].as_array().unwrap().iter().cloned());
        match page["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return found,
        }
    }
}

#[tokio::test]
async fn keys_are_listed_with_where_they_stand() {
    let house = House::new();
    for key in ["acme/alice", "acme/bob", "zeta/carol"] {
        let request = json!({"policy": "chat", "key": key, "cost": 1_000});
        assert_eq!(house.post("/v1/check", request).await.status, 200);
    }
    let keys = all(&house, "/v1/keys?policy=chat&limit=2", "keys").await;
    let names: BTreeSet<_> = keys
        .iter()
        .map(|key| key["key"].as_str().unwrap())
        .collect();
    let expected = ["acme", "acme/alice", "acme/bob", "zeta", "zeta/carol"];
    assert_eq!((names, keys.len()), (expected.into(), 5));
    let acme = house.get("/v1/keys?policy=chat&key=acme").await.json();
    assert_eq!(acme["keys"][0]["limits"]["daily"]["remaining"], 18_000);
    assert_eq!(acme["keys"][0]["limits"].as_object().unwrap().len(), 1);
    let alice = all(&house, "/v1/keys?policy=chat&prefix=acme/a", "keys").await;
    assert_eq!(alice[0]["limits"]["tpm"]["remaining"], 8_000);
    assert_eq!(alice.len(), 1);
}

#[tokio::test]
async fn a_key_that_is_no_text_is_listed_in_base64() {
    let house = House::new();
    let request = json!({"policy": "web", "key_base64": "/w=="});
    house.post("/v1/check", request).await;
    let keys = all(&house, "/v1/keys?policy=web", "keys").await;
    assert_eq!(
        (&keys[0]["key_base64"], &keys[0]["key"]),
        (&json!("/w=="), &Value::Null)
    );
    let one = all(&house, "/v1/keys?policy=web&key_base64=%2Fw%3D%3D", "keys").await;
    assert_eq!(one, keys);
}

#[tokio::test]
async fn a_lease_is_listed_without_its_id_and_can_be_revoked() {
    let house = House::new();
    let id = house.hold("alice").await;
    house.hold("bob").await;
    assert_eq!(
        all(&house, "/v1/leases?policy=jobs&limit=1", "leases")
            .await
            .len(),
        2
    );
    let page = house.get("/v1/leases?policy=jobs&key=alice").await;
    assert!(!page.text().contains(&id[..8]), "{}", page.text());
    let lease = &page.json()["leases"][0];
    assert_eq!(lease["amounts"], json!({"running": 1}));
    assert_eq!(lease["granted_at"], "2026-01-01T12:00:00Z");
    assert_eq!(lease["expires_at"], "2026-01-01T12:00:30Z");
    let revoke = json!({"policy": "jobs", "key": "alice", "handle": lease["handle"]});
    let ended = house.post("/v1/leases/revoke", revoke.clone()).await;
    assert_eq!(ended.json()["limits"]["running"]["used"], 1);
    let renew = json!({"policy": "jobs", "key": "alice", "lease": id, "ttl_ms": 5_000});
    house
        .post("/v1/renew", renew)
        .await
        .problem(409, "lease_ended");
    assert_ne!(house.hold("alice").await, id);
    let again = house.post("/v1/leases/revoke", revoke).await;
    // It said that the lease ended long ago, which was a moment ago.
    let told = again.problem(404, "not_found");
    assert_eq!(
        told,
        "there is no such lease under this policy and key: it ended and was forgotten, or was never granted; look at the policy and key, or acquire again"
    );
}

#[tokio::test]
async fn a_listing_that_makes_no_sense_is_invalid() {
    let house = House::new();
    for query in [
        "",
        "?policy=web&limit=0",
        "?policy=web&limit=1001",
        "?policy=web&cursor=%21",
        "?policy=web&cursor=AAAA",
        "?policy=web&key=a&prefix=b",
        "?policy=web&key_base64=%21",
        "?policy=web&more=1",
    ] {
        for path in ["/v1/keys", "/v1/leases"] {
            let reply = house.get(&format!("{path}{query}")).await;
            reply.problem(400, "invalid");
        }
    }
    let odd = json!({"policy": "jobs", "key": "k", "handle": "x"});
    house
        .post("/v1/leases/revoke", odd)
        .await
        .problem(400, "invalid");
}

#[tokio::test]
async fn who_is_refused_most_comes_first_and_only_where_one_may_look() {
    let house = House::new();
    for (key, requests) in [("often", 9), ("seldom", 5)] {
        for _ in 0..requests {
            house
                .post("/v1/check", json!({"policy": "web", "key": key}))
                .await;
        }
    }
    let denied = house.get("/v1/denied").await.json();
    let often = json!({"policy": "web", "key": "often", "count": 6, "error": 0});
    assert_eq!(denied["denied"][0], often);
    assert_eq!(denied["denied"][1]["count"], 2);
    let one = house.get("/v1/denied?limit=1&policy=web").await.json();
    assert_eq!(one["denied"], json!([often]));
    let none = house.get("/v1/denied?policy=chat").await.json();
    assert_eq!(none["denied"], json!([]));
    house.lock(&[("chat", &[Scope::Observe], &["chat"])]);
    let seen = house.get_as("chat", "/v1/denied").await.json();
    assert_eq!(seen["denied"], json!([]));
}

#[tokio::test]
async fn what_keys_come_to_is_added_up_level_by_level_and_page_by_page() {
    let house = House::new();
    for key in ["acme/alice", "acme/bob", "zeta/carol"] {
        let request = json!({"policy": "chat", "key": key, "cost": 1_000});
        assert_eq!(house.post("/v1/check", request).await.status, 200);
    }
    let all = house.get("/v1/capacity?policy=chat").await.json();
    assert_eq!((&all["keys"], &all["cursor"]), (&json!(5), &Value::Null));
    let keys = house.get("/v1/keys?policy=chat").await.json();
    let sum = |limit: &str, field: &str| {
        let keys = keys["keys"].as_array().unwrap().iter();
        let own = keys.filter(|key| (limit == "daily") != key["key"].to_string().contains('/'));
        let amounts = own.filter_map(|key| key["limits"][limit][field].as_u64());
        json!(amounts.sum::<u64>())
    };
    for (limit, level, count) in [("daily", "org", 2), ("tpm", "user", 3)] {
        let (capacity, available) = (sum(limit, "limit"), sum(limit, "remaining"));
        let expected = json!({"level": level, "keys": count, "capacity": capacity,
            "available": available, "debt": 0});
        assert_eq!(all["limits"][limit], expected, "{limit}");
    }
    let roots = house.get("/v1/capacity?policy=chat&level=org").await.json();
    let limits = roots["limits"].as_object().unwrap();
    assert_eq!(limits.keys().collect::<Vec<_>>(), ["daily"]);
    let (mut path, mut counted) = ("/v1/capacity?policy=chat&limit=2".to_owned(), 0);
    loop {
        let page = house.get(&path).await.json();
        assert!(page["keys"].as_u64() <= Some(2), "{page}");
        counted += page["keys"].as_u64().unwrap();
        match page["cursor"].as_str() {
            Some(next) => path = format!("/v1/capacity?policy=chat&limit=2&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(counted, 5);
    let strange = house.get("/v1/capacity?policy=chat&level=orb").await;
    let told = strange.problem(400, "invalid");
    assert!(told.contains("no level `orb`; there is `"), "{told}");
    let strange = house.get("/v1/capacity?policy=chat&limit=1001").await;
    strange.problem(400, "invalid");
}
