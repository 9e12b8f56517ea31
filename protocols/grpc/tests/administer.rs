//! Overrides, listings and a lease that is revoked, over a real socket.

use std::net::SocketAddr;

use tidegate::ManualClock;
use tidegate_grpc::proto::list_keys_request::Select;
use tidegate_grpc::proto::tidegate_client::TidegateClient;
use tidegate_grpc::proto::{LimitNumbers, OverrideLevel, Place};
use tidegate_grpc::{Listener, Server, Settings, proto};
use tidegate_policy::parse;
use tidegate_service::Service;
use tokio::net::TcpListener;
use tonic::Code;
use tonic::transport::Channel;

const POLICIES: &str = "[policy.chat.limits]\nrpm = { calls = 10, per = '1h' }\n\
                        [policy.pool.member.eu.limits]\nrps = { calls = 5, per = '1s' }\n\
                        [policy.pool.member.us.limits]\nrps = { calls = 9, per = '1s' }\n\
                        [policy.jobs.limits]\nrunning = { concurrency = 2, ttl = '30s' }\n";

async fn client() -> TidegateClient<Channel> {
    serving(POLICIES).await
}

async fn serving(policies: &str) -> TidegateClient<Channel> {
    let time = ManualClock::default();
    let builder = Service::builder().clock(time.clock());
    let service = builder.build(&parse("t", policies).unwrap()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at: SocketAddr = listener.local_addr().unwrap();
    let stopped = std::future::pending();
    tokio::spawn(
        Server::new(service, Settings::default())
            .serve(Listener::from(listener).connections(), stopped),
    );
    let client = TidegateClient::connect(format!("http://{at}")).await;
    client.unwrap()
}

fn place(policy: &str, key: &'static str) -> Place {
    Place {
        policy: (!policy.is_empty()).then(|| policy.to_owned()),
        key: (!key.is_empty()).then(|| key.as_bytes().into()),
    }
}

fn calls(count: u64) -> LimitNumbers {
    LimitNumbers {
        calls: Some(count),
        per: "1h".to_owned(),
        ..Default::default()
    }
}

fn override_of(place: Place, name: &str, numbers: LimitNumbers) -> proto::SetOverrideRequest {
    proto::SetOverrideRequest {
        place: Some(place),
        limits: [(name.to_owned(), numbers)].into(),
        ..Default::default()
    }
}

/// How many `chat` grants `acme`, and at which level that was set.
async fn stands(client: &mut TidegateClient<Channel>) -> (u64, Option<OverrideLevel>) {
    let peek = proto::CheckRequest {
        policy: "chat".to_owned(),
        key: "acme".into(),
        ..Default::default()
    };
    let peek = client.peek(peek).await.unwrap().into_inner();
    let level = peek.overrides.get("rpm");
    let level = level.map(|level| OverrideLevel::try_from(*level).unwrap());
    (peek.limits["rpm"].limit, level)
}

#[tokio::test]
async fn the_most_specific_override_holds_until_it_is_removed() {
    use OverrideLevel::{Everything, Key, KeyAndPolicy, Policy};
    let mut client = client().await;
    assert_eq!(stands(&mut client).await, (10, None));
    let places = [
        (place("", ""), 11, Everything),
        (place("chat", ""), 12, Policy),
        (place("", "acme"), 13, Key),
        (place("chat", "acme"), 14, KeyAndPolicy),
    ];
    for (place, count, level) in places.clone() {
        let set = override_of(place.clone(), "rpm", calls(count));
        let set = client.set_override(set).await.unwrap().into_inner();
        assert_eq!((set.place.as_ref(), set.level()), (Some(&place), level));
        assert_eq!(set.limits["rpm"], calls(count));
        assert_eq!(stands(&mut client).await, (count, Some(level)));
    }
    for (nth, (place, ..)) in places.iter().enumerate().rev() {
        for removed in [true, false] {
            let remove = proto::RemoveOverrideRequest {
                place: Some(place.clone()),
                ..Default::default()
            };
            let answer = client.remove_override(remove).await.unwrap().into_inner();
            assert_eq!(answer.removed, removed);
        }
        let before = nth.checked_sub(1).map(|nth| &places[nth]);
        let expected = before.map_or((10, None), |(_, count, level)| (*count, Some(*level)));
        assert_eq!(stands(&mut client).await, expected);
    }
}

#[tokio::test]
async fn a_limit_is_added_to_one_key_alone() {
    let mut client = client().await;
    let added = LimitNumbers {
        added: true,
        ..calls(1)
    };
    let set = override_of(place("chat", "acme"), "gpu", added.clone());
    let set = client.set_override(set).await.unwrap().into_inner();
    assert_eq!(set.limits["gpu"], added);
    for (key, limit, level) in [
        ("acme", Some(1), Some(OverrideLevel::KeyAndPolicy.into())),
        ("other", None, None),
    ] {
        let peek = proto::CheckRequest {
            policy: "chat".to_owned(),
            key: key.into(),
            ..Default::default()
        };
        let peek = client.peek(peek).await.unwrap().into_inner();
        let standing = peek.limits.get("gpu").map(|standing| standing.limit);
        assert_eq!(
            (standing, peek.overrides.get("gpu").copied()),
            (limit, level)
        );
    }
    for target in [place("chat", ""), place("", "acme"), place("pool", "acme")] {
        let set = override_of(target, "gpu", added.clone());
        let refused = client.set_override(set).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
    }
}

#[tokio::test]
async fn an_override_holds_at_every_member_of_a_pool() {
    let mut client = client().await;
    let numbers = LimitNumbers {
        per: "1s".to_owned(),
        ..calls(7)
    };
    let set = override_of(place("pool", ""), "rps", numbers);
    client.set_override(set).await.unwrap();
    for member in ["eu", "us", ""] {
        let peek = proto::CheckRequest {
            policy: "pool".to_owned(),
            key: "k".into(),
            member: member.to_owned(),
            ..Default::default()
        };
        let peek = client.peek(peek).await.unwrap().into_inner();
        assert_eq!(peek.limits["rps"].limit, 7, "{member}");
        let level = peek.overrides.get("rps").copied();
        assert_eq!(level, Some(OverrideLevel::Policy.into()), "{member}");
    }
}

#[tokio::test]
async fn overrides_are_listed_in_pages() {
    let mut client = client().await;
    for key in ["a", "b", "c", "d", "e"] {
        let set = override_of(place("chat", key), "rpm", calls(20));
        client.set_override(set).await.unwrap();
    }
    let slots = LimitNumbers {
        concurrency: Some(7),
        ttl: "1m".to_owned(),
        ..Default::default()
    };
    let set = override_of(place("jobs", ""), "running", slots.clone());
    client.set_override(set).await.unwrap();
    let mut request = proto::ListOverridesRequest {
        limit: 2,
        ..Default::default()
    };
    let mut found = Vec::new();
    loop {
        let page = client.list_overrides(request.clone()).await.unwrap();
        let page = page.into_inner();
        assert!(page.overrides.len() <= 2);
        found.extend(page.overrides);
        if page.cursor.is_empty() {
            break;
        }
        request.cursor = page.cursor;
    }
    assert_eq!(found.len(), 6);
    assert_eq!(found[5].limits["running"], slots);
    let of_jobs = proto::ListOverridesRequest {
        of: Some(place("jobs", "")),
        exact: true,
        ..Default::default()
    };
    let one = client.list_overrides(of_jobs).await.unwrap().into_inner();
    assert_eq!(one.overrides, found[5..]);
    for wrong in [
        proto::ListOverridesRequest {
            limit: 1_001,
            ..Default::default()
        },
        proto::ListOverridesRequest {
            cursor: "x".into(),
            ..Default::default()
        },
    ] {
        let refused = client.list_overrides(wrong).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
    }
}

#[tokio::test]
async fn everything_wrong_with_an_override_is_told_at_once() {
    let mut client = client().await;
    let wrong = proto::SetOverrideRequest {
        place: Some(place("chat", "acme")),
        limits: [
            ("rpm".to_owned(), LimitNumbers::default()),
            ("rps".to_owned(), calls(1)),
        ]
        .into(),
        ..Default::default()
    };
    let told = client.set_override(wrong).await.unwrap_err();
    assert_eq!(told.code(), Code::InvalidArgument);
    assert!(told.message().contains("limit `rpm`"), "{told}");
    assert!(told.message().contains("there is `rpm`"), "{told}");
    let nowhere = proto::SetOverrideRequest {
        place: None,
        limits: [("rpm".to_owned(), calls(1))].into(),
        ..Default::default()
    };
    let told = client.set_override(nowhere).await.unwrap_err();
    assert_eq!(told.code(), Code::InvalidArgument);
    assert!(told.message().contains("every policy"), "{told}");
    let remove = proto::RemoveOverrideRequest::default();
    let told = client.remove_override(remove).await.unwrap_err();
    assert_eq!(told.code(), Code::InvalidArgument);
    let unknown = override_of(place("none", ""), "rpm", calls(1));
    let told = client.set_override(unknown).await.unwrap_err();
    assert_eq!(told.code(), Code::NotFound);
    assert_eq!(stands(&mut client).await, (10, None));
}

#[tokio::test]
async fn keys_and_leases_are_listed_and_a_lease_is_revoked() {
    let mut client = client().await;
    let check = |policy: &str, key: &'static str| proto::CheckRequest {
        policy: policy.to_owned(),
        key: key.into(),
        ..Default::default()
    };
    for key in ["acme/a", "acme/b", "zeta"] {
        client.check(check("chat", key)).await.unwrap();
    }
    let mut request = proto::ListKeysRequest {
        policy: "chat".to_owned(),
        select: Some(Select::Prefix("acme/".into())),
        limit: 1,
        ..Default::default()
    };
    let mut keys = Vec::new();
    loop {
        let page = client.list_keys(request.clone()).await.unwrap();
        let page = page.into_inner();
        keys.extend(page.keys);
        if page.cursor.is_empty() {
            break;
        }
        request.cursor = page.cursor;
    }
    keys.sort_by(|one, other| one.key.cmp(&other.key));
    let names: Vec<_> = keys.iter().map(|key| &key.key[..]).collect();
    assert_eq!(names, [b"acme/a", b"acme/b"]);
    assert_eq!(keys[0].limits["rpm"].remaining, 9);
    let acquire = proto::AcquireRequest {
        request: Some(check("jobs", "nightly")),
        ..Default::default()
    };
    let lease = client.acquire(acquire).await.unwrap().into_inner();
    let lease = lease.lease.unwrap();
    let list = proto::ListLeasesRequest {
        policy: "jobs".to_owned(),
        ..Default::default()
    };
    let listed = client.list_leases(list.clone()).await.unwrap().into_inner();
    let held = &listed.leases[0];
    assert_eq!((&held.key[..], held.taken["running"]), (&b"nightly"[..], 1));
    assert_eq!(held.expires_at_us, lease.expires_at_us);
    assert!((1..lease.expires_at_us).contains(&lease.granted_at_us));
    assert_eq!(held.granted_at_us, lease.granted_at_us);
    assert!(!lease.id.contains(&held.handle));
    let revoke = |handle: &str| proto::RevokeLeaseRequest {
        policy: "jobs".to_owned(),
        key: "nightly".into(),
        handle: handle.to_owned(),
        ..Default::default()
    };
    let odd = client.revoke_lease(revoke("x")).await.unwrap_err();
    assert_eq!(odd.code(), Code::InvalidArgument);
    let ended = client.revoke_lease(revoke(&held.handle)).await.unwrap();
    assert_eq!(ended.into_inner().limits["running"].used, 1);
    let gone = client.revoke_lease(revoke(&held.handle)).await.unwrap_err();
    assert_eq!(gone.code(), Code::NotFound);
    let listed = client.list_leases(list).await.unwrap().into_inner();
    assert!(listed.leases.is_empty());
}

