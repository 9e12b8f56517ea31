//! Overrides, set and shown from the command line.

use serde_json::json;

use crate::server::{POLICY, Said, Server};

const ACME: [&str; 4] = ["--policy", "chat", "--key", "acme"];

fn override_(server: &Server, verb: &str, more: &[&str]) -> Said {
    server.request(&[&["override", verb], more].concat())
}

/// How many calls `chat` grants `acme`.
fn rpm(server: &Server) -> u64 {
    let peek = [&["peek"], &ACME[..], &["--json", "--cost", "1"]].concat();
    let peek = server.request(&peek);
    peek.json()["limits"]["rpm"]["limit"].as_u64().unwrap()
}

#[test]
fn an_override_is_set_shown_listed_and_removed() {
    let server = Server::start(POLICY);
    let set = override_(
        &server,
        "set",
        &[&ACME[..], &["rpm=50", "tpm=rate:9_000/1h"]].concat(),
    );
    let line = "policy chat, key acme  rpm=calls:50/1h  tpm=rate:9000/1h\n";
    let said = set.ends(0).out.clone();
    assert!(
        said.starts_with(line) && said[line.len()..].starts_with("version "),
        "{said}"
    );
    assert_eq!(rpm(&server), 50);
    assert_eq!(override_(&server, "show", &ACME).ends(0).out, said);
    let shown = override_(&server, "show", &[&ACME[..], &["--json"]].concat());
    let shown = shown.json();
    let told = ["version", "created_at", "changed_at"].map(|name| shown[name].clone());
    let [version, created_at, changed_at] = told;
    assert_eq!(
        shown,
        json!({"policy": "chat", "key": "acme", "level": "key_and_policy", "limits": {
            "rpm": {"calls": 50, "per": "1h"}, "tpm": {"rate": 9000, "per": "1h"}}, "inert": [],
            "version": version, "by": "anyone", "created_at": created_at,
            "changed_at": changed_at})
    );
    let peek = [&["peek"], &ACME[..], &["--json", "--cost", "1"]].concat();
    assert_eq!(
        server.request(&peek).json()["overrides"]["rpm"],
        "key_and_policy"
    );
    let peek = [&["peek"], &ACME[..], &["--cost", "1"]].concat();
    let told = server.request(&peek).out;
    let by = "  rpm by an override for this key in this policy\n";
    assert!(told.contains(by), "{told}");
    override_(
        &server,
        "set",
        &["--key", "other", "rpm={calls=7,per='1h'}"],
    )
    .ends(0);
    override_(&server, "set", &["--everywhere", "running=2"]).ends(0);
    let list = override_(&server, "list", &[]).ends(0).out.clone();
    let lines: Vec<_> = list
        .lines()
        .map(|line| line.split_once("  version "))
        .collect();
    let [Some((first, _)), Some((second, _)), Some((third, told))] = lines[..] else {
        panic!("{list}");
    };
    let limits = [
        "everywhere  running=concurrency:2",
        "key other  rpm=calls:7/1h",
        line.trim_end(),
    ];
    assert_eq!([first, second, third], limits);
    // It said neither who had set it nor at which version it can be changed.
    assert!(
        told.starts_with(&format!("{version} set by anyone at ")),
        "{list}"
    );
    let of_acme = override_(&server, "list", &["-k", "acme", "--json"]).ends(0);
    assert_eq!(of_acme.json()["key"], "acme");
    let some = override_(&server, "list", &["--most", "2"]).ends(0);
    assert_eq!(some.out.lines().count(), 2);
    assert!(some.error.contains("there are more"), "{some:?}");
    assert_eq!(override_(&server, "remove", &ACME).ends(0).out, "removed\n");
    assert_eq!(rpm(&server), 3);
    let gone = override_(&server, "remove", &ACME).ends(6);
    // It named `GET /v1/overrides`, which nobody types.
    let told = "error: no override is set there; `tidegate override list` shows those that are\n";
    assert_eq!(gone.error, told);
    override_(&server, "show", &ACME).ends(6);
}

