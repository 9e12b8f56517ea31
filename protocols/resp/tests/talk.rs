//! Conversations over a socket.

#[path = "../../../service/tests/support/away.rs"]
mod away;
mod support;

use std::io::Write;
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;

use away::Away;
use support::{CHAT, THREADS, TestServer, request, tokens, until};
use tidegate_resp::Settings;
use tidegate_service::{Scope, Service};
use tidegate_store::{
    Abilities, Change, Defined, Definitions, Plan, Store, StoreError, StoreFuture, Table,
};

#[test]
fn clients_are_greeted_as_by_redis() {
    let server = TestServer::start();
    let mut client = server.client();
    for (line, reply) in [
        ("PING", "PONG"),
        ("ping hi", "hi"),
        ("ECHO hi", "hi"),
        ("CLIENT SETINFO LIB-NAME redis-py", "OK"),
        ("CLIENT SETINFO lib-ver 1.0", "OK"),
        ("CLIENT SETNAME me", "OK"),
        ("CLIENT GETNAME", "me"),
        ("CLIENT ID", "1"),
        (
            "CLIENT INFO",
            "id=1 name=me user=anyone lib-name=redis-py lib-ver=1.0 resp=2 db=0\n",
        ),
        ("SELECT 0", "OK"),
        ("SELECT 1", "-ERR DB index is out of range; there is only 0"),
        ("COMMAND COUNT", "35"),
        (
            "COMMAND INFO ping nothing",
            "[[ping,-1,[fast],0,0,0,[],[],[],[]],nil]",
        ),
        ("AUTH anything", "OK"),
        ("HELLO 4", "-NOPROTO unsupported protocol version"),
        ("GET k", "-ERR unknown command 'GET'"),
        ("RESET", "RESET"),
        ("CLIENT GETNAME", "nil"),
        ("QUIT", "OK"),
    ] {
        assert_eq!(client.request(line), reply, "{line}");
    }
    assert!(client.is_closed());
}

/// A cost was taken as so many of the unit, and an amount as so many ones.
#[test]
fn amounts_of_a_limit_with_a_unit_are_decimals_in_every_verb() {
    let server = TestServer::of(
        "[policy.spend.limits]\nusd = { budget = '2.50', per = '1h', unit = '0.01' }\n\
         [policy.both.limits]\nusd = { budget = 3, per = '1h', unit = '0.01' }\n\
         tokens = { rate = 9, per = '1h' }\n",
        Settings::default(),
    );
    let mut client = server.client();
    let left = |client: &mut support::Client| {
        let peeked = client.request("TG.PEEK spend k COST 0.01");
        let at = peeked.find("remaining,").expect("a standing");
        peeked[at..].split(',').nth(1).expect("a number").to_owned()
    };
    for (line, remaining) in [
        ("TG.CHECK spend k AMOUNT usd 0.10", "2.40"),
        ("TG.CHECK spend k AMOUNT usd 1", "1.40"),
        ("TG.CHECK spend k COST 1", "0.40"),
        ("TG.CHECK spend k COST 0.4", "0.00"),
    ] {
        let answer = client.request(line);
        assert!(!answer.starts_with('-'), "{line}: {answer}");
        assert_eq!(left(&mut client), remaining, "{line}");
    }
    for (line, wrong) in [
        (
            "TG.CHECK spend k AMOUNT usd 0.001",
            "-ERR limit `usd`: 0.001 is finer than the limit's unit, 0.01",
        ),
        (
            "TG.CHECK both k COST 1",
            "-ERR limits `usd` and `tokens` have different units, so that one cost cannot be of both; name their amounts instead",
        ),
    ] {
        assert_eq!(client.request(line), wrong);
    }
    let set = "TG.OVERRIDE SET POLICY spend KEY k LIMIT usd budget 4.25 per 1h";
    let set = client.request(set);
    assert!(
        set.contains("budget,4.25") && set.contains("unit,0.01"),
        "{set}"
    );
    assert_eq!(left(&mut client), "1.75");
}

