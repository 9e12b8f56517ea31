//! A caller has one key, and the provider sees the credential that it counts by.

use http_body_util::Full;
use tidegate_llm::Provider as Dialect;

use super::{Reply, Running, chat, run};

const ONE: &str = "[policy.llm.limits]\nrequests = { calls = 1, per = '1h' }";

/// How a call with these headers is answered.
async fn status(running: &Running, headers: &[(&str, &str)]) -> u16 {
    let mut call = http::Request::post(format!("http://{}/v1/chat/completions", running.at));
    for (name, value) in headers {
        call = call.header(*name, *value);
    }
    let call = call.body(Full::from(chat(10).to_string())).unwrap();
    running.client.request(call).await.unwrap().status().into()
}

#[tokio::test]
async fn a_credential_that_connection_names_is_forwarded_so_that_nobody_counts_by_one_of_his_own_making()
 {
    let running = run(ONE, |settings| {
        settings.upstreams[0].provider = Dialect::AzureOpenAi;
    })
    .await;
    running.provider.next(Reply::answer(1, 1));
    let headers = |key: &'static str| {
        [
            ("api-key", key),
            ("connection", "api-key"),
            ("authorization", "Bearer real"),
        ]
    };
    assert_eq!(status(&running, &headers("invented")).await, 200);
    let seen = &running.provider.seen()[0];
    assert_eq!(seen.header("api-key"), "invented");
    assert_eq!(seen.header("authorization"), "", "it counts by the other");
    running.stop().await;
}

#[tokio::test]
async fn of_several_credentials_the_provider_sees_the_one_that_counts() {
    let running = run(ONE, |_| {}).await;
    running.provider.next(Reply::answer(1, 1));
    let twice = [
        ("authorization", "Bearer first"),
        ("authorization", "Bearer second"),
        ("x-api-key", "third"),
    ];
    assert_eq!(status(&running, &twice).await, 200);
    let seen = &running.provider.seen()[0];
    assert_eq!(seen.all("authorization"), ["Bearer first"]);
    assert_eq!(seen.header("x-api-key"), "");
    assert_eq!(status(&running, &twice[..1]).await, 429, "the same key");
    running.stop().await;
}

/// Each was another caller, with limits of its own.
#[tokio::test]
async fn a_bearer_is_the_same_whatever_stands_before_its_token() {
    let running = run(ONE, |_| {}).await;
    running.provider.next(Reply::answer(1, 1));
    let call = |value| [("authorization", value)];
    assert_eq!(status(&running, &call("Bearer one")).await, 200);
    for same in ["Bearer\tone", "bearer \t one", "BEARER  one"] {
        assert_eq!(status(&running, &call(same)).await, 429, "{same:?}");
    }
    running.stop().await;
}

#[tokio::test]
async fn a_key_in_the_path_is_whose_limits_count_and_goes_no_further() {
    let running = run(ONE, |settings| {
        settings.key_path = Some("/team/{key}".parse().unwrap());
    })
    .await;
    let ask = async |path: &str| {
        let (status, _, body) = running.post(path, &chat(10)).await;
        (status.as_u16(), body)
    };
    for path in [
        "/team/search/v1/chat/completions",
        "/team/shop/v1/chat/completions?a=b",
    ] {
        running.provider.next(Reply::answer(1, 1));
        assert_eq!(ask(path).await.0, 200, "{path}");
    }
    let paths: Vec<_> = running
        .provider
        .seen()
        .into_iter()
        .map(|seen| seen.path)
        .collect();
    assert_eq!(
        paths,
        ["/one/v1/chat/completions", "/one/v1/chat/completions?a=b"]
    );
    // The credential is the same, and so is the key however it is spelt.
    assert_eq!(ask("/team/s%65arch/v1/chat/completions").await.0, 429);
    let (status, body) = ask("/v1/chat/completions").await;
    assert_eq!(status, 404);
    let message = body["error"]["message"].as_str().unwrap();
    assert!(message.contains("/team/{key}"), "{message}");
    assert_eq!(ask("/team/..%2Fshop/v1/chat/completions").await.0, 404);
    assert_eq!(
        running.provider.seen().len(),
        2,
        "nothing else was forwarded"
    );
    running.stop().await;
}