/// Whatever no policy had was refused.
#[test]
fn a_limit_is_added_to_an_entity_and_holds_for_it_alone() {
    let server = Server::start(POLICY);
    for id in ["acme", "other"] {
        server.request(&["entity", "create", id]).ends(0);
    }
    let acme = ["-p", "chat", "--entity", "acme"];
    let gpu = "gpu=calls:2/1h,added:true";
    let set = override_(&server, "set", &[&acme[..], &[gpu]].concat()).ends(0);
    let line = format!("policy chat, key acme  {gpu}\n");
    assert!(set.out.starts_with(&line), "{set:?}");
    let shown = override_(&server, "show", &[&acme[..], &["--json"]].concat()).ends(0);
    let limits = json!({"gpu": {"calls": 2, "per": "1h", "added": true}});
    assert_eq!(shown.json()["limits"], limits);
    let check = |entity| {
        let check = ["check", "-p", "chat", "--entity", entity, "tpm=0"];
        server.request(&check).ends(0).out.clone()
    };
    let peek = server
        .request(&[&["peek"], &acme[..], &["--json"]].concat())
        .ends(0);
    let (limits, levels) = (&peek.json()["limits"], &peek.json()["overrides"]);
    assert_eq!(
        (&limits["gpu"]["remaining"], &levels["gpu"]),
        (&json!(2), &json!("key_and_policy"))
    );
    check("acme");
    check("acme");
    check("other");
    let third = ["check", "-p", "chat", "--entity", "acme", "tpm=0"];
    let third = server.request(&third).ends(1);
    assert!(third.out.contains("gpu"), "{third:?}");
    let other = ["peek", "-p", "chat", "--entity", "other"];
    assert!(!server.request(&other).ends(0).out.contains("gpu"));
    let late = [
        &acme[..],
        &["gpu=calls:3/1h,added:true", "--if-version", "1"],
    ]
    .concat();
    override_(&server, "set", &late).ends(7);
    let wrong = override_(&server, "set", &["-p", "chat", gpu]).ends(2);
    let told = "limit `gpu`: it cannot be added; name one policy, and one key or entity";
    assert!(wrong.error.contains(told), "{wrong:?}");
    let events = server
        .request(&["audit", "--policy", "chat", "--key", "acme", "--json"])
        .ends(0);
    assert!(events.out.contains("\"added\":true"), "{events:?}");
    override_(&server, "remove", &acme).ends(0);
    check("acme");
}

/// The command took a key alone: the name of an entity had to be put together by hand.
#[test]
fn an_override_is_for_an_entity_by_its_id() {
    let teams = "[policy.teams]\nkey = 'org/user'\n[policy.teams.limits]\nrpm = { calls = 3, per = '1h' }\n";
    let server = Server::start(&format!("{POLICY}{teams}"));
    server.request(&["entity", "create", "acme"]).ends(0);
    let alice = ["entity", "create", "alice", "--parent", "acme"];
    server.request(&alice).ends(0);
    let alice = ["-p", "teams", "--entity", "alice"];
    let set = override_(&server, "set", &[&alice[..], &["rpm=5"]].concat()).ends(0);
    let line = "policy teams, key /acme/alice  rpm=calls:5/1h\n";
    assert!(set.out.starts_with(line), "{set:?}");
    assert_eq!(override_(&server, "show", &alice).ends(0).out, set.out);
    let peek = server.request(&[&["peek"], &alice[..]].concat()).ends(0);
    assert!(peek.out.contains("5 of 5 left"), "{peek:?}");
    let late = [&alice[..], &["rpm=6", "--if-absent"]].concat();
    let late = override_(&server, "set", &late).ends(7);
    let show = "`tidegate override show -p teams --entity alice` shows it";
    assert!(late.error.contains(show), "{late:?}");
    assert_eq!(
        override_(&server, "remove", &alice).ends(0).out,
        "removed\n"
    );
    let gone = [&alice[..], &["--if-version", "1"]].concat();
    let gone = override_(&server, "remove", &gone);
    assert_ne!(gone.code, 0);
    assert!(!gone.error.contains("audit --newest --entity"), "{gone:?}");
    // Whose key it is depends on the policy's levels.
    override_(&server, "set", &["--entity", "alice", "rpm=calls:5/1h"]).ends(2);
    override_(&server, "show", &["-p", "teams", "--entity", "bob"]).ends(6);
}

