//! Every command that COMMAND lists, without a token, with a wrong one, with
//! one of another scope and one of another policy: refused, and nothing changed.
//!
//! A command that is added must be added to [`COMMANDS`].

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use support::{CHAT, Client, TestServer, tokens};
use tidegate::Limit;
use tidegate_memory::MemoryStore;
use tidegate_resp::Settings;
use tidegate_service::{
    Action, Answer, AuditEvent, AuditListing, Call, Credential, LeaseHandle, OverrideTarget, Scope,
    Service,
};
use tidegate_store::block_on;

use Access::{Anyone, Known, Parts, Policy};
use Scope::{Administer, Decide, Observe};

/// Whom a command lets in.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Access {
    /// Everyone: it is how one says who is there, or goes.
    Anyone,
    /// Whoever has a token: it is about the conversation.
    Known,
    /// Whoever has this scope for the policy, or for all of them.
    Policy(Scope),
    /// Whoever has a token; each part of the answer is for whom it is for.
    Parts(Scope),
}

/// The command, whom it lets in, and a request about the policies `chat` and
/// `throttle`. <id> stands for a lease of `chat`, <handle> for what it is called.
const COMMANDS: [(&str, Access, &str); 48] = [
    ("CL.THROTTLE", Policy(Decide), "CL.THROTTLE k 9 10 3600"),
    ("THROTTLE", Policy(Decide), "THROTTLE k 10 10 3600"),
    ("TG.CHECK", Policy(Decide), "TG.CHECK chat k"),
    ("TG.ACQUIRE", Policy(Decide), "TG.ACQUIRE chat k"),
    ("TG.GRANT", Policy(Decide), "TG.GRANT chat k"),
    ("TG.RETURN", Policy(Decide), "TG.RETURN chat k <id>"),
    ("TG.RELEASE", Policy(Decide), "TG.RELEASE chat k <id>"),
    ("TG.SETTLE", Policy(Decide), "TG.SETTLE chat k <id>"),
    ("TG.CANCEL", Policy(Decide), "TG.CANCEL chat k <id>"),
    ("TG.RENEW", Policy(Decide), "TG.RENEW chat k <id> 3600000"),
    (
        "TG.ADJUST",
        Policy(Decide),
        "TG.ADJUST chat k <id> AMOUNT rpm 1",
    ),
    ("TG.DEBIT", Policy(Decide), "TG.DEBIT chat k AMOUNT rpm 1"),
    ("TG.PEEK", Policy(Observe), "TG.PEEK chat k"),
    ("TG.FORECAST", Policy(Observe), "TG.FORECAST chat k"),
    ("TG.RESET", Policy(Administer), "TG.RESET chat k"),
    ("TG.POLICIES", Parts(Observe), "TG.POLICIES"),
    ("TG.KEYS", Policy(Observe), "TG.KEYS chat"),
    ("TG.LEASES", Policy(Observe), "TG.LEASES chat"),
    ("TG.USAGE", Policy(Observe), "TG.USAGE chat"),
    ("TG.REVOKE", Policy(Administer), "TG.REVOKE chat k <handle>"),
    (
        "TG.OVERRIDE",
        Policy(Administer),
        "TG.OVERRIDE SET POLICY chat LIMIT rpm calls 20 per 1h",
    ),
    (
        "TG.OVERRIDE",
        Policy(Observe),
        "TG.OVERRIDE SHOW POLICY chat",
    ),
    (
        "TG.OVERRIDE",
        Policy(Administer),
        "TG.OVERRIDE REMOVE POLICY chat",
    ),
    ("TG.OVERRIDE", Parts(Observe), "TG.OVERRIDE LIST"),
    (
        "TG.ENTITY",
        Policy(Administer),
        "TG.ENTITY CREATE ads PARENT acme",
    ),
    ("TG.ENTITY", Policy(Observe), "TG.ENTITY SHOW acme"),
    (
        "TG.ENTITY",
        Policy(Administer),
        "TG.ENTITY CHANGE acme NAME Acme",
    ),
    ("TG.ENTITY", Policy(Administer), "TG.ENTITY DELETE search"),
    ("TG.ENTITY", Policy(Observe), "TG.ENTITY LIST"),
    ("TG.ENTITY", Policy(Observe), "TG.ENTITY CHILDREN acme"),
    (
        "TG.NAMESPACE",
        Policy(Administer),
        "TG.NAMESPACE CREATE new",
    ),
    ("TG.NAMESPACE", Policy(Observe), "TG.NAMESPACE SHOW used"),
    (
        "TG.NAMESPACE",
        Policy(Administer),
        "TG.NAMESPACE DELETE used",
    ),
    (
        "TG.NAMESPACE",
        Policy(Administer),
        "TG.NAMESPACE RESTORE old",
    ),
    ("TG.NAMESPACE", Policy(Administer), "TG.NAMESPACE PURGE old"),
    ("TG.NAMESPACE", Policy(Observe), "TG.NAMESPACE LIST"),
    ("TG.AUDIT", Parts(Observe), "TG.AUDIT"),
    ("TG.USE", Known, "TG.USE default"),
    ("PING", Known, "PING"),
    ("ECHO", Known, "ECHO x"),
    ("CLIENT", Known, "CLIENT ID"),
    ("COMMAND", Known, "COMMAND COUNT"),
    ("SELECT", Known, "SELECT 0"),
    ("INFO", Known, "INFO"),
    ("HELLO", Known, "HELLO 2"),
    ("AUTH", Anyone, "AUTH all"),
    ("RESET", Anyone, "RESET"),
    ("QUIT", Anyone, "QUIT"),
];