#[test]
fn hello_changes_flat_arrays_into_maps() {
    let server = TestServer::start();
    let mut client = server.client();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        client.request("HELLO"),
        format!(
            "[server,tidegate,version,{version},proto,2,id,1,mode,standalone,role,master,modules,[]]"
        )
    );
    assert_eq!(
        client.request("TG.CHECK chat alice AMOUNT rpm 4"),
        "[verdict,admitted,not_until_us,nil,retry_after_ms,0,binding,nil,degraded,0,\
         limits,[rpm,[limit,10,remaining,6,reset_ms,1440000]],shadowed,0,level,nil,member,nil,entity,nil]"
    );
    assert_eq!(
        client.request("HELLO 3 SETNAME me"),
        format!(
            "{{server:tidegate,version:{version},proto:3,id:1,mode:standalone,role:master,modules:[]}}"
        )
    );
    assert_eq!(
        client.request("TG.CHECK chat alice AMOUNT rpm 7"),
        "{verdict:refused,not_until_us:1767269160000000,retry_after_ms:360000,binding:rpm,degraded:f,\
         limits:{rpm:{limit:10,remaining:6,reset_ms:1440000}},shadowed:f,level:nil,member:nil,entity:nil}"
    );
    assert_eq!(client.request("CLIENT GETNAME"), "me");
    assert!(
        client
            .request("INFO")
            .starts_with("txt:# Server\r\nredis_version:")
    );
    assert!(
        client
            .request("COMMAND DOCS tg.check")
            .starts_with("{tg.check:{summary:")
    );
}

#[test]
fn every_verb_has_its_answer() {
    let server = TestServer::start();
    let mut client = server.client();
    client.request("HELLO 3");
    let granted = client.request("TG.ACQUIRE slots k TTL 5000 IDEMPOTENCY job-1");
    let lease = granted.strip_prefix("{lease:").unwrap()[..32].to_owned();
    assert!(
        granted.contains(",expires_at_us:1767268805000000,repeated:f,verdict:admitted,"),
        "{granted}"
    );
    // Last, where a client that reads by place has what it had before.
    let noted = ",metadata:{},granted_at_us:1767268800000000}";
    assert!(granted.ends_with(noted), "{granted}");
    let again = client.request("TG.ACQUIRE slots k IDEMPOTENCY job-1");
    assert!(again.ends_with(noted), "{again}");
    assert!(again.starts_with(&format!("{{lease:{lease},")) && again.contains("repeated:t"));
    let refused = client.request("TG.ACQUIRE slots k");
    assert!(
        refused.starts_with("{lease:nil,fence:nil,expires_at_us:nil,repeated:f,verdict:refused,")
    );
    assert!(refused.contains("binding:running,"), "{refused}");
    for (line, reply) in [
        (
            format!("TG.RENEW slots k {lease}"),
            "{expires_at_us:1767268920000000}",
        ),
        (
            format!("TG.RENEW slots k {lease} 9000"),
            "{expires_at_us:1767268809000000}",
        ),
        (
            format!("TG.ADJUST slots k {lease} AMOUNT running 2"),
            "-NEVER never: running grants at most 1 at once; ask for less, or raise the limit",
        ),
        (
            format!("TG.ADJUST slots k {lease} AMOUNT running 0 OVERDRAW"),
            "{verdict:admitted,not_until_us:nil,retry_after_ms:0,binding:nil,degraded:f,limits:{running:{limit:1,remaining:1,reset_ms:0}},shadowed:f,level:nil,member:nil,entity:nil}",
        ),
        (
            format!("TG.ADJUST slots k {lease} AMOUNT running 1"),
            "{verdict:admitted,not_until_us:nil,retry_after_ms:0,binding:nil,degraded:f,limits:{running:{limit:1,remaining:0,reset_ms:9000}},shadowed:f,level:nil,member:nil,entity:nil}",
        ),
        (
            format!("TG.ADJUST slots k {lease} OVERDRAW OVERDRAW"),
            "-ERR 'OVERDRAW' is given twice",
        ),
        (
            format!("TG.ADJUST slots k {lease} COST 1 COST 1"),
            "-ERR 'COST' is given twice",
        ),
        (
            format!("TG.SETTLE slots k {lease} USED running 1"),
            "{expired:f,repeated:f,used:{running:{taken:1,used:1}},member:nil,cooling_until_us:nil}",
        ),
        (
            format!("TG.RELEASE slots k {lease}"),
            "{expired:f,repeated:t,used:{running:{taken:1,used:1}},member:nil,cooling_until_us:nil}",
        ),
        (
            format!("TG.CANCEL slots k {}", "0".repeat(32)),
            "-NOLEASE there is no such lease under this policy and key: it ended and was forgotten, or was never granted; look at the policy and key, or acquire again",
        ),
        (
            format!("TG.RENEW slots k {lease} 9000"),
            "-NOLEASE the lease had ended by 2026-01-01T12:00:00Z; acquire again",
        ),
        (
            "TG.RELEASE slots k abc".into(),
            "-ERR a lease's id has 32 hexadecimal digits",
        ),
        (
            "TG.DEBIT chat k AMOUNT rpm 12".into(),
            "{verdict:refused,not_until_us:1767269880000000,retry_after_ms:1080000,binding:rpm,degraded:f,limits:{rpm:{limit:10,remaining:0,reset_ms:4320000}},shadowed:f,level:nil,member:nil,entity:nil}",
        ),
        ("TG.RESET chat k".into(), "OK"),
        (
            "TG.PEEK chat k".into(),
            "{verdict:admitted,not_until_us:nil,retry_after_ms:0,binding:nil,degraded:f,limits:{rpm:{limit:10,remaining:10,reset_ms:0}},shadowed:f,level:nil,member:nil,entity:nil}",
        ),
        (
            "TG.FORECAST chat k AMOUNT rpm 3".into(),
            "{rpm:{spendable:3,verdict:admitted,not_until_us:nil,retry_after_ms:0,limit:10,remaining:10,reset_ms:0}}",
        ),
        (
            "TG.POLICIES".into(),
            "{chat:{levels:[],limits:{rpm:{counts:calls,limit:10,at_most:10,per:3600000 ms}}},slots:{levels:[],limits:{running:{counts:concurrency,limit:1,at_most:1,per:nil}}}}",
        ),
    ] {
        assert_eq!(client.request(&line), reply, "{line}");
    }
}