/// Two who have seen the same change it: the second is told so, and nothing of the first's is
/// lost. What was done, by whom and why is told afterwards.
#[test]
fn who_changes_what_another_has_changed_meanwhile_is_told_so_and_all_of_it_is_in_the_audit() {
    let server = Server::start(POLICY);
    let set = |more: &[&str]| override_(&server, "set", &[&ACME[..], more].concat());
    let first = set(&["rpm=50", "--if-absent", "--json"]).ends(0).json();
    set(&["rpm=51", "--if-absent"]).ends(7);
    let version = first["version"].to_string();
    let why = [
        "--if-version",
        &version,
        "--reason",
        "bought more",
        "--for",
        "1h",
    ];
    let second = set(&[&["rpm=60", "--json"], &why[..]].concat())
        .ends(0)
        .json();
    assert!(second["expires_at"].is_string());
    let late = set(&["rpm=70", "--if-version", &version]).ends(7);
    // It said that the server answers 412, and neither who nor what to type.
    let who = format!(
        "error: version {} is there, set by anyone at {};",
        second["version"],
        second["changed_at"].as_str().unwrap()
    );
    assert!(late.error.starts_with(&who), "{late:?}");
    assert!(
        late.error
            .contains("`tidegate override show -p chat -k acme` shows it"),
        "{late:?}"
    );
    let gone = [&ACME[..], &["--if-version", &version]].concat();
    let late = override_(&server, "remove", &gone).ends(7);
    assert!(late.error.starts_with(&who), "{late:?}");
    assert_eq!(rpm(&server), 60);
    let shown = override_(&server, "show", &ACME).ends(0).out.clone();
    assert!(shown.ends_with("  (reason: bought more)\n"), "{shown}");
    override_(&server, "remove", &ACME).ends(0);
    server.request(&[&["reset"], &ACME[..]].concat()).ends(0);
    let audit = |more: &[&str]| {
        server
            .request(&[&["audit"], more].concat())
            .ends(0)
            .out
            .clone()
    };
    let told = audit(&[]);
    let lines: Vec<_> = told.lines().collect();
    assert_eq!(lines.len(), 4, "{told}");
    assert!(lines[0].contains("  anyone (http 127.0.0.1:"), "{told}");
    let until = second["expires_at"].as_str().unwrap();
    let changed = "  set_override  policy chat, key acme  rpm=calls:50/1h -> rpm=calls:60/1h until";
    assert!(
        lines[1].ends_with(&format!("{changed} {until}  (reason: bought more)")),
        "{told}"
    );
    assert!(
        lines[2].ends_with(&format!("  rpm=calls:60/1h until {until} -> nothing")),
        "{told}"
    );
    assert!(
        lines[3].ends_with("  reset  policy chat, key acme"),
        "{told}"
    );
    assert_eq!(audit(&["-p", "chat", "-k", "acme"]), told);
    assert_eq!(audit(&["-k", "other"]), "");
    let csv = audit(&["--csv"]);
    let rows: Vec<_> = csv.lines().collect();
    assert!(
        rows.len() == 5 && rows[0].starts_with("version,at,by,"),
        "{csv}"
    );
    let limits = r#"""limits"":{""rpm"":{""calls"":60,""per"":""1h""}}"#;
    assert!(rows[2].contains(",set_override,chat,acme,,\"{"), "{csv}");
    assert!(
        rows[2].contains(limits) && rows[2].ends_with(",,bought more"),
        "{csv}"
    );
    assert!(rows[4].ends_with(",reset,chat,acme,,,,,"), "{csv}");
    assert_eq!(audit(&["--until", "2001-01-01T00:00:00Z"]), "");
    assert_eq!(audit(&["--since", "1h"]), told);
    assert_eq!(
        audit(&["--newest", "--most", "2"]),
        format!("{}\n{}\n", lines[2], lines[3])
    );
    let some = server.request(&["audit", "--most", "1"]).ends(0);
    let at = lines[0].split("  ").nth(1).unwrap();
    let goes_on = format!("there are more after these; --since {at} goes on");
    assert!(some.error.contains(&goes_on), "{some:?}");
    assert_eq!(audit(&["--until", "2001-01-01"]), "");
    assert_eq!(audit(&["--since", "2001-01-01"]), told);
    let wrong = server.request(&["audit", "--until", "yesterday"]).ends(2);
    assert!(
        wrong
            .error
            .contains("write an instant such as 2026-12-31T23:59:59Z, or a day such as 2026-12-31"),
        "{wrong:?}"
    );
    let json = audit(&["--json", "--most", "1"]);
    let one: serde_json::Value = serde_json::from_str(&json).expect("one line of JSON");
    assert_eq!(one["after"]["limits"]["rpm"]["calls"], 50);
}

