//! Entities and overrides as a file says them, held against a server and made so.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::server::{Said, Server, unread};
use crate::turnstile::Turnstile;

const POLICIES: &str = "[policy.chat]\nkey = 'org/team/user'\npartial_keys = true\n\
                        [policy.chat.limits]\n\
                        rpm = { calls = 3, per = '1h', level = 'user' }\n\
                        org = { calls = 9, per = '1h', level = 'org' }\n\
                        [policy.flat.limits]\nrpm = { calls = 3, per = '1h' }\n";

/// What is there before: some of it is in the file, some is not.
const BEFORE: &str = "\
[entity.acme]\nname = 'Acme'\n\
[entity.old]\n[entity.older]\nparent = 'old'\n\
[[override]]\npolicy = 'chat'\nentity = 'acme'\nlimits.org = { calls = 20, per = '1h' }\n\
[[override]]\npolicy = 'chat'\nkey = 'gone'\nlimits.org = { calls = 1, per = '1h' }\n";

/// Children stand before their parents: the order is found.
const AFTER: &str = "\
[entity.alice]\nparent = 'search'\nmetadata = { tier = 'gold' }\n\
[entity.search]\nparent = 'acme'\n\
[entity.acme]\nname = 'Acme Inc.'\n\
[entity.old]\nabsent = true\n[entity.older]\nabsent = true\n\
[[override]]\npolicy = 'chat'\nentity = 'acme'\nlimits.org = { calls = 30, per = '60m' }\n\
[[override]]\npolicy = 'chat'\nentity = 'alice'\nlimits.rpm = { calls = 5, per = '1h' }\n\
reason = 'trial'\nexpires_at = 2030-12-31T23:59:59Z\n\
[[override]]\npolicy = 'chat'\nkey = 'gone'\nabsent = true\n";

/// The changes from the one to the other.
const CHANGES: usize = 8;

/// A server with what is there before, and the file in its folder.
fn server() -> (Server, String) {
    let server = Server::start(POLICIES);
    let file = server.path("limits.toml").display().to_string();
    std::fs::write(&file, BEFORE).expect("written");
    limits(&server, &["apply", &file]).ends(0);
    server
        .request(&["entity", "create", "bystander", "--name", "B"])
        .ends(0);
    let place = ["-p", "chat", "-k", "bystander"];
    let set = [&["override", "set"], &place[..], &["org=7"]].concat();
    server.request(&set).ends(0);
    std::fs::write(&file, AFTER).expect("written");
    (server, file)
}

fn limits(server: &Server, words: &[&str]) -> Said {
    server.request(&[&["limits"], words].concat())
}

/// What is there, without versions and instants, and how many changes of which sort were made.
fn state(server: &Server) -> Value {
    let listed = |words: &[&str]| {
        let said = server.request(&[words, &["--json"]].concat()).ends(0).out;
        let items = said.lines().map(|line| {
            let mut item: Value = serde_json::from_str(line).expect("JSON");
            let fields = item.as_object_mut().expect("an object");
            fields.retain(|name, _| !["version", "created_at", "changed_at"].contains(&&**name));
            item
        });
        items.collect::<Vec<_>>()
    };
    let mut events: Vec<_> = listed(&["audit", "--most", "0"])
        .iter()
        .map(|event| event["action"].to_string())
        .collect();
    events.sort();
    json!({"entities": listed(&["entity", "list"]), "overrides": listed(&["override", "list"]),
           "events": events})
}

