//! Limits of every kind out of bytes: small enough to be used up, and now and
//! then of numbers that no limit may have.

use std::time::Duration;

use tidegate::{Algorithm, Limit, OnFailure, Period};

use crate::Feed;

/// What limits are called. The last is always a number of slots.
pub const NAMES: [&str; 5] = ["calls", "tokens", "money", "pages", RUNNING];

/// The limit whose slots are counted again by hand.
pub const RUNNING: &str = "running";

/// Some of the [`NAMES`], each with a limit.
pub fn limits(feed: &mut Feed<'_>) -> Vec<Limit> {
    let chosen = feed.byte();
    let chosen = (0..NAMES.len()).filter(|i| chosen >> i & 1 == 1);
    chosen.map(|i| limit(NAMES[i], feed)).collect()
}

/// A limit called `name`.
pub fn limit(name: &str, feed: &mut Feed<'_>) -> Limit {
    let capacity = capacity(feed);
    if name == RUNNING {
        return Limit::concurrency(name, capacity).ttl(length(feed));
    }
    let limit = match feed.choose(10) {
        0 => Limit::calls(name, capacity, length(feed)),
        1 => Limit::rate(name, capacity, length(feed)).burst(feed.amount()),
        2 => Limit::rate(name, capacity, length(feed)),
        3 => Limit::budget(name, capacity, length(feed)),
        4 => Limit::budget(name, capacity, calendar(feed)),
        5 => Limit::rate(name, capacity, length(feed)).algorithm(Algorithm::FirstUseWindow),
        6 | 7 => sliding(name, capacity, feed),
        _ => Limit::rate(name, capacity, length(feed))
            .algorithm(Algorithm::SlidingLog)
            .max_entries(2 + u32::from(feed.choose(6))),
    };
    flavoured(limit, feed)
}

fn sliding(name: &str, capacity: u64, feed: &mut Feed<'_>) -> Limit {
    let limit = Limit::rate(name, capacity, length(feed)).algorithm(Algorithm::SlidingWindow);
    limit.sub_windows(u32::from(feed.byte()))
}

fn flavoured(limit: Limit, feed: &mut Feed<'_>) -> Limit {
    match feed.choose(6) {
        0 => limit.shadow(),
        1 => limit.postpaid(),
        2 => limit.on_failure(OnFailure::Refund),
        3 => limit.at_level("org"),
        _ => limit,
    }
}

fn capacity(feed: &mut Feed<'_>) -> u64 {
    match feed.choose(8) {
        0 => feed.amount(),
        _ => 1 + u64::from(feed.choose(20)),
    }
}

fn calendar(feed: &mut Feed<'_>) -> Period {
    let zone = ["UTC", "Europe/Berlin", "Pacific/Apia"][usize::from(feed.choose(3))];
    match feed.choose(3) {
        0 => Period::day(zone),
        1 => Period::week(zone),
        _ => Period::month(zone),
    }
}

/// From nothing at all to more than any limit may have.
pub fn length(feed: &mut Feed<'_>) -> Duration {
    match feed.choose(8) {
        0 => Duration::from_micros(feed.amount()),
        1 => Duration::from_secs(86_400 * u64::from(feed.byte())),
        2 => Duration::from_micros(u64::from(feed.byte())),
        n => Duration::from_millis(u64::from(feed.byte()) << n),
    }
}
