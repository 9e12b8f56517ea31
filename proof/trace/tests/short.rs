//! A quarter of an hour of the trace, in virtual time: what the table of the whole hour says of the
//! gateway holds for it, too.

use std::path::Path;
use std::time::Duration;

use tidegate_trace::course::Course;
use tidegate_trace::gateway::{Keeps, play};
use tidegate_trace::traffic::{self, Ask};

fn calls() -> Vec<Ask> {
    let path = "../../examples/traces/azure-llm-2023-code.csv";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    traffic::read(&path).expect("the trace")
}

/// It starts with four times what the provider admits; the limit is halved, and doubled, while callers
/// want 130 % of it.
#[test]
fn a_learnt_limit_is_used_up_and_hardly_ever_exceeded() {
    let course = Course::short(calls()).changing();
    let start = Keeps::Learnt(course.wrong_start());
    let numbers = play(&course, start, 1)
        .expect("it is played")
        .numbers(&course);
    // At most one in a thousand.
    assert!(numbers.refused * 1_000 <= numbers.asked, "{numbers:?}");
    assert_eq!(numbers.refused_though_told, 0, "{numbers:?}");
    assert!((0.95..=1.0).contains(&numbers.used), "{numbers:?}");
    let within_a_minute =
        |after: &Option<Duration>| after.is_some_and(|after| after <= Duration::from_secs(60));
    assert!(numbers.learnt.iter().all(within_a_minute), "{numbers:?}");
}

/// The provider does refuse who asks for too much, and the numbers tell.
#[test]
fn a_limit_that_is_set_too_high_is_refused() {
    let mut calls = calls();
    calls.retain(|call| call.at < Duration::from_secs(300));
    let course = Course::short(calls);
    let high = Keeps::Fixed(course.limit * 6 / 5);
    let numbers = play(&course, high, 1)
        .expect("it is played")
        .numbers(&course);
    assert!(numbers.refused > 20, "{numbers:?}");
    assert_eq!(numbers.refused, numbers.refused_though_told);
}

/// Whatever a call waits for here is a limit: the clock stands while anything else goes on.
#[test]
fn calls_wait_for_nothing_where_there_is_room() {
    let mut calls = calls();
    calls.truncate(300);
    let mut course = Course::short(calls);
    course.limit *= 1_000;
    let outcome = play(&course, Keeps::Learnt(course.limit), 1).expect("it is played");
    let numbers = outcome.numbers(&course);
    assert_eq!((numbers.refused, numbers.answered), (0, 1.0));
    assert!(numbers.waits.1 < Duration::from_millis(500), "{numbers:?}");
}
