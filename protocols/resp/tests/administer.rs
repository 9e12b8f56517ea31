//! Overrides, keys and leases, over a socket.

mod support;

use std::process::Command;

use support::{Client, TestServer};
use tidegate_resp::Settings;

/// How many `chat` grants a key.
fn stands(client: &mut Client, key: &str) -> u64 {
    let peek = client.request(&format!("TG.PEEK chat {key}"));
    let (_, limit) = peek.split_once("[rpm,[limit,").expect("a standing");
    let (limit, _) = limit.split_once(',').expect("a number");
    limit.parse().expect("a number")
}

#[test]
fn the_most_specific_override_holds_until_it_is_removed() {
    let server = TestServer::start();
    let mut client = server.client();
    let places = [
        ("", 11),
        ("POLICY chat", 12),
        ("KEY acme", 13),
        ("policy chat key acme", 14),
    ];
    for (place, count) in places {
        let set = format!("TG.OVERRIDE SET {place} LIMIT rpm calls {count} per 1h");
        let shown = client.request(&set);
        let limits = format!("limits,[rpm,[calls,{count},per,1h]],inert,[],version,");
        assert!(shown.contains(&limits), "{shown}");
        assert_eq!(client.request(&format!("TG.OVERRIDE SHOW {place}")), shown);
        assert_eq!(stands(&mut client, "acme"), count);
    }
    assert_eq!(stands(&mut client, "else"), 12);
    for (place, then) in [
        ("POLICY chat KEY acme", 13),
        ("KEY acme", 12),
        ("POLICY chat", 11),
        ("", 10),
    ] {
        assert_eq!(client.request(&format!("TG.OVERRIDE REMOVE {place}")), "1");
        assert_eq!(client.request(&format!("TG.OVERRIDE REMOVE {place}")), "0");
        assert_eq!(client.request(&format!("TG.OVERRIDE SHOW {place}")), "nil");
        assert_eq!(stands(&mut client, "acme"), then);
    }
}

#[test]
fn a_limit_is_added_to_one_key_alone() {
    let server = TestServer::start();
    let mut client = server.client();
    let place = "POLICY chat KEY acme";
    for said in ["true", "1"] {
        let set = format!("TG.OVERRIDE SET {place} LIMIT gpu calls 1 per 1h added {said}");
        let shown = client.request(&set);
        let limits = "limits,[gpu,[calls,1,per,1h,added,1]],inert,[],";
        assert!(shown.contains(limits), "{shown}");
        assert_eq!(client.request(&format!("TG.OVERRIDE SHOW {place}")), shown);
    }
    let standing = client.request("TG.PEEK chat acme");
    assert!(standing.contains(",gpu,[limit,1,"), "{standing}");
    let other = client.request("TG.PEEK chat other");
    assert!(!other.contains("gpu"), "{other}");
    for wrong in [
        "TG.OVERRIDE SET POLICY chat LIMIT gpu calls 1 per 1h added 1",
        "TG.OVERRIDE SET POLICY chat KEY acme LIMIT gpu calls 1 per 1h added maybe",
        "TG.OVERRIDE SET POLICY chat KEY acme LIMIT rpm calls 1 per 1h added 1",
    ] {
        let answer = client.request(wrong);
        assert!(answer.starts_with("-ERR limit `"), "{wrong}: {answer}");
    }
}

/// What is told of each override behind its limits.
fn records(listed: &str) -> Vec<&str> {
    let records = listed
        .match_indices(",version,")
        .map(|(at, _)| &listed[at..]);
    let of = |record: &'_ str| record.find(']').unwrap_or(record.len());
    records.map(|record| &record[..of(record)]).collect()
}

/// A second change on the same version would have lost the first one.
#[test]
fn a_change_on_an_old_version_is_refused() {
    let server = TestServer::start();
    let mut client = server.client();
    let set = |calls: u64, more: &str| {
        format!("TG.OVERRIDE SET POLICY chat KEY k {more} LIMIT rpm calls {calls} per 1h")
    };
    let first = client.request(&set(11, "IFVERSION 0 REASON bought EXPIRES 60000"));
    assert!(first.contains(",reason,bought,expires_at_us,1"), "{first}");
    let version = first.split_once(",version,").expect("a version").1;
    let version = version.split(',').next().unwrap();
    let refused = |said: String| assert!(said.contains("CONFLICT"), "{said}");
    refused(client.request(&set(12, "IFVERSION 0")));
    let second = client.request(&set(13, &format!("IFVERSION {version}")));
    assert!(second.contains("calls,13"), "{second}");
    refused(client.request(&set(14, &format!("IFVERSION {version}"))));
    let del = format!("TG.OVERRIDE REMOVE POLICY chat KEY k IFVERSION {version}");
    refused(client.request(&del));
    for wrong in [
        "IFVERSION x",
        "IFVERSION -1",
        "IFVERSION 1 IFVERSION 1",
        "EXPIRES 0",
    ] {
        let said = client.request(&set(15, wrong));
        assert!(said.contains("ERR"), "{wrong}: {said}");
    }
    let shown = client.request("TG.OVERRIDE SHOW POLICY chat KEY k");
    assert!(shown.contains("calls,13"), "{shown}");
}

