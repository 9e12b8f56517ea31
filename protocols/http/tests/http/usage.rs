//! What was used, by hour, day or month.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use std::time::Duration;
use tidegate_http::Settings;

use crate::support::House;

const POLICIES: &str = r#"
[policy.chat]
key = "org/user"
usage = "30d"
[policy.chat.limits]
ttl = { rate = 6_000, per = "1m", burst = 9_000 }
total = { budget = "90", per = "day", zone = "UTC", unit = "0.01", level = "org" }

[policy.uncounted.limits]
rpm = { calls = 3, per = "1m" }
"#;

async fn usage(house: &House, query: &str) -> Vec<Value> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/usage?policy=chat&limit=1{query}{cursor}");
        let page = house.get(&path).await;
        assert_eq!(page.status, 200, "{}", page.text());
        let page = page.json();
        found.extend(page["usage"].as_array().unwrap().iter().cloned());
        match page["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    found.sort_by_key(Value::to_string);
    found
}

#[tokio::test]
async fn usage_is_told_by_key_limit_and_hour_in_the_limits_unit() {
    let house = House::of(POLICIES, Settings::default());
    let alice =
        json!({"policy": "chat", "key": "acme/alice", "amounts": {"ttl": 70, "total": "1.25"}});
    assert_eq!(house.post("/v1/check", alice).await.status, 200);
    let lease = json!({
        "policy": "chat", "key": "acme/bob", "amounts": {"ttl": 100, "total": "3"}, "ttl_ms": 90_000_000
    });
    let lease = house.post("/v1/acquire", lease).await.json();
    house.time.advance(Duration::from_secs(3 * 3_600));
    let settle = json!({
        "policy": "chat", "key": "acme/bob", "lease": lease["lease"]["id"],
        "used": {"ttl": 40, "total": "0.5"}
    });
    assert_eq!(house.post("/v1/settle", settle).await.status, 200);
    let debit = json!({"policy": "chat", "key": "acme/bob", "amounts": {"ttl": 7}});
    assert_eq!(house.post("/v1/debit", debit).await.status, 200);
    let noon = "2026-01-01T12:00:00Z";
    let (acme, alice, bob) = (
        json!({"key": "acme", "limit": "total", "hour": noon, "amount": "1.75"}),
        json!({"key": "acme/alice", "limit": "ttl", "hour": noon, "amount": 70}),
        json!({"key": "acme/bob", "limit": "ttl", "hour": noon, "amount": 40}),
    );
    let later =
        json!({"key": "acme/bob", "limit": "ttl", "hour": "2026-01-01T15:00:00Z", "amount": 7});
    let mut all = vec![acme.clone(), alice, bob.clone(), later.clone()];
    all.sort_by_key(Value::to_string);
    assert_eq!(usage(&house, "").await, all);
    assert_eq!(usage(&house, "&key=acme").await, [acme]);
    assert_eq!(
        usage(&house, "&prefix=acme/b&until=2026-01-01T12:59:00Z").await,
        [bob]
    );
    assert_eq!(usage(&house, "&since=2026-01-01T13:00:00Z").await, [later]);
    assert!(usage(&house, "&key=nobody").await.is_empty());
    // Kept for thirty days after its hour.
    house
        .time
        .advance(Duration::from_secs(30 * 86_400 - 3 * 3_600 + 3_600));
    assert_eq!(usage(&house, "").await.len(), 1);
}

/// A sum may be told in parts, on several pages; few are.
#[tokio::test]
async fn days_and_months_are_added_up() {
    let house = House::of(POLICIES, Settings::default());
    let mut sums = BTreeMap::<[String; 2], u64>::new();
    let mut now: jiff::Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
    for turn in 0_u64..80 {
        let at = now.to_string();
        for (user, amount) in [("acme/alice", 1 + turn % 5), ("acme/bob", 2)] {
            let check = json!({"policy": "chat", "key": user, "amounts": {"ttl": amount}});
            assert_eq!(house.post("/v1/check", check).await.status, 200);
            for length in [10, 7] {
                let time = at.get(..length).unwrap_or_default().to_owned();
                *sums.entry([user.to_owned(), time]).or_default() += amount;
            }
        }
        // Kept for thirty days: what is listed is of the last ones.
        let pause = Duration::from_secs(if turn == 20 { 40 * 86_400 } else { 7 * 3_600 });
        if turn == 20 {
            sums.clear();
        }
        house.time.advance(pause);
        now += pause;
    }
    for (by, length, most) in [
        ("day", 10, 1),
        ("day", 10, 50),
        ("month", 7, 3),
        ("month", 7, 100),
    ] {
        let (mut found, mut told, mut cursor) = (BTreeMap::new(), 0, String::new());
        loop {
            let path = format!("/v1/usage?policy=chat&by={by}&limit={most}{cursor}");
            let page = house.get(&path).await.json();
            let items = page["usage"].as_array().unwrap();
            assert!(items.len() <= most, "{} of {most}", items.len());
            for item in items {
                let (key, begins) = (&item["key"], item["hour"].as_str().unwrap());
                assert!(begins.ends_with("T00:00:00Z"), "{begins}");
                let place = [
                    key.as_str().unwrap().to_owned(),
                    begins[..length].to_owned(),
                ];
                *found.entry(place).or_default() += item["amount"].as_u64().unwrap();
                told += 1;
            }
            match page["cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        let mut all = sums.clone();
        all.retain(|[_, time], _| time.len() == length);
        assert_eq!(found, all, "{by}, {most} at most");
        // Few sums are told in parts, where a page has room for some.
        assert!(most == 1 || told <= 2 * all.len(), "{told} parts");
    }
}

#[tokio::test]
async fn whoever_asks_for_usage_wrongly_is_told_so() {
    let house = House::of(POLICIES, Settings::default());
    for query in [
        "?policy=chat&key=a&entity=b",
        "?policy=chat&prefix=a&key=b",
        "?policy=chat&since=yesterday",
        "?policy=chat&since=2026-01-02T00:00:00Z&until=2026-01-02T00:00:00Z",
        "?policy=chat&cursor=AAAA",
        "?policy=chat&limit=0",
        "?policy=chat&by=week",
        "",
    ] {
        let reply = house.get(&format!("/v1/usage{query}")).await;
        assert_eq!(reply.status, 400, "{query}: {}", reply.text());
    }
    for entity in [
        json!({"id": "acme"}),
        json!({"id": "search", "parent": "acme"}),
        json!({"id": "alice", "parent": "search"}),
    ] {
        let made = house.post("/v1/entities", entity).await;
        assert_eq!(made.status, 200, "{}", made.text());
    }
    // It has as many levels more as a check would be told.
    let check = json!({"policy": "chat", "entity": "alice", "amounts": {"ttl": 1}});
    let check = house.post("/v1/check", check).await;
    let deep = house.get("/v1/usage?policy=chat&entity=alice").await;
    assert_eq!(deep.status, check.status, "{}", deep.text());
    assert_eq!(deep.json()["detail"], check.json()["detail"]);
    assert!(check.status >= 400);
    let reached = house.get("/v1/usage?policy=chat&entity=search").await;
    assert_eq!(reached.status, 200, "{}", reached.text());
    let none = house.get("/v1/usage?policy=other").await;
    none.problem(404, "not_found");
    let uncounted = house.get("/v1/usage?policy=uncounted").await;
    assert_eq!(uncounted.json(), json!({"usage": [], "cursor": null}));
}