#[tokio::test]
async fn usage_is_listed_by_key_limit_and_hour() {
    use proto::list_usage_request::Select;
    let counted = "[policy.chat]\nkey = 'org/user'\nusage = '30d'\n[policy.chat.limits]\n\
                   ttl = { calls = 100, per = '1h' }\n\
                   usd = { budget = '9', per = 'day', unit = '0.01', level = 'org', zone = 'UTC' }\n";
    let mut client = serving(counted).await;
    for (key, calls, cents) in [("acme/a", 7, 125), ("acme/b", 3, 0)] {
        let check = proto::CheckRequest {
            policy: "chat".into(),
            key: key.into(),
            amounts: [("ttl".to_owned(), calls), ("usd".to_owned(), cents)].into(),
            ..Default::default()
        };
        assert!(client.check(check).await.unwrap().into_inner().admitted);
    }
    let all = proto::ListUsageRequest {
        policy: "chat".into(),
        limit: 1,
        ..Default::default()
    };
    let mut list = async |request: proto::ListUsageRequest| {
        let (mut request, mut found) = (request, Vec::new());
        loop {
            let page = client.list_usage(request.clone()).await.unwrap();
            let page = page.into_inner();
            found.extend(page.usage);
            if page.cursor.is_empty() {
                found.sort_by(|one, other| one.key.cmp(&other.key));
                return found;
            }
            request.cursor = page.cursor;
        }
    };
    let found = list(all.clone()).await;
    let told = |used: &proto::UsedInHour| {
        let key = String::from_utf8_lossy(&used.key).into_owned();
        (key, used.limit.clone(), used.amount)
    };
    let one = |key: &str, limit: &str, amount| (key.to_owned(), limit.to_owned(), amount);
    let (acme, a, b) = (
        one("acme", "usd", 125),
        one("acme/a", "ttl", 7),
        one("acme/b", "ttl", 3),
    );
    let listed: Vec<_> = found.iter().map(told).collect();
    assert_eq!(listed, [acme.clone(), a, b.clone()]);
    let hour = found[0].hour_us;
    assert_eq!(hour % 3_600_000_000, 0);
    let of = |select| proto::ListUsageRequest {
        select: Some(select),
        since_us: Some(hour),
        ..all.clone()
    };
    let key = list(of(Select::Key("acme".into()))).await;
    assert_eq!(key.iter().map(told).collect::<Vec<_>>(), [acme]);
    let prefix = list(of(Select::Prefix("acme/b".into()))).await;
    assert_eq!(prefix.iter().map(told).collect::<Vec<_>>(), [b]);
    let by_month = proto::ListUsageRequest {
        by: proto::UsageBy::Month.into(),
        ..all.clone()
    };
    let months = list(by_month).await;
    assert_eq!(months.iter().map(told).collect::<Vec<_>>(), listed);
    assert_eq!(months[0].hour_us % 86_400_000_000, 0);
    let before = proto::ListUsageRequest {
        until_us: Some(hour),
        ..all.clone()
    };
    assert!(list(before).await.is_empty());
    let entity = of(Select::Entity("nobody".into()));
    let unknown = client.list_usage(entity).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    let by_nothing = proto::ListUsageRequest { by: 7, ..all };
    let wrong = client.list_usage(by_nothing).await.unwrap_err();
    assert_eq!(wrong.code(), Code::InvalidArgument);
}

