//! All three protocols over one service in this process, asked what is out of bounds: each
//! says the same of the same part of the request, and nothing changes.

use std::future::pending;
use std::net::SocketAddr;

use tidegate::{ManualClock, PageOf, Select};
use tidegate_fleet::talk::{Http, Resp};
use tidegate_grpc::Listener;
use tidegate_grpc::proto::tidegate_client::TidegateClient;
use tidegate_grpc::proto::{self, LimitNumbers, Place};
use tidegate_service::{Caller, Service};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tonic::transport::Channel;
use tonic::{Code, Status};

const POLICIES: &str = "[policy.chat.limits]\nrpm = { calls = 10, per = '1h' }\n\
                        [policy.slots.limits]\nrunning = { concurrency = 2 }\n\
                        [policy.pool.member.eu.limits]\nrunning = { concurrency = 2 }\n\
                        [policy.deep]\nkey = 'org/user'\n\
                        [policy.deep.limits]\nall = { calls = 10, per = '1h' }\n\
                        [policy.spend.limits]\ntpm = { rate = 1000, per = '1h' }\n\
                        usd = { budget = '2.00', per = '1h', unit = '0.01' }\n\
                        [policy.burst]\njitter = '10m'\n\
                        [policy.burst.limits]\nrph = { calls = 1, per = '1h' }\n";

const LEASE: &str = "0123456789abcdef0123456789abcdef";

/// Longer than 400 days, in milliseconds.
const TOO_LONG: u64 = 401 * 86_400 * 1_000;

