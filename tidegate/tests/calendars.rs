//! Budgets that follow a calendar: daylight saving, weeks, months, and zones.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate::{
    Admission, BuildError, DecisionError, Limit, LimitError, LimitSet, ManualClock, Period,
    Request, Timestamp,
};

fn at(text: &str) -> Timestamp {
    let instant: jiff::Timestamp = text.parse().expect("an instant");
    Timestamp::from_micros(instant.as_microsecond())
}

/// Spends a budget at `from`; answers when it is said to come back, having
/// seen that it does then and not a microsecond before.
fn back_at(period: Period, from: &str) -> Timestamp {
    let time = ManualClock::starting_at(at(from));
    let set = LimitSet::builder()
        .limit(Limit::budget("b", 5, period))
        .clock(time.clock());
    let set = set.build().expect("a sensible limit");
    assert!(set.check("k", 5).wait().unwrap().admitted());
    let instant = set
        .check("k", 1)
        .wait()
        .unwrap()
        .not_until()
        .expect("not now");
    let wait = instant.since(at(from)).as_duration();
    time.advance(wait - Duration::from_micros(1));
    assert!(!set.check("k", 1).wait().unwrap().admitted());
    time.advance(Duration::from_micros(1));
    assert!(set.check("k", 5).wait().unwrap().admitted());
    instant
}

#[test]
fn a_day_ends_at_its_zones_midnight() {
    let berlin = || Period::day("Europe/Berlin");
    assert_eq!(
        back_at(berlin(), "2026-01-15T12:00:00Z"),
        at("2026-01-15T23:00:00Z")
    );
    assert_eq!(
        back_at(berlin(), "2026-07-15T12:00:00Z"),
        at("2026-07-15T22:00:00Z")
    );
    assert_eq!(
        back_at(Period::day("UTC"), "2026-07-15T12:00:00Z"),
        at("2026-07-16T00:00:00Z")
    );
}

#[test]
fn the_days_on_which_the_clocks_change_have_23_and_25_hours() {
    let berlin = || Period::day("Europe/Berlin");
    assert_eq!(
        back_at(berlin(), "2026-03-28T23:00:00Z"),
        at("2026-03-29T22:00:00Z")
    );
    assert_eq!(
        back_at(berlin(), "2026-10-24T22:00:00Z"),
        at("2026-10-25T23:00:00Z")
    );
}

/// In Santiago the clocks go forward at midnight: that day begins at one.
#[test]
fn a_day_whose_midnight_is_skipped_begins_after_the_gap() {
    let santiago = Period::day("America/Santiago");
    assert_eq!(
        back_at(santiago, "2026-09-05T12:00:00Z"),
        at("2026-09-06T04:00:00Z")
    );
}

#[test]
fn weeks_begin_on_monday_and_months_on_the_first() {
    let week = Period::week("Europe/Berlin");
    assert_eq!(
        back_at(week, "2026-11-21T12:00:00Z"),
        at("2026-11-22T23:00:00Z")
    );
    let month = || Period::month("Europe/Berlin");
    assert_eq!(
        back_at(month(), "2026-02-10T12:00:00Z"),
        at("2026-02-28T23:00:00Z")
    );
    assert_eq!(
        back_at(month(), "2028-02-10T12:00:00Z"),
        at("2028-02-29T23:00:00Z")
    );
}

#[test]
fn an_unknown_zone_is_named() {
    let error = LimitSet::new([Limit::budget("b", 5, Period::day("Europe/Nowhere"))]);
    let Err(BuildError::Limit { limit, source }) = error else {
        panic!("an error");
    };
    assert_eq!(limit, "b");
    assert_eq!(source, LimitError::UnknownZone("Europe/Nowhere".into()));
}

/// It asked with the windows of the day on which it came, and of the next. On the third
/// day it was counted in a window that was over: everyone who waited was admitted.
#[test]
fn requests_that_wait_for_days_are_admitted_as_many_as_each_day_has() {
    let time = ManualClock::default();
    let day = Limit::budget("day", 1, Period::day("UTC"));
    let set = LimitSet::builder().limit(day).clock(time.clock()).build();
    let set = set.expect("a sound limit");
    assert!(set.check("k", 1).wait().expect("an answer").admitted());
    let request = Request::from(1).within(Duration::MAX);
    let mut waiting: Vec<_> = (0..6)
        .map(|_| Box::pin(set.acquire("k", request)))
        .collect();
    let admitted = |waiting: &mut Vec<_>| {
        let before = waiting.len();
        waiting.retain_mut(|one| poll(one).is_none());
        // Those who were told to ask again have done so.
        waiting.retain_mut(|one| poll(one).is_none());
        before - waiting.len()
    };
    assert_eq!(admitted(&mut waiting), 0);
    for day in 1..=6 {
        time.advance(Duration::from_secs(24 * 3_600));
        assert_eq!(admitted(&mut waiting), 1, "day {day}");
    }
}

fn poll<F>(waiting: &mut Pin<Box<F>>) -> Option<Admission>
where
    F: Future<Output = Result<Admission, DecisionError>>,
{
    let mut context = Context::from_waker(Waker::noop());
    match waiting.as_mut().poll(&mut context) {
        Poll::Ready(told) => Some(told.expect("an answer")),
        Poll::Pending => None,
    }
}
