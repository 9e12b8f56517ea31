//! `INFO`: about the server, by the names that clients look for.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use super::shape::Flow;
use crate::error::Fault;
use crate::parse::Arguments;
use crate::session::Session;

/// Whose commands these are: what a client's check of a version wants to see.
const REDIS_VERSION: &str = "7.0.0";

pub(super) async fn info(session: &mut Session, arguments: Arguments<'_>) -> Result<Flow, Fault> {
    let policies = session
        .caller()
        .cloned()
        .map(|caller| session.service.policies(&caller))?;
    let mut text = String::new();
    let wanted = |name: &str| {
        let everything = ["all", "everything", "default", name];
        let says = |word: &[u8]| {
            everything
                .iter()
                .any(|w| word.eq_ignore_ascii_case(w.as_bytes()))
        };
        arguments.len() < 2 || arguments.from(1).any(says)
    };
    if wanted("server") {
        let version = env!("CARGO_PKG_VERSION");
        let _ = write!(
            text,
            "# Server\r\nredis_version:{REDIS_VERSION}\r\nredis_mode:standalone\r\n\
             tidegate_version:{version}\r\nprocess_id:{}\r\nloading:0\r\n",
            std::process::id()
        );
    }
    if wanted("clients") {
        let open = session.counts.open.load(Ordering::Relaxed);
        let seen = session.counts.seen.load(Ordering::Relaxed);
        let _ = write!(
            text,
            "# Clients\r\nconnected_clients:{open}\r\ntotal_connections_received:{seen}\r\n"
        );
    }
    if wanted("replication") {
        text.push_str("# Replication\r\nrole:master\r\n");
    }
    if wanted("policies") {
        let _ = write!(text, "# Policies\r\npolicies:{}\r\n", policies.len());
        for active in policies {
            let (name, waiting) = (&active.policy().name, active.waiting());
            let keys = active.keys().map(|keys| format!("keys={keys},"));
            let keys = keys.unwrap_or_default();
            let _ = write!(text, "policy_{name}:{keys}waiting={waiting}\r\n");
        }
    }
    session.replies.verbatim(&text);
    Ok(Flow::Next)
}