#[test]
fn a_grant_is_spent_and_returned_once() {
    let server = TestServer::start();
    let mut client = server.client();
    client.request("HELLO 3");
    let id = "00112233445566778899aabbccddeeff";
    let granted = client.request(&format!(
        "TG.GRANT chat k AMOUNT rpm 20 LEAST rpm 5 HOLD 500 LEASE {id}"
    ));
    let facts = format!(
        "{{lease:{id},amounts:{{rpm:10}},calls:[rpm],good_for_ms:500,\
         good_until_us:1767268800500000,granted_at_us:1767268800000000,\
         expires_at_us:1767268800500000,verdict:admitted,"
    );
    assert!(granted.starts_with(&facts), "{granted}");
    let refused = client.request("TG.GRANT chat k");
    let none = "{lease:nil,amounts:{},calls:[],good_for_ms:nil,good_until_us:nil,\
                granted_at_us:nil,expires_at_us:nil,verdict:refused,";
    assert!(refused.starts_with(none), "{refused}");
    for repeated in ["f", "t"] {
        assert_eq!(
            client.request(&format!("TG.RETURN chat k {id} USED rpm 4")),
            format!(
                "{{expired:f,repeated:{repeated},used:{{rpm:{{taken:10,used:4}}}},member:nil,\
                 cooling_until_us:nil}}"
            ),
        );
    }
    let peek = client.request("TG.PEEK chat k");
    assert!(peek.contains("rpm:{limit:10,remaining:6,"), "{peek}");
    for (line, reply) in [
        (
            "TG.GRANT slots k",
            "-ERR no grant is made of `running`, which is a concurrency limit, and slots cannot \
             be granted in advance: use acquire, or put the limit into a policy of its own",
        ),
        (
            "TG.GRANT chat k HOLD 9",
            "-ERR hold_ms is not a number from 10 to 60000: '9'",
        ),
        (
            "TG.GRANT chat k LEASE abc",
            "-ERR a lease's id has 32 hexadecimal digits",
        ),
        (
            "TG.GRANT chat k LEASE 6772616e742e74670000000000000001",
            "-ERR ids that begin with 6772616e742e7467, 736c6f74732e7467 or 6c6f63616c2e7467 are \
             reserved for what servers take; draw another at random",
        ),
        (
            "TG.GRANT chat k HOLD 20 HOLD 20",
            "-ERR 'HOLD' is given twice",
        ),
        (
            "TG.GRANT chat k AMOUNT rpm 20 LEAST rpm 11",
            "-NEVER never: rpm grants at most 10 at once; ask for less, or raise the limit",
        ),
    ] {
        assert_eq!(client.request(line), reply, "{line}");
    }
}

