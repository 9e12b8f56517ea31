//! A server that is behind: it does not know a limit that another counts, and both are
//! asked for one key.

use std::sync::Arc;

use tidegate_core::{Align, Bucket, Log, Ring, Rule, Slots, Span, Window};
use tidegate_store::{Ending, Plan, PlanLimit, Verb};

use super::fixture::{Fixture, plan, table_name};
use crate::subject::{Skipped, Subject};

const HOUR: Span = Span::from_secs(3_600);
/// In the microseconds that a clock passes.
const HOUR_MICROS: i64 = 3_600_000_000;

/// What both know, and grants more than is requested.
fn ample() -> Rule {
    Rule::Bucket(Bucket::new(100_000, HOUR, 100_000).expect("a sound rate"))
}

fn slots(count: u64) -> Rule {
    Rule::Slots(Slots::new(count, HOUR).expect("sound slots"))
}

/// Of each kind of rate one that grants so many in an hour.
fn hourly(count: u64) -> [Rule; 4] {
    [
        Rule::Bucket(Bucket::new(count, HOUR, count).expect("a sound rate")),
        Rule::Window(Window::new(count, Align::FirstUse(HOUR)).expect("a sound window")),
        Rule::Ring(Ring::new(count, HOUR, 4).expect("a sound ring")),
        Rule::Log(Log::new(count, HOUR, 99).expect("a sound log")),
    ]
}

/// Two servers of one table; the second opens it when the first has.
fn servers(subject: &Subject, first: &[(usize, Rule)], second: &[(usize, Rule)]) -> [Fixture; 2] {
    let (store, name) = (subject.fresh(), table_name());
    let levels = 2;
    let first = Fixture::remembering(&*store, &name, plan(0, levels, first));
    let second = Fixture::remembering(&*store, &name, plan(0, levels, second));
    second.number_from(1_000);
    pass([&first, &second], 1);
    [first, second]
}

fn pass(fixtures: [&Fixture; 2], micros: i64) {
    fixtures.iter().for_each(|fixture| fixture.pass(micros));
}

/// How many of so many requests for `key` it admits, where another has one in between.
fn admitted(fixture: &Fixture, other: &Fixture, key: &[u8], asks: usize) -> usize {
    let one = |fixture: &Fixture| {
        let amounts = vec![1; fixture.plan.limits().len()];
        fixture.admits(key, &amounts)
    };
    let answers = (0..asks).map(|_| {
        one(other);
        one(fixture)
    });
    answers.filter(|admitted| *admitted).count()
}

fn shared(subject: &Subject) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    match subject.abilities().shared {
        true => Ok(()),
        false => Err("it serves one process at a time"),
    }
}

/// Whether the other is older, or newer and has let the limit go.
pub(super) fn a_limit_that_one_server_does_not_know_is_counted_through_it(
    subject: &Subject,
) -> Result<(), Skipped> {
    shared(subject)?;
    for rule in hourly(5) {
        for (level, key) in [(0, &b"k"[..]), (0, b"k/x"), (1, b"k/x")] {
            let (less, more) = ([(0, ample())], [(0, ample()), (level, rule)]);
            let [behind, ahead] = servers(subject, &less, &more);
            assert_eq!(admitted(&ahead, &behind, key, 20), 5, "{rule:?} was added");
            // It is forgotten when its own time has come, and no sooner.
            pass([&behind, &ahead], 2 * HOUR_MICROS);
            assert_eq!(admitted(&ahead, &behind, key, 20), 5, "{rule:?} later");

            let [behind, ahead] = servers(subject, &more, &less);
            let again = admitted(&behind, &ahead, key, 20);
            assert_eq!(again, 5, "{rule:?} was removed, at {level} of {key:?}");
        }
    }
    Ok(())
}

pub(super) fn a_key_keeps_its_own_limit_through_a_server_that_does_not_know_it(
    subject: &Subject,
) -> Result<(), Skipped> {
    shared(subject)?;
    for (rule, own) in hourly(5).into_iter().zip(hourly(8)) {
        let [behind, mut ahead] = servers(
            subject,
            &[(0, ample())],
            &[(0, ample()), (0, rule), (1, rule)],
        );
        ahead.give(&[(b"k", &[ample(), own]), (b"k/x", &[own])]);
        assert_eq!(admitted(&ahead, &behind, b"k/x", 20), 8, "{own:?}");
        assert_eq!(ahead.left(b"k/x")[1..], [0, 0], "{own:?}");
    }
    Ok(())
}

