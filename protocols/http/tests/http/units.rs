//! Money and fractions: amounts of limits with a unit, exact in every verb.

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};
use tidegate_http::Settings;

use crate::support::House;

const SPEND: &str = "
[policy.spend.limits]
usd = { budget = '2.50', per = '1h', unit = '0.01' }
running = { concurrency = 5 }

[policy.both.limits]
usd = { budget = 3, per = '1h', unit = '0.01' }
tokens = { rate = 100, per = '1h' }
";

fn house() -> House {
    House::of(SPEND, Settings::default())
}

fn about(amount: Value) -> Value {
    json!({"policy": "spend", "key": "k", "amounts": {"usd": amount, "running": 0}})
}

async fn left(house: &House) -> Value {
    let peek = house.post("/v1/peek", about(json!("0.01"))).await.json();
    peek["limits"]["usd"]["remaining"].clone()
}

#[tokio::test]
async fn a_check_takes_exactly_what_a_decimal_says() {
    let house = house();
    // What ten times 0.1 comes to as binary fractions is not 1.
    for _ in 0..10 {
        let reply = house.post("/v1/check", about(json!("0.10"))).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
    }
    assert_eq!(left(&house).await, "1.50");
    let whole = house.post("/v1/check", about(json!(1))).await.json();
    assert_eq!(whole["limits"]["usd"]["limit"], "2.50");
    assert_eq!(whole["limits"]["usd"]["remaining"], "0.50");
    assert_eq!(whole["limits"]["usd"]["debt"], "0.00");
    assert_eq!(
        house.post("/v1/check", about(json!("0.51"))).await.status,
        429
    );
    assert_eq!(
        house.post("/v1/check", about(json!("0.5"))).await.status,
        200
    );
    let debit = house.post("/v1/debit", about(json!("1.05"))).await.json();
    assert_eq!(debit["limits"]["usd"]["debt"], "1.05");
}

#[tokio::test]
async fn what_is_no_amount_of_the_unit_is_told_and_takes_nothing() {
    let house = house();
    for (amount, status, detail) in [
        (
            json!("0.001"),
            400,
            "limit `usd`: 0.001 is finer than the limit's unit, 0.01",
        ),
        (json!("-1"), 400, "`amounts.usd`: `-1` is no amount"),
        (json!("1e2"), 400, "`amounts.usd`: `1e2` is no amount"),
        (json!(""), 400, "`amounts.usd`: `` is no amount"),
        (
            json!("90071992547409.92"),
            400,
            "limit `usd`: 90071992547409.92 is more than the largest amount, 90071992547409.91",
        ),
        (
            json!(9_007_199_254_740_991_u64),
            400,
            "limit `usd`: 9007199254740991 is more than the largest amount, 90071992547409.91",
        ),
        (
            json!(0.25),
            400,
            "`amounts.usd`: 0.25 has a point, or is too large: an amount is a whole number from 0 to \
             9007199254740991, or a decimal in quotes, such as \"0.25\"",
        ),
        (
            json!("2.51"),
            422,
            "never: usd grants at most 2.50 at once; ask for less, or raise the limit",
        ),
    ] {
        let reply = house.post("/v1/check", about(amount.clone())).await;
        let told = reply.json()["detail"].as_str().unwrap().to_owned();
        assert!(told.starts_with(detail), "{amount}: {told}");
        assert_eq!(reply.status, status, "{amount}");
    }
    let of_slots = json!({"policy": "spend", "key": "k", "amounts": {"running": "0.5", "usd": 0}});
    let reply = house.post("/v1/acquire", of_slots).await;
    let told = reply.problem(400, "invalid");
    assert_eq!(
        told,
        "limit `running`: 0.5 is finer than the limit's unit, 1"
    );
    assert_eq!(left(&house).await, "2.50");
}