#[test]
fn an_error_begins_with_its_code() {
    let server = TestServer::start();
    let mut client = server.client();
    for (line, reply) in [
        ("NOTHING", "-ERR unknown command 'NOTHING'"),
        (
            "TG.CHECK nothing k",
            "-ERR there is no policy `nothing`; there is `chat`, `slots`",
        ),
        (
            "TG.CHECK chat k AMOUNT nothing 1",
            "-ERR there is no limit `nothing` here; there is `rpm`",
        ),
        (
            "TG.CHECK chat k AMOUNT rpm 11",
            "-NEVER never: rpm grants at most 10 at once; ask for less, or raise the limit",
        ),
        (
            "TG.CHECK chat k AMOUNT rpm",
            "-ERR syntax error at 'AMOUNT'; it is TG.CHECK policy key [COST n] [AMOUNT limit n]... [ENTITY]",
        ),
        (
            "TG.CHECK chat k AMOUNT rpm -1",
            "-ERR the amount is not a number from 0 to 9007199254740991: '-1'",
        ),
        (
            "TG.CHECK chat k WAIT 5",
            "-ERR syntax error at 'WAIT'; it is TG.CHECK policy key [COST n] [AMOUNT limit n]... [ENTITY]",
        ),
        (
            "TG.ACQUIRE slots k WAIT 2s",
            "-ERR WAIT is not a whole number of milliseconds, such as 2000: '2s'",
        ),
        (
            "TG.ACQUIRE chat k COST 1 COST 2",
            "-ERR 'COST' is given twice",
        ),
        (
            "TG.ACQUIRE chat k PRIORITY 256",
            "-ERR PRIORITY is not a number from 0 to 255: '256'",
        ),
        (
            "TG.CHECK slots k",
            "-ERR limit `running` is held while in use: take it with acquire, or name it with 0 (`running=0`)",
        ),
        (
            "TG.CHECK chat",
            "-ERR wrong number of arguments for 'TG.CHECK' command; it is TG.CHECK policy key [COST n] [AMOUNT limit n]... [ENTITY]",
        ),
        (
            "CLIENT KILL",
            "-ERR unknown subcommand 'KILL' of CLIENT; there is ID, GETNAME, SETNAME name, SETINFO attribute value, INFO, LIST, NO-EVICT on|off and NO-TOUCH on|off",
        ),
    ] {
        assert_eq!(client.request(line), reply, "{line}");
    }
    let long = "k".repeat(4_097);
    assert!(
        client
            .request(&format!("CL.THROTTLE {long} 1 1 1"))
            .starts_with("-ERR the key has 4097 bytes")
    );
    client.send("*5\r\n$11\r\nCL.THROTTLE\r\n$0\r\n\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n");
    assert!(client.reply().starts_with("-ERR the key is empty"));
    // A key is any bytes.
    client
        .send(b"*5\r\n$11\r\nCL.THROTTLE\r\n$4\r\n\r\n\0\xff\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n");
    assert_eq!(client.reply(), "[0,2,1,-1,1]");
}

#[test]
fn a_pipeline_is_answered_in_order_wherever_it_is_cut() {
    let server = TestServer::start();
    let lines = [
        "PING",
        "CL.THROTTLE k 15 30 60",
        "ECHO a",
        "NOTHING",
        "CL.THROTTLE k 15 30 60",
    ];
    let replies = [
        "PONG",
        "[0,16,15,-1,2]",
        "a",
        "-ERR unknown command 'NOTHING'",
        "[0,16,14,-1,4]",
    ];
    let bytes = lines.map(request).concat();
    let mut client = server.client();
    for cut in 0..bytes.len() {
        client.send(&bytes[..cut]);
        if cut % 7 == 0 {
            // So that what was sent is read before the rest comes.
            server.client().request("PING");
        }
        client.send(&bytes[cut..]);
        assert_eq!(replies.map(|_| client.reply()), replies, "{cut}");
        server.time.advance(Duration::from_secs(4));
    }
}

