//! The store of a server against the suite: a server in this process, whose own is in memory.

mod support;

use std::sync::Arc;

use tidegate_conformance::suite;
use tidegate_memory::MemoryStore;

use support::Shared;
use support::offering::Offering;

static SERVERS: Shared<Offering> = Shared::new();

/// The subject.
macro_rules! servers {
    () => {{
        let start = || Some(Offering::start(Arc::new(MemoryStore::default())));
        let servers = SERVERS.get(start).expect("it starts");
        // The memory store that the server offers does.
        support::subject(support::open::remote, servers.url(), servers).drops_spent_state_early()
    }};
}

suite!(servers!());
