//! `tidegate run`: the lease while it runs, signals, and how it ends.

use std::process::{Child, Command, Stdio};

use crate::proxy::Proxy;
use crate::server::{POLICY, Said, Server, signal, tidegate, wait_for, written};

const JOB: [&str; 5] = ["run", "-p", "jobs", "-k", "nightly"];

fn job<'a>(more: &[&'a str], command: &[&'a str]) -> Vec<&'a str> {
    [&JOB[..], more, &["--"], command].concat()
}

/// Whether the one slot is taken.
fn is_held(server: &Server) -> bool {
    let peek = ["peek", "-p", "jobs", "-k", "nightly", "-q"];
    server.request(&peek).code == 1
}

/// When the slot comes back if its lease is not renewed.
fn expiry(server: &Server) -> String {
    let peek = ["peek", "-p", "jobs", "-k", "nightly", "--json"];
    let body = server.request(&peek).ends(1).json();
    body["not_until"].as_str().expect("an instant").to_owned()
}

/// Begins to run a command that writes its own process id to `pid` first.
fn begin(server: &Server, more: &[&str], script: &str) -> (Child, u32) {
    let script = format!("echo $$ > pid; {script}");
    let mut command = hearing(&server.command(&job(more, &["sh", "-c", &script])));
    command.current_dir(server.path(""));
    command.stderr(Stdio::piped()).stdout(Stdio::piped());
    let ours = command.spawn().expect("the program runs");
    let pid = written(&server.path("pid")).parse().expect("a number");
    (ours, pid)
}

/// The same command, which no signal passes by: whoever started the tests may have
/// been told to ignore some (a shell's job in the background ignores SIGINT), and that
/// is handed down.
fn hearing(command: &Command) -> Command {
    let mut hearing = Command::new("env");
    hearing.arg("--default-signal").arg(command.get_program());
    hearing.args(command.get_args());
    hearing.envs(
        command
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    hearing
}

fn end(mut ours: Child) -> Said {
    wait_for(|| ours.try_wait().expect("a child").is_some());
    Said::from(ours.wait_with_output().expect("it ends"))
}

#[test]
fn the_commands_status_output_and_input_are_passed_on() {
    let server = Server::start(POLICY);
    let said = server.request(&job(&[], &["sh", "-c", "echo out; echo err >&2; exit 7"]));
    let said = said.ends(7);
    assert_eq!((said.out.as_str(), said.error.as_str()), ("out\n", "err\n"));
    server
        .request(&job(&[], &["sh", "-c", "kill -KILL $$"]))
        .ends(128 + 9);
    assert!(!is_held(&server));
}

/// An amount had to be said by `--amount`, unlike to every other verb.
#[test]
fn amounts_stand_before_the_command_as_those_of_other_verbs_do() {
    let server = Server::start(POLICY);
    let run = |more: &[&str]| {
        let chat = ["run", "-p", "chat", "-k", "ann"];
        server.request(&[&chat[..], more].concat())
    };
    run(&["tpm=300", "--", "true"]).ends(0);
    run(&["--amount", "tpm=300", "--", "true"]).ends(0);
    let never = run(&["tpm=2000", "--", "true"]).ends(123);
    assert!(never.error.contains("at most 1000"), "{never:?}");
    let twice = run(&["tpm=1", "--amount", "tpm=2", "--", "true"]).ends(2);
    assert!(twice.error.contains("add the amounts up"), "{twice:?}");
    let said = run(&["true"]).ends(2);
    assert!(said.error.contains("behind `--`"), "{said:?}");
    let peek = server.request(&["peek", "-p", "chat", "-k", "ann", "--json"]);
    assert!(peek.json()["limits"]["tpm"]["remaining"].as_u64() < Some(500));
}

/// It took a key alone, unlike every other command about one.
#[test]
fn a_command_runs_within_the_limits_of_an_entity() {
    let server = Server::start(POLICY);
    server.request(&["entity", "create", "acme"]).ends(0);
    let run = ["run", "-p", "jobs", "--entity", "acme", "--"];
    let script = "tidegate leases -p jobs; echo ${TIDEGATE_KEY-none}";
    let path = std::path::Path::new(env!("CARGO_BIN_EXE_tidegate"));
    let script = script.replace("tidegate", &path.display().to_string());
    let mut command = server.command(&[&run[..], &["sh", "-c", &script]].concat());
    command.env("TIDEGATE_KEY", "another");
    let said = Said::from(command.output().expect("the program runs")).ends(0);
    let (lease, key) = said.out.split_once('\n').expect("two lines");
    assert!(lease.contains("  acme  since "), "{said:?}");
    assert_eq!(key, "none\n");
    let nobody = ["run", "-p", "jobs", "--entity", "nobody", "--", "true"];
    let said = server.request(&nobody).ends(125);
    assert!(said.error.contains("no entity `nobody`"), "{said:?}");
}

#[test]
fn the_command_finds_its_lease_and_fence_in_its_environment() {
    let server = Server::start(POLICY);
    let show = "echo $TIDEGATE_POLICY $TIDEGATE_KEY $TIDEGATE_FENCE $TIDEGATE_LEASE";
    let fence = |said: Said| {
        let words: Vec<_> = said.out.split_whitespace().map(str::to_owned).collect();
        assert_eq!((words[0].as_str(), words[1].as_str()), ("jobs", "nightly"));
        assert_eq!(words[3].len(), 32);
        words[2].parse::<u64>().expect("a number")
    };
    let first = fence(server.request(&job(&[], &["sh", "-c", show])).ends(0));
    let second = fence(server.request(&job(&[], &["sh", "-c", show])).ends(0));
    assert!(second > first);
}

/// SECURITY.md says that the command gets the lease's id and not the token; from the
/// environment it got that as well.
#[test]
fn the_command_finds_no_credential_in_its_environment() {
    let server = Server::start(POLICY);
    let mut run = server.command(&job(&[], &["env"]));
    // A server without tokens takes whatever is sent; these are not used at all.
    run.env("TIDEGATE_TOKEN", "tg-secret");
    run.env("TIDEGATE_STORE", "redis://user:secret@127.0.0.1");
    run.env("OURS_IS_OURS", "kept");
    let said = Said::from(run.output().expect("it runs")).ends(0);
    assert!(said.out.contains("OURS_IS_OURS=kept"), "{said:?}");
    assert!(said.out.contains("TIDEGATE_LEASE="), "{said:?}");
    for credential in ["tg-secret", "user:secret"] {
        assert!(!said.out.contains(credential), "{said:?}");
    }
}

/// The address of a store may hold a password; help told it to whoever looked on.
#[test]
fn help_shows_no_credential_of_the_environment() {
    for command in ["serve", "run", "check"] {
        let mut help = tidegate();
        help.args([command, "--help"]);
        help.env("TIDEGATE_TOKEN", "tg-secret");
        help.env("TIDEGATE_STORE", "redis://user:secret@127.0.0.1");
        let said = Said::from(help.output().expect("it runs")).ends(0);
        assert!(!said.out.contains("secret"), "{said:?}");
    }
}

#[test]
fn while_it_runs_nobody_else_does_and_then_the_next_in_line() {
    let server = Server::start(POLICY);
    let (ours, pid) = begin(&server, &[], "exec sleep 100");
    let refused = server.request(&job(&[], &["true"])).ends(121);
    assert!(refused.error.contains("--wait"), "{refused:?}");
    // As `acquire` says it.
    let again = "refused by running; retry after ";
    assert!(refused.error.contains(again), "{refused:?}");
    let mut next = server.command(&job(&["--wait", "50s"], &["sh", "-c", "exit 4"]));
    let mut next = next.spawn().unwrap();
    signal("TERM", pid);
    assert_eq!(end(ours).code, 128 + 15);
    assert_eq!(next.wait().unwrap().code(), Some(4));
    wait_for(|| !is_held(&server));
}

#[test]
fn a_lease_is_renewed_for_as_long_as_the_command_runs() {
    let server = Server::start(POLICY);
    // Its length has passed several times before the command ends.
    let script = "while ! test -e go; do sleep 0.05; done; exit 5";
    let (ours, _) = begin(&server, &["--ttl", "2s"], script);
    let first = expiry(&server);
    wait_for(|| expiry(&server) > first);
    let second = expiry(&server);
    wait_for(|| expiry(&server) > second);
    std::fs::write(server.path("go"), "").unwrap();
    let said = end(ours).ends(5);
    assert!(!said.error.contains("lost"), "{said:?}");
}

#[test]
fn a_signal_is_passed_on_and_the_command_says_how_it_ends() {
    let server = Server::start(POLICY);
    for (name, code) in [
        ("INT", 11),
        ("TERM", 12),
        ("HUP", 13),
        ("USR1", 14),
        ("QUIT", 15),
    ] {
        let script =
            format!("trap 'exit {code}' {name}; echo ready > ready; while :; do sleep 0.05; done");
        let (ours, _) = begin(&server, &[], &script);
        written(&server.path("ready"));
        signal(name, ours.id());
        assert_eq!(end(ours).code, code, "{name}");
        std::fs::remove_file(server.path("ready")).unwrap();
        std::fs::remove_file(server.path("pid")).unwrap();
    }
    assert!(!is_held(&server));
}

#[test]
fn a_command_that_outlives_a_signal_goes_on() {
    let server = Server::start(POLICY);
    let script = "trap 'echo got > got' USR2; echo ready > ready; \
                  while ! test -e go; do sleep 0.05; done; exit 6";
    let (ours, _) = begin(&server, &[], script);
    written(&server.path("ready"));
    signal("USR2", ours.id());
    written(&server.path("got"));
    assert!(is_held(&server));
    std::fs::write(server.path("go"), "").unwrap();
    assert_eq!(end(ours).code, 6);
}

#[test]
fn whoever_is_told_to_ignore_a_signal_ignores_it() {
    let server = Server::start(POLICY);
    let ours = server.command(&job(&[], &["sh", "-c", "kill -HUP $$; exit 8"]));
    let mut nohup = Command::new("nohup");
    nohup.arg(ours.get_program()).args(ours.get_args());
    nohup
        .env("TIDEGATE_SERVER", &server.url)
        .stdin(Stdio::null());
    let said = Said::from(nohup.output().expect("nohup runs"));
    said.ends(8);
}

#[test]
fn who_is_told_to_stop_while_it_waits_leaves_the_line() {
    let server = Server::start(POLICY);
    let (ours, pid) = begin(&server, &[], "exec sleep 100");
    let mut waits = hearing(&server.command(&job(&["--wait", "50s"], &["true"])));
    let waits = waits.spawn().unwrap();
    wait_for(|| waiting(&server) == 1);
    signal("INT", waits.id());
    assert_eq!(end(waits).code, 128 + 2);
    wait_for(|| waiting(&server) == 0);
    signal("KILL", pid);
    assert_eq!(end(ours).code, 128 + 9);
}

/// How many wait for the policy of the jobs.
fn waiting(server: &Server) -> u64 {
    let text = server.get("/metrics");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("tidegate_waiting{policy=\"jobs\"} "));
    line.expect("it is measured").parse().expect("a number")
}

#[test]
fn who_is_killed_gives_the_slot_back_by_its_expiry() {
    let server = Server::start(POLICY);
    let (mut ours, pid) = begin(&server, &["--ttl", "2s"], "exec sleep 100");
    assert!(is_held(&server));
    signal("KILL", ours.id());
    ours.wait().unwrap();
    wait_for(|| !is_held(&server));
    // The command itself is nobody's any more.
    signal("KILL", pid);
}

#[test]
fn a_command_that_is_not_there_takes_nothing() {
    let server = Server::start(POLICY);
    let chat = |command: &str| {
        [
            "run", "-p", "chat", "-k", "a", "-a", "tpm=1000", "--", command,
        ]
        .map(str::to_owned)
    };
    let run = |command: &str| {
        let arguments = chat(command);
        server.request(&arguments.each_ref().map(String::as_str))
    };
    let said = run("/nowhere/at-all").ends(127);
    assert!(said.error.contains("/nowhere/at-all"), "{said:?}");
    run("/").ends(126);
    // All of it is there still.
    run("true").ends(0);
    run("true").ends(121);
}

#[test]
fn what_keeps_a_command_from_running_has_a_code_of_its_own() {
    let server = Server::start(POLICY);
    server.request(&["run", "-p", "jobs", "--", "true"]).ends(2);
    server
        .request(&["run", "-p", "other", "-k", "x", "--", "true"])
        .ends(125);
    server
        .request(&[
            "run", "-p", "chat", "-k", "x", "-a", "tpm=5000", "--", "true",
        ])
        .ends(123);
    let mut nowhere = tidegate();
    nowhere.args([
        "run",
        "-p",
        "a",
        "-k",
        "b",
        "--server",
        "http://127.0.0.1:1",
        "--",
        "true",
    ]);
    let said = Said::from(nowhere.output().unwrap()).ends(125);
    assert!(said.error.contains("tidegate serve"), "{said:?}");
}

#[test]
fn a_lease_that_is_lost_is_said_and_with_kill_ends_the_command() {
    let server = Server::start(POLICY);
    let release = "tidegate release -q; echo done > done; exec sleep 100";
    let release = release.replace("tidegate", env!("CARGO_BIN_EXE_tidegate"));
    let (ours, _) = begin(&server, &["--ttl", "500ms", "--on-lost", "kill"], &release);
    written(&server.path("done"));
    let said = end(ours).ends(125);
    assert!(said.error.contains("the lease is lost"), "{said:?}");

    std::fs::remove_file(server.path("pid")).unwrap();
    let warned = release.replace("exec sleep 100", "while ! test -e go; do sleep 0.05; done");
    let (mut ours, _) = begin(&server, &["--ttl", "500ms"], &warned);
    let mut said = std::io::BufReader::new(ours.stderr.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut said, &mut line).unwrap();
    assert!(line.contains("the lease is lost"), "{line}");
    std::fs::write(server.path("go"), "").unwrap();
    assert_eq!(ours.wait().unwrap().code(), Some(0));
}

/// Nothing that was answered is lost.
const ALWAYS: [&str; 2] = ["--store", "file:state.redb?sync=always"];

#[test]
fn a_server_that_restarts_meanwhile_keeps_the_lease() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("tidegate.toml"), POLICY).unwrap();
    let server = Server::start_in(folder, "127.0.0.1:0", &ALWAYS);
    let address = server.url.trim_start_matches("http://").to_owned();
    let script = "while ! test -e go; do sleep 0.05; done; exit 9";
    let (ours, _) = begin(&server, &["--ttl", "20s", "--on-lost", "kill"], script);
    let server = Server::start_in(server.kill(), &address, &ALWAYS);
    assert!(is_held(&server));
    std::fs::write(server.path("go"), "").unwrap();
    end(ours).ends(9);
    assert!(!is_held(&server));
}

/// It had no idempotency key: the lease stayed taken, and the command did not run.
#[test]
fn a_lease_whose_answer_was_lost_is_asked_for_again_and_taken_once() {
    let server = Server::start(POLICY);
    let proxy = Proxy::before(&server, 1);
    let mut command = server.command(&[
        "run", "-p", "chat", "-k", "a", "-a", "tpm=100", "--", "true",
    ]);
    let said = command.env("TIDEGATE_SERVER", &proxy.url).output();
    Said::from(said.expect("the program runs")).ends(0);
    let peek = ["peek", "-p", "chat", "-k", "a", "--json", "tpm=1"];
    let body = server.request(&peek).ends(0).json();
    assert_eq!(body["limits"]["rpm"]["remaining"], 2);
}

/// What was granted under its idempotency key stayed taken for the retry that did not come.
#[test]
fn a_lease_of_which_no_answer_tells_is_given_back_before_the_command_ends() {
    let server = Server::start(POLICY);
    let proxy = Proxy::before(&server, 4);
    let mut command = server.command(&job(&[], &["true"]));
    let said = command.env("TIDEGATE_SERVER", &proxy.url).output();
    Said::from(said.expect("the program runs")).ends(125);
    assert!(!is_held(&server));
}