/// However often it changed meanwhile: a server two versions behind is carried past.
pub(super) fn a_server_two_versions_behind_makes_no_limit_begin_anew(
    subject: &Subject,
) -> Result<(), Skipped> {
    shared(subject)?;
    for rule in hourly(5) {
        let (less, more) = ([(0, ample())], [(0, ample()), (0, rule)]);
        let [behind, mut ahead] = servers(subject, &more, &less);
        ahead.change(&more);
        pass([&behind, &ahead], 1);
        let asks = (0..40).map(|ask| [&ahead, &behind][ask % 2].admits(b"k", &[1, 1]));
        assert_eq!(asks.filter(|admitted| *admitted).count(), 5, "{rule:?}");
    }
    Ok(())
}

pub(super) fn a_limit_that_all_have_let_go_counts_from_when_it_is_added_again(
    subject: &Subject,
) -> Result<(), Skipped> {
    shared(subject)?;
    for rule in hourly(5) {
        let (less, more) = ([(0, ample())], [(0, ample()), (0, rule)]);
        let [mut behind, mut ahead] = servers(subject, &less, &more);
        assert_eq!(admitted(&ahead, &behind, b"k", 20), 5);
        pass([&behind, &ahead], 1);
        for fixture in [&mut ahead, &mut behind] {
            fixture.change(&less);
            assert!(fixture.admits(b"k", &[1]));
        }
        for fixture in [&mut ahead, &mut behind] {
            fixture.change(&more);
        }
        let asks = (0..20).map(|ask| [&ahead, &behind][ask % 2].admits(b"k", &[1, 1]));
        assert_eq!(asks.filter(|admitted| *admitted).count(), 5, "{rule:?}");
        assert_eq!(ahead.left(b"k")[1], 0);
    }
    Ok(())
}

/// A change was followed as of an instant that was yet to come: a window was over by then, and
/// what a server does not know was spent by then, or was forgotten as if nobody had written it
/// since.
pub(super) fn a_clock_before_a_change_makes_no_limit_begin_anew(
    subject: &Subject,
) -> Result<(), Skipped> {
    shared(subject)?;
    for rule in hourly(5) {
        let (less, more) = ([(0, ample())], [(0, ample()), (0, rule)]);
        let [behind, ahead] = servers(subject, &more, &less);
        pass([&behind, &ahead], -2 * HOUR_MICROS);
        assert_eq!(admitted(&behind, &ahead, b"k", 20), 5, "{rule:?}");
    }
    for (rule, larger) in hourly(5).into_iter().zip(hourly(6)) {
        let [behind, ahead] = servers(subject, &[(0, rule)], &[(0, larger)]);
        pass([&behind, &ahead], -2 * HOUR_MICROS);
        let asks = (0..40).map(|ask| [&ahead, &behind][ask % 2].admits(b"k", &[1]));
        assert_eq!(asks.filter(|admitted| *admitted).count(), 6, "{rule:?}");
    }
    Ok(())
}

/// Its slots come back when they are given back there, and stay held if it is renewed there.
pub(super) fn a_lease_is_ended_and_renewed_by_a_server_that_does_not_know_its_limit(
    subject: &Subject,
) -> Result<(), Skipped> {
    shared(subject)?;
    for level in [0, 1] {
        let [behind, ahead] = servers(subject, &[(0, ample())], &[(0, ample()), (level, slots(2))]);
        let key = b"k/x";
        let [(first, _), (second, _)] = [5_000, 5_000].map(|ttl| ahead.hold(key, &[1, 1], ttl));
        assert!(behind.admits(key, &[1]));
        assert_eq!(ahead.left(key)[1], 0);
        behind
            .end(key, first, Ending::Release)
            .expect("the lease is there");
        let again = behind.end(key, first, Ending::Release);
        assert!(again.expect("an answer").repeated);
        assert_eq!(ahead.left(key)[1], 1, "one was given back, once");

        let until = behind.now() + Span::from_micros(20_000);
        let renewal = Verb::Renew { id: second, until };
        behind.execute(key, renewal).expect("it is held");
        pass([&behind, &ahead], 10_000);
        assert!(behind.admits(key, &[1]));
        assert_eq!(ahead.left(key)[1], 1, "the other one is held on");
        pass([&behind, &ahead], 10_000);
        assert!(behind.admits(key, &[1]));
        assert_eq!(ahead.left(key)[1], 2, "until it expires");
    }
    Ok(())
}