/// Amounts are whole numbers of a limit's unit, which is told with its policy.
#[tokio::test]
async fn a_unit_is_told_and_every_amount_counts_it() {
    let spend = "[policy.spend.limits]\n\
                 usd = { budget = '2.50', per = '1h', unit = '0.01' }\n\
                 calls = { rate = 9, per = '1h' }\n";
    let mut client = serving(spend).await;
    let policies = client.list_policies(proto::ListPoliciesRequest::default());
    let policies = policies.await.unwrap().into_inner().policies;
    assert_eq!(
        policies[0].units,
        [("usd".to_owned(), "0.01".to_owned())].into()
    );
    let check = |cents: u64| proto::CheckRequest {
        policy: "spend".into(),
        key: "k".into(),
        amounts: [("usd".to_owned(), cents), ("calls".to_owned(), 1)].into(),
        ..Default::default()
    };
    let first = client.check(check(175)).await.unwrap().into_inner();
    assert!(first.admitted);
    assert_eq!(
        (first.limits["usd"].limit, first.limits["usd"].remaining),
        (250, 75)
    );
    assert!(!client.check(check(76)).await.unwrap().into_inner().admitted);
    let raised = proto::SetOverrideRequest {
        place: Some(place("spend", "k")),
        limits: [(
            "usd".to_owned(),
            LimitNumbers {
                budget: Some(1_000),
                per: "1h".into(),
                ..Default::default()
            },
        )]
        .into(),
        ..Default::default()
    };
    let set = client.set_override(raised).await.unwrap().into_inner();
    assert_eq!(set.limits["usd"].budget, Some(1_000));
    let after = client.peek(check(1)).await.unwrap().into_inner();
    assert_eq!(
        (after.limits["usd"].limit, after.limits["usd"].remaining),
        (1_000, 825)
    );
}

