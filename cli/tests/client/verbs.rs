//! One command for each verb: what it prints, and how it ends.

use std::process::Command;

use crate::server::{POLICY, Said, Server, tidegate};

const CHAT: [&str; 4] = ["--policy", "chat", "--key", "alice"];
const JOBS: [&str; 4] = ["--policy", "jobs", "--key", "nightly"];

fn with<'a>(verb: &'a str, subject: [&'a str; 4], more: &[&'a str]) -> Vec<&'a str> {
    [&[verb], &subject[..], more].concat()
}

#[test]
fn a_check_is_admitted_refused_or_never_and_the_exit_code_says_which() {
    let server = Server::start(POLICY);
    let check = |more: &[&str]| server.request(&with("check", CHAT, more));
    let first = check(&["tpm=400"]).ends(0);
    assert!(first.out.starts_with("admitted\n"), "{first:?}");
    assert!(first.out.contains("tpm  600 of 1000 left"), "{first:?}");
    let refused = check(&["tpm=700"]).ends(1);
    assert!(
        refused.out.starts_with("refused by tpm; retry after "),
        "{refused:?}"
    );
    let never = check(&["tpm=1001"]).ends(3);
    assert!(
        never.out.is_empty() && never.error.contains("tpm"),
        "{never:?}"
    );
    assert_eq!(check(&["--quiet", "tpm=1"]).ends(0).out, "");
}

#[test]
fn with_json_the_answer_is_one_object_whatever_it_is() {
    let server = Server::start(POLICY);
    let check =
        |more: &[&str]| server.request(&[&with("check", CHAT, more)[..], &["--json"]].concat());
    let admitted = check(&["--cost", "400"]).ends(0).json();
    assert_eq!(admitted["admitted"], true);
    assert_eq!(admitted["limits"]["tpm"]["remaining"], 600);
    let refused = check(&["tpm=601"]).ends(1).json();
    assert_eq!(
        (&refused["code"], &refused["binding"]),
        (&"refused".into(), &"tpm".into())
    );
    assert_eq!(check(&["tpm=1001"]).ends(3).json()["code"], "never");
    assert_eq!(check(&["tokens=1"]).ends(2).json()["code"], "invalid");
    let nobody = ["check", "-p", "other", "-k", "x", "--json"];
    assert_eq!(server.request(&nobody).ends(6).json()["code"], "not_found");
    let reset = server.request(&with("reset", CHAT, &["--json"])).ends(0);
    assert_eq!(reset.json(), serde_json::json!({}));
    assert_eq!(check(&["tpm=1000"]).ends(0).json()["admitted"], true);
}

#[test]
fn a_lease_is_taken_renewed_settled_and_gone() {
    let server = Server::start(POLICY);
    let taken = server.request(&with(
        "acquire",
        CHAT,
        &["tpm=800", "--quiet", "--ttl", "1m"],
    ));
    let id = taken.ends(0).out.trim().to_owned();
    assert_eq!(id.len(), 32);
    let lease = ["--lease", id.as_str()];
    let renewed = server.request(&with("renew", CHAT, &[lease[0], lease[1], "--ttl", "2m"]));
    assert!(renewed.ends(0).out.starts_with("renewed until 2"));
    let renewed = server.request(&with("renew", CHAT, &lease));
    assert!(renewed.ends(0).out.starts_with("renewed until 2"));
    let adjust =
        |more: &[&str]| server.request(&[&with("adjust", CHAT, &lease)[..], more].concat());
    let adjusted = adjust(&["tpm=900"]).ends(0);
    assert!(adjusted.out.starts_with("adjusted\n"), "{adjusted:?}");
    assert!(
        adjusted.out.contains("tpm  100 of 1000 left"),
        "{adjusted:?}"
    );
    let refused = adjust(&["tpm=1001"]).ends(1);
    assert!(
        refused.out.starts_with("not adjusted: refused by tpm"),
        "{refused:?}"
    );
    let over = adjust(&["tpm=1100", "--overdraw"]).ends(0);
    assert!(over.out.contains("tpm  0 of 1000 left"), "{over:?}");
    let by_cost = adjust(&["--cost", "700"]).ends(0);
    assert!(by_cost.out.contains("tpm  300 of 1000 left"), "{by_cost:?}");
    let nothing = adjust(&[]).ends(2);
    assert!(nothing.error.contains("--cost"), "{nothing:?}");
    adjust(&["tpm=800"]).ends(0);
    let settle = with("settle", CHAT, &[lease[0], lease[1], "tpm=300"]);
    let settled = server.request(&settle).ends(0);
    assert!(settled.out.contains("300 used of 800 taken"), "{settled:?}");
    assert!(
        server
            .request(&settle)
            .ends(0)
            .out
            .starts_with("ended before")
    );
    let peeked = server.request(&with("peek", CHAT, &["tpm=700"])).ends(0);
    assert!(peeked.out.starts_with("would be admitted"), "{peeked:?}");
    server.request(&with("peek", CHAT, &["tpm=701"])).ends(1);
    // It needed an amount of each limit.
    let looked = server.request(&with("peek", CHAT, &[])).ends(0);
    assert!(looked.out.contains("tpm  700 of 1000 left"), "{looked:?}");
    let late = server.request(&with("renew", CHAT, &[lease[0], lease[1], "--ttl", "2m"]));
    assert!(late.ends(6).error.contains("acquire again"));
    let unknown = with(
        "release",
        CHAT,
        &["--lease", "0123456789abcdef0123456789abcdef"],
    );
    server.request(&unknown).ends(6);
    // It told a line and a column of JSON that nobody had written.
    let handle = with("settle", JOBS, &["--lease", "0123456789abcdef"]);
    let said = server.request(&handle).ends(2).error;
    assert!(said.contains("32 hexadecimal digits"), "{said}");
    assert!(!said.contains("column"), "{said}");
}