/// What each command that administers is told as, and whether there was something before and is
/// something after it that the event shows.
const EVENTS: [(&str, Action, [bool; 2]); 11] = [
    ("TG.RESET", Action::Reset, [false, false]),
    ("TG.REVOKE", Action::Revoke, [false, false]),
    ("TG.OVERRIDE SET", Action::SetOverride, [true, true]),
    ("TG.OVERRIDE REMOVE", Action::RemoveOverride, [true, false]),
    ("TG.ENTITY CREATE", Action::CreateEntity, [false, true]),
    ("TG.ENTITY CHANGE", Action::ChangeEntity, [true, true]),
    ("TG.ENTITY DELETE", Action::DeleteEntity, [true, false]),
    (
        "TG.NAMESPACE CREATE",
        Action::CreateNamespace,
        [false, false],
    ),
    (
        "TG.NAMESPACE DELETE",
        Action::DeleteNamespace,
        [false, false],
    ),
    (
        "TG.NAMESPACE RESTORE",
        Action::RestoreNamespace,
        [false, false],
    ),
    ("TG.NAMESPACE PURGE", Action::PurgeNamespace, [false, false]),
];

const NOBODY: &str = "-NOAUTH Authentication required.";
const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.";

/// A server with a token for each scope, one for other policies, and one for all.
fn locked() -> TestServer {
    let store = Service::builder().store(Arc::new(MemoryStore::default()));
    let server = TestServer::at(store, CHAT, Settings::default());
    // One to be seen and removed; it says what the policy says.
    let all = server.service.enter(None).unwrap();
    let limit = Limit::calls("rpm", 10, Duration::from_secs(3_600));
    let chat = OverrideTarget::everything().of_policy("chat");
    server
        .service
        .set_override(&all, &chat, &[limit])
        .wait()
        .unwrap();
    let mut client = server.client();
    for line in [
        "TG.ENTITY CREATE acme",
        "TG.ENTITY CREATE search PARENT acme",
        "TG.NAMESPACE CREATE used",
        "TG.NAMESPACE CREATE old",
        "TG.NAMESPACE DELETE old",
    ] {
        client.request(line);
    }
    // It may be purged from then on.
    server.time.advance(Duration::from_secs(10));
    let scopes = Scope::ALL.map(|scope| [scope]);
    let mut known: Vec<(&str, &[Scope], &[&str])> = Vec::new();
    for scope in &scopes {
        known.push((scope[0].name(), scope, &[]));
    }
    known.push(("stranger", &Scope::ALL, &["slots", "thrott"]));
    known.push(("all", &Scope::ALL, &[]));
    server.service.replace_credentials(tokens(&known));
    server
}