#[test]
fn overrides_are_listed_in_pages() {
    let server = TestServer::start();
    let mut client = server.client();
    for key in ["a", "b", "c"] {
        client.request(&format!(
            "TG.OVERRIDE SET LIMIT rpm calls 20 per 1h POLICY chat KEY {key}"
        ));
    }
    client.request("TG.OVERRIDE SET POLICY slots LIMIT running concurrency 3 ttl 1m");
    let first = client.request("TG.OVERRIDE LIST COUNT 2");
    let (items, cursor) = first.rsplit_once(",cursor,").expect("a cursor");
    let cursor = cursor.trim_end_matches(']');
    assert_eq!(items.matches("[policy,chat,key,").count(), 2, "{first}");
    let second = client.request(&format!("TG.OVERRIDE LIST COUNT 2 CURSOR {cursor}"));
    let [one, other] = records(&second)[..] else {
        panic!("two overrides: {second}");
    };
    let expected = format!(
        "[overrides,[[policy,chat,key,c,level,key_and_policy,limits,\
         [rpm,[calls,20,per,1h]],inert,[]{one}],\
         [policy,slots,key,nil,level,policy,limits,\
         [running,[concurrency,3,ttl,1m]],inert,[]{other}]],cursor,nil]"
    );
    assert_eq!(second, expected);
    for record in [one, other] {
        assert!(
            record.contains(",by,anyone,reason,nil,expires_at_us,nil,"),
            "{record}"
        );
    }
    let of_b = client.request("TG.OVERRIDE LIST KEY b");
    assert_eq!(of_b.matches("[policy,").count(), 1, "{of_b}");
    client.request("HELLO 3");
    let maps = client.request("TG.OVERRIDE LIST POLICY slots");
    assert!(
        maps.contains("limits:{running:{concurrency:3,ttl:1m}}"),
        "{maps}"
    );
}

#[test]
fn what_is_wrong_with_an_override_is_told_at_once_and_sets_nothing() {
    let server = TestServer::start();
    let mut client = server.client();
    let wrong = client
        .request("TG.OVERRIDE SET POLICY chat LIMIT rpm calls 0 per soon LIMIT rps calls 1 per 1s");
    assert!(wrong.starts_with("-ERR limit `rpm`: "), "{wrong}");
    assert!(wrong.contains("limit `rps`: "), "{wrong}");
    assert!(wrong.contains("there is `rpm`"), "{wrong}");
    for (line, told) in [
        ("TG.OVERRIDE", "-ERR wrong number of arguments"),
        (
            "TG.OVERRIDE PUT",
            "-ERR unknown subcommand 'PUT' of TG.OVERRIDE; there is SET, SHOW, REMOVE and LIST",
        ),
        ("TG.OVERRIDE SET", "-ERR no limit is given"),
        (
            "TG.OVERRIDE SET chat acme",
            "-ERR syntax error at 'chat'; it is TG.OVERRIDE SET",
        ),
        (
            "TG.OVERRIDE SET LIMIT rpm calls",
            "-ERR syntax error at 'calls'",
        ),
        (
            "TG.OVERRIDE SET POLICY none LIMIT rpm calls 1 per 1h",
            "-ERR there is no policy",
        ),
        (
            "TG.OVERRIDE SET POLICY chat LIMIT rpm calls -1 per 1h",
            "-ERR a limit's number is not a number from 0 to 9007199254740991: '-1'",
        ),
        ("TG.OVERRIDE SHOW LIMIT rpm", "-ERR syntax error at 'LIMIT'"),
        (
            "TG.OVERRIDE SHOW POLICY a POLICY b",
            "-ERR 'POLICY' is given twice",
        ),
        ("TG.OVERRIDE LIST COUNT 0", "-ERR COUNT is not a number"),
        ("TG.OVERRIDE LIST CURSOR !", "-ERR invalid cursor"),
        ("TG.OVERRIDE LIST CURSOR AAAA", "-ERR invalid cursor"),
        ("TG.KEYS chat CURSOR !", "-ERR invalid cursor"),
        (
            "TG.KEYS chat KEY a PREFIX b",
            "-ERR syntax error at 'PREFIX'",
        ),
        ("TG.LEASES none", "-ERR there is no policy"),
        ("TG.LEASES slots SINCE 1", "-ERR syntax error at 'SINCE'"),
        ("TG.USAGE none", "-ERR there is no policy"),
        ("TG.USAGE chat ENTITY a KEY b", "-ERR syntax error at 'KEY'"),
        ("TG.USAGE chat SINCE -1", "-ERR SINCE is not a number"),
        ("TG.USAGE chat UNTIL", "-ERR syntax error at 'UNTIL'"),
        ("TG.USAGE chat BY week", "-ERR syntax error at 'week'"),
        ("TG.USAGE chat KEY a KEY b", "-ERR 'KEY' is given twice"),
        ("TG.USAGE chat CURSOR AAAA", "-ERR invalid cursor"),
        ("TG.REVOKE slots k x", "-ERR a lease's handle is 16"),
        ("TG.REVOKE slots k 0123456789abcdef", "-NOLEASE"),
    ] {
        let answer = client.request(line);
        assert!(answer.starts_with(told), "{line}: {answer}");
    }
    assert_eq!(
        client.request("TG.OVERRIDE LIST"),
        "[overrides,[],cursor,nil]"
    );
}