#[test]
fn a_lease_and_its_key_may_come_from_the_environment() {
    let server = Server::start(POLICY);
    let asked = |arguments: &[&str], lease: &str| {
        let mut command = server.command(arguments);
        command.env("TIDEGATE_POLICY", "jobs");
        command.env("TIDEGATE_KEY", "nightly");
        command.env("TIDEGATE_LEASE", lease);
        Said::from(command.output().unwrap())
    };
    let id = asked(&["acquire", "-q"], "").ends(0).out;
    asked(&["acquire", "-q"], "").ends(1);
    asked(&["cancel"], id.trim()).ends(0);
    asked(&["acquire", "-q"], "").ends(0);
}

#[test]
fn who_waits_is_given_what_another_releases() {
    let server = Server::start(POLICY);
    let id = server.request(&with("acquire", JOBS, &["-q"])).ends(0).out;
    let mut waiting = server.command(&with("acquire", JOBS, &["--wait", "30s", "--json"]));
    let waiting = waiting
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // Whether it waits already or not, it is given the slot.
    server
        .request(&with("release", JOBS, &["-l", id.trim()]))
        .ends(0);
    let said = Said::from(waiting.wait_with_output().unwrap()).ends(0);
    assert_eq!(said.json()["lease"]["repeated"], false);
    let refused = server
        .request(&with("acquire", JOBS, &["--wait", "50ms"]))
        .ends(1);
    assert!(refused.out.starts_with("refused by running"), "{refused:?}");
}

#[test]
fn an_idempotent_ask_gives_the_same_lease() {
    let server = Server::start(POLICY);
    let request = with("acquire", JOBS, &["-q", "--idempotency-key", "job 7"]);
    let first = server.request(&request).ends(0).out;
    assert_eq!(server.request(&request).ends(0).out, first);
}

#[test]
fn a_debit_is_charged_whether_it_fits_or_not_and_a_forecast_counts() {
    let server = Server::start(POLICY);
    let debit = server.request(&with("debit", CHAT, &["tpm=1500"])).ends(0);
    assert!(
        debit
            .out
            .starts_with("charged; the next request is refused by tpm; retry after "),
        "{debit:?}"
    );
    let forecast = server.request(&with("forecast", CHAT, &["--cost", "10", "--json"]));
    let forecast = forecast.ends(0).json();
    assert_eq!(forecast["limits"]["rpm"]["spendable"], 3);
    assert_eq!(forecast["limits"]["tpm"]["spendable"], 0);
    let said = server
        .request(&with("forecast", CHAT, &["rpm=1"]))
        .ends(0)
        .out;
    assert!(said.contains("3 such requests fit"), "{said}");
    // The help said that a rate that is not named counts as 0, and it was an error.
    let said = server.request(&with("forecast", CHAT, &[])).ends(0).out;
    assert!(said.contains("rpm  3 such requests fit"), "{said}");
    assert!(!said.contains("tpm"), "{said}");
}

