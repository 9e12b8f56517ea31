//! Namespaces, from the command line and in a fleet of servers.

use tidegate_conformance::{Beyond, skip};
use tidegate_url::UrlError;

use crate::server::{POLICY, Said, Server, wait_for};

fn namespaces(server: &Server, words: &[&str]) -> Said {
    server.request(&[&["namespaces"], words].concat())
}

fn checks(server: &Server, namespace: &str, key: &str) -> Said {
    let of = ["--policy", "chat", "--key", key, "rpm=1"];
    server.request(&[&["check", "--namespace", namespace], &of[..]].concat())
}

/// How many calls are admitted.
fn left(server: &Server, namespace: &str, key: &str) -> usize {
    let admitted = (0..10).take_while(|_| match checks(server, namespace, key).code {
        0 => true,
        1 => false,
        other => panic!("{other}"),
    });
    admitted.count()
}

#[test]
fn a_namespace_is_created_listed_asked_deleted_and_restored() {
    let server = Server::start(POLICY);
    let created = namespaces(&server, &["create", "acme"]).ends(0).out;
    assert!(created.starts_with("acme  active since "), "{created}");
    namespaces(&server, &["create", "acme"]).ends(7);
    namespaces(&server, &["create", "a/b"]).ends(2);
    assert_eq!(
        (left(&server, "acme", "k"), left(&server, "default", "k")),
        (3, 3)
    );
    let nobody = checks(&server, "nobody", "k").ends(6);
    assert!(
        nobody.error.contains("there is no namespace `nobody`"),
        "{nobody:?}"
    );
    let in_use = namespaces(&server, &["purge", "acme"]).ends(7);
    assert!(
        in_use.error.contains("delete it before it is purged"),
        "{in_use:?}"
    );
    let why = ["delete", "acme", "--reason", "they left"];
    assert!(
        namespaces(&server, &why)
            .ends(0)
            .out
            .starts_with("acme  deleted")
    );
    let deleted = checks(&server, "acme", "k").ends(6);
    assert!(
        deleted.error.contains("the namespace `acme` is deleted"),
        "{deleted:?}"
    );
    let soon = namespaces(&server, &["purge", "acme"]).ends(7);
    assert!(soon.error.contains("was deleted a moment ago"), "{soon:?}");
    let list = namespaces(&server, &["list", "--json"]).ends(0).json();
    assert_eq!(
        (&list["name"], &list["state"]),
        (&"acme".into(), &"deleted".into())
    );
    namespaces(&server, &["restore", "acme"]).ends(0);
    assert_eq!(left(&server, "acme", "k"), 0);
    let shown = namespaces(&server, &["show", "acme", "--json"]).json();
    assert_eq!(shown["state"], "active");
    let audit = server.request(&["audit"]).ends(0).out;
    assert_eq!(audit.lines().count(), 3, "{audit}");
    // It said `everywhere  acme`.
    assert!(
        audit.contains("  create_namespace  namespace acme"),
        "{audit}"
    );
    assert!(!audit.contains("everywhere"), "{audit}");
}

fn is_kept_apart_by_all_servers(store: &Beyond) {
    let start = || {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("tidegate.toml"), POLICY).expect("written");
        let more = if store.url.contains('?') { '&' } else { '?' };
        let url = format!("{}{more}deadline=60s", store.url);
        Server::start_in(folder, "127.0.0.1:0", &["--store", &url])
    };
    let [one, two, three] = [(), (), ()].map(|()| start());
    namespaces(&one, &["create", "acme"]).ends(0);
    // Each knows it at once, and counts with the others.
    for server in [&one, &two, &three] {
        checks(server, "acme", "k").ends(0);
    }
    checks(&one, "acme", "k").ends(1);
    assert_eq!(left(&two, "default", "k"), 3);
    namespaces(&two, &["delete", "acme"]).ends(0);
    checks(&two, "acme", "k").ends(6);
    for server in [&one, &three] {
        wait_for(|| checks(server, "acme", "k").code == 6);
    }
    namespaces(&three, &["restore", "acme"]).ends(0);
    for server in [&one, &two] {
        wait_for(|| checks(server, "acme", "k").code == 1);
    }
    namespaces(&one, &["delete", "acme"]).ends(0);
    // One begins to purge it, and is killed at some point or other.
    wait_for(|| {
        let purge = one.command(&["namespaces", "purge", "acme"]).spawn();
        let mut purge = purge.expect("the program runs");
        let state = namespaces(&two, &["show", "acme", "--json"]);
        let is_purged = state.code == 6 || state.json()["state"] == "purging";
        if is_purged {
            purge.kill().expect("killed");
        }
        purge.wait().expect("it ends");
        is_purged || namespaces(&two, &["show", "acme"]).code == 6
    });
    drop(one.kill());
    let purged = namespaces(&three, &["purge", "acme"]);
    assert!([0, 6].contains(&purged.code), "{purged:?}");
    namespaces(&two, &["show", "acme"]).ends(6);
    // One of the same name has nothing of it.
    namespaces(&two, &["create", "acme"]).ends(0);
    wait_for(|| checks(&three, "acme", "k").code == 0);
    assert_eq!(left(&two, "acme", "k"), 2);
}

#[test]
fn a_namespace_is_kept_apart_by_all_servers_of_a_redis() {
    Beyond::redis()
        .iter()
        .for_each(is_kept_apart_by_all_servers);
}

#[test]
fn a_namespace_is_kept_apart_by_all_servers_of_a_postgresql() {
    Beyond::postgres()
        .iter()
        .for_each(is_kept_apart_by_all_servers);
}

#[test]
fn a_namespace_is_kept_apart_by_all_servers_of_a_mariadb() {
    Beyond::mariadb()
        .iter()
        .for_each(is_kept_apart_by_all_servers);
}

#[test]
fn a_namespace_is_kept_apart_by_all_servers_of_a_dynamodb() {
    // The command has this store where it is built with the feature, as with the whole workspace.
    if let Err(error @ UrlError::NotBuilt { .. }) = tidegate_url::check("dynamodb://t") {
        skip(&error.to_string(), "TIDEGATE_REQUIRE_DYNAMODB");
        return;
    }
    Beyond::dynamodb()
        .iter()
        .for_each(is_kept_apart_by_all_servers);
}

#[test]
fn the_metrics_of_a_namespace_count_none_of_anothers() {
    let server = Server::start(POLICY);
    for namespace in ["acme", "umbrella"] {
        namespaces(&server, &["create", namespace]).ends(0);
    }
    for _ in 0..2 {
        checks(&server, "acme", "k").ends(0);
    }
    checks(&server, "umbrella", "k").ends(0);
    let metrics = server.get("/metrics");
    let admitted = |of: &str| {
        let mut lines = metrics.lines().filter(|line| {
            let is_of = |label: &str| line.contains(label);
            let namespace = format!("namespace=\"{of}\"");
            line.starts_with("tidegate_decisions_total{")
                && is_of("policy=\"chat\"")
                && is_of("outcome=\"admitted\"")
                && match of {
                    "default" => !is_of("namespace="),
                    _ => is_of(&namespace),
                }
        });
        let line = lines.next().unwrap_or_else(|| panic!("{of}: {metrics}"));
        assert_eq!(lines.next(), None);
        line.rsplit(' ').next().map(str::to_owned)
    };
    let counted = ["acme", "umbrella", "default"].map(|of| admitted(of).unwrap());
    assert_eq!(counted, ["2", "1", "0"]);
}