#[test]
fn keys_and_leases_are_listed_and_a_lease_is_revoked() {
    let server = TestServer::start();
    let mut client = server.client();
    for key in ["team/1", "team/2", "other"] {
        client.request(&format!("TG.CHECK chat {key}"));
    }
    let one = client.request("TG.KEYS chat KEY team/1");
    assert_eq!(
        one,
        "[keys,[[key,team/1,member,nil,limits,\
         [rpm,[limit,10,remaining,9,reset_ms,360000]]]],cursor,nil]"
    );
    let team = client.request("TG.KEYS chat PREFIX team/");
    assert_eq!(team.matches("[key,").count(), 2, "{team}");
    let (mut cursor, mut found) = (String::new(), 0);
    loop {
        let page = client.request(&format!("TG.KEYS chat COUNT 1 {cursor}"));
        found += page.matches("[key,").count();
        let (_, next) = page.rsplit_once(",cursor,").expect("a cursor");
        match next.trim_end_matches(']') {
            "nil" => break,
            next => cursor = format!("CURSOR {next}"),
        }
    }
    assert_eq!(found, 3);
    let held = client.request("TG.ACQUIRE slots nightly");
    let (_, id) = held.split_once("lease,").expect("a lease");
    let id = id[..32].to_owned();
    let leases = client.request("TG.LEASES slots KEY nightly");
    assert!(
        leases.starts_with("[leases,[[key,nightly,member,nil,handle,"),
        "{leases}"
    );
    assert!(
        leases.contains("taken,[running,1],granted_at_us,17"),
        "{leases}"
    );
    let (_, handle) = leases.split_once("handle,").expect("a handle");
    let handle = &handle[..16];
    assert!(!id.contains(handle));
    let revoked = client.request(&format!("TG.REVOKE slots nightly {handle}"));
    assert!(
        revoked.contains("used,[running,[taken,1,used,1]]"),
        "{revoked}"
    );
    let renew = client.request(&format!("TG.RENEW slots nightly {id} 1000"));
    assert!(renew.starts_with("-NOLEASE"), "{renew}");
    assert_eq!(client.request("TG.LEASES slots"), "[leases,[],cursor,nil]");
}