fn as_one(server: &TestServer, token: &str) -> Client {
    let mut client = server.client();
    assert_eq!(client.request(&format!("AUTH {token}")), "OK");
    client
}

/// Takes a lease on `chat`; its id.
fn lease(all: &mut Client) -> String {
    let answer = all.request("TG.ACQUIRE chat k");
    let (_, rest) = answer.split_once("lease,").expect("a lease");
    rest[..32].to_owned()
}

/// A command about this lease.
fn about(line: &str, lease: &str) -> String {
    let handle = LeaseHandle::of(lease.parse().expect("an id"));
    let line = line.replace("<handle>", &handle.to_string());
    line.replace("<id>", lease)
}

/// All that there is to see of `chat`, of entities, and of what comes with the call.
fn seen(all: &mut Client) -> [String; 4] {
    [
        all.request("TG.ENTITY LIST"),
        all.request("TG.OVERRIDE LIST"),
        all.request("TG.PEEK chat k"),
        all.request("THROTTLE k 10 10 3600 0"),
    ]
}

/// That nothing was charged, and the lease still stands as it was.
fn untouched(all: &mut Client, before: &[String; 4], lease: &str) {
    assert_eq!(&seen(all), before);
    let settled = all.request(&format!("TG.SETTLE chat k {lease}"));
    assert!(settled.starts_with("[expired,0,repeated,0"), "{settled}");
}

#[test]
fn every_command_is_in_the_matrix() {
    let listed = TestServer::start()
        .client()
        .request("COMMAND LIST")
        .to_uppercase();
    let listed: BTreeSet<&str> = listed.trim_matches(['[', ']']).split(',').collect();
    let tested: BTreeSet<&str> = COMMANDS.iter().map(|(name, ..)| *name).collect();
    assert_eq!(listed, tested);
}

#[test]
fn without_a_token_or_with_a_wrong_one_every_command_is_refused() {
    let server = locked();
    let mut all = as_one(&server, "all");
    let (lease, before) = (lease(&mut all), seen(&mut all));
    for (name, access, line) in COMMANDS {
        if access == Anyone {
            continue;
        }
        let line = about(line, &lease);
        let mut client = server.client();
        assert_eq!(client.request(&line), NOBODY, "{name}");
        for wrong in [
            "AUTH guess",
            "AUTH all guess",
            "AUTH guess all",
            "HELLO 3 AUTH all guess",
        ] {
            assert_eq!(client.request(wrong), WRONG, "{wrong}");
            assert_eq!(client.request(&line), NOBODY, "{name} after {wrong}");
        }
        client.send(b"*2\r\n$4\r\nAUTH\r\n$3\r\n\xff\0\xfe\r\n");
        assert_eq!(client.reply(), WRONG);
        assert_eq!(client.request(&line), NOBODY, "{name}");
    }
    untouched(&mut all, &before, &lease);
}

#[test]
fn a_token_of_another_scope_is_refused_at_every_command() {
    for (name, access, line) in COMMANDS {
        let (Policy(needed) | Parts(needed)) = access else {
            continue;
        };
        let server = locked();
        let mut all = as_one(&server, "all");
        let (lease, before) = (lease(&mut all), seen(&mut all));
        let line = about(line, &lease);
        for scope in Scope::ALL.into_iter().filter(|scope| *scope != needed) {
            let reply = as_one(&server, scope.name()).request(&line);
            // Who may observe nothing is told so, and not that there is nothing.
            match access {
                Parts(Observe) => assert!(reply.starts_with("-NOPERM"), "{name}: {reply}"),
                _ => refused(name, access, &reply),
            }
        }
        assert_eq!(seen(&mut all), before);
        // And the scope that is needed is enough.
        let reply = as_one(&server, needed.name()).request(&line);
        assert!(!reply.starts_with('-') && reply != "[]", "{name}: {reply}");
    }
}