#[tokio::test]
async fn a_lease_is_settled_and_listed_in_its_unit() {
    let house = house();
    let request = json!({"policy": "spend", "key": "k", "amounts": {"usd": "1.20"}});
    let lease = house.post("/v1/acquire", request).await.json();
    assert_eq!(lease["limits"]["usd"]["remaining"], "1.30");
    let listed = house.get("/v1/leases?policy=spend").await.json();
    assert_eq!(
        listed["leases"][0]["amounts"],
        json!({"usd": "1.20", "running": 1})
    );
    let keys = house.get("/v1/keys?policy=spend").await.json();
    assert_eq!(keys["keys"][0]["limits"]["usd"]["remaining"], "1.30");
    let settle = json!({
        "policy": "spend", "key": "k", "lease": lease["lease"]["id"], "used": {"usd": "0.35"}
    });
    let finer = json!({
        "policy": "spend", "key": "k", "lease": lease["lease"]["id"], "cost": "0.125"
    });
    house
        .post("/v1/settle", finer)
        .await
        .problem(400, "invalid");
    let by_cost = json!({
        "policy": "spend", "key": "k", "lease": lease["lease"]["id"], "cost": "1.00"
    });
    let adjusted = house.post("/v1/adjust", by_cost).await.json();
    assert_eq!(adjusted["limits"]["usd"]["remaining"], "1.50");
    let settled = house.post("/v1/settle", settle).await.json();
    assert_eq!(
        settled["limits"]["usd"],
        json!({"taken": "1.00", "used": "0.35"})
    );
    assert_eq!(left(&house).await, "2.15");
    let foreseen = house
        .post("/v1/forecast", about(json!("0.50")))
        .await
        .json();
    assert_eq!(foreseen["limits"]["usd"]["spendable"], 4);
    assert_eq!(foreseen["limits"]["usd"]["remaining"], "2.15");
}

#[tokio::test]
async fn a_cost_is_in_the_unit_of_the_rates_that_it_is_of() {
    let house = house();
    let cost = |policy, amounts: Value| {
        json!({
            "policy": policy, "key": "k", "cost": "0.75", "amounts": amounts
        })
    };
    let reply = house
        .post("/v1/check", cost("spend", json!({"running": 0})))
        .await;
    assert_eq!(reply.json()["limits"]["usd"]["remaining"], "1.75");
    let reply = house.post("/v1/check", cost("both", json!({}))).await;
    assert_eq!(
        reply.problem(400, "invalid"),
        "limits `usd` and `tokens` have different units, so that one cost cannot be of both; \
         name their amounts instead"
    );
    let reply = house
        .post("/v1/check", cost("both", json!({"tokens": 7})))
        .await;
    assert_eq!(reply.json()["limits"]["usd"]["remaining"], "2.25");
    assert_eq!(reply.json()["limits"]["tokens"]["remaining"], 93);
    let request = Request::get("/v1/auth?policy=spend&key=new&cost=0.25");
    let request = request.body(Body::empty()).unwrap();
    let reply = house.send(request).await;
    // It has a limit of concurrency, and asks for no lease.
    assert_eq!(reply.status, 400, "{}", reply.text());
    let many = json!({"checks": [
        {"policy": "spend", "key": "m", "amounts": {"usd": "0.01", "running": 0}},
        {"policy": "spend", "key": "m", "amounts": {"usd": "0.001", "running": 0}},
        {"policy": "both", "key": "m", "amounts": {"usd": "2.99"}, "cost": 1},
    ]});
    let answers = house.post("/v1/check-many", many).await.json()["answers"].clone();
    assert_eq!(answers[0]["limits"]["usd"]["remaining"], "2.49");
    assert_eq!(answers[1]["problem"]["code"], "invalid");
    assert_eq!(answers[2]["limits"]["usd"]["remaining"], "0.01");
}

#[tokio::test]
async fn a_policy_and_an_override_say_the_unit() {
    let house = house();
    let policy = house.get("/v1/policies/spend").await.json();
    let usd = &policy["limits"][0];
    assert_eq!(
        (&usd["capacity"], &usd["unit"]),
        (&json!("2.50"), &json!("0.01"))
    );
    assert_eq!(policy["limits"][1].get("unit"), None);
    let put = async |budget: Value| {
        let limits = json!({"usd": {"budget": budget, "per": "1h"}});
        let body = json!({"policy": "spend", "key": "k", "limits": limits}).to_string();
        let request = Request::put("/v1/overrides").header("content-type", "application/json");
        house.send(request.body(Body::from(body)).unwrap()).await
    };
    let set = put(json!("10.05")).await;
    let expected = json!({"budget": "10.05", "per": "1h", "unit": "0.01"});
    assert_eq!(set.json()["limits"]["usd"], expected, "{}", set.text());
    assert_eq!(left(&house).await, "10.05");
    // Whole ones are ones, as everywhere.
    assert_eq!(put(json!(20)).await.status, 200);
    assert_eq!(left(&house).await, "20.00");
    let finer = put(json!("0.005")).await;
    assert!(
        finer.text().contains("finer than the limit's unit, 0.01"),
        "{}",
        finer.text()
    );
}