/// It printed nothing.
#[test]
fn a_forecast_of_a_pool_is_told_member_by_member() {
    let server = Server::start(
        "[policy.chat.member.eu]\nlimits.rpm = { calls = 3, per = '1h' }\n\
         [policy.chat.member.us]\nlimits.rpm = { calls = 7, per = '1h' }\n",
    );
    let said = server.request(&with("forecast", CHAT, &[])).ends(0).out;
    let lines: Vec<&str> = said.lines().collect();
    let begins = [
        "member eu",
        "  rpm  3 such requests fit",
        "member us",
        "  rpm  7 such requests fit",
    ];
    assert_eq!(lines.len(), begins.len(), "{said}");
    assert!(
        lines
            .iter()
            .zip(begins)
            .all(|(line, begin)| line.starts_with(begin)),
        "{said}"
    );
}

#[test]
fn a_command_line_that_makes_no_sense_is_2() {
    let server = Server::start(POLICY);
    server.request(&["check", "--policy", "chat"]).ends(2);
    server.request(&with("check", CHAT, &["tpm"])).ends(2);
    let twice = server
        .request(&with("check", CHAT, &["tpm=1", "tpm=2"]))
        .ends(2);
    assert!(twice.error.contains("add the amounts up"), "{twice:?}");
    let address = with("check", CHAT, &["--server", "here"]);
    assert!(
        server
            .request(&address)
            .ends(2)
            .error
            .contains("http://HOST:PORT")
    );
}

#[test]
fn a_server_that_is_not_there_says_how_to_start_one() {
    let mut command = tidegate();
    // Nothing listens at the lowest port.
    command.args(with("check", CHAT, &["--server", "http://127.0.0.1:1"]));
    let said = Said::from(command.output().unwrap()).ends(5);
    assert!(said.error.contains("tidegate serve"), "{said:?}");
}

#[test]
fn without_the_right_token_it_is_not_allowed() {
    let made = tidegate().args(["token", "ci"]).output().unwrap();
    let entry = String::from_utf8(made.stdout).unwrap();
    let told = String::from_utf8(made.stderr).unwrap();
    let token = told.lines().next().unwrap();
    let server = Server::start(&format!("{entry}\n{POLICY}"));
    let without = server.request(&with("check", CHAT, &["rpm=1"])).ends(4);
    // It said how HTTP has it.
    assert!(
        without
            .error
            .contains("--token-file FILE, or in TIDEGATE_TOKEN"),
        "{without:?}"
    );
    server
        .request(&with("check", CHAT, &["rpm=1", "--token", "tg_other"]))
        .ends(4);
    server
        .request(&with("check", CHAT, &["rpm=1", "--token", token]))
        .ends(0);
    // All of it, as `2>` writes it.
    std::fs::write(server.path("token"), &told).unwrap();
    let path = server.path("token");
    let file = ["--token-file", path.to_str().unwrap()];
    server
        .request(&with("check", CHAT, &["rpm=1", file[0], file[1]]))
        .ends(0);
    let reset = with("reset", CHAT, &file);
    assert!(server.request(&reset).ends(4).error.contains("administer"));
    std::fs::write(&path, "").unwrap();
    assert!(
        server
            .request(&reset)
            .ends(2)
            .error
            .contains("holds no token")
    );
    std::fs::remove_file(&path).unwrap();
    let said = server.request(&reset).ends(2).error;
    assert!(said.contains("--token-file"), "{said}");
}

