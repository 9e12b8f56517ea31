//! What the keys of a policy come to, at a server on each store.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tidegate_conformance::Beyond;

use crate::server::Server;

const POLICY: &str = "[policy.chat]\nkey = 'org/user'\n[policy.chat.limits]\n\
                      year = { budget = 50, per = '400d', level = 'org' }\n\
                      usd = { budget = '9.50', unit = '0.01', per = '400d', level = 'user' }\n";

const ROOTS: usize = 30;
const USERS: usize = 40;

#[test]
fn what_keys_in_memory_come_to_is_the_sum_of_what_each_tells() {
    is_the_sum("memory:");
}

#[test]
fn what_keys_in_redis_come_to_is_the_sum_of_what_each_tells() {
    Beyond::redis()
        .iter()
        .for_each(|store| is_the_sum(&store.url));
}

#[test]
fn what_keys_in_postgresql_come_to_is_the_sum_of_what_each_tells() {
    Beyond::postgres()
        .iter()
        .for_each(|store| is_the_sum(&store.url));
}

/// Adds up cents and whole numbers alike, in hundredths.
fn hundredths(amount: &Value) -> u64 {
    let text = amount
        .as_str()
        .map_or_else(|| amount.to_string(), str::to_owned);
    let (whole, parts) = text.split_once('.').unwrap_or((&text, ""));
    format!("{whole}{parts:0<2}").parse().expect("an amount")
}

fn is_the_sum(store: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("tidegate.toml"), POLICY).expect("written");
    let server = Server::start_in(folder, "127.0.0.1:0", &["--store", store]);
    let nothing = server.request(&["capacity", "-p", "chat"]).ends(0);
    assert_eq!(nothing.out, "no key is in use\n");
    let checks = (0..ROOTS * USERS).map(|nth| {
        let key = format!("org{}/user{nth}", nth % ROOTS);
        let cents = nth % 900 + 1;
        let usd = format!("{}.{:02}", cents / 100, cents % 100);
        json!({"key": key, "amounts": {"usd": usd, "year": 1}}).to_string() + "\n"
    });
    let file = server.path("checks.jsonl");
    std::fs::write(&file, checks.collect::<String>()).expect("written");
    let file = file.display().to_string();
    server.request(&["check-many", "-p", "chat", &file]).ends(0);
    let keys = server.request(&["keys", "-p", "chat", "--json", "--most", "0"]);
    let mut sums = BTreeMap::<&str, [u64; 3]>::new();
    for line in keys.ends(0).out.lines() {
        let key: Value = serde_json::from_str(line).expect("JSON");
        let own = match key["key"].to_string().contains('/') {
            true => "usd",
            false => "year",
        };
        let standing = &key["limits"][own];
        let sum = sums.entry(own).or_default();
        let more = [
            1,
            hundredths(&standing["limit"]),
            hundredths(&standing["remaining"]),
        ];
        sum.iter_mut()
            .zip(more)
            .for_each(|(sum, more)| *sum += more);
    }
    let told = server
        .request(&["capacity", "-p", "chat", "--json"])
        .ends(0)
        .json();
    assert_eq!(told["keys"], ROOTS * USERS + ROOTS);
    for (limit, level) in [("year", "org"), ("usd", "user")] {
        let one = &told["limits"][limit];
        let found = [
            one["keys"].as_u64().expect("a number"),
            hundredths(&one["capacity"]),
            hundredths(&one["available"]),
        ];
        assert_eq!(found, sums[limit], "{limit}: {told}");
        assert_eq!(one["level"], level);
    }
    let roots = server
        .request(&["capacity", "-p", "chat", "--level", "org"])
        .ends(0)
        .out;
    assert_eq!(
        roots,
        "year  (org)  30 keys  300 of 1500 available  80.0 % used\n"
    );
    let one = ["capacity", "-p", "chat", "--prefix", "org7/", "--json"];
    let one = server.request(&one).ends(0).json();
    assert_eq!(one["limits"]["usd"]["keys"], USERS);
    server
        .request(&["capacity", "-p", "chat", "--level", "team"])
        .ends(2);
    server.request(&["capacity", "-p", "nobody"]).ends(6);
}
