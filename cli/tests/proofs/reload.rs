//! The file changes while clients ask: to other limits, to nonsense, and back.
//! No client sees an error, and nobody begins anew.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::client::{Client, PROTOCOLS, Protocol, Request, Said};
use crate::server::{FILE, Server, folder, until};

/// How often it changes.
const CHANGES: usize = 45;

const UNITS: Request<'_> = Request {
    policy: "spent",
    key: "k",
    amounts: &[("units", 1)],
};
const FEW: Request<'_> = Request {
    policy: "scarce",
    key: "k",
    amounts: &[("few", 1)],
};
const SLOT: Request<'_> = Request {
    policy: "work",
    key: "k",
    amounts: &[("slots", 1)],
};

/// Limits of two sizes.
fn policies(large: bool) -> String {
    let (units, few, slots) = match large {
        true => (2_000_000_000, 300, 40),
        false => (1_000_000_000, 200, 20),
    };
    let window = "per = '400d', algorithm = 'first_use_window'";
    format!(
        "[policy.spent.limits]\nunits = {{ budget = {units}, {window} }}\n\
         [policy.scarce.limits]\nfew = {{ budget = {few}, {window} }}\n\
         [policy.work.limits]\nslots = {{ concurrency = {slots}, ttl = '1h' }}\n"
    )
}

/// No file of policies, each in its own way.
const NONSENSE: [&str; 4] = [
    "",
    "[policy.spent.limits]\nunits = { budget = 'many', per = '400d' }\n",
    "[policy.spent.limits\n",
    "[policy.spent.limits]\nunits = { budget = 5, per = '1h' }\ncalls = { calls = 0 }\n",
];

/// Replaces the file at once, as an orchestrator does.
fn write(folder: &Path, text: &str) {
    let new = folder.join("new");
    std::fs::write(&new, text).expect("written");
    std::fs::rename(new, folder.join(FILE)).expect("replaced");
}

#[derive(Default)]
struct Counted {
    units: AtomicU64,
    few: AtomicU64,
    stop: AtomicBool,
}

impl Counted {
    fn request(&self, client: &mut dyn Client) {
        while !self.stop.load(Ordering::SeqCst) {
            assert_eq!(client.check(UNITS).expect("no error"), Said::Yes);
            self.units.fetch_add(1, Ordering::SeqCst);
            if client.check(FEW).expect("no error") == Said::Yes {
                self.few.fetch_add(1, Ordering::SeqCst);
            }
            let lease = client.acquire(SLOT, None).expect("no error");
            let lease = lease.expect("six clients for twenty slots");
            let used = Request {
                amounts: &[],
                ..SLOT
            };
            assert!(!client.settle(used, &lease.id).expect("no error"));
        }
    }
}

/// Lets the others end also if this thread panics.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_file_that_changes_under_load_costs_nobody_an_error_or_a_budget() {
    let folder = folder(&policies(false));
    let server = Server::start(folder.path(), &[]);
    let counted = Counted::default();
    let mut observer = Protocol::Http.enter(&server).expect("it listens");
    let clients = PROTOCOLS.iter().flat_map(|protocol| [*protocol; 2]);
    let clients: Vec<_> = clients.map(|protocol| protocol.enter(&server)).collect();
    thread::scope(|scope| {
        let stop = Stop(&counted.stop);
        for client in clients {
            let (mut client, counted) = (client.expect("it listens"), &counted);
            scope.spawn(move || counted.request(&mut *client));
        }
        for change in 0..CHANGES {
            let before = counted.units.load(Ordering::SeqCst);
            turn(&server, folder.path(), &mut *observer, change);
            until("an answer", || {
                counted.units.load(Ordering::SeqCst) > before
            });
        }
        until("all are spent", || {
            counted.few.load(Ordering::SeqCst) == 300
        });
        drop(stop);
    });
    // Policies are gone over to one after the other, in any order.
    for (request, limit, large) in [(SLOT, "slots", 40), (FEW, "few", 300)] {
        until("the larger limit", || {
            observer.peek(request).expect("no error")[limit].limit == large
        });
    }
    let mut used = |request: Request<'_>, limit: &str| {
        let standings = observer.peek(request).expect("no error");
        (standings[limit].limit, standings[limit].used())
    };
    let units = counted.units.into_inner();
    assert_eq!(used(UNITS, "units"), (2_000_000_000, units));
    assert_eq!(used(FEW, "few"), (300, 300));
    assert_eq!(counted.few.into_inner(), 300, "of 300");
    assert_eq!(used(SLOT, "slots"), (40, 0));
}

/// Small, nonsense, large, in turns; nonsense leaves what was there before.
fn turn(server: &Server, folder: &Path, observer: &mut dyn Client, change: usize) {
    let mut limit = || observer.peek(UNITS).expect("no error")["units"].limit;
    match change % 3 {
        1 => {
            let (before, faults) = (limit(), server.logged("configuration not reloaded"));
            write(folder, NONSENSE[change / 3 % NONSENSE.len()]);
            server.hang_up();
            let noticed = || server.logged("configuration not reloaded") > faults;
            until("a fault", noticed);
            assert_eq!(limit(), before);
        }
        which => {
            let large = which == 2;
            write(folder, &policies(large));
            // On SIGHUP, or because the file has changed.
            if change.is_multiple_of(2) {
                server.hang_up();
            }
            let wanted = if large { 2_000_000_000 } else { 1_000_000_000 };
            until("other limits", || limit() == wanted);
        }
    }
}