#[test]
fn a_token_of_another_policy_is_refused_at_every_command() {
    let server = locked();
    let mut all = as_one(&server, "all");
    let (lease, before) = (lease(&mut all), seen(&mut all));
    let mut stranger = as_one(&server, "stranger");
    for (name, access, line) in COMMANDS {
        if let Policy(_) | Parts(_) = access {
            let reply = stranger.request(&about(line, &lease));
            refused(name, access, &reply);
        }
    }
    untouched(&mut all, &before, &lease);
}

#[test]
fn a_token_of_a_namespace_meets_nothing_of_the_others_by_any_command() {
    let server = locked();
    let mut all = as_one(&server, "all");
    let (lease, before) = (lease(&mut all), seen(&mut all));
    let token = |name: &str, namespace: &str| Credential {
        name: name.to_owned(),
        sha256: Credential::hash(name),
        scopes: Scope::ALL.to_vec(),
        policies: Vec::new(),
        namespace: Some(namespace.to_owned()),
    };
    let tokens = [token("all", "*"), token("of-used", "used")];
    server.service.replace_credentials(tokens);
    for (_, access, line) in COMMANDS {
        if let Policy(_) | Parts(_) = access {
            as_one(&server, "of-used").request(&about(line, &lease));
        }
    }
    let mut of_used = as_one(&server, "of-used");
    for other in ["default", "old", "new"] {
        let reply = of_used.request(&format!("TG.USE {other}"));
        assert!(reply.starts_with("-NOPERM"), "{other}: {reply}");
    }
    untouched(&mut all, &before, &lease);
}

/// All events that the store keeps.
fn events(server: &TestServer) -> Vec<AuditEvent> {
    let all = server.service.enter(Some("all")).unwrap();
    let listing = AuditListing {
        most: Some(1_000),
        ..AuditListing::default()
    };
    match block_on(server.service.call(&all, Call::Audit(listing))).unwrap() {
        Answer::Audit(page) => page.items,
        other => panic!("{other:?}"),
    }
}

/// A command that is added, and administers, has to be named in [`EVENTS`].
#[test]
fn each_command_that_administers_leaves_exactly_one_event_and_no_other_leaves_any() {
    for (name, access, line) in COMMANDS {
        let server = locked();
        let mut all = as_one(&server, "all");
        let lease = lease(&mut all);
        let before = events(&server);
        let reply = all.request(&about(line, &lease));
        assert!(!reply.starts_with('-'), "{line}: {reply}");
        let mut events = events(&server);
        events.retain(|event| !before.contains(event));
        if access != Policy(Administer) {
            assert_eq!(events, [], "{line}");
            continue;
        }
        let named = EVENTS.iter().find(|(known, ..)| line.starts_with(known));
        let Some((_, action, [was, is])) = named else {
            panic!("{name} is not among the commands that leave an event: `{line}`");
        };
        let [event] = &events[..] else {
            panic!("{line} leaves {events:?}");
        };
        assert_eq!(event.action, *action, "{line}");
        let shown = [event.before.is_some(), event.after.is_some()];
        assert_eq!(shown, [*was, *is], "{line}: {event:?}");
        let from = (event.by.as_deref(), event.protocol.as_deref());
        assert_eq!(from, (Some("all"), Some("resp")), "{line}");
        let peer = event.peer.as_deref().unwrap_or_default();
        assert!(peer.starts_with("127.0.0.1:"), "{line}: {event:?}");
    }
}

#[test]
fn any_token_may_have_the_conversation() {
    let server = locked();
    for who in ["decide", "observe", "administer", "stranger"] {
        for (name, access, line) in COMMANDS {
            if access == Known {
                let reply = as_one(&server, who).request(line);
                assert!(!reply.starts_with('-'), "{who}: {name}: {reply}");
            }
        }
    }
}

/// That a reply refuses, or says nothing of `chat` where each part is by itself.
fn refused(name: &str, access: Access, reply: &str) {
    match access {
        Parts(_) => assert!(
            !reply.starts_with('-') && !reply.contains("chat"),
            "{name}: {reply}"
        ),
        _ => assert!(reply.starts_with("-NOPERM"), "{name}: {reply}"),
    }
}
