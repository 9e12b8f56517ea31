//! Changes of definitions that tell of themselves: the change and its event, or neither.

use std::sync::Arc;
use std::time::Duration;

use tidegate_conformance::{Beyond, Cut, Proxy, with_options};
use tidegate_store::core::Timestamp;
use tidegate_store::{Change, Defined, Definition, Event, Store, StoreError, block_on};

use super::{MOST, RETRIES, ROUNDS, hurried};

const OWNER: &str = "told";
const DAY: Duration = Duration::from_secs(86_400);

fn open(url: &str) -> Arc<dyn Store> {
    tidegate_url::open(url).expect("a server").store
}

fn change(key: &str, expected: u64) -> Change {
    let event = Event {
        subject: key.as_bytes().to_vec(),
        body: expected.to_string().into_bytes(),
        at: Timestamp::from_micros(0),
        lasts: DAY,
        most: 100_000,
        version: 0,
    };
    let definition = Definition::new(key, expected.to_string());
    Change::from(definition).expecting(expected).telling(event)
}

/// The version of what is there, and those of the events about it.
fn seen(store: &dyn Store, key: &str) -> (u64, Vec<u64>) {
    let there = block_on(store.definition(OWNER, key.as_bytes())).expect("an answer");
    let events = store.events(OWNER, Some(key.as_bytes()), None, 9, Timestamp::MIN);
    let events = block_on(events).expect("an answer").items;
    let versions = events.into_iter().map(|event| event.version).collect();
    (there.map_or(0, |there| there.version), versions)
}

/// One change, asked until it is answered; whether it was done, and that was not told.
fn one(straight: &dyn Store, cut: &dyn Store, key: &str) -> bool {
    let first = seen(straight, key);
    let asked = change(key, first.0);
    let told = block_on(cut.change(OWNER, asked.clone()));
    let unknown = matches!(told, Err(StoreError::Unavailable(_)));
    assert!(told.is_ok() || unknown, "{key}: {told:?}");
    let then = seen(straight, key);
    let is_done = then.0 != first.0;
    let mut expected = first.1;
    if is_done {
        expected.push(then.0);
    }
    assert_eq!(
        then.1, expected,
        "{key}: the change and its event, or neither"
    );
    if let Ok(told) = told {
        let version = then.0;
        let done = Defined::Done {
            changed: true,
            version,
        };
        assert_eq!(told, done, "{key}");
        return false;
    }
    // Who asks again finds what he wanted, or makes it now; the event is kept once.
    let again = (0..RETRIES).find_map(|_| block_on(cut.change(OWNER, asked.clone())).ok());
    let again = again.expect("it answers again");
    match is_done {
        true => {
            let kept = asked.definition.at_version(then.0);
            assert_eq!(again, Defined::Conflict(Some(kept)), "{key}");
            assert_eq!(seen(straight, key), then, "{key}");
        }
        false => {
            expected.push(seen(straight, key).0);
            assert!(again.is_changed(), "{key}: {again:?}");
            assert_eq!(seen(straight, key).1, expected, "{key}");
        }
    }
    is_done
}

fn is_kept_with_its_event_or_not(server: &Beyond) {
    cuts(server, false);
}

/// Of a store that finds out what has become of a change whose answer was lost, or not.
fn cuts(server: &Beyond, finds_out: bool) {
    let proxy = Proxy::to(server.port);
    let (from, to) = (server.port.to_string(), proxy.port().to_string());
    let straight = open(&with_options(&server.url, "deadline=60s"));
    let cut = open(&hurried(&server.url.replace(&from, &to)));
    one(&*straight, &*cut, "warm");
    let (mut untold, mut undone) = (0, 0);
    for round in 0..ROUNDS {
        for way in Cut::ALL {
            for request in 1..MOST {
                proxy.cut_at(request, way);
                let is_untold = one(&*straight, &*cut, &format!("{round} {way:?} {request}"));
                let was_cut = proxy.mend();
                untold += usize::from(is_untold);
                undone += usize::from(was_cut && !is_untold);
                if !was_cut {
                    break;
                }
            }
        }
        if (untold > 0 || finds_out) && undone > 0 {
            break;
        }
    }
    println!(
        "{}: {untold} were done and not told, {undone} not done at first, or told",
        server.url
    );
    assert_eq!(untold == 0, finds_out, "{untold}");
    assert!(undone > 0, "nothing was cut");
}

#[test]
fn a_change_that_is_cut_on_its_way_to_a_redis_is_kept_with_its_event_or_not() {
    Beyond::redis()
        .iter()
        .for_each(is_kept_with_its_event_or_not);
}

#[test]
fn a_change_that_is_cut_on_its_way_to_a_postgresql_is_kept_with_its_event_or_not() {
    let server = Beyond::postgres();
    server.iter().for_each(is_kept_with_its_event_or_not);
}

#[test]
fn a_change_that_is_cut_on_its_way_to_a_mariadb_is_kept_with_its_event_or_not() {
    let server = Beyond::mariadb();
    server.iter().for_each(is_kept_with_its_event_or_not);
}

#[test]
fn a_change_that_is_cut_on_its_way_to_a_dynamodb_is_kept_with_its_event_and_told() {
    Beyond::dynamodb()
        .iter()
        .for_each(|server| cuts(server, true));
}
