//! Pools over the wire: who serves, with which words, and who cools down.

mod support;

use support::TestServer;
use tidegate_resp::Settings;

const POLICIES: &str = "[policy.chat]\nbalancer = 'first_available'\n\
    [policy.chat.member.eu]\nmetadata = { region = 'eu-west' }\ncool_down = '30s'\n\
    limits.rpm = { calls = 2, per = '1h' }\n\
    [policy.chat.member.us]\nlimits.rpm = { calls = 2, per = '1h' }\n\
    [policy.deep]\nkey = 'org/user'\nlimits.all = { calls = 1, per = '1h', level = 'org' }\n\
    [policy.shady]\nshadow = true\nlimits.rpm = { calls = 1, per = '1h' }\n";

fn server() -> TestServer {
    TestServer::of(POLICIES, Settings::default())
}

#[test]
fn a_lease_names_its_member_which_cools_down_when_it_drops_work() {
    let server = server();
    let mut client = server.client();
    // The same facts, flat or as a map.
    let flat = client.request("TG.ACQUIRE chat k");
    assert!(
        flat.contains(",member,eu,entity,nil,metadata,[region,eu-west],granted_at_us,"),
        "{flat}"
    );
    client.request("HELLO 3");
    let granted = client.request("TG.ACQUIRE chat k");
    assert!(
        granted.contains(",member:eu,entity:nil,metadata:{region:eu-west},granted_at_us:"),
        "{granted}"
    );
    let lease = &granted.strip_prefix("{lease:").unwrap()[..32];
    let ended = client.request(&format!("TG.RELEASE chat k {lease} OUTCOME dropped"));
    assert!(
        ended.ends_with("member:eu,cooling_until_us:1767268830000000}"),
        "{ended}"
    );
    let granted = client.request("TG.ACQUIRE chat other");
    assert!(
        granted.contains(",member:us,entity:nil,metadata:{},granted_at_us:"),
        "{granted}"
    );
    let lease = &granted.strip_prefix("{lease:").unwrap()[..32];
    let ended = client.request(&format!(
        "TG.SETTLE chat other {lease} USED rpm 1 COOLDOWN 5000"
    ));
    assert!(
        ended.ends_with("member:us,cooling_until_us:1767268805000000}"),
        "{ended}"
    );
    let refused = client.request("TG.ACQUIRE chat other");
    assert!(
        refused.contains("not_until_us:1767268805000000"),
        "{refused}"
    );
    for line in [
        "OUTCOME lost",
        "COOLDOWN 0",
        "OUTCOME",
        "USED rpm 1",
        "MEMBER eu",
    ] {
        let said = client.request(&format!("TG.RELEASE chat other {lease} {line}"));
        assert!(said.starts_with("-ERR"), "{line}: {said}");
    }
    let shown = client.request("TG.POLICIES");
    assert!(
        shown.contains("members:{eu:{weight:1,load:1,cooling_until_us:1767268830000000,"),
        "{shown}"
    );
}

#[test]
fn a_debit_names_its_member_and_a_forecast_may() {
    let server = server();
    let mut client = server.client();
    client.request("HELLO 3");
    let unsaid = client.request("TG.DEBIT chat k AMOUNT rpm 2");
    assert_eq!(
        unsaid,
        "-ERR `member` is missing: the policy is a pool; there is `eu`, `us`"
    );
    let debited = client.request("TG.DEBIT chat k AMOUNT rpm 2 MEMBER eu");
    assert!(debited.contains("remaining:0"), "{debited}");
    let all = client.request("TG.FORECAST chat k");
    assert!(
        all.starts_with("{eu:{rpm:{spendable:0,") && all.contains("us:{rpm:{spendable:2,"),
        "{all}"
    );
    let one = client.request("TG.FORECAST chat k MEMBER us");
    assert!(one.starts_with("{rpm:{spendable:2,"), "{one}");
    assert!(
        client
            .request("TG.PEEK chat k MEMBER eu")
            .starts_with("{verdict:refused")
    );
    assert!(
        client
            .request("TG.CHECK chat k MEMBER eu")
            .starts_with("-ERR")
    );
}

#[test]
fn a_refusal_names_the_level_and_a_shadow_says_so() {
    let server = server();
    let mut client = server.client();
    client.request("HELLO 3");
    client.request("TG.CHECK deep acme/a");
    let refused = client.request("TG.CHECK deep acme/b");
    assert!(
        refused.contains("shadowed:f,level:org,member:nil"),
        "{refused}"
    );
    client.request("TG.ACQUIRE shady k");
    let second = client.request("TG.ACQUIRE shady k");
    assert!(
        second.contains("verdict:admitted") && second.contains("shadowed:t"),
        "{second}"
    );
}