/// Only a token on the command line was taken; and one in the environment needed --server.
#[test]
fn a_trace_is_played_by_the_token_of_a_file() {
    let made = tidegate().args(["token", "ci"]).output().unwrap();
    let entry = String::from_utf8(made.stdout).unwrap();
    let policy = "[policy.jobs.limits]\nrunning = { concurrency = 1 }\n";
    let server = Server::start(&format!("{entry}\n{policy}"));
    std::fs::write(server.path("token"), made.stderr).unwrap();
    let trace = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:00,10,1\n";
    std::fs::write(server.path("trace.csv"), trace).unwrap();
    let replay = |more: &[&str]| {
        let words = "replay trace.csv --policy tidegate.toml --key =k --json";
        let words: Vec<_> = words.split(' ').chain(more.iter().copied()).collect();
        let mut command = server.command(&words);
        command.current_dir(server.path(""));
        command
    };
    let played = |mut command: Command| {
        let said = Said::from(command.output().unwrap()).ends(0);
        let told: serde_json::Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!(told["requests"], 1, "{said:?}");
    };
    let through = ["--server", &*server.url, "--token-file", "token"];
    played(replay(&through));
    let refused = replay(&through[..2]).output().unwrap();
    assert!(!refused.status.success());
    let mut alone = replay(&[]);
    alone.env("TIDEGATE_TOKEN", "tg_other");
    played(alone);
}

/// Amounts were whole numbers alone.
#[test]
fn money_is_typed_and_told_with_every_digit() {
    let server = Server::start(
        "[policy.spend.limits]\nusd = { budget = '2.50', per = '1h', unit = '0.01' }\n",
    );
    let request = |verb: &str, more: &[&str]| {
        server.request(&[&[verb, "-p", "spend", "-k", "alice"], more].concat())
    };
    let first = request("check", &["usd=0.35"]).ends(0);
    assert!(first.out.contains("usd  2.15 of 2.50 left"), "{first:?}");
    assert!(
        request("check", &["--cost", "1"])
            .ends(0)
            .out
            .contains("1.15 of 2.50")
    );
    assert!(
        request("check", &["usd=1.16"])
            .ends(1)
            .out
            .starts_with("refused by usd")
    );
    let less = request("check", &["--cost", "-5"]).ends(2);
    assert!(less.error.contains("`-5` is no whole number"), "{less:?}");
    let finer = request("check", &["usd=0.001"]).ends(2);
    assert!(
        finer.error.contains("finer than the limit's unit, 0.01"),
        "{finer:?}"
    );
    let debit = request("debit", &["usd=1.20"]).ends(0);
    assert!(
        debit.out.contains("0.00 of 2.50 left, 0.05 owed"),
        "{debit:?}"
    );
    let set = ["override", "set", "-p", "spend", "-k", "alice", "usd=4.75"];
    let set = server.request(&set).ends(0);
    assert!(set.out.contains("usd=budget:4.75/1h"), "{set:?}");
    assert!(request("peek", &["usd=0.01"]).out.contains("of 4.75 left"));
}

const POOL: &str = "[policy.chat]\nmetadata = { team = 'ml' }\n\
                    [policy.chat.member.eu.limits]\nrpm = { calls = 30, per = '1h' }\n\
                    [policy.chat.member.us.limits]\nrpm = { calls = 10, per = '1h' }\n";

/// A forecast of a pool printed nothing, and a debit, which must name a member, could not.
#[test]
fn of_a_pool_a_member_is_named_and_told() {
    let server = Server::start(POOL);
    let request = |verb: &'static str, more: &[&str]| server.request(&with(verb, CHAT, more));
    let help = server.request(&["debit", "-h"]).ends(0).out;
    let (options, _) = help.split_once("The answer:").unwrap();
    assert!(options.contains("--member <NAME>"), "{help}");
    let forecast = request("forecast", &[]).ends(0).out;
    assert_eq!(
        forecast,
        "member eu\n  rpm  30 such requests fit; 30 of 30 left\n\
         member us\n  rpm  10 such requests fit; 10 of 10 left\n"
    );
    let us = request("forecast", &["--member", "us"]).ends(0).out;
    assert_eq!(us, "  rpm  10 such requests fit; 10 of 10 left\n");
    let nowhere = request("debit", &["rpm=4"]).ends(2).error;
    assert!(nowhere.contains("`member` is missing"), "{nowhere}");
    let debit = request("debit", &["rpm=4", "--member", "us"]).ends(0).out;
    assert_eq!(debit, "charged\n  rpm  6 of 10 left\n");
    let peek = request("peek", &["rpm=30", "--member", "us"]);
    assert!(peek.ends(3).error.contains("at most 10"));
    let keys = server.request(&["keys", "-p", "chat"]).ends(0).out;
    assert_eq!(keys, "alice at us  rpm 6/10\n");
    let lease = request("acquire", &[]).ends(0).out;
    assert!(lease.contains("\n  member "), "{lease}");
    assert!(lease.contains("\n  metadata team=ml\n"), "{lease}");
    let leases = server.request(&["leases", "-p", "chat"]).ends(0).out;
    assert!(leases.contains("  alice at "), "{leases}");
}

