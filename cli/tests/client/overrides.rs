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
    assert_eq!(set.ends(0).out, line);
    assert_eq!(rpm(&server), 50);
    assert_eq!(override_(&server, "show", &ACME).ends(0).out, line);
    let shown = override_(&server, "show", &[&ACME[..], &["--json"]].concat());
    assert_eq!(
        shown.json(),
        json!({"policy": "chat", "key": "acme", "level": "entity_and_resource", "limits": {
            "rpm": {"calls": 50, "per": "1h"}, "tpm": {"rate": 9000, "per": "1h"}}, "inert": []})
    );
    let peek = [&["peek"], &ACME[..], &["--json", "--cost", "1"]].concat();
    assert_eq!(
        server.request(&peek).json()["overrides"]["rpm"],
        "entity_and_resource"
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
    let list = override_(&server, "list", &[]).ends(0).out;
    assert_eq!(
        list,
        format!("everywhere  running=concurrency:2\nkey other  rpm=calls:7/1h\n{line}")
    );
    let of_acme = override_(&server, "list", &["-k", "acme", "--json"]).ends(0);
    assert_eq!(of_acme.json()["key"], "acme");
    let some = override_(&server, "list", &["--most", "2"]).ends(0);
    assert_eq!(some.out.lines().count(), 2);
    assert!(some.error.contains("there are more"), "{some:?}");
    assert_eq!(override_(&server, "remove", &ACME).ends(0).out, "removed\n");
    assert_eq!(rpm(&server), 3);
    let gone = override_(&server, "remove", &ACME).ends(6);
    assert!(gone.error.contains("no override is set"), "{gone:?}");
    override_(&server, "show", &ACME).ends(6);
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
