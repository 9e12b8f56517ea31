//! A server whose store is away: answers by each policy's failure mode, and is
//! itself again when the store is.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_conformance::{Beyond, Paused, skip, with_options};
use tidegate_url::UrlError;

use crate::http::Http;
use crate::server::{FILE, Server, folder, until};

const POLICIES: &str = "[policy.deny.limits]\nrpm = { calls = 1_000_000, per = '1h' }\n\
    [policy.admit]\nfailure_mode = 'admit'\n\
    limits.rpm = { calls = 1_000_000, per = '1h' }\n\
    [policy.share]\nfailure_mode = 'share'\nshare = 50\n\
    limits.rpm = { calls = 8, per = '1h' }\n";

/// A request that the store is tried with waits for longer.
const A_TRY: Duration = Duration::from_millis(300);

struct House {
    http: Http,
}

impl House {
    fn check(&mut self, policy: &str, key: &str) -> (u16, Value) {
        let request = json!({"policy": policy, "key": key});
        self.http.post("/v1/check", &request).expect("an answer")
    }

    fn metric(&mut self, name: &str) -> f64 {
        self.http.metric(name).expect("it is there")
    }

    /// Whether the store cannot tell.
    fn is_away(&mut self) -> bool {
        self.check("deny", "k").0 == 503
    }

    /// How many of so many requests are admitted, all by a share; and how many took so long that
    /// they may have been sent to the store to try it, which executes them once it goes on.
    fn admitted_by_share(&mut self, key: &str) -> (usize, usize) {
        let (mut admitted, mut sent) = (0, 0);
        for _ in 0..20 {
            let begun = Instant::now();
            let (status, said) = self.check("share", key);
            assert_eq!(said["degraded"], true);
            admitted += usize::from(status == 200);
            sent += usize::from(begun.elapsed() > A_TRY);
        }
        (admitted, sent)
    }
}

#[test]
fn a_server_whose_redis_is_away_answers_by_the_failure_mode_and_is_itself_again() {
    Beyond::redis().iter().for_each(may_be_away);
}

#[test]
fn a_server_whose_postgresql_is_away_answers_by_the_failure_mode_and_is_itself_again() {
    Beyond::postgres().iter().for_each(may_be_away);
}

#[test]
fn a_server_whose_mariadb_is_away_answers_by_the_failure_mode_and_is_itself_again() {
    Beyond::mariadb().iter().for_each(may_be_away);
}

#[test]
fn a_server_whose_dynamodb_is_away_answers_by_the_failure_mode_and_is_itself_again() {
    // The command has this store where it is built with the feature, as with the whole workspace.
    if let Err(error @ UrlError::NotBuilt { .. }) = tidegate_url::check("dynamodb://t") {
        skip(&error.to_string(), "TIDEGATE_REQUIRE_DYNAMODB");
        return;
    }
    Beyond::dynamodb().iter().for_each(may_be_away);
}

fn may_be_away(store: &Beyond) {
    let folder = folder(POLICIES);
    let server = Server::start(folder.path(), &["--store", &store.url]);
    let mut house = House {
        http: Http::connect(server.http).expect("it listens"),
    };
    for _ in 0..5 {
        assert_eq!(house.check("share", "ann").0, 200);
    }
    assert_eq!(house.metric("tidegate_store_up"), 1.0);
    // It neither answers nor hangs up.
    let paused = Paused::new(store.pid);
    until("it is asked no longer", || {
        house.is_away()
            && server.logged("the store is unavailable; the circuit breaker is open") > 0
    });
    let (admitted, sent) = house.admitted_by_share("ann");
    assert_eq!(admitted, 4, "half of 8, begun anew");
    assert_eq!(house.admitted_by_share("bob").0, 4);
    let (status, said) = house.check("admit", "k");
    assert_eq!((status, &said["degraded"]), (200, &json!(true)));
    assert_eq!(house.metric("tidegate_store_up"), 0.0);
    let degraded = |policy: &str| format!("tidegate_degraded_total{{policy=\"{policy}\"}}");
    assert_eq!(house.metric(&degraded("admit")), 1.0);
    assert_eq!(house.metric(&degraded("share")), 40.0);
    assert_eq!(house.metric(&degraded("deny")), 0.0);
    let (_, said) = house.check("deny", "k");
    let words = said["detail"].as_str().expect("words").to_owned();
    assert!(words.contains("the store is unavailable"), "{words}");
    drop(paused);
    // One answer is enough to know, however few ask.
    until("it answers again", || !house.is_away());
    assert_eq!(house.metric("tidegate_store_up"), 1.0);
    until("the log says so", || {
        server.logged("the store answers again, it was unreachable for") > 0
    });
    until("all go by the store", || {
        house.check("share", "carl").1["degraded"] == false
    });
    // What was used before the outage is used; the share's asks were not charged.
    let more = (0..20).filter(|_| house.check("share", "ann").0 == 200);
    let more = more.count();
    assert!(
        more <= 3 && more + sent >= 3,
        "5 of 8 were used before: {more}, {sent}"
    );
}

/// It was logged, and never tried again: the file was not in force until somebody touched it.
#[test]
fn a_file_that_a_store_kept_from_coming_into_force_does_once_that_answers() {
    if let Some(store) = &Beyond::redis() {
        let folder = folder(POLICIES);
        let server = Server::start(folder.path(), &["--store", &store.url]);
        let mut house = House {
            http: Http::connect(server.http).expect("it listens"),
        };
        assert_eq!(house.check("deny", "k").0, 200);
        let paused = Paused::new(store.pid);
        let more = format!("{POLICIES}[policy.new.limits]\nrpm = {{ calls = 9, per = '1h' }}\n");
        std::fs::write(folder.path().join(FILE), more).expect("written");
        until("it cannot go over to it", || {
            server.logged("It is tried again until the store answers") > 0
        });
        assert_eq!(house.check("new", "k").0, 404);
        drop(paused);
        until("it goes over to it", || house.check("new", "k").0 == 200);
    }
}

/// On Redis the server hung for ever, and on PostgreSQL most of it was charged until its window ended.
#[test]
fn a_server_that_stops_gives_back_what_it_holds_of_many_keys() {
    const KEYS: usize = 1_500;
    let policy = "[policy.near]\ntier = { mode = 'leased', batch = 50, idle = '30s', hold = '60s' }\n\
        limits.rpm = { calls = 1_000, per = '400d', algorithm = 'fixed_window' }\n";
    let stores = [Beyond::redis(), Beyond::postgres()];
    for store in stores.iter().flatten() {
        let folder = folder(policy);
        // Not all that is sent at once is answered within a quarter of it.
        let with = ["--store", &with_options(&store.url, "deadline=3s")];
        let asked = |verb: &str, server: &Server, keys: usize| {
            let mut http = Http::connect(server.http).expect("it listens");
            let path = format!("/v1/{verb}");
            let mut ask = |key: usize| {
                let request = json!({"policy": "near", "key": format!("k{key}")});
                http.post(&path, &request).expect("an answer").1
            };
            (0..keys).map(&mut ask).collect::<Vec<_>>()
        };
        let mut server = Server::start(folder.path(), &with);
        asked("check", &server, KEYS);
        server.stop();
        let server = Server::start(folder.path(), &with);
        let left = asked("peek", &server, KEYS);
        let stranded = left
            .iter()
            .filter(|peek| peek["limits"]["rpm"]["remaining"] != json!(999));
        assert_eq!(stranded.count(), 0, "of {KEYS}: {}", left[0]);
    }
}