/// A limit that no policy has was a fault, whoever was to have it.
#[test]
fn a_limit_that_only_an_entity_has_is_kept_in_a_file() {
    let (server, file) = server();
    let with = |limit: &str| {
        let gpu = format!("[[override]]\npolicy = 'chat'\nentity = 'acme'\nlimits.gpu = {limit}\n");
        std::fs::write(&file, gpu).expect("written");
    };
    with("{ calls = 5, per = '1h', added = true }");
    let plan = limits(&server, &["plan", &file, "--json"]).ends(3);
    let settings = &plan.json()["changes"][0]["settings"];
    assert_eq!(settings[0]["setting"], "limits.gpu");
    assert_eq!(settings[0]["becomes"]["added"], true);
    limits(&server, &["apply", &file]).ends(0);
    limits(&server, &["plan", &file]).ends(0);
    with("{ calls = 6, per = '60m', added = true }");
    let diff = limits(&server, &["diff", &file]).ends(3);
    assert!(diff.out.contains("limits.gpu.calls"), "{diff:?}");
    assert!(!diff.out.contains("limits.gpu.per"), "{diff:?}");
    limits(&server, &["apply", &file]).ends(0);
    limits(&server, &["diff", &file]).ends(0);
    for (limit, told) in [
        ("{ calls = 6, per = '1h' }", "has a limit `gpu`"),
        ("{ calls = 6, per = '1h', added = 1 }", "true or false"),
    ] {
        with(limit);
        let wrong = limits(&server, &["plan", &file]).ends(2);
        assert!(wrong.error.contains(told), "{wrong:?}");
    }
    for (of, limit, told) in [
        ("policy = 'chat'", "gpu", "is added to more than one key"),
        (
            "policy = 'chat'\nentity = 'acme'",
            "org",
            "leave `added` out",
        ),
    ] {
        let text = format!(
            "[[override]]\n{of}\nlimits.{limit} = {{ calls = 1, per = '1h', added = true }}\n"
        );
        std::fs::write(&file, text).expect("written");
        let wrong = limits(&server, &["plan", &file]).ends(2);
        assert!(wrong.error.contains(told), "{wrong:?}");
    }
}

/// `tidegate limits apply FILE | head -1` made the first change, and stopped there.
#[test]
fn every_change_is_made_whoever_reads_of_it() {
    let (server, file) = server();
    unread(server.command(&["limits", "apply", &file])).ends(0);
    limits(&server, &["plan", &file]).ends(0);
    unread(server.command(&["limits", "plan", &file])).ends(0);
}

