//! A member that cools down does so at every gateway of a store.

use tidegate_conformance::redis_server::RedisServer;

use super::applied::until;
use super::{CALLER, Gateway, Provider, answered, folder_with, send};

const POOL: &str = "
[policy.llm]
balancer = 'first_available'
[policy.llm.member.one.limits]
running = { concurrency = 4, ttl = '10m' }
[policy.llm.member.two.limits]
running = { concurrency = 4, ttl = '10m' }
";

/// Whether a gateway says that a member of its pool cools down.
fn cools(gateway: &Gateway) -> bool {
    let http = gateway.http.expect("it serves");
    let (_, said) = answered(send(http, ("GET", "/v1/policies/llm", CALLER), ""));
    said.contains("\"cooling_until\":\"")
}

#[test]
fn a_member_that_refused_one_gateway_is_passed_over_by_the_other() {
    let Some(redis) = RedisServer::start() else {
        return;
    };
    let refusal = "429 Too Many Requests\r\nretry-after: 3000";
    let (refuses, answers) = (Provider::saying(refusal), Provider::start());
    let folder = folder_with(POOL);
    let upstreams = [("one", &refuses), ("two", &answers)];
    let upstreams = upstreams.map(|(name, to)| format!("{name}=openai@http://{}", to.at));
    let [first, second] = upstreams.each_ref();
    let flags = [
        "--http",
        "127.0.0.1:0",
        "--upstream",
        first,
        "--upstream",
        second,
    ];
    let gateways = [(); 2].map(|()| Gateway::on(&redis.url(), folder.path(), &flags));
    let [one, other] = &gateways;
    assert!(!cools(other));
    assert_eq!(one.status("Hi"), 200, "by the other member");
    assert_eq!(refuses.calls.try_iter().count(), 1);
    until(|| cools(other));
    assert_eq!([one, other].map(|gateway| gateway.status("Hi")), [200; 2]);
    assert_eq!(refuses.calls.try_iter().count(), 0, "nobody asks it");
    assert_eq!(answers.calls.try_iter().count(), 3);
}
