//! Entities, kept and asked from the command line.

use crate::server::{POLICY, Said, Server};

fn entity(server: &Server, words: &[&str]) -> Said {
    server.request(&[&["entity"], words].concat())
}

#[test]
fn an_entity_is_created_shown_listed_changed_and_deleted() {
    let server = Server::start(POLICY);
    let acme = entity(&server, &["create", "acme", "--name", "Acme Inc."]).ends(0);
    assert!(
        acme.out
            .starts_with("acme  a root  \"Acme Inc.\"\nversion "),
        "{acme:?}"
    );
    for team in ["search", "ads"] {
        entity(&server, &["create", team, "--parent", "acme"]).ends(0);
    }
    let meta = ["--meta", "tier=gold", "--charge-parents", "false"];
    let create = [&["create", "alice", "--parent", "search"], &meta[..]].concat();
    entity(&server, &create).ends(0);
    let shown = entity(&server, &["show", "alice"]).ends(0);
    let line = "alice  belongs to acme / search  tier=gold  (its parents are not charged)\n";
    assert!(shown.out.starts_with(line), "{shown:?}");
    let shown = entity(&server, &["show", "alice", "--json"]).json();
    let version = shown["version"].to_string();
    let children = entity(&server, &["children", "acme"]).ends(0).out;
    assert_eq!(children, "ads  belongs to acme\nsearch  belongs to acme\n");
    let on_it = ["--if-version", &version];
    let change = ["change", "alice", "--name", "Alice", "--no-meta"];
    let changed = entity(&server, &[&change[..], &on_it].concat()).ends(0);
    assert!(
        changed
            .out
            .starts_with("alice  belongs to search  \"Alice\""),
        "{changed:?}"
    );
    let moved = entity(&server, &["change", "alice", "--parent", "ads"]).ends(0);
    assert!(moved.out.starts_with("alice  belongs to ads"), "{moved:?}");
    let up = entity(&server, &["change", "alice", "--parent", "acme"]).ends(2);
    assert!(up.error.contains("would be at level 2"), "{up:?}");
    let late = entity(&server, &[&change[..], &on_it].concat()).ends(7);
    assert!(late.error.contains("is at version"), "{late:?}");
    entity(&server, &["create", "alice"]).ends(7);
    entity(&server, &["create", "bob", "--parent", "nobody"]).ends(6);
    let in_use = entity(&server, &["delete", "ads"]).ends(7);
    assert!(
        in_use.error.contains("has children, such as `alice`"),
        "{in_use:?}"
    );
    assert_eq!(
        entity(&server, &["delete", "alice"]).ends(0).out,
        "deleted\n"
    );
    entity(&server, &["show", "alice"]).ends(6);
    entity(&server, &["delete", "alice"]).ends(6);
    let audit = server.request(&["audit", "--entity", "alice"]).ends(0).out;
    assert_eq!(audit.lines().count(), 4, "{audit}");
    let list = entity(&server, &["list", "--json"]).ends(0).out;
    assert_eq!(list.lines().count(), 3, "{list}");
}

#[test]
fn a_check_and_a_lease_name_an_entity_by_its_id() {
    let server = Server::start(POLICY);
    entity(&server, &["create", "acme"]).ends(0);
    let of = ["--policy", "chat", "--entity", "acme"];
    server
        .request(&[&["check"], &of[..], &["rpm=3"]].concat())
        .ends(0);
    server
        .request(&[&["check"], &of[..], &["rpm=1"]].concat())
        .ends(1);
    let nobody = ["check", "--policy", "chat", "--entity", "nobody", "rpm=1"];
    let nobody = server.request(&nobody).ends(6);
    assert!(
        nobody.error.contains("there is no entity `nobody`"),
        "{nobody:?}"
    );
}
