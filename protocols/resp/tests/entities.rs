//! Entities, over a socket: created, changed, deleted and listed, and asked by their ids.

mod support;

use support::{Client, TestServer};
use tidegate_resp::Settings;

const POLICIES: &str = "[policy.chat]\nkey = 'org/team/user'\npartial_keys = true\n\
    [policy.chat.limits]\norg_rpm = { calls = 3, per = '1h', level = 'org' }\n\
    rpm = { calls = 2, per = '1h', level = 'user' }\n\
    [policy.jobs]\nkey = 'org/team/user'\npartial_keys = true\n\
    [policy.jobs.limits]\nrunning = { concurrency = 1, ttl = '1h', level = 'user' }\n";

/// Acme with two teams, and Alice in one.
fn acme() -> (TestServer, Client) {
    let server = TestServer::of(POLICIES, Settings::default());
    let mut client = server.client();
    for line in [
        "TG.ENTITY CREATE acme",
        "TG.ENTITY CREATE search PARENT acme",
        "tg.entity create ads parent acme",
        "TG.ENTITY CREATE alice PARENT search NAME Alice META tier gold META since may REASON hired",
    ] {
        let told = client.request(line);
        assert!(told.starts_with("[id,"), "{told}");
    }
    (server, client)
}

/// What stands behind a name, up to the next comma.
fn fact(told: &str, name: &str) -> String {
    let (_, rest) = told.split_once(name).unwrap_or_else(|| panic!("{told}"));
    rest.split([',', ']']).next().unwrap().to_owned()
}

#[test]
fn an_entity_is_created_shown_changed_on_its_version_and_deleted() {
    let (_server, mut client) = acme();
    let shown = client.request("TG.ENTITY SHOW alice");
    let (first, at) = (fact(&shown, "version,"), fact(&shown, "created_at_us,"));
    assert_eq!(
        shown,
        format!(
            "[id,alice,version,{first},parent,search,name,Alice,metadata,[since,may,tier,gold],\
             charge_parents,1,by,anyone,created_at_us,{at},changed_at_us,{at},\
             ancestors,[acme,search]]"
        )
    );
    let change = format!("TG.ENTITY CHANGE alice META tier silver IFVERSION {first} REASON sold");
    let changed = client.request(&change);
    let second = fact(&changed, "version,");
    assert!(
        changed.contains("name,Alice,metadata,[tier,silver],"),
        "{changed}"
    );
    let late = client.request(&change);
    let now = format!("-CONFLICT the entity `alice` is at version {second} now");
    assert!(late.starts_with(&now), "{late}");
    let late = client.request(&format!("TG.ENTITY DELETE alice IFVERSION {first}"));
    assert!(late.starts_with(&now), "{late}");
    let twice = client.request("TG.ENTITY CREATE alice");
    assert!(twice.starts_with("-CONFLICT there is an entity"), "{twice}");
    let none = client.request("TG.ENTITY CHANGE alice NOMETA CHARGEPARENTS no");
    assert!(none.contains("metadata,[],charge_parents,0,"), "{none}");
    let third = fact(&none, "version,");
    let gone = format!("TG.ENTITY DELETE alice IFVERSION {third}");
    assert_eq!(client.request(&gone), "OK");
    assert_eq!(
        client.request("TG.ENTITY SHOW alice"),
        "-ERR there is no entity `alice`; create it, or correct the id"
    );
    client.request("HELLO 3");
    let maps = client.request("TG.ENTITY SHOW search");
    assert!(
        maps.contains("charge_parents:t,by:anyone,") && maps.ends_with("ancestors:[acme]}"),
        "{maps}"
    );
}

#[test]
fn entities_and_children_are_listed_in_pages() {
    let (_server, mut client) = acme();
    let first = client.request("TG.ENTITY LIST COUNT 3");
    assert_eq!(first.matches("[id,").count(), 3, "{first}");
    let (_, cursor) = first.rsplit_once(",cursor,").expect("a cursor");
    let cursor = cursor.trim_end_matches(']');
    let second = client.request(&format!("TG.ENTITY LIST CURSOR {cursor}"));
    assert!(
        second.starts_with("[entities,[[id,search,") && second.ends_with("],cursor,nil]"),
        "{second}"
    );
    let children = client.request("TG.ENTITY CHILDREN acme");
    assert!(
        children.starts_with("[entities,[[id,ads,") && children.contains("],[id,search,"),
        "{children}"
    );
    assert_eq!(children.matches("[id,").count(), 2, "{children}");
}

