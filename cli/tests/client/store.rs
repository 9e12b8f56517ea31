//! `tidegate run --store`: leases of a store beyond a network, without a server of ours.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use tidegate::Clock;
use tidegate::lock::LeasedSemaphore;
use tidegate_conformance::redis_server::{DURABLE, RedisServer};
use tidegate_conformance::{Beyond, Paused};

fn job(store: &Beyond, more: &[&str], script: &str) -> Command {
    job_of("gpu=2", store, more, script)
}

fn job_of(limit: &str, store: &Beyond, more: &[&str], script: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    // Whatever else the machine does.
    let url = format!("{}?deadline=60s", store.url);
    command.args(["run", "--store", &url, "--limit", limit]);
    command.args(more).args(["--", "sh", "-c", script]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(Stdio::piped());
    command
}

/// Starts one that holds a slot until it is killed; answers with its fence.
fn holder(store: &Beyond, more: &[&str]) -> (Child, u64) {
    let script = "echo $TIDEGATE_FENCE; exec sleep 1000";
    let mut child = job(store, more, script).spawn().expect("it runs");
    let mut line = String::new();
    let output = child.stdout.take().expect("piped");
    BufReader::new(output).read_line(&mut line).expect("text");
    (child, line.trim().parse().expect("a fence"))
}

fn ended(store: &Beyond, more: &[&str], script: &str) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = job(store, more, script).output().expect("it runs");
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

fn signal(name: &str, child: &Child) {
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-s", name, &pid]).status();
    assert!(sent.expect("kill runs").success());
}

#[test]
fn a_semaphore_for_scripts_needs_no_server_of_ours_but_a_redis() {
    Beyond::redis().iter().for_each(is_a_semaphore_for_scripts);
}

#[test]
fn a_semaphore_for_scripts_needs_no_server_of_ours_but_a_postgresql() {
    Beyond::postgres()
        .iter()
        .for_each(is_a_semaphore_for_scripts);
}

#[test]
fn a_semaphore_for_scripts_needs_no_server_of_ours_but_a_mariadb() {
    Beyond::mariadb()
        .iter()
        .for_each(is_a_semaphore_for_scripts);
}

fn is_a_semaphore_for_scripts(store: &Beyond) {
    let (mut first, fence) = holder(store, &[]);
    let (mut second, later) = holder(store, &["--ttl", "1s"]);
    assert!(later > fence);
    let is_all = "test \"$TIDEGATE_KEY\" = all";
    assert_eq!(ended(store, &["--policy", "third"], is_all).0, Some(0));
    let (code, said) = ended(store, &[], "true");
    assert_eq!(code, Some(121), "{said}");
    assert!(said.contains("refused by gpu; retry after "), "{said}");
    // A script with another limit, which names nothing either, took these away once.
    let other = job_of("backup=1", store, &[], "exit 2").status();
    assert_eq!(other.expect("it runs").code(), Some(2));
    assert_eq!(ended(store, &[], "true").0, Some(121));
    // So did one that a job had started: it was told the job's name as if it had said it.
    let inner = |limit: &str| {
        let (tidegate, url) = (env!("CARGO_BIN_EXE_tidegate"), &store.url);
        format!("'{tidegate}' run --store '{url}?deadline=60s' --limit {limit} -- true")
    };
    let script = format!("{} && {}", inner("backup=1"), inner("disk=1"));
    let outer = job_of("disk=1", store, &[], &script)
        .output()
        .expect("it runs");
    assert_eq!(outer.status.code(), Some(121), "{outer:?}");
    // Other keys, and other names, are others' limits.
    assert_eq!(ended(store, &["--key", "other"], "exit 3").0, Some(3));
    assert_eq!(ended(store, &["--policy", "other"], "exit 4").0, Some(4));
    // Who waits is served when a holder ends.
    let waiting = job(store, &["--wait", "100s"], "exit 5").spawn();
    let waiting = waiting.expect("it runs");
    signal("TERM", &first);
    assert_eq!(first.wait().expect("it ends").code(), Some(128 + 15));
    let waited = waiting.wait_with_output().expect("it ends");
    assert_eq!(waited.status.code(), Some(5), "{waited:?}");
    // And when one is killed, and its lease expires.
    let (mut third, _) = holder(store, &[]);
    second.kill().expect("killed");
    second.wait().expect("it ends");
    let (code, said) = ended(store, &["--wait", "100s"], "exit 6");
    assert_eq!(code, Some(6), "{said}");
    signal("TERM", &third);
    third.wait().expect("it ends");
}

#[test]
fn a_command_and_a_program_share_the_slots_of_one_name() {
    for store in [Beyond::redis(), Beyond::postgres(), Beyond::mariadb()] {
        store.iter().for_each(is_shared_with_a_program);
    }
}

fn is_shared_with_a_program(store: &Beyond) {
    let opened = tidegate_url::open(&store.url).expect("a server");
    let builder = LeasedSemaphore::builder("gpu", 2).store(opened.store);
    let gpus = builder.build().expect("sound");
    let (mut command, fence) = holder(store, &["--policy", "gpu"]);
    let permit = gpus
        .try_acquire()
        .wait()
        .expect("an answer")
        .expect("one is free");
    assert!(permit.fence() > fence);
    assert!(gpus.try_acquire().wait().expect("an answer").is_none());
    let (code, said) = ended(store, &["--policy", "gpu"], "true");
    assert_eq!(code, Some(121), "{said}");
    permit.release().wait().expect("held to the end");
    assert_eq!(ended(store, &["--policy", "gpu"], "exit 3").0, Some(3));
    signal("TERM", &command);
    command.wait().expect("it ends");
    assert_eq!(gpus.available().wait(), Ok(2));
}

#[test]
fn what_a_store_cannot_be_asked_is_told_with_what_to_write() {
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        let output = command.arg("run").args(arguments).output();
        let output = output.expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    let (code, said) = run(&["--store", "memory:", "--", "true"]);
    assert!(code == Some(2) && said.contains("--limit"), "{said}");
    let (code, said) = run(&["--store", "memory:", "--limit", "gpu=x", "--", "true"]);
    assert!(
        code == Some(2) && said.contains("write NAME=SLOTS, such as gpu=2;"),
        "{said}"
    );
    let (code, said) = run(&["--store", "memory:", "--limit", "gpu=0", "--", "true"]);
    assert!(code == Some(2) && said.contains("gpu"), "{said}");
    let two = ["--limit", "cpu=2", "--limit", "gpu=0", "--", "true"];
    let (code, said) = run(&[&["--store", "memory:"][..], &two].concat());
    assert!(code == Some(2) && said.contains("--limit gpu: "), "{said}");
    let (code, said) = run(&["--store", "disk:x", "--limit", "gpu=1", "--", "true"]);
    assert!(code == Some(2) && said.contains("redis://HOST"), "{said}");
    let (code, said) = run(&["--store", "memory:", "--limit", "gpu=1", "--", "true"]);
    assert!(code == Some(2) && said.contains("guards nothing"), "{said}");
    let away = "redis://u:secret@127.0.0.1:1";
    let (code, said) = run(&["--store", away, "--limit", "gpu=1", "--", "true"]);
    assert!(code == Some(125) && !said.contains("secret"), "{said}");
    assert!(
        said.contains("--store") && said.contains("127.0.0.1:1"),
        "{said}"
    );
}

/// The store neither answers nor closes anything, and has a minute to do so: the command
/// is told when its lease must have expired, and signals reach it meanwhile.
#[test]
fn a_command_learns_that_its_lease_has_expired_from_no_store_that_hangs() {
    for store in [Beyond::redis(), Beyond::postgres(), Beyond::mariadb()] {
        store.iter().for_each(hangs);
    }
}

fn hangs(store: &Beyond) {
    let begun = "trap 'echo told' USR1; trap 'echo ended; exit 7' TERM; echo begun; ";
    let script = format!("{begun} while :; do sleep 0.1; done");
    let more = ["--ttl", "3s", "--on-lost", "kill"];
    let mut child = job(store, &more, &script).spawn().expect("it runs");
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let mut lines = output.lines().map(|line| line.expect("text"));
    assert_eq!(lines.next().as_deref(), Some("begun"));
    let _hangs = Paused::new(store.pid);
    let clock = Clock::system();
    let paused = clock.now();
    signal("USR1", &child);
    assert_eq!(lines.collect::<Vec<_>>(), ["told", "ended"]);
    assert_eq!(child.wait().expect("it ends").code(), Some(125));
    let took = clock.now().since(paused).as_duration();
    println!(
        "{}: ended {took:?} after the store began to hang",
        store.url
    );
    assert!(took < Duration::from_secs(20), "{took:?}");
}

/// A Redis that was started again had closed every connection: the end of the lease failed at
/// once, and the slot stayed taken until its ttl.
#[test]
fn a_slot_comes_back_though_the_redis_restarts_while_the_command_runs() {
    let Some(mut redis) = RedisServer::start_with(&DURABLE) else {
        return;
    };
    let said = |redis: &mut RedisServer, again: bool| {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(["run", "--store", &redis.url(), "--limit", "gpu=1"]);
        command.args(["--ttl", "10m", "--wait", "1m", "--", "sh", "-c"]);
        command.arg("echo begun; while ! test -e go; do sleep 0.02; done; exit 6");
        command.current_dir(folder.path());
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it runs");
        let mut line = String::new();
        let output = child.stdout.take().expect("piped");
        BufReader::new(output).read_line(&mut line).expect("text");
        assert_eq!(line, "begun\n");
        if again {
            redis.kill();
            redis.start_again();
        }
        std::fs::write(folder.path().join("go"), "").expect("it is ours");
        let ended = child.wait_with_output().expect("it ends");
        assert_eq!(ended.status.code(), Some(6));
        String::from_utf8_lossy(&ended.stderr).into_owned()
    };
    for _ in 0..5 {
        let said = said(&mut redis, true);
        assert!(!said.contains("could not be released"), "{said}");
    }
    // Nobody holds it.
    assert_eq!(said(&mut redis, false), "");
}

/// Who waits in line waits on while the store hangs, and is served when it is back.
#[test]
fn who_waits_waits_on_while_a_redis_is_away() {
    Beyond::redis().iter().for_each(waits_on);
}

#[test]
fn who_waits_waits_on_while_a_postgresql_is_away() {
    Beyond::postgres().iter().for_each(waits_on);
}

#[test]
fn who_waits_waits_on_while_a_mariadb_is_away() {
    Beyond::mariadb().iter().for_each(waits_on);
}

fn waits_on(store: &Beyond) {
    let opened = tidegate_url::open(&format!("{}?deadline=60s", store.url));
    let builder = LeasedSemaphore::builder("gpu", 2).store(opened.expect("a server").store);
    let gpus = builder.build().expect("sound");
    let held = gpus.acquire().wait().expect("an answer");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let url = format!("{}?deadline=2s", store.url);
    command.args(["run", "--store", &url, "--limit", "gpu=2"]);
    command.args(["--policy", "gpu", "--amount", "gpu=2", "--wait", "100s"]);
    command.args(["--", "sh", "-c", "exit 8"]);
    let mut waiting = command.stderr(Stdio::piped()).spawn().expect("it runs");
    let said = BufReader::new(waiting.stderr.take().expect("piped"));
    let mut said = said.lines().map(|line| line.expect("text"));
    // Nobody overtakes it as soon as it stands in line.
    while let Some(other) = gpus.try_acquire().wait().expect("an answer") {
        other.release().wait().expect("held to the end");
    }
    let paused = Paused::new(store.pid);
    let line = said.next().expect("it is told");
    assert!(line.contains("waiting on"), "{line}");
    drop(paused);
    held.release().wait().expect("held to the end");
    let status = waiting.wait().expect("it ends");
    assert_eq!(status.code(), Some(8), "{:?}", said.collect::<Vec<_>>());
    assert_eq!(gpus.available().wait(), Ok(2));
}