#[test]
fn audit_events_are_listed_in_pages_with_what_was_before_and_after() {
    let server = TestServer::start();
    let mut client = server.client();
    client.request("TG.OVERRIDE SET POLICY chat REASON trial LIMIT rpm calls 20 per 1h");
    client.request("TG.OVERRIDE REMOVE POLICY chat");
    client.request("TG.ENTITY CREATE acme NAME Acme");
    let first = client.request("TG.AUDIT POLICY chat COUNT 1");
    let (event, cursor) = first.rsplit_once("],cursor,").expect("a cursor");
    assert!(event.contains("action,set_override,policy,chat,key,nil,entity,nil,by,anyone,protocol,resp,peer,127.0.0.1:"), "{event}");
    assert!(event.contains("reason,trial,before,nil,after,[limits,[rpm,[calls,20,per,1h]],by,anyone,reason,trial,expires_at_us,nil,created_at_us,"), "{event}");
    let cursor = cursor.trim_end_matches(']');
    let second = client.request(&format!("TG.AUDIT POLICY chat CURSOR {cursor}"));
    assert!(second.contains("action,remove_override,"), "{second}");
    assert!(
        second.contains("after,nil,details,[]]],cursor,nil]"),
        "{second}"
    );
    let acme = client.request("TG.AUDIT ENTITY acme");
    assert_eq!(acme.matches("[version,").count(), 1, "{acme}");
    assert!(
        acme.contains("after,[parent,nil,name,Acme,metadata,[],charge_parents,"),
        "{acme}"
    );
    let (_, at) = acme.split_once("at_us,").expect("an instant");
    let at = at.split_once(',').expect("a number").0;
    let before = client.request(&format!("TG.AUDIT ENTITY acme UNTIL {at}"));
    assert_eq!(before, "[events,[],cursor,nil]");
    for (line, told) in [
        ("TG.AUDIT SINCE x", "-ERR SINCE is not a number"),
        (
            "TG.AUDIT POLICY",
            "-ERR syntax error at 'POLICY'; it is TG.AUDIT [POLICY name]",
        ),
        ("TG.AUDIT KEY a KEY b", "-ERR 'KEY' is given twice"),
        ("TG.AUDIT CURSOR AAAA", "-ERR invalid cursor"),
    ] {
        let answer = client.request(line);
        assert!(answer.starts_with(told), "{line}: {answer}");
    }
}

#[test]
fn usage_is_listed_by_key_limit_and_hour() {
    let counted = "[policy.chat]\nkey = 'org/user'\nusage = '30d'\n[policy.chat.limits]\n\
                   ttl = { calls = 100, per = '1h' }\n\
                   total = { budget = '90', per = 'day', unit = '0.01', level = 'org', zone = 'UTC' }\n";
    let server = TestServer::of(counted, Settings::default());
    let mut client = server.client();
    client.request("TG.CHECK chat acme/alice AMOUNT ttl 7 AMOUNT total 1.25");
    client.request("TG.CHECK chat acme/bob AMOUNT ttl 3");
    let alice = client.request("TG.USAGE chat KEY acme/alice COUNT 1000");
    let hour = alice.split_once("hour_us,").expect("an hour").1;
    let hour = hour.split_once(',').expect("a number").0;
    let one = |key: &str, limit: &str, amount: &str| {
        format!("[key,{key},member,nil,limit,{limit},hour_us,{hour},amount,{amount}]")
    };
    let page = |items: &[String]| format!("[usage,[{}],cursor,nil]", items.join(","));
    assert_eq!(alice, page(&[one("acme/alice", "ttl", "7")]));
    let acme = client.request("TG.USAGE chat KEY acme");
    assert_eq!(acme, page(&[one("acme", "total", "1.25")]));
    let bob = client.request(&format!("TG.USAGE chat PREFIX acme/b SINCE {hour}"));
    assert_eq!(bob, page(&[one("acme/bob", "ttl", "3")]));
    let before = client.request(&format!("TG.USAGE chat UNTIL {hour}"));
    assert_eq!(before, page(&[]));
}

/// As the manual types it.
#[test]
fn redis_cli_sets_and_shows_an_override() {
    let there = Command::new("redis-cli").arg("--version").output();
    if there.is_err() {
        let required = std::env::var_os("TIDEGATE_REQUIRE_TOOLS").is_some();
        assert!(
            !required,
            "there is no redis-cli (Debian package redis-tools)"
        );
        return;
    }
    let server = TestServer::start();
    let port = server.address.port().to_string();
    let cli = |line: &str| {
        let mut cli = Command::new("redis-cli");
        let cli = cli.args(["-p", &port]).args(line.split(' '));
        String::from_utf8(cli.output().unwrap().stdout).unwrap()
    };
    let set = cli("-3 --json TG.OVERRIDE SET POLICY chat KEY acme LIMIT rpm calls 100 per 1m");
    assert!(
        set.contains("\"limits\":{\"rpm\":{\"calls\":100,\"per\":\"1m\"}}"),
        "{set}"
    );
    assert!(cli("TG.PEEK chat acme").contains("limit\n100\n"));
    assert!(cli("TG.OVERRIDE LIST KEY acme").contains("key_and_policy"));
    assert_eq!(cli("TG.OVERRIDE REMOVE POLICY chat KEY acme"), "1\n");
    assert_eq!(cli("TG.OVERRIDE SHOW POLICY chat KEY acme"), "\n");
    assert!(cli("COMMAND DOCS TG.OVERRIDE").contains("SET|SHOW|REMOVE|LIST"));
}