#[test]
fn a_long_pipeline_is_answered_though_nobody_reads_meanwhile() {
    let server = TestServer::with(Settings::default().max_pipelined(7));
    let mut client = server.client();
    let mut sender = client.stream.try_clone().unwrap();
    let count = 20_000;
    let bytes = request("CL.THROTTLE k 15 30 60 0").repeat(count);
    let sent = std::thread::spawn(move || sender.write_all(&bytes).unwrap());
    for _ in 0..count {
        assert_eq!(client.reply(), "[0,16,16,-1,0]");
    }
    sent.join().unwrap();
}

#[test]
fn people_may_type() {
    let server = TestServer::start();
    let mut client = server.client();
    client.send("PING\r\necho 'a b'\n\r\ncl.throttle \"k\\x00\" 15 30 60\r\n");
    assert_eq!(
        [client.reply(), client.reply(), client.reply()],
        ["PONG", "a b", "[0,16,15,-1,2]"]
    );
}

#[test]
fn nonsense_ends_the_connection_with_a_word() {
    let server = TestServer::start();
    for (bytes, error) in [
        (
            "*1\r\n:1\r\n".to_owned(),
            "-ERR Protocol error: expected '$', got another type",
        ),
        (
            "*99999\r\n".to_owned(),
            "-ERR Protocol error: invalid multibulk length",
        ),
        (
            "*1\r\n$-5\r\n".to_owned(),
            "-ERR Protocol error: invalid bulk length",
        ),
        (
            "*1\r\n$70000\r\n".to_owned(),
            "-ERR Protocol error: too big request",
        ),
        (
            "PING \"a\r\n".to_owned(),
            "-ERR Protocol error: unbalanced quotes in request",
        ),
        (
            "POST / HTTP/1.1\r\nHost: x\r\n".to_owned(),
            "-ERR Protocol error: this is not HTTP",
        ),
        ("x".repeat(70_000), "-ERR Protocol error: too big request"),
    ] {
        let mut client = server.client();
        client.send(request("PING"));
        assert_eq!(client.reply(), "PONG");
        // The other side may hang up before it has read all of this.
        let _ = client.stream.write_all(bytes.as_bytes());
        assert_eq!(client.reply(), error);
        assert!(client.is_closed());
    }
}

#[test]
fn nobody_is_let_in_without_a_token() {
    let server = TestServer::start();
    server
        .service
        .replace_credentials(tokens(&[("ci", &[Scope::Decide], &["chat"])]));
    let mut client = server.client();
    for line in [
        "PING",
        "CL.THROTTLE k 1 1 1",
        "TG.CHECK chat k",
        "INFO",
        "NOTHING",
        "HELLO 3",
        "CLIENT ID",
        "COMMAND",
    ] {
        assert_eq!(
            client.request(line),
            "-NOAUTH Authentication required.",
            "{line}"
        );
    }
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.";
    assert_eq!(client.request("AUTH guess"), wrong);
    assert_eq!(client.request("AUTH other ci"), wrong);
    assert_eq!(client.request("HELLO 3 AUTH default guess"), wrong);
    assert_eq!(client.request("PING"), "-NOAUTH Authentication required.");
    assert_eq!(client.request("AUTH ci"), "OK");
    assert_eq!(client.request("PING"), "PONG");
    assert_eq!(client.request("RESET"), "RESET");
    assert_eq!(client.request("PING"), "-NOAUTH Authentication required.");
    assert!(client.request("HELLO 3 AUTH ci ci").starts_with("{server:"));
}

#[test]
fn a_token_is_good_for_its_scopes_and_policies() {
    let server = TestServer::start();
    server.service.replace_credentials(tokens(&[
        ("decides", &[Scope::Decide], &["chat"]),
        ("looks", &[Scope::Observe], &[]),
        ("old", &[Scope::Decide], &["throttle"]),
    ]));
    let lease = "0".repeat(32);
    let commands = [
        ("TG.CHECK chat k".to_owned(), "decides"),
        ("TG.ACQUIRE chat k".to_owned(), "decides"),
        ("TG.DEBIT chat k AMOUNT rpm 1".to_owned(), "decides"),
        (format!("TG.SETTLE chat k {lease}"), "decides"),
        (format!("TG.RELEASE chat k {lease}"), "decides"),
        (format!("TG.CANCEL chat k {lease}"), "decides"),
        (format!("TG.RENEW chat k {lease} 1000"), "decides"),
        ("TG.PEEK chat k".to_owned(), "looks"),
        ("TG.FORECAST chat k".to_owned(), "looks"),
        ("TG.RESET chat k".to_owned(), "nobody"),
        ("TG.CHECK slots k".to_owned(), "nobody"),
        ("CL.THROTTLE k 1 1 1".to_owned(), "old"),
        ("THROTTLE k 1 1 1".to_owned(), "old"),
    ];
    for who in ["decides", "looks", "old"] {
        let mut client = server.client();
        assert_eq!(client.request(&format!("AUTH {who}")), "OK");
        for (line, may) in &commands {
            let refused = client.request(line).starts_with("-NOPERM");
            assert_eq!(refused, who != *may, "{who}: {line}");
        }
        let refused = client.request("TG.POLICIES").starts_with("-NOPERM");
        assert_eq!(refused, who != "looks");
    }
}

