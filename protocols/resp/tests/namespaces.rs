//! Namespaces, over a socket: created, deleted, restored, purged and listed, and entered by a
//! connection.

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::{CHAT, Client, TestServer};
use tidegate_memory::MemoryStore;
use tidegate_resp::Settings;
use tidegate_service::{Credential, Scope, Service};

fn served() -> (TestServer, Client) {
    let builder = Service::builder().store(Arc::new(MemoryStore::default()));
    let server = TestServer::at(builder, CHAT, Settings::default());
    let client = server.client();
    (server, client)
}

/// How many calls of `chat` are admitted.
fn left(client: &mut Client) -> usize {
    let admitted = (0..99).take_while(|_| {
        let told = client.request("TG.CHECK chat alice");
        assert!(told.starts_with("[verdict,"), "{told}");
        told.starts_with("[verdict,admitted,")
    });
    admitted.count()
}

#[test]
fn a_namespace_is_created_entered_deleted_restored_and_purged() {
    let (server, mut client) = served();
    let created = client.request("TG.NAMESPACE CREATE acme REASON why");
    assert!(created.starts_with("[name,acme,version,"), "{created}");
    assert!(created.contains(",state,active,by,anyone,"), "{created}");
    let again = client.request("tg.namespace create acme");
    assert!(
        again.starts_with("-CONFLICT there is a namespace `acme`"),
        "{again}"
    );
    assert!(
        client
            .request("TG.NAMESPACE CREATE a/b")
            .starts_with("-ERR")
    );
    assert!(client.request("TG.USE a/b").starts_with("-ERR"));
    assert_eq!(client.request("TG.USE acme"), "OK");
    assert_eq!(left(&mut client), 10);
    let mut other = server.client();
    assert_eq!(left(&mut other), 10);
    let in_use = client.request("TG.NAMESPACE PURGE acme");
    assert!(in_use.starts_with("-INUSE"), "{in_use}");
    assert!(
        other
            .request("TG.NAMESPACE DELETE acme")
            .contains("deleted")
    );
    let told = client.request("TG.CHECK chat alice");
    assert!(
        told.starts_with("-DELETED the namespace `acme` is deleted"),
        "{told}"
    );
    assert_eq!(client.request("TG.USE default"), "OK");
    assert_eq!(left(&mut client), 0);
    assert_eq!(client.request("TG.USE acme"), "OK");
    assert!(
        other
            .request("TG.NAMESPACE RESTORE acme")
            .contains("active")
    );
    assert_eq!(left(&mut client), 0, "it comes back whole");
    other.request("TG.NAMESPACE CREATE b");
    let page = other.request("TG.NAMESPACE LIST COUNT 1");
    assert!(page.starts_with("[namespaces,[[name,acme,"), "{page}");
    assert!(!page.contains("name,b,"), "{page}");
    other.request("TG.NAMESPACE DELETE acme");
    server.time.advance(Duration::from_secs(10));
    let purged = other.request("TG.NAMESPACE PURGE acme");
    assert!(purged.ends_with(",done,1]"), "{purged}");
    assert!(other.request("TG.NAMESPACE SHOW acme").starts_with("-ERR"));
    // A connection begins anew where its token is.
    assert_eq!(client.request("RESET"), "RESET");
    assert_eq!(left(&mut client), 0);
}

#[test]
fn a_token_of_a_namespace_is_in_it_and_enters_no_other() {
    let (server, mut client) = served();
    client.request("TG.NAMESPACE CREATE acme");
    let token = |name: &str, namespace: Option<&str>| Credential {
        name: name.to_owned(),
        sha256: Credential::hash(name),
        scopes: Scope::ALL.to_vec(),
        policies: Vec::new(),
        namespace: namespace.map(str::to_owned),
    };
    let tokens = [token("of-acme", Some("acme")), token("of-none", None)];
    server.service.replace_credentials(tokens);
    assert_eq!(client.request("AUTH of-acme"), "OK");
    assert_eq!(left(&mut client), 10);
    for line in [
        "TG.USE default",
        "TG.USE b",
        "TG.NAMESPACE LIST",
        "TG.NAMESPACE DELETE acme",
    ] {
        let told = client.request(line);
        assert!(told.starts_with("-NOPERM"), "{line}: {told}");
    }
    assert!(!client.request("INFO policies").contains("policy_chat"));
    let mut other = server.client();
    assert_eq!(other.request("AUTH of-none"), "OK");
    assert_eq!(left(&mut other), 10);
    assert!(other.request("TG.USE acme").starts_with("-NOPERM"));
    // Whoever chose one is looked at again when the tokens are replaced.
    let every = [token("of-acme", Some("*"))];
    server.service.replace_credentials(every);
    assert_eq!(client.request("TG.USE acme"), "OK");
    assert_eq!(left(&mut client), 0);
    server
        .service
        .replace_credentials([token("of-acme", Some("b"))]);
    assert!(client.request("TG.CHECK chat alice").starts_with("-NOAUTH"));
}