#[test]
fn what_a_file_says_is_planned_shown_and_made_and_then_nothing_changes() {
    let (server, file) = server();
    let before = state(&server);
    let plan = limits(&server, &["plan", &file]).ends(3).out;
    let expected = "\
~ entity acme  name
+ entity search  parent=\"acme\"
+ entity alice  parent=\"search\"  metadata={\"tier\":\"gold\"}
~ override policy chat, entity acme  limits.org.calls
+ override policy chat, entity alice  limits.rpm={\"calls\":5,\"per\":\"1h\"}  \
expires_at=\"2030-12-31T23:59:59Z\"  reason=\"trial\"
- override policy chat, key gone
- entity older
- entity old
8 changes to make: 3 added, 2 changed, 3 removed
";
    assert_eq!(plan, expected);
    let diff = limits(&server, &["diff", &file]).ends(3).out;
    assert!(
        diff.contains(&format!(
            "~ entity acme  ({file}:6)\n    name  \"Acme\" -> \"Acme Inc.\"\n"
        )),
        "{diff}"
    );
    assert!(diff.contains("    limits.org.calls  20 -> 30\n"), "{diff}");
    assert!(
        diff.contains("- entity older") && diff.contains("    parent          \"old\" -> -\n"),
        "{diff}"
    );
    let told = limits(&server, &["plan", &file, "--json"]).ends(3).json();
    assert_eq!(
        told["changes"][3],
        json!({"change": "changed", "override": {"policy": "chat", "entity": "acme"}, "line": 12,
               "settings": [{"setting": "limits.org.calls", "was": 20, "becomes": 30}]})
    );
    assert_eq!(state(&server), before, "a plan changes nothing");
    let made = limits(
        &server,
        &["apply", &file, "--reason", "ticket 17", "--json"],
    )
    .ends(0);
    let made = made.json()["changes"].as_array().cloned().expect("a list");
    assert_eq!(made.len(), CHANGES);
    assert!(made[0]["version"].as_u64() > Some(0), "{made:?}");
    let after = state(&server);
    let events = |state: &Value| state["events"].as_array().map_or(0, Vec::len);
    assert_eq!(events(&after), events(&before) + CHANGES);
    let audit = server.request(&["audit", "--entity", "alice"]).ends(0).out;
    assert!(audit.contains("ticket 17"), "{audit}");
    let bystander = after["entities"]
        .as_array()
        .and_then(|all| all.iter().find(|one| one["id"] == "bystander"));
    assert_eq!(bystander.map(|one| &one["name"]), Some(&json!("B")));
    for verb in ["plan", "diff", "apply"] {
        let said = limits(&server, &[verb, &file]).ends(0).out;
        assert_eq!(said, "the server is as the file says\n", "{verb}");
    }
    assert_eq!(state(&server), after, "nothing was made twice");
}

#[test]
fn what_the_file_does_not_say_stays_and_what_has_drifted_is_shown() {
    let (server, file) = server();
    limits(&server, &["apply", &file]).ends(0);
    // Of `search` the file does not say how it is called.
    let change = ["entity", "change", "search", "--name", "Search"];
    server.request(&change).ends(0);
    limits(&server, &["plan", &file]).ends(0);
    let change = ["entity", "change", "alice", "--meta", "tier=iron"];
    server.request(&change).ends(0);
    let set = ["override", "set", "-p", "chat", "-k", "acme", "org=4"];
    server.request(&set).ends(0);
    let diff = limits(&server, &["diff", &file]).ends(3).out;
    for drift in [
        "    metadata  {\"tier\":\"iron\"} -> {\"tier\":\"gold\"}\n",
        "    limits.org.calls  4 -> 30\n",
    ] {
        assert!(diff.contains(drift), "{diff}");
    }
    assert_eq!(diff.matches("->").count(), 2, "{diff}");
    limits(&server, &["apply", &file]).ends(0);
    limits(&server, &["plan", &file]).ends(0);
    let search = server.request(&["entity", "show", "search", "--json"]);
    assert_eq!(search.json()["name"], "Search");
}

/// Killed before the server is asked for the nth change, or when it has made it.
#[test]
fn an_apply_that_is_killed_and_repeated_ends_the_same() {
    let expected = {
        let (server, file) = server();
        limits(&server, &["apply", &file]).ends(0);
        state(&server)
    };
    for nth in 0..CHANGES {
        let is_made = nth % 2 == 1;
        let (server, file) = server();
        let turnstile = Turnstile::before(&server, nth, is_made);
        let mut apply = server.command(&["limits", "apply", &file]);
        apply.env("TIDEGATE_SERVER", &turnstile.url);
        apply.stdout(Stdio::null()).stderr(Stdio::null());
        let mut apply = apply.spawn().expect("the program runs");
        turnstile.wait_until_held();
        apply.kill().expect("killed");
        apply.wait().expect("ended");
        let left = limits(&server, &["plan", &file, "--json"]).json();
        let left = left["changes"].as_array().map_or(0, Vec::len);
        assert_eq!(left, CHANGES - nth - usize::from(is_made));
        limits(&server, &["apply", &file]).ends(0);
        assert_eq!(state(&server), expected, "{nth}");
        limits(&server, &["plan", &file]).ends(0);
    }
}

#[test]
fn whoever_changes_the_same_meanwhile_is_not_overwritten() {
    let meanwhile: [(usize, &[&str], &str); 4] = [
        (0, &["entity", "change", "acme", "--name", "Theirs"], "acme"),
        (1, &["entity", "create", "search"], "search"),
        (
            3,
            &["override", "set", "-p", "chat", "-k", "acme", "org=6"],
            "is at",
        ),
        (7, &["entity", "delete", "old"], "old"),
    ];
    for (nth, change, named) in meanwhile {
        let (server, file) = server();
        let turnstile = Turnstile::before(&server, nth, false);
        let mut apply = server.command(&["limits", "apply", &file]);
        apply.env("TIDEGATE_SERVER", &turnstile.url);
        apply.stdout(Stdio::piped()).stderr(Stdio::piped());
        let apply = apply.spawn().expect("the program runs");
        turnstile.wait_until_held();
        server.request(change).ends(0);
        let theirs = state(&server);
        turnstile.let_through();
        let said = Said::from(apply.wait_with_output().expect("it ends")).ends(7);
        let made = format!("{nth} of {CHANGES} changes are made");
        assert!(said.error.contains(&made), "{said:?}");
        assert!(
            said.error.contains(named) && said.error.contains(&file),
            "{said:?}"
        );
        assert_eq!(said.out.lines().count(), nth, "{said:?}");
        assert_eq!(state(&server), theirs, "{nth}");
    }
}

#[test]
fn a_mistake_is_told_with_its_line_and_nothing_is_changed() {
    let (server, file) = server();
    let before = state(&server);
    let limit = "limits.org = { calls = 1, per = '1h' }\n";
    for (text, line, message) in [
        (
            "[entity.a]\n\nnam = 'x'\n".to_owned(),
            3,
            "`nam` is not a setting of an entity",
        ),
        (
            "[entity.a]\n[entity.b]\nparent = 'x'\n".to_owned(),
            2,
            "`x`, which is not there",
        ),
        (
            format!("[[override]]\npolicy = 'chta'\n{limit}"),
            1,
            "there is no policy `chta`",
        ),
        (
            "[[override]]\npolicy = 'chat'\nlimits.tpm = { calls = 1, per = '1h' }\n".to_owned(),
            1,
            "has a limit `tpm`",
        ),
        (
            format!("\n[[override]]\nentity = 'nobody'\n{limit}"),
            2,
            "there is no entity `nobody`",
        ),
        (
            format!(
                "[[override]]\nkey = 'acme'\npolicy = 'chat'\n{limit}[[override]]\n\
                     entity = 'acme'\npolicy = 'chat'\n{limit}"
            ),
            5,
            "for the same as that of line 1",
        ),
        // Entities were created first, and then this was told.
        (
            "[entity.n]\n[entity.m]\nparent = 'n'\n[[override]]\nentity = 'm'\n\
             policy = 'flat'\nlimits.rpm = { calls = 1, per = '1h' }\n"
                .to_owned(),
            4,
            "`m` is at level 2, and the keys of the policy `flat` have 1",
        ),
        (
            format!("[entity.n]\n[entity.m]\nparent = 'n'\n[[override]]\nentity = 'm'\n{limit}"),
            4,
            "name that `policy`",
        ),
        (
            format!("[[override]]\nkey_base64 = '*'\n{limit}"),
            1,
            "Base64",
        ),
    ] {
        std::fs::write(&file, &text).expect("written");
        for verb in ["plan", "diff", "apply"] {
            let said = limits(&server, &[verb, &file]).ends(2);
            assert!(said.error.contains(message), "{said:?}");
            assert!(said.error.contains(&format!("{file}:{line}")), "{said:?}");
        }
    }
    limits(&server, &["plan", "nowhere.toml"]).ends(2);
    assert_eq!(state(&server), before);
}

#[test]
fn another_parent_moves_an_entity_within_its_root() {
    let (server, file) = server();
    let tree = "[entity.firm]\n[entity.red]\nparent = 'firm'\n[entity.blue]\nparent = 'firm'\n";
    let write = |rest: &str| std::fs::write(&file, format!("{tree}{rest}")).expect("written");
    write("[entity.bea]\nparent = 'red'\n");
    limits(&server, &["apply", &file]).ends(0);
    write("[entity.bea]\nparent = 'blue'\n");
    let diff = limits(&server, &["diff", &file]).ends(3).out;
    assert!(diff.contains("parent  \"red\" -> \"blue\""), "{diff}");
    limits(&server, &["apply", &file]).ends(0);
    limits(&server, &["plan", &file]).ends(0);
    write("[entity.bea]\nparent = 'old'\n");
    let said = limits(&server, &["apply", &file]).ends(2);
    assert!(said.error.contains("another root"), "{said:?}");
    assert!(said.error.contains("0 of 1 changes are made"), "{said:?}");
}

#[test]
fn what_has_ended_is_told_and_left_alone() {
    let (server, file) = server();
    let text = "[[override]]\npolicy = 'chat'\nkey = 'bystander'\n\
                limits.org = { calls = 1, per = '1h' }\nexpires_at = 2020-01-01T00:00:00Z\n";
    std::fs::write(&file, text).expect("written");
    let said = limits(&server, &["apply", &file]).ends(0);
    assert!(
        said.error.contains("has ended at 2020-01-01T00:00:00Z"),
        "{said:?}"
    );
    assert_eq!(said.out, "the server is as the file says\n");
}