#[test]
fn whoever_is_there_is_looked_at_again_when_tokens_change() {
    let server = TestServer::start();
    let mut client = server.client();
    assert_eq!(client.request("PING"), "PONG");
    server
        .service
        .replace_credentials(tokens(&[("a", &Scope::ALL, &[]), ("b", &Scope::ALL, &[])]));
    assert_eq!(client.request("PING"), "-NOAUTH Authentication required.");
    assert_eq!(client.request("AUTH a"), "OK");
    server
        .service
        .replace_credentials(tokens(&[("a", &[Scope::Observe], &[])]));
    assert_eq!(client.request("PING"), "PONG");
    assert!(client.request("TG.CHECK chat k").starts_with("-NOPERM"));
    server
        .service
        .replace_credentials(tokens(&[("b", &Scope::ALL, &[])]));
    assert_eq!(client.request("PING"), "-NOAUTH Authentication required.");
    server.service.replace_credentials(Vec::new());
    assert_eq!(client.request("PING"), "PONG");
}

#[test]
fn an_idempotency_key_that_is_too_long_is_refused() {
    let server = TestServer::start();
    let mut client = server.client();
    for wait in ["", " WAIT 1000"] {
        let long = "x".repeat(256);
        let refused = client.request(&format!("TG.ACQUIRE slots k IDEMPOTENCY {long}{wait}"));
        assert!(
            refused.starts_with("-ERR an idempotency key has 1 to 255 bytes"),
            "{refused}"
        );
    }
    let long = "x".repeat(255);
    lease(&client.request(&format!("TG.ACQUIRE slots k IDEMPOTENCY {long}")));
}

/// It was an error over HTTP, made shorter in silence over gRPC, and a day here.
#[test]
fn a_wait_that_is_too_long_is_refused() {
    let server = TestServer::start();
    let mut client = server.client();
    let refused = client.request("TG.ACQUIRE slots k WAIT 300001");
    assert!(
        refused.starts_with("-ERR a request may wait 300s at most here"),
        "{refused}"
    );
    lease(&client.request("TG.ACQUIRE slots k WAIT 300000"));
}

#[test]
fn a_store_that_cannot_tell_is_answered_as_the_failure_mode_says() {
    let policies = "[policy.open]\nfailure_mode = 'admit'\n\
                    limits.rpm = { calls = 10, per = '1h' }\n\
                    [policy.shut]\nlimits.rpm = { calls = 10, per = '1h' }\n";
    let service = Service::builder().store(Arc::new(Away));
    let server = TestServer::at(service, policies, Settings::default());
    let mut client = server.client();
    client.request("HELLO 3");
    let facts = "verdict:admitted,not_until_us:nil,retry_after_ms:0,binding:nil,degraded:t,limits:{},shadowed:f,level:nil,member:nil,entity:nil}";
    assert_eq!(client.request("TG.CHECK open b"), format!("{{{facts}"));
    let no_lease = "{lease:nil,fence:nil,expires_at_us:nil,repeated:f,";
    assert_eq!(
        client.request("TG.ACQUIRE open b WAIT 5"),
        format!(
            "{no_lease}{},metadata:{{}},granted_at_us:nil}}",
            facts.trim_end_matches('}')
        )
    );
    let error = client.request("TG.CHECK shut b");
    assert!(error.starts_with("-UNAVAILABLE "), "{error}");
    assert!(error.contains("the cable is pulled"), "{error}");
}

/// A store that never has what it is told.
struct Still;