/// A request as each protocol says it; none where the protocol cannot say such a thing.
struct Case {
    what: &'static str,
    http: Option<(&'static str, String, String)>,
    grpc: Option<Request>,
    resp: Option<Vec<String>>,
    /// What the answer has in it, over HTTP and gRPC, and over RESP.
    told: [&'static str; 2],
    is_missing: bool,
}

enum Request {
    Check(proto::CheckRequest),
    Many(usize),
    Acquire(proto::AcquireRequest),
    Renew(u64),
    Settle(proto::SettleRequest),
    Adjust(proto::AdjustRequest),
    Release(proto::LeaseRequest),
    Revoke(&'static str),
    Set(Place),
    Remove(Place),
    Overrides(proto::ListOverridesRequest),
    Keys(u32),
    Leases(u32),
}

impl Case {
    fn new(what: &'static str, told: [&'static str; 2]) -> Self {
        Self {
            what,
            http: None,
            grpc: None,
            resp: None,
            told,
            is_missing: false,
        }
    }

    fn post(self, path: &str, body: String) -> Self {
        self.http("POST", path, body)
    }

    fn get(self, path: &str) -> Self {
        self.http("GET", path, String::new())
    }

    fn http(mut self, method: &'static str, path: &str, body: String) -> Self {
        self.http = Some((method, path.to_owned(), body));
        self
    }

    fn grpc(mut self, ask: Request) -> Self {
        self.grpc = Some(ask);
        self
    }

    /// Words by blanks; `''` is an empty one.
    fn resp(mut self, line: &str) -> Self {
        let words = line.split(' ').map(|word| match word {
            "''" => String::new(),
            word => word.to_owned(),
        });
        self.resp = Some(words.collect());
        self
    }
}

fn about(policy: &str, key: &str) -> proto::CheckRequest {
    proto::CheckRequest {
        policy: policy.to_owned(),
        key: key.as_bytes().to_vec().into(),
        ..Default::default()
    }
}

fn lease(id: &str) -> proto::LeaseRequest {
    proto::LeaseRequest {
        policy: "pool".to_owned(),
        key: "k".into(),
        lease: id.to_owned(),
        ..Default::default()
    }
}

fn place(policy: Option<&str>, key: Option<&str>) -> Place {
    Place {
        policy: policy.map(str::to_owned),
        key: key.map(|key| key.as_bytes().to_vec().into()),
    }
}

/// Asks whose key, cost or name is out of bounds.
fn checks() -> Vec<Case> {
    let check = |policy: &str, key: &str| format!(r#"{{"policy":"{policy}","key":"{key}"}}"#);
    let long = "x".repeat(5_000);
    let name = "x".repeat(20_000);
    let cost = proto::CheckRequest {
        cost: Some(150),
        ..about("spend", "k")
    };
    let mut missing = Case::new("a long name of a policy", ["x...`", "x...`"])
        .post("/v1/check", check(&name, "k"))
        .grpc(Request::Check(about(&name, "k")))
        .resp(&format!("TG.CHECK {name} k"));
    missing.is_missing = true;
    let by_id = |what, told, id: &str| {
        let entity = Some(id.to_owned());
        let asked = proto::CheckRequest {
            entity,
            ..about("chat", "")
        };
        Case::new(what, told)
            .post(
                "/v1/check",
                format!(r#"{{"policy":"chat","entity":"{id}"}}"#),
            )
            .grpc(Request::Check(asked))
    };
    let told = ["there is no entity `nobody`"; 2];
    let mut nobody = by_id("an entity that nobody has created", told, "nobody");
    nobody = nobody.resp("TG.CHECK chat nobody ENTITY");
    nobody.is_missing = true;
    let told = ["an entity's id has 256 bytes at most"; 2];
    let id = "x".repeat(257);
    vec![
        nobody,
        by_id("an entity's long id", told, &id).resp(&format!("TG.CHECK chat {id} ENTITY")),
        by_id("an entity's empty id", ["it is empty"; 2], "").resp("TG.CHECK chat '' ENTITY"),
        Case::new(
            "a cost over two units",
            ["different units", "different units"],
        )
        .post(
            "/v1/check",
            r#"{"policy":"spend","key":"k","cost":150}"#.to_owned(),
        )
        .grpc(Request::Check(cost))
        .resp("TG.CHECK spend k COST 150"),
        Case::new("an empty key", ["the key is empty", "the key is empty"])
            .post("/v1/check", check("chat", ""))
            .grpc(Request::Check(about("chat", "")))
            .resp("TG.CHECK chat ''"),
        Case::new(
            "a long key",
            ["the key has 5000 bytes", "the key has 5000 bytes"],
        )
        .post("/v1/check", check("chat", &long))
        .grpc(Request::Check(about("chat", &long)))
        .resp(&format!("TG.CHECK chat {long}")),
        Case::new(
            "a key of too few levels",
            ["the key has 1 of 2 levels: write"; 2],
        )
        .post("/v1/check", check("deep", "acme"))
        .grpc(Request::Check(about("deep", "acme")))
        .resp("TG.CHECK deep acme"),
        Case::new(
            "a key of too many levels",
            ["the key has 3 of 2 levels: write"; 2],
        )
        .post("/v1/check", check("deep", "acme/a/b"))
        .grpc(Request::Check(about("deep", "acme/a/b")))
        .resp("TG.CHECK deep acme/a/b"),
        // What is wrong by its form is told before what there is not.
        Case::new("an empty key of no policy", ["the key is empty"; 2])
            .post("/v1/check", check("none", ""))
            .grpc(Request::Check(about("none", "")))
            .resp("TG.CHECK none ''"),
        Case::new("a batch of none", ["`checks`", ""])
            .post("/v1/check-many", r#"{"checks":[]}"#.to_owned())
            .grpc(Request::Many(0)),
        Case::new("a batch of too many", ["`checks`", ""])
            .post(
                "/v1/check-many",
                format!(
                    r#"{{"checks":[{}]}}"#,
                    vec![check("chat", "k"); 1_001].join(",")
                ),
            )
            .grpc(Request::Many(1_001)),
        missing,
    ]
}

/// Asks for leases, and what is said of them.
fn leases() -> Vec<Case> {
    let acquire = |what, told, (field, number): (&str, u64), word: &str| {
        let mut ask = proto::AcquireRequest {
            request: Some(about("slots", "k")),
            ..Default::default()
        };
        match field {
            "wait_ms" => ask.wait_ms = Some(number),
            "ttl_ms" => ask.ttl_ms = Some(number),
            _ => ask.priority = u32::try_from(number).expect("it is small"),
        }
        Case::new(what, told)
            .post(
                "/v1/acquire",
                format!(r#"{{"policy":"slots","key":"k","{field}":{number}}}"#),
            )
            .grpc(Request::Acquire(ask))
            .resp(&format!("TG.ACQUIRE slots k {word} {number}"))
    };
    let named = |what, name: String, word: &str| {
        let told = "an idempotency key has 1 to 255 bytes";
        let ask = proto::AcquireRequest {
            request: Some(about("slots", "k")),
            idempotency_key: Some(name.clone().into()),
            ..Default::default()
        };
        Case::new(what, [told, told])
            .post(
                "/v1/acquire",
                format!(r#"{{"policy":"slots","key":"k","idempotency_key":"{name}"}}"#),
            )
            .grpc(Request::Acquire(ask))
            .resp(&format!("TG.ACQUIRE slots k IDEMPOTENCY {word}"))
    };
    let cool = |what, ms: u64| {
        let request = proto::LeaseRequest {
            cool_down_ms: Some(ms),
            ..lease(LEASE)
        };
        Case::new(
            what,
            [
                "`cool_down_ms` is from 1 to",
                "COOLDOWN is not a number from 1 to",
            ],
        )
        .post(
            "/v1/release",
            format!(r#"{{"policy":"pool","key":"k","lease":"{LEASE}","cool_down_ms":{ms}}}"#),
        )
        .grpc(Request::Release(request))
        .resp(&format!("TG.RELEASE pool k {LEASE} COOLDOWN {ms}"))
    };
    let renew = |what, ms: u64| {
        let told = "a lease lasts from 1 ms to 400 days";
        Case::new(what, [told, told])
            .post(
                "/v1/renew",
                format!(r#"{{"policy":"pool","key":"k","lease":"{LEASE}","ttl_ms":{ms}}}"#),
            )
            .grpc(Request::Renew(ms))
            .resp(&format!("TG.RENEW pool k {LEASE} {ms}"))
    };
    let (wait, lasts) = (
        ["a request may wait"; 2],
        ["a lease lasts from 1 ms to 400 days"; 2],
    );
    let priority = ["`priority`", "PRIORITY is not a number from 0 to 255"];
    let (id, handle) = ("32 hexadecimal digits", "16 hexadecimal digits");
    vec![
        acquire("a long wait", wait, ("wait_ms", 300_001), "WAIT"),
        acquire("a wait of 2^53", wait, ("wait_ms", 1 << 53), "WAIT"),
        acquire("no time at all", lasts, ("ttl_ms", 0), "TTL"),
        acquire("a long lease", lasts, ("ttl_ms", TOO_LONG), "TTL"),
        acquire("a high priority", priority, ("priority", 256), "PRIORITY"),
        named("an empty idempotency key", String::new(), "''"),
        named("a long idempotency key", "x".repeat(256), &"x".repeat(256)),
        renew("a renewal for no time", 0),
        renew("a renewal for long", TOO_LONG),
        cool("a cool-down of no time", 0),
        cool("a long cool-down", TOO_LONG),
        Case::new("a lease that is none", [id, id])
            .post(
                "/v1/release",
                r#"{"policy":"pool","key":"k","lease":"+1"}"#.to_owned(),
            )
            .grpc(Request::Release(lease("+1")))
            .resp("TG.RELEASE pool k +1"),
        Case::new("a lease that is none, of no policy", [id, id])
            .post(
                "/v1/release",
                r#"{"policy":"none","key":"k","lease":"x"}"#.to_owned(),
            )
            .grpc(Request::Release(proto::LeaseRequest {
                policy: "none".to_owned(),
                ..lease("x")
            }))
            .resp("TG.RELEASE none k x"),
        Case::new("a handle that is none", [handle, handle])
            .post(
                "/v1/leases/revoke",
                r#"{"policy":"slots","key":"k","handle":"x"}"#.to_owned(),
            )
            .grpc(Request::Revoke("x"))
            .resp("TG.REVOKE slots k x"),
    ]
}

/// How much a lease has used, or is to have taken.
fn uses() -> Vec<Case> {
    let of = || {
        let policy = "spend".to_owned();
        Some(proto::LeaseRequest {
            policy,
            ..lease(LEASE)
        })
    };
    let body = |more: &str| format!(r#"{{"policy":"spend","key":"k","lease":"{LEASE}"{more}}}"#);
    let settle = |what, told, cost: u64| {
        let request = proto::SettleRequest {
            lease: of(),
            cost: Some(cost),
            ..Default::default()
        };
        Case::new(what, told)
            .post("/v1/settle", body(&format!(r#","cost":{cost}"#)))
            .grpc(Request::Settle(request))
            .resp(&format!("TG.SETTLE spend k {LEASE} COST {cost}"))
    };
    let adjust = |what, told, cost: Option<u64>| {
        let request = proto::AdjustRequest {
            lease: of(),
            cost,
            ..Default::default()
        };
        let (more, word) = match cost {
            Some(cost) => (format!(r#","cost":{cost}"#), format!(" COST {cost}")),
            None => (String::new(), String::new()),
        };
        Case::new(what, told)
            .post("/v1/adjust", body(&more))
            .grpc(Request::Adjust(request))
            .resp(&format!("TG.ADJUST spend k {LEASE}{word}"))
    };
    let units = ["different units"; 2];
    vec![
        settle("a settlement's cost over two units", units, 150),
        adjust("an adjustment's cost over two units", units, Some(150)),
        adjust(
            "an adjustment to nothing",
            ["`amounts`: say how much", "AMOUNT: say how much"],
            None,
        ),
    ]
}

/// Places of overrides, and pages.
fn places() -> Vec<Case> {
    let set = |what, told, place: Place, members: &str, words: &str| {
        Case::new(what, told)
            .http(
                "PUT",
                "/v1/overrides",
                format!(r#"{{{members},"limits":{{"rpm":{{"calls":4,"per":"1h"}}}}}}"#),
            )
            .grpc(Request::Set(place))
            .resp(&format!("TG.OVERRIDE SET {words} LIMIT rpm calls 4 per 1h"))
    };
    let remove = |what, told, place: Place, query: &str, words: &str| {
        Case::new(what, told)
            .http("DELETE", &format!("/v1/overrides?{query}"), String::new())
            .grpc(Request::Remove(place))
            .resp(&format!("TG.OVERRIDE REMOVE {words}"))
    };
    let list = |what, told, request, query: &str, words: &str| {
        Case::new(what, told)
            .get(&format!("/v1/overrides?{query}"))
            .grpc(Request::Overrides(request))
            .resp(&format!("TG.OVERRIDE LIST {words}"))
    };
    let long = "x".repeat(5_000);
    let empty = ["the key is empty"; 2];
    let (everyone, nobody) = (place(Some("chat"), Some("")), place(Some(""), None));
    let policy = ["`policy`: it is empty", "POLICY: it is empty"];
    let of = |place| proto::ListOverridesRequest {
        of: Some(place),
        ..Default::default()
    };
    let cursor = proto::ListOverridesRequest {
        cursor: vec![0_u8, 0].into(),
        ..Default::default()
    };
    let page = [
        "`limit` is from 1 to 1000",
        "COUNT is not a number from 1 to 1000",
    ];
    vec![
        set(
            "an override of an empty key",
            empty,
            everyone.clone(),
            r#""policy":"chat","key":"""#,
            "POLICY chat KEY ''",
        ),
        set(
            "an override of an empty policy",
            policy,
            nobody.clone(),
            r#""policy":"""#,
            "POLICY ''",
        ),
        remove(
            "that of an empty key",
            empty,
            everyone.clone(),
            "policy=chat&key=",
            "POLICY chat KEY ''",
        ),
        remove(
            "that of an empty policy",
            policy,
            nobody.clone(),
            "policy=",
            "POLICY ''",
        ),
        remove(
            "that of a long key",
            ["the key has 5000 bytes"; 2],
            place(None, Some(&long)),
            &format!("key={long}"),
            &format!("KEY {long}"),
        ),
        list(
            "those of an empty key",
            empty,
            of(everyone),
            "policy=chat&key=",
            "POLICY chat KEY ''",
        ),
        list(
            "those of an empty policy",
            policy,
            of(nobody),
            "policy=",
            "POLICY ''",
        ),
        list(
            "those beyond nothing",
            [
                "`cursor`: invalid cursor; start again",
                "invalid cursor; start again",
            ],
            cursor,
            "cursor=AAA",
            "CURSOR AAA",
        ),
        Case::new("a page of none", page)
            .get("/v1/keys?policy=chat&limit=0")
            .resp("TG.KEYS chat COUNT 0"),
        Case::new("a long page of keys", page)
            .get("/v1/keys?policy=chat&limit=1001")
            .grpc(Request::Keys(1_001))
            .resp("TG.KEYS chat COUNT 1001"),
        Case::new("a long page of leases", page)
            .get("/v1/leases?policy=slots&limit=1001")
            .grpc(Request::Leases(1_001))
            .resp("TG.LEASES slots COUNT 1001"),
    ]
}

async fn told(client: &mut TidegateClient<Channel>, ask: Request) -> Result<(), Status> {
    let slots = || "slots".to_owned();
    match ask {
        Request::Check(check) => client.check(check).await.map(drop),
        Request::Many(count) => {
            let checks = vec![about("chat", "k"); count];
            let batch = proto::CheckManyRequest {
                checks,
                ..Default::default()
            };
            client.check_many(batch).await.map(drop)
        }
        Request::Acquire(ask) => client.acquire(ask).await.map(drop),
        Request::Renew(ttl_ms) => {
            let (lease, ttl_ms) = (Some(lease(LEASE)), Some(ttl_ms));
            client
                .renew(proto::RenewRequest { lease, ttl_ms })
                .await
                .map(drop)
        }
        Request::Settle(settle) => client.settle(settle).await.map(drop),
        Request::Adjust(adjust) => client.adjust(adjust).await.map(drop),
        Request::Release(lease) => client.release(lease).await.map(drop),
        Request::Revoke(handle) => {
            let revoke = proto::RevokeLeaseRequest {
                policy: slots(),
                key: "k".into(),
                handle: handle.to_owned(),
                ..Default::default()
            };
            client.revoke_lease(revoke).await.map(drop)
        }
        Request::Set(place) => {
            let rpm = LimitNumbers {
                calls: Some(4),
                per: "1h".to_owned(),
                ..Default::default()
            };
            let set = proto::SetOverrideRequest {
                place: Some(place),
                limits: [("rpm".to_owned(), rpm)].into(),
                ..Default::default()
            };
            client.set_override(set).await.map(drop)
        }
        Request::Remove(place) => {
            let place = Some(place);
            let remove = proto::RemoveOverrideRequest {
                place,
                ..Default::default()
            };
            client.remove_override(remove).await.map(drop)
        }
        Request::Overrides(list) => client.list_overrides(list).await.map(drop),
        Request::Keys(limit) => {
            let list = proto::ListKeysRequest {
                policy: "chat".to_owned(),
                limit,
                ..Default::default()
            };
            client.list_keys(list).await.map(drop)
        }
        Request::Leases(limit) => {
            let list = proto::ListLeasesRequest {
                policy: slots(),
                limit,
                ..Default::default()
            };
            client.list_leases(list).await.map(drop)
        }
    }
}

/// A service with its three protocols.
struct House {
    runtime: Runtime,
    service: Service,
    caller: Caller,
    http: Http,
    grpc: TidegateClient<Channel>,
    resp: Resp,
}

impl House {
    fn open() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let file = tidegate_policy::parse("t.toml", POLICIES).expect("policies");
        let builder = Service::builder().clock(ManualClock::default().clock());
        let service = builder.build(&file).expect("a service");
        let listen = || -> (TcpListener, SocketAddr) {
            let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"));
            let listener = listener.expect("a port");
            let at = listener.local_addr().expect("an address");
            (listener, at)
        };
        let [(http, at_http), (grpc, at_grpc), (resp, at_resp)] = [listen(), listen(), listen()];
        let connections = |listener| Listener::from(listener).connections();
        let server = tidegate_http::Server::new(service.clone(), Default::default());
        runtime.spawn(server.serve(connections(http), pending()));
        let server = tidegate_grpc::Server::new(service.clone(), Default::default());
        runtime.spawn(server.serve(connections(grpc), pending()));
        let server = tidegate_resp::Server::new(service.clone(), Default::default());
        runtime.spawn(server.serve(connections(resp), pending()));
        let grpc = TidegateClient::connect(format!("http://{at_grpc}"));
        Self {
            http: Http::connect(at_http).expect("HTTP"),
            grpc: runtime.block_on(grpc).expect("gRPC"),
            resp: Resp::connect(at_resp).expect("RESP"),
            caller: service.enter(None).expect("everyone is let in"),
            service,
            runtime,
        }
    }

    /// Nobody holds or has used anything, and no override is set.
    fn is_untouched(&self) -> bool {
        let all = || PageOf {
            select: Select::All,
            after: None,
            most: 10,
        };
        let policies = self.service.policies(&self.caller);
        let holds_nothing = policies.iter().all(|served| {
            let keys = served.list_keys(all()).wait().expect("a page");
            let leases = served.list_leases(all()).wait().expect("a page");
            keys.items.is_empty() && leases.items.is_empty()
        });
        let everywhere = tidegate_service::OverrideTarget::everything();
        let overrides = self.service.overrides(&self.caller, &everywhere, None, 10);
        holds_nothing && overrides.is_empty()
    }

    fn over_http(&mut self, case: &Case) {
        let Some((method, path, body)) = &case.http else {
            return;
        };
        let (status, body) = self
            .http
            .send(method, path, "application/json", body)
            .expect("an answer");
        let body = String::from_utf8(body).expect("text");
        let (expected, code) = match case.is_missing {
            true => (404, "\"code\":\"not_found\""),
            false => (400, "\"code\":\"invalid\""),
        };
        assert_eq!(status, expected, "{}: {body}", case.what);
        assert!(body.contains(code), "{}: {body}", case.what);
        assert!(body.contains(case.told[0]), "{}: {body}", case.what);
        assert!(body.len() < 1_024, "{}", case.what);
    }

    fn over_grpc(&mut self, case: &mut Case) {
        let Some(ask) = case.grpc.take() else {
            return;
        };
        let answer = self.runtime.block_on(told(&mut self.grpc, ask));
        let status = answer.expect_err(case.what);
        let expected = match case.is_missing {
            true => Code::NotFound,
            false => Code::InvalidArgument,
        };
        assert_eq!(status.code(), expected, "{}: {status}", case.what);
        assert!(
            status.message().contains(case.told[0]),
            "{}: {status}",
            case.what
        );
        assert!(status.message().len() < 1_024, "{}", case.what);
    }

    fn over_resp(&mut self, case: &Case) {
        let Some(words) = &case.resp else {
            return;
        };
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let answer = self.resp.send(&words).expect("an answer");
        let fault = answer.expect_err(case.what);
        assert!(fault.starts_with("ERR "), "{}: {fault}", case.what);
        assert!(fault.contains(case.told[1]), "{}: {fault}", case.what);
        assert!(fault.len() < 1_024, "{}", case.what);
    }
}

#[test]
fn what_is_out_of_bounds_is_refused_alike_by_every_protocol_and_changes_nothing() {
    let mut house = House::open();
    assert!(house.is_untouched());
    let cases = [checks(), leases(), uses(), places()].into_iter().flatten();
    for mut case in cases {
        house.over_http(&case);
        house.over_grpc(&mut case);
        house.over_resp(&case);
        assert!(house.is_untouched(), "{}", case.what);
    }
}

/// The instant is exact, and nobody is told to come back before it.
#[test]
fn those_who_are_refused_are_told_by_every_protocol_to_come_back_apart() {
    const EXACT: u64 = 3_600_000;
    let mut house = House::open();
    let check = r#"{"policy":"burst","key":"k"}"#;
    let mut over_http = || {
        let sent = house
            .http
            .send("POST", "/v1/check", "application/json", check);
        let (_, body) = sent.expect("an answer");
        let body: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        body["retry_after_ms"].as_u64()
    };
    assert_eq!(over_http(), None, "it fits");
    let over_http: Vec<_> = (0..20).map(|_| over_http()).collect();
    let over_grpc = (0..20).map(|_| {
        let checked = house.grpc.check(about("burst", "k"));
        let checked = house.runtime.block_on(checked).expect("an answer");
        checked.into_inner().retry_after_ms
    });
    let over_grpc: Vec<_> = over_grpc.collect();
    let over_resp = (0..20).map(|_| {
        let checked = house.resp.send(&["TG.CHECK", "burst", "k"]);
        checked.expect("an answer").expect("no error")["retry_after_ms"].as_u64()
    });
    for waits in [over_http, over_grpc, over_resp.collect()] {
        for wait in &waits {
            let wait = wait.expect("it is refused");
            assert!((EXACT..=EXACT + 600_000).contains(&wait), "{wait}");
        }
        assert!(waits.iter().any(|wait| *wait != waits[0]), "{waits:?}");
    }
}