pub(super) fn a_reset_forgets_what_the_server_that_is_asked_does_not_know(
    subject: &Subject,
) -> Result<(), Skipped> {
    shared(subject)?;
    for rule in hourly(5) {
        let [behind, ahead] = servers(
            subject,
            &[(0, ample())],
            &[(0, ample()), (0, rule), (0, slots(3))],
        );
        let (id, _) = ahead.hold(b"k", &[1, 4, 1], HOUR_MICROS as u64);
        assert!(behind.admits(b"k", &[1]));
        behind.execute(b"k", Verb::Reset).expect("an answer");
        assert_eq!(
            ahead.left(b"k")[1..],
            [5, 2],
            "slots stay with their holder"
        );
        assert!(ahead.admits(b"k", &[1, 2, 0]));
        ahead
            .end(b"k", id, Ending::Cancel)
            .expect("the lease is there");
        assert_eq!(
            ahead.left(b"k")[1..],
            [3, 3],
            "what was reset comes back once"
        );
    }
    Ok(())
}

/// It expired under limits that the server which finds it has only read of, and they do not
/// say what keys have for themselves: it gave back by the limit of all other keys, of which
/// a unit weighs a thousand times as much here.
pub(super) fn what_expired_comes_back_by_its_keys_own_limit_whoever_finds_it(
    subject: &Subject,
) -> Result<(), Skipped> {
    shared(subject)?;
    let rate = |amount| Rule::Bucket(Bucket::new(amount, HOUR, 1_000).expect("a sound rate"));
    let (common, own) = (rate(1), rate(1_000));
    let refunding = {
        let plan = plan(0, 1, &[(0, common)]);
        let limit = PlanLimit {
            refund_on_expiry: true,
            ..plan.limits()[0].clone()
        };
        Arc::new(Plan::new(0, 1, vec![limit], plan.keep()))
    };
    let (store, name) = (subject.fresh(), table_name());
    let mut first = Fixture::remembering(&*store, &name, Arc::clone(&refunding));
    first.give(&[(b"k", &[own])]);
    assert!(first.admits(b"k", &[999]));
    first.hold(b"k", &[1], 5_000);
    let mut second = Fixture::remembering(&*store, &name, refunding);
    second.pass(10_000);
    second.change(&[(0, common), (0, ample())]);
    assert_eq!(second.left(b"k")[0], 1, "what others use is theirs");
    Ok(())
}

/// A server that has only read of a change does not know what a key has for itself by it, and
/// leaves the key's row as it is: one store forgot what the row retained all the same.
pub(super) fn a_change_that_is_passed_over_forgets_nothing_of_a_keys_own_row(
    subject: &Subject,
) -> Result<(), Skipped> {
    shared(subject)?;
    let rate = |amount| Rule::Bucket(Bucket::new(amount, HOUR, 100_000).expect("a sound rate"));
    for rule in hourly(5) {
        let (store, name) = (subject.fresh(), table_name());
        let open =
            |rules: &[(usize, Rule)]| Fixture::remembering(&*store, &name, plan(0, 2, rules));
        let knows = open(&[(0, ample()), (0, rule)]);
        let mut behind = open(&[(0, ample())]);
        behind.number_from(1_000);
        behind.give(&[(b"k", &[rate(90_000)])]);
        pass([&knows, &behind], 10);
        assert_eq!(admitted(&knows, &behind, b"k", 20), 5, "{rule:?}");
        assert!(behind.admits(b"k", &[1]));
        // After the row was written one change, of which the next server reads, and its own before.
        let mut changes = open(&[(0, rate(80_000))]);
        changes.pass(20);
        changes.change(&[(0, rate(70_000))]);
        assert!(changes.admits(b"other", &[1]));
        let next = open(&[(0, rate(60_000))]);
        assert!(next.admits(b"other", &[1]));
        pass([&knows, &next], 30);
        assert!(next.admits(b"k", &[1]));
        assert!(!knows.admits(b"k", &[1, 1]), "{rule:?} began anew");
    }
    Ok(())
}