impl Store for Still {
    fn abilities(&self) -> Abilities {
        Away.abilities()
    }
    fn definitions(&self, owner: &str, newer_than: u64) -> StoreFuture<Definitions> {
        Away.definitions(owner, newer_than)
    }
    fn change(&self, _: &str, _: Change) -> StoreFuture<Defined> {
        StoreFuture::new(std::future::pending())
    }
    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        Away.open(name, plan)
    }
}

/// Each had a thread of the runtime until the store had it.
#[test]
fn overrides_that_a_store_holds_up_hold_up_nobody_else() {
    let server = TestServer::at(
        Service::builder().store(Arc::new(Still)),
        CHAT,
        Settings::default(),
    );
    let changes = (0..2 * THREADS).map(|nth| {
        let mut client = server.client();
        client.request("PING");
        client.send(request(match nth % 2 {
            0 => "TG.OVERRIDE SET POLICY chat LIMIT rpm calls 20 per 1h",
            _ => "TG.OVERRIDE REMOVE POLICY chat",
        }));
        client
    });
    let changes: Vec<_> = changes.collect();
    // Nothing tells when all of them are at the store: others are asked for a while.
    for nth in 0..100 {
        let mut other = server.client();
        assert_eq!(other.request("PING"), "PONG", "the {nth}th");
    }
    drop(changes);
}

#[test]
fn what_is_full_is_told_apart_from_a_store_that_cannot_tell() {
    let policies = "[policy.open]\nmax_keys = 1\nfailure_mode = 'admit'\n\
                    limits.rpm = { calls = 10, per = '1h' }\n\
                    [policy.line]\nmax_waiting = 1\nlimits.running = { concurrency = 1 }\n";
    let server = TestServer::of(policies, Settings::default());
    let mut client = server.client();
    client.request("HELLO 3");
    assert!(
        client
            .request("TG.CHECK open a")
            .contains("verdict:admitted")
    );
    for command in ["TG.CHECK open b", "TG.ACQUIRE open b WAIT 5"] {
        let error = client.request(command);
        assert!(
            error.starts_with("-FULL all 1 keys that may be kept are in use"),
            "{error}"
        );
    }
    client.request("TG.ACQUIRE line k");
    let mut waiter = server.client();
    waiter.send(request("TG.ACQUIRE line k WAIT 60000"));
    server.until_waiting("line", 1);
    assert!(
        client
            .request("TG.ACQUIRE line k WAIT 60000")
            .starts_with("-BUSY 1 requests wait already")
    );
}

#[test]
fn a_service_that_closes_answers_who_waits() {
    let server = TestServer::start();
    let (mut holder, mut waiter) = (server.client(), server.client());
    lease(&holder.request("TG.ACQUIRE slots k"));
    waiter.send(request("TG.ACQUIRE slots k WAIT 60000"));
    server.until_waiting("slots", 1);
    server.service.close();
    assert!(waiter.reply().starts_with("-UNAVAILABLE"));
}

/// The lease in an answer in RESP2.
fn lease(reply: &str) -> String {
    let rest = reply
        .strip_prefix("[lease,")
        .unwrap_or_else(|| panic!("{reply}"));
    rest[..32].to_owned()
}

#[test]
fn whoever_waits_holds_up_nobody_else_and_keeps_the_order() {
    let server = TestServer::start();
    let (mut holder, mut waiter, mut other) = (server.client(), server.client(), server.client());
    let held = lease(&holder.request("TG.ACQUIRE slots k"));
    let pipeline = ["ECHO before", "TG.ACQUIRE slots k WAIT 60000", "ECHO after"];
    waiter.send(pipeline.map(request).concat());
    assert_eq!(waiter.reply(), "before");
    server.until_waiting("slots", 1);
    assert_eq!(other.request("PING"), "PONG");
    waiter.send(request("ECHO later"));
    holder.request(&format!("TG.RELEASE slots k {held}"));
    assert_ne!(lease(&waiter.reply()), held);
    assert_eq!([waiter.reply(), waiter.reply()], ["after", "later"]);
}