/// 150 was taken of both: 150 tokens, and 150 cents.
#[tokio::test]
async fn a_cost_over_limits_of_different_units_is_refused_and_takes_nothing() {
    let spend = "[policy.spend.limits]\n\
                 tpm = { rate = 1000, per = '1h' }\n\
                 usd = { budget = '2.00', per = '1h', unit = '0.01' }\n";
    let mut client = serving(spend).await;
    let check = |cost: Option<u64>| proto::CheckRequest {
        policy: "spend".into(),
        key: "k".into(),
        cost,
        ..Default::default()
    };
    let acquire = proto::AcquireRequest {
        request: Some(check(Some(150))),
        ..Default::default()
    };
    for refused in [
        client.check(check(Some(150))).await.map(drop),
        client.acquire(acquire).await.map(drop),
        client.debit(check(Some(150))).await.map(drop),
        client.peek(check(Some(150))).await.map(drop),
    ] {
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().contains("different units"), "{refused}");
    }
    let batch = proto::CheckManyRequest {
        checks: vec![check(Some(150))],
        ..Default::default()
    };
    let answers = client.check_many(batch).await.unwrap().into_inner().answers;
    assert_eq!(answers[0].problem.as_ref().unwrap().code, "invalid");
    // Beside a named one, the cost is of the other alone.
    let rest = |cost| proto::CheckRequest {
        amounts: [("tpm".to_owned(), 1)].into(),
        ..check(Some(cost))
    };
    assert!(client.check(rest(150)).await.unwrap().into_inner().admitted);
    let left = client.peek(rest(1)).await.unwrap().into_inner().limits;
    assert_eq!((left["tpm"].remaining, left["usd"].remaining), (999, 50));
}

/// A caller whose variable was empty changed the limits of everyone.
#[tokio::test]
async fn an_empty_key_or_policy_of_an_override_is_refused_and_changes_nothing() {
    let mut client = client().await;
    let set = override_of(place("chat", ""), "rpm", calls(12));
    client.set_override(set).await.unwrap();
    let odd = [
        Place {
            key: Some("".into()),
            ..place("chat", "")
        },
        Place {
            policy: Some(String::new()),
            key: None,
        },
    ];
    for place in odd {
        let set = override_of(place.clone(), "rpm", calls(4));
        let remove = proto::RemoveOverrideRequest {
            place: Some(place.clone()),
            ..Default::default()
        };
        let list = proto::ListOverridesRequest {
            of: Some(place),
            ..Default::default()
        };
        for refused in [
            client.set_override(set).await.map(drop),
            client.remove_override(remove).await.map(drop),
            client.list_overrides(list).await.map(drop),
        ] {
            let refused = refused.unwrap_err();
            assert_eq!(refused.code(), Code::InvalidArgument);
            assert!(refused.message().contains("is empty"), "{refused}");
        }
        let held = (12, Some(OverrideLevel::Policy));
        assert_eq!(stands(&mut client).await, held);
    }
}
