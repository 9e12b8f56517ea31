//! Keys and leases, listed; many checks.

use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use crate::server::{POLICY, Said, Server, tidegate, unread};

fn lines(said: &Said) -> Vec<Value> {
    let lines = said.out.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn keys_are_listed_with_what_is_left() {
    let server = Server::start(POLICY);
    for n in 0..30 {
        let key = format!("team/{n}");
        server
            .request(&["check", "-p", "chat", "-k", &key, "-q", "tpm=100"])
            .ends(0);
    }
    let one = server
        .request(&["keys", "-p", "chat", "--key", "team/7"])
        .ends(0);
    assert_eq!(one.out, "team/7  rpm 2/3  tpm 900/1000\n");
    let all = server
        .request(&["keys", "-p", "chat", "--json", "--most", "0"])
        .ends(0);
    assert_eq!(lines(&all).len(), 30);
    let some = server
        .request(&["keys", "-p", "chat", "--prefix", "team/1", "--most", "4"])
        .ends(0);
    assert_eq!(some.out.lines().count(), 4);
    assert!(some.error.contains("there are more"), "{some:?}");
    assert!(
        server
            .request(&["keys", "-p", "none"])
            .ends(6)
            .error
            .contains("no policy `none`")
    );
}

/// `tidegate keys | head -1` ended with 5 and "cannot print: Broken pipe".
#[test]
fn who_stops_reading_has_read_enough() {
    let server = Server::start(POLICY);
    let check = |key: &str| server.command(&["check", "-p", "chat", "-k", key, "tpm=100"]);
    for number in 0..3 {
        let said = unread(check(&number.to_string())).ends(0);
        assert_eq!(said.error, "");
    }
    assert_eq!(unread(check("2")).ends(0).error, "");
    assert_eq!(unread(check("2")).ends(0).error, "");
    // The answer is the exit code's, whoever reads the words.
    assert_eq!(unread(check("2")).ends(1).error, "");
    for listing in [
        &["keys", "-p", "chat"][..],
        &["keys", "-p", "chat", "--most", "2"],
        &["keys", "-p", "chat", "--json", "--most", "0"],
    ] {
        assert_eq!(unread(server.command(listing)).ends(0).error, "");
    }
    let policy = server.path("tidegate.toml").display().to_string();
    for words in [
        &["completions", "bash"][..],
        &["man"],
        &["policy", "check", &policy],
        &["policy", "diff", &policy, &policy],
    ] {
        let mut command = tidegate();
        command.args(words);
        assert_eq!(unread(command).ends(0).error, "", "{words:?}");
    }
}

#[test]
fn a_lease_is_listed_by_a_handle_and_ended_by_it() {
    let server = Server::start(POLICY);
    let job = |verb: &'static str| [verb, "-p", "jobs", "-k", "nightly"];
    let id = server
        .request(&[&job("acquire")[..], &["-q"]].concat())
        .ends(0)
        .out;
    let listed = server.request(&["leases", "-p", "jobs", "--json"]).ends(0);
    let lease = &lines(&listed)[0];
    let handle = lease["handle"].as_str().unwrap();
    let since = lease["granted_at"].as_str().unwrap();
    assert!(since < lease["expires_at"].as_str().unwrap());
    assert_eq!(
        (&lease["key"], &lease["amounts"]["running"]),
        (&"nightly".into(), &1.into())
    );
    assert!(!listed.out.contains(&id.trim()[..8]));
    let shown = server.request(&["leases", "-p", "jobs"]).ends(0).out;
    assert!(
        shown.starts_with(&format!("{handle}  nightly  since {since} until 2")),
        "{shown}"
    );
    let revoke =
        |handle: &str| server.request(&[&job("leases")[..], &["--revoke", handle]].concat());
    revoke("0123456789abcdef").ends(6);
    revoke(handle).ends(0);
    assert_eq!(server.request(&["leases", "-p", "jobs"]).ends(0).out, "");
    let renew = [&job("renew")[..], &["-l", id.trim(), "--ttl", "5s"]].concat();
    assert!(
        server
            .request(&renew)
            .ends(6)
            .error
            .contains("acquire again")
    );
    assert!(
        server
            .request(&["leases", "-p", "jobs", "--revoke", handle])
            .ends(2)
            .error
            .contains("--key")
    );
}

#[test]
fn many_checks_are_answered_a_line_each_in_order() {
    let server = Server::start(POLICY);
    let request = |text: &str| {
        let mut asked = server.command(&["check-many", "--policy", "chat"]);
        let asked = asked
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut asked = asked.spawn().unwrap();
        asked
            .stdin
            .take()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        Said::from(asked.wait_with_output().unwrap())
    };
    let many: String = (0..250)
        .map(|n| format!("{{\"key\":\"k{}\",\"cost\":1}}\n", n % 125))
        .collect();
    let said = request(&many).ends(0);
    assert_eq!(lines(&said).len(), 250);
    let refused = request("{\"key\":\"k1\",\"cost\":1}\n\n{\"key\":\"k1\",\"cost\":1}\n").ends(1);
    let admitted: Vec<_> = lines(&refused)
        .iter()
        .map(|l| l["admitted"].clone())
        .collect();
    assert_eq!(admitted, [true, false]);
    let other = "{\"key\":\"k1\",\"cost\":1}\n{\"key\":\"k\",\"policy\":\"none\"}\n";
    assert_eq!(
        lines(&request(other).ends(6))[1]["problem"]["code"],
        "not_found"
    );
    // A bad line is answered in its place, and keeps no other from being asked.
    let faulty = "{\"key\":\"k2\",\"cost\":1}\n\n{\"key\n[]\n{\"key\":\"k3\",\"cost\":1}\n";
    let faulty = lines(&request(faulty).ends(2));
    let told = |at: usize| faulty[at]["problem"]["detail"].clone();
    assert_eq!(faulty[0]["admitted"], true);
    assert_eq!(told(1), "line 3: not JSON");
    assert_eq!(told(2), "line 4: no JSON object");
    assert_eq!(faulty[3]["admitted"], true);
}

#[test]
fn the_metrics_name_who_is_refused_most() {
    let server = Server::start(POLICY);
    for _ in 0..6 {
        server.request(&["check", "-p", "chat", "-k", "hot", "-q", "rpm=1", "tpm=0"]);
    }
    let metrics = server.get("/metrics");
    let line = "tidegate_denied_keys{policy=\"chat\",key=\"hot\"} 3";
    assert!(metrics.contains(line), "{metrics}");
    assert!(
        metrics.contains("tidegate_leases{policy=\"jobs\"} 0"),
        "{metrics}"
    );
}
