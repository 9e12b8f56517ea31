//! Requests that make no sense: told so, and nothing changes.

use axum::body::Body;
use axum::http::Request;
use serde_json::json;

use crate::support::House;

#[tokio::test]
async fn what_is_wrong_with_a_body_is_said_and_where() {
    let house = House::new();
    let cases = [
        ("", "the body ends before its JSON object does"),
        ("{", "ends before its JSON object does (line 1, column 1)"),
        (r#"{"policy":"web","ke"#, "expected an object such as"),
        ("[]", "found an array, expected an object"),
        (r#"["web","k"]"#, "found an array, expected an object"),
        // It said `key must be a string at line 1 column 2`.
        (r#"{policy:"web"}"#, "not JSON: key must be a string"),
        (
            "nothing",
            "not JSON: a word that JSON does not know at line 1",
        ),
        (r#"{"key":"k"}"#, "missing field `policy`"),
        (r#"{"policy":"web"}"#, "`key` is missing"),
        (r#"{"policy":"web","key":null}"#, "`key`: found null"),
        (r#"{"policy":"web","key":7}"#, "`key`: found integer `7`"),
        (
            r#"{"policy":"web","key":"k","key_base64":"aw=="}"#,
            "not both",
        ),
        (
            r#"{"policy":"web","key_base64":"aw"}"#,
            "`key_base64`: this is not padded Base64",
        ),
        (
            r#"{"policy":"web","key":"k","costs":1}"#,
            "unknown field `costs`",
        ),
        (
            r#"{"policy":"web","key":"k","cost":1,"cost":2}"#,
            "duplicate field `cost`",
        ),
        (
            r#"{"policy":"web","key":"k"} x"#,
            "not JSON: trailing characters",
        ),
        (r#"{"policy":"web","key":""}"#, "the key is empty"),
        (r#"{"policy":"chat","key":"/x","cost":1}"#, "empty segment"),
        (
            r#"{"policy":"web","key":"k","amounts":{"tpm":1}}"#,
            "there is no limit `tpm` here",
        ),
        (
            r#"{"policy":"web","key":"k","amounts":[1]}"#,
            "`amounts`: found an array",
        ),
        (
            r#"{"policy":"web","key":"k","amounts":{"rpm":0}}"#,
            "the request takes nothing",
        ),
        (
            r#"{"policy":"web","key":"k","amounts":{"rpm":1,"rpm":1}}"#,
            "limit `rpm` is named twice",
        ),
        (r#"{"policy":"chat","key":"acme/x"}"#, "needs an amount"),
    ];
    for (body, expected) in cases {
        let detail = house
            .post_text("/v1/check", body)
            .await
            .problem(400, "invalid");
        assert!(detail.contains(expected), "{body}: {detail}");
    }
}

/// It said `expected u64`.
#[tokio::test]
async fn a_time_in_words_is_told_to_be_in_milliseconds() {
    let house = House::new();
    let body = r#"{"policy":"jobs","key":"k","wait_ms":"2s, expected u64"}"#;
    let told = house.post_text("/v1/acquire", body).await;
    let told = told.problem(400, "invalid");
    let expected = "`wait_ms`: found string \"2s, expected u64\", expected a whole number of \
                    milliseconds, such as 2000 at line 1";
    assert!(told.starts_with(expected), "{told}");
}

#[tokio::test]
async fn an_amount_is_a_whole_number_that_fits() {
    let house = House::new();
    let cases = [
        ("-1", "-1 is negative"),
        ("-0", "-0 is negative"),
        ("\"-0\"", "`-0` is no amount"),
        ("1.5", "1.5 has a point, or is too large"),
        ("1e3", "1000.0 has a point, or is too large"),
        ("9007199254740992", "9007199254740992 is too large"),
        (
            "18446744073709551616",
            "1.8446744073709552e19 has a point, or is too large",
        ),
        ("1e999", "number out of range"),
        ("NaN", "expected value"),
        ("Infinity", "expected value"),
        ("\"7,5\"", "`7,5` is no amount"),
        ("\"7.\"", "`7.` is no amount"),
        ("\".5\"", "`.5` is no amount"),
        ("\"\"", "`` is no amount"),
        ("\"0.1234567891\"", "`0.1234567891` is no amount"),
        ("true", "found boolean"),
        ("null", "found null"),
    ];
    for (amount, expected) in cases {
        let requests = [
            (
                "cost",
                format!(r#"{{"policy":"web","key":"k","cost":{amount}}}"#),
            ),
            (
                "amounts.rpm",
                format!(r#"{{"policy":"web","key":"k","amounts":{{"rpm":{amount}}}}}"#),
            ),
        ];
        for (place, body) in requests {
            let detail = house
                .post_text("/v1/check", &body)
                .await
                .problem(400, "invalid");
            assert!(detail.contains(expected), "{body}: {detail}");
            assert!(
                detail.contains(place)
                    || expected.starts_with("number")
                    || expected.starts_with("expected"),
                "{body}: {detail}"
            );
        }
    }
    let most = r#"{"policy":"shady","key":"k","amounts":{"rpm":9007199254740991}}"#;
    assert_eq!(house.post_text("/v1/check", most).await.status, 200);
    let peek = house
        .post("/v1/peek", json!({"policy": "web", "key": "k"}))
        .await
        .json();
    assert_eq!(peek["limits"]["rpm"]["remaining"], 3);
}

#[tokio::test]
async fn numbers_of_a_lease_are_checked_too() {
    let house = House::new();
    let request = |member: &str| format!(r#"{{"policy":"jobs","key":"k",{member}}}"#);
    let members = [
        r#""priority":256"#,
        r#""priority":-1"#,
        r#""wait_ms":-1"#,
        r#""wait_ms":1.5"#,
        r#""ttl_ms":0"#,
        r#""ttl_ms":18446744073709551615"#,
        r#""ttl_ms":null"#,
        r#""idempotency_key":"""#,
    ];
    for member in members {
        house
            .post_text("/v1/acquire", &request(member))
            .await
            .problem(400, "invalid");
    }
    for id in [
        "",
        "7",
        "+123456789abcdef0123456789abcdef0",
        "g123456789abcdef0123456789abcdef",
    ] {
        let end = json!({"policy": "jobs", "key": "k", "lease": id});
        let detail = house.post("/v1/release", end).await.problem(400, "invalid");
        assert!(
            detail.starts_with("`lease`: a lease's id has 32 hexadecimal digits"),
            "{detail}"
        );
    }
    assert_eq!(house.free("k").await, 1);
}

#[tokio::test]
async fn a_long_key_and_deep_nesting_are_refused() {
    let house = House::new();
    let longest = json!({"policy": "web", "key": "k".repeat(4_096)});
    assert_eq!(house.post("/v1/check", longest).await.status, 200);
    let long = json!({"policy": "web", "key": "k".repeat(4_097)});
    house.post("/v1/check", long).await.problem(400, "invalid");
    let deep = format!(r#"{{"policy":{}"#, "[".repeat(30_000));
    house
        .post_text("/v1/check", &deep)
        .await
        .problem(400, "invalid");
}

/// Each name was held against all before it: a body of 64 KB took as long as some hundred
/// thousand checks, whatever its token was for.
#[tokio::test]
async fn so_many_names_of_limits_are_read_and_no_more() {
    let house = House::new();
    let body = |count: usize| {
        let names = (0..count).map(|nth| format!("\"{nth}\":0"));
        let names = names.collect::<Vec<_>>().join(",");
        format!("{{\"policy\":\"web\",\"key\":\"k\",\"amounts\":{{{names}}}}}")
    };
    for (count, expected) in [
        (1_024, "there is no limit `0` here"),
        (1_025, "at most 1024 limits"),
    ] {
        let detail = house
            .post_text("/v1/check", &body(count))
            .await
            .problem(400, "invalid");
        assert!(detail.contains(expected), "{count}: {detail}");
    }
}

#[tokio::test]
async fn only_json_is_read() {
    let house = House::new();
    let request = async |kind: Option<&str>| {
        let body = json!({"policy": "shady", "key": "k"}).to_string();
        let mut request = Request::post("/v1/check");
        if let Some(kind) = kind {
            request = request.header("content-type", kind);
        }
        house.send(request.body(Body::from(body)).unwrap()).await
    };
    for kind in [
        "application/json",
        "Application/JSON; charset=utf-8",
        "application/vnd.x+json",
    ] {
        assert_eq!(request(Some(kind)).await.status, 200, "{kind}");
    }
    for kind in [
        None,
        Some("text/plain"),
        Some("application/jsonp"),
        Some(""),
    ] {
        request(kind).await.problem(415, "unsupported_media_type");
    }
}

/// It was read as JSON, and told that it was none.
#[tokio::test]
async fn a_body_that_is_packed_is_told_that_it_is() {
    let house = House::new();
    let request = async |coding: &str| {
        let body = json!({"policy": "shady", "key": "k"}).to_string();
        let request = Request::post("/v1/check").header("content-type", "application/json");
        let request = request.header("content-encoding", coding);
        house.send(request.body(Body::from(body)).unwrap()).await
    };
    assert_eq!(request("identity").await.status, 200);
    let why = request("gzip").await.problem(415, "unsupported_media_type");
    assert_eq!(
        why,
        "found `Content-Encoding: gzip`; send the body as it is"
    );
}

#[tokio::test]
async fn a_wrong_path_or_method_is_a_problem_too() {
    let house = House::new();
    for path in ["/", "/v1", "/v1/chek", "/v2/check", "/v1/policies/a/b"] {
        house.get(path).await.problem(404, "not_found");
    }
    let reply = house.get("/v1/check").await;
    let detail = reply.problem(405, "method_not_allowed");
    assert!(detail.contains("does not take GET"), "{detail}");
    assert_eq!(reply.header("allow"), Some("POST"));
    let reply = house.post("/v1/policies", json!({})).await;
    reply.problem(405, "method_not_allowed");
    assert_eq!(reply.header("allow"), Some("GET,HEAD,PUT"));
}

/// The words of a library stood there.
#[tokio::test]
async fn a_query_that_cannot_be_read_is_named() {
    let house = House::new();
    for (query, why) in [
        ("", "missing field `policy`"),
        ("?policy=chat&limit=x", "limit: write a whole number"),
        ("?policy=chat&nothing=1", "unknown field `nothing`"),
    ] {
        let reply = house.get(&format!("/v1/keys{query}")).await;
        let detail = reply.problem(400, "invalid");
        assert!(detail.starts_with("the query cannot be read: "), "{detail}");
        assert!(detail.contains(why), "{detail}");
    }
}

#[tokio::test]
async fn an_unknown_policy_is_not_found() {
    let house = House::new();
    let request = json!({"policy": "caht", "key": "k", "cost": 1});
    for path in [
        "/v1/check",
        "/v1/acquire",
        "/v1/debit",
        "/v1/peek",
        "/v1/forecast",
    ] {
        let detail = house
            .post(path, request.clone())
            .await
            .problem(404, "not_found");
        assert!(detail.starts_with("there is no policy `caht`"), "{detail}");
    }
}