/// One of them was a flag that the command does not take; and who removes was told to set.
#[test]
fn what_a_lost_race_says_to_type_can_be_typed() {
    let server = Server::start(POLICY);
    for place in [&["--everywhere"][..], &ACME, &["-k", "two words"]] {
        let late = |verb: &str, version: &str, more: &[&str]| {
            let more = [place, more, &["--if-version", version]].concat();
            let said = override_(&server, verb, &more).ends(7);
            let typed = said.error.split('`').nth(1);
            let typed = typed.unwrap_or_else(|| panic!("{said:?}"));
            (server.types(typed).ends(0).out, said.error)
        };
        let set = override_(&server, "set", &[place, &["rpm=50", "--json"]].concat());
        let version = set.ends(0).json()["version"].to_string();
        let (shown, _) = late("set", "1000000", &["rpm=60"]);
        assert!(shown.contains(&format!("version {version}")), "{shown}");
        override_(&server, "remove", place).ends(0);
        let (shown, said) = late("set", &version, &["rpm=60"]);
        assert!(shown.contains("  remove_override  "), "{shown}");
        assert!(said.contains("Set it without --if-version"), "{said}");
        let (shown, said) = late("remove", &version, &[]);
        assert!(shown.contains("  remove_override  "), "{shown}");
        assert!(!said.contains("Set it"), "{said}");
    }
}

#[test]
fn an_override_outlives_a_server_that_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("tidegate.toml"), POLICY).expect("written");
    let server = Server::start_in(folder, "127.0.0.1:0", &["--store", "file:state.redb"]);
    override_(&server, "set", &[&ACME[..], &["rpm=50"]].concat()).ends(0);
    let folder = server.kill();
    let server = Server::start_in(folder, "127.0.0.1:0", &["--store", "file:state.redb"]);
    assert_eq!(rpm(&server), 50);
    override_(&server, "remove", &ACME).ends(0);
    let folder = server.kill();
    let server = Server::start_in(folder, "127.0.0.1:0", &["--store", "file:state.redb"]);
    assert_eq!(rpm(&server), 3);
}

#[test]
fn what_is_wrong_is_told_with_what_to_type() {
    let server = Server::start(POLICY);
    for (arguments, code, told) in [
        (&["rpm=5"][..], 2, "--everywhere"),
        (&["-p", "chat"], 2, "LIMIT=AMOUNT"),
        (&["-p", "chat", "rpm"], 2, "rpm=calls:100/1m"),
        (&["-p", "chat", "rpm=fast"], 2, "rpm=calls:100/1m"),
        (&["-p", "chat", "rps=5"], 2, "there is `rpm`, `tpm`"),
        (&["-p", "chat", "rpm=5", "rpm=6"], 2, "given twice"),
        (&["-p", "none", "rpm=calls:5/1m"], 6, "there is no policy"),
        // It said that the token may not see it, and to write the limit out.
        (
            &["-p", "caht", "rpm=5"],
            6,
            "there is no policy `caht`; there is `chat`",
        ),
        (&["-p", "chat", "rpm=rate:5/1h"], 2, "it counts calls"),
        (
            &["-p", "chat", "rpm=calls:5/soon", "x=calls:1/1m"],
            2,
            "there is `rpm`",
        ),
        (
            &["--everywhere", "-k", "acme", "rpm=5"],
            2,
            "cannot be used with",
        ),
    ] {
        let said = override_(&server, "set", arguments).ends(code);
        assert!(said.error.contains(told), "{arguments:?}: {said:?}");
    }
    assert_eq!(override_(&server, "list", &[]).ends(0).out, "");
}