#[test]
fn a_wait_ends_at_its_deadline() {
    let server = TestServer::start();
    let (mut holder, mut waiter) = (server.client(), server.client());
    lease(&holder.request("TG.ACQUIRE slots k"));
    waiter.send(request("TG.ACQUIRE slots k WAIT 50"));
    server.until_waiting("slots", 1);
    server.time.advance(Duration::from_millis(50));
    assert!(
        waiter
            .reply()
            .contains("verdict,refused,not_until_us,1767268920000000,")
    );
}

#[test]
fn whoever_goes_while_waiting_gives_the_place_back() {
    let server = TestServer::start();
    let mut holder = server.client();
    let held = lease(&holder.request("TG.ACQUIRE slots k"));
    let (mut gone, mut next) = (server.client(), server.client());
    gone.send(request("TG.ACQUIRE slots k WAIT 60000"));
    server.until_waiting("slots", 1);
    next.send(request("TG.ACQUIRE slots k WAIT 60000"));
    server.until_waiting("slots", 2);
    gone.stream.shutdown(Shutdown::Both).unwrap();
    server.until_waiting("slots", 1);
    holder.request(&format!("TG.RELEASE slots k {held}"));
    lease(&next.reply());
}

#[test]
fn a_server_that_closes_answers_what_was_read() {
    let mut server = TestServer::start();
    let (mut holder, mut waiter, mut idle) = (server.client(), server.client(), server.client());
    assert_eq!(idle.request("PING"), "PONG");
    lease(&holder.request("TG.ACQUIRE slots k"));
    waiter.send(
        [
            request("TG.ACQUIRE slots k WAIT 60000"),
            request("ECHO after"),
        ]
        .concat(),
    );
    server.until_waiting("slots", 1);
    server.close();
    assert_eq!(waiter.reply(), "-UNAVAILABLE the server is closing");
    assert_eq!(waiter.reply(), "after");
    assert!(waiter.is_closed() && idle.is_closed() && holder.is_closed());
    server.closed();
    assert!(std::net::TcpStream::connect(server.address).is_err());
}

#[test]
fn one_connection_too_many_is_told_so() {
    let server = TestServer::with(Settings::default().max_connections(2));
    let (mut first, mut second) = (server.client(), server.client());
    assert_eq!(
        [first.request("PING"), second.request("PING")],
        ["PONG", "PONG"]
    );
    let mut third = server.client();
    assert_eq!(third.reply(), "-ERR max number of clients reached");
    assert!(third.is_closed());
    drop(first);
    until(|| server.client().is_told("PING", "PONG"));
}

/// Whoever had one token had all of them with it, and the others none.
#[test]
fn one_token_has_half_of_the_connections_at_most() {
    let server = TestServer::with(Settings::default().max_connections(6));
    let tokens = tokens(&[
        ("greedy", &[Scope::Decide], &[]),
        ("modest", &[Scope::Decide], &[]),
    ]);
    server.service.replace_credentials(tokens);
    let mut greedy = [server.client(), server.client(), server.client()];
    for client in &mut greedy {
        assert_eq!(client.request("AUTH greedy"), "OK");
        assert_eq!(client.request("AUTH greedy"), "OK");
    }
    for words in ["AUTH greedy", "HELLO 3 AUTH greedy greedy"] {
        let mut third = server.client();
        assert_eq!(
            third.request(words),
            "-ERR max number of clients of this token reached; the connection is closed"
        );
        assert!(third.is_closed());
    }
    let mut modest = server.client();
    assert_eq!(modest.request("AUTH modest"), "OK");
    // One that is somebody else's by now, or nobody's, is none of its.
    assert_eq!(greedy[0].request("RESET"), "RESET");
    let mut again = server.client();
    assert_eq!(again.request("AUTH greedy"), "OK");
    assert_eq!(greedy[1].request("AUTH modest"), "OK");
    assert_eq!(greedy[0].request("AUTH greedy"), "OK");
}

#[test]
fn a_thousand_idle_connections_disturb_nobody() {
    let server = TestServer::start();
    let mut idle: Vec<_> = (0..1_000).map(|_| server.client()).collect();
    let mut client = server.client();
    for _ in 0..100 {
        assert_eq!(client.request("PING"), "PONG");
    }
    until(|| {
        client
            .request("INFO clients")
            .contains("connected_clients:1001\r\n")
    });
    assert_eq!(idle[999].request("PING"), "PONG");
    drop(idle);
    until(|| {
        client
            .request("INFO clients")
            .contains("connected_clients:1\r\n")
    });
}