#[test]
fn what_is_wrong_with_a_command_or_speaks_against_it_is_said_and_changes_nothing() {
    let (_server, mut client) = acme();
    let before = client.request("TG.ENTITY LIST");
    for (line, told) in [
        ("TG.ENTITY", "-ERR wrong number of arguments"),
        (
            "TG.ENTITY MAKE x",
            "-ERR unknown subcommand 'MAKE' of TG.ENTITY; there is CREATE, SHOW, CHANGE,",
        ),
        (
            "TG.ENTITY SHOW",
            "-ERR wrong number of arguments for 'TG.ENTITY' command; it is TG.ENTITY SHOW id",
        ),
        (
            "TG.ENTITY CREATE x IFVERSION 1",
            "-ERR syntax error at 'IFVERSION'; it is TG.ENTITY CREATE id",
        ),
        ("TG.ENTITY CREATE x PARENT", "-ERR syntax error at 'PARENT'"),
        ("TG.ENTITY CREATE x META a", "-ERR syntax error at 'META'"),
        (
            "TG.ENTITY CREATE x META a 1 META a 2",
            "-ERR 'META' is given twice",
        ),
        (
            "TG.ENTITY CREATE x CHARGEPARENTS 1",
            "-ERR syntax error at '1'",
        ),
        ("TG.ENTITY CREATE ..", "-ERR id: an entity's id is neither"),
        (
            "TG.ENTITY CREATE x PARENT nobody",
            "-ERR there is no entity `nobody`",
        ),
        (
            "TG.ENTITY CREATE x PARENT x",
            "-ERR `x` cannot belong to `x`",
        ),
        (
            "TG.ENTITY CHANGE alice",
            "-ERR say what of the entity is to change",
        ),
        (
            "TG.ENTITY CHANGE alice NOMETA META a b",
            "-ERR 'META' is given twice",
        ),
        (
            "TG.ENTITY CHANGE alice NAME a NAME b",
            "-ERR 'NAME' is given twice",
        ),
        (
            "TG.ENTITY CHANGE alice NAME a IFVERSION x",
            "-ERR IFVERSION is not a number",
        ),
        (
            "TG.ENTITY CHANGE alice PARENT acme",
            "-ERR `alice` cannot belong to `acme`: it is at level 3",
        ),
        (
            "TG.ENTITY DELETE search",
            "-INUSE `search` has children, such as `alice`",
        ),
        ("TG.ENTITY DELETE nobody", "-ERR there is no entity"),
        ("TG.ENTITY LIST COUNT 0", "-ERR COUNT is not a number"),
        ("TG.ENTITY LIST CURSOR !", "-ERR invalid cursor"),
        ("TG.ENTITY CHILDREN nobody", "-ERR there is no entity"),
        (
            "TG.CHECK chat nobody ENTITY",
            "-ERR there is no entity `nobody`",
        ),
        (
            "TG.CHECK chat alice ENTITY ENTITY",
            "-ERR 'ENTITY' is given twice",
        ),
        (
            "TG.RESET chat alice KEY",
            "-ERR syntax error at 'KEY'; it is TG.RESET policy key [ENTITY]",
        ),
    ] {
        let answer = client.request(line);
        assert!(answer.starts_with(told), "{line}: {answer}");
    }
    client.send(b"*4\r\n$8\r\nTG.CHECK\r\n$4\r\nchat\r\n$1\r\n\xff\r\n$6\r\nENTITY\r\n");
    assert_eq!(client.reply(), "-ERR the entity's id is not UTF-8");
    assert_eq!(client.request("TG.ENTITY LIST"), before);
    let moved = client.request("TG.ENTITY CHANGE alice PARENT ads");
    assert!(moved.contains(",parent,ads,"), "{moved}");
}

#[test]
fn every_command_about_a_key_takes_the_id_of_an_entity() {
    let (_server, mut client) = acme();
    for left in [1, 0] {
        let answer = client.request("TG.CHECK chat alice ENTITY");
        let stands = format!("rpm,[limit,2,remaining,{left},");
        assert!(
            answer.contains(&stands) && answer.contains(",entity,nil"),
            "{answer}"
        );
    }
    let own = client.request("TG.CHECK chat alice entity");
    assert!(
        own.contains("refused") && own.ends_with("level,user,member,nil,entity,alice]"),
        "{own}"
    );
    client.request("TG.ENTITY CREATE bob PARENT ads");
    client.request("TG.DEBIT chat bob ENTITY COST 1 AMOUNT org_rpm 1");
    let above = client.request("TG.PEEK chat bob ENTITY");
    assert!(
        above.contains("binding,org_rpm,") && above.ends_with("level,org,member,nil,entity,acme]"),
        "{above}"
    );
    let forecast = client.request("TG.FORECAST chat bob ENTITY");
    assert!(forecast.contains("spendable,0"), "{forecast}");
    assert_eq!(client.request("TG.RESET chat bob ENTITY"), "OK");
    // A key that is called so is a key.
    let key = client.request("TG.PEEK chat ENTITY");
    assert!(key.ends_with(",entity,nil]"), "{key}");

    let job = |client: &mut Client| {
        let lease = client.request("TG.ACQUIRE jobs alice ENTITY WAIT 0");
        fact(&lease, "lease,")
    };
    let lease = job(&mut client);
    let refused = client.request("TG.ACQUIRE jobs alice ENTITY");
    assert!(refused.contains(",entity,alice,metadata,"), "{refused}");
    let in_use = client.request("TG.ENTITY DELETE alice");
    assert!(
        in_use.starts_with("-INUSE `alice`, or an entity below it, holds leases"),
        "{in_use}"
    );
    for line in [
        format!("TG.RENEW jobs alice {lease} 60000 ENTITY"),
        format!("TG.RENEW jobs alice {lease} ENTITY"),
        format!("TG.ADJUST jobs alice {lease} ENTITY AMOUNT running 1"),
        format!("TG.SETTLE jobs alice {lease} USED running 1 ENTITY"),
    ] {
        let answer = client.request(&line);
        assert!(!answer.starts_with('-'), "{line}: {answer}");
    }
    for end in ["RELEASE", "CANCEL"] {
        let lease = job(&mut client);
        let ended = client.request(&format!("TG.{end} jobs alice {lease} ENTITY"));
        assert!(ended.starts_with("[expired,0,repeated,0"), "{ended}");
    }
    job(&mut client);
    let leases = client.request("TG.LEASES jobs");
    let handle = fact(&leases, "handle,");
    let revoked = client.request(&format!("TG.REVOKE jobs alice {handle} ENTITY"));
    assert!(revoked.starts_with("[expired,0,repeated,0"), "{revoked}");
}