/// Only HTTP, gRPC and RESP could say how the work went.
#[test]
fn a_lease_ends_with_word_of_a_provider_that_refused() {
    let server = Server::start(POOL);
    let request = |verb: &'static str, more: &[&str]| server.request(&with(verb, CHAT, more));
    let id = request("acquire", &["-q"]).ends(0).out;
    let lease = ["--lease", id.trim()];
    let dropped = [&lease[..], &["--outcome", "dropped", "--cool-down", "1h"]].concat();
    let said = request("cancel", &dropped).ends(0).out;
    let passed_over = said.lines().nth(1).unwrap().trim();
    let (member, until) = passed_over.split_once(", passed over until ").unwrap();
    assert!(until.starts_with('2'), "{said}");
    for _ in 0..4 {
        let other = request("acquire", &[]).ends(0).out;
        assert!(!other.contains(member), "{other} after {said}");
    }
    let unknown = [&lease[..], &["--outcome", "lost"]].concat();
    assert!(
        request("settle", &unknown)
            .ends(2)
            .error
            .contains("dropped")
    );
}

/// "Is it running?" was asked of whatever had just answered.
#[test]
fn what_is_there_and_is_no_http_listener_is_not_taken_for_a_server_that_is_down() {
    use std::io::{Read, Write};
    let server = Server::start(POLICY);
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = other.accept().unwrap();
        let mut head = [0; 64];
        let _ = stream.read(&mut head).unwrap();
        stream.write_all(b"-ERR no such thing\r\n").unwrap();
    });
    let asked = |url: &str| {
        let said = server.request(&with("check", CHAT, &["rpm=1", "--server", url]));
        said.ends(5).error
    };
    let wrong = asked(&format!("http://{address}"));
    assert!(wrong.contains("is it the HTTP listener"), "{wrong}");
    answering.join().unwrap();
    let wrong = asked(&server.url.replace("http://", "https://"));
    assert!(wrong.contains("write http:// in --server"), "{wrong}");
    let gone = asked(&format!("http://{address}"));
    assert!(gone.contains("is it running?"), "{gone}");
}

/// A command that took a grant has ended: what it held stays taken until somebody returns it.
#[test]
fn a_grant_is_taken_and_returned_and_its_client_may_be_gone() {
    let server = Server::start("[policy.chat.limits]\nrpm = { calls = 10, per = '1h' }\n");
    let grant = |more: &[&str]| server.request(&with("grant", CHAT, more));
    let taken = grant(&["rpm=6", "--hold", "60s"]).ends(0);
    assert!(taken.out.starts_with("admitted\n  grant "), "{taken:?}");
    assert!(
        taken.out.contains(", good for 60.0 s, until 2"),
        "{taken:?}"
    );
    assert!(taken.out.contains("  rpm  6 granted\n"), "{taken:?}");
    let refused = grant(&["rpm=6", "--least", "rpm=5"]).ends(1);
    assert!(refused.out.starts_with("refused by rpm; "), "{refused:?}");
    grant(&["rpm=20", "--least", "rpm=11"]).ends(3);
    grant(&["rpm=2", "--hold", "61s"]).ends(2);
    let id = grant(&["rpm=6", "--quiet", "--hold", "60s"]).ends(0).out;
    let back = ["--lease", id.trim(), "rpm=1"];
    let returned = server.request(&with("return", CHAT, &back)).ends(0);
    assert_eq!(returned.out, "ended\n  rpm  1 used of 4 taken\n");
    let again = server.request(&with("return", CHAT, &back)).ends(0);
    assert!(again.out.starts_with("ended before; "), "{again:?}");
    let unknown = ["--lease", "0123456789abcdef0123456789abcdef"];
    server.request(&with("return", CHAT, &unknown)).ends(6);
    let peek = server.request(&with("peek", CHAT, &[])).ends(0);
    assert!(peek.out.contains("rpm  3 of 10 left"), "{peek:?}");
}
